"""Define the options of `compare-labels`."""

from typing import Annotated, ClassVar

from pydantic import Field, model_validator

from zelo_ray.options.command import COLUMNS, FILES, NO_FLAG, Columns, CommandOptions, OptionGroup
from zelo_ray.options.places import Place

_MEASURING = OptionGroup("measuring")
_LABELS = "the --out of annotate, TREC or BEIR qrels, a BEIR or MTEB directory, MTEB rows ..."
_CUT = "lowest label of a relevant document (2, or 1 if no label is above 1)"


class CompareLabelsOptions(CommandOptions):
    """Options of `compare-labels`."""

    does: ClassVar[str] = "show what new labels change"
    usage: ClassVar[str] = "compare-labels --old LABELS --new LABELS [--runs RUN...]"

    old: Annotated[Place, FILES] = Field(description=f"the old labels: {_LABELS}")
    new: Annotated[Place, FILES] = Field(description="the new labels, of the same kinds")
    runs: Annotated[tuple[Place, ...], FILES] = Field(
        (), description="TREC runs, or runs.parquet of a bake-off"
    )
    bakeoff: Annotated[Place | None, FILES] = Field(
        None, description="--out of a bake-off, whose rankers are the runs"
    )
    columns: Columns = Field((), description=COLUMNS)
    out: Annotated[Place | None, FILES] = Field(None, description="directory or URL for the tables")
    measure: Annotated[str, _MEASURING] = Field(
        "nDCG@10", description="for both, as ir_measures writes it"
    )
    positive: Annotated[float | None, _MEASURING] = Field(
        None, allow_inf_nan=False, description=f"the old {_CUT}"
    )
    relevant: Annotated[float | None, _MEASURING] = Field(
        None, allow_inf_nan=False, description=f"the new {_CUT}"
    )
    resamples: Annotated[int, _MEASURING, NO_FLAG] = Field(
        10_000, ge=100, description="samples of queries, for intervals and tests"
    )
    seed: Annotated[int, _MEASURING] = Field(0, description="determines every random choice")

    @model_validator(mode="after")
    def _runs_come_from_one_place(self) -> "CompareLabelsOptions":
        if self.runs and self.bakeoff:
            raise ValueError("use either runs or bakeoff, not both")
        return self
