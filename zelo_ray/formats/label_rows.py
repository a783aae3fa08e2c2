"""Labels in a table: one row for each, with the query, the document and the grade."""

from collections.abc import Callable

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from zelo_ray.errors import InputError
from zelo_ray.formats.interchange.cells import typed
from zelo_ray.formats.interchange.truth import look

ROWS = pa.schema(
    [
        *((name, pa.string()) for name in ("query_id", "doc_id", "person")),
        *((name, pa.float64()) for name in ("grade", "probability")),
    ]
)
_GRADES = ("grade", "relevance", "score", "label")


def read_rows(url: str) -> tuple[pa.Table, int, int] | None:
    """Read the labels of a table.

    Returns:
        The columns of ``ROWS``, how many documents nobody gave a grade, and how many rows have
        none; None where the file is no such table.

    Raises:
        InputError: it cannot be read, or a row makes no sense.
    """
    names = look(url).columns
    column = next((name for name in _GRADES if name in names), None)
    if column is None or not {"query_id", "doc_id"} <= names or "documents" in names:
        return None
    wanted = {column if field.name == "grade" else field.name: field.type for field in ROWS}
    table, place = typed(url, wanted)
    table = table.rename_columns(ROWS.names)
    graded = np.flatnonzero(pc.is_finite(pc.fill_null(table["grade"], np.nan)).to_numpy())
    every, ungraded = _documents(table), len(table) - len(graded)
    table = table.take(pa.array(graded))
    unsure = len(every - _documents(table))
    for name in ("query_id", "doc_id"):
        empty = pc.fill_null(pc.equal(table[name], ""), True).to_numpy()
        if empty.any():
            raise InputError(f"{place(graded[empty.argmax()])}: has no {name}")
    chance = pc.fill_null(table["probability"], 1.0).to_numpy()
    if (strange := ~((chance > 0) & (chance <= 1))).any():
        row = int(strange.argmax())
        where, value = place(graded[row]), chance[row]
        raise InputError(f"{where}: the probability {value:g} is not above 0 and up to 1")
    if 0 < (blank := table["probability"].null_count) < len(table):
        row = int(np.argmax(table["probability"].is_null().to_numpy()))
        raise InputError(
            f"{place(graded[row])}: has no probability, as {blank:,} of {len(table):,} labels: "
            "give each one, or leave the column away"
        )
    person = pc.fill_null(table["person"], "")
    table = table.set_column(table.schema.get_field_index("person"), "person", person)
    _refuse_repeated(table, lambda row: place(graded[row]))
    return table.cast(ROWS), unsure, ungraded


def _documents(table: pa.Table) -> set[tuple[str, str]]:
    names = (table[name].to_pylist() for name in ("query_id", "doc_id"))
    return {*zip(*names, strict=True)}


def _refuse_repeated(table: pa.Table, place: Callable[[int], str]) -> None:
    """Refuse a second label of one document by the same person."""
    first_rows = dict[tuple[str, ...], int]()
    ids = (table[name].to_pylist() for name in ("query_id", "doc_id", "person"))
    for row, label in enumerate(zip(*ids, strict=True)):
        if (first := first_rows.setdefault(label, row)) != row:
            raise InputError(
                f"{place(row)}: the document of {place(first)} again, by the same person"
            )
