"""The Python API without Ray: what callers hand over, what they get, what is refused."""

import doctest
import json
import re
import shutil
from importlib import import_module
from math import nan

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import zelo_ray
from tests import builders
from tests.builders import line_of, pool_of
from tests.crash import ROOT
from zelo_ray import (
    agree,
    annotate,
    bakeoff,
    compare_labels,
    convert,
    drift,
    explain,
    fit,
    load_run,
    measure,
    prompt,
)
from zelo_ray.commands.bakeoff.files import file_names
from zelo_ray.errors import InputError, OptionError, PanelError, ZeloError
from zelo_ray.memory import as_options

POOLS = [pool_of((0, 2, 1), query_id=f"q{n}") for n in range(6)]
ROWS = [
    {"query_id": p.query_id, "query": p.query, "doc_id": d.id, "content": d.content}
    for p in POOLS
    for d in p.documents
]
LINES = [json.loads(line_of(pool)) for pool in POOLS]
QRELS = {f"q{n}": {"d0": 0, "d1": 3, "d2": 1} for n in range(6)}
RUN = {f"q{n}": {"d0": 0.1, "d1": 0.9, "d2": 0.5} for n in range(6)}
WORSE = {f"q{n}": {"d0": 0.9, "d1": 0.5, "d2": 0.1} for n in range(6)}


@pytest.fixture(scope="module")
def paid(tmp_path_factory):
    """A directory whose ledger holds all that the offline judges say of the pools."""
    out = tmp_path_factory.mktemp("paid") / "out"
    builders.ask(POOLS, out, {}, judges=("offline",))
    return out


@pytest.fixture(scope="module")
def run(paid):
    return annotate(LINES, out=paid, judges="offline", progress=None)


def test_every_public_name_is_there_and_has_a_docstring():
    for name in zelo_ray.__all__:
        assert getattr(zelo_ray, name).__doc__, name
    assert set(zelo_ray.__all__) <= set(dir(zelo_ray))
    with pytest.raises(AttributeError, match="has no attribute 'anotate'"):
        _ = zelo_ray.anotate


@pytest.mark.parametrize("name", ["api", "results", "rerankers.custom"])
def test_the_examples_of_docstrings_run(name):
    found = doctest.testmod(import_module(f"zelo_ray.{name}"))
    assert found.attempted > 0
    assert found.failed == 0


NESTED = pd.DataFrame(
    {
        "query_id": [7, 7],
        "query": "how",
        "doc_id": np.array([1, 2], np.int32),
        "content": ["a", "b"],
        "score": [0.5, None],
        "metadata": [{"year": 2020}, None],
        "note": "left out",
    }
)


@pytest.mark.parametrize("form", ["pandas", "arrow", "rows", "json lines of pools", "pools"])
def test_a_value_in_memory_is_read_as_a_file_is(form, paid, run, tmp_path):
    frame = pd.DataFrame(ROWS)
    given = {
        "pandas": frame.set_index("doc_id"),
        "arrow": pa.Table.from_pandas(frame),
        "rows": ROWS,
        "json lines of pools": LINES,
        "pools": POOLS,
    }[form]
    (place,) = as_options({"inputs": given}, str(tmp_path))["inputs"]
    assert place.startswith(f"{tmp_path}/input/inputs-")
    assert as_options({"inputs": given}, str(tmp_path))["inputs"] == [place]
    found = annotate(given, out=tmp_path, judges="offline", progress=None)
    assert found.scores.to_arrow() == run.scores.to_arrow()


def test_scores_and_metadata_come_along_and_whole_numbers_are_ids(tmp_path):
    for number, given in enumerate((NESTED, pa.Table.from_pandas(NESTED))):
        out = tmp_path / str(number)
        annotate(given, out=out, judges="offline", progress=None)
        line = json.loads((out / "annotated.jsonl").read_text())
        assert line["query"] == {"id": "7", "query": "how"}
        first, second = line["documents"]
        assert (first["id"], first["metadata"], first["input_score"]) == ("1", {"year": 2020}, 0.5)
        assert second["id"] == "2"
        assert not {"metadata", "input_score"} & {*second}


