"""Measures against their definitions, written out by hand."""

import math
import pickle
from functools import partial
from itertools import combinations
from operator import eq, gt

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.helpers.contests import metrics_of, qrels_of, run_of
from zelo_ray.errors import InputError, OptionError
from zelo_ray.evaluation import measures, ranking
from zelo_ray.evaluation.measures import (
    Truth,
    default_measures,
    evaluate,
    parse_measure,
    rank_run,
)

OWN = (
    *("zelo_nDCG@2", "nDCG(dcg='exp-log2')@3", "R(k_gt=2)@2", "R(k_gt=3)@4", "RBP(rel=1)"),
    *("RBP(p=0.5,rel=2)@3", "Grade@3", "ERR(max_rel=2)@2", "Pairs"),
)
"""Measures that no other library has as they are here; test_measures_peers has the others."""
EVERY = (
    *OWN,
    *("nDCG", "nDCG@3", "AP", "AP(rel=2)@3", "RR", "RR(rel=2)@2", "R@2", "R(rel=2)@3", "P@3"),
    *("P(rel=2)@2", "Success@2", "Success(rel=2)@4", "Rprec", "Rprec(rel=2)", "ERR", "ERR@3"),
    *("Judged", "Judged@3"),
)


def metric_of(text, grades, scores):
    return metrics_of([text], {"q": grades}, {"q": scores})[text]["q"]


# --- the definitions, one query at a time, for one order of the documents


def gain(dcg, relevance):
    relevance = max(0, relevance)
    if dcg == "zelo":
        win = 1 / (1 + math.exp(-relevance))
        return win - (1 - win)
    return relevance if dcg == "log2" else 2**relevance - 1


def ndcg(order, grades, cutoff, dcg="log2"):
    def dcg_of(gains):
        return sum(g / math.log2(i + 2) for i, g in enumerate(gains[:cutoff]))

    best = dcg_of(sorted((gain(dcg, r) for r in grades.values()), reverse=True))
    return dcg_of([gain(dcg, grades.get(d, 0)) for d in order]) / best if best else 0.0


def relevant(grades, rel):
    return {d for d, r in grades.items() if r >= rel}


def recall(order, grades, cutoff, k_gt):
    """The most favourable of all ways in which the truth can put its best k."""
    found, k = set(order[:cutoff]), min(k_gt, len(grades))
    border = sorted(grades.values(), reverse=True)[k - 1]
    above, tied = ({d for d, r in grades.items() if op(r, border)} for op in (gt, eq))
    best = (above | set(chosen) for chosen in combinations(tied, k - len(above)))
    return max(len(found & chosen) for chosen in best) / k


def rank_biased_precision(order, grades, cutoff, rel, p=0.8):
    good = relevant(grades, rel)
    return sum((1 - p) * p**i for i, d in enumerate(order[:cutoff]) if d in good)


def mean_grade(order, grades, cutoff):
    return sum(max(0, grades.get(d, 0)) for d in order[:cutoff]) / cutoff


def expected_reciprocal_rank(order, grades, cutoff, max_rel=4):
    """Chapelle et al. 2009, algorithm 2."""
    value, goes_on = 0.0, 1.0
    for rank, d in enumerate(order[:cutoff], 1):
        satisfied = (2 ** min(max(grades.get(d, 0), 0), max_rel) - 1) / 2**max_rel
        value += goes_on * satisfied / rank
        goes_on *= 1 - satisfied
    return value


def pairs(scores, grades):
    right = []
    for a, b in combinations(grades, 2):
        if grades[a] != grades[b]:
            better, worse = (a, b) if grades[a] > grades[b] else (b, a)
            x, y = scores.get(better, -math.inf), scores.get(worse, -math.inf)
            right.append(1.0 if x > y else 0.5 if x == y else 0.0)
    if not right:
        return math.nan
    return sum(right) / len(right) if scores else 0.0


OF_ORDER = {
    "nDCG": ndcg,
    "zelo_nDCG": partial(ndcg, dcg="zelo"),
    "R": recall,
    "RBP": rank_biased_precision,
    "Grade": mean_grade,
    "ERR": expected_reciprocal_rank,
}


def by_hand(text, grades, scores):
    measure = parse_measure(text)
    if measure.name == "Pairs":
        return pairs(scores, grades)
    name, parameters = measure.name, dict(measure.parameters)
    order = sorted(scores, key=lambda d: (scores[d], d.encode()), reverse=True)
    return OF_ORDER[name](order, grades, measure.cutoff, **parameters)


