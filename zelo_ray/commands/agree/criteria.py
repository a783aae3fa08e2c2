"""Take the grades by one criterion out of sources and of people's labels."""

from collections.abc import Mapping, Sequence

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from zelo_ray.errors import InputError, OptionError
from zelo_ray.files.rows import open_source
from zelo_ray.files.schema import Columns
from zelo_ray.files.storage import list_directory
from zelo_ray.files.tables import parquet_table, schema_of
from zelo_ray.names import did_you_mean, split_name
from zelo_ray.records import CriterionGrade

_TABLE, _COLUMN = "criteria", "criterion"


def select_criterion(
    sources: Sequence[str],
    human: str | None,
    criterion: str,
    columns: Mapping[str, str],
    folder: str,
) -> tuple[list[str], str | None, Columns]:
    """Return sources, people's labels and columns by which one criterion's grades are read.

    A run of ``graded --criteria`` has them in a table of its own; any other table has them in a
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
        _take(source, criterion, f"{folder}/{number}-{criterion}.parquet")
        for number, source in enumerate(sources)
    ]
    if human is not None:
        human = _take(human, criterion, f"{folder}/human-{criterion}.parquet")
    return selected, human, Columns({**columns, "grade": criterion})


def _take(source: str, criterion: str, place: str) -> str:
    """Return a source with a column of the criterion's name, written to ``place`` if need be."""
    name, url = split_name(source)
    if f"{_TABLE}.parquet" in (list_directory(url) or ()):
        table = parquet_table(
            f"{url.rstrip('/')}/{_TABLE}.parquet", schema_of(CriterionGrade).names
        )
        rows = table.select(["query_id", "doc_id", "judge", _COLUMN, "grade"])
    else:
        table_source = open_source(url)
        if criterion in table_source.names:
            return source
        if _COLUMN not in table_source.names:
            raise InputError(
                f"{url}: has no column {criterion} of grades by that criterion, and no column "
                f"{_COLUMN}{did_you_mean(criterion, table_source.names)}"
            )
        rows = pa.Table.from_pylist([row for _, row in table_source.rows()])
    chosen = rows.filter(pc.equal(rows[_COLUMN], criterion))
    if not len(chosen):
        names = [str(name) for name in pc.unique(rows[_COLUMN]).to_pylist()]
        near = did_you_mean(criterion, names)
        raise InputError(f"{url}: has no criterion {criterion!r}{near}; it has {', '.join(names)}")
    pq.write_table(chosen.drop_columns([_COLUMN]).rename_columns({"grade": criterion}), place)
    return f"{name}={place}" if name else place
