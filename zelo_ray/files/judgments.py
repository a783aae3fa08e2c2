"""Read numbers of documents for queries, from files of any kind: labels, grades and runs."""

import hashlib
import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from itertools import chain
from typing import Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from zelo_ray.errors import InputError
from zelo_ray.files.collections import find_part, has_part, load_dataset
from zelo_ray.files.make_pools import (
    Shown,
    has_visible_text,
    rows_of_list,
    rows_of_mteb,
)
from zelo_ray.files.pools import Notes, hash_id
from zelo_ray.files.rows import (
    DATASET,
    RESULTS,
    TREC_RUN,
    Row,
    Rows,
    Source,
    concat,
    open_source,
)
from zelo_ray.files.run_record import refuse_unfinished
from zelo_ray.files.schema import role_of, to_number
from zelo_ray.files.storage import file_stem, list_directory
from zelo_ray.files.tables import category_codes, parquet_table, schema_of
from zelo_ray.names import split_name
from zelo_ray.records import AbsoluteScore, GradedScore, Qrel, Ranked, Score

Wanted = Literal["truth", "grades", "scores"]
"""Labels as a truth, where a graded run counts by its scores; those of judges, where it counts by
its whole grades; or the scores (else the ranks) of a run."""
_Numbers = Iterator[tuple[int, str, str, float | None]]
"""Numbers of documents: the row where one stands, query, document, number."""
NUMBERS = pa.schema([("query_id", pa.string()), ("doc_id", pa.string()), ("value", pa.float64())])
"""A number of a document for a query: a relevance, a grade or a score."""
ANNOTATED = "annotated.jsonl"
_QREL = schema_of(Qrel)
_ROUNDING = 0.5 + 1e-9
_POOLED = frozenset(schema_of(GradedScore).names)
_TRUTH_ROLES = ("judge", "probability", "std_error", "truth_error")
_KNOWN_LABELS = (
    "known are the --out of annotate, tables of query_id, doc_id and grade (relevance, rating, "
    "label), qrels of TREC and BEIR, JSON by query and document, and pools with scores (docs/"
    "inputs.md); make a column for each rater a row for each grade (docs/recipes.md)"
)
_KNOWN_RUNS = (
    "known are TREC runs, tables of query_id, doc_id and score or rank, JSON by query and "
    "document, and pools with scores (docs/inputs.md)"
)


def open_judgments(place: str, columns: Mapping[str, str] | None = None) -> Source:
    """Open a place of judgments; a directory of annotate stands for its scores."""
    refuse_unfinished(place)
    source = open_source(place, columns)
    if source.kind == "results":
        return open_source(f"{place.rstrip('/')}/{RESULTS}", columns)
    return source


def is_pooled(source: Source) -> bool:
    """Return whether a table has the combined grades of a graded run's panel."""
    return source.kind == "table" and {*source.names} >= _POOLED


def read_numbers(source: Source, wanted: Wanted, what: str = "judgments") -> Rows:
    """Read the numbers of a place; refuse one that holds none of ``what``.

    The columns are query_id, doc_id and value (null where an answer is missing), and where there
    are any, judge, probability, std_error, truth_error, run and rank.
    """
    rows = _find_numbers(source, wanted)
    if rows is None:
        known = _KNOWN_RUNS if wanted == "scores" else _KNOWN_LABELS
        source.refuse(what, known)
    if not len(rows):
        row = "line of a run" if wanted == "scores" else "judged document"
        raise InputError(f"{source.place}: holds no {row}")
    return rows


def _find_numbers(source: Source, wanted: Wanted) -> Rows | None:
    is_run, place, rows = wanted == "scores", source.place, None
    match source.kind:
        case "collection" if place.startswith(DATASET):
            rows = _rows_of(source, _numbers_of_dataset(place, wanted))
        case "collection" if not is_run and has_part(source, "qrels"):
            every = map(open_source, find_part(place, "qrels"))
            parts = [_find_numbers(file, wanted) for file in every]
            read = [part for part in parts if part is not None]
            rows = concat(read) if read else None
        case "mteb" if not is_run:
            items = chain.from_iterable(rows_of_mteb(source, Notes(), Shown()))
            graded = (row for _, row in items if "doc_id" in row and has_visible_text(row["query"]))
            numbers = ((0, row["query_id"], row["doc_id"], row["grade"]) for row in graded)
            rows = _rows_of(source, numbers)
        case "pools" | "lists" if source.names:
            rows = _rows_of(source, _numbers_of_documents(source, wanted))
        case "table":
            rows = _numbers_of_table(source, wanted)
    return rows


