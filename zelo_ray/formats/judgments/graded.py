"""Read what a graded run has beyond its scores: whole grades, and scores on one scale."""

from collections.abc import Sequence

import pyarrow as pa
import pyarrow.compute as pc

from zelo_ray.errors import InputError, format_error
from zelo_ray.files.storage import list_directory
from zelo_ray.files.tables import parquet_table, schema_of
from zelo_ray.formats.probe import RESULTS, probe
from zelo_ray.records import AbsoluteScore, GradedScore, Qrel, Score

_PAIR = ("query_id", "doc_id")
_QREL = schema_of(Qrel)


def has_grades(url: str) -> bool:
    """Return whether a place is the ``--out`` of a graded run, or its ``scores.parquet``."""
    return _holds(url, GradedScore)


def has_logits(url: str) -> bool:
    """Return whether a place is the ``--out`` of a run whose scores are logits, or their table."""
    return _holds(url, Score) and not has_grades(url)


def read_graded(url: str) -> pa.Table:
    """Read the panel's whole grade of each document.

    Returns:
        The columns of `records.Qrel`, whose relevance is the grade, and ``ambiguous``, which says
        that the panel is split over the document.

    Raises:
        InputError: there are no such grades.
    """
    if not has_grades(url):
        raise InputError(
            f"{url}: holds no grades of a panel: give the --out of annotate --protocol graded"
        )
    table = _read(url, (*_PAIR, "grade", "std_error", "ambiguous"), GradedScore)
    if any(table[name].null_count for name in (*_PAIR, "grade", "ambiguous")):
        raise InputError(f"{url}: a row of the scores has an empty field")
    return table.rename_columns([*_QREL.names, "ambiguous"]).cast(
        _QREL.append(pa.field("ambiguous", pa.bool_()))
    )


def read_absolute(url: str) -> pa.Table | None:
    """Read scores on one scale for all queries, where a run of ``zelo+graded`` has them.

    Returns:
        The columns of `records.Qrel`, without queries that have no grades; None if there are none.

    Raises:
        InputError: what is there cannot be read.
    """
    if not _holds(url, AbsoluteScore):
        return None
    table = _read(url, (*_PAIR, "absolute_score", "absolute_error"), AbsoluteScore)
    table = table.rename_columns(_QREL.names)
    return table.filter(pc.is_finite(table["relevance"]))


def _holds(url: str, kind: type[Score]) -> bool:
    place = _place(url)
    return place.endswith(".parquet") and {*schema_of(kind).names} <= {*probe(place).names}


def _read(url: str, names: Sequence[str], kind: type[Score]) -> pa.Table:
    place = _place(url)
    schema = schema_of(kind)
    table = parquet_table(place, names)
    try:
        return table.select(names).cast(pa.schema([schema.field(name) for name in names]))
    except (KeyError, pa.ArrowException) as error:  # a column is missing, or of another type
        raise InputError(f"{place}: is not what it should be ({format_error(error)})") from None


def _place(url: str) -> str:
    names = list_directory(url)
    return f"{url.rstrip('/')}/{RESULTS}" if names is not None and RESULTS in names else url
