"""Define a warning about results, and rank warnings by their harm."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from textwrap import wrap

from zelo_ray.reports.warning_codes import IN_RESULTS, Value, WarningCode

SHOWN = 5
"""How many a page shows unfolded: nobody reads more before the results."""
ON_TERMINAL = 3
"""How many the terminal shows."""
ORDER = 0.05
"""The distance from 1/2 beyond which the whole interval of the first one's share of wins must lie.
A judge with .45 or .55 changes one vote in ten by the order alone; less is negligible beside its
other errors."""
_COLUMNS = 100
"""Characters of a line of the terminal."""


@dataclass(frozen=True, slots=True)
class ResultWarning:
    """A reason to trust results less.

    Attributes:
        code: of the problem, with its sentences and its harm.
        values: numbers and names that its sentences show.
        weight: added to the harm: a share in [0, 1] to rank warnings of one code, or more for a
            worse case.
    """

    code: WarningCode
    values: Mapping[str, Value] = field(default_factory=dict)
    weight: float = 0.0

    @property
    def harm(self) -> float:
        """Return its harm, from 0 to 100: see `WarningCode`."""
        return self.code.harm + self.weight

    @property
    def section(self) -> str:
        """Return the name of the page's section that shows it."""
        return self.code.section.format(**self.values)

    @property
    def text(self) -> str:
        """Return what is wrong, with its figure; it begins the sentence."""
        return self.code.text.format(**self.values)

    @property
    def consequence(self) -> str:
        """Return what follows from it, after a colon."""
        return self.code.consequence.format(**self.values)

    @property
    def advice(self) -> str:
        """Return the flag or command that helps, without a full stop."""
        return self.code.advice.format(**self.values)

    def __str__(self) -> str:
        return f"{self.text}: {self.consequence}. {self.advice}."


@dataclass(frozen=True, slots=True)
class RankedWarnings:
    """All warnings about results, the worst first.

    Attributes:
        every: all of them.
        checked: a sentence on what was checked, for results without warnings.
    """

    every: Sequence[ResultWarning]
    checked: str

    @property
    def first(self) -> Sequence[ResultWarning]:
        """Return the warnings that a page shows unfolded."""
        return self.every[:SHOWN]

    @property
    def rest(self) -> Sequence[ResultWarning]:
        """Return the warnings that a page folds."""
        return self.every[SHOWN:]


def terminal_lines(warnings: RankedWarnings | None) -> Iterator[str]:
    """Yield the worst warnings that are not among the results already, in lines."""
    if warnings is None:
        return
    unsaid = [warning for warning in warnings.every if warning.code not in IN_RESULTS]
    for warning in unsaid[:ON_TERMINAL]:
        yield from wrap(
            f"Warning: {warning}",
            _COLUMNS,
            subsequent_indent="  ",
            break_long_words=False,
            break_on_hyphens=False,
        )
    if len(unsaid) > ON_TERMINAL:
        yield f"… and {len(unsaid) - ON_TERMINAL} more: see report.html"


def rank_warnings(warnings: Iterable[ResultWarning], checked: str) -> RankedWarnings:
    """Return warnings by harm, keeping the order of equal ones."""
    return RankedWarnings(sorted(warnings, key=lambda warning: -warning.harm), checked)
