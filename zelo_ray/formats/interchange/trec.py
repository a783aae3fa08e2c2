"""TREC qrels and run files, as trec_eval reads them, only stricter.

A line of qrels is ``query iteration document relevance``; of a run, ``query Q0 document rank score
tag``. Any white space parts columns. The iteration and the rank are ignored, and so is what follows
the tag. Everything else that is wrong is an error: these files are small and precious.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv

from zelo_ray.errors import InputError, Unwritable
from zelo_ray.files.storage import (
    decode_line,
    file_stem,
    open_for_writing,
    read_blocks,
    read_placed_lines,
)
from zelo_ray.files.tables import schema_of
from zelo_ray.formats.interchange.pooling import find_repeated_pair, sort_run
from zelo_ray.formats.lossy_ids import refuse_lossy_ids
from zelo_ray.records import Ranked

_BLANKS = bytes.maketrans(b"\t\v\f\r", b"    ")
# where str.split() parts a line, and what would leave a column empty
_WHITE = r"[\s\v\x1c-\x1f\x{85}\p{Z}]|^$|^\x{FEFF}"
_ROWS = 100_000


@dataclass(frozen=True, slots=True)
class _Form:
    """The columns of a kind of file, and which of them are wanted."""

    what: str
    columns: tuple[str, ...]
    schema: pa.Schema
    number: str
    open_ended: bool


_QRELS = _Form(
    what="a TREC qrels file",
    columns=("query_id", "iteration", "doc_id", "relevance"),
    schema=pa.schema(
        [("query_id", pa.string()), ("doc_id", pa.string()), ("relevance", pa.float64())]
    ),
    number="relevance",
    open_ended=False,
)
_RUN = _Form(
    what="a TREC run",
    columns=("query_id", "Q0", "doc_id", "rank", "score", "tag"),
    schema=schema_of(Ranked).append(pa.field("tag", pa.string())),
    number="score",
    open_ended=True,
)
_RANKED = replace(_RUN, schema=_RUN.schema.append(pa.field("rank", pa.string())))


def read_trec_qrels(url: str) -> pa.Table:
    """Read the judgments of a qrels file, in their order; relevance may be any finite number.

    Returns:
        The columns of `records.Qrel`; the standard errors are NaN.

    Raises:
        InputError: a line is bad, a document is judged twice, or there is none.
    """
    table = _read(url, _QRELS)
    return table.append_column("std_error", pa.array(np.full(len(table), np.nan)))


def read_run(url: str, *, ranks: bool = False) -> tuple[str, pa.Table]:
    """Read a run's name and its scores, in the order of the file.

    The name is the tag, or what the file is called where lines have different tags.

    Args:
        url: of the file.
        ranks: whether to give its ranks as well, which order nothing.

    Returns:
        The name, and the columns of `records.Ranked`; with ranks also ``rank``, null where one is
        no number.

    Raises:
        InputError: a line is bad, a document is ranked twice, or there is none.
    """
    table = _read(url, _RANKED if ranks else _RUN)
    tags = pc.unique(table["tag"])
    name = tags[0].as_py() if len(tags) == 1 else file_stem(url)
    if ranks:
        at = table.schema.get_field_index("rank")
        table = table.set_column(at, "rank", _ranks(table["rank"]))
    return name, table.drop_columns(["tag"])


def _ranks(column: pa.ChunkedArray) -> pa.ChunkedArray:
    try:
        return column.cast(pa.float64())
    except pa.ArrowInvalid:
        return pa.chunked_array([pa.nulls(len(column), pa.float64())])


def write_qrels(url: str, qrels: pa.Table) -> None:
    """Write judgments, in their order; reading them back gives the same numbers.

    Args:
        url: where to; ``.gz`` and ``.zst`` are compressed.
        qrels: the columns of `records.Qrel`.

    Raises:
        Unwritable: a TREC file cannot hold an id, or a relevance is no finite number.
    """
    relevance = format_numbers(url, qrels["relevance"])
    _write(url, qrels, lambda part, at: (part["query_id"], "0", part["doc_id"], relevance[at]))


def write_run(url: str, name: str, run: pa.Table) -> None:
    """Write a run by query, score and document id (both descending), ranks from 1.

    Raises:
        Unwritable: a TREC file cannot hold the name or an id, or a score is no finite number.
    """
    _refuse_white(url, "the run's name", pa.chunked_array([[name]]))
    ordered = sort_run(run)
    scores = format_numbers(url, ordered["score"])
    ranks = pc.cast(ordered["rank"], pa.string())
    _write(
        url,
        ordered,
        lambda part, at: (part["query_id"], "Q0", part["doc_id"], ranks[at], scores[at], name),
    )


def format_numbers(url: str, values: pa.ChunkedArray) -> pa.ChunkedArray:
    """Format numbers as the shortest text that reads as the same number: ``3``, ``-0.25``.

    Raises:
        Unwritable: one is not finite.
    """
    plain = values.to_numpy()
    if not np.isfinite(plain).all():
        raise Unwritable(f"{url}: a score that is not finite cannot be written")
    return pa.chunked_array([pc.cast(pa.array(plain), pa.string())])


def _read(url: str, form: _Form) -> pa.Table:
    """Read all lines: by Arrow in blocks of regular lines, else one by one."""
    tables, number = [form.schema.empty_table()], 0
    for block in read_blocks(url):
        table = _parse_block(block, form)
        tables.append(_parse_lines(url, number, block, form) if table is None else table)
        number += block.count(b"\n")
    table = pa.concat_tables(tables)
    if not len(table):
        raise InputError(f"{url}: holds no line of {form.what}")
    for name in ("query_id", "doc_id"):
        refuse_lossy_ids(table[name], name, lambda row: f"{url}: row {row + 1}")
    if pair := find_repeated_pair(table):
        raise InputError(_twice(url, pair, form))
    return table


def _parse_block(block: bytes, form: _Form) -> pa.Table | None:
    """Parse the columns of one block by Arrow; return None if any line is irregular."""
    block = block.translate(_BLANKS)
    while b"  " in block:
        block = block.replace(b"  ", b" ")
    block = block.replace(b" \n", b"\n").replace(b"\n ", b"\n").strip(b" ")
    try:
        table = pa.csv.read_csv(
            _arrows(block),
            pa.csv.ReadOptions(column_names=form.columns),
            pa.csv.ParseOptions(delimiter=" ", quote_char=False),
            pa.csv.ConvertOptions(
                column_types=form.schema,
                include_columns=form.schema.names,
                null_values=[],
                strings_can_be_null=False,
            ),
        )
    except pa.ArrowInvalid:
        return None
    finite = pc.all(pc.is_finite(table[form.number])).as_py()
    return table if finite else None


def _arrows(block: bytes) -> pa.BufferReader:
    """Copy a block to memory of Arrow's own, whose threads may release it after Python's end."""
    copy = pa.BufferOutputStream()
    copy.write(block)
    return pa.BufferReader(copy.getvalue())


def _parse_lines(url: str, number: int, block: bytes, form: _Form) -> pa.Table:
    rows = []
    for at, line in enumerate(block.split(b"\n"), number + 1):
        if line.strip():
            rows.append(_row(f"{url}:{at}", line, form))
    return pa.Table.from_pylist(rows, form.schema)


def _row(place: str, line: bytes, form: _Form) -> dict[str, str | float]:
    parts = line.split()
    wanted = len(form.columns)
    if len(parts) < wanted or (len(parts) > wanted and not form.open_ended):
        raise InputError(
            f"{place}: {len(parts)} columns; {form.what} has {wanted}: {' '.join(form.columns)}"
        )
    cells = dict(zip(form.columns, parts, strict=False))
    row: dict[str, str | float] = {n: decode_line(place, cells[n]) for n in form.schema.names}
    text = cells[form.number]
    try:
        row[form.number] = float(text) if b"_" not in text else math.nan
    except ValueError:
        row[form.number] = math.nan
    if not math.isfinite(float(row[form.number])):
        raise InputError(f"{place}: the {form.number} {text!r} is not a finite number")
    return row


def _twice(url: str, pair: tuple[str, str], form: _Form) -> str:
    places = []
    for place, line in read_placed_lines(url):
        cells = dict(zip(form.columns, line.split(), strict=False))
        if (cells["query_id"].decode(), cells["doc_id"].decode()) == pair:
            places.append(place)
    return (
        f"{places[1]}: document {pair[1]!r} of query {pair[0]!r} again, after {places[0]}: "
        "keep one of the lines"
    )


def _refuse_white(url: str, what: str, column: pa.ChunkedArray) -> None:
    white = column.filter(pc.match_substring_regex(column, _WHITE))
    if len(white):
        raise Unwritable(
            f"{url}: {what} {white[0].as_py()!r} is empty, or holds white space, which parts the "
            "columns of a TREC file, or begins with a byte order mark, which its first line loses: "
            "rename it"
        )


def _write(
    url: str,
    table: pa.Table,
    columns: Callable[[pa.Table, slice], tuple[str | pa.ChunkedArray, ...]],
) -> None:
    for name in ("query_id", "doc_id"):
        _refuse_white(url, f"the {name}", table[name])
    with open_for_writing(url) as file:
        for start in range(0, len(table), _ROWS):
            part = table.slice(start, _ROWS)
            cells = columns(part, slice(start, start + len(part)))
            joined = pc.binary_join_element_wise(*cells, " ").to_pylist()
            file.write("".join(f"{line}\n" for line in joined).encode())
