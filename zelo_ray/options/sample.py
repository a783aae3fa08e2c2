"""Define the options of `sample`."""

from typing import ClassVar

from pydantic import Field

from zelo_ray.options.command import CommandOptions


class SampleOptions(CommandOptions):
    """Options of `sample`."""

    does: ClassVar[str] = "write the sample data: pools, recorded judges, a run and people's grades"
    usage: ClassVar[str] = "sample [DIR]"
    positional: ClassVar[tuple[str, ...]] = ("dir",)

    dir: str = Field("data", description="directory on this machine")
