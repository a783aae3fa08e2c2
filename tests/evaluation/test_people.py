"""People's labels: which documents are drawn, and what they correct."""

import json
import math
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

from tests.helpers.contests import framed, table
from zelo_ray.evaluation.measures import (
    Truth,
    evaluate,
    parse_measure,
    rank_run,
)
from zelo_ray.evaluation.people.corrected import (
    correct_metrics,
    metrics_by_panel,
    metrics_by_people,
)
from zelo_ray.evaluation.people.frame import (
    build_frame,
    select_correctable,
)
from zelo_ray.evaluation.people.sampling import (
    inclusion_probabilities,
    label_sizes,
    priorities,
    sample_threshold,
)
from zelo_ray.evaluation.significance import student_test

LINEAR = ("nDCG@5", "nDCG@3", "nDCG(dcg='exp-log2')@5", "P(rel=2)@4", "RBP(rel=1)@5", "Grade@5")


@pytest.mark.parametrize("name", LINEAR)
def test_by_the_panel_alone_a_metric_is_what_it_always_was(name):
    frame, _, rankings = framed(name)
    for arm, found in zip(rankings.values(), metrics_by_panel(frame), strict=True):
        expected = evaluate([parse_measure(name)], arm)[0]
        np.testing.assert_allclose(found, expected, atol=1e-11)


@pytest.mark.parametrize("name", LINEAR)
def test_with_every_label_it_is_the_people_that_count(name):
    """Whatever the panel says, but for the ideal of nDCG, which is the panel's."""
    frame, said, _ = framed(name)
    gain = frame.linear.gains(said)
    expected = frame.by_query(frame.weight * gain)
    for estimate in (correct_metrics, metrics_by_people):
        np.testing.assert_allclose(estimate(frame, gain, np.ones(len(gain))), expected, atol=1e-12)


def test_measures_that_people_can_correct():
    every = ("nDCG@10", "AP", "RR@10", "R@5", "P@5", "Pairs", "Judged@10")
    chosen, left_out = select_correctable(map(parse_measure, every))
    assert [*map(str, chosen)] == ["nDCG@10", "P@5"]
    assert set(left_out) == {"AP", "RR@10", "R@5", "Pairs"}
    assert [*map(str, select_correctable([parse_measure("zelo_nDCG@20")])[0])] == ["nDCG@20"]
    assert [*map(str, select_correctable([parse_measure("Pairs")])[0])] == ["nDCG@10"]
    of_scores = map(parse_measure, ("P(rel=0)@5", "Grade@5"))
    chosen, left_out = select_correctable(of_scores, scores=True)
    assert [*map(str, chosen)] == ["Grade@5"]
    assert left_out == {"P(rel=0)@5": "its rel is a score, and people give grades"}


# --- the draw


def test_samples_are_of_just_so_many_and_hold_each_other():
    frame, _, _ = framed(queries=30)
    size = label_sizes(frame)
    order = priorities(*zip(*frame.ids, strict=True), size, 7)
    assert (order > 0).sum() == (size > 0).sum() < len(size)  # what both rank alike is not drawn
    samples = [order > sample_threshold(order, n) for n in (1, 10, 50, 80, 10_000)]
    assert [each.sum() for each in samples] == [1, 10, 50, 80, (size > 0).sum()]
    assert all((large | ~small).all() for small, large in pairwise(samples))
    again = priorities(*zip(*frame.ids, strict=True), size, 7)
    assert (order == again).all()
    assert (order != priorities(*zip(*frame.ids, strict=True), size, 8)).any()


def test_weights_over_the_probabilities_give_sums_without_bias():
    rng = np.random.default_rng(1)
    size = rng.exponential(size=60) + 0.05
    value = size * rng.normal(1, 0.5, 60)
    found = []
    for seed in range(4000):
        order = priorities(["q"] * 60, map(str, range(60)), size, seed)
        threshold = sample_threshold(order, 15)
        known = order > threshold
        found.append((value[known] / inclusion_probabilities(size, threshold)[known]).sum())
    error = np.std(found) / math.sqrt(len(found))
    assert abs(np.mean(found) - value.sum()) < 3 * error


def test_more_is_drawn_where_a_label_moves_more_and_nothing_that_counts_is_out_of_reach():
    frame, _, _ = framed(queries=30)
    size, apart = label_sizes(frame), np.ptp(frame.weight, axis=0)
    assert ((size > 0) == (apart > 0)).all()
    assert size[size > 0].min() >= 0.25 * apart[apart > 0].mean() - 1e-12
    large = apart > np.median(apart)
    assert (size[large] >= apart[large]).all()


# --- the estimate


PPI = json.loads((Path(__file__).parents[1] / "golden" / "ppi_mean.json").read_text())


@pytest.mark.parametrize("case", PPI, ids=lambda case: f"{len(case['labelled'])} labels")
def test_the_plain_estimator_is_that_of_ppi_py(case):
    """One document a query, all drawn with one probability, and no map to learn.

    Made by ``ppi_mean_pointestimate(said, panel[labelled], panel, lam=1)`` of ppi_py 0.2.3. It is
    no test dependency, since it installs a package ``tests`` that hides this one.
    """
    panel, queries = case["panel"], len(case["panel"])
    ids = [f"q{q}" for q in range(queries)]
    truth = Truth(table("relevance", [ids, ["d"] * queries, panel]))
    run = table("score", [ids, ["d"] * queries, [1.0] * queries])
    frame = build_frame(parse_measure("Grade@1"), {"a": rank_run(truth, run)})
    gain = np.full(queries, np.nan)
    gain[case["labelled"]] = case["said"]
    chance = np.full(queries, len(case["labelled"]) / queries)
    found = correct_metrics(frame, gain, chance).mean()
    assert found == pytest.approx(case["mean"], abs=1e-12)


@pytest.mark.parametrize(("labels", "error"), [(20, 0.5), (60, 0.5), (60, 1.5)])
def test_intervals_hold_what_people_would_say(labels, error):
    """Over other queries and draws; nominal .95, of 500: .93 to .97 within two errors."""
    frame, said, _ = framed(queries=60, documents=12, error=error)
    wanted = frame.by_query(frame.weight * said)
    starts = np.searchsorted(frame.query, np.arange(61))
    rng = np.random.default_rng(5)
    rows = []
    for _ in range(500):
        chosen = rng.integers(0, 60, 60)
        at = np.concatenate([np.arange(starts[q], starts[q + 1]) for q in chosen])
        query = np.repeat(np.arange(60), np.diff(starts)[chosen])
        sample = replace(frame, query=query, weight=frame.weight[:, at], panel=frame.panel[at])
        size = label_sizes(sample)
        order = size / (1 - rng.random(len(size)))
        threshold = sample_threshold(order, labels)
        gain = np.where(order > threshold, said[at], np.nan)
        one, other = correct_metrics(sample, gain, inclusion_probabilities(size, threshold))
        rows.append(one - other)
    _, low, high, _, _ = student_test(np.array(rows), 0.95, np.full(500, 60))
    true = (wanted[0] - wanted[1]).mean()
    assert 0.93 <= ((low <= true) & (true <= high)).mean() <= 0.975


def test_an_arm_that_did_not_answer_a_query_decides_nothing_there():
    frame, _, _ = framed()
    answered = frame.answered.copy()
    answered[1, 0] = False
    assert not label_sizes(replace(frame, answered=answered))[frame.query == 0].any()
