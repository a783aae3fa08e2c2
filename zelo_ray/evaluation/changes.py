"""Say how surely a difference was seen, and how many queries would show it."""

from math import ceil, isnan, log2, nan, sqrt

import numpy as np
import scipy

from zelo_ray.evaluation.agreement import CONFIDENCE
from zelo_ray.evaluation.significance import FEWEST, TIE, Floats

LEVEL, POWER = 0.05, 0.8
"""The level of a test, two-sided, and the chance to find what is called detectable."""
_MOST_QUERIES = 10_000_000  # beyond that a difference is as good as none


def p_of_interval(value: float, low: float, high: float, queries: int, tests: int) -> float:
    """Return the p that a 95% interval over queries comes to, corrected for so many tests.

    It is above .05 where the interval, widened to 1 - .05 / tests (Bonferroni) in the ratio of
    Student's quantiles, holds 0: samples of queries do not estimate such extreme quantiles.
    """
    if isnan(low) or abs(value) <= TIE:
        return nan if isnan(low) else 1.0
    t = abs(value) / max(value - low if value > 0 else high - value, TIE)
    t *= float(scipy.special.stdtrit(queries - 1, (1 + CONFIDENCE) / 2))
    return min(1.0, 2 * tests * float(scipy.special.stdtr(queries - 1, -t)))


def count_needed(differences: Floats, pairs: Floats) -> int:
    """Return how many queries would show the difference seen, at level .05 with power .8.

    The difference is a ratio of sums over queries, whose variance is that of its residuals
    (Cochran 1977, Sampling Techniques, section 6.4). The number of queries follows from the normal
    approximation (Cohen 1988, Statistical Power Analysis, section 2.4; for retrieval Webber, Moffat
    & Zobel 2008, CIKM): n = ((z of .975 + z of .8) sd / difference)^2.

    Args:
        differences: by query, on how many more pairs the one is right than the other, [queries].
        pairs: by query, how many pairs both judged, above 0, [queries].

    Returns:
        The number; 0 with fewer than two queries, or no difference.
    """
    if len(differences) < 2 or abs(differences.sum()) <= TIE:
        return 0
    mean = differences.sum() / pairs.sum()
    residuals = (differences - mean * pairs) / pairs.mean()
    sd = float(np.sqrt((residuals**2).sum() / (len(differences) - 1)))
    wide = float(scipy.special.ndtri(1 - LEVEL / 2) + scipy.special.ndtri(POWER))
    needed = (wide * sd / abs(float(mean))) ** 2
    return 0 if isnan(needed) or needed > _MOST_QUERIES else max(2, ceil(needed))


def queries_needed(tests: int) -> int:
    """Return the fewest queries with which one of so many tests can be significant.

    Its smallest p is 2 / 2**queries, which Holm multiplies by the number of tests.
    """
    return max(FEWEST, int(log2(2 * max(tests, 1) / LEVEL)) + 1)


def detectable_shift(means: Floats, tests: int) -> float:
    """Return the mean shift that a test finds with a chance of 80%, given how queries spread.

    The level is what Holm's correction leaves the smallest of ``tests`` p values. A noncentral t
    lies beyond its quantile with a chance of 80% (by its normal approximation: Johnson & Welch
    1940, Biometrika 31:362). ``means`` are shifts, [queries]; NaN with too few for any p as small,
    or if nothing moved.
    """
    n = len(means)
    if n < queries_needed(tests) or (spread := float(means.std(ddof=1))) <= TIE:
        return nan
    t = float(scipy.special.stdtrit(n - 1, 1 - LEVEL / tests / 2))
    steps = t + float(scipy.special.ndtri(POWER)) * sqrt(1 + t * t / (2 * (n - 1)))
    return steps * spread / sqrt(n)
