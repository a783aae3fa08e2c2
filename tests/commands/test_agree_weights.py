"""Labels that were drawn with unequal chances count 1 / probability where judges are compared."""

import json

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.helpers.labelling import AT
from zelo_ray.command_options import AgreeOptions
from zelo_ray.commands.agree.run import run as run_agree
from zelo_ray.commands.compare.items import Item, pairs_of, read_people
from zelo_ray.commands.compare.run import agreement_figures
from zelo_ray.evaluation.pairs import choose, measure_gain
from zelo_ray.files.labels import PersonsAnswer
from zelo_ray.report.watches import SilentWatch

QUERIES, DOCUMENTS, DRAWN = 40, 15, 200


def world(seed):
    """People's grades, two judges', and the sizes of a draw that likes where these differ."""
    rng = np.random.default_rng(seed)
    people = rng.integers(0, 4, (QUERIES, DOCUMENTS))
    judges = []
    for _ in range(2):
        wrong = rng.random((QUERIES, DOCUMENTS)) < rng.beta(2, 6, (QUERIES, 1))
        judges.append(np.clip(people + wrong * rng.choice([-1, 1], people.shape), 0, 3))
    sizes = np.where(judges[0] != judges[1], 1.0, 0.1)
    return people, judges, sizes


def write_judges(path, judges):
    rows = [
        (f"q{q:02}", f"d{d:02}", f"judge-{n}", int(grades[q, d]))
        for n, grades in enumerate(judges)
        for q in range(QUERIES)
        for d in range(DOCUMENTS)
    ]
    names = ("query_id", "doc_id", "judge", "grade")
    pq.write_table(pa.table(dict(zip(names, zip(*rows, strict=True), strict=True))), path)


def write_sample(out, people, sizes, seed, drawn=DRAWN, answered=None):
    """A directory of label: a priority sample of documents, all of which a person has graded."""
    rng = np.random.default_rng(seed)
    priority = sizes / rng.uniform(0, 1, sizes.shape)
    order = np.argsort(-priority, axis=None)
    query, document = np.unravel_index(order, sizes.shape)
    ids = [(f"q{q:02}", f"d{d:02}") for q, d in zip(query, document, strict=True)]
    out.mkdir()
    columns = {"query_id": [q for q, _ in ids], "doc_id": [d for _, d in ids]}
    columns |= {"size": sizes.ravel()[order], "priority": priority.ravel()[order]}
    pq.write_table(pa.table(columns), out / "documents.parquet")
    about = {"kind": "label", "top": 3, "stages": [{"labels": drawn, "at": AT}]}
    (out / "label.json").write_text(json.dumps(about))
    lines = [
        PersonsAnswer(AT, "ann", ids[row], float(people.ravel()[order[row]])).to_json_line()
        for row in (range(drawn) if answered is None else answered)
    ]
    (out / "answers.jsonl").write_bytes(b"".join(lines))
    return str(out)


def agreed(tmp_path, human, names=("agreement", "kappa-quadratic", "alpha-ordinal")):
    options = AgreeOptions(
        sources=(str(tmp_path / "judges.parquet"),),
        human=human,
        coefficients=names,
    )
    return run_agree(options, SilentWatch())


def figures_of(measured):
    """By judge or panel, scale and coefficient, the agreement with people."""
    return {
        (row["of"], row["scale"], row["what"]): row
        for row in measured.figures
        if row["of"] == "all judges and human"
        or (row["against"] == "human" and row["what"] not in ("people agree", "share"))
    }


def test_a_table_with_probabilities_is_weighted_by_hand(tmp_path):
    """Two equal of weight 2, one unequal of weight 6: a share of .4, not .67."""
    rows = [("q", "a", 3, 0.5), ("q", "b", 0, 0.5), ("q", "c", 1, 1 / 6)]
    names = ("query_id", "doc_id", "grade", "probability")
    table = pa.table(dict(zip(names, zip(*rows, strict=True), strict=True)))
    pq.write_table(table, tmp_path / "human.parquet")
    judge = table.drop_columns("probability").set_column(2, "grade", pa.array([3, 0, 2]))
    pq.write_table(judge.append_column("judge", pa.array(["j"] * 3)), tmp_path / "judges.parquet")
    figures = figures_of(agreed(tmp_path, str(tmp_path / "human.parquet")))
    assert figures["j", "0-3", "agreement"]["value"] == pytest.approx(0.4)
    assert figures["j", "", "leniency"]["value"] == pytest.approx(0.6)
    people = read_people(str(tmp_path / "human.parquet"))
    weights = {(item.doc_id_a, item.doc_id_b): item.weight for item in people.items("q", "abc")}
    assert weights == {
        ("a", "b"): pytest.approx(4),
        ("a", "c"): pytest.approx(12),
        ("b", "c"): pytest.approx(12),
    }
    assert len(people.notes) == 1


def test_votes_with_probabilities_are_weighted_too(tmp_path):
    rows = [("q", "b", "a", -1.0, 0.5), ("q", "c", "d", 1.0, 0.5), ("q", "e", "f", 1.0, 1 / 6)]
    names = ("query_id", "doc_id_a", "doc_id_b", "preference", "probability")
    table = pa.table(dict(zip(names, zip(*rows, strict=True), strict=True)))
    pq.write_table(table, tmp_path / "human.parquet")
    judge = table.drop_columns("probability").set_column(3, "preference", pa.array([-1.0, 1, -1]))
    pq.write_table(judge.append_column("judge", pa.array(["j"] * 3)), tmp_path / "judges.parquet")
    figures = figures_of(agreed(tmp_path, str(tmp_path / "human.parquet"), ("agreement",)))
    assert figures["j", "pairs", "agreement"]["value"] == pytest.approx(0.4)


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
    people, judges, sizes = world(2)
    write_judges(tmp_path / "judges.parquet", judges)
    answered = [*range(60), *range(70, 90)]
    measured = agreed(tmp_path, write_sample(tmp_path / "s", people, sizes, 0, answered=answered))
    assert measured.counts["grades of people"] == 60
    for part in ("20 answers", "probability"):
        assert any(part in note for note in measured.record["notes"])
