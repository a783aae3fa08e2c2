"""Match ids of several files: by the query's text where it has no id; say why none matches."""

import unicodedata
from collections.abc import Callable, Iterable, Mapping

import pyarrow as pa
import pyarrow.compute as pc

from zelo_ray.errors import InputError
from zelo_ray.formats.interchange.texts import read_texts
from zelo_ray.formats.pools import LineLimits, hash_id, read_lines

_FORMS: Mapping[str, Callable[[str], str]] = {
    "in their Unicode form (NFC and NFD)": lambda id_: unicodedata.normalize("NFC", id_),
    "in capitals": str.casefold,
    "in blanks": lambda id_: "".join(id_.split()),
    "in a .0 at the end": lambda id_: id_.removesuffix(".0"),
    "in leading zeros": lambda id_: id_.lstrip("0") or "0",
}
"""By what two ids differ in alone, the form in which they are equal."""
_HASHED = "^q-[0-9a-f]{12}$"


def explain_mismatch(what: str, ids: Iterable[str], other: str, others: Iterable[str]) -> str:
    """Explain why two files share no id: show one of each, nearly equal ones if there are any.

    Args:
        what: the name of one file.
        ids: its ids; at least one.
        other: the name of another file.
        others: its ids; at least one.
    """
    ids, by_form = sorted({*ids}), {_simplify(id_): id_ for id_ in sorted({*others}, reverse=True)}
    near = next((id_ for id_ in ids if _simplify(id_) in by_form), None)
    if near is None:
        return f"{what} has {ids[0]!r}, {other} has {min(by_form.values())!r}"
    twin = by_form[_simplify(near)]
    ways = [way for way in _FORMS if _simplify(near, but=way) != _simplify(twin, but=way)]
    return (
        f"{what} has {_shown(near)}, {other} has {_shown(twin)}: they differ only "
        f"{' and '.join(ways)}"
    )


def _simplify(id_: str, but: str = "") -> str:
    """Return an id without all that near ids may differ in, but for one way."""
    for way, form in _FORMS.items():
        id_ = id_ if way == but else form(id_)
    return id_


def _shown(id_: str) -> str:
    """Return an id in quotes, with what tells look-alikes apart written out."""
    is_plain = id_.isascii()
    return repr(id_) if is_plain else f"{id_!r} ({ascii(id_)[1:-1]})"


def has_hashed_queries(table: pa.Table) -> bool:
    """Return whether a table has queries that were known by their texts alone."""
    return bool(pc.any(pc.match_substring_regex(table["query_id"], _HASHED)).as_py())


def ids_by_text(
    tables: Iterable[pa.Table], shards: Callable[[], Iterable[str]], queries: str | None = None
) -> dict[str, str]:
    """Return the ids of queries that tables know by their texts alone.

    Args:
        tables: with ``query_id``; if all have ids of their own, nothing is read.
        shards: returns files of pools, whose queries have ids.
        queries: a file of queries with ids, if there is one.

    Returns:
        By the id that a query's text alone gives it, the id that it has.

    Raises:
        InputError: two queries have a text that a table has.
    """
    hashed = [table for table in tables if has_hashed_queries(table)]
    if not hashed:
        return {}
    texts = {text.id: text.content for text in (read_texts(queries, "queries") if queries else ())}
    for line in (line for shard in shards() for line in read_lines(shard, LineLimits())):
        if line.pool is not None:
            texts.setdefault(line.pool.query_id, line.pool.query)
    judged = {query_id for table in hashed for query_id in table["query_id"].to_pylist()}
    ids: dict[str, str] = {}
    for query_id, text in texts.items():
        for form in {text, text.strip()}:  # blanks around a cell do not count
            by_hash = hash_id("q", form)
            if ids.setdefault(by_hash, query_id) != query_id and by_hash in judged:
                raise InputError(
                    f"queries {ids[by_hash]!r} and {query_id!r} have the same text, so judgments "
                    f"by text cannot tell them apart: {text[:60]!r}; give query_id"
                )
    return ids


def rename_queries(table: pa.Table, ids: Mapping[str, str]) -> pa.Table:
    """Return a table with other ids of some queries."""
    if not ids or not has_hashed_queries(table):
        return table
    renamed = [ids.get(id_, id_) for id_ in table["query_id"].to_pylist()]
    at = table.schema.get_field_index("query_id")
    return table.set_column(at, table.schema.field(at), pa.array(renamed, pa.string()))
