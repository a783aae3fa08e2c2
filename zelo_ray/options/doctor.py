"""Define the options of `doctor`."""

from typing import Annotated, Any, ClassVar

from pydantic import Field

from zelo_ray.options.asking import Price
from zelo_ray.options.command import JUDGING, MONEY, RUNNING, CommandOptions
from zelo_ray.options.places import Place


class DoctorOptions(CommandOptions):
    """Options of `doctor`."""

    does: ClassVar[str] = "check this machine, its keys and judges before a run"
    usage: ClassVar[str] = "doctor [--judges J...] [--out DIR] [--ask]"

    judges: Annotated[tuple[str, ...], JUDGING] = Field(
        (),
        description="judges to check, as annotate takes them; without it, the default model of "
        "each provider whose key is set",
    )
    out: Place | None = Field(None, description="directory or URL that a run is to write to")
    ask: Annotated[bool, MONEY] = Field(
        False,
        description="make one call to each judge, which costs less than a cent with most models",
    )
    no_ray: Annotated[bool, RUNNING] = Field(
        False, description="do not test whether Ray starts, which takes seconds"
    )
    judge_options: Annotated[dict[str, dict[str, Any]], JUDGING] = Field(
        default_factory=dict, description="by judge: as annotate takes them"
    )
    prices: Annotated[dict[str, Price], MONEY] = Field(
        default_factory=dict, description="by judge: as annotate takes them"
    )
    api_key_env: Annotated[dict[str, str], RUNNING] = Field(
        default_factory=dict, description="by judge: the variable that holds its key"
    )
