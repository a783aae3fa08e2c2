"""The Python API without Ray: what callers hand over, what they get, what is refused."""

import doctest
import json
import re
import shutil
import subprocess
import sys
from dataclasses import asdict
from importlib import import_module

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from zelo_ray.api.frames import pool_lines

import zelo_ray
from tests import builders
from tests.builders import line_of, pool_of
from tests.crash import ROOT
from zelo_ray import (
    Document,
    Pool,
    agree,
    annotate,
    bakeoff,
    compare_labels,
    estimate,
    fit_votes,
    load_run,
    measure,
)
from zelo_ray.api import store_inputs
from zelo_ray.commands.bakeoff.files import file_names
from zelo_ray.errors import InputError, OptionError, PanelError

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


@pytest.mark.parametrize(
    ("module", "heavy"),
    [
        ("zelo_ray", ("ray", "scipy", "pandas", "pyarrow")),
        ("zelo_ray.ray.coordinator", ("pydantic", "scipy", "pandas", "pyarrow", "numpy")),
    ],
)
def test_importing_it_imports_nothing_heavy(module, heavy):
    code = f"import sys, {module}; print([m for m in {heavy} if m in sys.modules])"
    told = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert told.stdout.strip() == "[]"


def test_every_public_name_is_there_and_has_a_docstring():
    for name in zelo_ray.__all__:
        assert getattr(zelo_ray, name).__doc__, name
    assert set(zelo_ray.__all__) <= set(dir(zelo_ray))
    with pytest.raises(AttributeError, match="has no attribute 'anotate'"):
        _ = zelo_ray.anotate


@pytest.mark.parametrize(
    "name",
    ["api.annotation", "api.comparisons", "api.in_memory", "api.tables", "rerankers.custom"],
)
def test_the_examples_of_docstrings_run(name):
    found = doctest.testmod(import_module(f"zelo_ray.{name}"))
    assert found.attempted > 0
    assert found.failed == 0


def test_rows_of_a_query_are_grouped_as_they_first_appear():
    rows = [*ROWS[3:5], *ROWS[:2], ROWS[5], ROWS[2]]
    frame = pd.DataFrame(rows, index=[f"row {n}" for n in range(len(rows))])
    found = [json.loads(line) for line in pool_lines(frame).splitlines()]
    assert [line["query"]["id"] for line in found] == ["q1", "q0"]
    assert [d["id"] for d in found[0]["documents"]] == ["d0", "d1", "d2"]


def test_scores_and_metadata_come_along_and_whole_numbers_are_ids():
    frame = pd.DataFrame(
        {
            "query_id": [7, 7],
            "query": "how",
            "doc_id": np.array([1, 2], np.int32),
            "content": ["a", "b"],
            "score": [0.5, None],
            "metadata": [{"year": 2020}, None],
            "session_id": "s",
            "note": "left out",
        }
    )
    for inputs in (frame, pa.Table.from_pandas(frame)):
        assert json.loads(pool_lines(inputs)) == {
            "query": {"id": "7", "query": "how", "session_id": "s"},
            "documents": [
                {"id": "1", "content": "a", "metadata": {"year": 2020}, "score": 0.5},
                {"id": "2", "content": "b"},
            ],
        }


def test_a_pool_keeps_its_metadata():
    pool = Pool("q", "how", (Document("d", "text", {"year": 1}),), "s")
    (line,) = pool_lines(pool).splitlines()
    assert json.loads(line)["documents"] == [
        {"id": "d", "content": "text", "metadata": {"year": 1}}
    ]
    assert json.loads(line)["query"]["session_id"] == "s"
    assert pool_lines(POOLS) == pool_lines(LINES)


