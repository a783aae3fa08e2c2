"""Read numbers of documents for queries, from files of any kind: labels, grades and runs."""

import hashlib
import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from zelo_ray.errors import InputError
from zelo_ray.files.collections import find_part, has_part, load_dataset
from zelo_ray.files.make_pools import Notes, Shown, category_codes, pools_of_mteb
from zelo_ray.files.pools import hash_id
from zelo_ray.files.rows import (
    ARROW,
    BEIR_QRELS,
    DATASET,
    RESULTS,
    Source,
    concat,
    is_pool,
    list_column,
    open_source,
    refuse,
)
from zelo_ray.files.run_record import refuse_unfinished
from zelo_ray.files.schema import own_id, role_of, to_id, to_number, type_of, value_of
from zelo_ray.files.storage import file_stem, list_directory
from zelo_ray.files.tables import parquet_table, schema_of
from zelo_ray.files.trec import NUMBERS, read_trec
from zelo_ray.names import split_name
from zelo_ray.records import AbsoluteScore, GradedScore, Qrel, Ranked, Score

Wanted = Literal["truth", "grades", "scores"]
"""Labels as a truth, where a graded run counts by its scores; those of judges, where it counts by
its whole grades; or the scores (else the ranks) of a run."""
ANNOTATED = "annotated.jsonl"
_QREL = schema_of(Qrel)
_ROUNDING = 0.5 + 1e-9
_POOLED = frozenset(schema_of(GradedScore).names)
_OF_TRUTH = ("judge", "probability", "std_error", "truth_error")
KNOWN_LABELS = (
    "known are the --out of annotate, tables of query_id, doc_id and grade (relevance, rating, "
    "label), qrels of TREC and BEIR, JSON by query and document, and pools with scores (docs/"
    "inputs.md)"
)
KNOWN_RUNS = (
    "known are TREC runs, tables of query_id, doc_id and score or rank, JSON by query and "
    "document, and pools with scores (docs/inputs.md)"
)


@dataclass(frozen=True, slots=True)
class Numbers:
    """Numbers as they stand in one place, a row each.

    ``table`` has query_id, doc_id and value (float64, null where an answer is missing), and where
    there are any, judge, probability, std_error, truth_error, run and rank.
    """

    table: pa.Table
    where: Callable[[int], str]
    is_pooled: bool = False
    """whether they are the combined grades of a graded run's panel"""

    def has(self, name: str) -> bool:
        """Return whether there is a column."""
        return name in self.table.column_names

    def with_columns(self, *names: str) -> "Numbers":
        """Return the numbers with some columns that are null where there are none."""
        table = self.table
        for name in (name for name in names if not self.has(name)):
            table = table.append_column(name, pa.nulls(len(table), ARROW[type_of(name)]))
        return replace(self, table=table)

    def take(self, rows: NDArray[np.int64]) -> "Numbers":
        """Return some of the rows, by their numbers, with their places."""
        table = self.table.take(pa.array(rows, pa.int64()))
        return replace(self, table=table, where=lambda row: self.where(int(rows[row])))

    def answered(self) -> "Numbers":
        """Return the rows that have an answer."""
        return self.take(
            np.flatnonzero(pc.is_valid(self.table["value"]).to_numpy(zero_copy_only=False))
        )


def open_judgments(place: str, columns: Mapping[str, str] | None = None) -> Source:
    """Open a place of judgments; a directory of annotate stands for its scores."""
    refuse_unfinished(place)
    source = open_source(place, columns)
    if source.kind == "results":
        return open_source(f"{place.rstrip('/')}/{RESULTS}", columns)
    return source


def read_numbers(source: Source, wanted: Wanted) -> Numbers | None:
    """Read the numbers of a place; return None if it holds none of what is wanted."""
    numbers: Numbers | None = None
    is_run = wanted == "scores"
    match source.kind:
        case "collection" if source.place.startswith(DATASET):
            numbers = _of_dataset(source.place, wanted)
        case "collection" if not is_run and has_part(source, "qrels"):
            parts = [read_numbers(open_source(f), wanted) for f in find_part(source.place, "qrels")]
            read = [(part.table, part.where) for part in parts if part is not None]
            numbers = Numbers(*concat(read)) if read else None
        case "trec qrels" if not is_run:
            numbers = _with_lines(source, read_trec(source))
        case "trec run" if is_run:
            table = read_trec(source)
            one_name = len(pc.unique(table["run"])) == 1
            numbers = _with_lines(source, table if one_name else table.drop_columns(["run"]))
        case "beir qrels" if not is_run:
            lines = source.lines()
            numbers = _of_rows(source, ((n, *_split(source.where(n), line)) for n, line in lines))
        case "mteb" if not is_run:
            rows = (
                (0, pool["query"]["id"], document["id"], document["grade"])
                for pool in pools_of_mteb(source, Notes(), Shown())
                for document in pool["documents"]
            )
            numbers = _of_rows(source, rows)
        case "pools" | "lists" if source.names:
            numbers = _of_rows(source, _numbers_of_documents(source, wanted))
        case "table":
            numbers = _of_table(source, wanted)
    return numbers


