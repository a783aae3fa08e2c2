"""Define the options of `pools`."""

from typing import Annotated, ClassVar, Literal
from urllib.parse import urlsplit

from pydantic import Field, field_validator

from zelo_ray.options.command import COLUMNS, FILES, Columns, CommandOptions
from zelo_ray.options.places import Place


class PoolsOptions(CommandOptions):
    """Options of `pools`."""

    does: ClassVar[str] = "ask a live search index for the candidates of queries"
    usage: ClassVar[str] = "pools ENGINE URL --queries FILE --index I --out FILE"
    positional: ClassVar[tuple[str, ...]] = ("engine", "url")
    key_variables: ClassVar[tuple[str, ...]] = (
        *("SEARCH_API_KEY", "SEARCH_USERNAME", "SEARCH_PASSWORD"),
    )
    """environment variables that say who asks: a key, or a name and a password"""

    engine: Literal["opensearch", "elasticsearch"] = Field(description="what answers at the URL")
    url: str = Field(
        description="its address, such as http://localhost:9200; the key or the name and password "
        "are in SEARCH_API_KEY, or SEARCH_USERNAME and SEARCH_PASSWORD"
    )
    queries: Annotated[Place, FILES] = Field(
        description="queries: lines id<TAB>text, JSON lines, or a BEIR directory"
    )
    index: str = Field(description="the index, alias or data stream")
    field: tuple[str, ...] = Field(("text",), description="the fields that hold the text")
    k: int = Field(50, ge=1, le=10_000, description="how many documents of each query")
    bodies: Annotated[tuple[Place, ...], FILES] = Field(
        (),
        description="searches of your own: JSON in which {{query}} stands for the query; each is a "
        "first stage, called by its file",
    )
    runs: Annotated[tuple[Place, ...], FILES] = Field(
        (), description="TREC runs of further first stages, whose texts the index has"
    )
    columns: Columns = Field((), description=COLUMNS)
    out: Annotated[Place, FILES] = Field(description="where to write the pools, JSON lines")

    @field_validator("url")
    @classmethod
    def _has_no_password(cls, url: str) -> str:
        parts = urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise ValueError(f"{url}: is no address such as http://localhost:9200")
        if parts.username or parts.password:
            raise ValueError(
                "put the name and password into SEARCH_USERNAME and SEARCH_PASSWORD, not the URL"
            )
        return url
