"""Biases of judges, against counts done by hand, and simulations."""

from itertools import combinations, permutations, product

import numpy as np
import pyarrow as pa
import pytest

from tests.helpers.builders import agreement_of, write_lines
from zelo_ray.evaluation import votes

VOTES = pa.schema(
    [(name, pa.string()) for name in ("query_id", "doc_id_a", "doc_id_b", "judge")]
    + [("preference", pa.float64()), ("swapped", pa.bool_())]
)


def encoded(*rows, order=None):
    """Votes from rows ``query a b judge preference swapped``."""
    table = pa.table([list(column) for column in zip(*rows, strict=True)], schema=VOTES)
    return votes.encode_votes(table, order)


def test_who_is_shown_first():
    cast = encoded(
        ("q", "a", "b", "j", -0.2, False),  # a first, a wins
        ("q", "a", "b", "j", 0.5, True),  # b first, b wins
        ("q", "b", "a", "j", 1.0, True),  # a first, a wins
        ("q", "b", "a", "j", 1.0, False),  # b first, a wins
        ("r", "x", "y", "j", 0.0, False),
        ("r", "x", "y", "j", -1.0, None),
        ("r", "x", "y", "k", -1.0, True),  # y first, x wins
    )
    assert cast.query_ids == ["q", "r"]
    assert votes.count_first_shown(cast).tolist() == [
        [[1, 0, 3], [0, 1, 0]],
        [[0, 0, 0], [1, 0, 0]],
    ]
    # a has three votes of four; x as many as a tie has, from j, and the only one from k
    said = votes.judge_verdicts(cast)
    assert [[s for s in row if not np.isnan(s)] for row in said.tolist()] == [[1, 0], [1]]
    assert votes.panel_verdicts(said).tolist() == [1, 0]


def test_flips():
    """Counts of the same, of one turned round, and of a tie that became a win."""
    alone = [("q", "a", "c", "j", 1.0, False), ("q", "a", "c", "j", 1.0, None)]
    for one, other, expected in (
        (-0.5, -0.1, [1, 0, 0]),
        (-0.5, 0.1, [0, 1, 0]),
        (0.0, 0.1, [0, 0, 1]),
        (0.0, 0.0, [1, 0, 0]),
    ):
        for again in (("q", "b", "a", "j", -other, False), ("q", "a", "b", "j", other, True)):
            cast = encoded(("q", "a", "b", "j", one, False), again, *alone)
            assert votes.count_both_orders(cast).tolist() == [[expected]]


def test_circles_are_counted_as_by_hand():
    rng = np.random.default_rng(5)
    rows, expected = [], {}
    for query_id, size in (("q", 7), ("r", 2), ("s", 9)):
        names, word, count = [f"d{i}" for i in range(size)], {}, [0, 0, 0]
        for a, b in combinations(names, 2):
            if rng.random() < 0.8:
                word[a, b] = float(rng.integers(-1, 2))
                word[b, a] = -word[a, b]
                first, second = (b, a) if rng.random() < 0.5 else (a, b)
                rows.append((query_id, first, second, "j", -word[first, second], False))
        for triple in combinations(names, 3):
            if all(pair in word for pair in permutations(triple, 2)):
                wins = sorted(sum(word[d, e] > 0 for e in triple if e != d) for d in triple)
                tied = any(word[pair] == 0 for pair in permutations(triple, 2))
                count[2 if tied else 0 if wins == [1, 1, 1] else 1] += 1
        expected[query_id] = count
    cast = encoded(*rows)
    found = votes.count_circular(cast, votes.judge_verdicts(cast)[0])
    assert dict(zip(cast.query_ids, found.tolist(), strict=True)) == expected
    assert min(expected["s"]) > 0


def test_a_judge_is_measured_against_people_and_the_others(tmp_path):
    rng, grades, qrels = np.random.default_rng(3), [], []
    for q, d in product(range(20), range(30)):
        worth = int(rng.integers(0, 4))
        qrels.append(f"q{q} 0 d{d} {worth}\n")
        for judge, above in (("one", 0), ("two", 0), ("mild", 1)):
            grade = int(np.clip(round(worth + above + 0.5 * rng.normal()), 0, 9))
            grades.append({"query_id": f"q{q}", "doc_id": f"d{d}", "judge": judge, "grade": grade})
    place, human = write_lines(tmp_path / "grades.jsonl", grades), tmp_path / "human.qrels"
    human.write_text("".join(qrels))
    words = (place, "--levels", 10, "--coefficients", "kappa", "--thresholds", 5)
    results = agreement_of(*words, "--human", human)
    found = {(r["of"], r["against"]): r for r in results.figures if r["what"] == "leniency"}
    for key, value in ((("mild", "human"), 1), (("one", "human"), 0), (("mild", "others"), 1)):
        assert found[key]["value"] == pytest.approx(value, abs=0.1), key
        assert found[key]["low"] < found[key]["value"] < found[key]["high"]
    assert (found["mild", "human"]["items"], found["mild", "human"]["queries"]) == (600, 20)
    rows = [row for row in agreement_of(*words).figures if row["what"] == "leniency"]
    assert {row["against"] for row in rows} == {"others"}
