"""Scores beside a coefficient of length: against independent regressions, and what it removes."""

import numpy as np
import pytest
import statsmodels.api as sm
from scipy.optimize import minimize

from zelo_ray.fitting.covariate import CLUSTERS, fit_with_covariate
from zelo_ray.fitting.outcomes import Games, OutcomeModel
from zelo_ray.fitting.ratings import rate


def games_of(rng, items, games, scores, x, slope):
    """Games between random items; x is a number of each item, or of each game."""
    first = rng.integers(0, items, games)
    second = (first + rng.integers(1, items, games)) % items
    apart = x if len(x) == games and items != games else x[first] - x[second]
    chance = 1 / (1 + np.exp(-(scores[first] - scores[second] + slope * apart)))
    won = (rng.random(games) < chance).astype(float)
    tied = (rng.random(games) < 0.1).astype(float)
    won, lost = won * (1 - tied), (1 - won) * (1 - tied)
    return Games(items=items, first=first, second=second, won=won, lost=lost, tied=tied), apart


def run_of(seed, queries=3, items=6, games=24, slope=0.7, spread=1.0, relation=0.0):
    """Queries whose documents have lengths; their scores may go with the lengths."""
    rng = np.random.default_rng(seed)
    made, apart, truth = [], [], []
    for _ in range(queries):
        lengths = rng.normal(0, 1, items)
        own = rng.normal(0, spread, items) + relation * lengths
        query, x = games_of(rng, items, games, own, lengths, slope)
        made.append(query)
        apart.append(x)
        truth.append(own)
    return made, apart, truth


def objective(parameters, made, apart, prior_sd):
    value, at = 0.0, 1
    for games, x in zip(made, apart, strict=True):
        scores = parameters[at : at + games.items]
        at += games.items
        logits = scores[games.first] - scores[games.second] + parameters[0] * x
        value += (games.won + games.tied / 2) @ np.logaddexp(0, -logits)
        value += (games.lost + games.tied / 2) @ np.logaddexp(0, logits)
        value += scores @ scores / (2 * prior_sd**2)
    return value


def hessian(function, at, step=1e-4):
    size = len(at)
    steps = step * np.eye(size)
    return np.array(
        [
            [
                (
                    function(at + a + b)
                    - function(at + a - b)
                    - function(at - a + b)
                    + function(at - a - b)
                )
                / (4 * step**2)
                for b in steps
            ]
            for a in steps
        ]
    )


@pytest.mark.parametrize("prior_sd", [0.8, 2.5])
def test_it_is_the_maximum_of_the_posterior_with_its_curvature(prior_sd):
    made, apart, _ = run_of(1)
    fitted = fit_with_covariate(made, apart, prior_sd)

    def value(parameters):
        return objective(parameters, made, apart, prior_sd)

    start = np.zeros(1 + sum(games.items for games in made))
    best = minimize(value, start, method="BFGS", options={"gtol": 1e-9}).x
    assert fitted.coefficient == pytest.approx(best[0], abs=1e-5)
    scores = best[1:].reshape(3, -1)
    scores -= scores.mean(axis=1, keepdims=True)
    assert np.array(fitted.scores) == pytest.approx(scores, abs=1e-5)
    covariance = np.linalg.inv(hessian(value, best))
    assert fitted.std_error == pytest.approx(covariance[0, 0] ** 0.5, rel=1e-4)
    centring = np.eye(6) - 1 / 6
    for query, errors in enumerate(fitted.std_errors):
        block = covariance[1 + 6 * query : 7 + 6 * query, 1 + 6 * query : 7 + 6 * query]
        assert errors == pytest.approx(np.diag(centring @ block @ centring) ** 0.5, rel=1e-3)


def test_with_lengths_of_games_it_is_a_logistic_regression_on_items_and_length():
    rng = np.random.default_rng(3)
    own, x = np.array([0.0, 0.5, 1.0, -0.5]), rng.normal(0, 1, 400)
    games, apart = games_of(rng, 4, 400, own, x, 0.6)
    fitted = fit_with_covariate([games], [apart], prior_sd=1e4)
    design = np.zeros((400, 5))
    design[np.arange(400), games.first] += 1
    design[np.arange(400), games.second] -= 1
    design[:, 4] = apart
    won = games.won + games.tied / 2
    check = sm.GLM(won, design[:, 1:], family=sm.families.Binomial()).fit(tol=1e-12)
    assert fitted.coefficient == pytest.approx(check.params[3], abs=1e-5)
    assert fitted.std_error == pytest.approx(check.bse[3], rel=1e-4)
    scores = np.append(0.0, check.params[:3])
    assert fitted.scores[0] == pytest.approx(scores - scores.mean(), abs=1e-4)


def test_the_error_over_many_queries_is_that_of_a_regression_clustered_by_query():
    """Scores held at 0 by a narrow prior leave the coefficient alone."""
    made, apart, _ = run_of(5, queries=30, spread=0.0)
    fitted = fit_with_covariate(made, apart, prior_sd=1e-4)
    won = np.concatenate([games.won + games.tied / 2 for games in made])
    query = np.repeat(np.arange(30), 24)
    model = sm.GLM(won, np.concatenate(apart), family=sm.families.Binomial())
    check = model.fit(
        cov_type="cluster", cov_kwds={"groups": query, "use_correction": False}, tol=1e-12
    )
    assert fitted.coefficient == pytest.approx(check.params[0], abs=1e-5)
    assert fitted.std_error == pytest.approx(check.bse[0] * (30 / 29) ** 0.5, rel=1e-4)
    assert fitted.queries == 30 >= CLUSTERS


def test_without_differences_of_length_it_is_the_plain_fit_and_no_coefficient():
    made, apart, _ = run_of(2)
    fitted = fit_with_covariate(made, [0 * x for x in apart], 2.5)
    assert np.isnan(fitted.coefficient)
    assert np.isnan(fitted.std_error)
    for games, scores, errors in zip(made, fitted.scores, fitted.std_errors, strict=True):
        plain = rate(games, OutcomeModel(prior_sd=2.5))
        assert scores == pytest.approx(plain.scores, abs=1e-8)
        assert errors == pytest.approx(plain.std_errors, abs=1e-8)
