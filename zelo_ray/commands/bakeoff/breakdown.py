"""Show the parts of a bake-off that only its page has: queries, slices, contrasts, unjudged."""

from collections.abc import Iterator
from itertools import groupby
from math import isnan
from operator import attrgetter
from typing import Any

import numpy as np
from markupsafe import Markup

from zelo_ray.commands.bakeoff.rows import Contrast, Slice, Unjudged, Unranked, rankers_of
from zelo_ray.evaluation.ranking import Floats
from zelo_ray.files.tables import codes_of
from zelo_ray.records import Metric
from zelo_ray.report import charts
from zelo_ray.report.model import Cell, Section, chart, table
from zelo_ray.report.page import fold, foldings, html_table
from zelo_ray.report.results import Results

_MOST, _RIVALS = 12, 5
"""Rankers that have a histogram, and that the best one is drawn against."""
_POINTS = 1000
_SERIES, _VALUES = 8, 30
"""Rankers, and values of a field, that a chart of slices shows."""


def sections(results: Results) -> list[Section]:
    """Return the sections that only the page shows."""
    makers = (_distribution, _slices, _contrasts, _unjudged, _instructions)
    return [section for make in makers for section in make(results)]


def _distribution(results: Results) -> Iterator[Section]:
    """Show the distribution of the leading measure over queries, and the best beside others."""
    rankers, leading = rankers_of(results), results.record["measures"][0]
    query_ids, values = _values(results, rankers, leading)
    named = [*enumerate(rankers)]
    pictures = {name: charts.histogram(values[n], leading, "queries") for n, name in named[:_MOST]}
    caption = (
        f"Distribution of {leading} over queries: a ranker may be mediocre on all of them, or "
        "perfect on most and lost on some."
    )
    parts = [chart(pictures, caption, "ranker")]
    step, duels = -(-len(query_ids) // _POINTS), {}
    for n, rival in named[1 : _RIVALS + 1]:
        both = np.flatnonzero(~np.isnan(values[[0, n]]).any(axis=0))[::step]
        points = [(query_ids[q], Cell(values[0, q]), Cell(values[n, q])) for q in both]
        duels[rival] = charts.scatter(points, rankers[0], rival, diagonal=True)
    if duels:
        caption = "Each point is a query: above the line the ranker on the upright axis is better."
        parts.append(chart(duels, caption, f"{rankers[0]} beside"))
    yield Section("distribution", "Query by query", parts)


def _values(results: Results, rankers: list[str], measure: str) -> tuple[list[str], Floats]:
    """Return query ids and a measure, [rankers, queries]; NaN if a ranker did not rank a query."""
    rows = results.part("metrics", Metric, measure=measure)
    (query, query_ids), (run, runs) = codes_of(rows["query_id"]), codes_of(rows["run"])
    values = np.full((len(rankers), len(query_ids)), np.nan)
    place = np.array([rankers.index(name) for name in runs], dtype=np.int64)
    values[place[run], query] = rows["value"].to_numpy()
    column = {query_id: n for n, query_id in enumerate(query_ids)}
    for row in results.records("failures", Unranked):
        if row.run in runs and row.query_id in column:
            values[rankers.index(row.run), column[row.query_id]] = np.nan
    return query_ids, values


def _slices(results: Results) -> Iterator[Section]:
    """Show means over parts of the queries."""
    leading, pictures = results.record["measures"][0], {}
    rows = results.records("slices", Slice, measure=leading)
    for name, each in groupby(rows, attrgetter("slice")):
        found = {(row.value, row.run): row for row in each}
        values = [*dict.fromkeys(value for value, _ in found)][:_VALUES]
        series: dict[str, Any] = {
            ranker: [[getattr(found[v, ranker], end) for v in values] for end in _ENDS]
            for ranker in rankers_of(results)[:_SERIES]
        }
        counts = {value: row.queries for (value, _), row in found.items()}
        notes = [f" ({counts[value]:,})" for value in values]
        pictures[name] = charts.intervals(values, series, leading, notes=notes)
    if pictures:
        caption = f"Mean {leading} and its interval on parts of the queries, with their number."
        yield Section("slices", "Slices", [chart(pictures, caption, "slice")])


_ENDS = ("mean", "low", "high")


def _contrasts(results: Results) -> Iterator[Section]:
    """Show where two rankers differ most, with their documents."""
    folded, rows = [], results.records("contrasts", Contrast)
    for (a, b, query_id), each in groupby(rows, attrgetter("run_a", "run_b", "query_id")):
        documents = sorted(each, key=lambda row: row.rank_a or np.inf)
        first = documents[0]
        notes = [f"{a} {first.value_a:.3f}", f"{b} {first.value_b:.3f}"]
        cells = [
            (
                row.rank_a or "",
                row.rank_b or "",
                "?" if isnan(row.relevance) else f"{row.relevance:.3g}",
                row.doc_id,
                row.text,
            )
            for row in documents
        ]
        columns = [f"rank by {a}", f"rank by {b}", "relevance", "document", "text"]
        folded.append(fold(first.query or query_id, notes, html_table(columns, cells)))
    if folded:
        caption = (
            "The queries on which the best ranker and its nearest rivals differ most, with the "
            "first documents of both. Relevance is the truth's; “?”: it does not know the document."
        )
        yield Section("contrasts", "Where two rankers differ most", [caption, foldings(folded)])


def _unjudged(results: Results) -> Iterator[Section]:
    """Count documents that rankers place high and nobody has judged."""
    counts: dict[str, list[str]] = {}
    for row in results.records("unjudged", Unjudged):
        counts.setdefault(row.run, []).append(row.query_id)
    if counts:
        columns = {
            "ranker": lambda item: item[0],
            "unjudged documents": lambda item: len(item[1]),
            "queries": lambda item: len({*item[1]}),
        }
        caption = (
            "Documents among the first ten of a ranking that the truth does not know. They count "
            "as not relevant, which is unfair to rankers that have many."
        )
        rows = sorted(counts.items(), key=lambda item: -len(item[1]))
        part = table(rows, columns, caption, file="unjudged.parquet")
        yield Section("unjudged", "Unjudged documents", [part])


def _instructions(results: Results) -> Iterator[Section]:
    """Show the instructions of rerankers that take a prompt."""
    options = results.record["options"]
    if words := options.get("instructions"):
        quoted = Markup("<blockquote>{}</blockquote>").format(words)
        where = "Rerankers that take a prompt read this."
        yield Section("instructions", "What counts as relevant", [where, quoted])
