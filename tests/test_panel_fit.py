"""Scores of battles given a model of each judge: against other derivations of the same numbers."""

import json
from dataclasses import replace

import numpy as np
import pytest
from scipy.optimize import approx_fprime, minimize

from tests.games import bradley_terry
from tests.panel_votes import draw, habits, panel, some
from zelo_ray.fitting.battles import Battles, battles_of
from zelo_ray.fitting.panel import (
    Grades,
    PanelModel,
    default_model,
    fit,
    grades_of,
    posteriors,
)
from zelo_ray.fitting.panel import mode as modes
from zelo_ray.fitting.panel.model import TIE, UNUSED_LEVEL_TERM
from zelo_ray.reasons import Unscored, UnscoredReason
from zelo_ray.records import Grade, Vote

GRADED = (0.4, 0.9, 1.6, 2.5)
PANEL = panel(
    habits(GRADED, cuts=(0.3, 0.6, 0.8), terms=(0.2, -0.3, -1.0), bias=0.3),
    habits((0.7, 0.7, 1.2), cuts=(0.25, 0.5), terms=(-0.2, -0.5), bias=-0.2),
    habits(0.8, bias=0.1),
    own_sd=0.4,
    rho=0.3,
)


ORACLE_SCALE = 2.13745
ORACLE_MEAN = [
    [-0.39683, -0.02895, 0.39456, -0.02592, 0.05714],
    [-0.37216, -0.35589, 0.03167, 0.71238, -0.01600],
]
ORACLE_VARIANCES = [
    [0.14218, 0.10915, 0.18751, 0.14229, 0.25243],
    [0.14533, 0.17396, 0.17580, 0.17127, 0.12912],
]
"""Of a prototype in plain numpy that is no part of the project: centred s and its variances."""


def only(battles, grades, model):
    """The posterior of battles whose pools have one size and fill no two stacks."""
    (found,) = posteriors(battles, grades, model)
    return found


def centre(documents):
    return np.eye(documents) - 1 / documents


# an independent log posterior, of s and of what each judge sees


def log_chances(one, x):
    slopes, terms = np.array(one.slopes), np.array(one.terms)
    odd = np.concatenate([-slopes[::-1], [0.0], slopes])
    even = np.concatenate([terms[:0:-1], terms])
    logits = odd * np.asarray(x)[..., np.newaxis] + even
    return logits - np.log(np.exp(logits).sum(-1, keepdims=True))


def log_posterior(battles, model, s, views):
    """Of one query, from the formulas alone.

    ``s`` is [..., documents], ``views`` [..., judges, documents].
    """
    pairs = [frozenset(pair) for pair in zip(battles.a, battles.b, strict=True)]
    found = -0.5 * np.sum(s**2, axis=-1)
    if model.own_sd:
        own = views - s[..., np.newaxis, :]
        found = found - 0.5 * np.sum(own**2, axis=(-1, -2)) / model.own_sd**2
    for row, (a, b, judge, y) in enumerate(
        zip(battles.a, battles.b, battles.judge, battles.preference, strict=True)
    ):
        one = model.habits[judge]
        size = 1 + sum(cut <= abs(y) for cut in one.cuts) if abs(y) > TIE else 0
        level = -int(np.sign(y)) * size  # negative: A is better
        order = -1 if battles.swapped[row] else 1
        x = views[..., judge, a] - views[..., judge, b] + one.bias * order
        weight = 1 / (1 + (pairs.count(pairs[row]) - 1) * model.rho)
        found = found + weight * log_chances(one, x)[..., level + len(one.slopes)]
    return found


def joint_mode(battles, model, documents):
    """Scores and views at the mode, and the Hessian there, by a general optimiser."""
    judges = len(model.judges)

    def loss(theta):
        s, views = theta[:documents], theta[documents:].reshape(judges, documents)
        return -log_posterior(battles, model, s, views)

    def slope(theta):
        return approx_fprime(theta, loss, 1e-5)

    found = minimize(loss, np.zeros(documents * (1 + judges)), tol=1e-12, options={"gtol": 1e-7})
    hessian = approx_fprime(found.x, slope, 1e-4)
    return found.x[:documents], (hessian + hessian.T) / 2


