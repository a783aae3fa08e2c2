"""Define the options of `size`."""

from typing import Annotated, ClassVar

from pydantic import Field

from zelo_ray.options.command import FILES, CommandOptions, OptionGroup
from zelo_ray.options.places import Place

_RUN = OptionGroup("the run to size")
_GRID = OptionGroup("plans")
_DRAWS = OptionGroup("simulation")
_MOST_DOCUMENTS = 1000
Cycle = Annotated[int, Field(ge=1, le=_MOST_DOCUMENTS)]
Call = Annotated[int, Field(ge=3, le=50)]


class SizeOptions(CommandOptions):
    """Options of `size`."""

    does: ClassVar[str] = "estimate, without any call, how many calls a standard error takes"
    usage: ClassVar[str] = "size [--error X] [--judges-from DIR] [--documents N] [--out DIR]"

    judges_from: Annotated[Place | None, FILES] = Field(
        None,
        description="--out of a pilot, for its judges (judges.json), spread of scores, documents "
        "per query and cost per call",
    )
    out: Annotated[Place | None, FILES] = Field(
        None, description="directory or URL for size.html, and the table as size.parquet"
    )
    documents: Annotated[int | None, _RUN] = Field(
        None,
        ge=2,
        le=_MOST_DOCUMENTS,
        description="documents per query; without it, as in the pilot, or 25",
    )
    queries: Annotated[int, _RUN] = Field(
        1000, ge=1, description="how many queries are to be judged"
    )
    judges: Annotated[tuple[str, ...], _RUN] = Field(
        (),
        description="the panel: judges of the pilot, or other names, which are taken to be "
        "average; without it, all of the pilot's, or three with cautious guesses",
    )
    error: Annotated[float | None, _GRID] = Field(
        None, gt=0, allow_inf_nan=False, description="std_error to reach, in logits"
    )
    cycles: Annotated[tuple[Cycle, ...], _GRID] = Field(
        (1, 2, 3, 4, 6, 8), min_length=1, description="numbers of cycles, for plans of zelo"
    )
    calls: Annotated[tuple[Call, ...], _GRID] = Field(
        (3, 4, 5, 6, 8), description="calls per document, for plans of lean"
    )
    spread: Annotated[float | None, _DRAWS] = Field(
        None,
        gt=0,
        le=10,
        description="standard deviation of true scores, in logits; without it, as in the pilot, or "
        "1.7",
    )
    pools: Annotated[int | None, _DRAWS] = Field(
        None, ge=2, le=10_000, description="pools to simulate; without it, about 2,000 documents"
    )
    seed: Annotated[int, _DRAWS] = Field(0, ge=0, description="determines every random choice")
