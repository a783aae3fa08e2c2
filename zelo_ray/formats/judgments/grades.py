"""Read rows of grades of any kind: tables, judged pools, TREC's and BEIR's files."""

import contextlib
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any, Literal

import pyarrow as pa
import pyarrow.compute as pc

from zelo_ray.errors import InputError
from zelo_ray.files.run_record import refuse_unfinished
from zelo_ray.files.storage import read_placed_lines
from zelo_ray.files.tables import schema_of
from zelo_ray.formats.columns import (
    IDS,
    NAMES,
    OF_GRADES,
    column_hint,
    columns_in,
    find_columns_by_query,
    find_list_column,
    is_called,
    normalize_name,
    value_of,
)
from zelo_ray.formats.interchange import beir, mteb, trec
from zelo_ray.formats.interchange.pooling import make_qrels
from zelo_ray.formats.pools import hash_id
from zelo_ray.formats.probe import RESULTS, FileProbe, is_number, probe, short_run_error
from zelo_ray.formats.typed_columns import Place, read_columns
from zelo_ray.records import GradedScore

Preference = Literal["scores", "grades"]
NO_COLUMNS: Mapping[str, str] = MappingProxyType({})
_TYPES: Mapping[str, pa.DataType] = {
    **dict.fromkeys(("query_id", "doc_id", "judge"), pa.string()),
    **dict.fromkeys(("grade", "probability"), pa.float64()),
}
_ERRORS = ("std_error", "truth_error")
_POOLED = frozenset(schema_of(GradedScore).names)
_ROUNDING = 0.5 + 1e-9
"""The largest difference of a score from its nearest whole grade."""
KNOWN_GRADES = (
    "the --out of annotate; tables (Parquet, CSV, TSV, JSON) of query_id, doc_id and grade, "
    "relevance, rating, label or score; JSON by query and document; pools whose documents have "
    "scores; MTEB reranking rows; a BEIR or MTEB directory; BEIR qrels; TREC qrels (query, "
    "iteration, document, relevance)"
)


@dataclass(frozen=True, slots=True)
class GradeRows:
    """Grades as they are in one place, a row each, and where each stands.

    ``table`` has query_id, doc_id, judge, grade (float64) and probability, of which the last three
    may be null, and std_error (NaN where unknown).
    """

    table: pa.Table
    place: Place
    names_judges: bool = False
    """whether rows name their judges"""
    is_pooled: bool = False
    """whether they are the combined grades of a graded run's panel"""

    def take(self, rows: Any) -> "GradeRows":
        """Return some of the rows, by their numbers, with their places."""
        return replace(
            self, table=self.table.take(pa.array(rows)), place=lambda row: self.place(rows[row])
        )


def open_judgments(place: str) -> FileProbe:
    """Probe a place of judgments; a directory of annotate stands for its scores.

    Raises:
        InputError: it cannot be read, or is of a run that is not finished.
    """
    refuse_unfinished(place)
    source = probe(place)
    if source.kind == "results":
        return probe(f"{place.rstrip('/')}/{RESULTS}")
    return source


def read_grade_rows(
    source: FileProbe, columns: Mapping[str, str], prefer: Preference
) -> GradeRows | None:
    """Read the grades of a place; return None if it holds none.

    Args:
        source: the place, probed.
        columns: by role, the name of a column that is not called as is usual.
        prefer: what counts where rows have a score and a grade of a panel, as annotate's have.

    Raises:
        InputError: a row is invalid.
    """
    match source.kind:
        case "short run":
            raise short_run_error(source)
        case "trec qrels":
            return _rows_of_qrels(source.place, trec.read_trec_qrels(source.place))
        case "beir qrels" | "collection":
            return _rows_of_qrels(source.place, beir.read_beir_qrels(source.place))
        case "mteb":
            return _rows_of_qrels(source.place, mteb.read_rows(source)[1])
        case "pools" | "wide":
            return _rows_of_qrels(
                source.place, make_qrels(source.place, scored_documents(source, columns))
            )
        case _ if source.has_rows:
            return _read_table(source, columns, prefer)
    return None


