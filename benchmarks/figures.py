"""How good scores are by query, against a truth or against grades; intervals and differences."""

from dataclasses import dataclass

import numpy as np

from zelo_ray.fitting.battles import Floats

DEPTH = 10
RESAMPLES = 1000


def ndcg(scores: Floats, gains: Floats, depth: int = DEPTH) -> Floats:
    """nDCG@depth of each query, of shape [queries, documents] both; equal scores as numbered."""
    depth = min(depth, scores.shape[1])
    discount = 1 / np.log2(np.arange(depth) + 2)
    order = np.argsort(-scores, axis=1, kind="stable")[:, :depth]
    best = -np.sort(-gains, axis=1)[:, :depth] @ discount
    found = np.take_along_axis(gains, order, axis=1) @ discount
    return np.divide(found, best, out=np.ones_like(best), where=best > 0)


def tau(scores: Floats, truth: Floats) -> Floats:
    """Kendall's tau-b of each query (Kendall 1945, Biometrika 33:239)."""
    one, other = _signs(scores), _signs(truth)
    both = np.sqrt((one**2).sum(axis=(1, 2)) * (other**2).sum(axis=(1, 2)))
    return (one * other).sum(axis=(1, 2)) / np.maximum(both, 1)


def in_order(scores: Floats, truth: Floats) -> Floats:
    """The share of pairs with different truths in the right order, by query; equal is half."""
    one, other = _signs(scores), _signs(truth)
    more = (one * other).sum(axis=(1, 2)) / np.maximum(np.abs(other).sum(axis=(1, 2)), 1)
    return (1 + more) / 2


def _signs(values: Floats) -> Floats:
    return np.sign(values[:, :, np.newaxis] - values[:, np.newaxis])


def centred(values: Floats) -> Floats:
    moved: Floats = values - values.mean(axis=1, keepdims=True)
    return moved


@dataclass(frozen=True, slots=True)
class Change:
    """A difference between two plans on the same queries, with its standard error."""

    value: float
    error: float

    def __str__(self) -> str:
        return f"{self.value:+.4f} ± {self.error:.4f}"


def difference(new: Floats, old: Floats) -> Change:
    """The mean of paired differences over queries."""
    apart = new - old
    return Change(float(apart.mean()), float(apart.std(ddof=1) / len(apart) ** 0.5))


def rmse(scores: Floats, truth: Floats) -> float:
    """Of centred scores, all multiplied by the one number that is best for them."""
    one, other = centred(scores), centred(truth)
    best = (one * other).sum() / max((one * one).sum(), 1e-12)
    return float(((other - best * one) ** 2).mean() ** 0.5)


def mean_interval(values: Floats, seed: int = 0) -> str:
    """A mean over queries with its bootstrap interval."""
    drawn = np.random.default_rng(seed).integers(len(values), size=(RESAMPLES, len(values)))
    low, high = np.quantile(values[drawn].mean(axis=1), [0.025, 0.975])
    return f"{values.mean():.3f} [{low:.3f}, {high:.3f}]"
