"""Options of the commands that look at a directory of results."""

from typing import ClassVar

from pydantic import Field

from zelo_ray.options.command import CommandOptions
from zelo_ray.options.places import Place


class ExplainOptions(CommandOptions):
    """Options of `explain`: show the judgments behind scores."""

    usage: ClassVar[str] = "explain DIR --query ID [--doc ID]"

    dir: Place = Field(description="output directory or URL of annotate")
    query: str = Field(min_length=1, description="query id")
    doc: str | None = Field(
        None, description="document id; without it, what was said of all documents"
    )


class ReportOptions(CommandOptions):
    """Options of `report`: write report.html."""

    usage: ClassVar[str] = "report DIR"

    dir: Place = Field(description="output directory or URL of any command")


class BatchesOptions(CommandOptions):
    """Options of `batches`: list what providers hold."""

    usage: ClassVar[str] = "batches DIR [--cancel]"

    dir: Place = Field(description="output directory or URL of annotate")
    cancel: bool = Field(False, description="cancel those that have not ended")
