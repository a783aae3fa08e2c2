"""Pack the documents and judgments of queries for a page, within a limit of size."""

from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Any

import numpy as np
import pyarrow as pa

from zelo_ray.errors import InputError
from zelo_ray.files.pools import LineLimits, parse_line, query_in
from zelo_ray.files.tables import query_starts
from zelo_ray.protocols import Judgments
from zelo_ray.records import Grade
from zelo_ray.reports.page import pack_json
from zelo_ray.reports.wording import short

QUERIES = 1000
"""The most queries that a page lists, to keep it fast to open."""
TELLING = 300
"""The most of these that are listed because a table names them or they failed."""
_RUN = 10
"""Random queries come in runs of so many, so that few parts of the tables are read."""
BYTES = 9_000_000
"""Bytes for the contents of queries, to keep a page below 10 MB."""
_QUERY = 400
_ID = 200
_TEXT = 600  # characters of one document
_TEXTS = 6_000  # and of all of a query
_WORDS = 16_000  # characters of what a judge said: a debate takes many
_RATIONALE = 1_000
_FACETS, _FACET = 12, 120  # how many facets, and characters of one


@dataclass(slots=True)
class ListedQuery:
    """A listed query: its documents (id, text), and its packed contents."""

    query_id: str
    query: str
    documents: list[tuple[str, str]]
    scores: pa.Table | None = None
    packed: dict[str, str] = field(default_factory=dict)


