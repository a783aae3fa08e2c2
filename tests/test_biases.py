"""Biases of judges, against counts done by hand, simulations and FastChat's own figures."""

import json
from itertools import combinations, permutations

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from sklearn.linear_model import LinearRegression
from sklearn.metrics import cohen_kappa_score

from tests.builders import agreement_of, set_in_file, write_lines
from zelo_ray.evaluation.agreement.length_bias import length_slope, length_terms
from zelo_ray.evaluation.agreement.repeats import measure_repeats
from zelo_ray.evaluation.agreement.votes import (
    CHANCE,
    confusion,
    count_both_orders,
    count_circular,
    count_first_shown,
    cross_votes,
    encode_votes,
    judge_verdicts,
    panel_verdicts,
)

VOTES = pa.schema(
    [(name, pa.string()) for name in ("query_id", "doc_id_a", "doc_id_b", "judge")]
    + [("preference", pa.float64()), ("swapped", pa.bool_())]
)


def votes_of(*rows):
    """Votes from rows ``query a b judge preference swapped``."""
    return pa.table([list(c) for c in zip(*rows, strict=True)], schema=VOTES)


def test_who_is_shown_first():
    cast = encode_votes(
        votes_of(
            ("q", "a", "b", "j", -0.2, False),  # a first, a wins
            ("q", "a", "b", "j", 0.5, True),  # b first, b wins
            ("q", "b", "a", "j", 1.0, True),  # a first, a wins
            ("q", "b", "a", "j", 1.0, False),  # b first, a wins
            ("r", "x", "y", "j", 0.0, False),
            ("r", "x", "y", "j", -1.0, None),
            ("r", "x", "y", "k", -1.0, True),  # y first, x wins
        )
    )
    assert cast.query_ids == ["q", "r"]
    assert count_first_shown(cast).tolist() == [[[1, 0, 3], [0, 1, 0]], [[0, 0, 0], [1, 0, 0]]]
    # a has three votes of four; x as many as a tie has, from j, and the only one from k
    said = judge_verdicts(cast)
    assert [[s for s in row if not np.isnan(s)] for row in said.tolist()] == [[1, 0], [1]]
    assert panel_verdicts(said).tolist() == [1, 0]


@pytest.mark.parametrize(
    ("one", "other", "expected"),
    [(-0.5, -0.1, [1, 0, 0]), (-0.5, 0.1, [0, 1, 0]), (0.0, 0.1, [0, 0, 1]), (0.0, 0.0, [1, 0, 0])],
)
def test_flips(one, other, expected):
    rows = [("q", "a", "b", "j", one, False), ("q", "b", "a", "j", -other, False)]
    alone = [("q", "a", "c", "j", 1.0, False), ("q", "a", "c", "j", 1.0, None)]
    assert count_both_orders(encode_votes(votes_of(*rows, *alone))).tolist() == [[expected]]
    turned = [("q", "a", "b", "j", one, False), ("q", "a", "b", "j", other, True)]
    assert count_both_orders(encode_votes(votes_of(*turned, *alone))).tolist() == [[expected]]


def test_circles_are_counted_as_by_hand():
    rng = np.random.default_rng(5)
    rows, expected = [], {}
    for query_id, size in (("q", 7), ("r", 2), ("s", 9)):
        names = [f"d{i}" for i in range(size)]
        word = {}
        for a, b in combinations(names, 2):
            if rng.random() < 0.8:
                word[a, b] = float(rng.integers(-1, 2))
                word[b, a] = -word[a, b]
                flip = rng.random() < 0.5
                first, second = (b, a) if flip else (a, b)
                rows.append((query_id, first, second, "j", -word[first, second], False))
        count = [0, 0, 0]
        for triple in combinations(names, 3):
            if all(pair in word for pair in permutations(triple, 2)):
                wins = sorted(sum(word[d, e] > 0 for e in triple if e != d) for d in triple)
                tied = any(word[pair] == 0 for pair in permutations(triple, 2))
                count[2 if tied else 0 if wins == [1, 1, 1] else 1] += 1
        expected[query_id] = count
    cast = encode_votes(votes_of(*rows))
    found = count_circular(cast, judge_verdicts(cast)[0])
    assert dict(zip(cast.query_ids, found.tolist(), strict=True)) == expected
    assert min(expected["s"]) > 0


