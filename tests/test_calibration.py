"""The panel's word: what is simulated is found again, and no judge does harm."""

import pickle
from dataclasses import replace
from functools import cache

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import approx_fprime
from scipy.stats import binom, norm
from zelo_ray.fitting.calibration import Ratings, compute_posterior, learn, model, thurstone
from zelo_ray.fitting.calibration.likelihood import SLIP

CUTS = np.array([-0.3, 0.5, 1.3])
SLOPES, SEVERITY = np.array([0.8, 1.2, 2.0]), np.array([-0.3, 0.0, 0.4])
COLUMNS = ("mean", "sd", "grade_mean", "grade_sd", "grade", "at_least", "log_likelihood")


def graded(latent, rng, slopes=SLOPES, severity=SEVERITY):
    """Grades of shape [units, judges], by normal errors."""
    seen = latent[:, None] + rng.normal(size=(len(latent), len(slopes))) / slopes
    return (seen[:, :, None] > CUTS + severity[:, None]).sum(axis=2)


def ratings_of(grades):
    unit, place = np.nonzero(grades >= 0)
    names = tuple(f"j{j}" for j in range(grades.shape[1]))
    return Ratings(unit, place, grades[unit, place], len(grades), names)


def simulate(units, seed=0):
    rng = np.random.default_rng(seed)
    latent = rng.normal(size=units)
    return latent, ratings_of(graded(latent, rng))


def shifted(queries, sd=0.8):
    """Query shifts, and grades of five documents each whose scores are known."""
    rng = np.random.default_rng(0)
    scores, shift = rng.normal(size=(queries, 5)) * 1.6, rng.normal(size=queries) * sd
    grades = graded((scores + shift[:, None]).ravel(), rng)
    query, place = np.repeat(np.arange(queries), 15), np.tile([0, 1, 2], queries * 5)
    offset = np.repeat(scores.ravel(), 3)
    return shift, Ratings(query, place, grades.ravel(), queries, ("j0", "j1", "j2"), offset)


def chosen(ratings, places, **changes):
    """Some of the ratings, or in another order."""
    names = ("unit", "judge", "grade") + (() if ratings.offset is None else ("offset",))
    return replace(ratings, **{name: getattr(ratings, name)[places] for name in names} | changes)


def few(seed, judges=4):
    """A few units, some of whose grades are missing, and some repeated."""
    rng = np.random.default_rng(seed)
    size = int(rng.integers(1, 40))
    columns = (rng.integers(0, end, size) for end in (8, judges, 4))
    return Ratings(*columns, 8, tuple(f"j{j}" for j in range(judges)))


@cache
def fitted_to(which):
    """A panel that has graded 400 documents, or some with offsets."""
    return learn(shifted(100)[1] if which == "offsets" else simulate(400)[1])


def bounds(held, trials):
    """Whether a count of intervals that held is what 95% ones could give, but once in 10,000."""
    low, high = binom.ppf((5e-5, 1 - 5e-5), trials, 0.95)
    return low <= held <= high


# The model


def test_chances_are_those_of_the_model():
    x, parameters = np.linspace(-3, 3, 7), np.array([[1.3, -0.4, 0.1, -0.5]])
    chances, _ = thurstone.cells(parameters, x)
    above = norm.cdf(1.3 * x - np.cumsum([-0.4, np.exp(0.1), np.exp(-0.5)])[:, None])
    expected = -np.diff(np.vstack([np.ones(7), above, np.zeros(7)]), axis=0)
    np.testing.assert_allclose(chances[0], expected, atol=1e-12)
    cuts, slopes = thurstone.cut_points(parameters)
    for k, cut in enumerate(cuts[0]):
        table, _ = thurstone.cells(parameters, np.array([cut, cut + 1e-5]))
        reached = table[0, k + 1 :].sum(axis=0)
        assert reached[0] == pytest.approx(0.5)
        rise = (reached[1] - reached[0]) / 1e-5
        assert rise == pytest.approx(slopes[0, k] / np.sqrt(2 * np.pi), rel=1e-3)


@pytest.mark.parametrize("levels", [2, 3, 4, 6])
def test_derivatives_of_chances(levels):
    rng = np.random.default_rng(levels)
    parameters = thurstone.start(rng.dirichlet(np.ones(levels), 2))
    parameters += rng.normal(size=parameters.shape) * 0.2
    x = np.linspace(-2, 2, 5)
    chances, by = thurstone.cells(parameters, x)
    np.testing.assert_allclose(chances.sum(axis=1), np.ones((2, 5)), atol=1e-12)
    for entry, nudge in enumerate(np.eye(parameters.shape[1]) * 1e-4):
        ahead, behind = (thurstone.cells(parameters + n, x)[0] for n in (nudge, -nudge))
        np.testing.assert_allclose(by[:, entry], (ahead - behind) / 2e-4, atol=2e-6)


