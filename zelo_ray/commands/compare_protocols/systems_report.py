"""Show whether protocols' labels order systems as people's do, and what that costs."""

from collections.abc import Iterator, Mapping, Sequence
from math import isnan
from typing import Any

import numpy as np

from zelo_ray.evaluation.measures.titles import title_measure
from zelo_ray.reports.charts.figures import joined_points
from zelo_ray.reports.charts.scatter import logarithmic_axis
from zelo_ray.reports.parts import Cells, Chart, Figure, ReportTable, Section, Sentences, TextCell
from zelo_ray.reports.wording import Quantity, format_estimate

Row = Mapping[str, Any]


def build_systems_section(rows: Sequence[Row], unit: str) -> Section | None:
    """Build the section on the order of systems; None without runs.

    Args:
        rows: of ``systems.parquet``, by budget.
        unit: of costs, dollars or calls.
    """
    if not rows:
        return None
    by_budget: dict[float | None, list[Row]] = {}
    for row in rows:
        budget = None if isnan(row["budget"]) else row["budget"]
        by_budget.setdefault(budget, []).append(row)
    equal = _equal_money(by_budget)
    everything = by_budget[[*by_budget][-1]]
    sentences = Sentences([*_sentences(equal, everything, unit)])
    parts: list[Sentences | Chart | ReportTable] = [
        sentences,
        *_charts(rows, unit),
        _table(equal, everything, unit),
    ]
    return Section("systems", "Order of systems", parts)


def _equal_money(by_budget: Mapping[float | None, Sequence[Row]]) -> Sequence[Row]:
    """Return the rows for the money that the cheapest protocol took in all; none if all cost it."""
    budgets = [*by_budget]
    for budget in budgets[:-1]:
        if any(row["all_labels"] for row in by_budget[budget]):
            return by_budget[budget]
    return ()


def _sentences(equal: Sequence[Row], everything: Sequence[Row], unit: str) -> Iterator[str]:
    best = next(row for row in everything if row["best"])
    if isnan(best["tau_b"]):
        yield "No protocol's labels tell the runs apart."
        return
    yield (
        f"By all its labels, {best['protocol']} puts the {best['runs']:,} runs nearest to people's "
        f"order{_alike(everything)}: tau-b {_tau(best, 'tau_b')}."
    )
    if equal:
        best = next(row for row in equal if row["best"])
        yield (
            f"For {_money(best['budget'], unit)}, what the cheapest took in all, it is "
            f"{best['protocol']}{_alike(equal)}: tau-b {_tau(best, 'tau_b')}, with labels of "
            f"{best['queries']:,} of {best['of_queries']:,} queries."
        )


def _alike(rows: Sequence[Row]) -> str:
    """Name the protocols that are not significantly farther from people's order than the best."""
    names = [row["protocol"] for row in rows if row["like_best"] and not row["best"]]
    return f", not significantly nearer than {', '.join(names)}" if names else ""


def _table(equal: Sequence[Row], everything: Sequence[Row], unit: str) -> ReportTable:
    shown = [(row, _money(row["budget"], unit)) for row in _best_first(equal)]
    shown += [(row, "all its labels") for row in _best_first(everything)]
    cells: list[Cells] = [
        [
            TextCell(row["protocol"]),
            paid,
            f"{row['queries']:,} of {row['of_queries']:,}",
            _tau(row, "tau_b"),
            _tau(row, "tau_ap"),
            f"{row['right']:,} of {row['apart_by_people']:,}",
            f"{row['wrong']:,}",
            f"{row['apart'] - row['right'] - row['wrong']:,}",
        ]
        for row, paid in shown
    ]
    columns = ("protocol", "for", "queries", "tau-b", "tau-AP", "right", "wrong", "by it alone")
    measures = [title_measure(name) for name in dict.fromkeys(row["measure"] for row in everything)]
    caption = (
        f"Kendall's tau-b and tau-AP of the order of {everything[0]['runs']:,} runs by the "
        "protocol's labels and by people's. Right: pairs of runs that both tell apart (p < .05 "
        "after Holm's correction), in the same order, of those that people's labels tell apart; "
        "wrong: in the opposite order; by it alone: people's labels do not tell them apart. Runs "
        f"are ordered by {' and '.join(measures)}, of documents that people graded."
    )
    return ReportTable(columns, cells, caption, frozenset(columns[2:]), file="systems.parquet")


def _best_first(rows: Sequence[Row]) -> list[Row]:
    return sorted(rows, key=lambda row: np.inf if isnan(row["tau_b"]) else -row["tau_b"])


def _charts(rows: Sequence[Row], unit: str) -> Iterator[Chart]:
    measured = [row for row in rows if not (isnan(row["budget"]) or isnan(row["tau_b"]))]
    lines: dict[str, list[Row]] = {}
    for row in measured:
        points = lines.setdefault(row["protocol"], [])
        if not (points and points[-1]["all_labels"]):
            points.append(row)
    if lines:
        yield Chart(
            {"tau-b": _draw(lines, unit, "tau_b"), "tau-AP": _draw(lines, unit, "tau_ap")},
            "Agreement with people's order of runs against money. Each line ends where a protocol "
            "has labelled all queries; left of it, it is the mean over choices of as many queries "
            "as the money pays for. Higher is nearer to people, further left is cheaper. Intervals "
            "are 95%, over samples of queries, and rough.",
            "coefficient",
        )


def _draw(lines: Mapping[str, Sequence[Row]], unit: str, key: str) -> Figure:
    data = joined_points(
        {
            name: (
                [row["spent"] for row in rows],
                [(row[key], row[f"{key}_low"], row[f"{key}_high"]) for row in rows],
                [
                    f"{_tau(row, key)} for {_money(row['spent'], unit)}, labels of "
                    f"{row['queries']:,} queries"
                    for row in rows
                ],
            )
            for name, rows in lines.items()
        }
    )
    spent = [row["spent"] for rows in lines.values() for row in rows]
    layout = {
        "height": 420,
        "showlegend": True,
        "xaxis": {"title": {"text": unit}, **logarithmic_axis(min(spent), max(spent))},
        "yaxis": {"title": {"text": f"{key.replace('_', '-')} with people's order"}},
    }
    return {"data": data, "layout": layout}


def _tau(row: Row, key: str) -> Quantity:
    return format_estimate(row[key], row[f"{key}_low"], row[f"{key}_high"], "z.3f")


def _money(amount: float, unit: str) -> str:
    if isnan(amount):
        return "?"
    if unit == "calls":
        return f"{amount:,.0f} calls"
    if amount >= 0.1:
        return f"${amount:,.2f}"
    return f"${np.format_float_positional(amount, 3, fractional=False, trim='-')}"
