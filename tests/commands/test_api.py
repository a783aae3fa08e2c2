"""The Python API without Ray: what callers hand over, what they get, what is refused."""

import doctest
import json
import shutil
from importlib import import_module
from math import nan

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

import zelo_ray
from tests.helpers import builders
from tests.helpers.builders import line_of, pool_of
from zelo_ray import (
    annotate,
    bakeoff,
    explain,
    load_run,
    measure,
    prompt,
)
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


@pytest.mark.parametrize("name", ["api", "report.results"])
def test_the_examples_of_docstrings_run(name, tmp_path, monkeypatch):
    """Those that write results, too."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setitem(doctest.OPTIONFLAGS_BY_NAME, "SKIP", 0)
    found = doctest.testmod(import_module(f"zelo_ray.{name}"))
    assert found.attempted > 0
    assert found.failed == 0


# What is handed over


@pytest.mark.parametrize("form", ["pandas", "arrow", "rows", "json lines of pools", "pools"])
def test_a_value_in_memory_is_read_as_a_file_is(form, run, tmp_path):
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


def test_scores_metadata_and_odd_values_come_along(tmp_path):
    nested = pd.DataFrame(
        {
            "query_id": [7, 7],
            "query": "how",
            "doc_id": np.array([1, 2], np.int32),
            "content": ["a", "b"],
            "score": [0.5, None],
            "metadata": [{"year": 2020}, None],
        }
    )
    odd = pd.DataFrame(ROWS[:3]).assign(
        doc_id=[1, "b", 3], x=[1, "a", None], day=pd.Timestamp("2020-02-02"), score=[0.5, nan, 1]
    )
    for number, given in enumerate((nested, pa.Table.from_pandas(nested))):
        annotate(given, out=tmp_path / str(number), judges="offline", progress=None)
        line = json.loads((tmp_path / str(number) / "annotated.jsonl").read_text())
        first, second = line["documents"]
        assert (line["query"]["id"], first["id"], second["id"]) == ("7", "1", "2")
        assert (first["metadata"], first["input_score"]) == ({"year": 2020}, 0.5)
        assert not {"metadata", "input_score"} & {*second}
    for number, given in enumerate((odd, odd.to_dict("records"))):
        run = annotate(given, out=tmp_path / f"odd{number}", judges="offline", progress=None)
        assert {*run.scores.to_arrow()["doc_id"].to_pylist()} == {"1", "b", "3"}
    with pytest.raises(InputError, match="Out of range float"):
        as_options({"inputs": [{"query": "q", "score": float("inf")}]}, str(tmp_path))


FRAME = pd.DataFrame(ROWS)
NO_INPUTS = (
    (FRAME.drop(columns="content"), "holds no pools"),
    (FRAME.assign(doc_id=[None] + ["d"] * 17), "doc_id"),
    (FRAME.assign(query_id=[0.5] * 18), "query_id"),
    (FRAME.query_id, "cannot be a Series"),
    (["pools.jsonl", LINES[0]], "an item is a str, and not a dict"),
    ([], "inputs: "),
    ([1], "cannot be of the type int"),
    ([{"query": object()}], "object has no form in JSON"),
    (7, "cannot be of the type int"),
    ("-", "no such file"),
)
NO_CONTESTS = (
    ({"truth": 7, "runs": {"a": RUN}}, "truth: cannot be of the type int"),
    ({"truth": pd.DataFrame({"query_id": ["q"]}), "runs": {"a": RUN}}, "doc_id"),
    ({"truth": QRELS, "runs": {"a": [{"query_id": "q"}]}}, "doc_id"),
    ({"truth": QRELS, "runs": {"": RUN}}, "runs: a name is empty"),
    ({"truth": QRELS, "rerankers": [7]}, "rerankers: cannot be of the type int"),
    ({"truth": QRELS, "runs": {"a": RUN}, "mesures": "P@1"}, "did you mean 'measures'"),
    ({"truth": QRELS, "runs": {"a": RUN}, "write_annotated": True}, "name the documents"),
    ({"truth": QRELS, "runs": {"a": RUN}, "config": "missing.yaml"}, "missing.yaml: cannot be re"),
)


def test_what_makes_no_sense_is_told(tmp_path):
    out = tmp_path / "out"
    for inputs, says in NO_INPUTS:
        with pytest.raises((InputError, OptionError), match=says):
            annotate(inputs, out=out, judges="offline", progress=None)
    for given, says in NO_CONTESTS:
        with pytest.raises((InputError, OptionError), match=says):
            bakeoff(**given, out=out, progress=None)
    with pytest.raises(PanelError, match="ofline"):
        annotate(LINES, out=out, judges="ofline", progress=None)
    with pytest.raises(OptionError, match="inputs: is missing"):
        prompt(progress=None)


# What comes back


def test_a_run_has_its_tables_its_summary_and_a_text(run, paid):
    assert run.complete
    assert run.out == str(paid)
    assert (run.summary["queries"], run.summary["scored"]) == (6, 18)
    assert len(run["votes"]) == run.summary["judgments"]
    assert len(run.failures) == len(run.rejected) == 0
    assert {"scores", "votes", "failures", "rejected"} <= set(dir(run))
    with pytest.raises(AttributeError, match=r"no table 'grades'; tables are .*votes"):
        _ = run.grades
    assert run.report.tiles["documents scored"] == 18
    assert repr(run).startswith("Relevance scores of 6 queries\n")
    assert "<pre>Relevance scores" in run._repr_html_()
    assert "<table" in run.scores._repr_html_()
    assert "18 rows in all" in repr(run.scores)
    assert "\nd1: score " in repr(explain(run, "q1", "d1", progress=None))
    assert prompt(out=run, query="q1", progress=None).query_id == "q1", "as its run has asked"


def test_the_same_call_asks_nothing_and_says_so_where_it_is_heard(run, paid, capfd):
    class Heard(list):
        def say(self, line):
            self.append(line)

        def budget(self, cap, spent):
            pass

        def show(self, tallies, planned):
            pass

    heard = Heard()
    again = annotate(POOLS, out=paid, judges=["offline"], progress=heard)
    assert [s["judgments"] for s in (again.summary, run.summary)] == [54, 54]
    assert again.summary["dollars"] == 0
    assert "on 6 queries, nothing to do" in heard[0]
    annotate(LINES, out=paid, judges="offline", progress=None)
    assert capfd.readouterr() == ("", "")
    annotate(LINES, out=paid, judges="offline")
    assert "nothing to do" in capfd.readouterr().err


def test_a_run_is_loaded_as_it_was_returned(paid, tmp_path):
    out = shutil.copytree(paid, tmp_path / "out")  # elsewhere nothing stands
    run = annotate(LINES, out=out, judges="offline", progress=None)
    loaded = load_run(out)
    assert repr(loaded) == repr(run)
    assert (loaded.summary, loaded.options) == (run.summary, run.options)
    assert loaded.votes.to_arrow() == run.votes.to_arrow()
    assert loaded.write_report().endswith("out/report.html")


def test_what_is_no_finished_run_is_refused(tmp_path):
    (tmp_path / "half").mkdir()
    out = builders.interrupted(tmp_path / "half", builders.graded_pools(2, 3), 5)
    with pytest.raises(ZeloError, match="is not finished; run the same command again"):
        load_run(out)
    for text in (None, "{}", '{"kind": "else"}', '{"options": 1, "summary": {}}'):
        if text:
            (tmp_path / "run.json").write_text(text)
        with pytest.raises(ZeloError, match=str(tmp_path)):
            load_run(tmp_path)


def test_runs_of_any_name_are_a_contest(tmp_path):
    rows = [{"query_id": q, "doc_id": d, "score": s} for q in WORSE for d, s in WORSE[q].items()]
    runs = {"BAAI/bge=x 50%": RUN, "poor one": pd.DataFrame(rows)}
    out = tmp_path / "out"
    contest = bakeoff(truth=QRELS, runs=runs, out=out, measures="nDCG@10", progress=None)
    board = contest.leaderboard.to_pandas()
    assert board.run.tolist() == [*runs]
    assert board["mean"][0] == 1 > board["mean"][1]
    assert (len(contest.comparisons), len(contest.metrics)) == (1, 24)  # nDCG@10 and Pairs
    loaded = load_run(out)
    assert repr(contest).startswith(repr(loaded))
    assert loaded.leaderboard.to_arrow() == contest.leaderboard.to_arrow()


def test_metrics_by_query_and_their_means(tmp_path):
    rows = [(q, d, r) for q, own in QRELS.items() for d, r in own.items()]
    qrels = pd.DataFrame(rows, columns=["query_id", "doc_id", "relevance"])
    found = measure(RUN, qrels, ["nDCG@10", "P@1"])
    assert found.columns == ["query_id", "nDCG@10", "P@1"]
    assert found.means() == {"nDCG@10": 1.0, "P@1": 1.0}
    assert measure(WORSE, qrels, "P@1").means() == {"P@1": 0.0}
    assert "nDCG@10" in measure(RUN, QRELS).columns
    named = qrels.rename(columns={"relevance": "stars"})
    assert measure(RUN, named, "P@1", columns={"grade": "stars"}).means() == {"P@1": 1.0}
