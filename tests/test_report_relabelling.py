"""The page of ``compare-labels``: who moved, which gaps are real, and what the labels deny."""

import numpy as np
import pytest

from tests.builders import set_in_file
from tests.test_report import page_of
from zelo_ray import cli

QUERIES, DOCUMENTS = 10, 6


def compare_labels(folder, runs=("up", "down", "still")):
    """Old labels like the first half of each pool, and new ones its second half."""
    folder.mkdir(exist_ok=True)
    labels = {"old": ([1, 1, 1, 0, 0, 0]), "new": ([0, 1, 2, 3, 3, 2])}
    for name, grades in labels.items():
        lines = [
            f"q{q} 0 d{q}-{d} {grade}\n" for q in range(QUERIES) for d, grade in enumerate(grades)
        ]
        (folder / f"{name}.qrels").write_text("".join(lines))
    rng = np.random.default_rng(5)
    likes = {"up": np.arange(6), "down": -np.arange(6), "still": np.array([0, 5, 5, 5, 0, 0])}
    for run in runs:
        lines = [
            f"q{q} Q0 d{q}-{d} 1 {likes[run][d] + rng.normal(0, 0.8):.4f} {run}\n"
            for q in range(QUERIES)
            for d in range(DOCUMENTS)
        ]
        (folder / f"{run}.run").write_text("".join(lines))
    words = [
        "--old",
        folder / "old.qrels",
        "--new",
        folder / "new.qrels",
        *set_in_file(resamples=200),
    ]
    if runs:
        words += ["--runs", *(folder / f"{run}.run" for run in runs)]
    out = folder / "out"
    assert cli.main(["compare-labels", *map(str, words), "--out", str(out)]) == 0
    return page_of(out)


def test_labels_without_runs_have_their_contradictions(tmp_path):
    page = compare_labels(tmp_path, runs=())
    assert list(page.sections)[1:] == ["contradictions"]
    assert "leads" not in page.words()


@pytest.mark.parametrize("runs", [("up",), ("up", "still")])
def test_few_runs_have_a_page(tmp_path, runs):
    page = compare_labels(tmp_path, runs=runs)
    assert ("siblings" in page.sections) == (len(runs) > 1)
