"""Read relevance judgments from any known format, which is detected by content."""

import hashlib
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from zelo_ray.errors import InputError
from zelo_ray.formats.delimited import first_line, has_header
from zelo_ray.formats.files import list_directory
from zelo_ray.formats.interchange import beir, mteb, trec
from zelo_ray.formats.interchange.cells import read_typed_columns
from zelo_ray.formats.interchange.pooling import check_qrels, make_qrels
from zelo_ray.formats.interchange.texts import FilledPools
from zelo_ray.formats.interchange.unjudged_pools import pool_lines
from zelo_ray.formats.pools import shorten_error
from zelo_ray.formats.run_record import refuse_unfinished
from zelo_ray.formats.stored import read_column_names, read_table_rows
from zelo_ray.formats.tables import schema_of
from zelo_ray.records import Qrel

SCORES, ANNOTATED = "scores.parquet", "annotated.jsonl"
_VALUES = ("relevance", "score", "grade")


@dataclass(frozen=True, slots=True)
class TruthProbe:
    """The names, columns or first line of a place, seen before it is read.

    ``names`` are those in a directory (empty for a file); ``columns`` those of a Parquet file, or
    those that the first line of another file names; ``line`` is the first line of other texts.
    """

    names: tuple[str, ...] = ()
    columns: frozenset[str] = frozenset()
    line: bytes = b""

    @property
    def summary(self) -> str:
        """Describe the place in a few words, for messages."""
        try:
            text = ", ".join([*self.names, *sorted(self.columns)]) or self.line.decode()
        except UnicodeDecodeError:
            text = "bytes that are not UTF-8"
        return text[:100] or "nothing"


@dataclass(frozen=True, slots=True)
class TruthFormat:
    """A format of judgments: how it is recognised, and how it is read.

    ``pools`` reads its texts, if it has any; ``by_people``: people's judgments have this format.
    """

    matches: Callable[[TruthProbe], bool]
    truth: Callable[[str], pa.Table]
    pools: Callable[[str], FilledPools] | None = None
    by_people: bool = False


def read_truth(url: str, also: Sequence[str] = ()) -> pa.Table:
    """Read judgments from a file or directory of any known kind.

    Args:
        url: where it is.
        also: other formats that the caller reads, for the message if the format is unknown.

    Returns:
        The columns of `records.Qrel`; standard errors are NaN where unknown.

    Raises:
        InputError: it is of no known kind, or something in it is wrong.
    """
    return detect_format(url, also)[1].truth(url)


def digest_judgments(table: pa.Table) -> str:
    """Hash judgments (query, document and relevance), whatever their order or file.

    Args:
        table: the columns of `records.Qrel`.

    Returns:
        32 hexadecimal digits.
    """
    rows = table.select(["query_id", "doc_id", "relevance"])
    ordered = rows.sort_by([(name, "ascending") for name in rows.column_names]).combine_chunks()
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, ordered.schema) as stream:
        stream.write_table(ordered)
    return hashlib.blake2b(sink.getvalue(), digest_size=16).hexdigest()


def has_changed(place: str, digest: str | None) -> bool:
    """Return whether judgments have changed; False where that cannot be known.

    Args:
        place: where they are.
        digest: what `digest_judgments` gave for them then, if it was kept.
    """
    if not digest:
        return False
    try:
        return digest_judgments(read_truth(place)) != digest
    except InputError:
        return False


def read_grades(url: str, levels: int = 4) -> pa.Table:
    """Read judgments that are whole grades from 0 to ``levels`` - 1; those below 0 count as 0.

    Raises:
        InputError: as `read_truth`, or a judgment is no such grade.
    """
    return as_grades(url, read_truth(url), levels)


def as_grades(url: str, table: pa.Table, levels: int = 4) -> pa.Table:
    """Return judgments with relevance as whole grades from 0 to ``levels`` - 1.

    Raises:
        InputError: a judgment is no such grade.
    """
    grades = np.maximum(table["relevance"].to_numpy(), 0)
    bad = (grades != np.floor(grades)) | (grades >= levels)
    if bad.any():
        row = table.slice(int(bad.argmax()), 1).to_pylist()[0]
        raise InputError(
            f"{url}: query {row['query_id']!r}, document {row['doc_id']!r}: "
            f"{row['relevance']:g} is not a grade from 0 to {levels - 1}"
        )
    return table.set_column(2, "relevance", pa.array(grades))


