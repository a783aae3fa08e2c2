"""TREC qrels and run files, as trec_eval reads them, only stricter.

A line of qrels is ``query iteration document relevance``; of a run, ``query Q0 document rank score
tag``. Any white space parts columns. The iteration is ignored, and so is what follows the tag.
Everything else that is wrong is an error: these files are small and precious.
"""

import math
from dataclasses import replace
from itertools import islice
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv

from zelo_ray.errors import InputError, OutputError
from zelo_ray.files.pools import write_lines
from zelo_ray.files.rows import Rows, Source, decode
from zelo_ray.files.schema import FLOAT, to_id

_QRELS = ("query_id", "iteration", "doc_id", "value")
_RUN = ("query_id", "Q0", "doc_id", "rank", "value", "run")
NUMBERS = pa.schema([("query_id", pa.string()), ("doc_id", pa.string()), ("value", pa.float64())])
"""A number of a document for a query: a relevance, a grade or a score."""
_BLANKS = bytes.maketrans(b"\t\v\f\r", b"    ")
# where str.split() parts a line, and what would leave a column empty
_WHITE = r"[\s\v\x1c-\x1f\x{85}\p{Z}]|^$|^\x{FEFF}"
_ROWS = 100_000


def read_trec(source: Source) -> Rows:
    """Read all lines of qrels or of a run, by Arrow where a block of lines is regular."""
    is_run, number = source.kind == "trec run", 0
    names, more = (_RUN, ("run", "rank")) if is_run else (_QRELS, ())
    schema = pa.schema([*NUMBERS, *((name, pa.string()) for name in more)])
    tables = [schema.empty_table()]
    for block in source.blocks():
        table = _parse_block(block, names, schema)
        tables.append(table or _parse_lines(source, number + 1, block, names, schema))
        number += block.count(b"\n")
    rows = Rows(
        pa.concat_tables(tables),
        lambda row: source.where(next(islice(source.lines(), row, None))[0]),
    )
    if is_run:
        try:
            rows = rows.with_column("rank", rows["rank"].cast(pa.float64()))
        except pa.ArrowInvalid:  # they order nothing, so they may be anything
            rows = rows.with_column("rank", pa.nulls(len(rows), pa.float64()))
        if len(pc.unique(rows["run"])) != 1:
            rows = replace(rows, table=rows.table.drop_columns(["run"]))
    for name in NUMBERS.names[:2]:
        for row in pc.indices_nonzero(pc.match_substring_regex(rows[name], f"^{FLOAT}$")):
            try:
                to_id(rows[name][row.as_py()].as_py())
            except ValueError as error:
                raise InputError(f"{rows.where(row.as_py())}: {name} {error}") from None
    return rows


def _parse_block(block: bytes, names: tuple[str, ...], schema: pa.Schema) -> pa.Table | None:
    """Parse the columns of one block by Arrow; return None if any line is irregular."""
    block = block.translate(_BLANKS)
    while b"  " in block:
        block = block.replace(b"  ", b" ")
    block = block.replace(b" \n", b"\n").replace(b"\n ", b"\n").strip(b" ")
    copy = pa.BufferOutputStream()  # memory of Arrow's own, which its threads may release last
    copy.write(block)
    try:
        table = pa.csv.read_csv(
            pa.BufferReader(copy.getvalue()),
            pa.csv.ReadOptions(column_names=names),
            pa.csv.ParseOptions(delimiter=" ", quote_char=False),
            pa.csv.ConvertOptions(
                column_types=schema,
                include_columns=schema.names,
                null_values=[],
                strings_can_be_null=False,
            ),
        )
    except pa.ArrowInvalid:
        return None
    return table if pc.all(pc.is_finite(table["value"])).as_py() else None


def _parse_lines(
    source: Source, start: int, block: bytes, names: tuple[str, ...], schema: pa.Schema
) -> pa.Table:
    rows, is_run = [], "rank" in names
    for at, line in enumerate(block.split(b"\n"), start):
        parts, where = line.split(), source.where(at)
        if not parts:
            continue
        if len(parts) < len(names) or (len(parts) > len(names) and not is_run):
            what, value = ("run", "score") if is_run else ("qrels file", "relevance")
            columns = " ".join(names).replace("value", value)
            has = f"{len(parts)} columns; a TREC {what} has {len(names)}: {columns}"
            raise InputError(f"{where}: {has}")
        row: dict[str, Any] = dict(
            zip(names, (decode(where, part) for part in parts), strict=False)
        )
        try:
            number = float("nan" if "_" in row["value"] else row["value"])
        except ValueError:
            number = math.nan
        if not math.isfinite(number):
            raise InputError(f"{where}: the number {row['value']!r} is not a finite number")
        rows.append({**row, "value": number})
    return pa.Table.from_pylist(rows, schema)


def write_qrels(url: str, qrels: pa.Table) -> None:
    """Write judgments (columns of `records.Qrel`), in their order, to be read as the same."""
    relevance = format_numbers(url, qrels["relevance"])
    _write(url, qrels, qrels["query_id"], "0", qrels["doc_id"], relevance)


def write_run(url: str, name: str, ordered: pa.Table) -> None:
    """Write a run (the result of `candidates.sort_run`), with its ranks."""
    _refuse_white(url, "the run's name", pa.chunked_array([[name]]))
    scores, ranks = format_numbers(url, ordered["score"]), ordered["rank"].cast(pa.string())
    _write(url, ordered, ordered["query_id"], "Q0", ordered["doc_id"], ranks, scores, name)


def format_numbers(url: str, values: pa.ChunkedArray) -> pa.ChunkedArray:
    """Format numbers as the shortest text that reads as the same number: ``3``, ``-0.25``."""
    plain = values.to_numpy()
    if not np.isfinite(plain).all():
        raise OutputError(f"{url}: a score that is not finite cannot be written")
    return pa.chunked_array([pc.cast(pa.array(plain), pa.string())])


def _refuse_white(url: str, what: str, column: pa.ChunkedArray) -> None:
    for text in column.filter(pc.match_substring_regex(column, _WHITE))[:1].to_pylist():
        raise OutputError(f"{url}: {what} {text!r} is empty, or holds white space or a mark")


def _write(url: str, table: pa.Table, *cells: str | pa.ChunkedArray) -> None:
    for name in ("query_id", "doc_id"):
        _refuse_white(url, f"the {name}", table[name])
    lines = pc.binary_join_element_wise(*cells, " ") if len(table) else pa.chunked_array([[]])
    parts = (lines.slice(start, _ROWS).to_pylist() for start in range(0, len(table), _ROWS))
    write_lines(url, (line.encode() for part in parts for line in part))
