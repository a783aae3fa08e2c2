"""What grades come to: means and their errors, and a fit of each judge."""

import math
import statistics
from functools import cache
from itertools import combinations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import binom

from zelo_ray.fitting import grades
from zelo_ray.fitting.grades import Ratings, calibrate, learn_panel

CUTS = np.array([-0.3, 0.5, 1.3])
SLOPES, SEVERITY = np.array([0.8, 1.2, 2.0]), np.array([-0.3, 0.0, 0.4])


def ratings_of(rows):
    """Grades of units by row, of judges by column; -1 or None where there is none."""
    table = np.array([[-1 if grade is None else grade for grade in row] for row in rows])
    unit, judge = np.nonzero(table >= 0)
    names = tuple(f"j{judge}" for judge in range(table.shape[1]))
    return Ratings(unit, judge, table[unit, judge].astype(float), len(table), names)


def some(ratings, places, **changes):
    columns = {name: getattr(ratings, name)[places] for name in ("unit", "judge", "grade")}
    return Ratings(**{"units": ratings.units, "judges": ratings.judges, **columns, **changes})


# Means


ROWS = st.lists(st.lists(st.sampled_from([None, 0, 1, 2, 3]), min_size=5, max_size=5), min_size=1)


@given(ROWS)
def test_means_medians_and_their_errors_by_hand(rows):
    ratings = ratings_of(rows)
    means, medians = grades.mean(ratings), grades.median(ratings)
    typical = grades.typical_variance(ratings)
    errors, apart = grades.mean_errors(ratings, typical), grades.disagreement(ratings)
    given = [[grade for grade in row if grade is not None] for row in rows]
    several = [statistics.variance(said) for said in given if len(said) > 1]
    assert typical == pytest.approx(statistics.mean(several) if several else math.nan, nan_ok=True)
    for unit, said in enumerate(given):
        if not said:
            assert np.isnan([means[unit], errors[unit], medians[unit], apart[unit]]).all()
            continue
        middle = statistics.median(said)
        assert (means[unit], medians[unit]) == (pytest.approx(statistics.mean(said)), middle)
        pairs = [abs(a - b) for a, b in combinations(said, 2)]
        wanted = statistics.mean(pairs) if pairs else math.nan
        assert apart[unit] == pytest.approx(wanted, nan_ok=True)
        if several:
            squares = statistics.pvariance(said) * len(said)
            shrunk = (4 * typical + squares) / (4 + len(said) - 1)
            assert errors[unit] == pytest.approx(math.sqrt(shrunk / len(said)))


def test_a_half_goes_to_the_even_grade():
    halves = np.array([0.5, 1.5, 2.5, 1.5 + 1e-12, 2.4, np.nan])
    assert grades.round_grades(halves).tolist() == [0, 2, 2, 2, 2, -1]
    ratings = Ratings(*map(np.array, ([0, 0, 1, 1], [0] * 4, [0.0, 1, 1, 2])), 2, ("a",))
    assert ratings.matrix().tolist() == [[0, 2]]


# The fit of each judge


def graded(latent, rng, slopes=SLOPES, severity=SEVERITY):
    """Grades of shape [units, judges], by normal errors."""
    seen = latent[:, None] + rng.normal(size=(len(latent), len(slopes))) / slopes
    return (seen[:, :, None] > CUTS + severity[:, None]).sum(axis=2)


def simulate(units, seed=0):
    rng = np.random.default_rng(seed)
    latent = rng.normal(size=units)
    return latent, ratings_of(graded(latent, rng))


@cache
def fitted():
    """A panel that has graded 400 documents."""
    return learn_panel(simulate(400)[1])


def holds_95(count, trials):
    """Whether 95% intervals could hold so often, but for once in 10,000."""
    low, high = binom.ppf((5e-5, 1 - 5e-5), trials, 0.95)
    return low <= count <= high


def test_severity_and_spread_are_recovered():
    latent, ratings = simulate(20_000)
    panel = learn_panel(ratings)
    np.testing.assert_allclose([r.spread for r in panel.raters], 1 / SLOPES, atol=0.05)
    np.testing.assert_allclose(
        np.diff([r.severity for r in panel.raters]), np.diff(SEVERITY), atol=0.06
    )
    weights = np.array([rater.weight for rater in panel.raters])
    assert [*weights] == sorted(weights)
    assert weights.sum() == pytest.approx(1)
    found, _, above = calibrate(panel, ratings)
    assert np.corrcoef(found, latent)[0, 1] > 0.8
    # As many documents come to a grade as the judges say, by their weights.
    shares = (ratings.matrix()[:, :, np.newaxis] >= [1, 2, 3]).mean(axis=1)
    np.testing.assert_allclose(above.mean(axis=0), weights @ shares, atol=0.005)


