"""What a measure's module holds, and how its parameters are told."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from math import isfinite
from typing import Any, Literal, Protocol

from zelo_ray.evaluation.measures.lists import Floats, Lists

Value = int | float | str | None

REQUIRED: Any = object()
"""The default of a parameter that has none."""


@dataclass(frozen=True, slots=True)
class Parameter:
    """A parameter of a measure."""

    default: Any
    accepts: Callable[[Any], bool]
    what: str
    """What it must be, in words."""


class Module(Protocol):
    """One measure."""

    CUTOFF: Literal["required", "optional", "none"]
    PARAMETERS: Mapping[str, Parameter]
    EXCLUSIVE: bool
    """Whether at most one parameter may be given."""
    OF_LABELS: bool
    """Whether it tells more of the labels than of the run, so that runs are not compared by it."""

    def metrics(self, lists: Lists, cutoff: int | None, **parameters: Any) -> Floats:
        """The metric of each query, [draws, queries]."""


def is_number(value: Any) -> bool:
    """Whether this is a finite number."""
    return type(value) in (int, float) and isfinite(value)


REL = Parameter(1, is_number, "the least relevance that counts as relevant, a number")
