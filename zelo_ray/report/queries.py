"""Sections of an annotation run on its queries and their scores."""

from collections.abc import Iterator, Mapping

import pyarrow as pa

from zelo_ray.report import details
from zelo_ray.report.figures import histogram
from zelo_ray.report.judged import Annotation
from zelo_ray.report.page import Chart, Link, Queries, Section, Table, Text, plural, short
from zelo_ray.report.source import bare

_ROWS = 200
"""How many rows a table of failures or unscored queries shows."""
_LEAST = 10
"""How many of the least certain queries are named."""


def scores_section(annotation: Annotation) -> Section | None:
    """How scores and their errors are distributed."""
    scores, errors, _ = annotation.scores
    if not len(scores):
        return None
    return Section(
        "scores",
        "Scores",
        (
            Chart(
                {"": histogram(scores, "score, in logits", "documents")},
                "How many documents have which score. Two humps speak of documents that are either "
                "relevant or not; one hump around 0 of documents that are hard to tell apart.",
            ),
            Chart(
                {"": histogram(errors, "standard error, in logits", "documents")},
                "How sure the scores are: two documents of a query are told apart when their "
                "scores differ by some two of these. More cycles or judges move it to the left.",
            ),
        ),
    )


def uncertain_section(annotation: Annotation) -> Section | None:
    """The queries that deserve a second look."""
    _, _, errors = annotation.scores
    agreement = annotation.panel.by_query
    if not errors:
        return None
    by_error = sorted(errors, key=lambda query_id: -errors[query_id])[:_LEAST]
    by_dispute = sorted(agreement, key=lambda query_id: agreement[query_id])[:_LEAST]

    def rows(query_ids: list[str]) -> list[list[str | Link | Text]]:
        return [
            [annotation.link(query_id), _number(errors, query_id), _share(agreement, query_id)]
            for query_id in query_ids
        ]

    columns = ("query", "mean standard error", "judges agree on")
    numbers = frozenset(columns[1:])
    parts = [Table(columns, rows(by_error), "The largest standard errors.", numbers)]
    if by_dispute:
        parts.append(Table(columns, rows(by_dispute), "The judges most at odds.", numbers))
    return Section("uncertain", "The least certain queries", parts)


def _number(values: Mapping[str, float], query_id: str) -> str:
    return f"{values[query_id]:.2f}" if query_id in values else "\N{EN DASH}"


def _share(values: Mapping[str, float], query_id: str) -> str:
    return f"{values[query_id]:.0%}" if query_id in values else "\N{EN DASH}"


def unscored_section(annotation: Annotation) -> Section | None:
    """The queries without scores, and why."""
    unscored = annotation.run["summary"]["unscored"]
    rows = [[annotation.link(name), Text(why)] for name, why in list(unscored.items())[:_ROWS]]
    caption = f"The first {_ROWS} of {len(unscored):,}; run.json has all." if rows else ""
    table = Table(("query", "reason"), rows, caption if len(unscored) > _ROWS else "")
    return Section("unscored", "Queries without scores", (table,)) if rows else None


def failures_section(annotation: Annotation) -> Section | None:
    """The requests that gave no judgment, and why."""
    if not annotation.source.has("failures.parquet"):
        return None
    failures, in_all = annotation.source.head("failures", _ROWS)
    rows = [
        [
            annotation.link(failure["query_id"]),
            Text(short(", ".join(failure["doc_ids"]), 120)),
            *(failure["judge"], failure["status"], Text(short(failure["reason"], 400))),
        ]
        for failure in failures
    ]
    columns = ("query", "documents", "judge", "status", "reason")
    caption = f"The first {_ROWS} of {in_all:,}; failures.parquet has all." if rows else ""
    table = Table(columns, rows, caption if in_all > _ROWS else "")
    return Section("failures", "Requests without a judgment", (table,)) if rows else None


def queries_section(annotation: Annotation) -> Section:
    """Every query with its documents, and its comparisons at a click."""
    source, agreement = annotation.source, annotation.panel.by_query
    _ = annotation.scores  # gives the entries their scores
    votes = source.has("votes.parquet")
    chunks: Iterator[pa.Table] = source.chunks("votes", details.COLUMNS) if votes else iter(())
    listed = annotation.listed[: details.pack(annotation.listed, chunks)]
    items = []
    for entry in listed:
        notes = [entry.query_id, plural(len(entry.documents), "document")]
        if entry.scores is not None:
            notes.append(f"± {entry.std_error:.2f}")
        if entry.query_id in agreement:
            notes.append(f"judges agree on {agreement[entry.query_id]:.0%}")
        items.append({"query": entry.query, "notes": notes, "packed": entry.packed})
    in_all, carried = annotation.run["summary"]["queries"], sum("votes" in e.packed for e in listed)
    caption = "Open a query to see its documents by rank."
    if carried:
        caption += " A click on a document shows its comparisons, with each judge's words."
    if in_all > len(listed):
        caption += (
            f" The first {len(listed):,} of {in_all:,} queries; all of them are in scores.parquet "
            "and annotated.jsonl."
        )
    if 0 < carried < len(listed):
        caption += f" {carried:,} of them carry their comparisons here."
    elsewhere = (
        "This page had no room for the comparisons of this query, if there are any. They are in "
        f"votes.parquet; zelo-ray explain {bare(source.out)} --query … --doc … shows a document's."
    )
    return Section("queries", "Queries", (Queries(items, caption, elsewhere),))
