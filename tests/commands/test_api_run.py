"""The Python API on Ray: the example of the docstring, and rerankers that only a notebook knows."""

import json
import sys

import pytest

from tests.helpers import crash
from tests.helpers.crash import bare_environment, completed

pytestmark = [pytest.mark.ray, pytest.mark.nightly]

SCRIPT = """
import doctest
import json
from pathlib import Path

from zelo_ray import annotate, bakeoff, compare, load_run
from zelo_ray.ray.session import ray_session
from zelo_ray.options import AnnotateOptions


def words(query, documents):
    return [len(set(query.split()) & set(text.split())) for text in documents]


class Longest:
    version = "1"

    def __init__(self, sign=1):
        self.sign = sign

    def score(self, query, documents):
        return [self.sign * len(text) for text in documents]


def arms(rerankers):
    contest = bakeoff(
        truth=run,
        pools=pools,
        rerankers=rerankers,
        runs={"prod": {"q1": {"d1": 1, "d2": 2}}},
        out="contest",
        progress=None,
        write_annotated=True,
    )
    assert contest.complete, contest
    return contest.leaderboard.to_pandas().set_index("run")[["mean"]]


def asked():
    judges = json.loads(Path("contest/run.json").read_text())["judges"]
    return {name: tally["answered"] for name, tally in judges.items()}


with ray_session(AnnotateOptions(inputs=("-",), out="judged")):  # one Ray for all
    example = annotate.__doc__.replace("# doctest: +SKIP", "")
    test = doctest.DocTestParser().get_doctest(example, {}, "annotate", None, 0)
    assert not doctest.DocTestRunner().run(test, clear_globs=False).failed
    run, pools = test.globs["run"], test.globs["pools"]
    assert run.complete and len(run.votes) == 3

    rerankers = {"words": words, "longest": Longest, "shortest": Longest(-1), "as": "original"}
    first = arms(rerankers)
    assert {*first.index} == {*rerankers, "prod"}
    assert asked() == {"words": 1, "longest": 1, "shortest": 1}

    def words(query, documents):
        return [-len(set(query.split()) & set(text.split())) for text in documents]

    again = arms({**rerankers, "words": words})
    assert asked() == {"words": 1, "longest": 0, "shortest": 0}  # the others tell their version
    assert first.loc["words"].iloc[0] > again.loc["words"].iloc[0]
    assert first.drop("words").equals(again.drop("words").loc[first.drop("words").index])
    assert repr(load_run("contest")).startswith("Bake-off of ")

    people = {"q1": {"d1": 3, "d2": 0}}
    ways = {"try": ["protocol=graded"]}
    worth = compare(pools, human=people, judges="offline", out="worth", progress=None, **ways)
    assert [way["name"] for way in worth.record["ways"]] == ["zelo", "graded"]
    assert str(load_run("worth").report.tiles) == str(worth.report.tiles)  # of few, ends are NaN
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Where a script has run that uses the API as a notebook does, and what it printed."""
    folder = tmp_path_factory.mktemp("script")
    (folder / "script.py").write_text(SCRIPT)
    inside = f"os.chdir({str(folder)!r}); runpy.run_path('script.py', None, '__main__')"
    command = [sys.executable, "-c", f"import os, runpy; {inside}"]
    status, printed = completed(command, {**bare_environment(), "PYTHONPATH": str(crash.ROOT)})
    assert status == 0, printed
    return folder, printed


def test_silence_is_silent_on_ray_too(folder):
    assert folder[1] == ""


def test_the_scores_of_every_arm_are_written_into_its_pools(folder):
    written = {path.stem: path for path in (folder[0] / "contest" / "annotated").iterdir()}
    assert set(written) == {"words", "longest", "shortest", "as", "prod"}
    scores = {
        name: [document["score"] for document in json.loads(path.read_text())["documents"]]
        for name, path in written.items()
    }
    assert scores["shortest"] == [-28, -16]
    assert scores["words"] == [-2, 0]
    assert scores["prod"] == [1, 2]


def test_what_was_in_memory_lies_beside_the_results(folder):
    kept = sorted(path.name for path in (folder[0] / "contest" / "input").iterdir())
    assert len([name for name in kept if name.startswith("words-")]) == 2
    assert len([name for name in kept if name.startswith("pools-")]) == 1