def unknown_judgments_error(source: FileProbe, *also: str) -> InputError:
    """Build the error for a place without judgments; ``also``: other kinds that are read there."""
    hint = f"; name others: {column_hint(source.place, 'grade', 'NAME')}" if source.has_rows else ""
    if source.has_rows and len(raters := _numeric_columns(source)) > 1:
        hint = (
            f"; if {' and '.join(raters[:2])} are raters, make each grade a row of its own, as in "
            "docs/recipes.md"
        )
    return InputError(
        f"{source.place}: holds no judgments of a known kind (but {source.summary}); "
        f"known are: {'; '.join([KNOWN_GRADES, *also])}{hint}"
    )


def _numeric_columns(source: FileProbe) -> list[str]:
    """Return the columns whose first value is a number, which raters' may be."""
    named = (name for name in source.names if not any(is_called(name, role) for role in NAMES))
    first = source.first_row or {}
    return [name for name in named if is_number(str(first.get(name)))]


def has_scored_documents(source: FileProbe) -> bool:
    """Return whether a place holds queries with lists of documents, which may have scores."""
    return source.kind in ("pools", "wide")


def scored_documents(
    source: FileProbe, columns: Mapping[str, str] = NO_COLUMNS, *, as_run: bool = False
) -> Iterator[tuple[str, str, float, float]]:
    """Yield query, document, score and NaN of each document of pools that has a score or a grade.

    A label counts before a score. So does a grade, unless the grades of the whole file are what its
    scores come to, as those of a panel are that annotate writes.

    Args:
        source: the pools.
        columns: by role, the name of a field that is not called as is usual.
        as_run: whether scores alone count, by which the documents are ranked.

    Raises:
        InputError: a line is none.
    """
    listed = find_list_column(source.names, columns) or "documents"
    names = {role: columns.get(role, "") for role in ("grade", "score")}
    rows, grades, are_rounded = list[tuple[str, str, float, float]](), dict[int, float](), True
    for place, row in source.rows():
        query = row.get(columns.get("query", "query"), value_of(row, "query"))
        if isinstance(query, Mapping):  # whose id comes first, as in pools that annotate reads
            query_id = value_of(query, "query_id", *IDS)
        else:
            query_id = _first_id(row, "query_id", columns)
        if query_id is None and isinstance(query, str):
            query_id = hash_id("q", query)
        documents = row.get(listed)
        if query_id is None or not isinstance(documents, list):
            raise InputError(f"{place}: needs the id of its query, and a list of documents")
        for document in documents:
            if not isinstance(document, Mapping):
                raise InputError(f"{place}: a document is not an object of an id and a score")
            score, grade = _score_of(document, names, as_run=as_run)
            if score is not None:
                is_plain = source.kind == "pools"
                doc_id = value_of(document, "doc_id", *IDS) if is_plain else None
                doc_id = _first_id(document, "doc_id", columns) if doc_id is None else doc_id
                number = _number(place, score)
                if grade is not None:
                    grades[len(rows)] = _number(place, grade)
                    are_rounded = are_rounded and abs(number - grades[len(rows)]) <= _ROUNDING
                rows.append((_id(place, query_id), _id(place, doc_id), number, math.nan))
    for at, (query_id, doc_id, score, error) in enumerate(rows):
        yield query_id, doc_id, score if are_rounded else grades.get(at, score), error


def _score_of(
    document: Mapping[str, Any], names: Mapping[str, str], *, as_run: bool
) -> tuple[Any, Any]:
    """Return the label of a document, else its score or grade; and the grade beside a score."""
    if as_run:
        return document.get(names["score"], value_of(document, "score")), None
    for name in (names["grade"], names["score"]):
        if document.get(name) is not None:
            return document[name], None
    labels = {name: value for name, value in document.items() if normalize_name(name) != "grade"}
    if (label := value_of(labels, "grade")) is not None:
        return label, None
    score, grade = value_of(document, "score"), value_of(document, "grade")
    return (grade, None) if score is None else (score, grade)


def _first_id(row: Mapping[str, Any], role: str, columns: Mapping[str, str]) -> Any:
    """Return an id: the field that the user named, else a usual one, else id or _id."""
    named = row.get(columns.get(role, ""))
    usual = value_of(row, role) if named is None else named
    return value_of(row, role, *IDS) if usual is None else usual