@pytest.mark.parametrize("offsets", [False, True])
def test_gradient(offsets):
    ratings = shifted(12)[1] if offsets else simulate(40)[1]
    given = model._count_grades(ratings)
    target, _ = model._target(ratings, given, 1.0, 1.3)
    start = model._start(given, offsets)
    point = start + np.random.default_rng(0).normal(size=start.shape) * 0.1
    slope = approx_fprime(point, lambda p: target.loss(p)[0], 1e-6)
    gradient = target.loss(point)[1]
    np.testing.assert_allclose(gradient, slope, atol=1e-5 * np.abs(slope).max())
    means, precisions = target.prior(point)
    scores = target.times @ target.scores(point) - precisions * (point - means)
    np.testing.assert_allclose(-scores / target.times.sum(), gradient, atol=1e-12)


def test_posterior_is_the_integral():
    """Beside a sum over a much finer grid, written out by hand."""
    _, ratings = simulate(400)
    fitted = fitted_to("thurstone")
    found, x = compute_posterior(fitted, ratings), np.linspace(-8, 8, 8001)
    chances, _ = thurstone.cells(fitted.parameters, x)
    chances = (1 - SLIP) * chances + SLIP / 4
    for unit in range(0, 400, 100):
        own = ratings.unit == unit
        density = norm.pdf(x) * chances[ratings.judge[own], ratings.grade[own]].prod(axis=0)
        total = density.sum()
        mean = (x * density).sum() / total
        above = [(density * (x > cut)).sum() / total for cut in fitted.cuts]
        sd = np.sqrt(((x - mean) ** 2 * density).sum() / total)
        assert found.log_likelihood[unit] == pytest.approx(np.log(total * 0.002), abs=1e-5)
        assert found.mean[unit] == pytest.approx(mean, abs=1e-5)
        assert found.sd[unit] == pytest.approx(sd, abs=1e-4)
        np.testing.assert_allclose(found.at_least[unit], above, atol=3e-3)
        assert found.grade_mean[unit] == pytest.approx(sum(above), abs=5e-3)


# What is simulated is found


def test_judges_are_recovered():
    latent, ratings = simulate(20_000)
    fitted = learn(ratings)
    np.testing.assert_allclose([r.spread for r in fitted.raters], 1 / SLOPES, atol=0.05)
    severity = [rater.severity for rater in fitted.raters]
    np.testing.assert_allclose(np.diff(severity), np.diff(SEVERITY), atol=0.06)
    weights = [rater.weight for rater in fitted.raters]
    assert weights == sorted(weights)
    assert sum(weights) == pytest.approx(1)
    posterior = compute_posterior(fitted, ratings)
    # As many documents come to a grade as the judges say, by their weights.
    shares = [np.bincount(ratings.grade[ratings.judge == j], minlength=4) for j in range(3)]
    said = np.array(weights) @ np.array(shares)[:, ::-1].cumsum(axis=1)[:, ::-1][:, 1:] / 20_000
    np.testing.assert_allclose(posterior.at_least.mean(axis=0), said, atol=0.005)
    assert bounds(int((np.abs(posterior.mean - latent) < 1.96 * posterior.sd).sum()), 20_000)


def test_intervals_of_judges_hold_the_truth():
    held, apart, trials = 0, 0, 40
    for seed in range(trials):
        first, second, third = learn(simulate(500, seed=seed)[1]).raters
        held += abs(second.spread - 1 / SLOPES[1]) < 1.96 * second.spread_error
        error = np.hypot(first.severity_error, third.severity_error)
        apart += abs(third.severity - first.severity - 0.7) < 1.96 * error
    assert bounds(held, trials)
    assert apart >= binom.ppf(5e-5, trials, 0.95)  # errors against the panel may be correlated


def test_offsets_leave_the_shift_of_the_query():
    shift, ratings = shifted(1500)
    fitted = learn(ratings)
    assert fitted.sd == pytest.approx(0.8, abs=0.07)
    found = compute_posterior(fitted, ratings)
    assert np.corrcoef(found.mean, shift)[0, 1] > 0.85
    assert bounds(int((np.abs(found.mean - shift) < 1.96 * found.sd).sum()), 1500)
    np.testing.assert_allclose(fitted.parameters[:, 0] / fitted.unit, SLOPES, rtol=0.1)
    for unit, sd in ((0.01, 0.8), (100.0, 0.8), (1.0, 3.0)):
        _, ratings = shifted(400, sd=sd)
        scaled = learn(replace(ratings, offset=ratings.offset * unit))
        assert scaled.sd == pytest.approx(sd * unit, rel=0.25)


