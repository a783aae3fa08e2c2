"""Define the options of commands that look at results, or at this machine."""

from typing import Annotated, Any, ClassVar

from pydantic import Field, field_validator, model_validator

from zelo_ray.options.base import JUDGING, MONEY, RUNNING, CommandOptions
from zelo_ray.options.judging import Price
from zelo_ray.options.places import Place


class ExplainOptions(CommandOptions):
    """Options of `explain`."""

    usage: ClassVar[str] = "explain DIR [--query ID] [--doc ID]"
    positional: ClassVar[tuple[str, ...]] = ("dir",)

    dir: Place = Field(description="output directory or URL of annotate")
    query: str = Field(
        "",
        description="query id or its beginning, or (part of) the query's text; without it, the "
        "first queries",
    )
    doc: str | None = Field(
        None,
        description="document id or its beginning; without it, the query's documents by rank",
    )
    short: bool = Field(False, description="leave out what judges wrote")

    @model_validator(mode="after")
    def _a_document_is_of_a_query(self) -> "ExplainOptions":
        if self.doc and not self.query:
            raise ValueError("doc: needs query")
        return self


class ReportOptions(CommandOptions):
    """Options of `report`."""

    usage: ClassVar[str] = "report DIR [DIR ...]"
    positional: ClassVar[tuple[str, ...]] = ("dir",)

    dir: tuple[Place, ...] = Field(
        description="output directory or URL of any command; several are listed on one page",
    )
    index: Place | None = Field(
        None,
        description="file or URL of the page that lists several; without it, index.html in the "
        "directory of all of them",
    )

    @field_validator("dir")
    @classmethod
    def _one_at_least(cls, places: tuple[str, ...]) -> tuple[str, ...]:
        if not places:
            raise ValueError("name at least one directory or URL")
        return places


class WatchOptions(CommandOptions):
    """Options of `watch`."""

    usage: ClassVar[str] = "watch DIR [--once]"
    positional: ClassVar[tuple[str, ...]] = ("dir",)

    dir: Place = Field(description="output directory or URL of a command that asks")
    once: bool = Field(False, description="show it once and end, instead of until the run ends")


class BatchesOptions(CommandOptions):
    """Options of `batches`."""

    usage: ClassVar[str] = "batches DIR [--cancel]"
    positional: ClassVar[tuple[str, ...]] = ("dir",)

    dir: Place = Field(description="output directory or URL of annotate")
    cancel: bool = Field(False, description="cancel the pending ones")


class SampleOptions(CommandOptions):
    """Options of `sample`."""

    usage: ClassVar[str] = "sample [DIR]"
    positional: ClassVar[tuple[str, ...]] = ("dir",)

    dir: str = Field("data", description="directory on this machine")


class DoctorOptions(CommandOptions):
    """Options of `doctor`."""

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