def with_error(table: pa.Table) -> pa.Table:
    """Return the table with one ``std_error``: ``truth_error`` where known, else its own.

    Args:
        table: perhaps with ``std_error`` and ``truth_error``; numbers, nulls or NaN.
    """
    unknown = pa.chunked_array([pa.nulls(len(table), pa.float64())])
    errors = [unknown]
    for name in _ERRORS:
        if name in table.column_names:
            error = table[name].cast(pa.float64())
            errors.insert(0, pc.if_else(pc.is_nan(error), unknown, error))
    column = pc.fill_null(pc.coalesce(*errors), math.nan)
    base = table.drop_columns([name for name in _ERRORS if name in table.column_names])
    return base.append_column("std_error", column)


def _read_table(
    source: FileProbe, user_columns: Mapping[str, str], prefer: Preference
) -> GradeRows | None:
    """Read a table of query, document and grade; return None if it lacks one of these."""
    chosen = columns_in(source.names, user_columns, OF_GRADES)
    roles = find_columns_by_query(source.place, source.names, chosen, OF_GRADES)
    value = _value_column(source, roles, prefer)
    query = roles.get("query_id") or roles.get("query")
    if value is None or query is None or "doc_id" not in roles:
        return None
    columns = {"query_id": query, "doc_id": roles["doc_id"], "grade": value}
    columns |= {role: roles[role] for role in ("judge", "probability") if role in roles}
    columns |= {name: name for name in _ERRORS if name in source.names}
    types = {**_TYPES, **{name: pa.float64() for name in _ERRORS if name in columns}}
    table, place = read_columns(source, columns, types, ("grade",))
    if "query_id" not in roles:
        table = hash_queries(table)
    table = with_error(table)
    rows = GradeRows(
        table, place, names_judges="judge" in roles, is_pooled={*source.names} >= _POOLED
    )
    _refuse_without(rows, columns)
    return rows


def _value_column(source: FileProbe, roles: Mapping[str, str], prefer: Preference) -> str | None:
    """Return the column of the grade.

    A column called relevance, rating or label is the grade. In the scores of annotate, grade is
    what a panel's grades come to: the score counts as truth, and the grade among judges.
    """
    grade, score = roles.get("grade"), roles.get("score")
    if grade and prefer == "scores" and normalize_name(grade) == "grade":
        relevance = (name for name in source.names if normalize_name(name) == "relevance")
        return next(relevance, score if {*source.names} >= _POOLED else grade)
    return grade or score


def hash_queries(table: pa.Table) -> pa.Table:
    """Return the table with the ids that annotate makes of the texts of queries without ids."""
    texts = table["query_id"].to_pylist()
    ids = pa.array([None if text is None else hash_id("q", text) for text in texts], pa.string())
    return table.set_column(table.schema.get_field_index("query_id"), "query_id", ids)


def _refuse_without(rows: GradeRows, columns: Mapping[str, str]) -> None:
    """Refuse a graded row without a query, a document, or the judge that rows name."""
    graded = pc.is_valid(rows.table["grade"])
    wanted = ("query_id", "doc_id", *(("judge",) if rows.names_judges else ()))
    for role in wanted:
        row = pc.index(pc.and_(graded, pc.is_null(rows.table[role])), True).as_py()
        if row >= 0:
            raise InputError(f"{rows.place(row)}: has no {columns[role]}")


def _rows_of_qrels(place: str, qrels: pa.Table) -> GradeRows:
    """Return judgments of a file without columns; where one stands is looked up if it is wrong."""
    count = len(qrels)
    columns = {
        "query_id": qrels["query_id"],
        "doc_id": qrels["doc_id"],
        "judge": pa.nulls(count, pa.string()),
        "grade": qrels["relevance"],
        "probability": pa.nulls(count, pa.float64()),
        "std_error": qrels["std_error"],
    }

    def find_line(row: int) -> str:
        pair = {qrels[name][row].as_py().encode() for name in ("query_id", "doc_id")}
        if probe(place).form == "text":
            for at, line in read_placed_lines(place):
                if pair <= set(line.split()):
                    return at
        return f"{place}: document {qrels['doc_id'][row]} of query {qrels['query_id'][row]}"

    return GradeRows(pa.table(columns), find_line)


def _id(place: str, value: object) -> str:
    if isinstance(value, bool) or not isinstance(value, str | int):
        raise InputError(f"{place}: an id is a {type(value).__name__}, not a text")
    return str(value)


def _number(place: str, value: object) -> float:
    if isinstance(value, str | int | float) and not isinstance(value, bool):
        with contextlib.suppress(ValueError):
            return float(value)
    raise InputError(f"{place}: the score {value!r} is not a number")