def test_votes_by_chance_go_in_circles_as_chance_does():
    rng = np.random.default_rng(0)
    names = [f"d{i}" for i in range(40)]
    rows = [
        ("q", a, b, j, rng.choice([-1.0, 1.0]), False)
        for a, b in combinations(names, 2)
        for j in "jkl"
    ]
    cast = encode_votes(votes_of(*rows))
    for said in (*judge_verdicts(cast), panel_verdicts(judge_verdicts(cast))):
        circular, clear, tied = count_circular(cast, said)[0]
        assert circular / (circular + clear) == pytest.approx(CHANCE, abs=0.02)
        assert tied == 0


def test_queries_in_the_order_wanted():
    rows = [("b", "x", "y", "j", 1.0, False), ("a", "x", "y", "j", 1.0, False)]
    cast = encode_votes(votes_of(*rows), ["a", "none", "b"])
    assert count_first_shown(cast)[0].tolist() == [[1, 0, 0], [0, 0, 0], [1, 0, 0]]
    said = judge_verdicts(cast)[0]
    assert confusion(cast, said, -said)[:, 0, 2].tolist() == [1, 0, 1]


def mtbench(published, turns=(1, 2), authors=False):
    """Verdicts of GPT-4 and of people, all of whom are one judge, on answers of models."""
    rows = []
    for name in ("human", "gpt4_pair"):
        for line in (published / f"mtbench_human/{name}.jsonl").read_text().splitlines():
            vote = json.loads(line)
            if vote["turn"] in turns and (authors or not vote["judge"].startswith("author")):
                sign = {"model_a": -1.0, "model_b": 1.0}.get(vote["winner"], 0.0)
                query_id = f"{vote['question_id']}-{vote['turn']}"
                rows.append((query_id, vote["model_a"], vote["model_b"], name, sign, None))
    return encode_votes(votes_of(*rows))


@pytest.mark.parametrize(
    ("turn", "with_ties", "without"), [(1, (886, 1343), (727, 859)), (2, (871, 1325), (731, 864))]
)
def test_fastchats_counts(published, turn, with_ties, without):
    cast = mtbench(published, (turn,))
    counts = cross_votes(cast, cast.judges.index("human"), cast.judges.index("gpt4_pair")).sum(
        axis=0
    )
    assert (np.trace(counts), counts.sum()) == with_ties
    decided = counts[::2, ::2]
    assert (np.trace(decided), decided.sum()) == without


def test_majority_of_people_and_gpt4(published):
    cast = mtbench(published, authors=True)
    said = judge_verdicts(cast)
    counts = confusion(cast, *said).sum(axis=0)
    assert counts.sum() == 1814
    both = said[:, ~np.isnan(said).any(axis=0)].astype(int)
    assert round(cohen_kappa_score(*both), 3) == 0.505
    decided = both[:, (both != 0).all(axis=0)]
    assert decided.shape[1] == counts[::2, ::2].sum() == 1078
    assert round(cohen_kappa_score(*decided), 3) == 0.767


def test_repeats():
    query, item = np.array([1, 0, 0, 0, 1, 0, 1]), np.array([3, 0, 0, 0, 3, 1, 4])
    grade = np.array([2.0, 0, 1, 0, 2, 3, 1])
    found = measure_repeats(query, item, grade, 3)
    np.testing.assert_allclose(found, [[1, 1 / 3, 2 / 3], [1, 1, 0], [0, 0, 0]])


def simulated(bias, seed=0, queries=60, noise=0.5):
    """Documents that are the longer, the better they are, and a judge with a bias for length."""
    rng = np.random.default_rng(seed)
    query = np.repeat(np.arange(queries), 30)
    level = rng.integers(0, 4, len(query))
    doublings = 6 + rng.normal(size=queries)[query] + 0.6 * level + rng.normal(size=len(query))
    grade = level + bias * doublings + rng.normal(size=queries)[query]
    return query, 2**doublings, grade + noise * rng.normal(size=len(query)), level