def test_odd_values_of_frames_are_read_as_files_have_them(tmp_path):
    frame = pd.DataFrame(ROWS[:3]).assign(
        doc_id=[1, "b", 3], x=[1, "a", None], day=pd.Timestamp("2020-02-02"), score=[0.5, nan, 1]
    )
    for number, given in enumerate((frame, frame.to_dict("records"))):
        run = annotate(given, out=tmp_path / str(number), judges="offline", progress=None)
        assert {*run.scores.to_arrow()["doc_id"].to_pylist()} == {"1", "b", "3"}


def test_names_of_runs_in_memory_may_be_those_of_models(tmp_path):
    runs = {"BAAI/bge=x 50%": RUN, "mine": WORSE}
    contest = bakeoff(truth=QRELS, runs=runs, out=tmp_path, progress=None)
    assert {*contest.leaderboard.to_arrow()["ranker"].to_pylist()} == {*runs}
    with pytest.raises(InputError, match="runs: a name is empty"):
        bakeoff(truth=QRELS, runs={"": RUN}, out=tmp_path, progress=None)


@pytest.mark.parametrize(
    ("inputs", "says"),
    [
        (pd.DataFrame(ROWS).drop(columns="content"), "texts of documents"),
        (pd.DataFrame(ROWS).assign(doc_id=[None] + ["d"] * 17), "doc_id"),
        (pd.DataFrame(ROWS).assign(query_id=[0.5] * 18), "query_id"),
        (pd.DataFrame(ROWS).query_id, "cannot be a Series"),
        (["pools.jsonl", LINES[0]], "cannot mix paths and rows"),
        ([], "must not be empty"),
        ([1], "cannot be a int"),
        ([{"query": object()}], "object has no form in JSON"),
        (7, "cannot be a int"),
        ("-", "no such file"),
    ],
)
def test_inputs_that_are_none_are_told(tmp_path, inputs, says):
    with pytest.raises((InputError, OptionError), match=says):
        annotate(inputs, out=tmp_path / "out", judges="offline", progress=None)


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"judges": "ofline"}, "ofline"),
        ({"config": "missing.yaml"}, "missing.yaml: cannot be read"),
    ],
)
def test_options_that_make_no_sense_are_told(tmp_path, options, says):
    given = {"judges": "offline", **options}
    with pytest.raises((OptionError, PanelError), match=says):
        annotate(LINES, out=tmp_path / "out", progress=None, **given)


def test_options_come_from_a_file_too(paid, run, tmp_path):
    (tmp_path / "job.yaml").write_text(f"inputs: {paid}/input\nout: {paid}\njudges: [offline]\n")
    (shard,) = (paid / "input").iterdir()
    again = annotate(str(shard), config=tmp_path / "job.yaml", progress=None)
    assert again.options["judges"] == ["offline"]
    assert again.scores.to_pandas().equals(run.scores.to_pandas())  # NaN and all


def test_a_file_of_options_may_give_all_that_a_function_needs(paid, run, tmp_path):
    (tmp_path / "votes.csv").write_text("winner,loser\nx,y\ny,z\nx,z\nz,x\n")
    for function, text in (
        (explain, f"dir: {paid}\nquery: q1\n"),
        (fit, f"source: {tmp_path}/votes.csv\n"),
        (agree, f"sources: [{paid}]\nresamples: 0\n"),
        (prompt, f"out: {paid}\njudges: [offline]\n"),
        (convert, f"what: qrels\nsource: {paid}\nout: {tmp_path}/new.qrels\n"),
    ):
        (tmp_path / "job.yaml").write_text(text)
        assert function(config=tmp_path / "job.yaml", progress=None).record


