"""Warn of judges that contradict each other, and of judges that are alike."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from math import nan

from zelo_ray.reports.warning import ResultWarning
from zelo_ray.reports.warning_codes import Value, WarningCode

FEWEST = 30
"""The fewest votes for a warning about the order: of many judges with five votes each, some prefer
one side every time by chance."""
Span = tuple[float, float, float]
"""A figure, and the ends of its interval."""
AGAINST = 0.45
"""Below this share of agreement (random votes reach .5) two judges contradict each other."""
AGAINST_GRADES = -0.1
"""The same for the correlation of their grades."""
SAME = 0.97
"""From this mean agreement or correlation on, a second judge changes next to nothing, whether what
they agree on is right or wrong."""
MANY = 100
"""The fewest common items of two judges for that."""
Two = tuple[str, str]


@dataclass(frozen=True, slots=True)
class JudgingFigures:
    """Figures of judgments; unknown ones are empty or NaN.

    Attributes:
        judges: all that were asked.
        first_wins: by judge, votes for the document shown first (a tie counts half), and all votes.
        both_orders: whether each pair was asked in both orders.
        one_answer: by judge that always gave the same answer, a description.
        pair_agreement: by two judges, the share of pairs on which they agree (a tie counts half).
        grade_correlations: by two judges, the correlation of their grades.
        mean_agreement: mean agreement or correlation of two judges, and the fewest common items.
        error: mean standard error of the scores.
        spread: the standard deviation of the scores of a query.
        prior: the standard deviation of the scores' prior; NaN if unknown.
        degrees_of_freedom: the degrees of freedom of the spread.
        unit: of all three.
        more: advice that makes scores more certain.
        order_advice: advice that has pairs judged in both orders; empty if no option does.
    """

    judges: Sequence[str] = ()
    first_wins: Mapping[str, tuple[float, int]] = field(default_factory=dict)
    both_orders: bool = False
    one_answer: Mapping[str, str] = field(default_factory=dict)
    pair_agreement: Mapping[tuple[str, str], Span] = field(default_factory=dict)
    grade_correlations: Mapping[tuple[str, str], Span] = field(default_factory=dict)
    mean_agreement: tuple[float, int] = (nan, 0)
    error: float = nan
    spread: float = nan
    prior: float = nan
    degrees_of_freedom: int = 1
    unit: str = "logits"
    more: str = "More judgments make it smaller"
    order_advice: str = ""


def warn_of_panel(figures: JudgingFigures) -> Iterator[ResultWarning]:
    """Yield warnings of judges that contradict each other, or are alike."""
    yield from _contradictions(
        figures.pair_agreement, AGAINST, "agree on {} of pairs (by chance .50)"
    )
    yield from _contradictions(
        figures.grade_correlations, AGAINST_GRADES, "have grades that correlate by {}", "grades"
    )
    same, items = figures.mean_agreement
    if are_alike(same, items):
        values: dict[str, Value] = {"judges": len(figures.judges), "same": same, "items": items}
        yield ResultWarning(WarningCode.JUDGES_ALIKE, values)


def _contradictions(
    spans: Mapping[Two, Span], limit: float, measure: str, section: str = "agreement"
) -> Iterator[ResultWarning]:
    """Yield a warning for each two sides; which one is right is unknown."""
    apart = {two: span for two, span in spans.items() if span[2] < limit}
    while apart:
        left, right = _sides(next(iter(apart)), [*apart])
        crossed = [span for two, span in apart.items() if (two[0] in left) != (two[1] in left)]
        apart = {two: span for two, span in apart.items() if not {*two} & {*left, *right}}
        majority, few = sorted((left, right), key=len, reverse=True)
        figure = (
            format_span(*crossed[0]) if len(crossed) == 1 else _range([span[0] for span in crossed])
        )
        values = {
            "many": _and(majority),
            "few": _and(few),
            "contradict": "contradicts" if len(majority) == 1 else "contradict",
            "measure": measure.format(figure),
            "section": section,
        }
        yield ResultWarning(WarningCode.JUDGES_CONTRADICT, values)


def _sides(start: Two, apart: Sequence[Two]) -> tuple[list[str], ...]:
    """Split judges into two sides, so that contradicting ones are on different sides."""
    side = dict(zip(start, (0, 1), strict=True))
    moved = True
    while moved:
        moved = False
        for first, second in (*apart, *((b, a) for a, b in apart)):
            if first in side and second not in side:
                side[second], moved = 1 - side[first], True
    return tuple([name for name, number in side.items() if number == which] for which in (0, 1))


def are_alike(same: float, items: int) -> bool:
    """Return whether judges agree so much that one of them is enough."""
    return same >= SAME and items >= MANY


def _and(names: Sequence[str]) -> str:
    *head, last = names
    return f"{', '.join(head)} and {last}" if head else last


def _range(values: Sequence[float]) -> str:
    return " to ".join(dict.fromkeys((_short(min(values)), _short(max(values)))))


def format_span(value: float, low: float, high: float) -> str:
    """Format a figure and its interval: .37 [.34, .40]."""
    return f"{_short(value)} [{_short(low)}, {_short(high)}]"


def _short(value: float) -> str:
    return f"{value:.2f}".replace("0.", ".", 1)
