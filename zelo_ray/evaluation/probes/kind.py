"""Define a kind of probe: how it changes a document, and what it means if the judgment moves."""

from collections.abc import Callable
from dataclasses import dataclass
from random import Random
from typing import Literal


@dataclass(frozen=True, slots=True)
class Subject:
    """A document that a probe changes; ``luck`` is seeded with the query and the document."""

    text: str
    query: str
    luck: Random


@dataclass(frozen=True, slots=True)
class ProbeKind:
    """A kind of probe.

    Attributes:
        name: as users write it.
        does: what it changes, after "the same document".
        change: returns the changed text; a pure function. None: nothing is changed; two documents
            are shown in both orders.
        wrong: the direction of a shift that is a fault: ``up``, a higher judgment of the changed
            copy, or ``either``.
        up: what a judge does whose judgments move up, after its name.
        down: the same if they move down.
        advice: what helps, without a full stop.
    """

    name: str
    does: str
    change: Callable[[Subject], str] | None
    wrong: Literal["up", "either"]
    up: str
    down: str
    advice: str
