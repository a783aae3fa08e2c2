"""Sections of ``agree`` on judges against people: verdicts on pairs."""

from collections.abc import Iterable, Iterator

import numpy as np

from zelo_ray.commands.agree.report.results import AgreementTables, Row, estimate_of, rows_by
from zelo_ray.evaluation.votes import A_OR_NOT, DECIDED, VOTES, VOTES_DECIDED, WITH_TIES
from zelo_ray.reports.charts.figures import intervals, spans
from zelo_ray.reports.parts import Cells, Chart, Figure, ReportTable, Section, TextCell
from zelo_ray.reports.wording import format_estimate, format_number

SCALE_NAMES = {
    WITH_TIES: "with ties",
    A_OR_NOT: "A is better, or not",
    DECIDED: "both decided",
    VOTES: "votes",
    VOTES_DECIDED: "votes, both decided",
}
"""Names of the scales of verdicts on pairs."""
_LEADING = ("alpha-nominal", "agreement", "kappa", "mcc")
_CHOICE = ("coefficient", "of")
_PAIRS, _ROWS = 60, 12  # limits of tables and charts


def outcomes_section(tables: AgreementTables) -> Section | None:
    """Show how far each judge agrees with people on pairs."""
    outcomes = _by_key(tables.rows("outcomes"))
    judges = best_first(tables)
    if not judges:
        return None
    figures: dict[tuple[str, ...], Figure] = {
        (name, SCALE_NAMES[scale]): intervals(
            judges, {"": spans([outcomes[name, scale][judge] for judge in judges])}, name
        )
        for name, scale in _of_words(outcomes)
    }
    chart = Chart(
        figures,
        "How far each judge agrees with the majority of people on pairs that both judged, with 95% "
        "intervals. A verdict is: A is better, a tie, or B is better.",
        _CHOICE,
    )
    cells: list[Cells] = []
    for scale in (WITH_TIES, DECIDED, VOTES, VOTES_DECIDED):
        for judge in judges:
            same = outcomes["agreement", scale][judge]
            keys = [
                ("alpha-nominal", scale),
                ("mcc", A_OR_NOT if scale == WITH_TIES else scale),
                ("kappa", scale),
            ]
            others = [outcomes[key][judge] if key in outcomes else None for key in keys]
            cells.append(
                [
                    TextCell(judge),
                    SCALE_NAMES[scale],
                    _count(same),
                    *("" if row is None else estimate_of(row) for row in [same, *others]),
                ]
            )
    columns = ("judge", "of", "same verdict", "share", "alpha", "mcc", "kappa")
    caption = (
        "A judge's verdict on a pair is the majority of its votes. Votes: each of the judge's "
        "against each person's. MCC with ties is of the verdict that A is better."
    )
    table = ReportTable(
        columns, cells, caption, frozenset(columns[2:]), 2 * _ROWS, file="outcomes.parquet"
    )
    return Section("outcomes", "Verdicts and people", (chart, table))


def differences_section(tables: AgreementTables) -> Section | None:
    """Show which of two judges agrees more with people."""
    of = {
        pair: {(row["coefficient"], row["scale"]): row for row in group}
        for pair, group in rows_by(tables.rows("differences"), "rater_a", "rater_b").items()
        if any(row["items"] for row in group)
    }
    pairs = [*of][:_PAIRS]
    if not pairs:
        return None
    names = [f"{a} over {b}" for a, b in pairs]
    ends = ("difference", "low", "high")
    figures: dict[tuple[str, ...], Figure] = {
        (name, SCALE_NAMES[scale]): intervals(
            names, {"": spans([of[pair][name, scale] for pair in pairs], ends)}, f"by {name}", 0.0
        )
        for name, scale in _of_words(of[pairs[0]])
    }
    chart = Chart(
        figures,
        "By how much more one judge agrees with people than another, on pairs that both and people "
        "judged, over the same samples of queries. Where the interval is right of 0, the first "
        "agrees significantly more.",
        _CHOICE,
    )
    cells: list[Cells] = []
    for scale in (WITH_TIES, DECIDED):
        for a, b in pairs:
            alpha = of[a, b]["alpha-nominal", scale]
            shown = [
                alpha,
                of[a, b]["agreement", scale],
                of[a, b]["mcc", A_OR_NOT if scale == WITH_TIES else scale],
            ]
            by = [
                format_estimate(row["difference"], row["low"], row["high"], "+z.3f")
                for row in shown
            ]
            by.insert(1, format_number(alpha["relative"], "+z.1f"))
            values = (format_number(alpha[name], "z.3f") for name in ("value_a", "value_b"))
            items = f"{alpha['items']:,}"
            cells.append([TextCell(a), TextCell(b), SCALE_NAMES[scale], *by, items, *values])
    columns = (
        *("judge", "over", "of", "alpha", "in %", "same verdict", "mcc", "pairs"),
        *("alpha of it", "of the other"),
    )
    caption = "Where an interval is above 0, the first agrees significantly more with people."
    table = ReportTable(
        columns, cells, caption, frozenset(columns[3:]), 2 * _ROWS, file="differences.parquet"
    )
    return Section("differences", "Judge against judge", (chart, table))


def describe_closest_judge(tables: AgreementTables) -> Iterator[str]:
    """Say which judge's verdicts agree most with people's."""
    for judge in best_first(tables)[:1]:
        row = _by_key(tables.rows("outcomes"))["alpha-nominal", WITH_TIES][judge]
        yield f"Closest to people's verdicts is {judge}: alpha {estimate_of(row)}."


def best_first(tables: AgreementTables) -> list[str]:
    """Return the judges with pairs that people judged too, best first by alpha."""
    rows = _by_key(tables.rows("outcomes")).get(("alpha-nominal", WITH_TIES), {})
    judged = [row for row in rows.values() if row["items"]]
    judged.sort(key=lambda row: -np.nan_to_num(row["value"], nan=-2.0))
    return [row["rater_b"] for row in judged]


def _by_key(rows: list[Row]) -> dict[tuple[str, ...], dict[str, Row]]:
    """Group rows by coefficient and scale, then by judge."""
    groups = rows_by(rows, "coefficient", "scale")
    return {key: {row["rater_b"]: row for row in group} for key, group in groups.items()}


def _of_words(keys: Iterable[tuple[str, ...]]) -> list[tuple[str, ...]]:
    """Return the coefficients and scales of verdicts, the leading ones first."""
    scales = (WITH_TIES, A_OR_NOT, DECIDED)
    words = [key for key in keys if key[1] in scales]
    return sorted(words, key=lambda key: (_LEADING.index(key[0]), scales.index(key[1])))


def _count(row: Row) -> str:
    if not row["items"]:
        return format_number(None)
    return f"{round(row['value'] * row['items']):,} of {row['items']:,}"
