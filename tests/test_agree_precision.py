"""``agree``: precision, recall and F1 by verdict and grade, against sklearn."""

import math
from collections import defaultdict

import numpy as np
import pyarrow as pa
import pytest

from tests.builders import rows_of, write_lines
from zelo_ray.commands.agree.report import AGREE_REPORT
from zelo_ray.evaluation.agreement import ratings_of
from zelo_ray.evaluation.agreement.counts import count_pair
from zelo_ray.evaluation.agreement.intervals import draw_samples, interval
from zelo_ray.evaluation.agreement.precision import MEASURES, compute_precision

GRADES = pa.schema(
    [(name, pa.string()) for name in ("query_id", "doc_id", "judge")] + [("grade", pa.int64())]
)


def sklearns(people, judge, labels):
    """Precision, recall and F1 of each label; NaN where there is nothing to have a share of."""
    from sklearn.metrics import precision_recall_fscore_support

    found = precision_recall_fscore_support(people, judge, labels=labels, zero_division=np.nan)
    return np.array(found[:3]).T  # by label


def graded(seed=0, queries=12, judges=("good", "poor")):
    """Rows of people and judges who grade 0 to 3; nobody but the poor judge ever says 3."""
    rng = np.random.default_rng(seed)
    rows, said = [], defaultdict(dict)
    for q in range(queries):
        for d in range(rng.integers(2, 9)):
            truth = int(rng.integers(0, 3))
            noisy = [truth if rng.random() < 0.7 else int(rng.integers(0, 3))]
            noisy += [int(rng.integers(0, 4))]
            for judge, grade in zip(("human", *judges), (truth, *noisy), strict=False):
                if rng.random() < 0.9:
                    rows.append((f"q{q:02}", f"d{d}", judge, grade))
                    said[judge][f"q{q:02}", f"d{d}"] = grade
    return rows, said


def test_every_figure_is_sklearns_and_every_interval_that_of_brute_force():
    rows, said = graded()
    table = pa.table([list(column) for column in zip(*rows, strict=True)], schema=GRADES)
    ratings = ratings_of(table, 4)
    people = ratings.raters.index("human")
    for judge in ("good", "poor"):
        items = sorted(said["human"].keys() & said[judge].keys())
        queries = sorted({q for q, _ in items})
        counts = count_pair(ratings, people, ratings.raters.index(judge))
        found = [
            *compute_precision(judge, "0-3", counts, dict(enumerate("0123")), resamples=200, seed=7)
        ]
        assert len(found) == 4 * 3
        truth, own = (np.array([said[who][item] for item in items]) for who in ("human", judge))
        expected = sklearns(truth, own, range(4))
        of_query = np.array([queries.index(q) for q, _ in items])
        again = []
        for weights in draw_samples(len(queries), 200, 7).astype(int):
            rows_ = np.repeat(np.arange(len(items)), weights[of_query])
            again.append(sklearns(truth[rows_], own[rows_], range(4)))
        for one in found:
            at = int(one.label), MEASURES.index(one.measure)
            assert one.value == pytest.approx(expected[at], nan_ok=True)
            ends = interval(np.array([each[at] for each in again]), len(queries))
            assert (one.low, one.high) == pytest.approx(ends, nan_ok=True)
            assert one.said == (own == int(one.label)).sum()
            assert one.right == (truth == int(one.label)).sum()
            assert (one.items, one.queries) == (len(items), len(queries))


def test_grades_on_the_command_line(say, tmp_path):
    rows, said = graded(seed=1)
    names = ("query_id", "doc_id", "judge", "grade")
    of = [dict(zip(names, row, strict=True)) for row in rows]
    judges = write_lines(tmp_path / "j.jsonl", [row for row in of if row["judge"] != "human"])
    human = write_lines(tmp_path / "h.jsonl", [row for row in of if row["judge"] == "human"])
    words = ("--out", tmp_path / "out", "--thresholds", 2)
    assert say(judges, "--human", human, *words)[0] == 0
    found = rows_of(tmp_path / "out", "precision")
    assert {(row["scale"], row["label"]) for row in found} == {
        *(("0-3", str(grade)) for grade in range(4)),
        (">=2", ">=2"),
    }
    for row in found:
        items = said["human"].keys() & said[row["judge"]].keys()
        truth, own = (
            np.array([said[who][item] for item in items]) for who in ("human", row["judge"])
        )
        if row["scale"] == ">=2":
            truth, own = truth >= 2, own >= 2
        label = True if row["scale"] == ">=2" else int(row["label"])
        expected = sklearns(truth, own, [label])[0][MEASURES.index(row["measure"])]
        assert row["value"] == pytest.approx(expected, nan_ok=True)
    table = AGREE_REPORT.read(str(tmp_path / "out")).table("precision")
    assert [*table.columns[2:]] == ["precision", "recall", "F1", "by judge", "by people"]
    # The cut is what is asked most, and the better one comes first.
    assert [[cell.text for cell in row[:2]] for row in table.rows[:2]] == [
        ["good", ">=2"],
        ["poor", ">=2"],
    ]
    say(judges, "--human", human, "--out", tmp_path / "one", "--thresholds", "--resamples", 0)


def test_verdicts_of_mt_bench(say, tmp_path, published):
    folder = published / "mtbench_human"
    words = [f"gpt-4={folder}/gpt4_pair.jsonl", "--human", folder / "human.jsonl"]
    assert say(*words, "--people", "expert*", "--turn", 1, "--out", tmp_path)[0] == 0
    found = {(row["label"], row["measure"]): row for row in rows_of(tmp_path, "precision")}
    assert [*dict.fromkeys(label for label, _ in found)] == ["A is better", "a tie", "B is better"]
    outcomes = rows_of(tmp_path, "outcomes")
    [same] = [r for r in outcomes if (r["scale"], r["coefficient"]) == ("0-2", "agreement")]
    # What is the same is what is right, of every verdict.
    hits = sum(
        found[label, "recall"]["value"] * found[label, "recall"]["right"]
        for label in ("A is better", "a tie", "B is better")
    )
    assert hits == pytest.approx(same["value"] * same["items"])
    assert {row["items"] for row in found.values()} == {same["items"]}
    for row in found.values():
        assert row["low"] < row["value"] < row["high"]


def test_nothing_that_both_judged_has_no_precision(say, tmp_path):
    one = {"query_id": "q", "doc_id": "d", "judge": "j", "grade": 1}
    judges = write_lines(tmp_path / "j.jsonl", [one, one | {"doc_id": "e"}])
    human = write_lines(tmp_path / "h.jsonl", [one | {"judge": "p"}])
    say(judges, "--human", human, "--out", tmp_path / "some", "--levels", 2)
    rows = {(r["label"], r["measure"]): r["value"] for r in rows_of(tmp_path / "some", "precision")}
    assert rows["1", "f1"] == 1
    assert math.isnan(rows["0", "precision"])
    write_lines(tmp_path / "h.jsonl", [one | {"judge": "p", "query_id": "r"}])
    say(judges, "--human", human, "--out", tmp_path / "none")
    assert rows_of(tmp_path / "none", "precision") == []
