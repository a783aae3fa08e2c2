"""Figures of judgments, which `judging` and `panel` look at."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from math import nan

FEWEST = 30
"""Votes below which nothing is said of the order: of many judges with five votes each, some prefer
one side every time by chance."""
Span = tuple[float, float, float]
"""A figure, and the ends of its interval."""


@dataclass(frozen=True, slots=True)
class JudgingFigures:
    """Figures of judgments, as far as they are known.

    Attributes:
        judges: all that were asked.
        first: by judge, how many of its votes went to what came first (a tie for half), and votes.
        both_orders: whether each pair was asked in both orders.
        tied: ties among all votes, and votes; of (0, 0) nothing is known.
        flat: by judge that says one thing of everything, what it did.
        agreed: by two judges, the share of pairs on which they agree (a tie for half).
        alike: by two judges, the correlation of their grades.
        same: the mean agreement, or correlation, of two judges, and on how many items at least.
        worth: how many judges that err apart the panel counts for, from and to.
        split: documents that judges are split on, and documents scored.
        error: mean standard error of the scores.
        spread: how far apart the scores of a query are, as a standard deviation.
        prior: the standard deviation of the scores' prior; NaN where it is not known.
        freedom: the degrees of freedom that the spread rests on.
        unit: of all three.
        more: what makes them surer.
        orders: what asks each pair in both orders; empty where nothing does.
    """

    judges: Sequence[str] = ()
    first: Mapping[str, tuple[float, int]] = field(default_factory=dict)
    both_orders: bool = False
    tied: tuple[int, int] = (0, 0)
    flat: Mapping[str, str] = field(default_factory=dict)
    agreed: Mapping[tuple[str, str], Span] = field(default_factory=dict)
    alike: Mapping[tuple[str, str], Span] = field(default_factory=dict)
    same: tuple[float, int] = (nan, 0)
    worth: tuple[float, float] = (nan, nan)
    split: tuple[int, int] = (0, 0)
    error: float = nan
    spread: float = nan
    prior: float = nan
    freedom: int = 1
    unit: str = "logits"
    more: str = "More judgments make it smaller"
    orders: str = ""
