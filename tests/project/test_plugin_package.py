"""The package of the tutorial, ``docs/plugin``: installed by pip, it works by its plain names."""

import json
import os
import runpy
import shutil
import subprocess
import sys
from importlib.metadata import distributions

import numpy as np
import pytest

from tests.helpers.builders import rows_of
from tests.helpers.crash import ROOT, bare_environment
from tests.helpers.jobs import annotate, run_job
from zelo_ray import measure
from zelo_ray.evaluation.measures import parse_measure

pytestmark = pytest.mark.nightly

SOURCE = ROOT / "docs" / "plugin"
CODE = SOURCE / "src" / "zelo_ray_example"
POOL = {
    "query": {"id": "q1", "query": "remove a tick"},
    "documents": [
        {"id": "d1", "content": "The clock ticks."},
        {"id": "d2", "content": "How to remove a tick: pull it out by its head."},
        {"id": "d3", "content": "Ticks and fleas."},
    ],
}


@pytest.fixture(scope="module")
def packages(tmp_path_factory):
    """A folder into which pip has installed it."""
    folder = tmp_path_factory.mktemp("packages")
    source = shutil.copytree(SOURCE, tmp_path_factory.mktemp("source") / "plugin")
    offline = ("--no-deps", "--no-build-isolation", "--no-index", "--disable-pip-version-check")
    subprocess.run(
        [sys.executable, "-m", "pip", "install", "-q", *offline, "--target", folder, source],
        env=bare_environment(),
        check=True,
    )
    return folder


@pytest.mark.ray
def test_all_it_declares_works_in_the_actors_of_a_run(packages, tmp_path):
    pools = tmp_path / "pools.jsonl"
    pools.write_text(json.dumps(POOL) + "\n")
    answered, contest = tmp_path / "answered", tmp_path / "contest"
    environ = bare_environment() | {"PYTHONPATH": f"{ROOT}{os.pathsep}{packages}"}
    words = ("--protocol", "yes-no", "--judges", "offline", "--tone", "strict")
    status, printed = annotate(pools, answered, environ, *words, where="ray")
    assert status == 0, printed
    rankers = ("--rerankers", "original", "hashed-cosine", "--measures", "nDCG@10", "DCG@2")
    given = ("--truth", answered, "--out", contest)
    status, printed = run_job(environ, "bakeoff", *given, *rankers, where="ray")
    assert status == 0, printed
    assert [row["yes"] for row in rows_of(answered, "answers") if row["doc_id"] == "d2"] == [
        True
    ] * 3
    scores = {row["doc_id"]: row["score"] for row in rows_of(answered, "scores")}
    reranker = runpy.run_path(str(CODE / "hashed_cosine.py"))["HashedCosine"]()
    expected = reranker.score("remove a tick", [each["content"] for each in POOL["documents"]])
    run = {r["doc_id"]: r["score"] for r in rows_of(contest, "runs") if r["run"] == "hashed-cosine"}
    assert [run[f"d{n}"] for n in (1, 2, 3)] == pytest.approx(list(expected), abs=1e-6)
    order = sorted(run, key=lambda doc_id: -run[doc_id])
    (metric,) = (
        row["value"]
        for row in rows_of(contest, "metrics")
        if (row["run"], row["measure"]) == ("hashed-cosine", "DCG@2")
    )
    assert metric == pytest.approx(scores[order[0]] + scores[order[1]] / np.log2(3))
    (installed,) = distributions(name="zelo-ray-example", path=[str(packages)])
    for out in (answered, contest):
        versions = json.loads((out / "run.json").read_text())["versions"]
        assert versions["zelo-ray-example"] == installed.version


def test_its_measure_is_the_sum_that_its_linear_form_says():
    name = f"{CODE / 'dcg.py'}:MEASURE"
    truth = {"q": {"a": 3, "b": 1, "c": 0, "d": 2}}
    run = {"q": {"d": 4.0, "x": 3.0, "a": 2.0, "b": 1.0}}  # nobody judged x
    value = measure(run, truth, [f"{name}@3"]).to_pandas()[f"{name}@3"].item()
    assert value == pytest.approx(2 + 3 / np.log2(4))
    linear = parse_measure(f"{name}@3").linear
    assert value == pytest.approx(linear.discounts(3) @ linear.gains(np.array([2.0, 0.0, 3.0])))
