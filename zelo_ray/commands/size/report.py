"""Report the cost of plans of calls, and their errors."""

from collections.abc import Sequence
from math import isnan

from zelo_ray.commands.size import Sized
from zelo_ray.fitting.sizing.plans import PlanSize
from zelo_ray.reports.charts.figures import PALETTE
from zelo_ray.reports.parts import Cells, Chart, Figure, Report, ReportTable, Section
from zelo_ray.reports.wording import escape_markup, format_number

_FIGURES = {
    "std_error": "std_error, in logits",
    "distance from all pairs": "root mean square distance, in logits",
    "Kendall's tau with all pairs": "Kendall's tau",
    "loss of nDCG@10": "1 - nDCG@10",
}
_KINDS = {"zelo, all judges vote": "all", "zelo, judges in turn": "one", "lean": "lean"}


def build_report(sized: Sized) -> Report:
    """Build the report of `size`."""
    priced = not isnan(sized.dollars_a_call)
    tiles = [("documents a query", f"{sized.documents:,}"), ("queries", f"{sized.queries:,}")]
    if priced:
        tiles.append(("dollars a call", f"{sized.dollars_a_call:.5f}"))
    return Report(
        title="Cost and precision of plans",
        tiles=tiles,
        lead=[sized.answer] if sized.answer else [],
        sections=[
            Section("plans", "Plans", [_table(sized, priced=priced)]),
            Section("figures", "Error and distance", [_chart(sized)]),
        ],
        notes=list(sized.notes),
        record={"answer": sized.answer, "notes": list(sized.notes)},
    )


def _chart(sized: Sized) -> Chart:
    values = ("std_error", "rmse", "tau", "loss")
    figures = {
        name: _figure(sized.sizes, value, title)
        for (name, title), value in zip(_FIGURES.items(), values, strict=True)
    }
    return Chart(figures, "Each point is a plan, by the calls that a document takes.", "figure")


def _figure(sizes: Sequence[PlanSize], value: str, title: str) -> Figure:
    data = []
    for place, (name, kind) in enumerate(_KINDS.items()):
        points = [size for size in sizes if _kind(size) == kind]
        data.append(
            {
                "type": "scatter",
                "mode": "lines+markers",
                "name": name,
                "x": [size.calls_a_document for size in points],
                "y": [getattr(size, value) for size in points],
                "text": [escape_markup(size.plan) for size in points],
                "marker": {"color": PALETTE[place], "size": 8},
                "line": {"color": PALETTE[place], "width": 1.5},
                "hovertemplate": "%{text}<br>%{y:.3f} at %{x:.1f} calls a document",
            }
        )
    return {
        "data": data,
        "layout": {
            "height": 420,
            "showlegend": True,
            "xaxis": {"title": {"text": "calls a document"}, "type": "log"},
            "yaxis": {"title": {"text": title}, "zeroline": False},
        },
    }


def _kind(size: PlanSize) -> str:
    if size.plan.startswith("lean"):
        return "lean"
    return "all" if size.plan.endswith("all") else "one"


def _table(sized: Sized, *, priced: bool) -> ReportTable:
    columns = ["plan", "calls a document", "calls", *(["dollars"] if priced else [])]
    columns += ["loss", "std_error", "distance", "largest", "tau"]
    rows: list[Cells] = [
        [
            size.plan,
            format_number(size.calls_a_document, ".1f"),
            format_number(size.calls * sized.queries, ",.0f"),
            *([format_number(sized.dollars(size), ",.2f")] if priced else []),
            format_number(size.loss),
            *(
                format_number(value, ".2f")
                for value in (size.std_error, size.rmse, size.largest, size.tau)
            ),
        ]
        for size in sized.sizes
    ]
    return ReportTable(columns, rows, numbers=frozenset(columns[1:]), file="size.parquet")
