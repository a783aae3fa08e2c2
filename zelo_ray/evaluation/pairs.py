"""Compare ways of judging by their verdicts on pairs that people judged."""

from collections.abc import Mapping
from dataclasses import dataclass
from math import ceil, isnan, nan
from typing import Literal

import numpy as np
import scipy
from numpy.typing import ArrayLike

from zelo_ray.evaluation.agreement import CONFIDENCE, Estimate, estimate_share
from zelo_ray.evaluation.ranking import Floats, Ints
from zelo_ray.evaluation.significance import ALPHA, POWER, TIE, paired_test

Measure = Literal["concordance", "agreement"]
MOST = 0.9
"""A way that judged a smaller share is not chosen: these pairs may be easier."""
_MOST_QUERIES = 10_000_000  # beyond that a difference is as good as none


@dataclass(frozen=True, slots=True)
class LabelledPairs:
    """Pairs with people's verdicts, [pairs] each: see `votes`.

    ``queries`` are places in ``query_ids``; ``weights`` say how many pairs each stands for. The
    verdicts of a way are of the same form, and -1 where it gave none.
    """

    verdicts: Ints
    weights: Floats
    query_ids: list[str]
    queries: Ints

    def credit(self, given: ArrayLike, measure: Measure = "concordance") -> Floats:
        """Return what each verdict counts: 1 if it is the people's, 0 if it is the other.

        By ``concordance`` a tie where people decide counts half, as does a decision where
        people say a tie: so guesses in place of ties change nothing on average. By
        ``agreement`` both count 0. NaN without a verdict.
        """
        given = np.asarray(given, np.float64)
        difference = np.abs(given - self.verdicts)
        exact = (difference == 0).astype(np.float64)
        credit: Floats = 1 - difference / 2 if measure == "concordance" else exact
        return np.where(given < 0, nan, credit)

    def sums(self, values: Floats) -> Floats:
        """Return weighted sums by query; NaN is left out."""
        weighted = self.weights * np.nan_to_num(values)
        return np.bincount(self.queries, weighted, len(self.query_ids)).astype(np.float64)

    def count(self, values: Floats) -> Floats:
        """Return weighted counts by query of values that are not NaN."""
        return self.sums((~np.isnan(values)).astype(np.float64))

    def share(self, values: Floats) -> Estimate:
        """Estimate the weighted mean of values, over the queries; NaN is left out."""
        return estimate_share(self.sums(values), self.count(values))


def choose(
    pairs: LabelledPairs, verdicts: Mapping[str, ArrayLike], measure: Measure = "concordance"
) -> str:
    """Return the way that agrees most with people; of equal ones the first.

    One that judged fewer than nine tenths of the pairs is not chosen, as they may be easier ones,
    unless all did.
    """
    credit = {name: pairs.credit(row, measure) for name, row in verdicts.items()}
    eligible = {name: row for name, row in credit.items() if np.mean(~np.isnan(row)) >= MOST}
    shares = {
        name: pairs.sums(row).sum() / max(1.0, pairs.count(row).sum())
        for name, row in (eligible or credit).items()
    }
    return next(name for name, share in shares.items() if share >= max(shares.values()) - TIE)


@dataclass(frozen=True, slots=True)
class Gain:
    """By how much a way agrees more with people than another, on the pairs that both judged.

    ``value`` and ``other_value`` are their shares of the pairs; the interval of the difference is
    over samples of queries, and p of a paired t-test over queries, NaN where none was made.
    ``needed`` queries would show such a difference; 0 if none would.
    """

    way: str
    other: str
    value: float
    other_value: float
    difference: float
    low: float
    high: float
    p: float
    items: int
    queries: int
    needed: int

    @property
    def is_better(self) -> bool:
        """Return whether it is significantly better."""
        return self.difference > 0 and self.p <= ALPHA


def measure_gain(
    pairs: LabelledPairs,
    verdicts: Mapping[str, ArrayLike],
    way: str,
    other: str,
    *,
    measure: Measure = "concordance",
    tested: bool = False,
) -> Gain:
    """Measure by how much a way agrees more with people than another; test it if asked."""
    first, second = (pairs.credit(verdicts[name], measure) for name in (way, other))
    difference = first - second
    both, gained = pairs.count(difference), pairs.sums(difference)
    both_known, judged = ~np.isnan(difference), both > 0
    both, gained = both[judged], gained[judged]
    share, total = estimate_share(gained, both), max(1.0, float(both.sum()))
    p = float(paired_test(gained[np.newaxis], CONFIDENCE).p[0]) if tested else nan
    value, other_value = (
        float(pairs.sums(np.where(both_known, row, nan)).sum()) / total for row in (first, second)
    )
    ends = (value, other_value, share.value, share.low, share.high, p)
    sizes = (int(both_known.sum()), int(judged.sum()), count_needed(gained, both))
    return Gain(way, other, *ends, *sizes)


def count_needed(differences: Floats, pairs: Floats) -> int:
    """Return how many queries would show the difference seen, at level .05 with power .8.

    ``differences`` say by query on how many more of its ``pairs`` the one is right than the
    other. The variance of this ratio of sums is that of its residuals (Cochran 1977, Sampling
    Techniques, section 6.4); then n = ((z of .975 + z of .8) sd / difference)^2 (Cohen 1988,
    Statistical Power Analysis, section 2.4). It is 0 with fewer than two queries, or no
    difference.
    """
    if len(differences) < 2 or abs(differences.sum()) <= TIE:
        return 0
    mean = differences.sum() / pairs.sum()
    residuals = (differences - mean * pairs) / pairs.mean()
    sd = float(np.sqrt((residuals**2).sum() / (len(differences) - 1)))
    wide = float(scipy.special.ndtri(1 - ALPHA / 2) + scipy.special.ndtri(POWER))
    needed = (wide * sd / abs(float(mean))) ** 2
    return 0 if isnan(needed) or needed > _MOST_QUERIES else max(2, ceil(needed))


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
