"""Define what a bake-off measures: rankers, their results, and corrections."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields
from math import fsum, inf, isnan
from typing import Any, Literal

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from zelo_ray.commands.bakeoff.model_families import FamilyOverlap
from zelo_ray.engine.ledger import Damaged
from zelo_ray.evaluation.gate import GateDecision
from zelo_ray.evaluation.measures import Measure, Ranking, Truth
from zelo_ray.evaluation.people.sampling import ErrorForecast
from zelo_ray.evaluation.ranking import Ints
from zelo_ray.records import Comparison, Mean, Status
from zelo_ray.rerankers.ranking import QueryCost

Floats = NDArray[np.float64]
SampleDesign = Literal["drawn", "complete", "queries"]
"""How the labelled documents were chosen: at random with known probabilities; completely; or
completely for some queries, which are treated as a random sample."""


@dataclass(frozen=True, slots=True)
class Unranked:
    """One query that a ranker did not answer, and why; ``missing``: a run file does not hold it."""

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
class UnjudgedDocument:
    """An unjudged document among the first of a run."""

    run: str
    query_id: str
    doc_id: str
    rank: int


@dataclass(frozen=True, slots=True)
class Caution:
    """A reason why figures may mislead; counts that do not apply are 0."""

    code: Literal["equal_scores", "reversed_ranks", "own_query", "own_id", "new_truth"]
    run: str = ""
    """the ranker that it is about; empty if it is about the truth"""
    queries: int = 0
    """to which it applies"""
    of_queries: int = 0
    depth: int | None = None


@dataclass(slots=True)
class SelfPreference:
    """Model families of rankers and judges."""

    overlap: FamilyOverlap
    not_refitted: dict[str, str] = field(default_factory=dict)
    """by family, why the truth cannot be computed without it"""


@dataclass(slots=True)
class MeasuredRanker:
    """A ranker of the bake-off with what it ranked.

    ``run`` is a table of `Ranked`, ``failures`` the queries that it did not answer and why,
    ``note`` a remark for readers.
    """

    name: str
    run: pa.Table
    failures: list[Unranked] = field(default_factory=list)
    note: str = ""
    dollars: float = 0.0
    unpriced: int = 0
    costs: list[QueryCost] = field(default_factory=list)
    """of its queries, as far as it was asked and answered"""

    def count_earlier_runs(self) -> None:
        """Count what its rankings cost, whichever run paid for them, if this one paid less."""
        paid = [cost for cost in self.costs if not isnan(cost.dollars)]
        self.dollars = max(self.dollars, fsum(cost.dollars for cost in paid))
        unknown = sum(cost.requests for cost in self.costs if isnan(cost.dollars))
        self.unpriced = max(self.unpriced, unknown)


@dataclass(frozen=True, slots=True)
class LabelForecast:
    """Forecast of how many more labels would settle the difference between two rankers."""

    run_a: str
    run_b: str
    measure: str
    outlook: ErrorForecast


@dataclass(frozen=True, slots=True)
class Corrections:
    """Corrections by people's labels. If ``way`` is None, ``refused`` says why there are none.

    ``means`` and ``comparisons`` are added to those of the bake-off.
    """

    labels: int
    """documents with a label that matter to a measure"""
    persons: int
    strangers: int = 0
    """labelled documents that are not among the first of any ranker"""
    unsure: int = 0
    ahead: int = 0
    stages: int = 1
    waiting: int = 0
    """documents that were drawn and have no label yet"""
    between: Sequence[str] = ()
    """sentences on how far two people agree who labelled the same documents"""
    way: SampleDesign | None = None
    queries: int = 0
    """that have labels"""
    refused: str = ""
    measures: tuple[str, ...] = ()
    """the corrected ones; the first is the leading one"""
    on_panel_scale: Mapping[str, str] | None = None
    """by corrected measure that is divided by the ideal of the panel's grades, the measure that it
    stands for; one that is not here is people's own"""
    left_out: Mapping[str, str] | None = None
    """by measure that is not corrected, why"""
    leader: str = ""
    """the best ranker by the corrected leading measure"""
    values: Floats | None = None
    """the corrected values of the leading measure, [rankers, queries]"""
    telling: Ints | None = None
    """number of queries with labels that bear on a difference, [rankers, rankers]"""
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
    """Outcome of a bake-off. Arrays are [rankers, queries], by measure."""

    measures: tuple[Measure, ...]
    compared: tuple[Measure, ...]
    """those without Pairs where nobody named it"""
    truth: Truth
    rankers: list[MeasuredRanker]
    ranker_names: list[str]
    """names of those that answered a query; only these are measured"""
    values: dict[str, Floats]
    answered: NDArray[np.bool_]
    rankings: dict[str, Ranking]
    means: list[Mean]
    comparisons: list[Comparison]
    slices: list[Slice]
    unjudged: list[UnjudgedDocument]
    label_draws: int
    """of the labels, under their standard errors; 0 if the labels are exact"""
    confidence: float
    """of all intervals"""
    damaged: list[Damaged] = field(default_factory=list)
    """damaged lines of the ledger, which are ignored"""
    people: Corrections | None = None
    """corrections by people's labels, if there are any"""
    gate: list[GateDecision] = field(default_factory=list)
    """the other rankers against the baseline, if there is one"""
    possibly_billed: float = 0.0
    """at most what may have been billed besides, for interrupted calls"""
    uncounted: Mapping[str, float] = field(default_factory=dict)
    """the part of it for answers that reported no tokens, by reranker"""
    self_preference: SelfPreference | None = None
    """model families; None before they are checked"""
    cautions: list[Caution] = field(default_factory=list)
    costs: Sequence[Mean] = ()
    """what the rankings took in time and money"""
    truth_digest: str = ""
    """of all judgments of the truth; see `digest_judgments`"""

    @property
    def leading(self) -> str:
        """Return the measure that the rankers are ordered by."""
        return str(self.measures[0])

    @property
    def leaderboard(self) -> list[str]:
        """Return the names of rankers, best first by the leading measure; ties by name."""
        means = {row.run: row.mean for row in self.means if row.measure == self.leading}
        return sort_by_mean({ranker: means[ranker] for ranker in self.ranker_names})

    def count_answered(self, ranker: str) -> int:
        """Count the queries of the truth that a ranker ranked."""
        return (
            int(self.answered[self.ranker_names.index(ranker)].sum())
            if ranker in self.ranker_names
            else 0
        )

    @property
    def complete(self) -> bool:
        """Return whether every ranker answered every query."""
        return len(self.ranker_names) == len(self.rankers) and bool(self.answered.all())


def sort_by_mean(means: Mapping[str, float]) -> list[str]:
    """Sort rankers by their mean, best first; ties by name, those without a mean last."""
    values = {ranker: -inf if isnan(mean) else mean for ranker, mean in means.items()}
    return sorted(values, key=lambda ranker: (-values[ranker], ranker))
