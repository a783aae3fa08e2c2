"""How good scores are, by query, against a truth or against grades; and paired differences."""

from dataclasses import dataclass

import numpy as np

from zelo_ray.fitting.battles import Floats

DEPTH = 10
RESAMPLES = 400


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


def told(scores: Floats, truth: Floats) -> Floats:
    """Pairs in order less pairs in the wrong one, as a share of those that the truth tells apart.

    It is 1 for the truth itself, whatever its ties; equal scores count for neither side.
    """
    one, other = _signs(scores), _signs(truth)
    return (one * other).sum(axis=(1, 2)) / np.maximum(np.abs(other).sum(axis=(1, 2)), 1)


def in_order(scores: Floats, truth: Floats) -> Floats:
    """The share of pairs with different truths that have the right order, by query."""
    return (1 + told(scores, truth)) / 2


def _signs(values: Floats) -> Floats:
    return np.sign(values[:, :, np.newaxis] - values[:, np.newaxis])


def centred(values: Floats) -> Floats:
    moved: Floats = values - values.mean(axis=1, keepdims=True)
    return moved


@dataclass(frozen=True, slots=True)
class Change:
    """A difference or a ratio between two plans on the same queries, with its standard error."""

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
    return float(_rmse(_moments(scores, truth).sum(axis=0)))


def rmse_ratio(new: Floats, old: Floats, truth: Floats, seed: int = 0) -> Change:
    """One root mean square error as a share of another; the error by a bootstrap over queries."""
    one, other = _moments(new, truth), _moments(old, truth)
    drawn = np.random.default_rng(seed).integers(len(truth), size=(RESAMPLES, len(truth)))
    ratios = _rmse(one[drawn].sum(axis=1)) / _rmse(other[drawn].sum(axis=1))
    return Change(float(_rmse(one.sum(axis=0)) / _rmse(other.sum(axis=0))), float(ratios.std()))


def _moments(scores: Floats, truth: Floats) -> Floats:
    """By query: sums of score x score, score x truth, truth x truth, and documents."""
    one, other = centred(scores), centred(truth)
    sums = [(one * one).sum(axis=1), (one * other).sum(axis=1), (other * other).sum(axis=1)]
    return np.stack([*sums, np.full(len(truth), truth.shape[1])], axis=1)


def _rmse(sums: Floats) -> Floats:
    own, cross, true, documents = np.moveaxis(sums, -1, 0)
    return np.sqrt(np.maximum(true - cross**2 / np.maximum(own, 1e-12), 0) / documents)