@pytest.mark.parametrize("seed", range(2))
def test_mode_and_covariance_are_those_of_a_general_optimiser(seed):
    battles = draw(PANEL, queries=1, documents=4, votes=14, seed=seed).battles
    s, hessian = joint_mode(battles, PANEL, 4)
    covariance = centre(4) @ np.linalg.inv(hessian)[:4, :4] @ centre(4)
    found = only(battles, None, PANEL)
    scale = PANEL.win_scale
    np.testing.assert_allclose(found.mean[0] / scale, s - s.mean(), atol=2e-4)
    np.testing.assert_allclose(found.covariance[0] / scale**2, covariance, rtol=0.02, atol=2e-3)


def test_the_gradient_vanishes_at_the_mode_and_moves_as_the_curvature_says():
    model = replace(PANEL, own_sd=0.0)
    drawn = draw(model, queries=1, documents=6, votes=30, seed=5)
    found = only(drawn.battles, None, model)
    s, step = found.mean[0] / model.win_scale, 1e-4

    def value(s):
        return log_posterior(drawn.battles, model, s, np.tile(s, (3, 1)))

    def gradient(s):
        return np.array([(value(s + e) - value(s - e)) / (2 * step) for e in step * np.eye(6)])

    np.testing.assert_allclose(gradient(s), 0, atol=1e-6)
    hessian = [(gradient(s + e) - gradient(s - e)) / (2 * step) for e in step * np.eye(6)]
    covariance = centre(6) @ np.linalg.inv(-np.array(hessian)) @ centre(6)
    np.testing.assert_allclose(found.covariance[0] / model.win_scale**2, covariance, atol=1e-5)


@pytest.mark.parametrize("own_sd", [0.0, 0.6])
def test_mean_and_covariance_are_near_those_of_the_whole_posterior(own_sd):
    """By importance sampling from the prior, so that Laplace's approximation is seen as well."""
    mild = habits((0.3, 0.5), cuts=(0.5,), terms=(-0.2,), bias=0.3)  # near a normal posterior
    model = panel(mild, habits(0.4), own_sd=own_sd, rho=0.02)
    battles = draw(model, queries=1, documents=3, votes=30, seed=3).battles
    rng = np.random.default_rng(0)
    s = rng.normal(size=(100_000, 3))
    views = s[:, np.newaxis] + own_sd * rng.normal(size=(100_000, 2, 3))
    flat = replace(model, own_sd=0.0)  # the draws hold the priors already
    logs = log_posterior(battles, flat, s, views) + 0.5 * np.sum(s**2, axis=1)
    weight = np.exp(logs - logs.max())
    weight /= weight.sum()
    s -= s.mean(1, keepdims=True)
    mean = weight @ s
    covariance = (weight[:, np.newaxis] * (s - mean)).T @ (s - mean)
    found = only(battles, None, model)
    errors = np.sqrt(covariance.diagonal())
    np.testing.assert_allclose((found.mean[0] / model.win_scale - mean) / errors, 0, atol=0.2)
    ratio = np.sqrt(found.covariance[0].diagonal()) / model.win_scale / errors
    np.testing.assert_allclose(ratio, 1, atol=0.05)


