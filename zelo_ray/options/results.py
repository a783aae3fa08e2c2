"""Define the options of commands that read a directory of results."""

from typing import ClassVar

from pydantic import Field, field_validator, model_validator

from zelo_ray.options.command import CommandOptions
from zelo_ray.options.places import Place


class ExplainOptions(CommandOptions):
    """Options of `explain`."""

    does: ClassVar[str] = "show a query or document, its score, and the judgments behind it"
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

    does: ClassVar[str] = "write report.html again, or a list of several runs"
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

    does: ClassVar[str] = "show how a run stands while it is at work elsewhere"
    usage: ClassVar[str] = "watch DIR [--once]"
    positional: ClassVar[tuple[str, ...]] = ("dir",)

    dir: Place = Field(description="output directory or URL of a command that asks")
    once: bool = Field(False, description="show it once and end, instead of until the run ends")


class BatchesOptions(CommandOptions):
    """Options of `batches`."""

    does: ClassVar[str] = "list pending batches at providers, or cancel them"
    usage: ClassVar[str] = "batches DIR [--cancel]"
    positional: ClassVar[tuple[str, ...]] = ("dir",)

    dir: Place = Field(description="output directory or URL of annotate")
    cancel: bool = Field(False, description="cancel the pending ones")
