"""Read rows that are nested in one JSON value: by query and document, in a list, with ratings."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import orjson

from zelo_ray.errors import InputError
from zelo_ray.files.storage import open_for_reading
from zelo_ray.formats.columns import is_called, value_of
from zelo_ray.formats.delimited import named_objects

Rows = Iterator[tuple[str, dict[str, Any]]]
_BOM = b"\xef\xbb\xbf"


def is_nested(document: Any) -> bool:
    """Return whether an object holds rows of others: by query and document, or in its only list."""
    return _by_query(document) or _only_list(document) is not None


def _by_query(document: Mapping[str, Any]) -> bool:
    """Return whether an object maps queries to objects of documents and numbers."""
    named = any(is_called(name, "query") for name in document)
    return (
        bool(document)
        and not named
        and all(
            isinstance(inner, dict) and all(map(_is_grade, inner.values()))
            for inner in document.values()
        )
    )


def _is_grade(value: object) -> bool:
    """Return whether a value is a number, the text of one, or missing."""
    if isinstance(value, str):
        return value.lstrip("+-").replace(".", "", 1).isdigit()
    return value is None or (isinstance(value, int | float) and not isinstance(value, bool))


def _only_list(document: Mapping[str, Any]) -> list[Any] | None:
    """Return the rows that an object holds in its only list of objects; None if it is a row."""
    if any(is_called(name, role) for name in document for role in ("query", "query_id")):
        return None
    if isinstance(document.get("conversation"), list):
        return None
    lists = [v for v in document.values() if isinstance(v, list) and v and isinstance(v[0], dict)]
    others = [v for v in document.values() if isinstance(v, list | dict) and v]
    if len(lists) != 1 or len(others) != 1:
        return None
    has_queries = any(is_called(n, role) for n in lists[0][0] for role in ("query", "query_id"))
    return lists[0] if len(document) == 1 or has_queries else None


def object_rows(place: str, document: Any) -> Rows:
    """Yield the rows of one object: by query and document, of its only list, or itself."""
    if _by_query(document):
        rows: Sequence[Any] = [
            {"query_id": query_id, "doc_id": doc_id, "score": value}
            for query_id, inner in document.items()
            for doc_id, value in inner.items()
        ]
    else:
        rows = _only_list(document) or [document]
    yield from with_ratings(named_objects(place, rows))


def with_ratings(rows: Rows) -> Rows:
    """Yield one row for each rating of a query, as OpenSearch's workbench has them, others as are.

    Raises:
        InputError: a rating is not an object.
    """
    for place, row in rows:
        ratings = row.get("ratings")
        if not isinstance(ratings, list) or value_of(row, "query") is None:
            yield place, row
            continue
        query = {name: value for name, value in row.items() if name != "ratings"}
        for rating in ratings:
            if not isinstance(rating, dict):
                raise InputError(f"{place}: a rating is not a JSON object")
            yield place, {**query, **rating}


def parse_whole(place: str) -> Any:
    """Parse a file as one JSON value; return None if it is none."""
    with open_for_reading(place) as stream:
        data: bytes = stream.read()
    try:
        return orjson.loads(data.removeprefix(_BOM))
    except orjson.JSONDecodeError:
        return None