@pytest.mark.parametrize("prior_sd", [0.8, 2.5, 10.0])
def test_one_level_without_ties_is_bradley_terry(prior_sd):
    model = panel(habits(prior_sd / 2, tie=UNUSED_LEVEL_TERM))
    battles = draw(model, queries=5, documents=9, votes=40, seed=1).battles
    pair = np.minimum(battles.a, battles.b) * 9 + np.maximum(battles.a, battles.b)
    _, first = np.unique(battles.query * 81 + pair, return_index=True)
    battles = some(battles, first)
    wins = np.zeros((5, 9, 9))
    won = battles.preference < 0
    np.add.at(wins, (battles.query, battles.a, battles.b), won)
    np.add.at(wins, (battles.query, battles.b, battles.a), ~won)
    scores, errors = bradley_terry(wins, prior_sd)
    found = only(battles, None, model)
    np.testing.assert_allclose(found.mean, scores, atol=1e-5 * prior_sd)
    np.testing.assert_allclose(
        np.sqrt(found.covariance.diagonal(axis1=1, axis2=2)), errors, rtol=1e-4
    )


def test_the_oracle_agrees():
    """Numbers of the prototype with which the model was studied, on the same votes."""
    rng = np.random.default_rng(2026)
    query = np.repeat([0, 1], 12)
    i = rng.integers(5, size=24)
    j = (i + rng.integers(1, 5, size=24)) % 5
    judge = rng.integers(2, size=24)
    swapped = rng.random(24) < 0.5
    favour = np.round(rng.uniform(-1, 1, size=24), 1)
    ids = tuple("abcde")
    battles = Battles(
        query=query,
        a=i,
        b=j,
        judge=judge,
        preference=-favour,
        swapped=swapped,
        documents=(ids, ids),
        judges=("judge-00", "judge-01"),
    )
    model = panel(
        habits(GRADED, cuts=(0.3, 0.6, 0.8), terms=(0.2, -0.3, -1.0), bias=0.3),
        habits((0.5, 1.0, 1.5, 2.0), cuts=(0.2, 0.5, 0.9), terms=(0.1, 0.0, -0.8), bias=-0.2),
        own_sd=0.3,
        rho=0.25,
    )
    found = only(battles, None, model)
    scale = model.win_scale
    assert scale == pytest.approx(ORACLE_SCALE, rel=5e-3)
    np.testing.assert_allclose(found.mean / scale, ORACLE_MEAN, atol=1e-3)
    variances = found.covariance.diagonal(axis1=1, axis2=2) / scale**2
    np.testing.assert_allclose(variances, ORACLE_VARIANCES, atol=1e-3)


# what must not matter


@pytest.mark.parametrize("own_sd", [0.0, 0.4])
def test_the_order_of_votes_and_grades_changes_no_bit(own_sd):
    model = replace(PANEL, own_sd=own_sd)
    drawn = draw(model, queries=12, documents=7, votes=25, seed=4)
    rng = np.random.default_rng(1)
    whole = only(drawn.battles, drawn.grades, model)
    mixed = some(drawn.battles, rng.permutation(len(drawn.battles.query)))
    turned = rng.permutation(len(drawn.grades.query))
    names = ("query", "document", "judge", "grade")
    grades = Grades(**{name: getattr(drawn.grades, name)[turned] for name in names})
    other = only(mixed, grades, model)
    assert np.array_equal(whole.mean, other.mean)
    assert np.array_equal(whole.covariance, other.covariance)


@pytest.mark.parametrize("own_sd", [0.0, 0.4])
def test_a_query_gets_the_same_bits_in_any_company(own_sd):
    model = replace(PANEL, own_sd=own_sd)
    battles = draw(model, queries=40, documents=9, votes=30, seed=4).battles
    whole = only(battles, None, model)
    for place in (0, 17, 39):
        own = some(battles, battles.query == place)
        alone = replace(own, query=np.zeros_like(own.query), documents=battles.documents[:1])
        assert np.array_equal(only(alone, None, model).mean[0], whole.mean[place])
        assert np.array_equal(only(alone, None, model).covariance[0], whole.covariance[place])


