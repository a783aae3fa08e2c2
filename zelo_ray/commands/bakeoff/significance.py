"""Decide what a comparison allows to say."""

from dataclasses import replace
from enum import Enum, auto

from zelo_ray.evaluation.gate import LABELS_SURE
from zelo_ray.evaluation.significance import FEWEST
from zelo_ray.records import Comparison

SURE = 0.05
"""Below this, p after Holm's correction is taken for a difference."""


class Significance(Enum):
    """Significance of the difference between A and B, as A stands to B."""

    ABOVE = auto()
    BELOW = auto()
    NOT_SIGNIFICANT = auto()
    """chance explains the difference"""
    LABELS_COULD_TURN_IT = auto()
    """on these labels it is above or below, but other answers of the judges could turn it"""
    ONLY_BY_KIN = auto()
    """only judges that are kin of one of the two make it so"""
    TOO_FEW_QUERIES = auto()

    @property
    def is_significant(self) -> bool:
        """Return whether one of the two is above the other."""
        return self in (Significance.ABOVE, Significance.BELOW)


def significance_of(comparison: Comparison) -> Significance:
    """Return what can be said of A, seen from B."""
    if comparison.queries < FEWEST:
        return Significance.TOO_FEW_QUERIES
    if not comparison.p_holm < SURE:
        return Significance.NOT_SIGNIFICANT
    same = comparison.p_labels if comparison.difference > 0 else 1 - comparison.p_labels
    if same < LABELS_SURE:  # not where there is none: NaN
        return Significance.LABELS_COULD_TURN_IT
    if comparison.kin:
        return Significance.ONLY_BY_KIN
    return Significance.ABOVE if comparison.difference > 0 else Significance.BELOW


def turned(one: Comparison) -> Comparison:
    """Return the same comparison, seen from the other arm."""
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
