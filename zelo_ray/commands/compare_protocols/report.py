"""The page of ``protocols``: which way of judging agrees most with people, and for how much."""

from collections.abc import Mapping
from functools import cached_property
from math import isnan
from typing import Any

from zelo_ray.commands.compare_protocols import Bill, told_apart
from zelo_ray.commands.compare_protocols.outcome import Cost
from zelo_ray.commands.compare_protocols.warnings import rank_of_protocols
from zelo_ray.evaluation.agreement.differences import Difference
from zelo_ray.evaluation.agreement.pairs import A_OR_NOT, DECIDED, WITH_TIES
from zelo_ray.formats.record import PROTOCOLS
from zelo_ray.formats.wording import counted
from zelo_ray.report.charts.figures import intervals, spans
from zelo_ray.report.charts.spread import Axis, spread
from zelo_ray.report.kind import ReportKind
from zelo_ray.report.parts import Cells, Chart, Report, Section, Table, Text
from zelo_ray.report.source import Source, bare
from zelo_ray.report.wording import estimate, number, short

Row = Mapping[str, Any]
_LEADING = (WITH_TIES, "agreement")
_SCALES = {WITH_TIES: "with ties", A_OR_NOT: "A is better", DECIDED: "both decided"}


class Trials:
    """Tables of a comparison of protocols, each read once."""

    def __init__(self, source: Source, record: Mapping[str, Any]) -> None:
        self.source, self.record = source, record
        self.unit: str = record["unit"]

    @cached_property
    def rows(self) -> list[Row]:
        """Return one row per protocol, the closest to people first."""
        rows: list[Row] = self.source.table("trials").to_pylist()
        return rows

    @cached_property
    def differences(self) -> list[Row]:
        """Return one row per pair of protocols, scale and coefficient."""
        rows: list[Row] = self.source.table("differences").to_pylist()
        return rows

    @property
    def names(self) -> list[str]:
        """Return the protocols, the closest to people first."""
        return [row["protocol"] for row in self.rows]


def build_report(source: Source, record: Mapping[str, Any]) -> Report:
    """Build the report of `compare-protocols`."""
    trials = Trials(source, record)
    items = counted(record["items"], "item")
    return Report(
        title=f"{counted(len(trials.rows), 'protocol')} on {items} that people judged",
        tiles=tiles(trials),
        lead=[text for text in (_outcome(trials), _reading(trials)) if text],
        sections=(),
        make_details=lambda: [make(trials) for make in SECTIONS],
        find_warnings=lambda: rank_of_protocols(record, trials.rows, _alike(trials)),
        notes=record["notes"],
        made=_made(record),
    )


def tiles(trials: Trials) -> list[tuple[str, str]]:
    """Return the figures at the top of the page, the most telling first."""
    record, best = trials.record, trials.rows[0]
    paid = Bill(**record["paid"])
    shown = [
        (f"agreement of {short(best['protocol'], 40)}", _estimate(best, "agreement")),
        ("queries", f"{record['queries']:,}"),
        ("items", f"{record['items']:,}"),
        ("calls paid in all", f"{paid.calls:,}"),
    ]
    if paid.dollars or paid.unpriced:
        shown.append(("paid in all", paid.told))
    return shown


def _outcome(trials: Trials) -> str:
    """Say which protocol is closest to people, and which gives a correct verdict for least."""
    best, unit = trials.rows[0], trials.unit
    if isnan(best["agreement"]):
        return "No protocol gave a word on any item."
    alike = _alike(trials)
    suffix = f", not significantly different from {', '.join(alike)}" if alike else ""
    sentence = (
        f"Closest to people is {best['protocol']}{suffix}: it says the same on "
        f"{best['correct']:,} of {best['judged']:,} items, {_estimate(best, 'agreement')}."
    )
    column = f"{unit}_per_correct"
    priced_rows = [row for row in trials.rows if not isnan(row[column])]
    if len(priced_rows) > 1:
        cheapest = min(priced_rows, key=lambda row: row[column])
        sentence += (
            f" A correct verdict costs least by {cheapest['protocol']}: {_cost(cheapest, unit)}."
        )
    return sentence


def _alike(trials: Trials) -> list[str]:
    """Return the protocols that may agree with people as well as the first one."""
    groups = told_apart(Difference(**row) for row in trials.differences if row["items"])
    first = trials.names[0]
    others = {row.rater_b for row in groups.sure if row.rater_a == first}
    pairs = [{row.rater_a, row.rater_b} for part in (groups.alike, groups.unknown) for row in part]
    pairs += [{row.rater_a, row.rater_b} for row in groups.sure if row.rater_b == first]
    return [name for name in trials.names[1:] if name not in others and {first, name} in pairs]