def test_naming_a_pair_the_other_way_round_changes_nothing():
    battles = draw(PANEL, queries=3, documents=6, votes=20, seed=2).battles
    turned = replace(
        battles,
        a=battles.b,
        b=battles.a,
        preference=-battles.preference,
        swapped=~battles.swapped,
    )
    assert np.array_equal(only(battles, None, PANEL).mean, only(turned, None, PANEL).mean)


def test_own_views_that_nobody_has_are_the_same_as_none():
    battles = draw(PANEL, queries=3, documents=6, votes=20, seed=2).battles
    none, hardly = (only(battles, None, replace(PANEL, own_sd=sd)) for sd in (0.0, 0.003))
    np.testing.assert_allclose(hardly.mean, none.mean, atol=1e-3)
    np.testing.assert_allclose(hardly.covariance, none.covariance, atol=1e-3)


def test_pools_of_all_sizes_are_fitted_and_named():
    votes = [
        [Vote(f"q{n}", "d0", f"d{m}", "j", -0.5, False, "", "") for m in range(1, n)]
        for n in (2, 5, 2, 3)
    ]
    battles = battles_of(votes)
    model = default_model(battles.judges)
    found = {
        place: (mean, errors)
        for one in posteriors(battles, None, model)
        for place, mean, errors in zip(one.places, one.mean, one.covariance, strict=True)
    }
    assert [len(found[place][0]) for place in range(4)] == [2, 5, 2, 3]
    assert np.array_equal(found[0][0], found[2][0])
    for mean, covariance in found.values():
        assert np.argmax(mean) == 0
        np.testing.assert_allclose(mean.sum(), 0, atol=1e-12)
        np.testing.assert_allclose(covariance.sum(0), 0, atol=1e-12)


# what votes and grades do


def vote(a, b, preference, *, judge="x", query="q", swapped=False):
    return Vote(query, a, b, judge, preference, swapped, "", "")


def grade(doc_id, value, judge="x", query="q"):
    return Grade(query, doc_id, judge, value, (), (), "", "")


def fitted(votes, grades=(), **changes):
    battles = battles_of([votes], [[one.doc_id for one in grades]])
    model = replace(default_model(battles.judges), **changes)
    return fit(battles, grades_of(battles, [grades]), model, ["q"])[0]


def test_a_bias_for_the_first_is_taken_off():
    models = [replace(panel(habits(0.8, bias=bias)), judges=("x",)) for bias in (0.0, 0.8)]
    for swapped, less in ((False, True), (True, False)):
        once = battles_of([[vote("a", "b", -1.0, swapped=swapped)]])
        plain, cleared = (fit(once, None, model, ["q"])[0].scores[0].score for model in models)
        assert (cleared < plain) is less
        assert cleared > 0


def test_votes_on_one_pair_weigh_less_where_judges_err_together():
    votes = [vote("a", "b", -1.0, judge=judge) for judge in "xyz"]
    apart, together, alike = (fitted(votes, rho=rho, own_sd=0.0) for rho in (0.0, 0.5, 1.0))
    one = fitted(votes[:1], rho=0.5, own_sd=0.0)
    tops = [found.scores[0].score for found in (apart, together, alike)]
    assert tops[0] > tops[1] > tops[2]
    assert tops[2] == pytest.approx(one.scores[0].score)
    assert alike.scores[0].comparisons == 3


def test_grades_order_documents_that_no_battle_links():
    found = fitted([], [grade("a", 0), grade("b", 3), grade("c", 1, judge="stranger")])
    assert [score.doc_id for score in found.scores] == ["b", "c", "a"]
    assert all(score.comparisons == 0 for score in found.scores)


def test_parts_that_never_met_are_scored_only_if_grades_link_them():
    votes = [vote("a", "b", -1.0), vote("c", "d", -1.0)]
    alone = fitted(votes)
    assert not alone.scores
    assert alone.reason == Unscored.because(
        UnscoredReason.DISCONNECTED, parts=2, names="a, b; c, d"
    )
    assert not fitted(votes, [grade("a", 3)]).scores
    linked = fitted(votes, [grade("a", 3), grade("d", 2), grade("e", 0)])
    assert {score.doc_id for score in linked.scores} == set("abcde")
    assert linked.scores[-1].doc_id == "e"


