"""Compute intervals of shares of documents or pairs that are correlated within queries.

A share's interval is the exact binomial one (Clopper & Pearson 1934, Biometrika 26:404) of as many
independent answers as these are worth, allowing for the correlation (Korn & Graubard 1998, Survey
Methodology 24:193). ``part`` is how many of a query's answers are yes, ``total`` how many there
are: [queries] each.
"""

import numpy as np
import scipy

from zelo_ray.fitting.battles import Floats, Ints

_TAIL = (1 - 0.95) / 2


def sum_by_query(values: Floats, query: Ints) -> tuple[Floats, Floats]:
    """Sum and count values by query: [queries] each, of the queries that have any."""
    _, place = np.unique(query, return_inverse=True)
    sums = np.bincount(place, values.astype(np.float64)).astype(np.float64)
    return sums, np.bincount(place).astype(np.float64)


def intraclass_correlation(part: Floats, total: Floats) -> float:
    """Compute the correlation of answers within queries, from 0 to 1."""
    effect, size = _effect(part, total), _size(total)
    return float(np.clip((effect - 1) / (size - 1), 0, 1)) if size > 1 else np.nan


def effective_size(part: Floats, total: Floats, usual: float) -> float:
    """Return the number of independent answers that these are worth."""
    usual = 1.0 if np.isnan(usual) else usual
    effect = np.nanmax([1.0, _effect(part, total), 1 + (_size(total) - 1) * usual])
    answers, queries = float(total.sum()), len(total)
    if queries < 2:
        return 1.0 if answers > 1 else answers
    t = scipy.special.stdtrit
    short = t(answers - 1, 1 - _TAIL) / t(queries - 1, 1 - _TAIL)
    # At least one per query, as if all answers of a query were the same.
    return float(max(answers / effect * short**2, answers / _size(total)))


def binomial_interval(successes: float, size: float) -> tuple[float, float]:
    """Return the interval of a share of so many independent answers; fractions interpolate."""
    inverse = scipy.special.betaincinv
    low = inverse(successes, size - successes + 1, _TAIL) if successes > 0 else 0.0
    high = inverse(successes + 1, size - successes, 1 - _TAIL) if successes < size else 1.0
    return float(low), float(high)


def share_interval(part: Floats, total: Floats, usual: float) -> tuple[float, float, float]:
    """Return a share with the ends of its interval."""
    value = float(part.sum() / total.sum())
    mask = total > 0
    size = effective_size(part[mask], total[mask], usual)
    return value, *binomial_interval(min(value * size, size), size)


def _size(counts: Floats) -> float:
    """Return the mean number of answers in the query of an answer."""
    return float((counts**2).sum() / max(1.0, counts.sum()))


def _effect(part: Floats, counts: Floats) -> float:
    """Compute the design effect: the variance over that of independent answers."""
    answers, queries = counts.sum(), len(counts)
    if answers < 2 or queries < 2:
        return np.nan
    mean = part.sum() / answers
    plain = mean * (1 - mean) / (answers - 1)
    if plain <= 0:
        return np.nan
    variance = queries / (queries - 1) * float(((part - mean * counts) ** 2).sum()) / answers**2
    return float(variance / plain)
