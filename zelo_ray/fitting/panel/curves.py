"""Tabulate the mean and variance of a judge's slope at x, as piecewise cubics."""

from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from zelo_ray.fitting.battles import Floats, Ints
from zelo_ray.fitting.panel.model import PanelModel, level_parameters

REACH, NODES = 20.0, 4001
"""Tables span differences of s from -20 to 20: twenty times the sd that they have before votes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Curves:
    """The judges' level model in the form that a fit needs."""

    slopes: Floats
    """of levels -L to L: [judges, 2 L + 1]"""
    terms: Floats
    bias: Floats
    """[judges]"""
    cubics: tuple[Floats, Floats, Floats, Floats]
    """coefficients of the mean slope between nodes, of powers 0 to 3: each [judges * nodes]"""

    @property
    def top(self) -> int:
        """Return the highest level."""
        return int(self.slopes.shape[1]) // 2

    def moments(self, judge: Ints, x: Floats) -> tuple[Floats, Floats]:
        """Return the mean of the slope of a vote's level at x, and its variance.

        The second is the derivative of the first, as in any exponential family, also between
        nodes: so the tabulated posterior is concave like the model, and Newton's method exact.
        """
        at = (np.clip(x, -REACH, REACH) + REACH) * ((NODES - 1) / (2 * REACH))
        node = np.minimum(at.astype(np.int64), NODES - 2)
        part = at - node
        node += judge * NODES
        flat, linear, square, cube = (column[node] for column in self.cubics)
        mean = ((cube * part + square) * part + linear) * part + flat
        variance = ((3 * cube * part + 2 * square) * part + linear) * ((NODES - 1) / (2 * REACH))
        return mean, variance


@lru_cache(maxsize=16)  # later rounds use the same table for every pool
def curves_of(model: PanelModel) -> Curves:
    """Tabulate the curves of a panel: about 130 kB a judge.

    Between nodes stands the cubic with the exact values and derivatives at both (Hermite).
    """
    slopes, terms = level_parameters(model.habits)
    x = np.linspace(-REACH, REACH, NODES)
    logits = slopes[:, :, np.newaxis] * x + terms[:, :, np.newaxis]
    chances = np.exp(logits - logits.max(1, keepdims=True))
    chances /= chances.sum(1, keepdims=True)
    mean = (chances * slopes[:, :, np.newaxis]).sum(1)
    variance = (chances * slopes[:, :, np.newaxis] ** 2).sum(1) - mean**2
    rise = variance * (2 * REACH / (NODES - 1))
    step = np.diff(mean, append=mean[:, -1:])
    following = np.concatenate([rise[:, 1:], rise[:, -1:]], 1)
    square, cube = 3 * step - 2 * rise - following, rise + following - 2 * step
    return Curves(
        slopes=slopes,
        terms=terms,
        bias=np.array([habit.bias for habit in model.habits]),
        cubics=(mean.ravel(), rise.ravel(), square.ravel(), cube.ravel()),
    )