def test_a_run_has_its_tables_its_summary_and_a_text(run, paid):
    assert run.complete
    assert run.out == str(paid)
    assert (run.summary["queries"], run.summary["scored"]) == (6, 18)
    assert len(run.scores) == 18
    assert len(run["votes"]) == run.summary["judgments"]
    assert len(run.failures) == len(run.rejected) == 0
    assert {"scores", "votes", "failures", "rejected"} <= set(dir(run))
    assert run.scores.to_pandas().groupby("query_id").score.sum().abs().max() < 1e-9
    with pytest.raises(AttributeError, match=r"no table 'grades'; tables are .*votes"):
        _ = run.grades
    assert dict(run.report.tiles)["documents scored"] == "18"
    assert repr(run).startswith("Relevance scores of 6 queries\n")
    assert "<pre>Relevance scores" in run._repr_html_()
    assert "<table" in run.scores._repr_html_()
    assert "18 rows in all" in repr(run.scores)
    assert "\n\nd1: score " in repr(explain(run, "q1", "d1", progress=None))
    assert len(explain(run.out, "q1", progress=None).record["scores"]) == 3


def test_the_same_call_asks_nothing_and_another_writes_another_shard(run, paid):
    again = annotate(POOLS, out=paid, judges=["offline"], progress=None)
    assert again.summary["dollars"] == 0
    assert [s["judgments"] for s in (again.summary, run.summary)] == [54, 54]


def test_silence_is_silent_and_else_the_terminal_is_told(paid, run, capfd):
    annotate(LINES, out=paid, judges="offline", progress=None)
    assert capfd.readouterr() == ("", "")
    annotate(LINES, out=paid, judges="offline")
    assert "nothing to do" in capfd.readouterr().err


def test_somebody_of_the_callers_is_told(paid, run):
    class Heard(list):
        def say(self, line):
            self.append(line)

        def budget(self, cap, spent):
            pass

        def show(self, tallies, planned):
            pass

    heard = Heard()
    annotate(LINES, out=paid, judges="offline", progress=heard)
    assert "on 6 queries, nothing to do" in heard[0]


def test_a_run_is_loaded_as_it_was_returned(paid, tmp_path):
    out = shutil.copytree(paid, tmp_path / "out")  # elsewhere nothing stands
    run = annotate(LINES, out=out, judges="offline", progress=None)
    loaded = load_run(out)
    assert repr(loaded) == repr(run)
    assert loaded.summary == run.summary
    assert loaded.options == run.options
    assert loaded.votes.to_arrow() == run.votes.to_arrow()
    assert loaded.write_report().endswith("out/report.html")


def test_a_run_that_is_not_finished_is_refused(tmp_path):
    out = builders.interrupted(tmp_path, builders.graded_pools(2, 3), 5)
    with pytest.raises(ZeloError, match="is not finished; run the same command again"):
        load_run(out)


@pytest.mark.parametrize("held", [None, "{}", '{"kind": "else"}', '{"options": 1, "summary": {}}'])
def test_a_directory_without_results_is_told(tmp_path, held):
    if held:
        (tmp_path / "run.json").write_text(held)
    with pytest.raises(ZeloError, match=str(tmp_path)):
        load_run(tmp_path)


def test_an_estimate_writes_nothing(tmp_path):
    told = annotate(LINES, out=tmp_path / "out", judges="offline", dry_run=True, progress=None)
    assert "6 queries" in repr(told)
    assert told.record["requests_left"] == 54
    assert not (tmp_path / "out").exists()


def test_runs_alone_are_a_contest(tmp_path):
    frame = pd.DataFrame(
        [
            {"query_id": q, "doc_id": d, "score": s}
            for q, own in WORSE.items()
            for d, s in own.items()
        ]
    )
    contest = bakeoff(
        truth=QRELS,
        runs={"good": RUN, "poor one": frame},
        out=tmp_path / "out",
        measures="nDCG@10",
        progress=None,
    )
    board = contest.leaderboard.to_pandas()
    assert board.ranker.tolist() == ["good", "poor one"]
    assert board["nDCG@10"][0] == 1 > board["nDCG@10"][1]
    assert len(contest.comparisons) == 1
    assert len(contest.metrics) == 24  # nDCG@10 and Pairs
    assert contest.complete
    loaded = load_run(tmp_path / "out")
    assert repr(contest).startswith(repr(loaded))
    assert loaded.report.lead == contest.report.lead
    assert loaded.leaderboard.to_pandas().equals(board)


