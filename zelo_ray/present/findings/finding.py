"""One thing that stands out, and all of them in the order in which they do harm."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from textwrap import wrap

SHOWN = 5
"""How many stand open: more than that nobody reads before the results."""

SPOKEN = 3
"""How many the terminal says."""
_COLUMNS = 100
"""Characters of a line of it."""


@dataclass(frozen=True, slots=True)
class Finding:
    """What stands out.

    ``harm`` puts findings in order, from 0 to 100: 80 and above, there is no result or a wrong
    one; from 60, a result may be wrong; from 40, it is less sure than it looks; below, good to
    know. A share in [0, 1] may be added, so that of two alike the larger one comes first.
    """

    harm: float
    what: str
    """with its figure; begins the sentence"""
    so: str
    """what follows from it, after a colon"""
    mend: str
    """the flag or command that mends it; a sentence without its full stop"""
    target: str = ""
    """the section of the page that shows it"""
    spoken: bool = False
    """whether the terminal says it anyway, among the results"""

    @property
    def told(self) -> str:
        """All of it, as the terminal says it; the page says the same."""
        return f"{self.what}: {self.so}. {self.mend}."


@dataclass(frozen=True, slots=True)
class Findings:
    """All that stands out, the worst first; ``checked`` names what was looked at."""

    every: Sequence[Finding]
    checked: str

    @property
    def first(self) -> Sequence[Finding]:
        """Those that stand open."""
        return self.every[:SHOWN]

    @property
    def rest(self) -> Sequence[Finding]:
        """Those that are folded away."""
        return self.every[SHOWN:]


def spoken(found: Findings | None) -> Iterator[str]:
    """The worst that the terminal does not say among the results, in lines."""
    left = [each for each in found.every if not each.spoken] if found else []
    for each in left[:SPOKEN]:
        yield from wrap(
            f"stands out: {each.told}",
            _COLUMNS,
            subsequent_indent="  ",
            break_long_words=False,
            break_on_hyphens=False,
        )
    if len(left) > SPOKEN:
        yield f"… and {len(left) - SPOKEN} more: see report.html"


def said(found: Iterable[Finding]) -> Iterator[Finding]:
    """The same, of which the terminal says all anyway."""
    return (replace(each, spoken=True) for each in found)


def ranked(found: Iterable[Finding], checked: str) -> Findings:
    """Findings by the harm they do; of equal ones, as they came."""
    return Findings(sorted(found, key=lambda each: -each.harm), checked)
