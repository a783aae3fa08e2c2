"""The nouns of a contest: what takes part, and what it came to."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields
from math import inf, isnan
from typing import Any, Literal

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from zelo_ray.commands.bakeoff.kinship import Kinship
from zelo_ray.engine.ledger import Damaged
from zelo_ray.evaluation.gate import Gated
from zelo_ray.evaluation.measures import Measure, Ranking, Truth
from zelo_ray.evaluation.people.frame import Ints
from zelo_ray.evaluation.people.outlook import Outlook
from zelo_ray.formats.interchange.doubts import Doubted
from zelo_ray.records import Comparison, Mean, Status

Floats = NDArray[np.float64]
Way = Literal["drawn", "complete", "queries"]
"""How documents came to have labels: by chance, with known probabilities; all that matter have one;
or all that matter of some queries, taken as drawn by chance."""


@dataclass(frozen=True, slots=True)
class Unranked:
    """One query that an arm did not answer, and why; ``missing``: a run file does not hold it."""

    run: str
    query_id: str
    status: Status | Literal["missing"]
    reason: str
    attempts: int

    @property
    def description(self) -> str:
        """Return the status and the reason."""
        return f"{self.status}, {self.reason}"


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


@dataclass(frozen=True, slots=True)
class Caution:
    """Caution about figures that may mislead; counts that do not apply are 0."""

    code: Doubted | Literal["negative_grades", "own_query", "own_id", "new_truth", "old_labels"]
    run: str = ""
    """the arm that it is about; empty if it is about the truth"""
    queries: int = 0
    """of which it is so"""
    of_queries: int = 0
    pairs: int = 0
    """of documents of one query with equal scores, down to the depth"""
    of_pairs: int = 0
    depth: int | None = None
    documents: int = 0
    """of the truth, of which it is so"""


@dataclass(frozen=True, slots=True)
class LeftOut:
    """The mean of an arm, and its place, by the truth without the judges of one family."""

    without: str
    judges: tuple[str, ...]
    """that are left out"""
    measure: str
    run: str
    mean: float
    low: float
    high: float
    queries: int
    """of which the other judges gave labels"""
    rank: int


@dataclass(slots=True)
class Kin:
    """Kinship of arms and judges, and how the arms stand without each family of judges."""

    kinship: Kinship
    left_out: list[LeftOut] = field(default_factory=list)
    untold: dict[str, str] = field(default_factory=dict)
    """why there is no standing without a family"""


@dataclass(slots=True)
class MeasuredRanker:
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


@dataclass(frozen=True, slots=True)
class LabelForecast:
    """Forecast of what more labels would do for the difference of two arms."""

    run_a: str
    run_b: str
    measure: str
    outlook: Outlook


@dataclass(frozen=True, slots=True)
class Corrections:
    """Corrections by people's labels. Without ``way`` there are none, for the reason ``refused``.

    ``means`` and ``comparisons`` are added to those of the contest.
    """

    labels: int
    """documents with a label that matter to a measure"""
    persons: int
    strangers: int = 0
    """labelled documents that are in no arm's first ones"""
    unsure: int = 0
    ahead: int = 0
    stages: int = 1
    waiting: int = 0
    """documents that were drawn and have no answer yet"""
    between: Sequence[str] = ()
    """how far two people agree who labelled the same documents, in words"""
    way: Way | None = None
    queries: int = 0
    """with labels"""
    refused: str = ""
    measures: tuple[str, ...] = ()
    """those that are corrected; the first leads"""
    left_out: Mapping[str, str] | None = None
    """other measures, and why they are not"""
    leader: str = ""
    """the arm that is above the others by most, by the leading one of them"""
    values: Floats | None = None
    """the corrected metrics of the leading one, [arms, queries]"""
    telling: Ints | None = None
    """queries with labels that tell two arms apart by it, [arms, arms]; see `Labelled.telling`"""
    means: Sequence[Mean] = ()
    comparisons: Sequence[Comparison] = ()
    forecasts: Sequence[LabelForecast] = ()

    def describe(self) -> dict[str, Any]:
        """Return the fields that ``run.json`` holds; the other figures are in the tables."""
        in_tables = {"means", "comparisons", "values", "telling"}
        figures = {f.name: getattr(self, f.name) for f in fields(self) if f.name not in in_tables}
        return figures | {"forecasts": [asdict(forecast) for forecast in self.forecasts]}


@dataclass(slots=True)
class BakeoffOutcome:
    """Outcome of a contest. Arrays are by measure, arm in the contest, and query."""

    measures: tuple[Measure, ...]
    truth: Truth
    entries: list[MeasuredRanker]
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
    people: Corrections | None = None
    """what labels of people make of it, if there are any"""
    gate: list[Gated] = field(default_factory=list)
    """the others against the baseline, if there is one"""
    maybe_dollars: float = 0.0
    """what may have been billed besides, at most, for calls that were cut off"""
    uncounted: Mapping[str, float] = field(default_factory=dict)
    """what of these is of answers that reported no tokens, by reranker"""
    kin: Kin | None = None
    """None before it was looked at"""
    cautions: list[Caution] = field(default_factory=list)
    digest: str = ""
    """of the judgments that are the truth, all of them; see `digest_judgments`"""

    @property
    def leading(self) -> str:
        """Return the measure that the arms are ordered by."""
        return str(self.measures[0])

    @property
    def standing(self) -> list[str]:
        """Return the arms by mean of the leading measure, best first; equal ones by name."""
        means = {row.run: row.mean for row in self.means if row.measure == self.leading}
        return standing({arm: means[arm] for arm in self.arms})

    def answered_by(self, arm: str) -> int:
        """Count the queries of the truth that an arm ranked."""
        return int(self.answered[self.arms.index(arm)].sum()) if arm in self.arms else 0

    @property
    def complete(self) -> bool:
        """Return whether every arm answered every query."""
        return len(self.arms) == len(self.entries) and bool(self.answered.all())


def standing(means: Mapping[str, float]) -> list[str]:
    """Sort arms by their mean, best first; equal ones by name, and those without a mean last."""
    values = {arm: -inf if isnan(mean) else mean for arm, mean in means.items()}
    return sorted(values, key=lambda arm: (-values[arm], arm))
