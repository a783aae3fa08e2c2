"""Take the grades by one criterion out of sources and of people's labels."""

from collections.abc import Mapping, Sequence

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from zelo_ray.errors import InputError, OptionError
from zelo_ray.formats.columns import OF_GRADES, columns_in
from zelo_ray.formats.files import list_directory
from zelo_ray.formats.probe import FileProbe, probe
from zelo_ray.formats.stored import parquet_table
from zelo_ray.names import did_you_mean, split_name
from zelo_ray.protocols.criteria import PROTOCOL

_TABLE, _COLUMN = "criteria", "criterion"


def select_criterion(
    sources: Sequence[str],
    human: str | None,
    criterion: str,
    columns: Mapping[str, str],
    folder: str,
) -> tuple[list[str], str | None, dict[str, str]]:
    """Return sources, people's labels and columns by which one criterion's grades are read.

    A run of the protocol ``criteria`` has them in a table of its own; any other table has them in a
    column of the criterion's name, or in rows whose column ``criterion`` names it.

    Args:
        sources: as `agree` takes them.
        human: as `agree` takes it.
        criterion: the name.
        columns: by role, the name of a column that is not called as is usual.
        folder: the directory for tables that are taken out.

    Raises:
        OptionError: the columns name one for the grade, too.
        InputError: a table has no such criterion.
    """
    if "grade" in columns:
        raise OptionError("--columns grade=NAME and --criterion both name the grade; give one")
    selected = [
        _take(source, criterion, columns, f"{folder}/{number}-{criterion}.parquet")
        for number, source in enumerate(sources)
    ]
    if human is not None:
        human = _take(human, criterion, columns, f"{folder}/human-{criterion}.parquet")
    return selected, human, {**columns, "grade": criterion}


def _take(source: str, criterion: str, columns: Mapping[str, str], place: str) -> str:
    """Return a source with a column of the criterion's name, written to ``place`` if need be."""
    name, url = split_name(source)
    if f"{_TABLE}.parquet" in (list_directory(url) or ()):
        kind = PROTOCOL.judgments[_TABLE]
        table = parquet_table(f"{url.rstrip('/')}/{_TABLE}.parquet", [*kind.fields])
        rows = table.select(["query_id", "doc_id", "judge", _COLUMN, "grade"])
    else:
        source_probe = probe(url)
        if criterion in source_probe.names:
            return source
        if _COLUMN not in source_probe.names:
            raise InputError(
                f"{url}: has no column {criterion} of grades by that criterion, and no column "
                f"{_COLUMN}{did_you_mean(criterion, source_probe.names)}"
            )
        rows = _table_of_rows(source_probe, columns)
    chosen = rows.filter(pc.equal(rows[_COLUMN], criterion))
    if not len(chosen):
        names = [str(name) for name in pc.unique(rows[_COLUMN]).to_pylist()]
        near = did_you_mean(criterion, names)
        raise InputError(f"{url}: has no criterion {criterion!r}{near}; it has {', '.join(names)}")
    pq.write_table(chosen.drop_columns([_COLUMN]).rename_columns({"grade": criterion}), place)
    return f"{name}={place}" if name else place


def _table_of_rows(source: FileProbe, columns: Mapping[str, str]) -> pa.Table:
    """Return the rows of a table of any format, with its column of grades called so."""
    grade = columns_in(source.names, columns, OF_GRADES).get("grade", "grade")
    rows = [{**row, "grade": row.get(grade)} for _, row in source.rows()]
    return pa.Table.from_pylist(rows)