def test_intervals_of_severity_and_spread_hold_the_truth():
    held, apart, trials = 0, 0, 20
    for seed in range(trials):
        first, second, third = learn_panel(simulate(500, seed=seed)[1]).raters
        held += abs(second.spread - 1 / SLOPES[1]) < 1.96 * second.spread_error
        error = np.hypot(first.severity_error, third.severity_error)
        apart += abs(third.severity - first.severity - 0.7) < 1.96 * error
    assert holds_95(held, trials)
    assert apart >= binom.ppf(5e-5, trials, 0.95)  # errors against the panel may be correlated


def test_people_as_an_anchor_set_the_scale():
    """A person who grades 1 where the panel grades 2 pulls the grades down to its own."""
    rng = np.random.default_rng(5)
    every = graded(
        rng.normal(size=3000), rng, np.array([1.2, 1.5, 1.8, 1.5]), np.array([0, 0, 0, 0.6])
    )
    table = every.copy()
    table[300:, 3] = -1
    ratings = ratings_of(table)
    own, anchored = learn_panel(ratings), learn_panel(ratings, anchor="j3")
    assert np.mean(calibrate(own, ratings)[0] - every[:, 3]) > 0.2
    assert abs(np.mean(calibrate(anchored, ratings)[0] - every[:, 3])) < 0.1
    assert anchored.raters[3].severity == pytest.approx(0.6, abs=0.2)
    np.testing.assert_array_equal(own.parameters, anchored.parameters)
    *weights, of_anchor = (rater.weight for rater in anchored.raters)
    assert math.isnan(of_anchor)
    assert sum(weights) == pytest.approx(1) == sum(rater.weight for rater in own.raters)


@pytest.mark.parametrize("kind", ["always 2", "random", "contrarian"])
def test_no_judge_does_harm(kind):
    _, ratings = simulate(400)
    odd = {
        "always 2": np.full(400, 2),
        "random": np.random.default_rng(1).integers(0, 4, 400),
        "contrarian": 3 - ratings.matrix()[1],
    }[kind]
    more = ratings_of(np.column_stack([*ratings.matrix(), odd]))
    panel = learn_panel(more)
    assert panel.raters[3].weight < 0.02
    before, after = calibrate(fitted(), ratings)[0], calibrate(panel, more)[0]
    assert np.abs(after - before).max() < 0.02


def test_judges_that_agree_are_not_infinitely_sure():
    first = simulate(200)[1].matrix()[0]
    copies = ratings_of(np.stack([first] * 3, axis=1))
    panel = learn_panel(copies)
    assert np.isfinite(panel.parameters).all()
    assert all(0.02 < rater.spread < 1 for rater in panel.raters)
    assert (np.abs(calibrate(panel, copies)[0] - first) < 0.6).all()
    (alone,) = learn_panel(ratings_of(first[:, np.newaxis])).raters
    assert (alone.severity, alone.severity_error) == pytest.approx((0, 0), abs=1e-6)  # the panel


def few(seed, judges=3):
    """A few units, some of whose grades are missing, and some repeated."""
    rng = np.random.default_rng(seed)
    columns = (rng.integers(0, end, int(rng.integers(1, 40))) for end in (8, judges, 4))
    unit, judge, grade = (np.resize(column, 20) for column in columns)
    return Ratings(unit, judge, grade * 1.0, 8, tuple(f"j{j}" for j in range(judges)))


@settings(max_examples=15)
@given(st.integers(0, 2**32 - 1))
def test_no_bit_of_a_unit_depends_on_its_company(seed):
    ratings = few(seed)
    whole = calibrate(fitted(), ratings)
    order = np.random.default_rng(seed).permutation(len(ratings.unit))
    for found, wanted in zip(calibrate(fitted(), some(ratings, order)), whole, strict=True):
        np.testing.assert_array_equal(found, wanted)
    for unit in set(ratings.unit):
        alone = calibrate(fitted(), some(ratings, ratings.unit == unit))
        for found, wanted in zip(alone, whole, strict=True):
            np.testing.assert_array_equal(found[unit], wanted[unit])


def test_repeats_share_one_weight():
    _, ratings = simulate(100)
    twice = some(ratings, np.tile(np.arange(len(ratings.unit)), 2))
    once, again = learn_panel(ratings), learn_panel(twice)
    np.testing.assert_array_equal(again.parameters, once.parameters)
    assert [rater.grades for rater in again.raters] == [100] * 3
    np.testing.assert_array_equal(calibrate(again, twice)[0], calibrate(once, ratings)[0])


def test_what_cannot_be_fitted_is_an_error(monkeypatch):
    empty = np.array([], dtype=np.int64)
    with pytest.raises(ValueError, match="no grades"):
        learn_panel(Ratings(empty, empty, empty * 1.0, 3, ("a",)))
    stop = grades.scipy.optimize.OptimizeResult(fun=1.0, status=1, message="too many steps")
    monkeypatch.setattr(grades.scipy.optimize, "minimize", lambda *_args, **_fields: stop)
    with pytest.raises(ArithmeticError, match="did not converge"):
        learn_panel(simulate(20)[1])