def test_a_run_is_a_truth_and_annotated_lines_are_a_run(run, paid, tmp_path):
    contest = bakeoff(
        truth=run,
        runs={"itself": f"{paid}/annotated.jsonl", "worse": WORSE},
        out=tmp_path / "out",
        write_annotated=True,
        progress=None,
    )
    assert contest.leaderboard.to_pandas().ranker[0] == "itself"
    lines = (tmp_path / "out" / "annotated" / "worse.jsonl").read_text().splitlines()
    assert len(lines) == 6
    first = json.loads(lines[0])["documents"]
    assert [d["score"] for d in first] == [0.9, 0.5, 0.1]
    assert all("input_score" in d for d in first)
    annotated = measure(tmp_path / "out" / "annotated" / "worse.jsonl", paid, "zelo_nDCG@10")
    assert len(annotated) == 6


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"truth": 7, "runs": {"a": RUN}}, "truth: cannot be a int"),
        ({"truth": pd.DataFrame({"query_id": ["q"]}), "runs": {"a": RUN}}, "doc_id"),
        ({"truth": [{"query_id": "q", "doc_id": "d"}], "runs": {"a": RUN}}, "truth-"),
        ({"truth": QRELS, "runs": 7}, "runs: cannot be a int"),
        ({"truth": QRELS, "runs": {"a": [{"query_id": "q"}]}}, "doc_id"),
        ({"truth": QRELS, "rerankers": [7]}, "rerankers: int is a int"),
        ({"truth": QRELS, "runs": {"a": RUN}, "mesures": "P@1"}, "did you mean 'measures'"),
        ({"truth": QRELS, "runs": {"a": RUN}, "write_annotated": True}, "name the documents"),
    ],
)
def test_contests_that_make_no_sense_are_told(tmp_path, given, says):
    with pytest.raises((InputError, OptionError), match=says):
        bakeoff(**given, out=tmp_path / "out", progress=None)


def test_votes_become_scores_and_what_has_none_is_named():
    votes = pd.DataFrame(
        [
            *(("q1", "a", "b", -1, "x"), ("q1", "b", "c", 0, "x"), ("q2", "a", "b", 1, "y")),
            *(("q3", "a", "b", 1, "y"), ("q3", "c", "d", 1, "y")),
        ],
        columns=["query_id", "doc_id_a", "doc_id_b", "preference", "judge"],
    )
    fitted = fit(votes, progress=None)
    assert fitted.scores.to_pandas().doc_id.tolist() == ["a", "c", "b", "b", "a"]
    assert fitted.scores.to_pandas()["rank"].tolist() == [1, 2, 3, 1, 2]
    assert [*fitted.unscored] == ["q3"]
    assert (fitted.complete, fitted.status) == (False, 3)
    with pytest.raises(OptionError, match="prior_sd"):
        fit(votes, prior_sd=0, progress=None)


def test_the_fit_is_that_of_the_run(run):
    again = fit(run.votes, progress=None).scores.to_pandas()
    scores = run.scores.to_pandas()
    shared = [name for name in scores.columns if name in again.columns]
    assert shared == ["query_id", "doc_id", "score", "std_error", "comparisons", "rank"]
    pd.testing.assert_frame_equal(again[shared], scores[shared], rtol=0, atol=2e-12)


def test_metrics_by_query_and_their_means(tmp_path):
    qrels = pd.DataFrame([(q, d, r) for q, own in QRELS.items() for d, r in own.items()])
    qrels.columns = ["query_id", "doc_id", "relevance"]
    found = measure(RUN, qrels, ["nDCG@10", "P@1"])
    assert found.columns == ["query_id", "nDCG@10", "P@1"]
    assert found.means() == {"nDCG@10": 1.0, "P@1": 1.0}
    assert measure(WORSE, qrels, "P@1").means() == {"P@1": 0.0}
    assert "nDCG@10" in measure(RUN, QRELS).columns
    pq.write_table(pa.table(qrels.assign(score=qrels.relevance)), tmp_path / "mine.parquet")
    assert measure(tmp_path / "mine.parquet", qrels, "P@1").means() == {"P@1": 1.0}


