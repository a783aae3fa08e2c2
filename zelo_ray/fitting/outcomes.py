"""Games between items, the Bradley-Terry model with its options, and its derivatives.

Item i, which stands first, beats j with probability 1 / (1 + exp(-x)), x = s_i - s_j + h, where h
is what standing first is worth (Agresti 2002, Categorical Data Analysis, 10.6). With Davidson's
ties (1970, JASA 65:317) the chances of win, loss and tie go as exp(x / 2), exp(-x / 2), exp(c); nu
in his paper is exp(c). Both are exponential families in (s, h, c), so that one Newton serves all.
"""

from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True, kw_only=True)
class Games:
    """Comparisons of one query, in columns of equal length; items are numbers from 0."""

    items: int
    first: Ints
    second: Ints
    won: Floats
    """weight with which the first won"""
    lost: Floats
    tied: Floats


@dataclass(frozen=True, slots=True, kw_only=True)
class OutcomeModel:
    """A model to fit: its prior, and how ties and order count."""

    prior_sd: float | None = 2.5
    """of the Gaussian prior of every parameter, in logits; None for maximum likelihood"""
    firth: bool = False
    """Firth's correction of the bias of maximum likelihood (1993, Biometrika 80:27)"""
    ties: Literal["half", "davidson"] = "half"
    """half a win for each, or outcomes of their own"""
    order: bool = False
    """whether an advantage of standing first is fitted"""


@dataclass(frozen=True, slots=True, kw_only=True)
class PairSheet:
    """Games summed by pair, with the model to fit to them.

    Outcome k of a game has the log weight d_k x + t_k c; ``d`` and ``t`` hold the d_k and t_k.
    """

    model: OutcomeModel
    items: int
    first: Ints
    second: Ints
    counts: Floats
    """of shape [pairs, outcomes]"""
    d: Floats
    t: Floats

    @classmethod
    def from_games(cls, games: Games, model: OutcomeModel) -> "PairSheet":
        """Add up the games of each pair in each order.

        Raises:
            ValueError: a weight is negative or not finite.
        """
        three = model.ties == "davidson"
        half = 0 if three else games.tied / 2
        columns = [games.won + half, games.lost + half, *([games.tied] if three else [])]
        weights = np.stack(columns)
        if not (np.isfinite(weights).all() and (weights >= 0).all()):
            raise ValueError("weights of comparisons must be finite and not negative")
        pairs, place = np.unique(games.first * games.items + games.second, return_inverse=True)
        summed = np.stack([np.bincount(place, column, len(pairs)) for column in weights], axis=1)
        some = summed.sum(axis=1) > 0
        return cls(
            model=model,
            items=games.items,
            first=pairs[some] // games.items,
            second=pairs[some] % games.items,
            counts=summed[some],
            d=np.array([0.5, -0.5, 0.0])[: len(columns)],
            t=np.array([0.0, 0.0, 1.0])[: len(columns)],
        )

    @property
    def has_ties(self) -> bool:
        """Return whether a tie is a third outcome."""
        return len(self.d) == 3

    @property
    def size(self) -> int:
        """Count the parameters: scores, then perhaps h, then perhaps c."""
        return self.items + self.model.order + self.has_ties

    def score_gradient(self, weight: Floats) -> Floats:
        """Compute the derivatives of sum(weight * x) by the scores and h."""
        ends = (np.bincount(at, weight, self.items) for at in (self.first, self.second))
        net: Floats = np.subtract(*ends)
        return np.append(net, weight.sum()) if self.model.order else net

    def evaluate(self, parameters: Floats) -> tuple[float, Floats, Floats]:
        """Compute the objective at some parameters, its gradient, and the information.

        The information has 1/K added in each cell of the scores: the likelihood does not see a
        shift of all of them, and this gives that direction a curvature of 1 and moves nothing else.
        """
        x = parameters[self.first] - parameters[self.second]
        x = x + parameters[self.items] if self.model.order else x
        logits = self.d * x[:, np.newaxis] + (self.t * parameters[-1] if self.has_ties else 0)
        logs = logits - np.logaddexp.reduce(logits, axis=1, keepdims=True)
        chances, games = np.exp(logs), self.counts.sum(axis=1)
        off_d = self.d - (chances @ self.d)[:, np.newaxis]
        off_t = self.t - (chances @ self.t)[:, np.newaxis]
        precision = self.model.prior_sd**-2 if self.model.prior_sd else 0.0
        moments = [
            games * (chances * a * b).sum(axis=1)
            for a, b in ((off_d, off_d), (off_d, off_t), (off_t, off_t))
        ]
        curvature = self._information(*moments) + precision * np.eye(self.size)
        value = float((self.counts * logs).sum() - precision / 2 * parameters @ parameters)
        surplus = self.counts
        if self.model.firth:
            surplus = surplus + self._correction(curvature, chances, off_d, off_t, games)
            value += float(np.linalg.slogdet(curvature)[1]) / 2
        gradient = self.score_gradient((surplus * off_d).sum(axis=1))
        if self.has_ties:
            gradient = np.append(gradient, (surplus * off_t).sum())
        return value, gradient - precision * parameters, curvature

    def _information(self, dd: Floats, dt: Floats, tt: Floats) -> Floats:
        """Sum over the games the covariance of the statistics of the parameters."""
        size, order = self.items, self.model.order
        matrix = np.zeros((self.size, self.size))
        adjacency = np.bincount(self.first * size + self.second, dd, size**2).reshape(size, size)
        adjacency = adjacency + adjacency.T
        matrix[:size, :size] = np.diag(adjacency.sum(axis=1)) - adjacency + 1 / size
        if order:
            matrix[size, : size + 1] = matrix[: size + 1, size] = self.score_gradient(dd)
        if self.has_ties:
            matrix[-1, :-1] = matrix[:-1, -1] = self.score_gradient(dt)
            matrix[-1, -1] = tt.sum()
        return matrix

    def _correction(
        self, curvature: Floats, chances: Floats, off_d: Floats, off_t: Floats, games: Floats
    ) -> Floats:
        """Return pseudo-counts with half the log determinant's gradient as score (Firth 1993).

        For an exponential family that is 1/2 sum_k p_k (u_k - m)' V (u_k - m) (u_k - m), a third
        central moment; of two outcomes it is the leverage times 1/2 - p.
        """
        i, j, v = self.first, self.second, np.linalg.inv(curvature)
        xx, xc = v[i, i] + v[j, j] - 2 * v[i, j], v[i, -1] - v[j, -1]
        if self.model.order:
            h = self.items
            xx, xc = xx + 2 * (v[i, h] - v[j, h]) + v[h, h], xc + v[h, -1]
        along = off_d**2 * xx[:, np.newaxis]
        if self.has_ties:
            along = along + 2 * off_d * off_t * xc[:, np.newaxis] + off_t**2 * v[-1, -1]
        pseudo: Floats = games[:, np.newaxis] * chances * along / 2
        return pseudo