DOCUMENTS = st.sampled_from(["a", "b", "c", "é", "z", "𝄞", "10"])
GRADES = st.sampled_from([-2, -1, 0, 0, 1, 2, 3, 0.5, 1.7])
SCORES = st.sampled_from([-1.5, 0.0, -0.0, 0.25, 3.0])
TRUTHS = st.dictionaries(
    st.sampled_from(["q1", "q2", "q3", "q4"]),
    st.dictionaries(DOCUMENTS, GRADES, min_size=1, max_size=5),
    min_size=1,
)
RUNS = st.dictionaries(
    st.sampled_from(["q1", "q2", "q3", "other"]),
    st.dictionaries(DOCUMENTS, SCORES, min_size=1, max_size=5),
)


@settings(max_examples=60, deadline=None)
@given(TRUTHS, RUNS)
def test_own_measures_are_what_their_definitions_say(truth, run):
    found = metrics_of(OWN, truth, run)
    for text, by_query in found.items():
        for query_id, value in by_query.items():
            expected = by_hand(text, truth[query_id], run.get(query_id, {}))
            assert value == pytest.approx(expected, abs=1e-10, nan_ok=True), (text, query_id)


def test_a_query_is_measured_alike_whatever_stands_beside_it(monkeypatch):
    rng = np.random.default_rng(3)
    truth, run = {}, {}
    for q in range(60):
        judged_ids = rng.permutation(30)[: rng.integers(1, 30)]
        truth[f"q{q}"] = {f"d{i}": float(rng.integers(-1, 4)) for i in judged_ids}
        found = rng.permutation(60)[: rng.integers(0, 40)]
        run[f"q{q}"] = {f"d{i}": float(rng.integers(0, 9)) for i in found}
    together = metrics_of(EVERY, truth, run)
    monkeypatch.setattr(ranking, "BLOCK_CELLS", 64)
    monkeypatch.setattr(measures, "CHUNK_CELLS", 16)
    apart = metrics_of(EVERY, truth, run)
    for text, by_query in together.items():
        assert apart[text] == pytest.approx(by_query, abs=1e-12, nan_ok=True)
        for query_id in ("q0", "q31", "q59"):
            one = ({query_id: of[query_id]} for of in (truth, run))
            alone = metrics_of([text], *one)[text]
            assert alone[query_id] == pytest.approx(by_query[query_id], abs=1e-12, nan_ok=True)


def test_draws_of_the_labels_are_measured_as_truths_of_their_own(monkeypatch):
    monkeypatch.setattr(measures, "CHUNK_CELLS", 100)
    rng = np.random.default_rng(5)
    truth = {f"q{q}": {f"d{i}": rng.normal() for i in range(3 + q)} for q in range(5)}
    run = {f"q{q}": {f"d{i}": round(rng.normal()) for i in range(9)} for q in range(4)}
    shuffled = qrels_of(truth).take(rng.permutation(25))  # rows of a query need not lie together
    own = Truth(shuffled)
    each = [parse_measure(text) for text in EVERY]
    ranked = rank_run(own, run_of(run))
    draws = own.relevance + rng.normal(size=(40, 25))
    drawn = evaluate(each, ranked, draws)
    assert drawn.shape == (40, len(EVERY), 5)
    np.testing.assert_allclose(drawn[3], evaluate(each, ranked, draws[3]), atol=1e-12)
    column = shuffled.schema.get_field_index("relevance")
    other = Truth(shuffled.set_column(column, "relevance", pa.array(draws[3])))
    again = evaluate(each, rank_run(other, run_of(run)))
    np.testing.assert_allclose(drawn[3], again, atol=1e-12)


# --- conventions


def test_what_the_run_lacks_and_what_it_has_beyond():
    truth = Truth(qrels_of({"q1": {"a": 1, "b": 0}, "q2": {"a": 1}, "q3": {"c": 2, "d": 1}}))
    run = {"q9": {"a": 1}, "q3": {"x": 3, "c": 1}, "q8": {"a": 1, "b": 2}, "q1": {"b": 1}}
    ranked = rank_run(truth, run_of(run))
    assert ranked.answered.tolist() == [True, False, True]
    assert ranked.documents(0) == ["b"]
    assert ranked.documents(1) == []
    assert ranked.unjudged(1) == [("q3", "x", 1)]
    assert truth.labels(2) == {"c": 2.0, "d": 1.0}


def test_what_the_truth_leaves_undefined_is_undefined_for_every_run():
    for run in ({}, {"q": {"a": 1.0, "b": 2.0}}):
        values = metrics_of(["Pairs", "nDCG", "AP"], {"q": {"a": 0, "b": 0}}, run)
        assert math.isnan(values["Pairs"]["q"])
        assert values["nDCG"]["q"] == values["AP"]["q"] == 0.0


def test_qrels_that_contradict_themselves_are_refused():
    twice = pa.concat_tables([qrels_of({"q": {"a": 1, "b": 0}}), qrels_of({"q": {"a": 0}})])
    with pytest.raises(InputError, match="document 'a' of query 'q' is judged twice"):
        Truth(twice)
    with pytest.raises(InputError, match="document 'b' of query 'q' has no finite relevance"):
        Truth(qrels_of({"q": {"a": 1, "b": math.nan}}))