def test_documents_that_nobody_judged_have_no_score():
    battles = battles_of([[vote("a", "b", -1.0)], []], [["lonely"], ["nobody"]])
    first, second = fit(battles, None, default_model(battles.judges), ["q", "r"])
    assert [score.doc_id for score in first.scores] == ["a", "b"]
    assert sum(score.score for score in first.scores) == pytest.approx(0)
    alone = fitted([vote("a", "b", -1.0)])
    assert first.scores[0].std_error == pytest.approx(alone.scores[0].std_error)
    assert second.reason.code is UnscoredReason.NO_VOTES


def test_equal_documents_are_ranked_by_id_and_ranks_start_at_one():
    found = fitted([vote("b", "a", 0.0), vote("c", "a", 0.0)])
    assert [(score.doc_id, score.rank) for score in found.scores] == [("a", 1), ("b", 2), ("c", 3)]
    assert [score.score for score in found.scores] == [0.0, 0.0, 0.0]


def test_absolute_scores_are_unknown_without_grades():
    scores = fitted([vote("a", "b", -1.0)]).scores
    assert all(np.isnan(score.absolute_score) for score in scores)
    graded = fitted([vote("a", "b", -1.0)], [grade("a", 3), grade("b", 2)]).scores
    low = fitted([vote("a", "b", -1.0)], [grade("a", 1), grade("b", 0)]).scores
    assert graded[0].absolute_score > low[0].absolute_score
    assert graded[0].absolute_error > graded[0].std_error


def test_all_wins_of_a_hundred_documents_converge():
    ids = [f"{n:03}" for n in range(100)]
    votes = [vote(a, b, -1.0) for n, a in enumerate(ids) for b in ids[n + 1 :]]
    scores = fitted(votes).scores
    assert [score.doc_id for score in scores] == ids


def test_a_fit_that_does_not_converge_raises(monkeypatch):
    monkeypatch.setattr(modes, "MAX_STEPS", 2)
    with pytest.raises(ArithmeticError, match="1 of 1 queries did not converge in 2 steps"):
        fitted([vote("a", "b", -1.0), vote("b", "c", -1.0)])


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"preference": np.array([1.5])}, r"lies in \[-1, 1\], not 1.5"),
        ({"preference": np.array([np.nan])}, "not nan"),
        ({"b": np.array([0])}, "cannot meet itself"),
        ({"judges": ("somebody else",)}, "a model of"),
    ],
)
def test_senseless_votes_are_refused(change, says):
    battles = battles_of([[vote("a", "b", -1.0)]])
    model = default_model(battles.judges)
    with pytest.raises(ValueError, match=says):
        list(posteriors(replace(battles, **change), None, model))


# the model


def test_a_model_survives_json():
    told = json.loads(json.dumps(PANEL.to_json()))
    assert PanelModel.from_json(told) == PANEL


def test_an_unknown_judge_is_what_the_panel_is_on_average():
    changed = PANEL.for_judges(("new", "judge-01"))
    assert changed.habits[1] == PANEL.habits[1]
    new = replace(changed, judges=("new",), habits=changed.habits[:1])
    assert new.win_scale == pytest.approx(PANEL.win_scale)
    assert new.habits[0].cuts == ()
    assert default_model(()).for_judges(("a",)).habits == default_model(("a",)).habits


def test_the_win_scale_is_the_slope_of_winning():
    one = PANEL.habits[0]

    def wins(x):
        chances = np.exp(log_chances(one, x))
        return chances[5:].sum() + chances[4] / 2

    slope = (wins(1e-4) - wins(-1e-4)) / 2e-4
    assert panel(one).win_scale == pytest.approx(4 * slope, rel=1e-6)
