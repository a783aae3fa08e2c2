"""The report of ``compare-protocols``: which protocol agrees most with people, at what cost."""

from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from math import isnan
from typing import Any

import numpy as np

from zelo_ray.commands.compare_protocols.outcome import MOST, Cost
from zelo_ray.commands.compare_protocols.significance import (
    PairsBySignificance,
    sort_by_significance,
)
from zelo_ray.engine.bookkeeping import format_dollars
from zelo_ray.evaluation.agreement import Difference
from zelo_ray.evaluation.votes import A_OR_NOT, DECIDED, WITH_TIES
from zelo_ray.files.run_record import PROTOCOLS
from zelo_ray.files.wording import counted
from zelo_ray.reports.charts.figures import intervals, spans
from zelo_ray.reports.charts.scatter import Axis, scatter
from zelo_ray.reports.demonstration import warn_of_demonstration
from zelo_ray.reports.kind import Record, ReportKind
from zelo_ray.reports.parts import Cells, Chart, Report, ReportTable, Section, TextCell
from zelo_ray.reports.source import Source, without_credentials
from zelo_ray.reports.warning import RankedWarnings, ResultWarning, rank_warnings
from zelo_ray.reports.warning_codes import WarningCode
from zelo_ray.reports.wording import Quantity, format_cost, format_estimate, format_number, short

Row = Mapping[str, Any]

_SCALES = {WITH_TIES: "with ties", A_OR_NOT: "A is better", DECIDED: "both decided"}


class ProtocolResults:
    """Tables of a comparison of protocols, each read once."""

    def __init__(self, source: Source, record: Record) -> None:
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

    @cached_property
    def pairs(self) -> PairsBySignificance:
        """Return every two protocols, sorted by whether they differ significantly."""
        return sort_by_significance(Difference(**row) for row in self.differences)

    @property
    def not_different(self) -> list[str]:
        """Return the protocols that do not agree significantly less with people than the first."""
        first, *others = (row["protocol"] for row in self.rows)
        worse = {pair.rater_b for pair in self.pairs.significant if pair.rater_a == first}
        pairs = (*self.pairs.significant, *self.pairs.others, *self.pairs.unknown)
        raters = [{pair.rater_a, pair.rater_b} for pair in pairs if pair.items]
        return [name for name in others if name not in worse and {first, name} in raters]


def build_report(source: Source, record: Record) -> Report:
    """Build the report of `compare-protocols`."""
    results = ProtocolResults(source, record)
    items = counted(record["items"], "item")
    options = record["options"]
    return Report(
        title=f"{counted(len(results.rows), 'protocol')} on {items} that people judged",
        tiles=_tiles(results),
        lead=[_outcome_sentence(results), _explain(record)],
        sections=[make(results) for make in SECTIONS],
        find_warnings=lambda: rank_warnings_of(record, results.rows),
        notes=record["notes"],
        made=(
            f"zelo-ray {record['versions']['zelo-ray']} compare-protocols: people "
            f"{without_credentials(options['human'])}, seed {options['seed']}."
        ),
    )


def _tiles(results: ProtocolResults) -> list[tuple[str, str]]:
    """Return the figures at the top, the most telling first."""
    record, best = results.record, results.rows[0]
    ledger = record["paid"]
    return [
        (f"agreement of {short(best['protocol'], 40)}", _estimate(best, "agreement")),
        ("queries", f"{record['queries']:,}"),
        ("items", f"{record['items']:,}"),
        ("calls paid in all", f"{ledger['calls']:,}"),
        ("paid in all", format_cost(ledger["dollars"], ledger["unpriced"])),
    ]


def _outcome_sentence(results: ProtocolResults) -> str:
    """Say which protocol is closest to people, and which gives a correct verdict for least."""
    best, unit = results.rows[0], results.unit
    if isnan(best["agreement"]):
        return "No protocol judged any item."
    alike = results.not_different
    suffix = f", not significantly different from {', '.join(alike)}" if alike else ""
    sentence = (
        f"Closest to people is {best['protocol']}{suffix}: it is right on {best['correct']:,} of "
        f"{best['judged']:,} items, {_estimate(best, 'agreement')}."
    )
    priced_rows = [row for row in results.rows if not isnan(row[f"{unit}_per_correct"])]
    if len(priced_rows) > 1:
        cheapest = min(priced_rows, key=lambda row: row[f"{unit}_per_correct"])
        cost = _cost(cheapest, unit) + (" calls" if unit == "calls" else "")
        sentence += f" A correct verdict costs least by {cheapest['protocol']}: {cost}."
    return sentence


