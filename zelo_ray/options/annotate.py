"""Options of `annotate`."""

from typing import Annotated, ClassVar

from pydantic import Field

from zelo_ray.options.command import JUDGING, MONEY
from zelo_ray.options.judging import JudgingOptions
from zelo_ray.options.places import Place


class AnnotateOptions(JudgingOptions):
    """Options of `annotate`."""

    does: ClassVar[str] = "judge pools and write relevance scores"
    usage: ClassVar[str] = "annotate INPUT... --out DIR [--judges J...]"

    protocol: Annotated[str, JUDGING] = Field("zelo", description="way of judging")
    human: Annotated[Place | None, JUDGING] = Field(
        None, description="a few human grades (qrels) that anchor the panel's scale"
    )
    pilot: Annotated[int | None, MONEY] = Field(
        None, ge=1, description="judge N queries only, then estimate the rest from what they used"
    )
