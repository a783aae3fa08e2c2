"""Show the parts of a bake-off: queries, slices, contrasts, and what is missing."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from zelo_ray.commands.bakeoff.report.results import MEAN, BakeoffResults
from zelo_ray.commands.bakeoff.slices import DIFFICULTY
from zelo_ray.reports.charts.figures import PALETTE, intervals, ridges, spans
from zelo_ray.reports.charts.labels import labels
from zelo_ray.reports.parts import Cells, Chart, Contrasts, Duel, ReportTable, Section, TextCell
from zelo_ray.reports.wording import short

_POINTS = 3000
"""How many queries the scatter shows."""
_MOST = 12
"""How many rankers a chart with a panel for each shows."""
_SLICES = 30
"""How many values of a field are shown."""


def distribution_section(results: BakeoffResults) -> Section | None:
    """Show the distribution of the leading measure over queries, ranker by ranker."""
    query_ids, values = results.values
    leading = results.leading
    if not query_ids:
        return None
    names = [
        name + (f", {results.unanswered[name]:,} not ranked" if results.unanswered[name] else "")
        for name in results.rankers[:_MOST]
    ]
    chart = Chart(
        {"": ridges(names, values[:, :_MOST], leading)},
        f"Distribution of {leading} over queries. A mean hides whether a ranker is mediocre on "
        "all queries, or perfect on most and lost on some."
        + (f" The best {_MOST}." if len(results.rankers) > _MOST else ""),
    )
    parts: list[Chart | Duel] = [chart]
    if len(results.rankers) > 1:
        columns = np.round(values[:_POINTS], 4).T.tolist()
        data = {
            "measure": leading,
            "rankers": list(zip(results.rankers, labels(results.rankers), columns, strict=True)),
            "queries": [results.query_label(query_id) for query_id in query_ids[:_POINTS]],
        }
        caption = "Each point is a query: above the line the ranker on the upright axis is better."
        if len(query_ids) > _POINTS:
            caption += f" The first {_POINTS:,} of {len(query_ids):,} queries."
        parts.append(Duel(data, caption))
    return Section("distribution", "Query by query", parts)


def _best(results: BakeoffResults) -> str:
    return f" The best {len(PALETTE)}." if len(results.rankers) > len(PALETTE) else ""


def slices_section(results: BakeoffResults) -> Section | None:
    """Show means over parts of the queries."""
    if not results.source.has("slices.parquet"):
        return None
    leading = results.leading
    grouped: dict[str, dict[str, dict[str, dict[str, Any]]]] = {}
    for row in results.source.table("slices", results.is_leading()).to_pylist():
        grouped.setdefault(row["slice"], {}).setdefault(row["value"], {})[row["run"]] = row
    if not grouped:
        return None
    figures, more = {}, ""
    for name, by_value in grouped.items():
        parts = list(by_value.items())[:_SLICES]
        counts = [f" ({max(row['queries'] for row in rows.values()):,})" for _, rows in parts]
        series = {
            ranker: spans([rows.get(ranker, {}) for _, rows in parts], MEAN)
            for ranker in results.rankers[: len(PALETTE)]
        }
        figures[name] = intervals([value for value, _ in parts], series, leading, notes=counts)
        if len(by_value) > _SLICES:
            more += f" Of {name} the first {_SLICES} of {len(by_value):,} values."
    caption = f"Mean {leading} and its interval on parts of the queries, with their number."
    if DIFFICULTY in grouped:
        caption += " Difficulty: thirds of the queries by the mean of the rankers."
    if len(results.rankers) > 1:
        caption += " A ranker that leads overall may trail on the queries that matter to you."
    chart = Chart(figures, caption + _best(results) + more, "slice")
    return Section("slices", "Slices", (chart,))


def contrasts_section(results: BakeoffResults) -> Section | None:
    """Show where two rankers differ most, with their documents side by side."""
    pairs: dict[tuple[str, str], list[dict[str, Any]]] = {}
    # None where nothing says it: the 0 of scores depends on the query's other documents.
    relevant_from = results.summary["truth"].get("relevant_from")
    for contrast in results.run.get("contrasts") or []:
        sides = [
            (
                contrast[f"run_{side}"],
                contrast[f"value_{side}"],
                _by_rank(contrast["documents"], f"rank_{side}", relevant_from),
            )
            for side in ("a", "b")
        ]
        pairs.setdefault((contrast["run_a"], contrast["run_b"]), []).append(
            {**contrast, "sides": sides}
        )
    caption = (
        "The queries on which the best ranker and its nearest rivals differ most. Each side is in "
        "the order of its ranker; the number is the truth's relevance, and “?” a document that the "
        "truth does not know."
    )
    section = Section("contrasts", "Where two rankers differ most", (Contrasts(pairs, caption),))
    return section if pairs else None


def _by_rank(
    documents: Sequence[Mapping[str, Any]], rank: str, relevant_from: float | None
) -> list[dict[str, Any]]:
    ranked = [document for document in documents if document[rank] is not None]
    ranked.sort(key=lambda document: document[rank])
    return [
        {
            "rank": d[rank],
            "doc_id": short(d["doc_id"], 60),
            "text": short(d["text"], 300),
            "relevance": "?" if d["relevance"] is None else f"{d['relevance']:.3g}",
            "relevant": relevant_from is not None
            and d["relevance"] is not None
            and d["relevance"] >= relevant_from,
        }
        for d in ranked
    ]


def unjudged_section(results: BakeoffResults) -> Section | None:
    """List documents that rankers place high and nobody has judged."""
    unjudged = results.unjudged
    if unjudged is None or not unjudged.num_rows:
        return None
    counts = unjudged.group_by("run").aggregate([([], "count_all"), ("query_id", "count_distinct")])
    by_ranker = sorted(counts.to_pylist(), key=lambda row: (-row["count_all"], row["run"]))
    columns = ("ranker", "unjudged documents", "queries")
    rows: list[Cells] = [
        [TextCell(row["run"]), f"{row['count_all']:,}", f"{row['query_id_count_distinct']:,}"]
        for row in by_ranker
    ]
    caption = (
        "Documents high in a ranking that the truth does not know. They count as not relevant, "
        "which is unfair to rankers that have many. Have them judged; unjudged.parquet has all."
    )
    table = ReportTable(columns, rows, caption, frozenset(columns[1:]))
    return Section("unjudged", "Unjudged documents", (table,))