def test_raters_agree_as_the_command_says(tmp_path):
    rng = np.random.default_rng(1)
    rows = [
        {"query_id": f"q{n % 8}", "doc_id": f"d{n}", "judge": judge, "grade": int(grade)}
        for n in range(40)
        for judge, grade in zip("abc", (n % 4, *rng.integers(0, 4, 2)), strict=True)
    ]
    told = agree(
        rows, out=tmp_path, coefficients=["kappa", "alpha-ordinal"], resamples=200, progress=None
    )
    assert told.agreement.to_pandas().low.notna().all()
    assert repr(told).startswith(repr(load_run(tmp_path)))
    alone = [{name: row[name] for name in ("query_id", "doc_id", "grade")} for row in rows[::3]]
    people = QRELS | {r["query_id"]: {r["doc_id"]: 1} for r in alone}
    named = agree({"anna": alone}, human=people, progress=None)
    assert named.agreement.to_pandas().rater_b.tolist()[0] == "anna"


def test_new_labels_are_compared(tmp_path):
    new = {q: {"d0": 3, "d1": 0, "d2": 1} for q in QRELS}
    found = compare_labels(
        old=QRELS, new=new, runs={"a": RUN, "b": WORSE}, out=tmp_path / "out", progress=None
    )
    assert found.leaderboards.to_pandas().run.tolist() == ["b", "a"]
    assert len(found.contradictions) == 12
    assert found.report.lead == load_run(tmp_path / "out").report.lead
    assert found.write_report().endswith("report.html")
    with pytest.raises(OptionError, match=r"mesure: no such option .did you mean 'measure'"):
        compare_labels(old=QRELS, new=new, mesure="P@1", progress=None)
    beside = compare_labels(old=QRELS, new=new, progress=None)
    assert len(beside.report.table("contradictions").rows) == 12
    with pytest.raises(OptionError, match="give out=DIR"):
        beside.write_report()


def test_every_function_takes_a_file(paid, run, tmp_path):
    def config(**options):
        place = tmp_path / "job.yaml"
        place.write_text(json.dumps({name: str(value) for name, value in options.items()}))
        return {"config": place, "progress": None}

    (tmp_path / "q.qrels").write_text("q1 0 d1 1\nq1 0 d2 0\nq2 0 d1 1\nq2 0 d0 0\n")
    same = {"old": paid, "new": paid}
    assert not drift(**config(**same)).moved
    assert len(agree(human=QRELS, **config(sources=paid)).outcomes)
    assert len(compare_labels(new=QRELS, **config(old=tmp_path / "q.qrels")).contradictions) == 0
    (shard,) = (paid / "input").glob("*.jsonl")
    judged = {"inputs": shard, "judges": "openai:m", "query": "q1"}
    assert prompt(**config(**judged)).query_id == "q1"
    assert prompt(out=run, query="q1", progress=None).query_id == "q1", "as its run has asked"
    converted = convert(**config(what="qrels", source=paid, out=tmp_path / "made.qrels"))
    assert converted.out.endswith("made.qrels")
    with pytest.raises(OptionError, match="inputs: is missing"):
        prompt(progress=None)
    with pytest.raises(InputError, match="-: no such file"):
        fit("-", progress=None)


def test_the_walk_through_tells_no_path_of_a_machine():
    text = (ROOT / "docs" / "quickstart.ipynb").read_text()
    assert '"output_type": "execute_result"' in text
    assert not re.search(r"/(tmp|home|root|work|usr|Users|var)/|site-packages", text)


def test_every_arm_has_a_file_of_its_own():
    names = ["cohere:v4", "cohere/v4", "../x", "A", "a", ""]
    assert file_names(names) == ["cohere_v4", "cohere_v4-2", "_x", "A", "a-2", "_"]