def _split(where: str, line: bytes) -> tuple[str, str, float | None]:
    cells = line.decode("utf-8", "replace").split("\t")
    if len(cells) != len(BEIR_QRELS):
        raise InputError(f"{where}: has {len(cells)} columns, not query, document and score")
    try:
        return cells[0], cells[1], to_number(cells[2])
    except ValueError as error:
        raise InputError(f"{where}: the score {error}") from None


def _of_rows(source: Source, rows: Iterable[tuple[int, str, str, float | None]]) -> Numbers:
    columns = [[*column] for column in zip(*rows, strict=True)] or [[], [], [], []]
    table = pa.table(dict(zip(NUMBERS.names, columns[1:], strict=True)), schema=NUMBERS)
    return Numbers(
        table, lambda row: source.where(columns[0][row]) if columns[0][row] else source.place
    )


def _with_lines(source: Source, table: pa.Table) -> Numbers:
    """Return numbers of a TREC file, of which a line is looked up by its number if it is wrong."""

    def where(row: int) -> str:
        return source.where(next(n for at, (n, _) in enumerate(source.lines()) if at == row))

    for name in ("query_id", "doc_id"):
        odd = pc.match_substring_regex(table[name], r"^[+-]?(\d([.,]\d+)?[eE]\+\d+|\d{16,}\.0*)$")
        for row in pc.indices_nonzero(odd).to_pylist():
            try:
                to_id(table[name][row].as_py())
            except ValueError as error:
                raise InputError(f"{where(row)}: {name} {error}") from None
    return Numbers(table, where)


def _of_dataset(place: str, wanted: Wanted) -> Numbers | None:
    dataset, name = load_dataset(place), "scoreddocs_iter" if wanted == "scores" else "qrels_iter"
    if not hasattr(dataset, name):
        return None
    field = "score" if wanted == "scores" else "relevance"
    rows = [(r.query_id, r.doc_id, float(getattr(r, field))) for r in getattr(dataset, name)()]
    columns = [*zip(*rows, strict=True)] or [(), (), ()]
    table = pa.table(
        [pa.array(c, f.type) for c, f in zip(columns, NUMBERS, strict=True)], NUMBERS.names
    )
    return Numbers(table, lambda row: f"{place}: judgment {row + 1}")


def _of_table(source: Source, wanted: Wanted) -> Numbers | None:
    """Read a table of query, document and number; return None if it lacks one of these."""
    is_run = wanted == "scores"
    value = _run_column(source) if is_run else _label_column(source, wanted)
    roles = source.roles("query_id", "doc_id", *(("run",) if is_run else _OF_TRUTH))
    if "query_id" not in roles:
        roles |= source.roles("query")
    if value is None or "doc_id" not in roles or not {"query_id", "query"} & roles.keys():
        return None
    role, name = value
    ranks = source.roles("rank") if is_run and role == "score" else {}
    try:
        table, where = source.table({**roles, role: name, **ranks}, () if is_run else (role,))
    except InputError:
        if not ranks:
            raise
        table, where = source.table({**roles, role: name})  # ranks order nothing
    if "query" in roles:
        ids = [None if text is None else hash_id("q", text) for text in table["query"].to_pylist()]
        at = table.schema.get_field_index("query")
        table = table.set_column(at, "query_id", pa.array(ids, pa.string()))
    values = pc.negate(table[role]) if role == "rank" else table[role]
    table = table.drop_columns([role]).append_column("value", values)
    numbers = Numbers(table, where, is_pooled={*source.names} >= _POOLED)
    names = {**roles, "query_id": roles.get("query_id") or roles["query"]}
    answered = (
        pc.is_valid(values) if not is_run else pa.chunked_array([[True] * len(table)], pa.bool_())
    )
    for wanted_role in [*NUMBERS.names[:2], *(r for r in ("judge", "run") if r in roles)]:
        row = pc.index(pc.and_(answered, pc.is_null(table[wanted_role])), True).as_py()
        if row >= 0:
            raise InputError(f"{where(row)}: has no {names[wanted_role]}")
    return numbers


