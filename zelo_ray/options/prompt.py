"""Define the options of `prompt`."""

from typing import Annotated, ClassVar

from pydantic import Field

from zelo_ray.options.annotate import AnnotateOptions
from zelo_ray.options.command import FILES, OTHERS
from zelo_ray.options.places import Place


class PromptOptions(AnnotateOptions):
    """Options of `prompt`: those of `annotate`, and what of the input to show."""

    does: ClassVar[str] = "show the exact requests to judges, without any call"
    usage: ClassVar[str] = "prompt INPUT... [--query ID] [--doc ID...] [--judges J...]"

    query: Annotated[str, OTHERS] = Field(
        "",
        description="query id or its beginning, or (part of) the query's text; without it, the "
        "first query",
    )
    doc: Annotated[tuple[str, ...], OTHERS] = Field(
        (),
        description="ids of documents: show the requests about one, or those that show several "
        "together; without it, one request of each judge and round",
    )
    body: Annotated[bool, OTHERS] = Field(
        False, description="print the body of each HTTP request alone, a line of JSON each"
    )
    out: Annotated[Place, FILES] = Field(
        "",
        description="directory or URL of a run: its replies tell what is asked in later rounds",
    )
