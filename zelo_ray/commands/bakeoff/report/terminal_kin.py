"""Say on the terminal how arms stand without each family of judges."""

from collections.abc import Iterator, Sequence

from zelo_ray.commands.bakeoff.outcome import LeftOut, Outcome
from zelo_ray.formats.wording import counted

_MOVED = 5


def without_kin(outcome: Outcome) -> Iterator[str]:
    """Yield how the order of arms changes without each family of judges, and what is not known."""
    if outcome.kin is None:
        return
    for family, rows in outcome.kin.by_family:
        judges = counted(len(rows[0].judges), "judge")
        if moved := _moved(outcome.standing, rows):
            yield f"Without {family} ({judges}) {'; '.join(moved)}."
    for family, why in outcome.kin.untold.items():
        yield f"How the arms stand without {family} is not known: {why}."


def _moved(standing: Sequence[str], rows: Sequence[LeftOut]) -> list[str]:
    """Return the arms whose place has changed, the best first."""
    was = {arm: place for place, arm in enumerate(standing, 1)}
    moved = [row for row in rows if row.rank != was[row.run]]
    phrases = [f"{row.run} is {_nth(row.rank)}, not {_nth(was[row.run])}" for row in moved[:_MOVED]]
    more = len(moved) - len(phrases)
    return [*phrases, f"{counted(more, 'more arm')} moved"] if more else phrases


def _nth(place: int) -> str:
    ending = "th" if place % 100 in (11, 12, 13) else {1: "st", 2: "nd", 3: "rd"}.get(place % 10)
    return f"{place}{ending or 'th'}"