def _label_column(source: Source, wanted: Wanted) -> tuple[str, str] | None:
    """Return the role and the column of the grade.

    In the scores of annotate, grade is what a panel's grades come to: there the score is the truth.
    """
    named = [n for n in source.names if role_of(n) == "grade"]
    if wanted == "truth" and {*source.names} >= _POOLED and "grade" not in source.columns:
        return ("score", "score")
    if len(named) > 1 and "grade" not in source.columns:
        raise InputError(
            f"{source.place}: {' and '.join(named)} may all be the grade: say which by --columns "
            f"grade={named[0]}"
        )
    roles = source.roles("grade") or source.roles("score")
    return next(iter(roles.items()), None)


def _run_column(source: Source) -> tuple[str, str] | None:
    roles = source.roles("score") or source.roles("rank")
    return next(iter(roles.items()), None)


def _numbers_of_documents(
    source: Source, wanted: Wanted
) -> Iterator[tuple[int, str, str, float | None]]:
    """Yield the number of each document of pools that has one.

    A label counts before a score, unless each grade of the file is what its score comes to, as
    annotate writes them.
    """
    listed = list_column(source.names, source.columns) or "documents"
    found = list[tuple[int, str, str, float | None, float | None]]()
    is_rounded = wanted == "truth" and "grade" not in source.columns
    for number, row in source.rows():
        try:
            for query_id, doc_id, document in _documents_of_row(row, listed, source.columns):
                score = to_number(value_of(document, "score", source.columns))
                label = value_of(document, "grade", source.columns) if wanted != "scores" else None
                grade, is_named_so = to_number(label), label is document.get("grade")
                if score is not None or grade is not None:
                    if doc_id is None:
                        raise ValueError("has a document without an id")  # noqa: TRY301 - placed
                    found.append((number, query_id, doc_id, score, grade))
                is_rounded = is_rounded and (
                    grade is None
                    or (is_named_so and score is not None and abs(score - grade) <= _ROUNDING)
                )
        except ValueError as error:
            raise InputError(f"{source.where(number)}: {error}") from None
    for number, query_id, doc_id, score, grade in found:
        yield number, query_id, doc_id, score if is_rounded or grade is None else grade


def _documents_of_row(
    row: Mapping[str, Any], listed: str, columns: Mapping[str, str]
) -> Iterator[tuple[str, str | None, Mapping[str, Any]]]:
    query = value_of(row, "query", columns)
    is_object = isinstance(query, Mapping)
    query_id = to_id(_first(query if is_object else row, "query_id", columns, plain=is_object))
    if query_id is None and isinstance(query, str) and query:
        query_id = hash_id("q", query)
    documents = row.get(listed)
    if query_id is None or not isinstance(documents, list):
        raise ValueError("needs the id of its query, and a list of documents")
    if not all(isinstance(document, Mapping) for document in documents):
        raise ValueError("has a document that is no object of an id and a score")
    for document in documents:
        yield query_id, to_id(_first(document, "doc_id", columns, plain=is_pool(row))), document


def _first(
    row: Mapping[str, Any], role: str, columns: Mapping[str, str], *, plain: bool = False
) -> Any:
    """Return the id of an object: ``id`` comes first in pools as annotate reads them."""
    own = own_id(row)
    if plain and own is not None and columns.get(role) not in row:
        return own
    value = value_of(row, role, columns)
    return own if value is None else value


# --- labels -------------------------------------------------------------------------------------


def read_qrels(place: str, columns: Mapping[str, str] | None = None) -> pa.Table:
    """Read relevance judgments: the columns of `records.Qrel`, standard errors NaN if unknown."""
    source = open_judgments(place, columns)
    numbers = read_numbers(source, "truth")
    if numbers is None:
        raise refuse(source, "judgments", hint_at_raters(source), KNOWN_LABELS)
    numbers = numbers.answered()
    if not len(numbers.table):
        raise InputError(f"{source.place}: holds no judged document")
    if not pc.all(pc.is_finite(numbers.table["value"])).as_py():
        row = pc.index(pc.is_finite(numbers.table["value"]), False).as_py()
        raise InputError(f"{numbers.where(row)}: the relevance is not a finite number")
    refuse_repeated(numbers, "judged")
    table = with_error(numbers.table)
    errors = table["std_error"]
    if pc.any(pc.or_(pc.is_inf(errors), pc.less(errors, 0))).as_py():
        raise InputError(f"{source.place}: a std_error is below 0, or infinite")
    return table.rename_columns({"value": "relevance"}).select(_QREL.names).cast(_QREL)


