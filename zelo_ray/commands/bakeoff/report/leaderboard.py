"""Show which ranker leads a bake-off, which differences are significant, and what is missing."""

from collections.abc import Iterator, Mapping, Sequence
from itertools import chain
from typing import Any

import numpy as np

from zelo_ray.commands.bakeoff.report.results import (
    MEAN,
    BakeoffResults,
    closest_first,
)
from zelo_ray.commands.bakeoff.significance import (
    ALPHA,
    Significance,
    count_tested,
    significance_of,
    swap_rankers,
)
from zelo_ray.evaluation.measures import describe_measures
from zelo_ray.evaluation.significance import FEWEST, TEST, TIE
from zelo_ray.files.wording import counted
from zelo_ray.records import Comparison
from zelo_ray.reports.charts.figures import intervals, spans
from zelo_ray.reports.charts.grids import matrix
from zelo_ray.reports.charts.labels import label
from zelo_ray.reports.parts import (
    Cells,
    Chart,
    Figure,
    ReportTable,
    Section,
    Sentences,
    TextCell,
)
from zelo_ray.reports.wording import (
    Quantity,
    format_cost,
    format_estimate,
    format_number,
    format_probability,
    short,
)

_ROWS, _OPEN = 1000, 30
"""How many comparisons the table shows, and how many of them at once."""
_NAMED = 5
_PHRASES = {
    Significance.BELOW: "has the higher mean, but is below {}",
    Significance.NOT_SIGNIFICANT: "does not differ significantly from {}",
    Significance.LABELS_COULD_TURN_IT: (
        "differs from {}, but other answers of the judges could turn that"
    ),
    Significance.ONLY_BY_OWN_FAMILY: "differs from {}, but only by judges of a ranker's family",
    Significance.TOO_FEW_QUERIES: "cannot be compared with {}",
    Significance.TOO_FEW_LABELS: "cannot be compared with {} by so few labels",
    Significance.ABOVE: "is above {}",
}
"""How the leader compares with some others, in order of importance."""
_KINDS = {
    "scores": "real-valued scores",
    "grades": "grades",
    "whole": "whole grades",
    "fractional": "grades with fractions, such as means",
    "binary": "binary labels",
}


_COSTS = {
    "seconds_p50": "seconds p50",
    "seconds_p95": "p95",
    "usd_per_1000": "$ for 1,000 queries",
}
"""By a figure of what queries take, its column."""


def significance_text(comparison: Comparison) -> str:
    """Return the significance of a comparison for a cell of a table."""
    match significance_of(comparison):
        case Significance.ABOVE | Significance.BELOW:
            return "significant"
        case Significance.NOT_SIGNIFICANT:
            return "not significant"
        case Significance.LABELS_COULD_TURN_IT:
            return "significant, but other answers of the judges could turn it"
        case Significance.ONLY_BY_OWN_FAMILY:
            return f"only by judges of {comparison.kin}"
        case Significance.TOO_FEW_QUERIES:
            return "too few queries"
        case Significance.TOO_FEW_LABELS:
            return "too few labels"


def lead_sentence(results: BakeoffResults) -> str:
    """Say which ranker leads, and from which others it differs significantly."""
    leading, rankers = results.leading, results.rankers
    if not rankers:
        return "No ranker has a result."
    best, means = rankers[0], results.means[leading]
    if len(rankers) == 1:
        return f"{best} is the only ranker, so there is nothing to compare."
    first = [name for name in rankers if abs(means[best]["mean"] - means[name]["mean"]) <= TIE]
    share = f"{join_names(first)} share the highest {leading}." if len(first) > 1 else ""
    text = share or f"{best} has the highest {leading}."
    rivals = [rival for rival in results.rivals(leading, best) if rival.run_b not in first]
    if rivals and all(significance_of(rival) is Significance.TOO_FEW_QUERIES for rival in rivals):
        queries = counted(max(rival.queries for rival in rivals), "query", "queries")
        return f"{text} A comparison takes {FEWEST} queries that both ranked; here are {queries}."
    return f"{text} {compare_with_others(best if share else 'It', rivals, results)}".strip()


def compare_with_others(leader: str, rivals: Sequence[Comparison], results: BakeoffResults) -> str:
    """Say of the leader, who is A, how it compares with all others; empty if there are none."""
    phrases = []
    for significance, phrase in _PHRASES.items():
        alike = [
            rival.run_b + results.describe_common_queries(rival)
            for rival in rivals
            if significance_of(rival) is significance
        ]
        if alike:
            everyone = len(alike) == len(rivals) > _NAMED
            names = f"all {len(alike)} others" if everyone else join_names(alike)
            phrases.append(phrase.format(names))
    return f"{leader} {'; it '.join(phrases)}." if phrases else ""


def join_names(names: Sequence[str]) -> str:
    """Join names in a sentence; of many, the first ones and the number of the others."""
    shown = [*names[:_NAMED], *([f"{len(names) - _NAMED} more"] if len(names) > _NAMED else [])]
    return " and ".join(filter(None, (", ".join(shown[:-1]), shown[-1])))


