"""The nouns of a contest: what takes part, and what it came to."""

from collections import Counter
from dataclasses import dataclass, field
from math import inf, isnan
from typing import Literal

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from zelo_ray.engine.ledger import Damaged
from zelo_ray.evaluation.gate import Gated
from zelo_ray.evaluation.measures import Measure, Ranking, Truth
from zelo_ray.records import Comparison, Mean, Status

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Unranked:
    """One query that an arm did not answer, and why; ``missing``: a run file does not hold it."""

    run: str
    query_id: str
    status: Status | Literal["missing"]
    reason: str
    attempts: int


@dataclass(frozen=True, slots=True)
class Slice:
    """The mean of a measure over some of the queries, with its interval."""

    slice: str
    value: str
    run: str
    measure: str
    mean: float
    low: float
    high: float
    queries: int


@dataclass(frozen=True, slots=True)
class Hole:
    """A document among the first of a run that nobody judged."""

    run: str
    query_id: str
    doc_id: str
    rank: int


@dataclass(slots=True)
class Entry:
    """One arm of the contest, as it comes to be measured.

    ``run`` is a table of `Ranked`, ``failures`` what it did not answer and why, ``note`` what a
    reader has to know about it.
    """

    name: str
    run: pa.Table
    failures: list[Unranked] = field(default_factory=list)
    note: str = ""
    dollars: float = 0.0
    unpriced: int = 0

    @property
    def reasons(self) -> Counter[str]:
        """How often it did not answer for which reason."""
        return Counter(f"{failure.status}, {failure.reason}" for failure in self.failures)


@dataclass(slots=True)
class Outcome:
    """What the contest came to. Arrays are by measure, arm in the contest, and query."""

    measures: tuple[Measure, ...]
    truth: Truth
    entries: list[Entry]
    arms: list[str]
    """those that answered anything; the others take no part"""
    values: dict[str, Floats]
    answered: NDArray[np.bool_]
    rankings: dict[str, Ranking]
    means: list[Mean]
    comparisons: list[Comparison]
    slices: list[Slice]
    holes: list[Hole]
    curves: dict[str, dict[str, list[tuple[int, float]]]]
    draws: int
    """of the labels; 0 if they are taken as they are"""
    confidence: float
    """of all intervals"""
    damaged: list[Damaged] = field(default_factory=list)
    """lines of the ledger that are set aside"""
    gate: list[Gated] = field(default_factory=list)
    """the others against the baseline, if there is one"""
    maybe_dollars: float = 0.0
    """what may have been billed besides, at most, for calls that were cut off"""

    @property
    def leading(self) -> str:
        """The measure that the arms are ordered by."""
        return str(self.measures[0])

    @property
    def standing(self) -> list[str]:
        """The arms by their mean of the leading measure, best first; by name where it is equal."""
        means = {each.run: each.mean for each in self.means if each.measure == self.leading}
        known = {arm: -inf if isnan(mean) else mean for arm, mean in means.items()}
        return sorted(self.arms, key=lambda arm: (-known[arm], arm))

    def answered_by(self, arm: str) -> int:
        """How many queries of the truth an arm ranked."""
        return int(self.answered[self.arms.index(arm)].sum()) if arm in self.arms else 0

    @property
    def complete(self) -> bool:
        """Whether every arm answered every query."""
        return len(self.arms) == len(self.entries) and bool(self.answered.all())