@pytest.mark.parametrize(
    ("inputs", "says"),
    [
        (pd.DataFrame(ROWS).drop(columns="content"), "has no column 'content'; it has query_id"),
        (pd.DataFrame(ROWS).assign(doc_id=[None] + ["d"] * 17), "row 1: has no doc_id"),
        (pd.DataFrame(ROWS).assign(query_id=[0.5] * 18), "row 1: query_id is a float"),
        (
            pd.DataFrame(ROWS).assign(query=[str(n) for n in range(18)]),
            "a different text in an earlier row",
        ),
        (["pools.jsonl", LINES[0]], "cannot mix paths and pools"),
        ([], "must not be empty"),
        ([1], "item 1 is of type int"),
        ([{"query": object()}], "item 1 cannot be written as JSON"),
        (7, "cannot be a int"),
        ([{"query": {"id": "q"}}], "the input holds no pool"),
    ],
)
def test_inputs_that_are_none_are_told(tmp_path, inputs, says):
    with pytest.raises(InputError, match=says):
        annotate(inputs, out=tmp_path / "out", judges="offline", progress=None)


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"judges": "ofline"}, "ofline"),
        ({"dry_run": True}, "estimate"),
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
    assert again.options.judges == ("offline",)
    assert again.scores.to_pandas().equals(run.scores.to_pandas())  # NaN and all


def test_a_run_has_its_tables_its_summary_and_a_text(run, paid):
    assert run.complete
    assert run.out == str(paid)
    assert (run.summary.queries, run.summary.scored) == (6, 18)
    assert len(run.scores) == 18
    assert len(run.votes) == run.summary.judgments
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
    assert "\n\nd1: score " in repr(run.explain("q1", "d1"))
    assert run.explain("q1").count("score") >= 3


def test_the_same_call_asks_nothing_and_another_writes_another_shard(run, paid):
    again = annotate(POOLS, out=paid, judges=["offline"], progress=None)
    assert again.summary.dollars == 0
    assert [asdict(s)["judgments"] for s in (again.summary, run.summary)] == [54, 54]
    assert len(list((paid / "input").iterdir())) == 1


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
    assert loaded.options.judges == run.options.judges
    assert loaded.votes.to_arrow() == run.votes.to_arrow()
    assert loaded.write_report().endswith("out/report.html")


def test_a_run_that_is_not_finished_is_refused(tmp_path):
    out = builders.interrupted(tmp_path, builders.graded_pools(2, 3), 5)
    with pytest.raises(InputError, match="is not finished; run the same command again"):
        load_run(out)


@pytest.mark.parametrize("held", [None, "{}", '{"kind": "else"}', '{"options": 1, "summary": {}}'])
def test_a_directory_without_results_is_told(tmp_path, held):
    if held:
        (tmp_path / "run.json").write_text(held)
    with pytest.raises(InputError, match=str(tmp_path)):
        load_run(tmp_path)


def test_an_estimate_writes_nothing(tmp_path):
    told = estimate(LINES, out=tmp_path / "out", judges="offline")
    assert "6 queries" in repr(told)
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
    assert board.run.tolist() == ["good", "poor one"]
    assert board["nDCG@10"][0] == 1 > board["nDCG@10"][1]
    assert board.queries.tolist() == [6, 6]
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
    assert contest.leaderboard.to_pandas().run[0] == "itself"
    lines = (tmp_path / "out" / "annotated" / "worse.jsonl").read_text().splitlines()
    assert len(lines) == 6
    first = json.loads(lines[0])["documents"]
    assert [d["score"] for d in first] == [0.9, 0.5, 0.1]
    assert all("input_score" in d for d in first)
    annotated = measure(tmp_path / "out" / "annotated" / "worse.jsonl", paid, "nDCG(dcg='zelo')@10")
    assert len(annotated) == 6


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"truth": 7, "runs": {"a": RUN}}, "truth: cannot be a int"),
        ({"truth": pd.DataFrame({"query_id": ["q"]}), "runs": {"a": RUN}}, "no column 'doc_id'"),
        ({"truth": [{"query_id": "q", "doc_id": "d"}], "runs": {"a": RUN}}, "relevance, score or"),
        ({"truth": QRELS, "runs": 7}, "runs: write paths"),
        ({"truth": QRELS, "runs": {"a": [{"query_id": "q"}]}}, "runs, a: has no column 'doc_id'"),
        ({"truth": QRELS, "rerankers": [7]}, "rerankers: int is a int"),
        ({"truth": QRELS, "runs": {"a": RUN}, "mesures": "P@1"}, "did you mean 'measures'"),
        ({"truth": QRELS, "runs": {"a": RUN}, "write_annotated": True}, "name the documents"),
    ],
)
def test_contests_that_make_no_sense_are_told(tmp_path, given, says):
    with pytest.raises((InputError, OptionError), match=says):
        bakeoff(**given, out=tmp_path / "out", progress=None)


