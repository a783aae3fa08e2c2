"""Define a protocol as one frozen object that describes itself to all other code.

It judges by a generator of rounds (see `zelo_ray.protocols.progress`), and gives the words and
units of its judgments and scores. docs/extending.md tells of each field, and what it is where it is
left out.
"""

from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from math import isfinite
from typing import TYPE_CHECKING, Any, NamedTuple

from pydantic import BaseModel

from zelo_ray.files.wording import counted
from zelo_ray.options import AnnotateOptions
from zelo_ray.protocols.progress import Rounds
from zelo_ray.records import Judge, Pool, Rater, Score

if TYPE_CHECKING:  # help and options need no numpy
    import pyarrow as pa

    from zelo_ray.fitting.scores import Fit

RECORDED = "recorded"
"""The context in which options are validated that the record of a run holds."""
_IDS = frozenset({"query_id", "session_id", "judge", "key", "keys"})
_PLAIN = len(fields(Score))


def always(options: Any) -> bool:  # noqa: ARG001 - asked of options
    """Return True, whatever the options are."""
    return True


def _never(_options: Any) -> bool:
    return False


@dataclass(frozen=True, slots=True, kw_only=True)
class Judgments:
    """One kind of judgment: the rows of one table, ``<name>.parquet``.

    A row is a frozen dataclass with the fields ``query_id``, ``judge`` and ``key`` (or ``keys``),
    and those that ``documents`` names.
    """

    record: type
    noun: str = "judgment"
    documents: tuple[str, ...] = ("doc_id",)
    words: Callable[[Any], str] | None = None
    as_votes: "Callable[[pa.Table], pa.Table] | None" = None
    as_grades: "Callable[[pa.Table], pa.Table] | None" = None
    columns: tuple[str, ...] = ()
    counts: bool = True
    optional: bool = False

    @property
    def fields(self) -> tuple[str, ...]:
        """Return the names of the columns."""
        return tuple(field.name for field in fields(self.record))

    def describe(self, row: Any) -> str:
        """Return what the judge said in a row, as text."""
        if self.words:
            return self.words(row)
        shown = [name for name in self.fields if name not in {*_IDS, *self.documents}]
        return "\n".join(f"{name}: {getattr(row, name)}" for name in shown)

    def documents_of(self, row: Any) -> tuple[str, ...]:
        """Return the IDs of the documents that a row is about."""
        return tuple(getattr(row, name) for name in self.documents)


@dataclass(frozen=True, slots=True, kw_only=True)
class ScoreKind:
    """The kind of a protocol's scores: their record, unit, scale and wording."""

    record: type[Score] = Score
    unit: str = "points"
    explain: str | Callable[[Mapping[str, Any]], str] = ""
    scale: tuple[float, float] | None = None
    shown: tuple[str, ...] = ("score",)

    def describe(self, score: Score, documents: int, noun: str) -> str:
        """Return a score in one line: its rank, what it is based on, and its other fields."""
        form = ".2f" if self.scale else "+.2f"
        own = {field.name: getattr(score, field.name) for field in fields(score)[_PLAIN:]}
        return (
            f"{score.doc_id}: score {score.score:{form}}{describe_errors(score)}, "
            f"rank {score.rank} of {documents}, from {counted(score.comparisons, noun)}"
            + "".join(f"; {n.replace('_', ' ')} {_number(value)}" for n, value in own.items())
        )


def _number(value: Any) -> str:
    if isinstance(value, float):
        return f"{value:.3g}" if isfinite(value) else "unknown"
    return "yes" if value is True else "no" if value is False else str(value)


def describe_errors(score: Score) -> str:
    """Return a score's known errors as text: by the panel's own error, and about people."""
    panel = f" ± {score.std_error:.2f}" if isfinite(score.std_error) else ""
    people = f", about people ± {score.truth_error:.2f}" if isfinite(score.truth_error) else ""
    return panel + people


@dataclass(frozen=True, slots=True, kw_only=True)
class Learned:
    """The result of `Protocol.learn`: small, since it travels to every actor that fits."""

    raters: tuple[Rater, ...] = ()
    """each judge as measured beside the others"""
    notes: tuple[str, ...] = ()
    """what a user should know of how it was learned"""
    shared: float | None = None
    """how far judges err together, in the terms of the protocol's fit; None: as far as usual"""
    model: Any = None
    """what else the protocol's own fit takes"""


class Evidence(NamedTuple):
    """What a protocol learns from beside judgments: the judges' names, and people's grades."""

    judges: Sequence[str]
    human: "pa.Table | None" = None
    """query_id, doc_id, relevance"""


@dataclass(frozen=True, kw_only=True)
class Ranker:
    """A way of ordering a pool, by one judge. It ends with the lines of a run, or one `Failure`."""

    name: str
    rounds: Callable[[Pool, Sequence[Judge], Any], Rounds]
    count: Callable[[Pool, Sequence[Judge], Any], dict[str, int]]
    response_models: tuple[type[BaseModel], ...]
    rebuild: Mapping[str, Callable[[tuple[str, ...]], type[BaseModel]]] = field(
        default_factory=dict
    )
    max_rounds: int | None = 1
    min_documents: int = 1
    judges_are_independent: Callable[[Any], bool] = _never

    def judges_in_scope(
        self, judges: Sequence[Judge], panel: Sequence[Judge], options: Any
    ) -> tuple[Judge, ...]:
        """Return the judges of the panel whose answers affect what these judges are asked."""
        names = {judge.name for judge in judges} if self.judges_are_independent(options) else None
        return tuple(judge for judge in panel if names is None or judge.name in names)


@dataclass(frozen=True, kw_only=True)
class Protocol(Ranker):
    """A way of judging, by a panel."""

    judgments: Mapping[str, Judgments]
    fit: "Callable[..., list[Fit]]"
    score: ScoreKind
    score_under: Callable[[Any], ScoreKind] | None = None
    options: type[AnnotateOptions] = AnnotateOptions
    caution: str = ""
    coverage_key: Callable[[Any], Hashable | None] = lambda row: getattr(row, "key", None)
    per_document: bool = False
    learn: "Callable[[Sequence[Sequence[Any]], Evidence, Any], Learned] | None" = None
    learns: Callable[[Any], bool] = _never

    def scores_of(self, options: Any) -> ScoreKind:
        """Return the kind of scores that a job with these options writes."""
        return self.score_under(options) if self.score_under else self.score

    @property
    def counted(self) -> dict[str, Judgments]:
        """Return the tables whose rows are judgments."""
        return {name: kind for name, kind in self.judgments.items() if kind.counts}

    @property
    def tables(self) -> dict[str, type]:
        """Return the record type of each table of judgments, by its name."""
        return {name: kind.record for name, kind in self.judgments.items()}

    @property
    def noun(self) -> str:
        """Return the noun for one judgment; "judgment" if there are several kinds in every run."""
        nouns = {kind.noun for kind in self.counted.values() if not kind.optional}
        return nouns.pop() if len(nouns) == 1 else "judgment"
