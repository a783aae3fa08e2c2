"""The page of ``compare-labels``: who moved, which gaps are real, and what the labels deny."""

from itertools import pairwise

import numpy as np
import pyarrow.parquet as pq
import pytest

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
    words = ["--old", folder / "old.qrels", "--new", folder / "new.qrels", "--resamples", 200]
    if runs:
        words += ["--runs", *(folder / f"{run}.run" for run in runs)]
    out = folder / "out"
    assert cli.main(["compare-labels", *map(str, words), "--out", str(out)]) == 0
    return page_of(out)


def rows_of(folder, name):
    return pq.read_table(folder / f"out/{name}.parquet").to_pylist()


def test_leaderboards_stand_side_by_side(tmp_path):
    page = compare_labels(tmp_path)
    assert list(page.sections)[1:] == ["leaderboards", "siblings", "contradictions"]
    rows = rows_of(tmp_path, "leaderboards")
    [[_, figure]] = page.chart("leaderboards", 0)
    for axis, side in (("yaxis", "old"), ("yaxis2", "new")):
        order = sorted(rows, key=lambda row, side=side: -row[side])
        told = [f"{row[f'{side}_rank']} {row['run']}" for row in order]
        assert figure["layout"][axis]["ticktext"] == told
    sides = [trace for trace in figure["data"] if trace.get("name") == "moved up"]
    ups = [row["run"] for row in rows if row["moved"] > 0]
    assert [text.partition("<br>")[0] for text in sides[0]["text"][::3]] == ups
    left, right, gap = sides[0]["y"][:3]
    assert left > right
    assert gap is None
    table = {row[0]: row[1:] for row in page.table("leaderboards")[1:]}
    for row in rows:
        told = f"{row['moved']:+d}" if row["moved"] else "="
        assert table[row["run"]][0].startswith(f"{row['old']:.3f} [")
        assert table[row["run"]][-1] == told
    words = page.words()
    assert "down leads by the old labels, up by the new" in words
    assert " most: " in words


def test_gaps_stand_as_on_the_new_board(tmp_path):
    page = compare_labels(tmp_path)
    [[_, figure]] = page.chart("siblings", 0)
    means = {row["run"]: row["new"] for row in rows_of(tmp_path, "leaderboards")}
    order = sorted(means, key=lambda run: -means[run])
    names = [f"{a} over {b}" for a, b in pairwise(order)]
    assert figure["layout"]["yaxis"]["ticktext"] == names
    old, new = (trace["x"] for trace in figure["data"])
    assert all(value >= 0 for value in new)
    assert min(old) < 0, "the old labels have a pair the other way round"
    found = {frozenset((row["run_a"], row["run_b"])): row for row in rows_of(tmp_path, "siblings")}
    for row in page.table("siblings")[1:]:
        sibling = found[frozenset(row[:2])]
        said = {(1, 1): "both", (1, 0): "old", (0, 1): "new", (0, 0): "neither"}
        assert row[4] == said[sibling["old_apart"], sibling["new_apart"]]


def test_what_the_labels_deny_is_listed(tmp_path):
    page = compare_labels(tmp_path)
    head, *rows = page.table("contradictions")
    assert head[:4] == ["query", "document", "old", "now"]
    expected = [
        [row["query_id"], row["doc_id"], f"{row['kind']} ({row['old']:g})", f"{row['new']:g}"]
        for row in rows_of(tmp_path, "contradictions")
    ]
    shown = rows[: len(expected)]
    assert [row[:4] for row in shown] == expected[: len(shown)]
    assert len(rows) == min(12, len(expected))
    assert "in 10 of 10 queries; in 10 the best document was" in page.words()


def test_labels_without_runs_have_their_contradictions(tmp_path):
    page = compare_labels(tmp_path, runs=())
    assert list(page.sections)[1:] == ["contradictions"]
    assert "leads" not in page.words()


@pytest.mark.parametrize("runs", [("up",), ("up", "still")])
def test_few_runs_have_a_page(tmp_path, runs):
    page = compare_labels(tmp_path, runs=runs)
    assert ("siblings" in page.sections) == (len(runs) > 1)
