"""Decide whether a difference is significant, and if not, why not."""

from collections.abc import Iterable
from dataclasses import replace
from enum import Enum, auto
from math import isnan

from zelo_ray.evaluation.gate import LABELS_SURE
from zelo_ray.evaluation.significance import FEWEST
from zelo_ray.records import Comparison

ALPHA = 0.05
"""Differences with a smaller p (after Holm's correction) are significant."""


class Significance(Enum):
    """Significance of the difference between rankers A and B, seen from A."""

    ABOVE = auto()
    BELOW = auto()
    NOT_SIGNIFICANT = auto()
    """the difference may be due to chance"""
    LABELS_COULD_TURN_IT = auto()
    """significant over queries, but not certain under the standard errors of the labels"""
    ONLY_BY_OWN_FAMILY = auto()
    """significant only with judges of the same model family as one of the two"""
    TOO_FEW_QUERIES = auto()
    TOO_FEW_LABELS = auto()

    @property
    def is_significant(self) -> bool:
        """Return whether one of the two is significantly better."""
        return self in (Significance.ABOVE, Significance.BELOW)


def significance_of(comparison: Comparison) -> Significance:
    """Return the significance of the difference, seen from A."""
    if comparison.queries < FEWEST:
        return Significance.TOO_FEW_QUERIES
    if comparison.estimate in ("people", "corrected") and isnan(comparison.p):
        return Significance.TOO_FEW_LABELS
    if not comparison.p_holm < ALPHA:
        return Significance.NOT_SIGNIFICANT
    same = comparison.p_labels if comparison.difference > 0 else 1 - comparison.p_labels
    if same < LABELS_SURE:  # false for NaN: labels without standard errors
        return Significance.LABELS_COULD_TURN_IT
    if comparison.kin:
        return Significance.ONLY_BY_OWN_FAMILY
    return Significance.ABOVE if comparison.difference > 0 else Significance.BELOW


def count_tested(comparisons: Iterable[Comparison]) -> int:
    """Count the comparisons that Holm's correction counts: of rankers that differ on any query."""
    return sum(
        not isnan(row.p_holm) and (row.estimate != "panel" or row.wins + row.losses > 0)
        for row in comparisons
    )


def swap_rankers(one: Comparison) -> Comparison:
    """Return the same comparison with A and B exchanged."""
    return replace(
        one,
        run_a=one.run_b,
        run_b=one.run_a,
        mean_a=one.mean_b,
        mean_b=one.mean_a,
        difference=-one.difference,
        low=-one.high,
        high=-one.low,
        p_better=1 - one.p_better,
        p_labels=1 - one.p_labels,
        wins=one.losses,
        losses=one.wins,
    )
