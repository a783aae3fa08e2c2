"""Sections of a bake-off on its parts: queries, depths, slices, and where two arms differ."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow.compute as pc

from zelo_ray.commands.bakeoff.report.results import MEAN, Contest
from zelo_ray.commands.bakeoff.slices import DIFFICULTY
from zelo_ray.report.charts.figures import PALETTE, band, curves, intervals, ridges, spans
from zelo_ray.report.charts.labels import labels
from zelo_ray.report.parts import Cells, Chart, Contrasts, Duel, Section, Table, Text
from zelo_ray.report.wording import short

_POINTS = 3000
"""How many queries the scatter and the line of difficulty show."""
_ARMS = 12
"""How many arms a chart with a panel for each shows."""
_HARDEST = 10
_SLICES = 30
"""How many values of a field are shown."""


def distribution_section(contest: Contest) -> Section | None:
    """Show the distribution of the leading measure over queries, arm by arm."""
    query_ids, values = contest.values
    leading = contest.summary["leading"]
    if not query_ids:
        return None
    names = [
        arm + (f", {contest.unanswered[arm]:,} not answered" if contest.unanswered[arm] else "")
        for arm in contest.arms[:_ARMS]
    ]
    chart = Chart(
        {"": ridges(names, values[:, :_ARMS], leading)},
        f"On how many queries an arm reached which {leading}. A mean hides whether an arm is "
        "middling everywhere, or perfect on most queries and lost on some."
        + (f" The best {_ARMS} arms." if len(contest.arms) > _ARMS else ""),
    )
    parts: list[Chart | Duel] = [chart]
    if len(contest.arms) > 1:
        columns = np.round(values[:_POINTS], 4).T.tolist()
        data = {
            "measure": leading,
            "arms": list(zip(contest.arms, labels(contest.arms), columns, strict=True)),
            "queries": [contest.named(query_id) for query_id in query_ids[:_POINTS]],
        }
        caption = "Each point is a query: above the line the arm on the upright axis is better."
        if len(query_ids) > _POINTS:
            caption += f" The first {_POINTS:,} of {len(query_ids):,} queries."
        parts.append(Duel(data, caption))
    return Section("distribution", "Query by query", parts)


def curves_section(contest: Contest) -> Section | None:
    """Show recall and similar measures against depth."""
    measures = contest.run.get("curves") or {}
    arms, charts = contest.arms[: len(PALETTE)], []
    for name, lines in measures.items():
        shown = {arm: _to_depth(lines[arm], contest.depths.get(arm)) for arm in arms}
        title = "recall" if name == "R" else name
        charts.append(
            Chart(
                {"": curves(shown, "depth k", f"mean {title} at k")},
                f"Mean {title} of the first k documents, as deep as an arm ranks. A first stage is "
                "chosen by the depth at which its line has risen high enough; a reranker by how "
                f"steeply it rises.{_best(contest)}",
            )
        )
    title = "Recall by depth" if list(measures) == ["R"] else "By depth"
    return Section("curves", title, charts) if charts and arms else None


def _to_depth(points: Sequence[Sequence[float]], depth: int | None) -> list[Sequence[float]]:
    """Cut a curve at the depth of a ranking, beyond which its value stays the same."""
    if depth is None or depth >= points[-1][0]:
        return list(points)
    beyond = next(value for k, value in points if k >= depth)
    return [*(point for point in points if point[0] < depth), (depth, beyond)]


def _best(contest: Contest) -> str:
    return f" The best {len(PALETTE)} arms." if len(contest.arms) > len(PALETTE) else ""


def slices_section(contest: Contest) -> Section | None:
    """Show means over parts of the queries."""
    if not contest.source.has("slices.parquet"):
        return None
    leading = contest.summary["leading"]
    grouped: dict[str, dict[str, dict[str, dict[str, Any]]]] = {}
    for row in contest.source.table("slices", pc.field("measure") == leading).to_pylist():
        grouped.setdefault(row["slice"], {}).setdefault(row["value"], {})[row["run"]] = row
    if not grouped:
        return None
    figures, more = {}, ""
    for name, by_value in grouped.items():
        parts = list(by_value.items())[:_SLICES]
        counts = [f" ({max(row['queries'] for row in rows.values()):,})" for _, rows in parts]
        series = {
            arm: spans([rows.get(arm, {}) for _, rows in parts], MEAN)
            for arm in contest.arms[: len(PALETTE)]
        }
        figures[name] = intervals([value for value, _ in parts], series, leading, notes=counts)
        if len(by_value) > _SLICES:
            more += f" Of {name} the first {_SLICES} of {len(by_value):,} values."
    caption = f"Mean {leading} and its interval on parts of the queries, with their number."
    if DIFFICULTY in grouped:
        caption += " Difficulty is the arms' own: thirds of the queries by their mean."
    if len(contest.arms) > 1:
        caption += " An arm that leads in all may trail in the part that matters to you."
    chart = Chart(figures, caption + _best(contest) + more, "slice")
    return Section("slices", "Slices", (chart,))


def difficulty_section(contest: Contest) -> Section | None:
    """Show the leading measure from the hardest query to the easiest."""
    query_ids, values = contest.values
    indices = np.flatnonzero(~np.isnan(values).all(axis=1))
    if not len(indices):
        return None
    values, names = values[indices], [contest.named(query_ids[i]) for i in indices]
    low, middle, high = (f(values, axis=1) for f in (np.nanmin, np.nanmean, np.nanmax))
    order = np.argsort(middle, kind="stable")
    shown = order[np.linspace(0, len(order) - 1, min(len(order), _POINTS)).round().astype(int)]
    figure = band(
        *(low[shown], middle[shown], high[shown], [names[i] for i in shown]),
        contest.summary["leading"],
    )
    several = len(contest.arms) > 1
    chart = Chart(
        {"": figure},
        "Queries from the hardest to the easiest."
        + (
            " The line is the mean over the arms that answered, the band goes from the worst of "
            "them to the best. Where it is thin, any arm will do."
            if several
            else ""
        ),
    )
    best = np.nanargmax(values, axis=1)
    rows: list[Cells] = [
        [
            *(Text(names[i]), f"{middle[i]:.3f}", f"{high[i]:.3f}"),
            Text(contest.arms[best[i]] if high[i] > low[i] else "\N{EN DASH}"),
        ]
        for i in order[:_HARDEST]
    ]
    columns: tuple[str, ...] = ("query", "mean of arms", "best", "by")
    if not several:
        columns, rows = ("query", contest.summary["leading"]), [row[:2] for row in rows]
    table = Table(columns, rows, "The hardest queries.", frozenset(columns[1:3]))
    return Section("difficulty", "Difficulty", (chart, table))


def contrasts_section(contest: Contest) -> Section | None:
    """Show where two arms differ most, with their documents side by side."""
    pairs: dict[tuple[str, str], list[dict[str, Any]]] = {}
    # Scores know no threshold: where their 0 is depends on the query's other documents.
    marked = contest.summary["truth"]["kind"] != "scores"
    for contrast in contest.run.get("contrasts") or []:
        sides = [
            (
                contrast[f"run_{side}"],
                contrast[f"value_{side}"],
                _by_rank(contrast["documents"], f"rank_{side}", marked),
            )
            for side in ("a", "b")
        ]
        pairs.setdefault((contrast["run_a"], contrast["run_b"]), []).append(
            {**contrast, "sides": sides}
        )
    caption = (
        "The queries on which the best arm and its nearest rivals differ most. Each side is in the "
        "order of its arm; the number is the truth's relevance, and “?” a document that the truth "
        "does not know."
    )
    section = Section("contrasts", "Where two arms differ most", (Contrasts(pairs, caption),))
    return section if pairs else None


def _by_rank(
    documents: Sequence[Mapping[str, Any]], rank: str, marked: bool
) -> list[dict[str, Any]]:
    ranked = [document for document in documents if document[rank] is not None]
    ranked.sort(key=lambda document: document[rank])
    return [
        {
            "rank": d[rank],
            "doc_id": short(d["doc_id"], 60),
            "text": short(d["text"], 300),
            "relevance": "?" if d["relevance"] is None else f"{d['relevance']:.3g}",
            "relevant": marked and (d["relevance"] or 0) > 0,
        }
        for d in ranked
    ]
