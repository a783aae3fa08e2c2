"""``agree`` of two sets of labels: the order of runs, effect sizes, and where they differ."""

import json
import math

import numpy as np
import pyarrow.parquet as pq
import pytest

from tests.helpers.builders import agreement_of, write_lines
from zelo_ray.cli import main
from zelo_ray.commands.agree.orders import MEAN, find_differing
from zelo_ray.errors import InputError, OptionError
from zelo_ray.files.tables import table_of
from zelo_ray.records import GradedScore, Qrel, Ranked

QUERIES, DOCUMENTS = 12, 6


def means(results, rater):
    rows = results.rows("figures", scale=MEAN, against=rater)
    return {row["of"]: row["value"] for row in rows}


def write_qrels(path, **grades):
    path.write_text("".join(f"q{q} 0 {d} {g}\n" for q in range(6) for d, g in grades.items()))
    return path


@pytest.fixture
def place(tmp_path):
    """Rows with one positive each, a graded run that loves what is last, and three runs."""
    rows, scores, lines = [], [], []
    runs = {"old-lover": [], "new-lover": [], "noise": []}
    rng = np.random.default_rng(3)
    for q in range(QUERIES):
        texts = [f"positive {q}", *(f"negative {q} {n} " + "of many words " * 9 for n in range(5))]
        rows.append({"query": f"question {q}?", "positive": texts[:1], "negative": texts[1:]})
    write_lines(tmp_path / "rows.jsonl", rows)
    pools = tmp_path / "pools.jsonl"
    assert main(["convert", "pool", str(tmp_path / "rows.jsonl"), "--out", str(pools)]) == 0
    for line in map(json.loads, pools.read_text().splitlines()):
        query_id = line["query"]["id"]
        for document in line["documents"]:
            # By the panel, what the rows call positive is marginal, and one negative is the best.
            name = document["content"].split()
            grade = 1 if name[0] == "positive" else 3 if name[2] == "4" else 0
            ids, score = (query_id, document["id"]), grade * 0.9 + 0.1
            scores.append(GradedScore(*ids, score, 0.2, 3, 1, grade, grade, 0.3, False))
            document["score"] = score
            for run, likes in (("old-lover", grade == 1), ("new-lover", grade == 3), ("noise", 0)):
                runs[run].append(Ranked(*ids, float(likes) + 0.1 * rng.random()))
        lines.append(line)
    (tmp_path / "out").mkdir()
    pq.write_table(table_of(scores, GradedScore), tmp_path / "out/scores.parquet")
    write_lines(tmp_path / "out/annotated.jsonl", lines)
    for name, ranked in runs.items():
        pq.write_table(table_of(ranked, Ranked), tmp_path / f"{name}.parquet")
    return tmp_path


@pytest.fixture
def words(place):
    runs = [place / f"{name}.parquet" for name in ("old-lover", "new-lover", "noise")]
    labels = [f"old={place / 'rows.jsonl'}", f"new={place / 'out/scores.parquet'}"]
    return [*labels, "--relevant", "old=1", "new=2", "--runs", *runs]


def test_a_benchmark_that_is_graded_anew(place, words):
    results = agreement_of(*words, "--out", place / "compared")
    assert results.complete
    old, new = means(results, "old"), means(results, "new")
    assert sorted(new, key=lambda run: -new[run]) == ["new-lover", "old-lover", "noise"]
    assert old["old-lover"] == 1.0
    assert new["new-lover"] == pytest.approx(1, abs=0.05)
    pairs = {frozenset((row["run_a"], row["run_b"])): row for row in results.effects}
    assert len(pairs) == 3
    lovers = pairs[frozenset(("old-lover", "new-lover"))]
    assert lovers["d_a"] * lovers["d_b"] < 0
    assert lovers["difference_a"] * lovers["difference_b"] < 0
    assert max(lovers["p_a"], lovers["p_b"]) < 0.05
    rows = [*results.differing]
    assert [(row["label_a"], row["best"]) for row in rows] == [(0, True), (1, False)] * QUERIES
    codes = [warn.code for warn in results.report.warnings]
    assert {"truth_changed", "contradiction"} <= {*codes}
    assert results.relevant == ("old", "new", 1, 2)


def test_without_runs_labels_are_compared_alone(words):
    alone = agreement_of(*words[:5])
    assert "effects" not in alone
    assert len(alone.differing) == 2 * QUERIES


def test_what_cannot_be_compared_is_refused(place, words):
    (place / "other.qrels").write_text("elsewhere 0 d 1\n")
    other = [words[0], f"new={place / 'other.qrels'}", *words[2:]]
    with pytest.raises(InputError):
        agreement_of(*other)
    for cuts in (("old=1",), ("old=1", "new=x"), ("old=1", "newer=2")):
        with pytest.raises((OptionError, ValueError)):
            agreement_of(*words[:2], "--relevant", *cuts)


def labels_of(truth):
    rows = [(q, d, float(r)) for q, docs in truth.items() for d, r in docs.items()]
    return table_of([Qrel(*row, math.nan) for row in rows], Qrel)


def test_where_labels_differ():
    """The worst queries first: those whose best is new; then by the distance from the cut."""
    old = {name: {"a": 1, "b": 0} for name in ("fine", "lost", "won", "shared", "none")}
    old = labels_of(old | {"only-old": {"a": 1}, "lost": {"a": 1, "b": 0, "gone": 1}})
    new = labels_of(
        {
            "fine": {"a": 2, "b": 1},
            "lost": {"a": 1, "b": 0},  # the best is still the positive
            "won": {"a": 2, "b": 3, "c": 2},
            "shared": {"a": 3, "b": 3},
            "none": {"a": 0, "b": 1},  # the best is a negative, but none is relevant
            "only-new": {"a": 3},
        }
    )
    found = find_differing(old, new, 1, 2).to_pylist()
    names = ("query_id", "doc_id", "label_b", "best")
    assert [tuple(row[name] for name in names) for row in found] == [
        ("won", "b", 3, True),
        ("won", "c", 2, False),
        ("none", "a", 0, False),
        ("lost", "a", 1, False),
        ("shared", "b", 3, False),
    ]
    assert math.isnan(found[1]["label_a"])


def test_each_side_has_a_lowest_relevant_label_of_its_own(place):
    """1 of two grades, 2 of four."""
    binary = write_qrels(place / "binary.qrels", a=1, b=0)
    graded = write_qrels(place / "graded.qrels", a=3, b=1, c=2)
    for labels, cut in ((binary, 1), (graded, 2)):
        results = agreement_of(f"one={labels}", "--human", labels)
        assert results.relevant == ("human", "one", cut, cut)
        assert "differing" not in results
    results = agreement_of(f"new={graded}", "--human", binary)
    assert {(row["doc_id"], math.isnan(row["label_a"])) for row in results.differing} == {
        ("c", True)
    }


def test_scores_of_a_run_of_votes_order_runs_too(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert main(["sample", "data"]) == 0
    judged = ["annotate", "data/sample", "--judges", "recorded:data/recordings", "--out", "judged"]
    assert main(judged) == 0
    runs = ("--runs", "data/bm25.run", "judged/annotated.jsonl")
    results = agreement_of("judged", "--human", "data/qrels.txt", *runs)
    assert results.rows("figures", of="scores of judged", what="tau-b")
    assert not agreement_of("judged", *runs).complete, "there is no other order to compare with"
