"""Mean, median, majority, disagreement, and means set right by humans."""

import math
import statistics
from itertools import combinations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from zelo_ray.fitting.calibration import (
    Ratings,
    disagreement,
    estimate_shares,
    majority,
    mean,
    mean_errors,
    median,
    round_grades,
    typical_variance,
)

from zelo_ray.records import Share


def ratings_of(*rows, judges=5):
    """Each row holds the grades of one unit, by judge after judge."""
    entries = [(u, j, g) for u, row in enumerate(rows) for j, g in enumerate(row) if g is not None]
    columns = np.array(entries, dtype=np.int64).reshape(-1, 3).T
    return Ratings(*columns, len(rows), tuple(f"j{j}" for j in range(judges)))


GRADES = st.lists(st.lists(st.sampled_from([None, 0, 1, 2, 3]), min_size=5, max_size=5), min_size=1)


@given(GRADES)
def test_baselines_are_what_they_are_by_hand(rows):
    ratings = ratings_of(*rows)
    medians, majorities, apart = median(ratings), majority(ratings), disagreement(ratings)
    means, typical = mean(ratings), typical_variance(ratings)
    errors = mean_errors(ratings, typical)
    given = [[grade for grade in row if grade is not None] for row in rows]
    several = [statistics.variance(said) for said in given if len(said) > 1]
    assert typical == pytest.approx(statistics.mean(several) if several else math.nan, nan_ok=True)
    for unit, row in enumerate(rows):
        said = [grade for grade in row if grade is not None]
        if not said:
            assert math.isnan(medians[unit])
            assert math.isnan(means[unit])
            assert math.isnan(errors[unit])
            assert majorities[unit] == -1
            assert math.isnan(apart[unit])
            continue
        assert means[unit] == pytest.approx(statistics.mean(said))
        assert round_grades(means[[unit]])[0] == round(
            statistics.mean(said)
        )  # a half to the even one
        if several:
            squares = statistics.pvariance(said) * len(said)
            shrunk = (4 * typical + squares) / (4 + len(said) - 1)
            assert errors[unit] == pytest.approx(math.sqrt(shrunk / len(said)))
        middle = statistics.median(said)
        assert medians[unit] == middle
        modes = statistics.multimode(said)
        assert majorities[unit] == min(modes, key=lambda g: (abs(g - middle), g))
        pairs = [abs(a - b) for a, b in combinations(said, 2)]
        if pairs:
            assert apart[unit] == pytest.approx(statistics.mean(pairs))
        else:
            assert math.isnan(apart[unit])


def test_a_judge_that_was_asked_three_times_has_one_vote():
    columns = ([0, 0, 0, 0, 0], [0, 0, 0, 1, 2], [3, 3, 3, 0, 0])
    ratings = Ratings(*map(np.array, columns), 1, ("a", "b", "c"))
    assert median(ratings) == 0
    assert majority(ratings) == 0
    assert disagreement(ratings) == 2  # differences of 3, 3 and 0
    assert mean(ratings) == 1
    assert typical_variance(ratings) == 3


def test_a_split_between_two_grades():
    ratings = ratings_of([0, 3], [0, 0, 3, 3, 1], [0, 3, 3, 0])
    assert median(ratings).tolist() == [1.5, 1, 1.5]
    assert majority(ratings).tolist() == [0, 0, 0]


def truths(documents, humans, seed=0):
    rng = np.random.default_rng(seed)
    human = rng.choice(4, documents, p=[0.5, 0.2, 0.2, 0.1]).astype(float)
    panel = np.clip(human + rng.choice([-1, 0, 0, 1, 1], documents), 0, 3)
    human[rng.permutation(documents)[humans:]] = np.nan
    return panel, human


def corrected(panel, human):
    """Prediction-powered inference, written out by hand."""
    asked = ~np.isnan(human)
    y, f, u = human[asked], panel[asked], panel[~asked]
    n, rest = len(y), len(u)
    trust = np.cov(y, f, ddof=0)[0, 1] / ((1 + n / rest) * np.concatenate([f, u]).var(ddof=1))
    trust = min(max(trust, 0), 1)
    mean = trust * u.mean() + (y - trust * f).mean()
    return mean, np.sqrt(trust**2 * u.var(ddof=1) / rest + (y - trust * f).var(ddof=1) / n)


