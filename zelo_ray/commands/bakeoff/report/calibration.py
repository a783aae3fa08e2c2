"""Show whether rankers' scores hold as probabilities, and on which pairs rankers agree."""

from collections.abc import Mapping, Sequence
from math import isnan
from typing import Any

from zelo_ray.commands.bakeoff.report.results import BakeoffResults
from zelo_ray.formats.wording import counted
from zelo_ray.reports.charts.figures import PALETTE, joined_points
from zelo_ray.reports.parts import (
    Cells,
    Chart,
    Figure,
    ReportTable,
    Section,
    Sentences,
    TextCell,
)
from zelo_ray.reports.wording import Quantity, format_estimate, format_number

_NAMED = 5


def calibration_section(results: BakeoffResults) -> Section | None:
    """Show how far scores between 0 and 1 hold as probabilities; None where no ranker has such."""
    rows = _by_ranker(results, "calibration")
    shown = [row for row in rows if not isnan(row["ece"])]
    if not shown:
        return None
    cells: list[Cells] = [
        [
            TextCell(row["run"]),
            format_estimate(row["ece"], row["ece_low"], row["ece_high"]),
            format_number(row["ece_by_chance"]),
            format_estimate(row["brier"], row["brier_low"], row["brier_high"]),
            format_number(row["relevant"] * (1 - row["relevant"])),
            f"{row['documents']:,}",
        ]
        for row in shown
    ]
    columns = ("ranker", "ECE", "ECE by chance", "Brier", "Brier of the mean", "documents")
    caption = (
        "Scores between 0 and 1 as probabilities that a document is relevant (from "
        f"{shown[0]['relevant_from']:g}), on judged documents. ECE: by how much scores and the "
        "share of relevant documents differ, in ten bins; up to ECE by chance it is no evidence "
        "against a ranker. Brier: mean squared error; Brier of the mean: that of always saying the "
        "share of relevant documents. Neither says how well a ranker orders documents."
    )
    table = ReportTable(columns, cells, caption, frozenset(columns[1:]), file="calibration.parquet")
    parts: list[Chart | ReportTable | Sentences] = [*_chart(results, shown), table]
    if others := [row for row in rows if isnan(row["ece"])]:
        ranges = [f"{row['run']} ({row['lowest']:.3g} to {row['highest']:.3g})" for row in others]
        more = [f"{len(ranges) - _NAMED:,} more"] if len(ranges) > _NAMED else []
        parts.append(
            Sentences([f"Scores that are no probabilities: {', '.join(ranges[:_NAMED] + more)}."])
        )
    return Section("calibration", "Do scores hold as probabilities?", parts)


def _by_ranker(results: BakeoffResults, name: str) -> list[Mapping[str, Any]]:
    """Return the rows of a file in the order of the leaderboard; none if there is no file."""
    if not results.source.has(f"{name}.parquet"):
        return []
    place = {ranker: i for i, ranker in enumerate(results.rankers)}
    rows = [row for row in results.source.table(name).to_pylist() if row["run"] in place]
    return sorted(rows, key=lambda row: place[row["run"]])


def _chart(results: BakeoffResults, rows: Sequence[Mapping[str, Any]]) -> list[Chart]:
    bins = dict[str, list[Mapping[str, Any]]]()
    for row in _by_ranker(results, "reliability"):
        bins.setdefault(row["run"], []).append(row)
    lines = {row["run"]: bins[row["run"]] for row in rows[: len(PALETTE)] if row["run"] in bins}
    if not lines:
        return []
    caption = (
        "Reliability: the share of relevant documents by score, in ten bins, with intervals. On "
        "the dotted line scores are what they claim; below it they promise too much."
    )
    return [Chart({"": _draw(lines)}, caption)]


def _draw(lines: Mapping[str, Sequence[Mapping[str, Any]]]) -> Figure:
    """Draw the relevant share of each bin against its mean score, one line per ranker."""
    data: list[dict[str, Any]] = [
        {
            "type": "scatter",
            "mode": "lines",
            "name": "score = share",
            "x": [0, 1],
            "y": [0, 1],
            "line": {"color": "--dim", "width": 1, "dash": "dot"},
            "hoverinfo": "skip",
        }
    ]
    data += joined_points(
        {
            name: (
                [row["mean_score"] for row in rows],
                [(row["relevant"], row["low"], row["high"]) for row in rows],
                [
                    f"{row['start']:.1f} to {row['stop']:.1f}: "
                    f"{format_estimate(row['relevant'], row['low'], row['high'])} of "
                    f"{counted(row['documents'], 'document')} relevant"
                    for row in rows
                ],
            )
            for name, rows in lines.items()
        }
    )
    layout = {
        "height": 420,
        "showlegend": True,
        "xaxis": {"title": {"text": "score"}},
        "yaxis": {"title": {"text": "share of relevant documents"}},
    }
    return {"data": data, "layout": layout}


def pairs_section(results: BakeoffResults) -> Section | None:
    """Say on which share of pairs of documents rankers agree with the truth, and with people."""
    rows = _by_ranker(results, "pairs")
    if not rows:
        return None
    panel = "the panel" if results.people or results.families.get("judges") else "the truth"
    by_labels = {
        whom: {row["run"]: row for row in rows if row["labels"] == name}
        for name, whom in (("truth", panel), ("people", "people"))
    }
    by_labels = {whom: shares for whom, shares in by_labels.items() if shares}
    best = rows[0]["run"]
    phrases = [
        f"with {whom} on {_share(shares[best])}"
        for whom, shares in by_labels.items()
        if best in shares
    ]
    sentence = f"{best} agrees {' and '.join(phrases)} of the pairs of documents that it ranks."
    columns, numbers = ["ranker"], list[str]()
    for whom in by_labels:
        numbers += [f"with {whom}", "pairs" if whom == panel else "people's pairs"]
    cells: list[Cells] = [
        [
            TextCell(ranker),
            *(
                cell
                for shares in by_labels.values()
                for cell in (_share(shares.get(ranker)), _count(shares.get(ranker)))
            ),
        ]
        for ranker in dict.fromkeys(row["run"] for row in rows)
    ]
    caption = (
        "Mean share of a query's pairs that a ranker orders as the labels do; equal scores are "
        "half right, and pairs of equal labels do not count."
    )
    table = ReportTable(
        [*columns, *numbers], cells, caption, frozenset(numbers), file="pairs.parquet"
    )
    return Section("pairs", "Agreement on pairs of documents", (Sentences([sentence]), table))


def _share(row: Mapping[str, Any] | None) -> Quantity:
    if row is None:
        return format_number(None)
    return format_estimate(row["mean"], row["low"], row["high"], ".0%")


def _count(row: Mapping[str, Any] | None) -> str:
    return f"{row['pairs']:,}" if row else "0"