def leaderboard_section(results: BakeoffResults) -> Section | None:
    """Show the means of rankers with intervals, and what each ranked and cost."""
    rankers, about = results.rankers, results.summary["rankers"]
    if not rankers:
        return None
    figures = {
        measure: intervals(rankers, {"": spans([rows[name] for name in rankers], MEAN)}, measure)
        for measure, rows in results.means.items()
    }
    chart = Chart(
        figures,
        f"Each ranker's mean over queries, with its interval, in the order of {results.leading}."
        + (
            " Two intervals may well overlap and the difference be significant: see below."
            if results.comparisons
            else ""
        ),
        "measure",
    )
    has_gaps = any(ranker["missing"] for ranker in about)
    has_costs = any(ranker["dollars"] or ranker["unpriced"] for ranker in about)
    of_queries = _COSTS if results.costs else {}
    place = {name: i for i, name in enumerate(rankers)}
    cells: list[Cells] = [
        [
            TextCell(ranker["name"]),
            *(_mean(results, measure, ranker["name"]) for measure in results.means),
            *([f"{ranker['answered']:,} of {results.queries:,}"] if has_gaps else []),
            *([format_cost(ranker["dollars"], ranker["unpriced"])] if has_costs else []),
            *(_cost(results, figure, ranker["name"]) for figure in of_queries),
        ]
        for ranker in sorted(about, key=lambda ranker: place.get(ranker["name"], len(place)))
    ]
    gaps, costs = (["ranked"] if has_gaps else []), (["spent"] if has_costs else [])
    numbers = [*results.means, *gaps, *costs, *of_queries.values()]
    draws, truth = results.summary["label_draws"], results.summary["truth"]
    kind = truth["kind"]
    if kind == "grades" and "fractional" in truth:  # records of 0.1 do not say it
        kind = "fractional" if truth["fractional"] else "whole"
    errors = f"drawn {draws:,} times for their errors" if draws else "taken as they are"
    caption = (
        f"Means over {counted(results.queries, 'query', 'queries')} with "
        f"{results.run['options']['confidence']:.0%} intervals. A query that a ranker did not rank "
        "counts as 0, a document that nobody judged as not relevant. The truth consists of "
        f"{_KINDS.get(kind, kind)}, {errors}."
    )
    if of_queries:
        caption += (
            " Seconds are of a query's calls, while other queries are in flight, without waiting "
            "for limits, failed tries and models that load; dollars are those of the calls."
        )
    caption = f"{caption} {describe_measures(results.means)}".rstrip()
    table = ReportTable(
        ["ranker", *numbers], cells, caption, frozenset(numbers), file="means.parquet"
    )
    title = "Leaderboard by the panel alone" if results.people.get("way") else "Leaderboard"
    return Section("leaderboard", title, (chart, *_share_of_pairs(results), table))


def _share_of_pairs(results: BakeoffResults) -> Iterator[Sentences]:
    """Say how many of the pairs of documents the leader orders as the truth does."""
    best = results.rankers[0]
    row = results.means.get("Pairs", {}).get(best)
    if row and not np.isnan(row["mean"]):  # else all documents of a query are equal
        share = format_estimate(row["mean"], row["low"], row["high"], ".0%")
        whom = "the panel" if results.families.get("judges") else "the truth"
        yield Sentences([f"{best} orders {share} of the pairs of documents as {whom} does."])


def _mean(results: BakeoffResults, measure: str, ranker: str) -> Quantity:
    row = results.means[measure].get(ranker)
    if row is None:
        return format_number(None)
    mean = format_estimate(row["mean"], row["low"], row["high"])
    if row["queries"] >= results.queries or np.isnan(mean.value):
        return mean
    text = f"{mean} over {row['queries']:,}"
    return Quantity(text, mean.value, (mean.low, mean.high), mean.without_interval)


def _cost(results: BakeoffResults, figure: str, ranker: str) -> Quantity:
    row = results.costs.get((ranker, figure))
    if row is None:
        return format_number(None)
    if figure == "usd_per_1000" and row["mean"] == 0:
        return Quantity("free", 0.0)
    return format_estimate(row["mean"], row["low"], row["high"], ",.3g")


def differences_section(results: BakeoffResults) -> Section | None:
    """Show which differences between rankers are significant."""
    if not (results.comparisons and results.rankers):
        return None
    forests = {measure: _forest(results, measure) for measure in results.comparisons}
    chances = {
        measure: _chances(results.rankers, rows)
        for measure, rows in results.comparisons.items()
        if not all(np.isnan(row.p_better) for row in rows)
    }
    charts = [
        Chart(
            forests,
            "By how much the ranker with the highest mean is above each other one, on the queries "
            "that both ranked. The intervals are of each pair by itself; a point is filled where "
            "the difference is significant after correction for all comparisons, and a ring where "
            "not.",
            "measure",
        ),
        Chart(
            chances,
            "P(the row's ranker beats the column's): the chance that its mean over all queries of "
            "this kind is the higher one, by Student's t over these queries.",
            "measure",
        ),
    ]
    shown = [chart for chart in charts if chart.figures]
    title = "Differences by the panel alone" if results.people.get("way") else "Differences"
    return Section("differences", title, [*shown, _comparisons_table(results)])


