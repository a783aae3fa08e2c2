"""Find which of two protocols agrees more with people, corrected for all pairs."""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from math import isnan, nan

import scipy

from zelo_ray.evaluation.agreement import CONFIDENCE, Difference
from zelo_ray.evaluation.votes import WITH_TIES

LEADING = (WITH_TIES, "agreement")
"""The scale and the coefficient by which protocols are ranked."""


@dataclass(frozen=True, slots=True)
class PairsBySignificance:
    """Every two protocols, each pair seen from the one that agrees more with people.

    Attributes:
        significant: significantly different pairs, the largest difference first.
        others: pairs that do not differ significantly.
        unknown: pairs without an interval, as both judged too few queries.
    """

    significant: list[Difference]
    others: list[Difference]
    unknown: list[Difference]


def sort_by_significance(differences: Iterable[Difference]) -> PairsBySignificance:
    """Sort pairs of protocols by whether their agreement with people differs significantly.

    Of many pairs some would differ by chance. So their 95% intervals are widened to 1 - 0.05 /
    pairs (Bonferroni), in the ratio of Student's quantiles, because samples of queries do not
    estimate such extreme quantiles.
    """
    pairs = [better_first(row) for row in differences if (row.scale, row.coefficient) == LEADING]
    with_interval = [row for row in pairs if not isnan(row.low)]
    significant = [
        row for row in with_interval if row.difference > 0 and _lowest(row, len(with_interval)) > 0
    ]
    return PairsBySignificance(
        sorted(significant, key=lambda row: -row.difference),
        [row for row in with_interval if row not in significant],
        [row for row in pairs if isnan(row.low)],
    )


def _lowest(difference: Difference, pairs: int) -> float:
    """Return the low end of a difference's widened interval."""
    tail = (1 - CONFIDENCE) / 2
    one_of_many, alone = (
        scipy.special.stdtrit(difference.queries - 1, 1 - part) for part in (tail / pairs, tail)
    )
    return float(
        difference.difference - (difference.difference - difference.low) * one_of_many / alone
    )


def better_first(difference: Difference) -> Difference:
    """Return the difference as seen from the protocol that agrees more."""
    if not difference.difference < 0:
        return difference
    return replace(
        difference,
        rater_a=difference.rater_b,
        rater_b=difference.rater_a,
        value_a=difference.value_b,
        value_b=difference.value_a,
        difference=-difference.difference,
        low=-difference.high,
        high=-difference.low,
        relative=100 * -difference.difference / difference.value_a
        if difference.value_a > 0
        else nan,
    )
