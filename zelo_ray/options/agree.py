"""Define the options of commands that compare judgments: `agree`, `compare-labels`, `drift`."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, Literal

from pydantic import Field, field_validator, model_validator

from zelo_ray.names import split_name
from zelo_ray.options.base import (
    FILES,
    MEASURING,
    NO_FLAG,
    CommandOptions,
    OptionGroup,
    ReadingOptions,
)
from zelo_ray.options.judging import Track
from zelo_ray.options.places import Place, check_url

_A_SCALE = re.compile(r"(?P<name>.+)=(?P<low>-?\d{1,6})-(?P<high>-?\d{1,6})", re.S)
_MOST_GRADES = 100


@dataclass(frozen=True, slots=True)
class Scale:
    """Whole grades from ``low`` to ``high``."""

    low: int
    high: int

    def __str__(self) -> str:
        """Return the scale as users write it."""
        return f"{self.low}-{self.high}"


def parse_scales(written: tuple[str, ...]) -> dict[str, Scale]:
    """Parse scales; return them by judge.

    Raises:
        ValueError: one has another form, or is empty or too long, or a judge has two.
    """
    scales: dict[str, Scale] = {}
    for text in written:
        match = _A_SCALE.fullmatch(text)
        if match is None:
            raise ValueError(f"{text!r} is not of the form NAME=0-5")
        name = match["name"]
        scale = Scale(int(match["low"]), int(match["high"]))
        if not 0 < scale.high - scale.low < _MOST_GRADES:
            raise ValueError(f"{name}: a scale must have 2 to {_MOST_GRADES} grades, lowest first")
        if name in scales:
            raise ValueError(f"{name}: has two scales")
        scales[name] = scale
    return scales


_SCALE = OptionGroup("scale")
_FEWEST = 100
"""With fewer samples the ends of an interval would be the outermost ones."""
_MOST_LEVELS = 100
COEFFICIENTS = (
    *("kappa", "kappa-linear", "kappa-quadratic", "pi", "fleiss"),
    *("alpha-nominal", "alpha-ordinal", "alpha-interval"),
    *("ac1", "ac2-linear", "ac2-quadratic", "agreement", "mcc"),
)
"""Names in `zelo_ray.evaluation.agreement.COEFFICIENTS`, which help lists without numpy."""


class AgreeOptions(ReadingOptions):
    """Options of `agree`."""

    usage: ClassVar[str] = "agree SOURCE... [--human FILE] [--out DIR]"
    positional: ClassVar[tuple[str, ...]] = ("sources",)

    sources: Annotated[tuple[str, ...], FILES] = Field(
        min_length=1,
        description="judgments: an --out of annotate; tables (Parquet, JSON, CSV) of grades, "
        "votes, or rows that name a winner; qrels, whose judge is the file's name or NAME in "
        "NAME=path; a directory of such files",
    )
    human: Annotated[Place | None, FILES] = Field(
        None, description="people's judgments: one such file, or qrels of any kind"
    )
    people: Annotated[str | None, FILES] = Field(
        None, description="only raters whose name matches, such as expert*"
    )
    pools: Annotated[tuple[Place, ...], FILES] = Field(
        (),
        description="texts, to measure length bias: pools, collections, or a corpus by doc_id",
    )
    runs: Annotated[tuple[Place, ...], FILES] = Field(
        (), description="runs to order by each judge's labels"
    )
    criterion: Annotated[str | None, FILES] = Field(
        None,
        min_length=1,
        description="grades by this criterion: of runs of --protocol criteria, and in tables the "
        "column of this name, or the rows whose column criterion names it",
    )
    out: Annotated[Place | None, FILES] = Field(None, description="write all tables there, too")
    track: Track = ()
    levels: Annotated[int, _SCALE] = Field(
        4, ge=2, le=_MOST_LEVELS, description="grades of the scale, from 0"
    )
    scale: Annotated[tuple[str, ...], _SCALE] = Field(
        (),
        description="the scale of one judge, or of human: NAME=0-5, mapped onto the common scale",
    )
    clip: Annotated[bool, _SCALE] = Field(
        False, description="move grades outside the scale to its nearest end"
    )
    thresholds: Annotated[tuple[int, ...] | None, _SCALE] = Field(
        None,
        description="lowest positive grades for binary scales, or none; without it, every grade "
        "above 0",
    )
    both_orders: Annotated[Literal["tie", "lenient"], MEASURING] = Field(
        "tie",
        description="a pair that a judge decided in one order and called a tie in the other: "
        "tie counts it as a tie, lenient as decided (as in JudgeBench)",
    )
    coefficients: Annotated[tuple[str, ...], MEASURING] = Field(
        (), description=f"which to compute; without it, all: {', '.join(COEFFICIENTS)}"
    )
    trust: Annotated[float, MEASURING] = Field(
        0.97,
        gt=0.5,
        lt=1,
        description="agreement with people from which a panel counts as trustworthy",
    )
    measure: Annotated[str, MEASURING] = Field("nDCG@10", description="measure of the runs")
    resamples: Annotated[int, MEASURING, NO_FLAG] = Field(
        1000, ge=0, description="samples of queries, for intervals; 0 for none"
    )
    seed: Annotated[int, MEASURING] = Field(0, description="determines every random choice")

    @model_validator(mode="after")
    def _tracks_what_is_written(self) -> "AgreeOptions":
        if self.track and self.out is None:
            raise ValueError("track: needs out, whose files are logged")
        return self

    @property
    def positive_thresholds(self) -> tuple[int, ...]:
        """Return the lowest positive grades of the binary scales."""
        return tuple(range(1, self.levels)) if self.thresholds is None else self.thresholds

    @property
    def scales(self) -> dict[str, Scale]:
        """Return the scales of judges that have one of their own, by judge."""
        return parse_scales(self.scale)

    @property
    def lenient(self) -> bool:
        """Return whether a decision in one order counts if the other order is a tie."""
        return self.both_orders == "lenient"

    @property
    def interval_settings(self) -> dict[str, int]:
        """Return the settings of intervals, as keywords."""
        return {"resamples": self.resamples, "seed": self.seed}

    @field_validator("sources")
    @classmethod
    def _sources_can_be_opened(cls, sources: tuple[str, ...]) -> tuple[str, ...]:
        for source in sources:
            check_url(split_name(source)[1])
        return sources

    @field_validator("scale", mode="before")
    @classmethod
    def _by_name(cls, scale: Any) -> Any:
        if isinstance(scale, Mapping):
            return tuple(f"{name}={written}" for name, written in scale.items())
        return scale

    @field_validator("scale")
    @classmethod
    def _scales_make_sense(cls, scale: tuple[str, ...]) -> tuple[str, ...]:
        parse_scales(scale)
        return scale

    @field_validator("resamples")
    @classmethod
    def _enough_or_none(cls, resamples: int) -> int:
        if 0 < resamples < _FEWEST:
            raise ValueError(f"must be 0 (no intervals) or at least {_FEWEST}")
        return resamples

    @model_validator(mode="after")
    def _go_together(self) -> "AgreeOptions":
        if self.people and not self.human:
            raise ValueError("people: needs human, whose raters it selects")
        if not all(1 <= cut < self.levels for cut in self.positive_thresholds):
            raise ValueError(f"thresholds: must be from 1 to {self.levels - 1}")
        return self


_LABELS = "the --out of annotate, TREC or BEIR qrels, a BEIR or MTEB directory, MTEB rows ..."
_CUT = "lowest label of a relevant document (2, or 1 if no label is above 1)"


class CompareLabelsOptions(ReadingOptions):
    """Options of `compare-labels`."""

    usage: ClassVar[str] = "compare-labels --old LABELS --new LABELS [--runs RUN...]"

    old: Annotated[Place, FILES] = Field(description=f"the old labels: {_LABELS}")
    new: Annotated[Place, FILES] = Field(description="the new labels, of the same kinds")
    runs: Annotated[tuple[Place, ...], FILES] = Field(
        (), description="TREC runs, or runs.parquet of a bake-off"
    )
    bakeoff: Annotated[Place | None, FILES] = Field(
        None, description="--out of a bake-off, whose rankers are the runs"
    )
    out: Annotated[Place | None, FILES] = Field(None, description="directory or URL for the tables")
    measure: Annotated[str, MEASURING] = Field(
        "nDCG@10", description="for both, as ir_measures writes it"
    )
    positive: Annotated[float | None, MEASURING] = Field(
        None, allow_inf_nan=False, description=f"the old {_CUT}"
    )
    relevant: Annotated[float | None, MEASURING] = Field(
        None, allow_inf_nan=False, description=f"the new {_CUT}"
    )
    resamples: Annotated[int, MEASURING, NO_FLAG] = Field(
        10_000, ge=100, description="samples of queries, for intervals and tests"
    )
    seed: Annotated[int, MEASURING] = Field(0, description="determines every random choice")

    @model_validator(mode="after")
    def _runs_come_from_one_place(self) -> "CompareLabelsOptions":
        if self.runs and self.bakeoff:
            raise ValueError("use either runs or bakeoff, not both")
        return self


class DriftOptions(CommandOptions):
    """Options of `drift`."""

    usage: ClassVar[str] = "drift OLD NEW [--out DIR]"
    positional: ClassVar[tuple[str, ...]] = ("old", "new")

    old: Annotated[Place, FILES] = Field(
        description="an earlier --out of annotate, or its grades.parquet or votes.parquet"
    )
    new: Annotated[Place, FILES] = Field(description="a later one on the same pools")
    out: Annotated[Place | None, FILES] = Field(None, description="directory or URL for the tables")
    resamples: Annotated[int, MEASURING, NO_FLAG] = Field(
        10_000, ge=100, description="samples of queries, for intervals and tests"
    )
    seed: Annotated[int, MEASURING] = Field(0, description="determines every random choice")
