"""Define the options of `drift`."""

from typing import Annotated, ClassVar

from pydantic import Field

from zelo_ray.options.command import FILES, NO_FLAG, CommandOptions, OptionGroup
from zelo_ray.options.places import Place

_MEASURING = OptionGroup("measuring")


class DriftOptions(CommandOptions):
    """Options of `drift`."""

    does: ClassVar[str] = "find out whether judges changed between two runs on the same pools"
    usage: ClassVar[str] = "drift OLD NEW [--out DIR]"
    positional: ClassVar[tuple[str, ...]] = ("old", "new")

    old: Annotated[Place, FILES] = Field(
        description="an earlier --out of annotate, or its grades.parquet or votes.parquet"
    )
    new: Annotated[Place, FILES] = Field(description="a later one on the same pools")
    out: Annotated[Place | None, FILES] = Field(None, description="directory or URL for the tables")
    resamples: Annotated[int, _MEASURING, NO_FLAG] = Field(
        10_000, ge=100, description="samples of queries, for intervals and tests"
    )
    seed: Annotated[int, _MEASURING] = Field(0, description="determines every random choice")
