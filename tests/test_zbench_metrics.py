"""The measures of zbench, the program that this one follows, went wrong where these do not.

One test for each situation that broke them, driven through this program's own code.
"""

import math
import re
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from tests.test_measures import metric_of, qrels_of, run_of
from zelo_ray.errors import QrelsError, RunError
from zelo_ray.evaluation.measures import Truth, default_measures, evaluate, parse_measures, rank_run

ZELO = "nDCG(dcg='zelo')"
CLEAN = {f"d{i:02}": score for i, score in enumerate([21.2, 16.2, 15.4, *np.linspace(14, -20, 22)])}
"""Scores of the size that a fit without a prior gave to 25 documents."""


def in_order(*doc_ids):
    return {doc_id: -float(place) for place, doc_id in enumerate(doc_ids)}


def graded(*relevance):
    return {f"d{i}": r for i, r in enumerate(relevance)}


def test_8_ndcg_is_not_whether_the_first_document_is_right():
    """With gains exp(score): .996 for the first of the two orders here, .636 for the second."""
    best, second, *others = CLEAN
    only_first_right = metric_of(ZELO, CLEAN, in_order(best, *reversed([second, *others])))
    first_two_swapped = metric_of(ZELO, CLEAN, in_order(second, best, *others))
    assert only_first_right < 0.8
    assert first_two_swapped > 0.99
    was = {doc_id: math.exp(score) for doc_id, score in CLEAN.items()}
    assert metric_of("nDCG", was, in_order(best, *reversed([second, *others]))) > 0.99
    assert metric_of("nDCG", was, in_order(second, best, *others)) < 0.64


@pytest.mark.parametrize("text", ["nDCG", "nDCG(dcg='exp-log2')", ZELO])
@pytest.mark.parametrize("scale", [1, 100, 1e4])
def test_8_no_size_of_score_overflows(text, scale):
    """Percents raised an OverflowError."""
    value = metric_of(text, graded(0.7 * scale, scale, 0.1 * scale), in_order("d0", "d1", "d2"))
    assert 0.5 < value <= 1


@pytest.mark.parametrize("text", ["nDCG", "nDCG(dcg='exp-log2')", ZELO])
def test_8_what_is_irrelevant_gains_nothing(text):
    """One relevant document of ten, ranked last: .805."""
    value = metric_of(text, graded(*[0] * 9, 1), in_order(*(f"d{i}" for i in range(10))))
    assert value == pytest.approx(1 / math.log2(11))


def test_9_the_ideal_order_is_that_of_all_judged_documents():
    """Returning one document of a hundred was worth 1."""
    grades = graded(*[1] * 100)
    assert metric_of("nDCG@10", grades, {"d0": 1.0}) < 0.3
    assert metric_of("nDCG@10", grades, dict.fromkeys(list(grades)[:10], 1.0)) == 1
    assert metric_of("nDCG", grades, dict.fromkeys(list(grades)[:10], 1.0)) < 0.3


def test_9_a_query_that_the_run_lacks_counts():
    """It was left out of the mean."""
    truth = Truth(qrels_of({"q1": {"a": 1}, "q2": {"a": 1}}))
    ranking = rank_run(truth, run_of({"q1": {"a": 1}}))
    values = evaluate(parse_measures(["nDCG@10", ZELO, "AP", "Pairs"]), ranking)
    assert values[:3].tolist() == [[1, 0], [pytest.approx(1), 0], [1, 0]]
    assert ranking.missing == ("q2",)


def test_10_nothing_is_cut_before_it_is_ranked():
    """The first ten in the order of the file were measured: a perfect recall@20 was .5."""
    grades = graded(*[0] * 80, *[1] * 20)
    perfect = {doc_id: float(r) for doc_id, r in grades.items()}
    assert metric_of("R@20", grades, perfect) == 1


@pytest.mark.parametrize("relevance", [(3, 2, 1), (1.5, 1.2, -2.7), (2,)])
def test_11_recall_of_the_best_k_needs_no_more_documents_than_there_are(relevance):
    """A perfect recall@5 on three documents was .6."""
    grades = graded(*relevance)
    assert metric_of("R(k_gt=5)@5", grades, grades) == 1