def _forest(results: BakeoffResults, measure: str) -> Figure:
    best = results.best(measure)
    rows = closest_first(best, results.comparisons[measure])
    ends = ([getattr(row, end) for row in rows] for end in ("difference", "low", "high"))
    difference, low, high = (np.array(end, dtype=float) for end in ends)
    return intervals(
        [row.run_b for row in rows],
        {"": (difference, low, high)},
        f"{label(best, 16)} minus the other",
        0.0,
        notes=[results.describe_common_queries(row) for row in rows],
        hollow={i for i, row in enumerate(rows) if not significance_of(row).is_significant},
    )


def _chances(rankers: Sequence[str], rows: Sequence[Comparison]) -> Figure:
    place = {ranker: i for i, ranker in enumerate(rankers)}
    values = np.full((len(rankers), len(rankers)), np.nan)
    hover = [[""] * len(rankers) for _ in rankers]
    for pair in (side for row in rows for side in (row, swap_rankers(row))):
        i, j = place[pair.run_a], place[pair.run_b]
        values[i, j] = pair.p_better
        hover[i][j] = (
            f"{pair.run_a} minus {pair.run_b}: "
            f"{format_estimate(pair.difference, pair.low, pair.high, '+.4f')}, p {pair.p:.3g}, "
            f"{pair.p_holm:.3g} after Holm"
        )
    return matrix(rankers, values, hover, 0.5)


def _comparisons_table(results: BakeoffResults) -> ReportTable:
    leading, rows = next(iter(results.comparisons.items()))
    place = {ranker: i for i, ranker in enumerate(results.rankers)}
    shown = sorted(rows, key=lambda row: sorted((place[row.run_a], place[row.run_b])))
    draws, has_gaps = (
        results.summary["label_draws"],
        any(map(results.describe_common_queries, shown)),
    )
    cells: list[Cells] = [
        [
            TextCell(row.run_a),
            TextCell(row.run_b),
            significance_text(row),
            format_estimate(row.difference, row.low, row.high, "+z.3f"),
            format_number(row.p_holm, ".3g"),
            format_probability(row.p_better),
            *([format_number(row.p_labels, ".0%")] if draws else []),
            f"{row.wins:,} / {row.ties:,} / {row.losses:,}",
            *([f"{row.queries:,}"] if has_gaps else []),
        ]
        for row in shown[:_ROWS]
    ]
    in_draws = ["A above in draws"] if draws else []
    numbers = ["A minus B", "p (Holm)", "P(A beats B)", *in_draws]
    numbers += ["wins / ties / losses", *(["queries"] if has_gaps else [])]
    significant = sum(significance_of(row).is_significant for row in rows)
    tested = count_tested(chain.from_iterable(results.comparisons.values()))
    equal = ""
    if results.equal_measures:
        names = join_names(results.equal_measures)
        equal = f" By {names} all rankers are equal on every query; that is no comparison."
    caption = (
        f"{leading}: {significant:,} of {counted(len(rows), 'difference')} "
        f"{'is' if 1 in (significant, len(rows)) else 'are'} significant ({TEST}, p < {ALPHA} "
        f"after Holm's correction for "
        f"{counted(tested, 'comparison')} by all measures; an interval is of one difference by "
        f"itself).{equal} comparisons.parquet has all measures."
    )
    columns = ["A", "B", "significance", *numbers]
    return ReportTable(
        columns,
        cells,
        caption,
        frozenset(numbers),
        _OPEN,
        file="comparisons.parquet",
        total=len(rows),
    )


def failures_section(results: BakeoffResults) -> Section | None:
    """Count the queries that a ranker did not rank, by reason."""
    rows: list[Mapping[str, Any]] = []
    if results.source.has("failures.parquet"):
        failures = results.source.table("failures").group_by(["run", "status", "reason"])
        rows = failures.aggregate([([], "count_all")]).to_pylist()
        rows.sort(key=lambda row: (row["run"], -row["count_all"], row["reason"]))
    cells = [*_notes(results, {row["run"] for row in rows})]
    cells += [
        [
            TextCell(row["run"]),
            f"{row['count_all']:,}",
            TextCell(f"{row['status']}: {short(row['reason'], 200)}"),
        ]
        for row in rows
    ]
    caption = (
        "They count as 0 in the means of a ranker; two rankers are compared on the queries that "
        "both ranked. A ranker that ranked none takes no part."
    )
    columns, numbers = ("ranker", "queries", "why"), frozenset({"queries"})
    table = ReportTable(columns, cells, caption, numbers, _OPEN, file="failures.parquet")
    return Section("failures", "Queries that were not ranked", (table,)) if cells else None


def _notes(results: BakeoffResults, counted_rankers: set[str]) -> Iterator[Cells]:
    for ranker in results.summary["rankers"]:
        if ranker["note"] and ranker["name"] not in counted_rankers:
            note = short(ranker["note"], 300)
            yield [TextCell(ranker["name"]), f"{ranker['missing']:,}", TextCell(note)]