def choose_queries(
    lines: Iterable[bytes], in_all: int, telling: Sequence[str], seed: int
) -> list[ListedQuery]:
    """Choose the queries that a page lists: all, or the most telling ones and a random sample.

    Args:
        lines: of ``annotated.jsonl``.
        in_all: the number of queries.
        telling: ids of queries to list in any case, the first `TELLING` of them.
        seed: of the random sample.
    """
    chosen = frozenset(telling[: min(TELLING, QUERIES)])
    drawn: Container[int] = range(QUERIES)
    if in_all > QUERIES:
        starts = range(0, in_all, _RUN)
        runs = Random(seed).sample(starts, (QUERIES - len(chosen)) // _RUN)
        drawn = frozenset(start + n for start in runs for n in range(_RUN))
    queries = []
    for number, line in enumerate(lines):
        if number not in drawn and query_in(line)[0] not in chosen:
            continue
        parsed = parse_line("annotated.jsonl", number + 1, line, LineLimits())
        if not (pool := parsed.pool):
            raise InputError(f"annotated.jsonl:{number + 1}: not a pool ({parsed.reason})")
        room = min(_TEXT, max(80, _TEXTS // max(1, len(pool.documents))))
        documents = [(document.id, short(document.content, room)) for document in pool.documents]
        queries.append(ListedQuery(pool.query_id, short(pool.query, _QUERY), documents))
    return queries


def pack(
    listed: list[ListedQuery], judgments: Iterable[tuple[Judgments, Iterable[pa.Table]]]
) -> int:
    """Pack documents, then judgments, until the limit of size is reached.

    Args:
        listed: the queries, in order.
        judgments: each kind, and its table in chunks, in the order in which they are packed.

    Returns:
        The number of queries whose documents fit; the others are empty.
    """
    room = BYTES
    for place, entry in enumerate(listed):
        entry.packed["documents"] = pack_json(_documents(entry))
        room -= len(entry.packed["documents"])
        if room < 0:
            entry.packed.clear()
            return place
    by_id = {entry.query_id: entry for entry in listed}
    for kind, chunks in judgments:
        for query_id, table in by_query(chunks):
            if query_id in by_id:
                entry = by_id[query_id]
                name, contents = _pack_judgments(entry, kind, table)
                blob = pack_json(contents)
                room -= len(blob)
                if room < 0:
                    return len(listed)
                entry.packed[name] = blob
    return len(listed)


def by_query(chunks: Iterable[pa.Table]) -> Iterator[tuple[str, pa.Table]]:
    """Yield the rows of each query, from chunks that do not divide a query."""
    for chunk in chunks:
        first = query_starts(chunk)
        for start, end in zip(first, np.append(first[1:], chunk.num_rows), strict=True):
            yield chunk["query_id"][start].as_py(), chunk.slice(start, end - start)


_FITTED = ("score", "std_error", "rank", "comparisons")
_ADDED = (
    *("truth_error", "grade", "median", "majority", "ambiguous"),
    *("absolute_score", "absolute_error"),
)
"""Columns of a score that a query shows, and columns shown only if present."""


def _documents(entry: ListedQuery) -> list[list[Any]]:
    """Return, by document, its id, text, fitted values, and any further values by name."""
    rows: Mapping[str, Mapping[str, Any]] = {}
    if entry.scores is not None:
        rows = {row["doc_id"]: row for row in entry.scores.to_pylist()}
    documents = []
    for doc_id, text in entry.documents:
        row = rows.get(doc_id)
        fitted = [None, None, None, 0] if row is None else [_plain(row[name]) for name in _FITTED]
        added = {name: _plain(row[name]) for name in _ADDED if row and name in row}
        if added.get("truth_error", 0.0) is None:
            del added["truth_error"]
        documents.append([short(doc_id, _ID), text, *fitted, *([added] if added else [])])
    return documents


def _plain(value: float) -> float | None:
    """Round a number to the digits that are shown; return None for NaN."""
    return round(value, 4) if np.isfinite(value) else None


def _pack_judgments(
    entry: ListedQuery, kind: Judgments, table: pa.Table
) -> tuple[str, dict[str, Any]]:
    """Return the name of judgments in the page's data, and the judgments of a query, packed."""
    if kind.record is Grade:
        return "grades", _pack_grades(entry, table)
    rows = [kind.record(**row) for row in table.to_pylist()]
    if kind.as_votes and "votes" not in entry.packed:
        return "votes", _pack_votes(entry, kind, kind.as_votes(table), rows)
    return "said", _pack_texts(entry, kind, rows)


def _pack_votes(
    entry: ListedQuery, kind: Judgments, votes: pa.Table, rows: Sequence[Any]
) -> dict[str, Any]:
    place = {doc_id: i for i, (doc_id, _) in enumerate(entry.documents)}
    judges: dict[str, int] = {}
    vote_rows = [
        (
            *(place[vote["doc_id_a"]], place[vote["doc_id_b"]]),
            judges.setdefault(vote["judge"], len(judges)),
            # a verdict has a preference of its own: its two orders may differ
            round(getattr(row, "preference", vote["preference"]), 4),
            int(vote["swapped"]),
            short(kind.describe(row), _WORDS),
        )
        for vote, row in zip(votes.to_pylist(), rows, strict=True)
        if vote["doc_id_a"] in place and vote["doc_id_b"] in place
    ]
    return {"judges": list(judges), "votes": vote_rows}


def _pack_texts(entry: ListedQuery, kind: Judgments, rows: Sequence[Any]) -> dict[str, Any]:
    """Pack judgments of other kinds as texts."""
    place = {doc_id: i for i, (doc_id, _) in enumerate(entry.documents)}
    judges: dict[str, int] = {}
    texts = [
        (
            [place[doc_id] for doc_id in kind.documents_of(row) if doc_id in place],
            judges.setdefault(row.judge, len(judges)),
            short(kind.describe(row), _WORDS),
        )
        for row in rows
    ]
    return {"judges": list(judges), "noun": kind.noun, "said": texts}


def _pack_grades(entry: ListedQuery, table: pa.Table) -> dict[str, Any]:
    place = {doc_id: i for i, (doc_id, _) in enumerate(entry.documents)}
    judges: dict[str, int] = {}
    grades = [
        (
            place[grade["doc_id"]],
            judges.setdefault(grade["judge"], len(judges)),
            grade["grade"],
            [short(facet, _FACET) for facet in grade["facets_covered"][:_FACETS]],
            [short(facet, _FACET) for facet in grade["facets_missing"][:_FACETS]],
            short(grade["rationale"], _RATIONALE),
        )
        for grade in table.to_pylist()
        if grade["doc_id"] in place
    ]
    return {"judges": list(judges), "grades": grades}
