"""Biases of judges, against counts done by hand, and simulations."""

import json
from itertools import combinations, permutations

import numpy as np
import pyarrow as pa
import pytest
from sklearn.linear_model import LinearRegression

from tests.builders import agreement_of, set_in_file, write_lines
from zelo_ray.evaluation.agreement import votes
from zelo_ray.evaluation.agreement.length_bias import length_slope, length_terms
from zelo_ray.evaluation.agreement.repeats import measure_repeats

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


def test_votes_by_chance_go_in_circles_as_chance_does():
    rng = np.random.default_rng(0)
    pairs = [*combinations([f"d{i}" for i in range(40)], 2)]
    rows = [("q", a, b, j, rng.choice([-1.0, 1.0]), False) for a, b in pairs for j in "jkl"]
    cast = encoded(*rows)
    for said in (*votes.judge_verdicts(cast), votes.panel_verdicts(votes.judge_verdicts(cast))):
        circular, clear, tied = votes.count_circular(cast, said)[0]
        assert circular / (circular + clear) == pytest.approx(votes.CHANCE, abs=0.02)
        assert tied == 0


def test_queries_in_the_order_wanted():
    rows = [("b", "x", "y", "j", 1.0, False), ("a", "x", "y", "j", 1.0, False)]
    cast = encoded(*rows, order=["a", "none", "b"])
    assert votes.count_first_shown(cast)[0].tolist() == [[1, 0, 0], [0, 0, 0], [1, 0, 0]]
    said = votes.judge_verdicts(cast)[0]
    assert votes.confusion(cast, said, -said)[:, 0, 2].tolist() == [1, 0, 1]


def test_repeats():
    query, item = np.array([1, 0, 0, 0, 1, 0, 1]), np.array([3, 0, 0, 0, 3, 1, 4])
    grade = np.array([2.0, 0, 1, 0, 2, 3, 1])
    found = measure_repeats(query, item, grade, 3)
    np.testing.assert_allclose(found, [[1, 1 / 3, 2 / 3], [1, 1, 0], [0, 0, 0]])


# Length


def simulated(bias, seed=0, queries=60, noise=0.5):
    """Documents that are the longer, the better they are, and a judge with a bias for length."""
    rng = np.random.default_rng(seed)
    query = np.repeat(np.arange(queries), 30)
    level = rng.integers(0, 4, len(query))
    doublings = 6 + rng.normal(size=queries)[query] + 0.6 * level + rng.normal(size=len(query))
    grade = level + bias * doublings + rng.normal(size=queries)[query]
    return query, 2**doublings, grade + noise * rng.normal(size=len(query)), level


@pytest.mark.parametrize("bias", [-0.2, 0.3])
def test_a_slope_of_grades_on_length(bias):
    """As by least squares on columns for every query and level."""
    query, length, grade, level = simulated(bias)
    slope = length_slope(length_terms(query, length, grade, 60, level).sum(axis=0))
    assert slope == pytest.approx(bias, abs=0.03)
    plain = length_slope(length_terms(query, length, grade, 60).sum(axis=0))
    assert plain > bias + 0.2, "without the levels, what is good would count as long"
    against = length_slope(length_terms(query, length, grade - level, 60).sum(axis=0))
    assert against == pytest.approx(bias, abs=0.03)
    wide = [np.log2(length), *(query == q for q in range(60)), *(level == v for v in range(1, 4))]
    peer = LinearRegression(fit_intercept=False).fit(np.stack(wide, axis=1).astype(float), grade)
    assert slope == pytest.approx(peer.coef_[0])


def test_samples_of_queries_have_slopes_of_their_own():
    query, length, grade, level = simulated(0.1, queries=5)
    terms = length_terms(query, length, grade, 5, level)
    weights = np.array([[1, 1, 1, 1, 1], [0, 2, 1, 0, 2], [0, 0, 0, 0, 0]])
    slopes = length_slope(np.tensordot(weights, terms, axes=1))
    again = np.concatenate([np.flatnonzero(query == q) for q in (1, 1, 2, 4, 4)])
    named = np.repeat(np.arange(5), 30)
    alone = length_terms(named, length[again], grade[again], 5, level[again])
    assert slopes[1] == pytest.approx(length_slope(alone.sum(axis=0)))
    assert np.isnan(slopes[2])


def test_lengths_that_do_not_differ_within_a_level_tell_nothing():
    query, level = np.array([0, 0, 0, 1, 1, 1]), np.array([0, 0, 1, 2, 2, 2])
    length, grade = 2.0 ** np.array([1, 2, 1, 4, 4, 4]), np.array([1.0, 3, 0, 2, 2, 1])
    terms = length_terms(query, length, grade, 2, level)
    assert length_slope(terms[0]) == pytest.approx(2)  # only level 0 has two lengths: 3 - 1
    assert np.isnan(length_slope(terms[1]))
    assert length_slope(terms.sum(axis=0)) == pytest.approx(2)


