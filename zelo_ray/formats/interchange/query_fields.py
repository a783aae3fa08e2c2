"""Read the fields of queries other than their text, and TREC topics."""

import html
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

from zelo_ray.errors import InputError, format_error
from zelo_ray.files.storage import open_for_reading
from zelo_ray.files.wording import text_for_judges
from zelo_ray.formats.pools import LINE_FIELDS
from zelo_ray.records import Document

DESCRIBED = ("description", "narrative")
"""Fields of TREC topics; rows of one query keep these even if --show-query does not name them."""
_ANY = re.DOTALL | re.IGNORECASE | re.MULTILINE
_TOPIC = re.compile(r"<top>((?:(?!</?top>).)*)(</top>)?", _ANY)
_FIELD = re.compile(r"<(\w+)>(?:(.*?)</\1>|(.*?)(?=^[ \t]*<\w+>|\Z))", _ANY)
"""It ends at its own end, or else at a tag that begins a line: a text may have others in it."""
_ENTITY = re.compile(r"&#?\w+;")
_LABEL = re.compile(r"\s*(number|topic|description|narrative)\s*:", re.IGNORECASE)
_CALLED = {"desc": "description", "narr": "narrative"}


def select_fields(row: Mapping[str, Any], names: Collection[str]) -> dict[str, str]:
    """Return those of some fields of a row that are not empty, as texts."""
    texts = {name: text_for_judges(row.get(name)) for name in names if name not in LINE_FIELDS}
    return {name: text for name, text in texts.items() if text and "\0" not in text}


def other_fields(row: Mapping[str, Any], own_names: Collection[str]) -> dict[str, str]:
    """Return a query's fields but for ``own_names``, with those in ``metadata`` (BEIR)."""
    inner = row.get("metadata")
    row = {**inner, **row} if isinstance(inner, Mapping) else row
    return select_fields(row, [name for name in row if name not in own_names])


def merge_fields(place: str, query_id: str, rows: Sequence[Mapping[str, str]]) -> dict[str, str]:
    """Merge the fields that several rows have of one query; a row may lack one.

    Args:
        place: of the rows, for messages.
        query_id: whose fields they are.
        rows: by row, texts by name.

    Raises:
        InputError: two rows have different texts.
    """
    texts = dict[str, str]()
    for row in rows:
        for name, text in row.items():
            if texts.setdefault(name, text) != text:
                raise InputError(
                    f"{place}: query {query_id!r} has two of {name!r}: {texts[name][:40]!r} and "
                    f"{text[:40]!r}; --show-query takes what is the same in all rows of a query"
                )
    return texts


def read_topics(url: str) -> Iterator[Document]:
    """Yield TREC topics: the title (else the description) as text, other fields as metadata.

    Raises:
        InputError: a topic has no end, no number or no text, or the file is not UTF-8.
    """
    with open_for_reading(url) as stream:
        data: bytes = stream.read()
    try:
        text = data.decode()
    except UnicodeDecodeError as error:
        raise InputError(f"{url}: is not UTF-8 ({format_error(error)})") from None
    for number, topic in enumerate(_TOPIC.finditer(text), 1):
        if not topic[2]:
            line = text.count("\n", 0, topic.start()) + 1
            raise InputError(f"{url}:{line}: this <top> has no </top>")
        fields: dict[str, str] = {}
        for tag, closed, opened in _FIELD.findall(topic[1]):
            name = _CALLED.get(tag.lower(), tag.lower())
            held = f"{fields.get(name, '')} {_LABEL.sub('', closed or opened, 1)}"
            held = _ENTITY.sub(lambda entity: html.unescape(entity[0]), held)
            fields[name] = " ".join(held.split())
        query_id, title = (
            fields.pop("num", ""),
            fields.pop("title", "") or fields.get("description", ""),
        )
        if not (query_id and title):
            raise InputError(f"{url}: topic {number} has no <num>, or neither <title> nor <desc>")
        yield Document(query_id, title, select_fields(fields, fields))
