"""Runs from files: TREC, tables of one run or many, and pools whose documents have scores."""

from collections.abc import Iterable, Mapping

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from zelo_ray.errors import InputError, format_error
from zelo_ray.formats.columns import OF_RUNS, column_hint, columns_in, find_columns_by_query
from zelo_ray.formats.files import file_stem, part_files
from zelo_ray.formats.interchange import trec
from zelo_ray.formats.interchange.pooling import find_repeated_pair
from zelo_ray.formats.judgments.grades import (
    NO_COLUMNS,
    has_scored_documents,
    hash_queries,
    scored_documents,
)
from zelo_ray.formats.probe import FileProbe, probe, short_run_error
from zelo_ray.formats.run_record import refuse_unfinished
from zelo_ray.formats.tables import schema_of, table_of_rows
from zelo_ray.formats.typed_columns import Place, read_columns
from zelo_ray.names import split_name
from zelo_ray.records import Ranked

_COLUMNS = 6
_KNOWN = (
    "known are: a TREC run (query, Q0, document, rank, score, tag); tables (Parquet, CSV, TSV, "
    "JSON) of query_id or query, doc_id, score or rank, and perhaps run; JSON by query and "
    "document; annotated JSON lines (query, documents with a score)"
)


def read_runs(
    urls: Iterable[str], *, ranks: bool = False, columns: Mapping[str, str] = NO_COLUMNS
) -> dict[str, pa.Table]:
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
        tables = [*_read(url, columns, ranks=ranks)]
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


def _read(url: str, columns: Mapping[str, str], *, ranks: bool) -> Iterable[tuple[str, pa.Table]]:
    """Read the runs of one place, with their names."""
    source, schema = probe(url), schema_of(Ranked)
    if has_scored_documents(source):
        rows = [row[:3] for row in scored_documents(source, columns, as_run=True)]
        return [(file_stem(url), _checked(url, table_of_rows(rows, schema)))]
    if source.kind == "short run":
        raise short_run_error(source)
    if source.form in ("text", "broken") and source.kind != "topics":
        if source.kind != "trec run" and len(source.line.split()) < _COLUMNS and source.line:
            raise _unknown_run_error(source)
        return [trec.read_run(url, ranks=ranks)]
    if not source.has_rows:
        raise _unknown_run_error(source)
    return runs_in_table(source, columns, ranks=ranks)


def _unknown_run_error(source: FileProbe) -> InputError:
    return InputError(
        f"{source.place}: holds no run of a known kind (but {source.summary}); {_KNOWN}"
    )


def runs_in_table(
    source: FileProbe, user_columns: Mapping[str, str], *, ranks: bool
) -> list[tuple[str, pa.Table]]:
    """Read the runs of a table, with their names: by scores, or where it has none, by ranks.

    Raises:
        InputError: it lacks a column, or a row is invalid.
    """
    chosen = columns_in(source.names, user_columns, OF_RUNS)
    roles = find_columns_by_query(source.place, source.names, chosen, OF_RUNS)
    by_rank = "score" not in roles and "rank" in roles
    query = roles.get("query_id") or roles.get("query")
    value = roles.get("score") or roles.get("rank")
    if query is None or value is None or "doc_id" not in roles:
        missing = "query_id" if query is None else "score" if "doc_id" in roles else "doc_id"
        has, hint = ", ".join(source.names), column_hint(source.place, missing, "NAME")
        how = "" if source.form == "frame" else f"; name it: {hint}"
        raise InputError(f"{source.place}: has no column {missing!r}; it has {has}{how}")
    columns = {"query_id": query, "doc_id": roles["doc_id"], "score": value}
    columns |= {"run": roles["run"]} if "run" in roles else {}
    types = dict.fromkeys(("run", "query_id", "doc_id"), pa.string()) | {"score": pa.float64()}
    types = {role: types[role] for role in types if role in columns}
    table, place = read_columns(source, columns, types)
    _refuse_empty(table, place, columns)
    if "query_id" not in roles:
        table = hash_queries(table)
    if by_rank:
        at = table.schema.get_field_index("score")
        table = table.set_column(at, "score", pc.negate(table["score"]))
    elif ranks and "rank" in roles:
        table = _with_ranks(source, roles["rank"], table)
    url = source.place
    if "run" not in table.column_names:
        return [(file_stem(url), _checked(url, table))]
    names = pc.unique(table["run"]).to_pylist()
    parts = {name: table.filter(pc.equal(table["run"], name)) for name in names}
    return [(name, _checked(url, part.drop_columns(["run"]))) for name, part in parts.items()]


def _with_ranks(source: FileProbe, name: str, table: pa.Table) -> pa.Table:
    try:
        ranks, _ = read_columns(source, {"rank": name}, {"rank": pa.float64()})
    except InputError:  # they order nothing, so they may be anything
        return table
    return table.append_column("rank", ranks["rank"])


def _refuse_empty(table: pa.Table, place: Place, columns: Mapping[str, str]) -> None:
    """Refuse a row of a run that lacks a field."""
    for name in table.column_names:
        column = table[name]
        empty = column.is_null()
        if pa.types.is_string(column.type):
            empty = pc.or_kleene(empty, pc.equal(column, ""))
        if pc.any(empty).as_py():
            raise InputError(f"{place(int(np.argmax(empty.to_numpy())))}: has no {columns[name]}")


def _checked(url: str, table: pa.Table) -> pa.Table:
    """Check that a table is a run, and return it with the types of `Ranked`."""
    schema = schema_of(Ranked)
    try:
        run = table.select(schema.names).cast(schema)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
        raise InputError(f"{url}: {format_error(error)}") from None
    if not pc.all(pc.is_finite(run["score"])).as_py():
        raise InputError(f"{url}: a score is not a finite number")
    if pair := find_repeated_pair(run):
        raise InputError(f"{url}: document {pair[1]!r} of query {pair[0]!r} is ranked twice")
    return run.append_column("rank", table["rank"]) if "rank" in table.column_names else run
