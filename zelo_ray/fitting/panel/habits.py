"""Fit how each judge answers, from votes counted by difference."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import scipy

from zelo_ray.fitting.battles import Floats
from zelo_ray.fitting.panel.cavity import GRID, Evidence
from zelo_ray.fitting.panel.columns import VoteColumns
from zelo_ray.fitting.panel.model import TIE, Habits, PanelModel

LEVELS = 4
"""The most levels of a preference's size, which quartiles separate."""
FEWEST_VOTES_FOR_CUTS = 20
"""A judge with fewer votes other than ties has no cut points of its own."""
STEPS_PULL = 2.0
"""Precision of the prior that a slope equals that of the level below: sizes mean nothing."""
SLOPE_PULL, TIE_PULL, TERM_PULL, BIAS_PULL = 10.0, 1.0, 0.05, 4.0
"""Precisions of the priors of the first slope and the tie's term, around the panel's; of the other
terms and the bias, around 0. A vote adds about .5 to the precision of a slope, so 10 are worth some
20 votes."""
USUAL_RHO, USUAL_PAIRS = 0.3, 30.0
"""The prior of the correlation of judges' errors, and about how many pairs of votes it counts for.
Recorded judges of different models have .5 to .6, simulated ones .33 to .40."""
LEAST = 0.02
"""The smallest first slope: every judge is taken to be at least slightly better than chance."""


def set_levels(model: PanelModel, votes: VoteColumns, sizes: bool) -> PanelModel:
    """Give the model cut points for these votes, with slopes spread around their former values."""
    usual = model.for_judges(("",)).habits[0]
    habits = []
    for judge, habit in enumerate(model.habits):
        cuts = _cuts(np.abs(votes.favour[votes.judge == judge])) if sizes else ()
        slope = usual.slopes[0] * (np.linspace(0.6, 1.4, len(cuts) + 1) if cuts else np.ones(1))
        terms = (usual.terms[0], *[0.0] * (len(cuts) + 1))
        habits.append(replace(habit, cuts=cuts, slopes=tuple(slope.tolist()), terms=terms))
    return replace(model, habits=tuple(habits), sizes=sizes)


def _cuts(size: Floats) -> tuple[float, ...]:
    size = size[size > TIE]
    if len(size) < FEWEST_VOTES_FOR_CUTS:
        return ()
    cuts = np.unique(np.quantile(size, np.linspace(0, 1, LEVELS + 1)[1:-1]))
    return tuple(cuts[cuts > size.min()].tolist())


def fit_habits(model: PanelModel, evidence: Evidence) -> PanelModel:
    """Return the model with the greatest posterior given the evidence, under weak priors.

    Judges are shrunk towards the panel's average, so that one with few votes is much like the
    others.
    """
    first = float(np.mean([habit.slopes[0] for habit in model.habits]))
    tie = float(np.mean([habit.terms[0] for habit in model.habits]))
    habits = [
        _improve(habit, counts, first, tie)
        for habit, counts in zip(model.habits, evidence.counts, strict=True)
    ]
    return replace(model, habits=tuple(habits))


def _improve(habits: Habits, counts: Floats, first: float, tie: float) -> Habits:
    levels, top = len(habits.slopes), counts.shape[2] // 2
    target = _Target(counts[:, :, top - levels : top + levels + 1], levels, first, tie)
    rises = np.diff(np.array(habits.slopes), prepend=0.0)
    rises[0] = max(rises[0], LEAST)
    start = np.concatenate([rises, habits.terms[:1], habits.terms[2:], [habits.bias]])
    bounds = [(LEAST, 8.0), *[(0.0, 8.0)] * (levels - 1), *[(-15.0, 8.0)] * levels, (-5.0, 5.0)]
    optimum = scipy.optimize.minimize(target, start, jac=True, method="L-BFGS-B", bounds=bounds)
    slopes, terms, bias = _read(optimum.x, levels)
    return replace(
        habits, slopes=tuple(slopes[1:].tolist()), terms=tuple(terms.tolist()), bias=bias
    )


def _read(parameters: Floats, levels: int) -> tuple[Floats, Floats, float]:
    """Unpack the slopes and terms of the levels 0 to L, and the bias."""
    slopes = np.concatenate([[0.0], np.cumsum(parameters[:levels])])
    terms = np.concatenate([parameters[levels : levels + 1], [0.0], parameters[levels + 1 : -1]])
    return slopes, terms, float(parameters[-1])


class _Target:
    """Negative log posterior of a judge's rises of slope, terms of levels 0, 2, 3 ... and bias."""

    def __init__(self, counts: Floats, levels: int, first: float, tie: float) -> None:
        self.counts, self.levels = counts, levels
        self.prior_mean = np.zeros(2 * levels + 1)
        self.prior_mean[0], self.prior_mean[levels] = first, tie
        rises = [SLOPE_PULL, *[STEPS_PULL] * (levels - 1)]
        terms = [TIE_PULL, *[TERM_PULL] * (levels - 1)]
        self.precision = np.array([*rises, *terms, BIAS_PULL])

    def __call__(self, parameters: Floats) -> tuple[float, Floats]:
        slopes, terms, bias = _read(parameters, self.levels)
        odd = np.concatenate([-slopes[:0:-1], slopes])
        even = np.concatenate([terms[:0:-1], terms])
        value, by_slope, by_term, by_bias = 0.0, np.zeros_like(odd), np.zeros_like(odd), 0.0
        for counts, order in zip(self.counts, (-1.0, 1.0), strict=True):
            x = GRID + bias * order
            logits = x[:, np.newaxis] * odd + even
            logits -= logits.max(1, keepdims=True)
            totals = np.exp(logits).sum(1, keepdims=True)
            value -= float((counts * (logits - np.log(totals))).sum())
            excess = np.exp(logits) / totals * counts.sum(1, keepdims=True) - counts
            by_slope += x @ excess
            by_term += excess.sum(0)
            by_bias += order * float((excess @ odd).sum())
        return self._with_prior(parameters, value, self._gradient(by_slope, by_term, by_bias))

    def _gradient(self, by_slope: Floats, by_term: Floats, by_bias: float) -> Floats:
        levels = self.levels
        slope = by_slope[levels + 1 :] - by_slope[:levels][::-1]
        term = by_term[levels:].copy()
        term[1:] += by_term[:levels][::-1]
        rises = np.cumsum(slope[::-1])[::-1]
        return np.concatenate([rises, term[:1], term[2:], [by_bias]])

    def _with_prior(
        self, parameters: Floats, value: float, gradient: Floats
    ) -> tuple[float, Floats]:
        strayed = parameters - self.prior_mean
        value += 0.5 * float(self.precision @ strayed**2)
        return value, gradient + self.precision * strayed


def error_correlation(evidence: Evidence) -> float:
    """Return the correlation of judges' errors on a pair, shrunk towards `USUAL_RHO`."""
    products = evidence.products + USUAL_PAIRS * USUAL_RHO
    return float(np.clip(products / (evidence.shared_scale + USUAL_PAIRS), 0, 0.9))


def has_several_sizes(votes: VoteColumns, judges: Sequence[str]) -> bool:
    """Return whether any judge gives preferences of more than one size."""
    sizes = (np.abs(votes.favour[votes.judge == judge]) for judge in range(len(judges)))
    return any(_cuts(size) for size in sizes)
