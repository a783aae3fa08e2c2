"""What judges are like beside each other: sides that contradict, and judges that say the same."""

from collections.abc import Iterator, Mapping, Sequence
from math import isnan

from zelo_ray.present.findings.finding import Finding
from zelo_ray.present.findings.seen import Seen, Span

AGAINST = 0.45
"""Below this share of agreement (coins reach .5) one of two judges says the opposite."""
AGAINST_GRADES = -0.1
"""The same of the correlation of their grades."""
WORTH = 2 / 3
"""Of a panel that is worth fewer than two thirds of its judges at best, a third is paid in vain."""
SAME = 0.97
"""From this mean agreement or correlation on, judges differ on so little that a second one changes
next to nothing, whether what they agree on is right or wrong."""
MANY = 100
"""Items on which two judges must have met for that."""
Two = tuple[str, str]


def of_panel(seen: Seen) -> Iterator[Finding]:
    """All that judges are like beside each other."""
    yield from _contradiction(seen.agreed, AGAINST, "agree on {} of pairs (coins: .50)")
    yield from _contradiction(
        seen.alike, AGAINST_GRADES, "have grades that correlate by {}", "grades"
    )
    yield from _together(seen)


def _contradiction(
    found: Mapping[Two, Span], against: float, how: str, target: str = "agreement"
) -> Iterator[Finding]:
    """Two sides, of which nobody can tell here which one is right: it may be the smaller."""
    apart = {two: span for two, span in found.items() if span[2] < against}
    while apart:
        left, right = _sides(next(iter(apart)), [*apart])
        crossed = [span for two, span in apart.items() if (two[0] in left) != (two[1] in left)]
        apart = {two: span for two, span in apart.items() if not {*two} & {*left, *right}}
        many, few = sorted((left, right), key=len, reverse=True)
        contradict = "contradicts" if len(many) == 1 else "contradict"
        told = _of(*crossed[0]) if len(crossed) == 1 else _range([span[0] for span in crossed])
        yield Finding(
            72,
            f"{_and(many)} {contradict} {_and(few)}: they {how.format(told)}",
            "one side most likely has the question the wrong way round, and it need not be the "
            "smaller one",
            "Read both with zelo-ray explain, then leave one out of --judges or mend its prompt",
            target,
        )


def _sides(start: Two, apart: Sequence[Two]) -> tuple[list[str], ...]:
    """Who stands with the first of two that contradict each other, and who with the second."""
    side = dict(zip(start, (0, 1), strict=True))
    moved = True
    while moved:
        moved = False
        for one, other in (*apart, *((b, a) for a, b in apart)):
            if one in side and other not in side:
                side[other], moved = 1 - side[one], True
    return tuple([name for name, own in side.items() if own == which] for which in (0, 1))


def _together(seen: Seen) -> Iterator[Finding]:
    (low, high), (same, items), count = seen.worth, seen.same, len(seen.judges)
    mend = "Put a judge of another family in the panel in place of one of them (--judges)"
    if say_the_same(same, items):
        yield Finding(
            48,
            f"The {count} judges say nearly the same ({same:.2f} on {items:,} items or more)",
            "they count as about one, as far as can be seen",
            mend,
            "judges",
        )
    elif not isnan(low) and lessened(low, high, count):
        worth = f"as few as {low:.1f}" if isnan(high) else f"{low:.1f} to {high:.1f}"
        family = " and are of one family" if isnan(high) else ""
        yield Finding(
            48,
            f"The {count} judges err together{family}: they count for {worth} that err apart",
            "what they agree on is less sure than their number makes it look",
            mend,
            "judges",
        )


def say_the_same(same: float, items: int) -> bool:
    """Whether judges agree so far that more than one tells next to nothing."""
    return same >= SAME and items >= MANY


def lessened(low: float, high: float, judges: int) -> bool:
    """Whether a panel is worth much less than its number, even at the end that is known best."""
    return (low if isnan(high) else high) < WORTH * judges


def _and(names: Sequence[str]) -> str:
    *most, last = names
    return f"{', '.join(most)} and {last}" if most else last


def _range(values: Sequence[float]) -> str:
    return " to ".join(dict.fromkeys((_short(min(values)), _short(max(values)))))


def _of(value: float, low: float, high: float) -> str:
    """A figure and its interval: .37 [.34, .40]."""
    return f"{_short(value)} [{_short(low)}, {_short(high)}]"


def _short(value: float) -> str:
    return f"{value:.2f}".replace("0.", ".", 1)