@pytest.mark.parametrize("bias", [-0.2, 0.0, 0.3])
def test_a_slope_of_grades_on_length(bias):
    query, length, grade, level = simulated(bias)
    terms = length_terms(query, length, grade, 60, level)
    assert length_slope(terms.sum(axis=0)) == pytest.approx(bias, abs=0.03)
    # without the levels, what is good would count as long
    plain = length_slope(length_terms(query, length, grade, 60).sum(axis=0))
    assert plain > bias + 0.2
    against = length_slope(length_terms(query, length, grade - level, 60).sum(axis=0))
    assert against == pytest.approx(bias, abs=0.03)
    # the same as least squares on columns for every query and level
    wide = [np.log2(length), *(query == q for q in range(60)), *(level == v for v in range(1, 4))]
    peer = LinearRegression(fit_intercept=False).fit(np.stack(wide, axis=1).astype(float), grade)
    assert length_slope(terms.sum(axis=0)) == pytest.approx(peer.coef_[0])


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


def test_a_level_that_a_sample_lacks_and_lengths_that_do_not_differ():
    query, level = np.array([0, 0, 0, 1, 1, 1]), np.array([0, 0, 1, 2, 2, 2])
    length, grade = 2.0 ** np.array([1, 2, 1, 4, 4, 4]), np.array([1.0, 3, 0, 2, 2, 1])
    terms = length_terms(query, length, grade, 2, level)
    assert length_slope(terms[0]) == pytest.approx(2)  # only level 0 has two lengths: 3 - 1
    assert np.isnan(length_slope(terms[1]))
    assert length_slope(terms.sum(axis=0)) == pytest.approx(2)


def tell(out, *words):
    """Run ``agree``; its tables, as rows, by name."""
    given = [*map(str, words), "--out", str(out), *set_in_file(resamples=200)]
    told = agreement_of(*given)
    tables = {path.stem: pq.read_table(path).to_pylist() for path in out.glob("*.parquet")}
    return told, tables


def figures(rows, *names):
    """Values by some columns."""
    return {tuple(row[name] for name in names): row for row in rows}


def graded_lines(path, bias, human=True):
    """Pools, and grades of three judges, the last of which is milder and likes length."""
    query, length, _, level = simulated(0.0, queries=20)
    rng = np.random.default_rng(3)
    pools = {}
    grades, qrels = [], []
    for i, (q, size, worth) in enumerate(zip(query, length, level, strict=True)):
        document = {"id": f"d{i}", "content": "x" * round(size)}
        pools.setdefault(q, []).append(document)
        qrels.append(f"q{q} 0 d{i} {worth}\n")
        for judge, mild, lean in (("one", 0, 0.0), ("two", 0, 0.0), ("long", 1, bias)):
            for _ in range(2):
                raw = worth + mild + lean * (np.log2(size) - 7) + 0.7 * rng.normal()
                grade = int(np.clip(round(raw), 0, 9))
                grades.append(
                    {"query_id": f"q{q}", "doc_id": f"d{i}", "judge": judge, "grade": grade}
                )
    lines = [
        {"query": {"id": f"q{q}", "query": "?"}, "documents": documents}
        for q, documents in pools.items()
    ]
    write_lines(path / "pools.jsonl", lines)
    (path / "human.qrels").write_text("".join(qrels))
    return write_lines(path / "grades.jsonl", grades), path / "pools.jsonl", path / "human.qrels"


def test_grades_on_the_command_line(tmp_path):
    grades, pools, human = graded_lines(tmp_path, 0.4)
    flags = ("--levels", 10, "--coefficients", "kappa", "--thresholds", 5)
    words = (grades, "--pools", pools, *flags)
    told, tables = tell(tmp_path / "with", *words, "--human", human)
    found = figures(tables["grading"], "judge", "bias", "against")
    assert found["long", "leniency", "human"]["value"] == pytest.approx(1.3, abs=0.4)
    assert found["long", "length", "human"]["value"] == pytest.approx(0.4, abs=0.1)
    one = found["one", "length", "human"]
    assert abs(one["value"]) < 0.1
    assert one["low"] < one["value"] < one["high"]
    assert found["long", "length", "others"]["value"] > 0.3
    assert found["one", "length", "others"]["value"] < -0.1  # it is the panel that leans
    assert 0.2 < found["one", "repeats-equal", ""]["value"] < 0.6
    assert found["one", "repeats-equal", ""]["items"] == 600
    assert found["one", "repeats-apart", ""]["value"] == pytest.approx(0.8, abs=0.2)
    table = told.report.table("grading")
    assert [*table.columns[1:5]] == ["above", "a doubling", "same again", "off by"]
    assert (table.rows[0][0].text, table.rows[0][5]) == ("long", "600")  # the mildest
    told, tables = tell(tmp_path / "without", *words)
    assert {row["against"] for row in tables["grading"]} == {"", "others"}
    assert "the mean of the other judges" in told.report.table("grading").caption


