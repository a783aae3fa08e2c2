"""Whether a ranker's scores hold as probabilities, and on which pairs it agrees with labels."""

import numpy as np
import pyarrow as pa
import pytest
from sklearn.calibration import calibration_curve
from sklearn.metrics import brier_score_loss

from tests.contests import metrics_of, run_of
from tests.test_bakeoff import (
    GRADES,
    QUERIES,
    contest_of,
    entry_of,
    options_of,
    report_of,
    truth_of,
)
from zelo_ray.commands.bakeoff.calibration import measure_calibration
from zelo_ray.commands.bakeoff.outcome import MeasuredRanker
from zelo_ray.commands.bakeoff.pair_agreement import count_unequal_pairs, measure_pair_agreement
from zelo_ray.commands.bakeoff.thresholds import find_threshold
from zelo_ray.evaluation.measures import parse_measures
from zelo_ray.evaluation.score_calibration import measure_reliability
from zelo_ray.formats.judgments.labels import LABEL_COLUMNS, PeoplesLabels

CHANCE = {"resamples": 400, "confidence": 0.95, "seed": 0}


def drawn(queries, documents, truly, seed=0):
    """Scores, whether each document is relevant with the chance that ``truly`` makes of it."""
    rng = np.random.default_rng(seed)
    scores = rng.beta(1, 2, queries * documents)
    relevant = rng.random(len(scores)) < truly(scores)
    return scores, relevant, np.repeat(np.arange(queries), documents)


def test_figures_are_those_of_scikit_learn():
    scores, relevant, query = drawn(30, 12, lambda p: p**2)
    found = measure_reliability(scores, relevant, query, **CHANCE)
    assert found.brier.value == pytest.approx(brier_score_loss(relevant, scores), abs=1e-12)
    shares, means = calibration_curve(relevant, scores, n_bins=10)
    assert [one.relevant.value for one in found.bins] == pytest.approx(shares)
    assert [one.mean_score for one in found.bins] == pytest.approx(means)
    counts = np.array([one.documents for one in found.bins])
    assert counts.sum() == found.documents == 360
    assert found.ece.value == pytest.approx((np.abs(shares - means) * counts).sum() / 360)


def test_scores_that_hold_stay_below_what_chance_gives_and_others_do_not():
    errors = []
    for seed in range(100):
        found = measure_reliability(*drawn(40, 10, lambda p: p, seed), **CHANCE)
        errors.append(found.ece.value < found.ece_by_chance)
    assert 88 <= sum(errors) <= 100
    wrong = measure_reliability(*drawn(40, 10, lambda p: p / 3), **CHANCE)
    assert wrong.ece.low > wrong.ece_by_chance


def test_few_queries_have_no_interval():
    found = measure_reliability(*drawn(4, 10, lambda p: p), **CHANCE)
    assert np.isnan([found.ece.low, found.brier.high, found.bins[0].relevant.low]).all()


def test_scores_at_the_ends_have_a_bin():
    found = measure_reliability(
        np.array([0.0, 1.0]), np.array([False, True]), np.array([0, 1]), **CHANCE
    )
    assert [(one.start, one.stop) for one in found.bins] == [(0.0, 0.1), (0.9, 1.0)]
    assert (found.ece.value, found.brier.value, found.relevant) == (0.0, 0.0, 0.5)


@pytest.mark.parametrize(
    ("measures", "grades", "threshold"),
    [
        (["nDCG@10", "AP(rel=2)", "RR"], GRADES, 2.0),
        (["nDCG@10", "RR"], GRADES, 1.0),
        (["R(k_gt=5)@10"], GRADES, 2.0),
        (["nDCG@10"], {"a": 1.0, "b": 0.0}, 1.0),
        (["nDCG@10", "AP"], {"a": 1.5, "b": -0.5}, None),
        (["AP(rel=0.5)"], {"a": 1.5, "b": -0.5}, 0.5),
    ],
)
def test_relevant_is_what_the_measures_take_for_it(measures, grades, threshold):
    assert find_threshold(parse_measures(measures), truth_of(grades=grades)) == threshold


def sure(name, scores):
    return MeasuredRanker(name, run_of(dict.fromkeys(QUERIES, scores)))