class Field:
    """Pools, and grades of three judges, the last of which is milder and likes length."""

    def __init__(self, folder):
        self.folder = folder
        query, length, _, level = simulated(0.0, queries=20)
        rng, pools, grades, qrels = np.random.default_rng(3), {}, [], []
        for i, (q, size, worth) in enumerate(zip(query, length, level, strict=True)):
            pools.setdefault(q, []).append({"id": f"d{i}", "content": "x" * round(size)})
            qrels.append(f"q{q} 0 d{i} {worth}\n")
            for judge, mild, lean in (("one", 0, 0.0), ("two", 0, 0.0), ("long", 1, 0.4)):
                for _ in range(2):
                    raw = worth + mild + lean * (np.log2(size) - 7) + 0.7 * rng.normal()
                    grade = int(np.clip(round(raw), 0, 9))
                    ids = {"query_id": f"q{q}", "doc_id": f"d{i}", "judge": judge}
                    grades.append({**ids, "grade": grade})
        self.lines = [
            {"query": {"id": f"q{q}", "query": "?"}, "documents": each} for q, each in pools.items()
        ]
        self.corpus = [
            {"docid": document["id"], "text": document["content"]}
            for each in pools.values()
            for document in each
        ]
        self.grades = write_lines(folder / "grades.jsonl", grades)
        self.human = folder / "human.qrels"
        self.human.write_text("".join(qrels))

    def biases(self, lines, *words):
        """The results of ``agree`` with these texts, and the rows by judge, bias, and of what."""
        place = lines
        if isinstance(lines, list):
            place = write_lines(self.folder / "texts.jsonl", lines)
        flags = ("--levels", 10, "--coefficients", "kappa", "--thresholds", 5)
        few = set_in_file(resamples=200)
        results = agreement_of(self.grades, "--pools", place, *flags, *few, *words)
        rows = {(row["judge"], row["bias"], row["against"]): row for row in results.grading}
        return results, rows


@pytest.fixture(scope="module")
def field(tmp_path_factory):
    return Field(tmp_path_factory.mktemp("field"))


def test_a_judge_is_measured_against_people_and_the_others(field):
    results, found = field.biases(field.lines, "--human", field.human)
    for key, value, within in (
        (("long", "leniency", "human"), 1.3, 0.4),
        (("long", "length", "human"), 0.4, 0.1),
        (("one", "length", "human"), 0, 0.1),
        (("long", "length", "others"), 0.4, 0.1),
        (("one", "length", "others"), -0.2, 0.1),  # it is the panel that leans
        (("one", "repeats-equal", ""), 0.4, 0.2),
        (("one", "repeats-apart", ""), 0.8, 0.2),
    ):
        assert found[key]["value"] == pytest.approx(value, abs=within), key
        assert found[key]["low"] < found[key]["value"] < found[key]["high"]
    assert found["one", "repeats-equal", ""]["items"] == 600
    table = results.report.table("grading")
    assert (table.rows[0][0].text, table.rows[0][5]) == ("long", "600"), "the mildest"
    _, alone = field.biases(field.lines)
    assert {against for _, _, against in alone} == {"", "others"}


def test_texts_may_come_from_a_corpus_or_shards(field, tmp_path):
    human, key = ("--human", field.human), ("long", "length", "human")
    _, whole = field.biases(field.lines, *human)
    empty = [field.corpus[0] | {"text": ""}, *field.corpus[1:]]
    for corpus, lost in ((field.corpus[5:], 5), (empty, 1)):
        results, found = field.biases(corpus, *human)
        assert found[key]["items"] == whole[key]["items"] - lost
        assert found[key]["value"] == pytest.approx(whole[key]["value"], abs=0.02)
        assert len(results.report.notes) == 1
    results, _ = field.biases([{"docid": "x", "text": "y"}], *human)
    assert not results.complete
    for n in (0, 1):
        write_lines(tmp_path / f"{n}.jsonl", field.lines[n::2])
    assert field.biases(tmp_path, *human)[1] == whole
    texts = [json.dumps(line) for line in field.lines]
    (tmp_path / "0.jsonl").write_text("\n".join([*texts[:3], "{broken", *texts[4:]]))
    (tmp_path / "1.jsonl").unlink()
    results, found = field.biases(tmp_path / "0.jsonl", *human)
    assert found[key]["items"] == whole[key]["items"] - 30
    assert not results.complete
    assert "0.jsonl:4: " in results.report.notes[0]


def test_a_judge_that_saw_one_order_only_is_noted(tmp_path):
    rng = np.random.default_rng(0)
    rows = [
        {"query_id": f"q{q}", "doc_id_a": a, "doc_id_b": b, "judge": judge, "preference": -0.5}
        | {"swapped": drawn and bool(rng.random() < 0.5)}
        for q in range(20)
        for a, b in combinations("abcd", 2)
        for judge, drawn in (("fixed", False), ("drawn", True))
    ]
    once = [{**row, "judge": "both"} for row in rows[::2]]
    again = [{**row, "doc_id_a": row["doc_id_b"], "doc_id_b": row["doc_id_a"]} for row in once]
    path = write_lines(tmp_path / "votes.jsonl", [*rows, *once, *again])
    [note] = agreement_of(path, *set_in_file(resamples=0)).report.notes
    assert note.startswith("fixed: ")