def test_runs_that_contradict_themselves_are_refused():
    truth = Truth(qrels_of({"q": {"a": 1}}))
    twice = pa.concat_tables([run_of({"p": {"a": 1}, "q": {"a": 1, "b": 0}})] * 2)
    with pytest.raises(InputError, match="document 'a' of query 'q' is ranked twice"):
        rank_run(truth, twice)
    for score in (math.nan, math.inf):
        with pytest.raises(InputError, match="document 'b' of query 'q' has no finite score"):
            rank_run(truth, run_of({"q": {"a": 1, "b": score}}))


# --- gains


def test_gains_that_are_too_large_for_a_number_are_refused():
    grades, run = {"a": 10_000.0, "b": 9_999.0, "c": 0.0}, {"a": 1, "b": 2, "c": 3}
    with pytest.raises(OptionError, match="too large"):
        metric_of("nDCG(dcg='exp-log2')", grades, run)
    assert metric_of("zelo_nDCG", grades, run) < 1


# --- words


@pytest.mark.parametrize(
    ("written", "canonical"),
    [
        *((text, text) for text in EVERY),
        ("nDCG(dcg='log2')@10", "nDCG@10"),
        ('nDCG( dcg = "exp-log2" ) @ 10', "nDCG(dcg='exp-log2')@10"),
        ("NDCG@10", "nDCG@10"),
        ("ndcg@10", "nDCG@10"),
        ("MaP", "AP"),
        ("MAP", "AP"),
        ("MRR@10", "RR@10"),
        ("AP(rel=1)", "AP"),
        ("AP(rel=2.0)@100", "AP(rel=2)@100"),
        ("nDCG(cutoff=10)", "nDCG@10"),
        ("RPrec(rel=2)", "Rprec(rel=2)"),
        ("ERR(max_rel=4)@20", "ERR@20"),
        ("P(cutoff=10,rel=0.5)", "P(rel=0.5)@10"),
        ("R(rel=1,k_gt=5)@10", "R(k_gt=5)@10"),
    ],
)
def test_a_measure_is_read_and_written(written, canonical):
    measure = parse_measure(written)
    assert str(measure) == canonical
    assert parse_measure(canonical) == measure
    assert pickle.loads(pickle.dumps(measure)) == measure


NO_MEASURES = """
    ndgc@10 Recal@10 nDCG@ nDCG@10@20 nDCG(10) AP(**{}) AP(rel=2)(rel=3) P(cutoff=10)@10 nDCG\0
    AP(rel=__import__('os')) nDCG@0 nDCG@-1 nDCG@1.5 nDCG@True P Pairs@10 Success Rprec@10
    ERR(max_rel=0)@10 nDCG(rel=2)@10 Pairs(x=1) nDCG(dcg='exp') nDCG(dcg=[]) AP(rel='2')
    AP(rel=True) AP(rel=1e999) R(k_gt=0)@10 R(k_gt=5,rel=2)@10 RBP RBP(p=1,rel=1)
"""


@pytest.mark.parametrize("written", ["", "(" * 5000, *NO_MEASURES.split()])
def test_what_is_no_measure_is_refused_in_one_line(written):
    with pytest.raises(OptionError) as told:
        parse_measure(written)
    assert "\n" not in str(told.value)


@pytest.mark.parametrize(
    ("relevance", "kind", "measured"),
    [
        ([1.5, -0.5], "scores", "zelo_nDCG@10 Pairs R(k_gt=5)@10 Judged@10"),
        ([2.9, 0.1], "grades", "nDCG@10 AP(rel=1.5) RR(rel=1.5)@10 R(rel=1.5)@20 Judged@10"),
        ([-5, 3], "scores", "zelo_nDCG@10 Pairs R(k_gt=5)@10 Judged@10"),
        ([0, 3], "grades", "nDCG@10 AP(rel=2) RR(rel=2)@10 R(rel=2)@20 Judged@10"),
        ([-2, 4], "grades", "nDCG@10 AP(rel=2) RR(rel=2)@10 R(rel=2)@20 Judged@10"),
        ([0, 2], "grades", "nDCG@10 AP RR@10 R@20 Judged@10"),
        ([0, 1], "binary", "nDCG@10 AP RR@10 R@20 Judged@10"),
        ([0, 0], "binary", "nDCG@10 AP RR@10 R@20 Judged@10"),
    ],
)
def test_the_measures_fit_the_truth(relevance, kind, measured):
    truth = Truth(qrels_of({"q": dict(zip("ab", relevance, strict=True))}))
    assert truth.kind == kind
    assert " ".join(str(m) for m in default_measures(truth)) == measured