def _explain(record: Record) -> str:
    text = (
        "Right: the protocol gives a higher score to the document that people prefer. "
        "Intervals are 95%, over samples of queries."
    )
    if budget := record["options"]["max_usd"]:
        text += f" Each protocol had a budget of ${budget:g}."
    return text


def protocols_section(results: ProtocolResults) -> Section:
    """Show agreement against cost, and the figures."""
    unit = results.unit
    columns = (
        "protocol",
        "agreement",
        "judged",
        "calls",
        "dollars",
        "$ / right" if unit == "dollars" else "calls / right",
        "right",
        "decided only",
        "alpha",
        "MCC",
    )
    cells: list[Cells] = [
        [
            TextCell(row["protocol"]),
            _estimate(row, "agreement"),
            f"{row['judged']:,} of {row['items']:,}",
            f"{row['calls']:,.0f}",
            format_cost(row["dollars_known"], row["unpriced"]),
            _cost(row, unit),
            f"{row['correct']:,}",
            *(format_number(row[name], "z.3f") for name in ("agreement_decided", "alpha", "mcc")),
        ]
        for row in results.rows
    ]
    caption = (
        "Agreement: share of the judged items with the same verdict by protocol and people; "
        "decided only: without ties. Alpha is Krippendorff's; MCC is of A being better."
    )
    table = ReportTable(
        columns,
        cells,
        " ".join([caption, *_cost_sentences(results)]),
        frozenset(columns[1:]),
        file="trials.parquet",
    )
    return Section("protocols", "Agreement and cost", (*_cost_charts(results), table))


def _cost_charts(results: ProtocolResults) -> Iterator[Chart]:
    unit = results.unit
    rows = [row for row in results.rows if not (isnan(row["agreement"]) or isnan(row[unit]))]
    if rows:
        figure = scatter(
            [row["protocol"] for row in rows],
            _axis(rows, unit, f"{unit} in all", ",.4g"),
            _axis(rows, "agreement", "agreement with people", ".3f"),
        )
        yield Chart(
            {"": figure},
            "Higher is more often right, further left is cheaper. Lines are 95% intervals of "
            "both. If costs differ much, their axis is logarithmic.",
        )


def _cost_sentences(results: ProtocolResults) -> Iterator[str]:
    """Say why costs are in calls, what protocols share, and which judged too few items."""
    together, ledger = (results.record[name] for name in ("together", "paid"))
    if results.unit == "calls":
        has_unpriced = any(row["unpriced"] for row in results.rows)
        why = "A price is unknown (give it in prices:)" if has_unpriced else "Nothing cost dollars"
        yield f"{why}, so costs are in calls."
    if shared := round(sum(row["calls"] for row in results.rows)) - together["calls"]:
        yield (
            f"Paid for these protocols: {_bill(together)}. The table counts {shared:,} more, for "
            "replies that several protocols use."
        )
    if ledger["calls"] > together["calls"]:
        yield (f"The whole ledger: {_bill(ledger)}, including other protocols, options or input.")
    if partial := [row["protocol"] for row in results.rows if _is_partial(row)]:
        yield (
            "Ranked last, as they judged fewer than nine tenths of the items: "
            f"{', '.join(partial)}."
        )


def _bill(bill: Mapping[str, Any]) -> str:
    return f"{counted(bill['calls'], 'call')}, {format_cost(bill['dollars'], bill['unpriced'])}"


def _is_partial(row: Row) -> bool:
    return bool(row["judged"] < MOST * row["items"])