def hint_at_raters(source: Source) -> str:
    """Return what to do with a table that may have a column for each rater; "" if it has not."""
    first = source.first if source.kind == "table" else {}
    numeric = [n for n in first if not role_of(n) and _is_small_number(first[n])]
    if len(numeric) < 2:
        return ""
    return (
        f"if {numeric[0]} and {numeric[1]} are raters, make each grade a row of its own, as in "
        "docs/recipes.md"
    )


def _is_small_number(value: Any) -> bool:
    try:
        return to_number(value) is not None
    except ValueError:
        return False


def find_repeated(table: pa.Table) -> tuple[int, int] | None:
    """Return the first two rows that have one pair of query and document, or None."""
    queries, documents = (category_codes(table[name]) for name in NUMBERS.names[:2])
    pairs = queries * (documents.max(initial=0) + 1) + documents
    order = np.argsort(pairs, kind="stable")
    twice = np.flatnonzero(pairs[order][1:] == pairs[order][:-1])
    return (int(order[twice[0]]), int(order[twice[0] + 1])) if twice.size else None


def refuse_repeated(numbers: Numbers, verb: str) -> None:
    """Refuse a pair of query and document that comes twice."""
    if rows := find_repeated(numbers.table):
        query_id, doc_id = (numbers.table[name][rows[1]].as_py() for name in NUMBERS.names[:2])
        first, second = map(numbers.where, rows)
        raise InputError(
            f"{second}: document {doc_id!r} of query {query_id!r} is {verb} twice"
            + (f", first at {first}" if first != second else "")
            + ": keep one"
        )


def with_error(table: pa.Table) -> pa.Table:
    """Return the table with one ``std_error``: ``truth_error`` where known, else its own."""
    errors = [pa.chunked_array([pa.nulls(len(table), pa.float64())])]
    for name in ("std_error", "truth_error"):
        if name in table.column_names:
            error = table[name].cast(pa.float64())
            errors.insert(0, pc.if_else(pc.is_nan(error), None, error))
            table = table.drop_columns([name])
    return table.append_column("std_error", pc.fill_null(pc.coalesce(*errors), math.nan))


def digest_judgments(table: pa.Table) -> str:
    """Hash query, document and relevance of judgments, whatever their order: 32 hex digits."""
    rows = table.select(["query_id", "doc_id", "relevance"])
    ordered = rows.sort_by([(name, "ascending") for name in rows.column_names]).combine_chunks()
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, ordered.schema) as stream:
        stream.write_table(ordered)
    return hashlib.blake2b(sink.getvalue(), digest_size=16).hexdigest()


def has_changed(place: str, digest: str | None, columns: Mapping[str, str] | None = None) -> bool:
    """Return whether judgments have changed since they had a digest; False if it is not known."""
    try:
        return bool(digest) and digest_judgments(read_qrels(place, columns)) != digest
    except InputError:
        return False


def as_grades(place: str, table: pa.Table, levels: int = 4) -> pa.Table:
    """Return judgments with relevance as whole grades from 0 to ``levels`` - 1."""
    grades = np.maximum(table["relevance"].to_numpy(), 0)
    bad = (grades != np.floor(grades)) | (grades >= levels)
    if bad.any():
        row = table.slice(int(bad.argmax()), 1).to_pylist()[0]
        raise InputError(
            f"{place}: query {row['query_id']!r}, document {row['doc_id']!r}: "
            f"{row['relevance']:g} is not a grade from 0 to {levels - 1}"
        )
    return table.set_column(2, "relevance", pa.array(grades))


# --- runs ---------------------------------------------------------------------------------------


