"""Define the options of `agree`."""

from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, Literal

from pydantic import Field, field_validator, model_validator

from zelo_ray.options.command import COLUMNS, FILES, NO_FLAG, Columns, CommandOptions, OptionGroup
from zelo_ray.options.places import Place, check_url, split_name
from zelo_ray.options.scales import Scale, parse_scales
from zelo_ray.options.tracking import Track

_SCALE = OptionGroup("scale")
_MEASURING = OptionGroup("measuring")
_FEWEST = 100
"""With fewer samples the ends of an interval would be the outermost ones."""
_MOST_LEVELS = 100
COEFFICIENTS = (
    *("kappa", "kappa-linear", "kappa-quadratic", "pi", "fleiss"),
    *("alpha-nominal", "alpha-ordinal", "alpha-interval"),
    *("ac1", "ac2-linear", "ac2-quadratic", "agreement", "mcc"),
)
"""Names in `zelo_ray.evaluation.agreement.COEFFICIENTS`, which help lists without numpy."""


class AgreeOptions(CommandOptions):
    """Options of `agree`."""

    does: ClassVar[str] = "measure judges against people and each other"
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
    columns: Columns = Field((), description=COLUMNS)
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
    both_orders: Annotated[Literal["tie", "lenient"], _MEASURING] = Field(
        "tie",
        description="a pair that a judge decided in one order and called a tie in the other: "
        "tie counts it as a tie, lenient as decided (as in JudgeBench)",
    )
    coefficients: Annotated[tuple[str, ...], _MEASURING] = Field(
        (), description=f"which to compute; without it, all: {', '.join(COEFFICIENTS)}"
    )
    trust: Annotated[float, _MEASURING] = Field(
        0.97,
        gt=0.5,
        lt=1,
        description="agreement with people from which a panel counts as trustworthy",
    )
    measure: Annotated[str, _MEASURING] = Field("nDCG@10", description="measure of the runs")
    resamples: Annotated[int, _MEASURING, NO_FLAG] = Field(
        1000, ge=0, description="samples of queries, for intervals; 0 for none"
    )
    seed: Annotated[int, _MEASURING] = Field(0, description="determines every random choice")

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
