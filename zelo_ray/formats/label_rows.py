"""Labels in a table: one row for each, with the query, the document and the grade."""

import csv
import io
import math
from collections.abc import Iterator, Mapping
from typing import Any

import pyarrow as pa

from zelo_ray.errors import InputError
from zelo_ray.formats.files import lines, reading, text_of
from zelo_ray.formats.interchange.truth import look
from zelo_ray.formats.stored import rows

ROWS = pa.schema(
    [
        *((name, pa.string()) for name in ("query_id", "doc_id", "person")),
        *((name, pa.float64()) for name in ("grade", "probability")),
    ]
)
_GRADES = ("grade", "relevance", "score", "label")


def read_rows(url: str) -> tuple[pa.Table, int] | None:
    """The labels of a table, and how many of its rows have no grade.

    Returns:
        The columns of ``ROWS``, and the number; None where the file is no such table.

    Raises:
        InputError: it cannot be read, or a row makes no sense.
    """
    sight = look(url)
    text = not sight.columns and b"query_id" in sight.line
    names = _cells(url, sight.line) if text else [*sight.columns]
    column = next((name for name in _GRADES if name in names), None)
    if column is None or not {"query_id", "doc_id"} <= {*names} or "documents" in names:
        return None
    told, unsure = list[tuple[Any, ...]](), 0
    seen: dict[tuple[Any, ...], str] = {}
    for place, row in _text_rows(url) if text else rows(url):
        grade = _number(place, column, row.get(column))
        if grade is None:
            unsure += 1
            continue
        chance = _number(place, "probability", row.get("probability"))
        if chance is not None and not 0 < chance <= 1:
            raise InputError(f"{place}: the probability {chance:g} is not above 0 and up to 1")
        ids = tuple(_id(place, name, row) for name in ("query_id", "doc_id"))
        label = (*ids, str(row.get("person") or ""))
        if label in seen:
            raise InputError(f"{place}: the document of {seen[label]} again, by the same person")
        seen[label] = place
        told.append((*label, grade, chance))
    by_column: Any = zip(*told, strict=True) if told else [()] * len(ROWS)
    return pa.table(dict(zip(ROWS.names, by_column, strict=True)), schema=ROWS), unsure


def _text_rows(url: str) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Where each row of a text with a head stands, by the line in which it begins, and the row."""
    _, head = next(lines(url))
    with reading(url) as file:
        text = io.StringIO(text_of(url, file.read()).removeprefix("\ufeff"), newline="")
    table = csv.reader(text, delimiter=_mark(head))
    names = [name.strip() for name in next(row for row in table if row)]
    begins = table.line_num + 1
    try:
        for row in table:
            if row:
                yield f"{url}:{begins}", dict(zip(names, row, strict=False))
            begins = table.line_num + 1
    except csv.Error as error:
        raise InputError(f"{url}:{begins}: {error}") from None


def _cells(url: str, head: bytes) -> list[str]:
    text = text_of(url, head)
    return [name.strip() for name in next(csv.reader([text], delimiter=_mark(head)))]


def _mark(head: bytes) -> str:
    return max("\t;,", key=lambda mark: head.count(mark.encode()))


def _id(place: str, name: str, row: Mapping[str, Any]) -> str:
    value = row.get(name)
    if isinstance(value, bool) or not isinstance(value, str | int) or value == "":
        raise InputError(f"{place}: {name} cannot be {value!r}")
    return str(value)


def _number(place: str, name: str, value: Any) -> float | None:
    """A number of a row; None where there is none."""
    if value is None or value == "":
        return None
    try:
        found = math.nan if isinstance(value, bool) else float(value)
    except (TypeError, ValueError):
        found = math.nan
    if not math.isfinite(found):
        raise InputError(f"{place}: {name} cannot be {value!r}")
    return found