def read_runs(
    places: Iterable[str], columns: Mapping[str, str] | None = None
) -> dict[str, pa.Table]:
    """Read runs by name: the columns of `records.Ranked`, and ``rank`` where they came with ranks.

    A table may hold several, told apart by a column ``run``; else a run is called by its tag or by
    what the file is called, or NAME where it is given as ``NAME=FILE``.
    """
    runs: dict[str, pa.Table] = {}
    for given in places:
        name, place = split_name(given)
        refuse_unfinished(place)
        source = open_judgments(place, columns)
        numbers = read_numbers(source, "scores")
        if numbers is None:
            raise refuse(source, "run", KNOWN_RUNS)
        if not len(numbers.table):
            raise InputError(f"{place}: holds no line of a run")
        parts = _by_run(numbers, file_stem(place))
        if name and len(parts) > 1:
            raise InputError(f"{given}: one name, but the file holds {len(parts):,} runs")
        for tag, part in parts.items():
            if (name or tag) in runs:
                raise InputError(
                    f"{place}: another run has the same name, {name or tag}: name one of them, as "
                    "--runs NAME=FILE"
                )
            runs[name or tag] = part
    return runs


def _by_run(numbers: Numbers, name: str) -> dict[str, pa.Table]:
    """Return the checked runs of a place."""
    names = ["query_id", "doc_id", "value", *(["rank"] if numbers.has("rank") else [])]
    tags = pc.unique(numbers.table["run"]).to_pylist() if numbers.has("run") else []
    parts = {tags[0] if tags else name: numbers}
    if len(tags) > 1:
        parts = {
            tag: numbers.take(np.flatnonzero(pc.equal(numbers.table["run"], tag).to_numpy()))
            for tag in tags
        }
    runs = {}
    for tag, part in parts.items():
        values = part.table["value"]
        finite = pc.fill_null(pc.is_finite(values), False)
        if (row := pc.index(finite, False).as_py()) >= 0:
            raise InputError(f"{part.where(row)}: the score is missing, or not a finite number")
        refuse_repeated(part, "ranked")
        table = part.table.select(names).rename_columns({"value": "score"})
        ranked = table.select(schema_of(Ranked).names).cast(schema_of(Ranked))
        runs[tag] = ranked.append_column("rank", table["rank"]) if "rank" in names else ranked
    return runs


# --- what a graded run has beyond its scores ----------------------------------------------------


def _columns_of_scores(place: str) -> set[str]:
    names = list_directory(place)
    if names is not None and RESULTS not in names:
        return set()
    file = f"{place.rstrip('/')}/{RESULTS}" if names is not None else place
    return {*open_source(file).names} if file.endswith(".parquet") else set()


def has_grades(place: str) -> bool:
    """Return whether a place is the ``--out`` of a graded run, or its ``scores.parquet``."""
    return _columns_of_scores(place) >= _POOLED


def read_graded(place: str) -> pa.Table:
    """Read the panel's whole grade of each document, as `records.Qrel`, and ``ambiguous``."""
    if not has_grades(place):
        raise InputError(
            f"{place}: holds no grades of a panel: give the --out of annotate --protocol graded"
        )
    source = open_judgments(place)
    names = {"query_id": "query_id", "doc_id": "doc_id", "grade": "grade", "std_error": "std_error"}
    table, where = source.table({**names, "swapped": "ambiguous"})
    for name in ("query_id", "doc_id", "grade", "swapped"):
        if (row := pc.index(pc.is_null(table[name]), True).as_py()) >= 0:
            raise InputError(f"{where(row)}: has an empty field")
    return table.rename_columns([*_QREL.names, "ambiguous"]).cast(
        _QREL.append(pa.field("ambiguous", pa.bool_()))
    )


def has_logits(place: str) -> bool:
    """Return whether a place is the ``--out`` of a run whose scores are logits, or their table."""
    return _columns_of_scores(place) >= {*schema_of(Score).names} and not has_grades(place)


def read_absolute(place: str) -> pa.Table | None:
    """Read scores on one scale for all queries, as `records.Qrel`; None if there are none."""
    if not _columns_of_scores(place) >= {*schema_of(AbsoluteScore).names}:
        return None
    names = ["query_id", "doc_id", "absolute_score", "absolute_error"]
    source = open_judgments(place)
    table = parquet_table(source.place, names).select(names).rename_columns(_QREL.names).cast(_QREL)
    return table.filter(pc.fill_null(pc.is_finite(table["relevance"]), False))


def pools_file_of_truth(place: str) -> str | None:
    """Return the place of the judged pools as lines that `annotate` reads; None if missing."""
    names = list_directory(place)
    if names is not None:
        return f"{place.rstrip('/')}/{ANNOTATED}" if ANNOTATED in names else None
    folder, _, name = place.rpartition("/")
    if name == RESULTS:
        return pools_file_of_truth(folder or ".")
    source = open_source(place)
    return place if source.kind == "pools" and not source.unit else None