def test_lengths_from_a_corpus(tmp_path):
    grades, pools, human = graded_lines(tmp_path, 0.4)
    flags = ("--levels", 10, "--coefficients", "kappa", "--thresholds", 5, "--human", human)
    _, tables = tell(tmp_path / "pools", grades, "--pools", pools, *flags)
    documents = [
        {"docid": document["id"], "text": document["content"]}
        for line in map(json.loads, pools.read_text().splitlines())
        for document in line["documents"]
    ]
    corpus = write_lines(tmp_path / "docs.jsonl", documents[5:])
    told, again = tell(tmp_path / "corpus", grades, "--pools", corpus, *flags)
    [note] = told.report.notes
    assert note.startswith("length: 5 documents left out")
    assert "--pools" in note
    before, after = (figures(t["grading"], "judge", "bias", "against") for t in (tables, again))
    key = ("long", "length", "human")
    assert after[key]["items"] == before[key]["items"] - 5
    assert after[key]["value"] == pytest.approx(before[key]["value"], abs=0.02)
    strange = write_lines(tmp_path / "other.jsonl", [{"docid": "x", "text": "y"}])
    told, _ = tell(tmp_path / "strange", grades, "--pools", strange, *flags)
    assert not told.complete
    assert told.report.notes == ("--pools have no text of any graded document",)
    _, shards = tell(tmp_path / "shards", grades, "--pools", shard(pools), *flags)
    assert shards["grading"] == tables["grading"]


def shard(pools):
    """A directory of two files with the lines of one."""
    folder = pools.parent / "shards"
    folder.mkdir()
    lines = pools.read_text().splitlines(keepends=True)
    for i in range(2):
        (folder / f"{i}.jsonl").write_text("".join(lines[i::2]))
    return folder


def test_an_empty_text_has_no_length_and_a_bad_line_is_passed_over(tmp_path):
    grades, pools, human = graded_lines(tmp_path, 0.4)
    flags = ("--levels", 10, "--coefficients", "kappa", "--thresholds", 5, "--human", human)
    corpus = [
        {"docid": document["id"], "text": document["content"]}
        for line in map(json.loads, pools.read_text().splitlines())
        for document in line["documents"]
    ]
    corpus[0]["text"] = ""
    told, tables = tell(
        tmp_path / "empty", grades, "--pools", write_lines(tmp_path / "docs.jsonl", corpus), *flags
    )
    found = figures(tables["grading"], "judge", "bias", "against")["long", "length", "human"]
    assert found["value"] == pytest.approx(0.4, abs=0.1)
    assert found["items"] == len(corpus) - 1
    [note] = told.report.notes
    assert note.startswith("length: 1 document left out")
    assert "--pools" in note
    lines = pools.read_text().splitlines(keepends=True)
    pools.write_text("".join([*lines[:3], "{broken\n", *lines[4:]]))
    told, tables = tell(tmp_path / "bad", grades, "--pools", pools, *flags)
    found = figures(tables["grading"], "judge", "bias", "against")["long", "length", "human"]
    assert found["items"] == len(corpus) - 30
    assert not told.complete
    assert f"--pools: skipped 1 invalid line, the first: {pools}:4: " in told.report.notes[0]


def test_a_judge_that_saw_one_order_only_is_noted(tmp_path):
    rng = np.random.default_rng(0)
    rows = [
        {"query_id": f"q{q}", "doc_id_a": a, "doc_id_b": b, "judge": judge, "preference": -0.5}
        | {"swapped": drawn and bool(rng.random() < 0.5)}
        for q in range(20)
        for a, b in combinations("abcd", 2)
        for judge, drawn in (("fixed", False), ("drawn", True))
    ]
    both = [
        {**row, "judge": "both", "doc_id_a": row["doc_id_b"], "doc_id_b": row["doc_id_a"]}
        for row in rows[::2]
    ]
    both += [{**row, "judge": "both"} for row in rows[::2]]
    told, _ = tell(tmp_path / "out", write_lines(tmp_path / "votes.jsonl", [*rows, *both]))
    [note] = told.report.notes
    assert note.startswith("fixed: almost always saw doc_id_a first")
