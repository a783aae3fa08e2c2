"""Labels that were drawn with unequal chances count 1 / probability where judges are compared."""

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.helpers.builders import agreement_of, write_lines
from tests.helpers.labelling import AT, sample
from zelo_ray.commands.compare.items import Item, pairs_of, read_people
from zelo_ray.commands.compare.run import agreement_figures
from zelo_ray.evaluation.pairs import choose, measure_gain


def test_a_table_with_probabilities_is_weighted_by_hand(tmp_path):
    """Two equal of weight 2, one unequal of weight 6: a share of .4, not .67."""
    rows = [("q", "a", 3, 0.5), ("q", "b", 0, 0.5), ("q", "c", 1, 1 / 6)]
    names = ("query_id", "doc_id", "grade", "probability")
    table = pa.table(dict(zip(names, zip(*rows, strict=True), strict=True)))
    pq.write_table(table, tmp_path / "human.parquet")
    judge = table.drop_columns("probability").set_column(2, "grade", pa.array([3, 0, 2]))
    pq.write_table(judge.append_column("judge", pa.array(["j"] * 3)), tmp_path / "judges.parquet")
    results = agreement_of(tmp_path / "judges.parquet", "--human", tmp_path / "human.parquet")
    for what, scale, value in (("agreement", "0-3", 0.4), ("leniency", "", 0.6)):
        [row] = results.rows("figures", of="j", against="human", what=what, scale=scale)
        assert row["value"] == pytest.approx(value)
    people = read_people(str(tmp_path / "human.parquet"))
    weights = {(item.doc_id_a, item.doc_id_b): item.weight for item in people.items("q", "abc")}
    assert weights == {
        ("a", "b"): pytest.approx(4),
        ("a", "c"): pytest.approx(12),
        ("b", "c"): pytest.approx(12),
    }
    assert len(people.notes) == 1


def test_drawn_labels_say_what_all_would(tmp_path):
    """Where judges differ three in five are drawn, elsewhere one in five: without any bias."""
    rng = np.random.default_rng(0)
    people, wrong = rng.integers(0, 4, (40, 15)), rng.random((40, 15)) < rng.beta(2, 6, (40, 1))
    judge = np.clip(people + wrong * rng.choice([-1, 1], wrong.shape), 0, 3)
    chance = np.where(judge != people, 0.6, 0.2)

    def written(name, grades, drawn, **more):
        q, d = np.nonzero(drawn)
        columns = {"query_id": q.astype(str), "doc_id": d.astype(str), "grade": grades[drawn]}
        pq.write_table(pa.table(columns | more), tmp_path / f"{name}.parquet")
        return tmp_path / f"{name}.parquet"

    judges = written("judge", judge, people >= 0)

    def figures(human):
        found = agreement_of(judges, "--human", human).rows("figures", against="human", scale="0-3")
        names = ("agreement", "kappa-quadratic", "alpha-ordinal")
        return {row["what"]: row for row in found if row["what"] in names}

    true, found, held = figures(written("all", people, people >= 0)), [], []
    for _ in range(8):
        drawn = rng.random(chance.shape) < chance
        found.append(figures(written("drawn", people, drawn, probability=chance[drawn])))
        held += [row["low"] <= true[n]["value"] <= row["high"] for n, row in found[-1].items()]
    assert np.mean(held) > 0.9
    for name, row in true.items():
        values = [each[name]["value"] for each in found]
        assert abs(np.mean(values) - row["value"]) < 4 * np.std(values) / 7**0.5 + 0.01, name
    plain = figures(written("plain", people, drawn))["agreement"]["value"]
    assert plain < true["agreement"]["value"] - 0.1, "counted plainly"


def test_votes_with_probabilities_are_weighted_too(tmp_path):
    rows = [("q", "b", "a", -1.0, 0.5), ("q", "c", "d", 1.0, 0.5), ("q", "e", "f", 1.0, 1 / 6)]
    names = ("query_id", "doc_id_a", "doc_id_b", "preference", "probability")
    table = pa.table(dict(zip(names, zip(*rows, strict=True), strict=True)))
    pq.write_table(table, tmp_path / "human.parquet")
    judge = table.drop_columns("probability").set_column(3, "preference", pa.array([-1.0, 1, -1]))
    pq.write_table(judge.append_column("judge", pa.array(["j"] * 3)), tmp_path / "judges.parquet")
    results = agreement_of(tmp_path / "judges.parquet", "--human", tmp_path / "human.parquet")
    [row] = results.rows("figures", of="j", against="human", what="agreement", scale="pairs")
    assert row["value"] == pytest.approx(0.4)


def test_ways_are_compared_by_weighted_pairs():
    """One pair of each query stands for eight, and only ``rare`` is right there."""
    items = [
        Item(f"q{q}", "a", f"{n}", 2, 8.0 if n == 0 else 1.0) for q in range(8) for n in range(4)
    ]
    words = {
        "usual": [0 if item.weight > 1 else 2 for item in items],
        "rare": [2 if item.weight > 1 else 0 for item in items],
    }
    pairs = pairs_of(items)
    assert choose(pairs, words) == "rare"
    gain = measure_gain(pairs, words, "rare", "usual", tested=True)
    assert (gain.value, gain.other_value) == pytest.approx((8 / 11, 3 / 11))
    shares = [
        figure.value
        for name, row in words.items()
        for figure in agreement_figures(name, "all", pairs, np.array(row))
        if figure.what in ("agreement", "concordance")
    ]
    assert shares == pytest.approx([3 / 11] * 2 + [8 / 11] * 2)


def test_answers_out_of_turn_have_no_chance_and_are_noted(tmp_path):
    answers = [("ann", f"d{n}", 1.0) for n in (0, 1, 3)]
    stages = [{"labels": 4, "at": AT}]
    human = sample(
        tmp_path / "s", [0.5, 0.4, 0.3, 0.2, 0.1], [9, 4, 3, 2, 1], answers, stages=stages
    )
    grades = [{"query_id": "q", "doc_id": f"d{n}", "judge": "j", "grade": n % 2} for n in range(5)]
    measured = agreement_of(write_lines(tmp_path / "judges.jsonl", grades), "--human", human)
    assert measured.counts["grades of people"] == 2
    for part in ("1 answer", "probability"):
        assert any(part in note for note in measured.record["notes"])