def test_files_are_named_by_what_they_hold(tmp_path):
    first = store_inputs.store_input(str(tmp_path), "my run/1", ".txt", b"one")
    assert store_inputs.store_input(str(tmp_path), "my run/1", ".txt", b"one") == first
    assert store_inputs.store_input(str(tmp_path), "my run/1", ".txt", b"two") != first
    assert first.startswith(f"{tmp_path}/input/my_run_1-")


def test_votes_become_scores_and_what_has_none_is_named():
    votes = pd.DataFrame(
        [
            *(("q1", "a", "b", -1, "x"), ("q1", "b", "c", 0, "x"), ("q2", "a", "b", 1, "y")),
            *(("q3", "a", "b", 1, "y"), ("q3", "c", "d", 1, "y")),
        ],
        columns=["query_id", "doc_id_a", "doc_id_b", "preference", "judge"],
    )
    scores = fit_votes(votes)
    assert scores.to_pandas().doc_id.tolist() == ["a", "c", "b", "b", "a"]
    assert scores.to_pandas()["rank"].tolist() == [1, 2, 3, 1, 2]
    assert list(scores.unscored) == ["q3"]
    assert len(fit_votes(votes.iloc[:0])) == 0
    with pytest.raises(ValueError, match="prior_sd"):
        fit_votes([], prior_sd=0)


def test_the_fit_is_that_of_the_run(run):
    again = fit_votes(run.votes).to_pandas()
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
    told = agree(rows, out=tmp_path, coefficients=["kappa", "alpha-ordinal"], resamples=200)
    assert told.agreement.to_pandas().low.notna().all()
    assert repr(told).startswith(repr(load_run(tmp_path)))
    alone = [{name: row[name] for name in ("query_id", "doc_id", "grade")} for row in rows[::3]]
    named = agree({"anna": alone}, human=QRELS | {r["query_id"]: {r["doc_id"]: 1} for r in alone})
    assert named.agreement.to_pandas().rater_b.tolist()[0] == "anna"


def test_new_labels_are_compared(tmp_path):
    new = {q: {"d0": 3, "d1": 0, "d2": 1} for q in QRELS}
    found = compare_labels(old=QRELS, new=new, runs={"a": RUN, "b": WORSE}, out=tmp_path / "out")
    assert found.leaderboards.to_pandas().run.tolist() == ["b", "a"]
    assert len(found.contradictions) == 12
    assert found.report.lead == load_run(tmp_path / "out").report.lead
    assert found.write_report().endswith("report.html")
    with pytest.raises(OptionError, match=r"mesure: no such option .did you mean 'measure'"):
        compare_labels(old=QRELS, new=new, mesure="P@1")
    beside = compare_labels(old=QRELS, new=new)
    assert len(beside.report.table("contradictions").rows) == 12
    with pytest.raises(OptionError, match="give out=DIR"):
        beside.write_report()


def test_the_walk_through_tells_no_path_of_a_machine():
    text = (ROOT / "docs" / "quickstart.ipynb").read_text()
    assert '"output_type": "execute_result"' in text
    assert not re.search(r"/(tmp|home|root|work|usr|Users|var)/|site-packages", text)


def test_every_arm_has_a_file_of_its_own():
    names = ["cohere:v4", "cohere/v4", "../x", "A", "a", ""]
    assert file_names(names) == ["cohere_v4", "cohere_v4-2", "_x", "A", "a-2", "_"]