def read_pools(url: str) -> FilledPools:
    """Read the pools of a place that holds judgments and texts.

    Raises:
        InputError: it holds no texts, or something in it is wrong.
    """
    name, kind = detect_format(url)
    if kind.pools is None:
        kinds = "; ".join(name for name, kind in TRUTH_FORMATS.items() if kind.pools)
        raise InputError(f"{url}: {name} hold no texts; these do: {kinds}")
    return kind.pools(url)


def pools_file_of_truth(url: str) -> str | None:
    """Return the place of the judged pools as lines that `annotate` reads; None if missing."""
    names = list_directory(url)
    if names is not None:
        return f"{url.rstrip('/')}/{ANNOTATED}" if ANNOTATED in names else None
    folder, _, name = url.rpartition("/")
    if name == SCORES:
        return pools_file_of_truth(folder or ".")
    return url if is_annotated(url) else None


def holds_texts(url: str) -> bool:
    """Return whether judgments are kept together with the texts of queries and documents.

    Raises:
        InputError: as `detect_format`.
    """
    if detect_format(url)[1].pools is None:
        return False
    names = list_directory(url)
    stems = {name.split(".")[0] for name in names or ()}
    return names is None or SCORES in names or {"corpus", "queries"} <= stems


def detect_format(url: str, also: Sequence[str] = ()) -> tuple[str, TruthFormat]:
    """Recognise the kind of a place: its name, and how to read it; ``also`` as in `read_truth`.

    Raises:
        InputError: nothing that is known.
    """
    sight = probe_truth(url)
    for name, kind in TRUTH_FORMATS.items():
        if kind.matches(sight):
            return name, kind
    raise InputError(
        f"{url}: holds no judgments of a known kind (but {sight.summary}); "
        f"known are: {'; '.join([*TRUTH_FORMATS, *also])}"
    )


def probe_truth(url: str) -> TruthProbe:
    """Look at the names, columns or first line of a place.

    Raises:
        InputError: it cannot be read, or is of a run that is not finished.
    """
    refuse_unfinished(url)
    if (names := list_directory(url)) is not None:
        return TruthProbe(names=tuple(names))
    columns = frozenset(read_column_names(url))
    # The first line of JSON may look like that of any other text.
    is_typed = url.endswith(".parquet") or (columns and not has_header(url))
    return TruthProbe(columns=columns, line=b"" if is_typed else first_line(url)[1])


def _scores(url: str) -> pa.Table:
    """Read scores.parquet, or a table of query_id, doc_id, and relevance, score or grade."""
    names = read_column_names(url)
    value = next((name for name in _VALUES if name in names), "score")
    numbers = [name for name in (value, "std_error", "truth_error") if name in names]
    text = dict.fromkeys(("query_id", "doc_id"), pa.string())
    if missing := [name for name in (*text, value) if name not in names]:
        raise InputError(f"{url}: has no column {missing[0]}")
    table, place = read_typed_columns(url, text | dict.fromkeys(numbers, pa.float64()))
    judged = pc.is_valid(table[value])
    for name in text:
        row = pc.index(pc.and_(judged, pc.is_null(table[name])), True).as_py()
        if row >= 0:
            raise InputError(f"{place(row)}: has no {name}")
    table = with_error(table.filter(judged)).select([*text, value, "std_error"])
    errors = pc.fill_null(table["std_error"], math.nan)
    if pc.any(pc.or_(pc.is_inf(errors), pc.less(errors, 0))).as_py():
        raise InputError(f"{url}: a std_error is below 0, or infinite")
    table = table.set_column(3, "std_error", errors)
    return check_qrels(url, table.rename_columns(schema_of(Qrel).names).cast(schema_of(Qrel)))