@pytest.mark.parametrize("ties", ["trec", "expected"])
def test_11_any_of_the_documents_tied_for_the_last_place_fills_it(ties):
    grades = graded(3, 1, 1, 1, 1, 0)
    for second in ("d1", "d4"):
        order = in_order("d0", second, "d5", "d2")
        assert metric_of("R(k_gt=2)@2", grades, order, ties) == 1
    assert metric_of("R(k_gt=2)@2", grades, in_order("d1", "d2", "d3", "d4"), ties) == 0.5
    assert metric_of("R(k_gt=2)@2", grades, in_order("d0", "d5", "d1"), ties) == 0.5


def test_12_ties_of_the_truth_are_no_pairs():
    """They stood in the denominator: a perfect order of a binary truth was worth .556."""
    grades = graded(*[1] * 5, *[0] * 5)
    assert metric_of("Pairs", grades, in_order(*grades)) == 1


@pytest.mark.parametrize("grades", [graded(1), graded(1, 1)])
def test_12_no_pair_is_no_crash(grades):
    """It divided by 0."""
    assert math.isnan(metric_of("Pairs", grades, grades))


@pytest.mark.parametrize("ties", ["trec", "expected"])
@pytest.mark.parametrize("text", ["nDCG", ZELO, "R@2", "Pairs"])
def test_13_a_constant_reranker_does_not_turn_the_list(ties, text):
    """It was worth what the list is backwards; the order of the input's lines must not matter."""
    grades = {"a": 3.0, "b": 2.0, "c": 1.0}
    backwards = dict(reversed(grades.items()))
    flat, flat_backwards = (dict.fromkeys(order, 1.0) for order in (grades, backwards))
    value = metric_of(text, grades, flat, ties)
    assert value == metric_of(text, backwards, flat_backwards, ties)
    if ties == "expected":
        worth = [metric_of(text, grades, order) for order in (grades, {"a": 1, "b": 2, "c": 3})]
        assert min(worth) < value < max(worth) or min(worth) == value == max(worth)


def test_13_a_score_that_is_no_number_is_not_the_best():
    truth = Truth(qrels_of({"q": {"a": 1, "b": 0}}))
    with pytest.raises(RunError, match="document 'b' of query 'q' has the score nan"):
        rank_run(truth, run_of({"q": {"a": 1.0, "b": math.nan}}))


def test_24_truth_and_run_cannot_be_taken_for_each_other():
    """Its own notebook measured the truth against a reranker."""
    qrels, run = qrels_of({"q": {"a": 1}}), run_of({"q": {"a": 1}})
    with pytest.raises(QrelsError, match="there is no column 'relevance'"):
        Truth(run)
    with pytest.raises(RunError, match="there is no column 'score'"):
        rank_run(Truth(qrels), qrels)


def test_24_it_would_make_a_difference():
    grades, scores = graded(3, 2, 0, 1), graded(1, 3, 2, 0)
    assert metric_of("nDCG", grades, scores) != metric_of("nDCG", scores, grades)


def test_25_the_documented_call_runs():
    """Three examples of its README raised."""
    text = (Path(__file__).parents[1] / "zelo_ray/evaluation/measures" / "__init__.py").read_text()
    example = re.search(r"query by query\.\n\n((?:    .+\n)+)", text)[1]
    names = {
        "Truth": Truth,
        "rank": rank_run,
        "parse_measures": parse_measures,
        "evaluate": evaluate,
    }
    names |= {"qrels": qrels_of({"q": {"a": 2, "b": 0}}), "run": run_of({"q": {"a": 1.0}})}
    exec(re.sub("(?m)^    ", "", example), names)
    assert names["metrics"].tolist() == [[1.0], [1.0], [1.0]]


def test_25_scores_may_be_missing_and_pools_may_be_empty_of_them():
    truth = Truth(pa.table({"query_id": ["q"], "doc_id": ["a"], "relevance": [-1.5]}))
    ranking = rank_run(truth, run_of({}))
    assert evaluate(default_measures(truth), ranking).shape == (4, 1)