def _rows_of(source: Source, numbers: _Numbers) -> Rows:
    columns = [[*column] for column in zip(*numbers, strict=True)] or [[], [], [], []]
    table = pa.table(dict(zip(NUMBERS.names, columns[1:], strict=True)), schema=NUMBERS)
    return Rows(table, lambda row: source.where(columns[0][row]))


def _numbers_of_dataset(place: str, wanted: Wanted) -> _Numbers:
    is_run = wanted == "scores"
    rows = getattr(load_dataset(place), "scoreddocs_iter" if is_run else "qrels_iter", tuple)
    for number, row in enumerate(rows(), 1):
        yield number, row.query_id, row.doc_id, float(row.score if is_run else row.relevance)


def _numbers_of_table(source: Source, wanted: Wanted) -> Rows | None:
    """Read a table of query, document and number; return None if it lacks one of these."""
    is_run, is_trec = wanted == "scores", source.separator == " "
    if is_trec and is_run != (source.names == TREC_RUN):
        return None
    value = source.roles("score") or source.roles("rank") if is_run else _grade_of(source, wanted)
    more = ("run",) if is_run else _TRUTH_ROLES
    roles = source.roles("query_id", "doc_id", *more)
    query = "query_id" if "query_id" in roles else "query"
    roles |= source.roles(query)
    if not value or not {"doc_id", query} <= roles.keys():
        return None
    [role] = value
    ranks = source.roles("rank") if is_run and role == "score" else {}
    strict = () if is_run else (role, *_TRUTH_ROLES)
    try:
        rows = source.table({**roles, **value, **ranks}, strict)
    except InputError:
        if not ranks:
            raise
        rows = source.table({**roles, **value})  # ranks order nothing
    if query == "query":
        texts = rows["query"].to_pylist()
        ids = [None if text is None else hash_id("q", text) for text in texts]
        rows = rows.with_column("query_id", pa.array(ids, pa.string()))
    if is_trec and is_run and len(pc.unique(rows["run"])) != 1:  # which says nothing, as trec_eval
        rows = replace(rows, table=rows.table.drop_columns(["run"]))
        del roles["run"]
    rows = rows.with_column("value", pc.negate(rows["rank"]) if role == "rank" else rows[role])
    if is_trec and not is_run:
        rows.refuse(rows.is_null("value"), "the grade is missing, or not a finite number")
    names = {"query_id": roles[query]}
    names |= {role: roles[role] for role in ("doc_id", "judge", "run") if role in roles}
    rows.require(names, None if is_run else ~rows.is_null("value"))
    return rows


def _grade_of(source: Source, wanted: Wanted) -> dict[str, str]:
    """Return the role and the column of the grade.

    In the scores of annotate, grade is what a panel's grades come to: there the score is the truth.
    """
    is_named = "grade" in source.columns
    if wanted == "truth" and is_pooled(source) and not is_named:
        return {"score": "score"}
    named = [name for name in source.names if role_of(name) == "grade"]
    if len(named) > 1 and not is_named:
        which = f"say which by --columns grade={named[0]}"
        raise InputError(f"{source.place}: {' and '.join(named)} may all be the grade: {which}")
    return source.roles("grade") or source.roles("score")


def _numbers_of_documents(source: Source, wanted: Wanted) -> _Numbers:
    """Yield the number of each document of pools that has one: a label, else a score."""
    is_rounded = wanted == "truth" and "grade" not in source.columns

    def read(number: int, row: Row) -> list[tuple[int, str, str, float | None, float | None]]:
        nonlocal is_rounded
        found = []
        for _, item in rows_of_list(source, Shown(), number, row):
            query_id, doc_id, score = item["query_id"], item.get("doc_id"), item.get("score")
            if not (query_id or item["query"]):
                raise ValueError("needs the id of its query, and a list of documents")
            grade = to_number(item.get("grade")) if wanted != "scores" else None
            if score is None and grade is None:
                continue
            if doc_id is None:
                raise ValueError("has a document without an id")
            found.append((number, query_id or hash_id("q", item["query"]), doc_id, score, grade))
            is_near = score is not None and grade is not None and abs(score - grade) <= _ROUNDING
            is_rounded &= grade is None or (item["is_grade"] and is_near)
        return found

    every = [document for documents in source.each(read) for document in documents]
    for number, query_id, doc_id, score, grade in every:
        yield number, query_id, doc_id, score if is_rounded or grade is None else grade


