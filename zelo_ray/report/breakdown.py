"""Sections of a bake-off on its parts: queries, depths, slices, failures and holes."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow.compute as pc

from zelo_ray.report.contest import Contest, spans
from zelo_ray.report.figures import band, curves, intervals, ridges
from zelo_ray.report.page import Cells, Chart, Contrasts, Duel, Section, Table, Text, short

_ROWS = 200
_POINTS = 3000
"""How many queries the scatter and the line of difficulty show."""
_ARMS = 12
"""How many arms a chart with a panel for each shows."""
_HARDEST = 10


def distribution_section(contest: Contest) -> Section | None:
    """How the leading measure is distributed over queries, arm by arm."""
    query_ids, values = contest.values
    leading = contest.summary["leading"]
    if not query_ids:
        return None
    chart = Chart(
        {"": ridges(contest.arms[:_ARMS], values[:, :_ARMS], leading)},
        f"On how many queries an arm reached which {leading}. A mean hides whether an arm is "
        "middling everywhere, or perfect on most queries and lost on some."
        + (f" The best {_ARMS} arms." if len(contest.arms) > _ARMS else ""),
    )
    parts: list[Chart | Duel] = [chart]
    if len(contest.arms) > 1:
        arms = {name: np.round(values[:_POINTS, i], 4) for i, name in enumerate(contest.arms)}
        data = {
            "measure": leading,
            "arms": [[name, column] for name, column in arms.items()],
            "queries": [contest.named(query_id) for query_id in query_ids[:_POINTS]],
        }
        caption = "Each point is a query: above the line the arm on the upright axis is better."
        if len(query_ids) > _POINTS:
            caption += f" The first {_POINTS:,} of {len(query_ids):,} queries."
        parts.append(Duel(data, caption))
    return Section("distribution", "Query by query", parts)


def curves_section(contest: Contest) -> Section | None:
    """Recall and its like against depth."""
    found = contest.run.get("curves") or {}
    charts = []
    for name, lines in found.items():
        shown = {arm: lines[arm] for arm in contest.arms if arm in lines} or lines
        title = "recall" if name == "R" else name
        charts.append(
            Chart(
                {"": curves(shown, "depth k", f"mean {title} at k")},
                f"Mean {title} of the first k documents. A first stage is chosen by the depth at "
                "which its line has risen high enough; a reranker by how steeply it rises.",
            )
        )
    return (
        Section("curves", "Recall by depth" if list(found) == ["R"] else "By depth", charts)
        if charts
        else None
    )


def slices_section(contest: Contest) -> Section | None:
    """Means over parts of the queries."""
    if not contest.source.has("slices.parquet"):
        return None
    leading = contest.summary["leading"]
    grouped: dict[str, dict[str, dict[str, dict[str, Any]]]] = {}
    for row in contest.source.table("slices", pc.field("measure") == leading).to_pylist():
        grouped.setdefault(row["slice"], {}).setdefault(row["value"], {})[row["run"]] = row
    figures = {}
    for name, by_value in grouped.items():
        values = list(by_value)[:30]
        counted = [
            f"{short(value or 'none', 15)} ({max(row['queries'] for row in rows.values()):,})"
            for value, rows in list(by_value.items())[:30]
        ]
        series = {
            arm: spans([by_value[value].get(arm, {}) for value in values])
            for arm in contest.arms[:8]
        }
        figures[name] = intervals(counted, series, leading)
    if not figures:
        return None
    caption = (
        f"Mean {leading} and its interval on parts of the queries, with their number. An arm that "
        "leads in all may trail in the part that matters to you."
        + (" The best 8 arms." if len(contest.arms) > 8 else "")
    )
    return Section("slices", "Slices", (Chart(figures, caption, "slice"),))


def difficulty_section(contest: Contest) -> Section | None:
    """From the hardest query to the easiest."""
    query_ids, values = contest.values
    told = np.flatnonzero(~np.isnan(values).all(axis=1))
    if not len(told):
        return None
    values, names = values[told], [contest.named(query_ids[i]) for i in told]
    low, middle, high = (f(values, axis=1) for f in (np.nanmin, np.nanmean, np.nanmax))
    order = np.argsort(middle, kind="stable")
    shown = order[np.linspace(0, len(order) - 1, min(len(order), _POINTS)).round().astype(int)]
    figure = band(
        *(low[shown], middle[shown], high[shown], [names[i] for i in shown]),
        contest.summary["leading"],
    )
    chart = Chart(
        {"": figure},
        "Queries from the hardest to the easiest: the line is the mean over the arms, the band "
        "goes from the worst arm to the best. Where it is thin, any arm will do.",
    )
    best = np.nanargmax(values, axis=1)
    rows: list[Cells] = [
        [
            *(Text(names[i]), f"{middle[i]:.3f}", f"{high[i]:.3f}"),
            Text(contest.arms[best[i]] if high[i] > low[i] else "\N{EN DASH}"),
        ]
        for i in order[:_HARDEST]
    ]
    columns = ("query", "mean of arms", "best", "by")
    table = Table(columns, rows, "The hardest queries.", frozenset(columns[1:3]))
    return Section("difficulty", "Difficulty", (chart, table))


def contrasts_section(contest: Contest) -> Section | None:
    """Where two arms differ most, with their documents side by side."""
    items = [
        {
            **each,
            "sides": [
                (
                    each[f"run_{side}"],
                    each[f"value_{side}"],
                    _by_rank(each["documents"], f"rank_{side}"),
                )
                for side in ("a", "b")
            ],
        }
        for each in contest.run.get("contrasts") or []
    ]
    caption = (
        "The queries on which two arms differ most. Each side is in the order of its arm; the "
        "number is the truth's relevance, and “?” a document that the truth does not know."
    )
    parts = (Contrasts(items, caption),)
    return Section("contrasts", "Where two arms differ most", parts) if items else None


def _by_rank(documents: Sequence[Mapping[str, Any]], rank: str) -> list[dict[str, Any]]:
    ranked = [document for document in documents if document[rank] is not None]
    ranked.sort(key=lambda document: document[rank])
    known = {d["doc_id"]: d["relevance"] for d in ranked}
    return [
        {
            "rank": d[rank],
            "doc_id": short(d["doc_id"], 60),
            "text": short(d["text"], 300),
            "relevance": "?" if known[d["doc_id"]] is None else f"{known[d['doc_id']]:.3g}",
            "relevant": known[d["doc_id"]] is not None and known[d["doc_id"]] > 0,
        }
        for d in ranked
    ]


def failures_section(contest: Contest) -> Section | None:
    """The queries that an arm did not answer, and why."""
    if not contest.source.has("failures.parquet"):
        return None
    failures, in_all = contest.source.head("failures", _ROWS)
    if not failures:
        return None
    rows = [
        [
            *(Text(row["run"]), Text(row["query_id"]), row["status"]),
            *(Text(short(row["reason"], 400)), f"{row['attempts']:,}"),
        ]
        for row in failures
    ]
    caption = (
        f"The first {_ROWS} of {in_all:,}; failures.parquet has all." if in_all > _ROWS else ""
    )
    columns = ("arm", "query", "status", "reason", "attempts")
    table = Table(columns, rows, caption, frozenset({"attempts"}))
    return Section("failures", "Queries without an answer", (table,))


def holes_section(contest: Contest) -> Section | None:
    """Documents that arms rank high and nobody has judged."""
    if not contest.source.has("holes.parquet"):
        return None
    holes = contest.source.table("holes")
    if not holes.num_rows:
        return None
    counts = holes.group_by("run").aggregate([([], "count_all"), ("query_id", "count_distinct")])
    by_arm = sorted(counts.to_pylist(), key=lambda row: (-row["count_all"], row["run"]))
    columns = ("arm", "unjudged documents", "queries")
    rows: list[Cells] = [
        [Text(row["run"]), f"{row['count_all']:,}", f"{row['query_id_count_distinct']:,}"]
        for row in by_arm
    ]
    parts = [
        Table(
            columns,
            rows,
            "Documents high in an arm's ranking that the truth does not know. They count as not "
            "relevant, which is unfair to the arms that have many: have them judged.",
            frozenset(columns[1:]),
        )
    ]
    first = holes.sort_by([("rank", "ascending"), ("run", "ascending")]).slice(0, 20).to_pylist()
    cells: list[Cells] = [
        [Text(row["run"]), Text(row["query_id"]), Text(row["doc_id"]), f"{row['rank']:,}"]
        for row in first
    ]
    caption = "The highest of them; holes.parquet has all."
    parts.append(Table(("arm", "query", "document", "rank"), cells, caption, frozenset({"rank"})))
    return Section("holes", "Holes", parts)
