"""Define the options of `annotate`."""

from typing import Annotated, ClassVar

from pydantic import Field

from zelo_ray.options.command import JUDGING, MONEY, RUNNING
from zelo_ray.options.judging import JudgingOptions


class AnnotateOptions(JudgingOptions):
    """Options of `annotate`: judge pools by one protocol.

    A protocol's own options are a subclass of it.
    """

    does: ClassVar[str] = "judge pools and write relevance scores"
    usage: ClassVar[str] = "annotate INPUT... --out DIR [--judges J...]"

    protocol: Annotated[str, JUDGING] = Field("zelo", description="way of judging")
    pilot: Annotated[int | None, MONEY] = Field(
        None, ge=1, description="judge N queries only, then estimate the rest from what they used"
    )
    collect: Annotated[bool, RUNNING] = Field(
        False, description="ask nothing: build results from the answers that are recorded so far"
    )