def _reading(trials: Trials) -> str:
    people = trials.record["people"]
    source = "most of whose votes" if people["kind"] == "votes" else "whose grades"
    text = (
        f"An item is a pair of documents of which people, {source} count, say which is better. A "
        "protocol's word is which of the two it scores higher; items without one are neither right "
        "nor wrong. Intervals are 95%, over samples of queries."
    )
    if trials.record["options"]["max_usd"]:
        text += (
            f" Each protocol had a budget of ${trials.record['options']['max_usd']:g}; a reply "
            "that several use was paid once, and counts for each."
        )
    return text


def cost_section(trials: Trials) -> Section | None:
    """Show agreement against cost, and the figures."""
    rows = [row for row in trials.rows if not (isnan(row["agreement"]) or isnan(row[trials.unit]))]
    parts: list[Chart | Table] = []
    if rows:
        figure = spread(
            [row["protocol"] for row in rows],
            _axis(rows, trials.unit, f"{trials.unit} in all", ",.4g"),
            _axis(rows, "agreement", "agreement with people", ".3f"),
        )
        parts.append(
            Chart(
                {"": figure},
                "Up: more often right; left: cheaper. Lines are 95% intervals of both. Where costs "
                "span much, their axis is logarithmic.",
            )
        )
    per = f"{trials.unit} / right"
    columns = (
        *("protocol", "judged", "right", "agreement", "decided only", "alpha", "MCC"),
        *("calls", "dollars", per),
    )
    cells: list[Cells] = [
        [
            Text(row["protocol"]),
            f"{row['judged']:,} of {row['items']:,}",
            f"{row['correct']:,}",
            _estimate(row, "agreement"),
            *(number(row[name]) for name in ("agreement_decided", "alpha", "mcc")),
            f"{row['calls']:,.0f}",
            Bill(0, row["dollars_known"], row["unpriced"]).told,
            _cost(row, trials.unit),
        ]
        for row in trials.rows
    ]
    caption = (
        "Agreement: share of the judged items on which protocol and people say the same. Alpha is "
        "Krippendorff's, of three words; MCC is of A being better. Below stand those that judged "
        "fewer than nine tenths of the items. trials.parquet has all."
    )
    parts.append(Table(columns, cells, caption, frozenset(columns[1:])))
    return Section("protocols", "Agreement and cost", parts)


def differences_section(trials: Trials) -> Section | None:
    """Compare every two protocols on the items that both judged."""
    rows = [row for row in trials.differences if row["items"]]
    if not rows:
        return None
    kinds = [*dict.fromkeys((row["scale"], row["coefficient"]) for row in rows)]
    figures = {}
    for scale, coefficient in kinds:
        group = [
            row
            for row in rows
            if (row["scale"], row["coefficient"]) == (scale, coefficient)
            and not isnan(row["difference"])
        ]
        if group:
            figures[f"{coefficient}, {_SCALES[scale]}"] = intervals(
                [f"{row['rater_a']} against {row['rater_b']}" for row in group],
                {"": spans(group, ("difference", "low", "high"))},
                "difference",
                line_at=0.0,
            )
    chart = Chart(
        figures,
        "By how much the first of two protocols agrees more with people than the second, on the "
        "items that both judged. An interval that does not reach 0 is a significant difference if "
        "you look at these two only; of many pairs one may look so by chance.",
        "measure",
    )
    columns = ("first", "second", "its agreement", "of the second", "difference", "items")
    cells: list[Cells] = [
        [
            *(Text(row["rater_a"]), Text(row["rater_b"])),
            *(number(row["value_a"]), number(row["value_b"])),
            estimate(row["difference"], row["low"], row["high"], "+.3f"),
            f"{row['items']:,}",
        ]
        for row in rows
        if (row["scale"], row["coefficient"]) == _LEADING
    ]
    caption = "Agreement with ties; differences.parquet has all."
    table = Table(columns, cells, caption, frozenset(columns[2:]), 12)
    return Section("differences", "Every two protocols", (chart, table) if figures else (table,))


SECTIONS = (cost_section, differences_section)


def _axis(rows: list[Row], name: str, title: str, form: str) -> Axis:
    return Axis(title, *spans(rows, (name, f"{name}_low", f"{name}_high")), form)


def _estimate(row: Row, name: str, form: str = ".3f") -> str:
    return estimate(row[name], row[f"{name}_low"], row[f"{name}_high"], form)


def _cost(row: Row, unit: str) -> str:
    name = f"{unit}_per_correct"
    if isnan(row[name]):
        return "?"
    figure = _estimate(row, name, ".3g")
    return f"${figure}" if unit == "dollars" else f"{figure} calls"


def _made(record: Mapping[str, Any]) -> str:
    options = record["options"]
    return (
        f"zelo-ray {record['versions']['zelo-ray']} protocols: people {bare(options['human'])}, "
        f"seed {options['seed']}, {options['resamples']:,} resamples of queries."
    )


COMPARE_PROTOCOLS_REPORT = ReportKind(
    PROTOCOLS,
    frozenset({"options", "unit"}),
    {"costs": (Cost,), "differences": (Difference,)},
    build_report,
    lambda source, record: tiles(Trials(source, record))[0],
)
"""How results of `compare-protocols` become a report."""
