"""Define the options of `compare-protocols`."""

from typing import Annotated, ClassVar

from pydantic import Field

from zelo_ray.options.command import FILES, JUDGING, MONEY, NO_FLAG, RUNNING
from zelo_ray.options.judging import JudgingOptions
from zelo_ray.options.places import Place


class CompareProtocolsOptions(JudgingOptions):
    """Options of `compare-protocols`."""

    does: ClassVar[str] = "compare protocols at equal cost"
    usage: ClassVar[str] = "compare-protocols INPUT... --human FILE --out DIR [--judges J...]"

    protocols: Annotated[tuple[str, ...], JUDGING] = Field(
        (), description="protocols to compare; without it, all but zelo+graded, auto and criteria"
    )
    human: Annotated[Place, FILES] = Field(
        description="people's labels: votes on pairs of documents, or qrels"
    )
    people: Annotated[str | None, FILES] = Field(
        None, min_length=1, description="only raters whose name matches, such as expert*"
    )
    max_usd: Annotated[float | None, MONEY] = Field(
        None, gt=0, description="what each protocol may cost over all runs, in US dollars"
    )
    resamples: Annotated[int, RUNNING, NO_FLAG] = Field(
        1000, ge=100, description="samples of queries, for intervals"
    )