def with_error(table: pa.Table) -> pa.Table:
    """Return the table with one ``std_error``: ``truth_error`` where known, else its own.

    Args:
        table: perhaps with ``std_error`` and ``truth_error``; numbers, nulls or NaN.
    """
    unknown = pa.chunked_array([pa.nulls(len(table), pa.float64())])
    errors = [unknown]
    for name in ("std_error", "truth_error"):
        if name in table.column_names:
            error = table[name].cast(pa.float64())
            errors.insert(0, pc.if_else(pc.is_nan(error), unknown, error))
    column = pc.fill_null(pc.coalesce(*errors), math.nan)
    base = table.drop_columns([n for n in ("std_error", "truth_error") if n in table.column_names])
    return base.append_column("std_error", column)


def _annotated(url: str) -> pa.Table:
    return make_qrels(url, read_scored_documents(url))


def is_annotated(url: str) -> bool:
    """Return whether a place holds JSON lines of a query and its documents."""
    return {"query", "documents"} <= probe_truth(url).columns


def read_scored_documents(url: str) -> Iterator[tuple[str, str, float, float]]:
    """Yield query, document, score and NaN of each scored document of annotated JSON lines.

    Raises:
        InputError: a line is none.
    """
    for place, row in read_table_rows(url):
        try:
            for document in row["documents"]:
                if document.get("score") is not None:
                    yield (
                        _text(row["query"]["id"]),
                        _text(document["id"]),
                        _number(document),
                        math.nan,
                    )
        except (KeyError, TypeError, AttributeError) as error:
            raise InputError(
                f"{place}: needs query.id, and documents with an id and perhaps a score, a number "
                f"({shorten_error(error)})"
            ) from None


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise TypeError("an id is a string")
    return value


def _number(document: dict[str, Any]) -> float:
    score = document["score"]
    if isinstance(score, bool) or not isinstance(score, int | float):
        raise TypeError("a score is a number")
    return float(score)


def _annotated_pools(url: str) -> FilledPools:
    return FilledPools([pool for _, pool in pool_lines([url])], [])


def _has_qrels(sight: TruthProbe) -> bool:
    return any(name.split(".")[0] == "qrels" for name in sight.names)


_TABLES = "Parquet, CSV, TSV or JSON tables of query_id, doc_id and relevance, score or grade"
TRUTH_FORMATS = {
    "the --out of annotate": TruthFormat(
        matches=lambda sight: SCORES in sight.names,
        truth=lambda url: _scores(f"{url.rstrip('/')}/{SCORES}"),
        pools=lambda url: _annotated_pools(f"{url.rstrip('/')}/{ANNOTATED}"),
    ),
    _TABLES: TruthFormat(
        matches=lambda sight: (
            {"query_id", "doc_id"} <= sight.columns and not sight.columns.isdisjoint(_VALUES)
        ),
        truth=_scores,
    ),
    "MTEB reranking rows": TruthFormat(
        matches=lambda sight: sight.columns >= mteb.COLUMNS,
        truth=lambda url: mteb.read_rows(url)[1],
        pools=lambda url: mteb.read_rows(url)[0],
        by_people=True,
    ),
    "annotated JSON lines (query, documents with a score)": TruthFormat(
        matches=lambda sight: {"query", "documents"} <= sight.columns,
        truth=_annotated,
        pools=_annotated_pools,
    ),
    "a BEIR or MTEB directory (corpus, queries, qrels)": TruthFormat(
        matches=_has_qrels,
        truth=beir.read_qrels,
        pools=beir.read_pools,
        by_people=True,
    ),
    "BEIR qrels (query-id, corpus-id, score)": TruthFormat(
        matches=lambda sight: (
            set(beir.QRELS_COLUMNS) <= sight.columns or (len(sight.line.split(b"\t")) == 3)
        ),
        truth=beir.read_qrels,
        by_people=True,
    ),
    "TREC qrels (query, iteration, document, relevance)": TruthFormat(
        matches=lambda sight: len(sight.line.split()) == 4,
        truth=trec.read_qrels,
        by_people=True,
    ),
}
"""The known kinds; the first that looks right is taken."""