def test_an_anchor_sets_the_scale():
    """A human who grades 1 where the panel grades 2 pulls the grades down to its own."""
    rng = np.random.default_rng(5)
    latent = rng.normal(size=3000)
    grades = graded(latent, rng, np.array([1.2, 1.5, 1.8, 1.5]), np.array([0, 0, 0, 0.6]))
    human = grades[:, 3].copy()
    grades[300:, 3] = -1
    ratings = replace(ratings_of(grades), judges=("j0", "j1", "j2", "human"))
    own, anchored = learn(ratings), learn(ratings, anchor="human")
    assert np.mean(compute_posterior(own, ratings).grade_mean - human) > 0.2
    assert abs(np.mean(compute_posterior(anchored, ratings).grade_mean - human)) < 0.1
    assert anchored.raters[3].severity == pytest.approx(0.6, abs=0.2)
    np.testing.assert_array_equal(own.parameters, anchored.parameters)
    *weights, human_weight = (rater.weight for rater in anchored.raters)
    assert np.isnan(human_weight)
    assert sum(weights) == pytest.approx(1) == sum(rater.weight for rater in own.raters)
    assert weights == sorted(weights)


def test_clusters_widen_errors_that_are_shared():
    """Judges that err by the query, in simulation: without clusters errors are too small."""
    rng = np.random.default_rng(0)
    query = np.repeat(np.arange(40), 25)
    latent, shared = rng.normal(size=1000), rng.normal(size=(40, 3))[query] * 0.8
    columns = [graded(latent + shared[:, j], rng)[:, j] for j in range(3)]
    ratings = ratings_of(np.stack(columns, axis=1))
    plain, clustered = learn(ratings), learn(ratings, clusters=query)
    for before, after in zip(plain.raters, clustered.raters, strict=True):
        assert after.severity == before.severity
        assert after.severity_error > 1.2 * before.severity_error


