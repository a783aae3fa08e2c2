"""Define the options of `probe`."""

from typing import Annotated, ClassVar, Literal

from pydantic import Field

from zelo_ray.options.command import JUDGING, NO_FLAG, OptionGroup
from zelo_ray.options.judging import JudgingOptions

_PROBING = OptionGroup("probing")


class ProbeOptions(JudgingOptions):
    """Options of `probe`."""

    does: ClassVar[str] = "find what moves a judge that should not: length, query words, orders"
    usage: ClassVar[str] = "probe INPUT... --out DIR [--judges J...]"

    protocol: Annotated[Literal["graded", "zelo"], JUDGING] = Field(
        "graded",
        description="graded: grade each document and its changed copies; zelo: let them meet in "
        "battles, in both orders",
    )
    probes: Annotated[tuple[str, ...], _PROBING] = Field(
        (),
        description="length, order, stuffing, injection, popularity; without it, all that the "
        "protocol allows",
    )
    documents: Annotated[int, _PROBING] = Field(
        100,
        ge=1,
        description="how many documents are changed, drawn over all queries",
    )
    fail_above: Annotated[float, _PROBING] = Field(
        0.0,
        ge=0,
        description="exit status 4 if a shift is significant and surely larger than this, in "
        "grades (or in preference, -1 to 1)",
    )
    resamples: Annotated[int, _PROBING, NO_FLAG] = Field(
        10_000, ge=100, description="samples of queries, for intervals and tests"
    )