@pytest.mark.parametrize("humans", [60, 200])
def test_shares_are_set_right(humans):
    panel, human = truths(1000, humans, seed=1)
    rows = estimate_shares(panel, human)
    assert [row.measure for row in rows] == ["grade", ">=1", ">=2", ">=3"]
    for grade, row in enumerate(rows):
        said = panel if not grade else (panel >= grade) * 1.0
        true = human if not grade else np.where(np.isnan(human), np.nan, human >= grade)
        mean, error = corrected(said, true)
        assert (row.panel, row.documents, row.humans) == (pytest.approx(said.mean()), 1000, humans)
        assert row.mean == pytest.approx(mean)
        quantile = {60: 2.0010, 200: 1.9720}[humans]  # Student's, of 59 and 199
        assert row.high - row.mean == pytest.approx(quantile * error, rel=1e-4)
        assert row.mean - row.low == pytest.approx(quantile * error, rel=1e-4)


def test_shares_hold_the_truth():
    held, trials = 0, 400
    for seed in range(trials):
        row = estimate_shares(*truths(500, 60, seed))[0]
        held += row.low < 0.9 < row.high
    assert 0.915 < held / trials < 0.985


def test_shares_without_and_with_all_humans():
    panel, human = truths(100, 0)
    for row in estimate_shares(panel, human):
        assert row.mean == row.panel
        assert math.isnan(row.low)
        assert math.isnan(row.high)
    panel, human = truths(100, 100)
    assert estimate_shares(panel, human)[0].mean == pytest.approx(human.mean())
    assert estimate_shares(panel, human)[2].mean == pytest.approx((human >= 2).mean())
    panel, human = truths(100, 4)
    assert math.isnan(estimate_shares(panel, human)[0].low)
    none = np.array([])
    assert isinstance(estimate_shares(none, none)[0], Share)
    assert math.isnan(estimate_shares(none, none)[0].mean)


def test_labels_that_are_all_alike_leave_it_open_how_many_are_not():
    """Bounds for 0 of 5 and of 50 as tables of exact binomial intervals have them."""
    panel = np.zeros(100)
    for humans, bound in ((5, 0.5218), (50, 0.0711), (100, 0.0362)):
        human = np.where(np.arange(100) < humans, 0.0, np.nan)
        grade, *rest = estimate_shares(panel, human)
        assert (grade.mean, grade.low, grade.high) == (0, 0, pytest.approx(3 * bound, abs=3e-4))
        for row in rest:
            assert (row.mean, row.low, row.high) == (0, 0, pytest.approx(bound, abs=1e-4))
        *_, most = estimate_shares(panel, human + 3)
        assert (most.mean, most.low, most.high) == (1, pytest.approx(1 - bound, abs=1e-4), 1)


def test_a_panel_that_is_right_wherever_humans_looked_may_err_elsewhere():
    panel = np.where(np.arange(1000) % 4 == 0, 1.0, 0.0)
    human = np.where(np.arange(1000) < 8, panel * 3, np.nan)
    human[:8] = panel[:8] = [0, 1, 0, 1, 0, 1, 0, 1]
    row = estimate_shares(panel, human)[1]
    assert row.low < row.mean - 0.2
    assert row.high > row.mean + 0.2


@pytest.mark.parametrize("humans", [5, 20, 60])
def test_intervals_of_a_rare_grade_hold_it(humans):
    held, trials = 0, 200
    for seed in range(trials):
        rng = np.random.default_rng(seed)
        human = rng.choice(4, 300, p=[0.9, 0.04, 0.04, 0.02]).astype(float)
        panel = human.copy()
        human[humans:] = np.nan
        *_, row = estimate_shares(panel, human)
        held += row.low <= 0.02 <= row.high
    assert held / trials > 0.93


def test_a_panel_of_one_grade_tells_the_humans_nothing_new():
    _, human = truths(100, 30)
    row = estimate_shares(np.full(100, 2.0), human)[0]
    assert row.mean == pytest.approx(np.nanmean(human))
