"""Show what rankings take in time and money, and which rankers are worth it."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from zelo_ray.commands.bakeoff.outcome import Floats
from zelo_ray.commands.bakeoff.report.results import MEAN, BakeoffResults, comparisons_by_rival
from zelo_ray.commands.bakeoff.significance import Significance, significance_of
from zelo_ray.evaluation.pareto import pareto_front
from zelo_ray.formats.wording import counted
from zelo_ray.reports.charts.figures import spans
from zelo_ray.reports.charts.scatter import Axis, scatter
from zelo_ray.reports.parts import Cells, Chart, ReportTable, Section, Sentences, TextCell
from zelo_ray.reports.wording import Quantity, format_estimate, format_number

_FRACTIONS: tuple[str, ...] = ("", "", "half", "a third", "a quarter", "a fifth", "a sixth")
_FRACTIONS += ("a seventh", "an eighth", "a ninth", "a tenth")
_NEAR = 0.1
"""How far a share may be from a fraction that names it."""
_CLOSE = 0.05
"""A difference of quality up to which a ranker is within it of the best."""
_SMALL = 0.0005
"""A difference of quality that three digits do not show."""


@dataclass(frozen=True, slots=True)
class _Figure:
    """A figure that is the better the lower it is, and how sentences name it."""

    name: str
    title: str
    possessive: str
    nothing: str
    by: str


_TIME = _Figure(
    "seconds_p50", "seconds a query (p50)", "of its time", "in no time", "By time a query"
)
_MONEY = _Figure(
    "usd_per_1000", "dollars for 1,000 queries", "of its price", "at no cost", "By price"
)
_FORMS = {"seconds_p50": ".3g", "seconds_p95": ".3g", "documents_per_second": ",.1f"}
_FORMS |= {"usd_per_1000": ",.3g"}


def costs_section(results: BakeoffResults) -> Section | None:
    """Show time and price of each ranker, beside how good it is; None if nothing is known."""
    if not (results.costs and results.rankers):
        return None
    sentences = [text for figure in (_MONEY, _TIME) for text in describe_front(results, figure)]
    figures = {
        figure.title: drawn for figure in (_TIME, _MONEY) if (drawn := _draw(results, figure))
    }
    chart = Chart(
        figures,
        f"Each ranker's {results.leading} against what a query takes, with intervals. Up "
        "and to the left is better; a ring is a ranker that another one equals for less, or beats "
        "for no more. Run files and the order that the documents came in have no time here.",
        "against",
    )
    parts = [Sentences(sentences)] if sentences else []
    return Section(
        "costs", "Time and money", [*parts, *([chart] if figures else []), _table(results)]
    )


def describe_front(results: BakeoffResults, figure: _Figure) -> Iterator[str]:
    """Yield sentences on which rankers are worth their time or price, the best one first."""
    quality, cost, _ = _figures(results, figure)
    front = [results.rankers[i] for i in pareto_front(quality, cost)]
    with_cost = [
        name for name, value in zip(results.rankers, cost, strict=True) if not np.isnan(value)
    ]
    if len(with_cost) < 2:
        return
    best, others = front[0], front[1:]
    if not any(cost[results.rankers.index(name)] for name in with_cost):
        return  # all are free
    values = {name: (quality[i], cost[i]) for i, name in enumerate(results.rankers)}
    gaps = {name: _describe_gap(results, best, name, values) for name in others}
    phrases = [
        f"{name} is {gap} {_share(values, name, best, figure)}"
        + (" (intervals overlap)" if _overlap(results, figure, name, best) else "")
        for name, gap in gaps.items()
    ]
    by = figure.by if figure is _MONEY or _are_alone(results) else f"{figure.by} under load"
    if not phrases:
        yield f"{by}: of the rankers with a figure, {best} is the best, and no other takes less."
        return
    yield f"{by}: {'; '.join(phrases)}."
    if beaten := [name for name in with_cost if name not in front]:
        verb = "is" if len(beaten) == 1 else "are"
        yield (
            f"{', '.join(beaten)} {verb} not worth it by this figure: another ranker is at least "
            "as good and takes no more."
        )


_DOUBTS = {
    Significance.BELOW: " (though significantly above it on the queries that both ranked)",
    Significance.NOT_SIGNIFICANT: " (no significant difference)",
    Significance.LABELS_COULD_TURN_IT: " (other answers of the judges could turn that)",
    Significance.ONLY_BY_OWN_FAMILY: " (a difference only by judges of a ranker's family)",
    Significance.TOO_FEW_QUERIES: " (too few queries to compare)",
}


def _describe_gap(
    results: BakeoffResults, best: str, name: str, values: Mapping[str, tuple[float, float]]
) -> str:
    """Say how far a ranker is below the best one, and whether that is significant."""
    gap = values[best][0] - values[name][0]
    rows = comparisons_by_rival(best, results.comparisons.get(results.leading, ()))
    doubt = _DOUBTS.get(significance_of(rows[name]), "") if name in rows else ""
    if gap < _SMALL:
        return f"as good as {best}{doubt}"
    return f"{f'within {gap:.3f} of' if gap <= _CLOSE else f'{gap:.3f} below'} {best}{doubt}"


def _share(values: Mapping[str, tuple[float, float]], name: str, best: str, figure: _Figure) -> str:
    """Say what a ranker takes, as a fraction of what the best one takes."""
    share = values[name][1] / values[best][1]
    if share == 0:
        return figure.nothing
    parts = round(1 / share)
    if parts < len(_FRACTIONS) and parts > 1 and abs(share * parts - 1) <= _NEAR:
        return f"at {_FRACTIONS[parts]} {figure.possessive}"
    if share < 0.1:
        return f"at 1/{parts:,} {figure.possessive}"
    return f"at {share:.0%} {figure.possessive}"


def _overlap(results: BakeoffResults, figure: _Figure, name: str, best: str) -> bool:
    """Return whether the intervals of what two rankers take have a part in common."""
    one, two = (results.cost_means[ranker, figure.name] for ranker in (name, best))
    return bool(one["high"] >= two["low"] and two["high"] >= one["low"])


def _are_alone(results: BakeoffResults) -> bool:
    """Return whether the times of all rankers are of one query at a time."""
    alone = {row["run"] for row in results.costs if row["is_alone"] and row["queries"]}
    return alone == {row["run"] for row in results.costs}


def _figures(results: BakeoffResults, figure: _Figure) -> tuple[Floats, Floats, list[Any]]:
    """Return the quality and the cost of each ranker, and the rows of the cost."""
    means = results.means[results.leading]
    rows = [results.cost_means.get((name, figure.name), {}) for name in results.rankers]
    quality = np.array([means[name]["mean"] for name in results.rankers], dtype=float)
    return quality, spans(rows, MEAN)[0], rows


def _draw(results: BakeoffResults, figure: _Figure) -> Any:
    """Draw quality against a figure; None with fewer than two rankers that have one."""
    quality, cost, rows = _figures(results, figure)
    shown = np.flatnonzero(~(np.isnan(quality) | np.isnan(cost)))
    if len(shown) < 2 or not cost[shown].any():
        return None
    front = pareto_front(quality, cost)
    means = results.means[results.leading]
    names = [results.rankers[i] for i in shown]
    return scatter(
        names,
        Axis(figure.title, *spans([rows[i] for i in shown], MEAN), _FORMS[figure.name]),
        Axis(results.leading, *spans([means[name] for name in names], MEAN), ".3f"),
        hollow={place for place, i in enumerate(shown.tolist()) if i not in front},
    )


def _table(results: BakeoffResults) -> ReportTable:
    rows = {name: _rows_of(results.costs, name) for name in results.rankers}
    has_loads = any(row["load_seconds"] for row in results.costs)
    has_devices = any(row["device"] or row["block_size"] for row in results.costs)
    cells: list[Cells] = [
        [
            TextCell(name),
            *(
                _estimate(results, name, figure) if of_ranker else format_number(None)
                for figure in _FORMS
            ),
            TextCell(describe_timing(of_ranker[-1]) if of_ranker else "not timed here"),
            *([format_number(_load(of_ranker), ".3g")] if has_loads else []),
            *([TextCell(_describe_device(of_ranker))] if has_devices else []),
        ]
        for name, of_ranker in rows.items()
    ]
    numbers = ["seconds p50", "p95", "documents a second", "$ for 1,000 queries"]
    loads, devices = ["loading, s"] if has_loads else [], ["computed on"] if has_devices else []
    return ReportTable(
        ["ranker", *numbers, "measured", *loads, *devices],
        cells,
        _caption(results),
        frozenset([*numbers, *loads]),
        file="costs.parquet",
    )


def _rows_of(rows: Sequence[Mapping[str, Any]], name: str) -> list[Mapping[str, Any]]:
    """Return the rows of a ranker; of times taken one query at a time the row is the last."""
    return sorted((row for row in rows if row["run"] == name), key=lambda row: row["is_alone"])


def _estimate(results: BakeoffResults, name: str, figure: str) -> Quantity:
    row = results.cost_means.get((name, figure))
    if row is None:
        return format_number(None)
    if figure == _MONEY.name and row["mean"] == 0:
        return Quantity("free", 0.0)
    return format_estimate(row["mean"], row["low"], row["high"], _FORMS[figure])


def describe_timing(row: Mapping[str, Any]) -> str:
    """Say how the times of a ranker were taken; never that those under load are of one query."""
    queries = counted(row["queries"], "query", "queries")
    if not row["queries"]:
        return "time unknown"
    if row["is_alone"]:
        return f"one query at a time, {queries}"
    flying = row["in_flight"]
    together = f"up to {flying:,} in flight" if flying > 1 else "beside the other rankers"
    return f"under load, {together}, {queries}"


def _load(rows: Sequence[Mapping[str, Any]]) -> float | None:
    return max((row["load_seconds"] for row in rows), default=0.0) or None


def _describe_device(rows: Sequence[Mapping[str, Any]]) -> str:
    device = next((row["device"] for row in rows if row["device"]), "")
    size = next((row["block_size"] for row in rows if row["block_size"]), 0)
    return ", ".join(filter(None, (device, f"{size:,} documents at once" if size else "")))


def _caption(results: BakeoffResults) -> str:
    text = (
        "Times are of a query's calls alone, without waiting for limits, for failed tries and for "
        "models that load; documents a second are those of one query after another. The dollars "
        "are those of the calls: no machine of yours is counted."
    )
    if not any(row["is_alone"] for row in results.costs):
        text += (
            " All queries were in flight together, so these times say nothing of one query alone: "
            "--latency-queries N asks N of them again, one at a time."
        )
    elif paid := sum(row.get("latency_dollars") or 0.0 for row in results.summary["rankers"]):
        text += f" To ask queries again, one at a time, cost ${paid:,.4f} in all."
    return text
