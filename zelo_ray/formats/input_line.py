"""Models of an input line: fast to validate if it is good, with clear errors if it is bad."""

from typing import Annotated, Any, NotRequired

from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Field,
    TypeAdapter,
    ValidationError,
    with_config,
)
from typing_extensions import TypedDict  # of pydantic, which takes no other on Python 3.11


def _text(value: str) -> str:
    if not value.strip():
        raise ValueError("is empty")
    if "\0" in value:
        raise ValueError("holds a NUL character")
    return value


_Text = Annotated[str, AfterValidator(_text)]


class _Strict(BaseModel):
    model_config = ConfigDict(strict=True, extra="ignore")


class _Query(_Strict):
    id: _Text
    query: _Text
    session_id: Any = None


class _Document(_Strict):
    id: _Text
    content: _Text
    metadata: dict[str, Any] | None = None


class _InputLine(_Strict):
    query: _Query
    session_id: Any = None
    documents: list[_Document] = Field(default_factory=list)


@with_config(strict=True, extra="allow")
class _PlainQuery(TypedDict):
    id: str
    query: str
    session_id: NotRequired[Any]


@with_config(strict=True, extra="ignore")
class _PlainDocument(TypedDict):
    id: str
    content: str
    metadata: NotRequired[dict[str, Any] | None]


@with_config(strict=True, extra="ignore")
class PlainLine(TypedDict):
    """The same line as `_InputLine`, validated in half the time, without a check of texts."""

    query: _PlainQuery
    session_id: NotRequired[Any]
    documents: NotRequired[list[_PlainDocument]]


_PLAIN = TypeAdapter(PlainLine)


def read_input(raw: bytes) -> PlainLine:
    """Parse and validate an input line.

    Raises:
        ValidationError: it is not what it should be, or holds a text that is none.
    """
    try:
        line = _PLAIN.validate_json(raw)
    except ValidationError:
        _InputLine.model_validate_json(raw)  # which tells it in our words
        raise
    for part in (line["query"], *line.get("documents", [])):
        for text in part.values():
            if isinstance(text, str) and (not text.strip() or "\0" in text):
                _InputLine.model_validate_json(raw)  # a session may well be called so
                return line
    return line