def test_intervals_by_few_queries_hold_the_spreads():
    """Of clusters in which nothing is shared; their sums alone would hold .86 and less."""
    held, spreads = [], np.array([0.4, 0.8, 1.2])
    for seed in range(40):
        rng = np.random.default_rng(seed)
        latent = rng.standard_normal(300)
        seen = latent[:, np.newaxis] + rng.standard_normal((300, 3)) * spreads
        ratings = ratings_of((seen[..., np.newaxis] > [-0.4, 0.4, 1.1]).sum(axis=2))
        raters = learn(ratings, clusters=np.arange(300) // 100).raters
        found = np.array([(rater.spread, rater.spread_error) for rater in raters])
        held += list(np.abs(found[:, 0] - spreads) < 1.96 * found[:, 1])
    assert np.mean(held) > 0.9


# What may not happen


@pytest.mark.parametrize("kind", ["always 2", "random", "contrarian"])
def test_no_judge_does_harm(kind):
    _, ratings = simulate(400)
    before = compute_posterior(fitted_to("thurstone"), ratings)
    grade = {
        "always 2": np.full(400, 2),
        "random": np.random.default_rng(1).integers(0, 4, 400),
        "contrarian": 3 - ratings.grade[ratings.judge == 1],
    }[kind]
    added = {"unit": np.arange(400), "judge": np.full(400, 3), "grade": grade}
    columns = {name: np.append(getattr(ratings, name), new) for name, new in added.items()}
    more = replace(ratings, **columns, judges=(*ratings.judges, "odd"))
    fitted = learn(more)
    after = compute_posterior(fitted, more)
    assert fitted.raters[3].weight < 0.02
    assert np.abs(after.grade_mean - before.grade_mean).max() < 0.02
    near = np.abs(before.grade_mean % 1 - 0.5) < 0.02  # a toss-up already
    np.testing.assert_array_equal(after.grade[~near], before.grade[~near])


def test_judges_that_agree_are_not_infinitely_sure():
    """Copies of one judge, also on few documents of two queries; and one judge alone."""
    first = simulate(200)[1].grade[::3]
    copies = ratings_of(np.stack([first] * 3, axis=1))
    fitted = learn(copies)
    assert np.isfinite(fitted.parameters).all()
    assert all(0.02 < rater.spread < 1 for rater in fitted.raters)
    assert (np.abs(compute_posterior(fitted, copies).grade_mean - first) < 0.6).all()
    grade = np.array([0, 1, 1, 2, 3, 3, 2, 0])
    ratings = ratings_of(np.stack([grade] * 3, axis=1))
    for rater in learn(ratings, clusters=np.arange(8) // 4).raters:
        assert rater.severity == pytest.approx(0, abs=1e-6)
        assert 0.1 < rater.severity_error < 2
        assert 0.02 < rater.spread_error < 2
    alone = learn(ratings_of(grade[:, np.newaxis])).raters[0]
    assert (alone.severity, alone.severity_error) == pytest.approx((0, 0), abs=1e-6)  # the panel


def test_few_grades_are_finite():
    for seed in range(10):
        ratings = few(seed)
        found = compute_posterior(learn(ratings), ratings)
        has = np.isin(np.arange(8), ratings.unit)
        for name in ("mean", "sd", "grade_mean", "grade_sd"):
            assert (np.isfinite(getattr(found, name)) == has).all()
        assert ((found.grade >= 0) == has).all()
        assert found.grade.max() <= 3


@settings(max_examples=15)
@given(st.integers(0, 2**32 - 1), st.sampled_from(["thurstone", "offsets"]))
def test_a_unit_depends_on_its_own_grades_alone(seed, which):
    ratings, fitted = few(seed, judges=3), fitted_to(which)
    rng = np.random.default_rng(seed)
    if which == "offsets":
        ratings = replace(ratings, offset=rng.normal(size=len(ratings.unit)) * 2)
    whole = compute_posterior(fitted, ratings)
    order = rng.permutation(len(ratings.unit))
    parts = {None: compute_posterior(fitted, chosen(ratings, order))}
    for unit in set(ratings.unit):
        parts[unit] = compute_posterior(fitted, chosen(ratings, ratings.unit == unit))
    for unit, found in parts.items():
        place = slice(None) if unit is None else unit
        for name in COLUMNS:
            alike = getattr(found, name)[place], getattr(whole, name)[place]
            np.testing.assert_array_equal(*alike)


def test_judges_are_known_by_name():
    _, ratings = simulate(50)
    fitted = fitted_to("thurstone")
    turned = replace(ratings, judges=("j2", "j1", "j0"), judge=2 - ratings.judge)
    expected = compute_posterior(fitted, ratings)
    np.testing.assert_allclose(compute_posterior(fitted, turned).mean, expected.mean, atol=1e-12)
    pair = chosen(ratings, ratings.judge < 2, judges=("j0", "j1"))
    assert (compute_posterior(fitted, pair).sd > expected.sd).all()
    with pytest.raises(ValueError, match="without j9"):
        compute_posterior(fitted, replace(ratings, judges=("j0", "j1", "j9")))
    with pytest.raises(ValueError, match="4 levels, not 5"):
        compute_posterior(fitted, replace(ratings, levels=5))


def test_repeats_share_one_weight_and_weights_count():
    _, ratings = simulate(100)
    size = len(ratings.unit)
    twice = chosen(ratings, np.tile(np.arange(size), 2))
    once, again = learn(ratings), learn(twice)
    np.testing.assert_array_equal(again.parameters, once.parameters)
    one = compute_posterior(once, ratings)
    np.testing.assert_array_equal(compute_posterior(again, twice).mean, one.mean)
    heavy = learn(replace(ratings, weight=np.full(size, 2.0)))
    assert heavy.raters[0].grades == 2 * once.raters[0].grades
    kept = ratings.judge > 0
    zero = compute_posterior(once, replace(ratings, weight=kept * 1.0))
    without = compute_posterior(once, chosen(ratings, kept))
    np.testing.assert_allclose(zero.mean, without.mean, atol=1e-12)


def test_models_are_small_and_travel():
    fitted = fitted_to("thurstone")
    packed = pickle.dumps(fitted)
    assert len(packed) < 3000
    np.testing.assert_array_equal(pickle.loads(packed).parameters, fitted.parameters)


def test_what_cannot_be_fitted_is_refused(monkeypatch):
    _, ratings = simulate(200)
    with pytest.raises(ValueError, match="'human' is none of the judges"):
        learn(ratings, anchor="human")
    empty = np.array([], dtype=np.int64)
    with pytest.raises(ValueError, match="no grades"):
        learn(Ratings(empty, empty, empty, 3, ("a",)))
    for changes in (
        {"grade": ratings.grade + 3},
        {"weight": np.ones(3)},
        {"offset": np.full(len(ratings.unit), np.nan)},
    ):
        with pytest.raises(ValueError, match=r"0 to 3|one length|finite"):
            replace(ratings, **changes)
    monkeypatch.setattr(model, "MAX_STEPS", 2)
    with pytest.raises(ArithmeticError, match="did not converge"):
        learn(ratings)