def read_qrels(place: str, columns: Mapping[str, str] | None = None) -> pa.Table:
    """Read relevance judgments: the columns of `records.Qrel`, standard errors NaN if unknown."""
    source = open_judgments(place, columns)
    rows = read_numbers(source, "truth")
    rows = rows.take(~rows.is_null("value"))
    if not len(rows):
        raise InputError(f"{source.place}: holds no judged document")
    rows.refuse(~np.isfinite(rows.floats("value")), "the relevance is not a finite number")
    refuse_repeated(rows, "judged")
    table = with_error(rows.table)
    errors = table["std_error"].to_numpy()
    if (np.isinf(errors) | (errors < 0)).any():
        raise InputError(f"{source.place}: a std_error is below 0, or infinite")
    return table.rename_columns({"value": "relevance"}).select(_QREL.names).cast(_QREL)


def refuse_repeated(rows: Rows, verb: str, *by: str) -> None:
    """Refuse a pair of query and document that comes twice (``by``: with the same other text)."""
    codes = np.zeros(len(rows), np.int64)
    for name in (*NUMBERS.names[:2], *by):
        column = category_codes(rows[name])
        codes = codes * (column.max(initial=0) + 1) + column
    order = np.argsort(codes, kind="stable")
    for at in np.flatnonzero(codes[order][1:] == codes[order][:-1])[:1].tolist():
        first, second = (rows.where(int(row)) for row in order[at : at + 2])
        query_id, doc_id = (rows[name][int(order[at])].as_py() for name in NUMBERS.names[:2])
        earlier = f", first at {first}" if first != second else ""
        what = f"document {doc_id!r} of query {query_id!r}"
        raise InputError(f"{second}: {what} is {verb} twice{earlier}")


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
    for row in table.slice(int(bad.argmax()), 1 if bad.any() else 0).to_pylist():
        what = f"query {row['query_id']!r}, document {row['doc_id']!r}: {row['relevance']:g}"
        raise InputError(f"{place}: {what} is not a grade from 0 to {levels - 1}")
    return table.set_column(2, "relevance", pa.array(grades))


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
        rows = read_numbers(open_judgments(place, columns), "scores", "run")
        tags = pc.unique(rows["run"]).to_pylist() if rows.has("run") else [file_stem(place)]
        if name and len(tags) > 1:
            raise InputError(f"{given}: one name, but the file holds {len(tags):,} runs")
        for tag in tags:
            if (name or tag) in runs:
                raise InputError(f"{place}: two runs have the same name, {name or tag}: NAME=FILE")
            part = rows.take(pc.equal(rows["run"], tag).to_numpy()) if len(tags) > 1 else rows
            runs[name or tag] = _check_run(part)
    return runs


def _check_run(rows: Rows) -> pa.Table:
    is_odd = ~np.isfinite(rows.floats("value"))
    rows.refuse(is_odd, "the score is missing, or not a finite number")
    refuse_repeated(rows, "ranked")
    table = rows.table.select(NUMBERS.names).rename_columns(["query_id", "doc_id", "score"])
    ranked = table.select(schema_of(Ranked).names).cast(schema_of(Ranked))
    return ranked.append_column("rank", rows["rank"]) if rows.has("rank") else ranked


def _columns_of_scores(place: str) -> set[str]:
    names = list_directory(place)
    if names is not None and RESULTS not in names:
        return set()
    file = place if names is None else f"{place.rstrip('/')}/{RESULTS}"
    return {*open_source(file).names} if file.endswith(".parquet") else set()


def has_grades(place: str) -> bool:
    """Return whether a place is the ``--out`` of a graded run, or its ``scores.parquet``."""
    return _columns_of_scores(place) >= _POOLED


def has_logits(place: str) -> bool:
    """Return whether a place is the ``--out`` of a run whose scores are logits, or their table."""
    return _columns_of_scores(place) >= {*schema_of(Score).names} and not has_grades(place)


def _read_scores(place: str, schema: pa.Schema, *names: str) -> pa.Table:
    table = parquet_table(open_judgments(place).place, names)
    return table.select(names).rename_columns(schema.names).cast(schema)


def read_graded(place: str) -> pa.Table:
    """Read the panel's whole grade of each document, as `records.Qrel`, and ``ambiguous``."""
    if not has_grades(place):
        raise InputError(f"{place}: holds no grades of a panel: give the --out of a graded run")
    schema = _QREL.append(pa.field("ambiguous", pa.bool_()))
    return _read_scores(place, schema, "query_id", "doc_id", "grade", "std_error", "ambiguous")


def read_absolute(place: str) -> pa.Table | None:
    """Read scores on one scale for all queries, as `records.Qrel`; None if there are none."""
    if not _columns_of_scores(place) >= {*schema_of(AbsoluteScore).names}:
        return None
    names = ("query_id", "doc_id", "absolute_score", "absolute_error")
    table = _read_scores(place, _QREL, *names)
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
