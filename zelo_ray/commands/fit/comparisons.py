"""Read comparisons to fit: of which two items, and how often each won."""

from collections.abc import Mapping
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from zelo_ray.errors import InputError
from zelo_ray.files.rows import open_source
from zelo_ray.files.run_record import refuse_unfinished
from zelo_ray.files.storage import list_directory
from zelo_ray.files.votes import VoteRows, read_vote_rows

_VOTES = "votes.parquet"
COMPARISONS = pa.schema(
    [
        *((name, pa.string()) for name in ("query_id", "first", "second", "judge")),
        *((name, pa.float64()) for name in ("won", "lost", "tied")),
    ]
)


@dataclass(frozen=True, slots=True)
class Comparisons:
    """Comparisons with the columns of ``COMPARISONS``.

    ``won``, ``lost`` and ``tied`` are how often the first did so, or how much that weighs.
    """

    table: pa.Table
    votes: bool
    """whether they are votes as `annotate` writes them: several may be on one pair"""
    queries: bool
    """whether they name their query; if not, it is the empty text"""
    missing: int
    """how many rows without an answer were left out"""


def read_comparisons(place: str, columns: Mapping[str, str]) -> Comparisons:
    """Read comparisons from a file.

    Args:
        place: path or URL; ``.gz`` and ``.zst`` are unpacked.
        columns: by role, the name of a column that is not called as is usual.

    Raises:
        InputError: it cannot be read, is of a run that is not finished, its columns do not say who
            won, or a row makes no sense.
    """
    refuse_unfinished(place)
    names = list_directory(place)
    if names is not None:
        if _VOTES not in names:
            raise InputError(f"{place}: is a directory without {_VOTES}; name a file")
        place = f"{place.rstrip('/')}/{_VOTES}"
    return _comparisons(read_vote_rows(open_source(place, columns), by_query=False))


def _comparisons(rows: VoteRows) -> Comparisons:
    """Leave out rows without an answer."""
    table = rows.table
    names_queries = "query_id" in rows.columns or rows.of_documents
    columns = [
        pc.fill_null(table["query_id"], "") if names_queries else pa.array([""] * len(table)),
        table["a"],
        table["b"],
        pc.fill_null(table["judge"], ""),
        rows["won"],
        rows["lost"],
        rows["tied"],
    ]
    every = pa.table(columns, schema=COMPARISONS)
    return Comparisons(
        every.filter(pa.array(rows.is_answered)),
        votes=rows.of_documents,
        queries=names_queries,
        missing=int((~rows.is_answered).sum()),
    )