def differences_section(results: ProtocolResults) -> Section | None:
    """Compare every two protocols on the items that both judged."""
    groups = results.pairs
    labels = {"yes": groups.significant, "no": groups.others, "too few queries": groups.unknown}
    cells: list[Cells] = [
        [
            TextCell(pair.rater_a),
            TextCell(pair.rater_b),
            format_estimate(pair.difference, pair.low, pair.high, "+z.3f"),
            label,
            format_number(pair.value_a),
            format_number(pair.value_b),
            f"{pair.items:,}",
        ]
        for label, pairs in labels.items()
        for pair in pairs
    ]
    if not cells:
        return None
    tested = len(groups.significant) + len(groups.others)
    caption = (
        "By how much the first agrees more with people than the second, on the items that both "
        "judged; first's and second's: their agreement. "
        f"{len(groups.significant):,} of {counted(tested, 'pair differs', 'pairs differ')} "
        "significantly"
        + (f", with intervals widened for {tested:,} pairs (Bonferroni)." if tested > 1 else ".")
    )
    table = ReportTable(
        ("first", "second", "difference", "significant", "first's", "second's", "items"),
        cells,
        caption,
        frozenset({"difference", "first's", "second's", "items"}),
        12,
        file="differences.parquet",
    )
    return Section("differences", "Every two protocols", (*_difference_charts(results), table))


def _difference_charts(results: ProtocolResults) -> Iterator[Chart]:
    rows = [row for row in results.differences if not isnan(row["difference"])]
    groups: dict[str, list[Row]] = {}
    for row in rows:
        groups.setdefault(f"{row['coefficient']}, {_SCALES[row['scale']]}", []).append(row)
    figures = {
        name: intervals(
            [f"{row['rater_a']} against {row['rater_b']}" for row in group],
            {"": spans(group, ("difference", "low", "high"))},
            "difference",
            line_at=0.0,
        )
        for name, group in groups.items()
    }
    if figures:
        yield Chart(
            figures,
            "By how much the first of two protocols agrees more with people than the second, on "
            "the items that both judged. An interval without 0 is a significant difference if "
            "you look at these two only; of many pairs some look so by chance.",
            "measure",
        )


def _axis(rows: list[Row], name: str, title: str, form: str) -> Axis:
    return Axis(title, *spans(rows, (name, f"{name}_low", f"{name}_high")), form)


def _estimate(row: Row, name: str) -> Quantity:
    return format_estimate(row[name], row[f"{name}_low"], row[f"{name}_high"])


def _cost(row: Row, unit: str) -> Quantity:
    """Format what a correct verdict costs."""
    value, low, high = (row[f"{unit}_per_correct{end}"] for end in ("", "_low", "_high"))
    if isnan(value):
        return Quantity("?", value)
    texts = [_amount(end, unit) for end in (value, low, high)]
    if isnan(low):
        return Quantity(texts[0], value)
    return Quantity(f"{texts[0]} [{texts[1]}, {texts[2]}]", value, (low, high), texts[0])


def _amount(value: float, unit: str) -> str:
    """Format dollars or calls; of small amounts of dollars three digits count."""
    if unit == "dollars" and value < 1:
        return f"${np.format_float_positional(value, 3, fractional=False, trim='-')}"
    return format_dollars(value) if unit == "dollars" else f"{value:,.2f}"


def warn_of_protocols(rows: Sequence[Row]) -> Iterator[ResultWarning]:
    """Yield a warning for each protocol, by its row, that judged some of the items alone."""
    for row in filter(_is_partial, rows):
        values = {name: row[name] for name in ("protocol", "judged")}
        values["items"] = counted(row["items"], "item")
        share = 1 - row["judged"] / max(row["items"], 1)
        yield ResultWarning(WarningCode.FEW_ITEMS_JUDGED, values, share)


def rank_warnings_of(record: Record, rows: Sequence[Row]) -> RankedWarnings:
    """Rank the warnings of ``compare-protocols``; rows as for `warn_of_protocols`."""
    judges = record["options"].get("judges", ())
    return rank_warnings(
        [*warn_of_protocols(rows), *warn_of_demonstration(judges, "protocols", "asked")],
        "items that protocols did not judge were looked at",
    )


SECTIONS = (protocols_section, differences_section)

COMPARE_PROTOCOLS_REPORT = ReportKind(
    PROTOCOLS,
    ("trials.parquet", "differences.parquet", "costs.parquet"),
    frozenset({"options", "unit"}),
    {"costs": (Cost,), "differences": (Difference,)},
    build_report,
    lambda record: bool(record.get("complete")),
)
"""How results of `compare-protocols` become a report."""
