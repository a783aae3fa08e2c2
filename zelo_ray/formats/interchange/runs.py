"""Runs from files: TREC, tables of one run or many, and pools whose documents have scores."""

from collections.abc import Callable, Iterable, Mapping

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from zelo_ray.errors import InputError
from zelo_ray.formats.files import file_stem, part_files
from zelo_ray.formats.interchange import trec
from zelo_ray.formats.interchange.cells import read_typed_columns
from zelo_ray.formats.interchange.pooling import find_repeated_pair
from zelo_ray.formats.interchange.truth import probe_truth, read_scored_documents
from zelo_ray.formats.pools import shorten_error
from zelo_ray.formats.run_record import refuse_unfinished
from zelo_ray.formats.tables import schema_of
from zelo_ray.options.places import split_name
from zelo_ray.records import Ranked

_COLUMNS = 6
_KNOWN = (
    "known are: a TREC run (query, Q0, document, rank, score, tag); Parquet, CSV, TSV or JSON "
    "tables of query_id, doc_id, score and perhaps run; annotated JSON lines (query, documents "
    "with a score)"
)


def read_runs(urls: Iterable[str], *, ranks: bool = False) -> dict[str, pa.Table]:
    """Read runs by name, in the order given: tables with the columns of `Ranked`.

    With ``ranks`` they also have ``rank`` (float64, null where one is no number), if they came so.

    A table may hold several, told apart by a column ``run``; without it the run is called what the
    file is. So is one of annotated JSON lines, which has the documents with a ``score``. What is
    given as ``NAME=FILE`` is called NAME, unless a file is called so itself.

    Raises:
        InputError: a file is no run, or two runs have one name.
    """
    runs: dict[str, pa.Table] = {}
    for source in urls:
        called, url = ("", source) if part_files(source) else split_name(source)
        refuse_unfinished(url)
        tables = [*_read(url, ranks=ranks)]
        if called and len(tables) > 1:
            raise InputError(f"{source}: one name, but the file holds {len(tables):,} runs")
        for name, table in ((called or tag, table) for tag, table in tables):
            if name in runs:
                do = "name one of them, as --runs NAME=FILE"
                raise InputError(f"{url}: another run has the same name, {name}: {do}")
            runs[name] = table
    return runs


def without_ranks(runs: Mapping[str, pa.Table]) -> dict[str, pa.Table]:
    """Return the same runs with the columns of `Ranked` alone."""
    return {name: table.select(schema_of(Ranked).names) for name, table in runs.items()}


def _read(url: str, *, ranks: bool) -> Iterable[tuple[str, pa.Table]]:
    schema = schema_of(Ranked)
    sight = probe_truth(url)
    if {"query", "documents"} <= sight.columns:
        rows = [row[:3] for row in read_scored_documents(url)]
        columns = zip(*rows, strict=True) if rows else [()] * len(schema)
        arrays = [pa.array(column, of) for column, of in zip(columns, schema.types, strict=True)]
        return [(file_stem(url), _checked(url, pa.table(arrays, schema=schema)))]
    names = {*schema.names}
    if not (url.endswith(".parquet") or names <= sight.columns):
        if sight.names or (len(sight.line.split()) < _COLUMNS and sight.summary != "nothing"):
            raise InputError(f"{url}: holds no run of a known kind (but {sight.summary}); {_KNOWN}")
        return [trec.read_run(url, ranks=ranks)]
    if missing := names - sight.columns:
        raise InputError(f"{url}: a run has a column {min(missing)}")
    wanted = {"run": pa.string()} if "run" in sight.columns else {}
    wanted |= dict(zip(schema.names, schema.types, strict=True))
    table, place = read_typed_columns(url, wanted)
    _refuse_empty(table, place)
    if ranks and "rank" in sight.columns:
        table = _with_ranks(url, table)
    if "run" not in table.column_names:
        return [(file_stem(url), _checked(url, table))]
    names = pc.unique(table["run"]).to_pylist()
    parts = {name: table.filter(pc.equal(table["run"], name)) for name in names}
    return [(name, _checked(url, part.drop_columns(["run"]))) for name, part in parts.items()]


def _with_ranks(url: str, table: pa.Table) -> pa.Table:
    try:
        return table.append_column(
            "rank", read_typed_columns(url, {"rank": pa.float64()})[0]["rank"]
        )
    except InputError:  # they order nothing, so they may be anything
        return table


def _refuse_empty(table: pa.Table, place: Callable[[int], str]) -> None:
    """Refuse a row of a run that lacks a field."""
    for name in table.column_names:
        column = table[name]
        empty = column.is_null()
        if pa.types.is_string(column.type):
            empty = pc.or_kleene(empty, pc.equal(column, ""))
        if pc.any(empty).as_py():
            raise InputError(f"{place(int(np.argmax(empty.to_numpy())))}: has no {name}")


def _checked(url: str, table: pa.Table) -> pa.Table:
    """Check that a table is a run, and return it with the types of `Ranked`."""
    schema = schema_of(Ranked)
    try:
        run = table.select(schema.names).cast(schema)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
        raise InputError(f"{url}: {shorten_error(error)}") from None
    if not pc.all(pc.is_finite(run["score"])).as_py():
        raise InputError(f"{url}: a score is not a finite number")
    if pair := find_repeated_pair(run):
        raise InputError(f"{url}: document {pair[1]!r} of query {pair[0]!r} is ranked twice")
    return run.append_column("rank", table["rank"]) if "rank" in table.column_names else run
