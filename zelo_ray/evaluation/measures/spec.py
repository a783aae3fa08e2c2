"""Define a kind of measure, and its parameters."""

from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass, field
from math import isfinite
from typing import Any, Literal

from zelo_ray.evaluation.measures.lists import Floats

Value = Hashable

REQUIRED: Any = object()
"""The default of a parameter that has none."""


@dataclass(frozen=True, slots=True)
class Parameter:
    """A parameter of a measure."""

    default: Any
    accepts: Callable[[Any], bool]
    what: str
    """the values it takes, for messages"""
    read: Callable[[Any], Value] = lambda value: value
    """turns a value as written into one that is compared and hashed"""
    describe: Callable[[Any], str | None] = lambda _: None
    """says in a few words what a value means, for reports"""


@dataclass(frozen=True, slots=True)
class Linear:
    """A measure as a sum over ranks of discount times gain, which people's labels can correct.

    Attributes:
        depth: the rank from which on discounts are 0; None: none is.
        discounts: of the first ranks, by their number.
        gains: of some grades.
        ideal: whether the sum is divided by that of the best order of all judged documents.
    """

    depth: int | None
    discounts: Callable[[int], Floats]
    gains: Callable[[Floats], Floats]
    ideal: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class MeasureKind:
    """A kind of measure, which a cutoff and parameters make a `Measure`.

    Args:
        metrics: from lists, a cutoff (or None) and the parameters by name to the metric of each
            query, [draws, queries].
        cutoff: whether one may or must be given.
        parameters: those that it takes, by name.
        exclusive: whether at most one parameter may be given.
        of_labels: whether it describes the labels rather than the run, so that runs are not
            compared by it.
        linear: from a cutoff (or None) and the parameters to the measure as a sum, if it is linear.
    """

    metrics: Callable[..., Floats]
    cutoff: Literal["required", "optional", "none"] = "optional"
    parameters: Mapping[str, Parameter] = field(default_factory=dict)
    exclusive: bool = False
    of_labels: bool = False
    linear: Callable[..., Linear] | None = None


def is_number(value: Any) -> bool:
    """Return whether this is a finite number."""
    return type(value) in (int, float) and isfinite(value)


REL = Parameter(
    1,
    is_number,
    "the least relevance that counts as relevant, a number",
    describe=lambda value: f"documents are relevant from {value:g} on",
)
