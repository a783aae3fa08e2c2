"""One warning about results, and all of them in the order in which they do harm."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from textwrap import wrap

from zelo_ray.reports.warning_codes import IN_RESULTS, Value, WarningCode

SHOWN = 5
"""How many stand open on a page: more than that nobody reads before the results."""
ON_TERMINAL = 3
"""How many the terminal says."""
ORDER = 0.05
"""How far from 1/2 the whole interval of the share of what came first must lie. A judge with .45 or
.55 turns one vote in ten by the order alone; less than that is lost among its other errors."""
_COLUMNS = 100
"""Characters of a line of the terminal."""


@dataclass(frozen=True, slots=True)
class ResultWarning:
    """A reason why results are less than they look.

    Attributes:
        code: what is wrong; its sentences and its harm follow from it.
        values: numbers and names that its sentences show.
        weight: added to the harm: a share in [0, 1], so that of two alike the larger one comes
            first, or how much worse such a case is.
    """

    code: WarningCode
    values: Mapping[str, Value] = field(default_factory=dict)
    weight: float = 0.0

    @property
    def harm(self) -> float:
        """Return its place among others, from 0 to 100: see `WarningCode`."""
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
        """Return the flag or command that mends it, without a full stop."""
        return self.code.advice.format(**self.values)

    def __str__(self) -> str:
        return f"{self.text}: {self.consequence}. {self.advice}."


@dataclass(frozen=True, slots=True)
class RankedWarnings:
    """All warnings about results, the worst first.

    Attributes:
        every: all of them.
        checked: what was looked at, for results without any.
    """

    every: Sequence[ResultWarning]
    checked: str

    @property
    def first(self) -> Sequence[ResultWarning]:
        """Return those that stand open on a page."""
        return self.every[:SHOWN]

    @property
    def rest(self) -> Sequence[ResultWarning]:
        """Return those that are folded away."""
        return self.every[SHOWN:]


def terminal_lines(warnings: RankedWarnings | None) -> Iterator[str]:
    """Yield the worst that the terminal does not say among the results, in lines."""
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
    """Return warnings by the harm they do; of equal ones, as they came."""
    return RankedWarnings(sorted(warnings, key=lambda warning: -warning.harm), checked)
