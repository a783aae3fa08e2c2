"""Measure whether scores are probabilities that hold: Brier score, ECE, and a reliability curve."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr, stdtrit

from zelo_ray.evaluation.bootstrap import FEWEST
from zelo_ray.evaluation.resampling import Counts, Floats, chunk_sizes, random_stream

BINS = 10
"""Bins of equal width between 0 and 1, as usual for ECE."""
RESAMPLES = 1000
"""Samples of the queries at most: the ends of these intervals need no more."""
_COUNT, _SCORE, _RELEVANT, _SQUARES = range(4)


@dataclass(frozen=True, slots=True)
class ShareInterval:
    """A figure between 0 and 1 and the ends of its interval, which may be NaN."""

    value: float
    low: float
    high: float


@dataclass(frozen=True, slots=True)
class ReliabilityBin:
    """The documents whose scores lie in [start, stop): their mean score, and the relevant share.

    The last bin holds 1, too.
    """

    start: float
    stop: float
    documents: int
    mean_score: float
    relevant: ShareInterval


@dataclass(frozen=True, slots=True)
class Reliability:
    """Figures on how far scores hold as probabilities of being relevant.

    Attributes:
        documents: that have a score and a label.
        queries: that have such a document.
        relevant: the share of the documents that is relevant.
        brier: mean of (score - relevant)^2 (Brier 1950, Monthly Weather Review 78:1).
        ece: expected calibration error: mean distance of a bin's score from its relevant share,
            weighted by documents (Naeini, Cooper & Hauskrecht 2015, AAAI).
        ece_by_chance: what ECE is below in 95% of cases where scores do hold, and documents are
            relevant independently of each other (Bröcker & Smith 2007, Weather and Forecasting
            22:651).
        bins: those with documents, ascending.
    """

    documents: int
    queries: int
    relevant: float
    brier: ShareInterval
    ece: ShareInterval
    ece_by_chance: float
    bins: tuple[ReliabilityBin, ...]


def measure_reliability(
    scores: Floats,
    relevant: NDArray[np.bool_],
    query: Counts,
    *,
    resamples: int,
    confidence: float,
    seed: int,
) -> Reliability:
    """Measure whether scores hold as probabilities.

    Intervals are over samples of queries. Those of Brier score and shares are expanded percentiles,
    as of all means. ECE cannot fall below 0 and is too high by chance, in a sample of the sample
    twice as much; so its percentiles are mirrored at the value (the basic bootstrap). With 43
    queries of 20 documents such an interval holds .93 of true errors of .13, .90 of .017 and .64 of
    0 (``benchmarks/calibration.py``); plain percentiles hold hardly any of the last two.

    Args:
        scores: from 0 to 1, [documents].
        relevant: whether each is relevant, [documents].
        query: the query of each, as a number, [documents].
        resamples: how many samples of the queries are drawn, up to `RESAMPLES`.
        confidence: chance with which an interval is to hold the true value.
        seed: of the samples.
    """
    places, rows = np.unique(query, return_inverse=True)
    bins = np.minimum((scores * BINS).astype(np.int64), BINS - 1)
    terms = (np.ones(len(scores)), scores, relevant.astype(np.float64), (scores - relevant) ** 2)
    flat = np.stack([np.bincount(rows * BINS + bins, t, len(places) * BINS) for t in terms], axis=1)
    tables: Floats = flat.astype(np.float64).reshape(len(places), BINS, len(terms))
    total = tables.sum(axis=0)
    sampled = _sample(tables, min(resamples, RESAMPLES), seed)
    tails = _tails(len(places), confidence)
    error = float(_ece(total))
    low, high = _ends(_ece(sampled), tails)
    mirrored = np.clip([2 * error - high, 2 * error - low], 0, 1)
    spread = np.sqrt(np.bincount(bins, scores * (1 - scores), BINS))
    return Reliability(
        documents=len(scores),
        queries=len(places),
        relevant=float(total[:, _RELEVANT].sum() / len(scores)),
        brier=ShareInterval(float(_brier(total)), *_ends(_brier(sampled), tails)),
        ece=ShareInterval(error, float(mirrored[0]), float(mirrored[1])),
        ece_by_chance=_by_chance(spread, len(scores), seed),
        bins=tuple(
            ReliabilityBin(
                start=i / BINS,
                stop=(i + 1) / BINS,
                documents=int(total[i, _COUNT]),
                mean_score=float(total[i, _SCORE] / total[i, _COUNT]),
                relevant=ShareInterval(
                    float(total[i, _RELEVANT] / total[i, _COUNT]),
                    *_ends(
                        _quotient(sampled[:, i, _RELEVANT], sampled[:, i, _COUNT]),
                        _tails(int((tables[:, i, _COUNT] > 0).sum()), confidence),
                    ),
                ),
            )
            for i in np.flatnonzero(total[:, _COUNT])
        ),
    )


def _sample(tables: Floats, resamples: int, seed: int) -> Floats:
    """Return the sums of tables over samples of the queries, [resamples, bins, terms]."""
    queries, rng = len(tables), random_stream(seed, "queries")
    parts = []
    for size in chunk_sizes(resamples, queries):
        drawn = rng.integers(0, queries, (size, queries))
        drawn += np.arange(size)[:, np.newaxis] * queries
        weights = np.bincount(drawn.ravel(), minlength=size * queries).reshape(size, queries)
        parts.append(weights.astype(np.float64) @ tables.reshape(queries, -1))
    return np.concatenate(parts).reshape(resamples, *tables.shape[1:])


def _tails(queries: int, confidence: float) -> tuple[float, float]:
    """Return the shares at the ends of an expanded percentile interval (Hesterberg 2015)."""
    if queries < FEWEST:
        return np.nan, np.nan
    wider = np.sqrt(queries / (queries - 1)) * stdtrit(queries - 1, (1 + confidence) / 2)
    return float(ndtr(-wider)), float(ndtr(wider))


def _ends(values: Floats, tails: tuple[float, float]) -> tuple[float, float]:
    """Return the values at these shares; NaN where there is no interval."""
    if np.isnan(tails[0]):
        return np.nan, np.nan
    low, high = np.nanquantile(values, tails)
    return float(low), float(high)


def _ece(sums: Floats) -> Floats:
    distance = np.abs(sums[..., _SCORE] - sums[..., _RELEVANT]).sum(axis=-1)
    error: Floats = distance / sums[..., _COUNT].sum(axis=-1)
    return error


def _brier(sums: Floats) -> Floats:
    score: Floats = sums[..., _SQUARES].sum(axis=-1) / sums[..., _COUNT].sum(axis=-1)
    return score


def _quotient(part: Floats, total_weight: Floats) -> Floats:
    return np.divide(part, total_weight, out=np.full_like(part, np.nan), where=total_weight > 0)


def _by_chance(spread: Floats, documents: int, seed: int) -> float:
    """Return the 95th percentile of ECE where scores hold.

    Args:
        spread: of each bin, the standard deviation of how many documents are relevant, [bins].
        documents: of all bins.
        seed: of the draws.
    """
    drawn = random_stream(seed, "labels").normal(size=(RESAMPLES, len(spread))) * spread
    return float(np.quantile(np.abs(drawn).sum(axis=1) / documents, 0.95))