def test_a_bake_off_says_whose_scores_hold_and_whose_are_no_probabilities(tmp_path):
    holds = sure("holds", {"a": 1.0, "b": 1.0, "c": 0.0, "d": 0.0, "unjudged": 0.4})
    wrong = sure("wrong", {"a": 0.9, "b": 0.3, "c": 0.9, "d": 0.0})
    outcome = contest_of(
        holds, wrong, entry_of("logits", dict.fromkeys(QUERIES, "abcd")), measures=("P(rel=2)@2",)
    )
    outcome.tables |= measure_calibration(outcome, options_of())
    rows = {row.run: row for row in outcome.tables["calibration"][1]}
    assert (rows["holds"].ece, rows["holds"].brier, rows["holds"].documents) == (0.0, 0.0, 48)
    assert rows["wrong"].ece == pytest.approx((0.8 + 0.7) / 4)
    assert rows["wrong"].relevant == 0.5
    assert np.isnan(rows["logits"].ece)
    assert (rows["logits"].lowest, rows["logits"].highest) == (-3.0, 0.0)
    report = report_of(outcome, tmp_path)
    table = report.table("calibration")
    assert [row[0].text for row in table.rows] == ["holds", "wrong"]
    [chart, _, others] = report.section("calibration").parts
    assert others.lines == ["Scores that are no probabilities: logits (-3 to 0)."]
    assert [trace["name"] for trace in chart.figures[""]["data"]] == [
        "score = share",
        "holds",
        "wrong",
    ]


def test_without_probabilities_there_is_no_section(tmp_path):
    outcome = contest_of(entry_of("logits", dict.fromkeys(QUERIES, "abcd")))
    outcome.tables |= measure_calibration(outcome, options_of())
    names = [section.name for section in report_of(outcome, tmp_path).sections if section]
    assert "leaderboard" in names
    assert "calibration" not in names
    scores = contest_of(
        sure("p", {"a": 0.5, "b": 0.1}), truth=truth_of(grades={"a": 1.5, "b": -0.5})
    )
    assert measure_calibration(scores, options_of())["calibration"][1] == []


def labels_of(grades):
    rows = [(q, d, p, float(g), 0.5) for (q, d, p), g in grades.items()]
    table = pa.table(dict(zip(LABEL_COLUMNS.names, zip(*rows, strict=True), strict=True)))
    return PeoplesLabels(table.cast(LABEL_COLUMNS), is_random_sample=True, highest_grade=3.0)


def test_agreement_on_pairs_is_the_measure_pairs(tmp_path):
    orders = {q: "abcd" if n % 3 else "badc" for n, q in enumerate(QUERIES)}
    outcome = contest_of(entry_of("some", orders), entry_of("all", dict.fromkeys(QUERIES, "abcd")))
    grades = {(q, "a", "Ann"): 0 for q in QUERIES} | {(q, "b", "Ann"): 2 for q in QUERIES}
    grades |= {("q0", "b", "Bob"): 3, ("elsewhere", "a", "Ann"): 1}
    outcome.tables |= measure_pair_agreement(outcome, labels_of(grades), options_of())
    rows = {(row.run, row.labels): row for row in outcome.tables["pairs"][1]}
    runs = {q: {d: -n for n, d in enumerate(order)} for q, order in orders.items()}
    by_query = metrics_of(["Pairs"], dict.fromkeys(QUERIES, GRADES), runs)["Pairs"]
    assert rows["some", "truth"].mean == pytest.approx(np.mean([*by_query.values()]))
    assert (rows["all", "truth"].mean, rows["all", "people"].mean) == (1.0, 0.0)
    assert rows["some", "people"].mean == pytest.approx(4 / 12)
    assert (rows["some", "truth"].pairs, rows["some", "people"].pairs) == (72, 12)
    [sentences, table] = report_of(outcome, tmp_path).section("pairs").parts
    [said] = sentences.lines
    assert said.startswith("all agrees with the truth on 100% [100%, 100%] and with people on 0% [")
    assert said.endswith("] of the pairs of documents that it ranks.")
    assert list(table.columns[1:]) == ["with the truth", "pairs", "with people", "people's pairs"]
    assert [row[0].text for row in table.rows] == ["all", "some"]


def test_pairs_that_a_ranker_does_not_rank_do_not_count():
    outcome = contest_of(entry_of("two", dict.fromkeys(QUERIES, "bd")))
    [row] = measure_pair_agreement(outcome, None, options_of())["pairs"][1]
    assert (row.mean, row.pairs) == (1.0, 12)


def test_pairs_of_equal_relevance_are_not_counted():
    assert count_unequal_pairs(np.array([0, 0, 0, 1]), np.array([1.0, 1.0, 0.5, 0.0])) == 2
    outcome = contest_of(
        entry_of("one", dict.fromkeys(QUERIES, "abcd")), truth=truth_of(grades={"a": 1, "b": 1})
    )
    assert measure_pair_agreement(outcome, None, options_of())["pairs"][1] == []
