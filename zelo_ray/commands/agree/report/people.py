"""Sections of ``agree`` on words on pairs: judges beside what most people say."""

from collections.abc import Iterable

import numpy as np

from zelo_ray.commands.agree.report.results import Measured, Row, said
from zelo_ray.formats.interchange.verdicts import HUMAN
from zelo_ray.report.charts.figures import intervals, spans
from zelo_ray.report.parts import Cells, Chart, Figure, Section, Table, Text
from zelo_ray.report.wording import estimate, number

_OF = {
    "0-2": "with ties",
    ">=2": "A is better, or not",
    "0-1": "both decided",
}
"""What the scales of words are called here."""
_LEADING = ("alpha-nominal", "agreement", "kappa", "mcc")
_CHOICE = ("coefficient", "of")
_PAIRS, _OPEN, _DOCUMENTS = 60, 12, 40  # what there is room for


def outcomes_section(measured: Measured) -> Section | None:
    """Show how far each judge agrees with people on pairs."""
    outcomes = _by_key(measured.rows("outcomes"))
    judges = best_first(measured)
    if not judges:
        return None
    figures: dict[tuple[str, ...], Figure] = {
        (name, _OF[scale]): intervals(
            judges, {"": spans([outcomes[name, scale][judge] for judge in judges])}, name
        )
        for name, scale in _ordered(outcomes)
    }
    chart = Chart(
        figures,
        "How far each judge says of two documents what most people say of them, on the pairs that "
        "both judged, with its 95% interval: A is better, a tie, or B is better.",
        _CHOICE,
    )
    columns = ("judge", "same word", "both decided", "votes", "alpha", "both decided", "mcc")
    cells: list[Cells] = []
    for judge in judges:
        same = [outcomes["agreement", scale][judge] for scale in ("0-2", "0-1", "votes")]
        keys = (("alpha-nominal", "0-2"), ("alpha-nominal", "0-1"), ("mcc", ">=2"))
        shown = [said(outcomes[key][judge]) for key in keys]
        cells.append([Text(judge), *map(_count, same), *shown])
    caption = (
        "MCC is of the word that A is better. Votes: each of a judge with each of the people's. "
        "outcomes.parquet has all, kappa too."
    )
    table = Table(columns, cells, caption, frozenset(columns[1:]), _OPEN)
    return Section("outcomes", "Verdicts and people", (chart, table))


def differences_section(measured: Measured) -> Section | None:
    """Show which of two judges agrees more with people."""
    rows = [row for row in measured.rows("differences") if row["items"]]
    pairs = [*dict.fromkeys((row["rater_a"], row["rater_b"]) for row in rows)][:_PAIRS]
    if not pairs:
        return None
    differences: dict[tuple[str, str], dict[tuple[str, str], Row]] = {}
    for row in rows:
        key = row["coefficient"], row["scale"]
        differences.setdefault(key, {})[row["rater_a"], row["rater_b"]] = row
    names = [f"{a} over {b}" for a, b in pairs]
    ends = ("difference", "low", "high")
    figures: dict[tuple[str, ...], Figure] = {
        (name, _OF[scale]): intervals(
            names,
            {"": spans([differences[name, scale][pair] for pair in pairs], ends)},
            f"by {name}",
            0.0,
        )
        for name, scale in _ordered(differences)
    }
    chart = Chart(
        figures,
        "By how much one judge is nearer to the people than another, on the pairs that both and "
        "the people judged, over the same samples of queries: where the interval is right of 0 "
        "the first is surely nearer.",
        _CHOICE,
    )
    columns = ("judge", "over", "alpha", "and alpha", "difference", "in %", "pairs")
    cells: list[Cells] = []
    for a, b in pairs:
        row = differences["alpha-nominal", "0-2"][a, b]
        values = [number(row[f"value_{side}"]) for side in "ab"]
        apart = estimate(row["difference"], row["low"], row["high"], "+z.3f")
        more = (number(row["relative"], "+z.1f"), f"{row['items']:,}")
        cells.append([Text(a), Text(b), *values, apart, *more])
    caption = "With ties, by alpha; differences.parquet has all."
    table = Table(columns, cells, caption, frozenset(columns[2:]), _OPEN)
    return Section("differences", "Judge against judge", (chart, table))


def wins_section(measured: Measured) -> Section | None:
    """Show how often each document wins, by a judge and by people."""
    by_judge: dict[str, list[Row]] = {}
    for row in measured.rows("wins"):
        by_judge.setdefault(row["judge"], []).append(row)
    figures: dict[str, Figure] = {}
    for judge in best_first(measured):
        rows = sorted(by_judge.get(judge, ()), key=lambda row: -row["human"])[:_DOCUMENTS]
        if rows:
            people = spans(rows, ("human", "human_low", "human_high"))
            series = {HUMAN: people, judge: spans(rows, ("wins", "low", "high"))}
            names = [row["doc_id"] for row in rows]
            figures[judge] = intervals(names, series, "share of pairs won", 0.5)
    if not figures:
        return None
    caption = (
        "Of the pairs that a judge and the people judged, the share that a document wins by the "
        "word of each; a tie is half a win. Documents that meet in few queries are left out."
    )
    return Section("wins", "Who wins", (Chart(figures, caption, "judge"),))


def outcome(measured: Measured) -> str:
    """Say whose verdicts are nearest to the people's."""
    judges = best_first(measured)
    if not judges:
        return ""
    outcomes = _by_key(measured.rows("outcomes"))
    with_ties, decided = (outcomes["agreement", scale][judges[0]] for scale in ("0-2", "0-1"))
    return (
        f"Nearest to the people's verdicts is {judges[0]}: it says what most of them say on "
        f"{_count(with_ties)} pairs, and on {_count(decided)} where both decided; alpha "
        f"{said(outcomes['alpha-nominal', '0-2'][judges[0]])}."
    )


def best_first(measured: Measured) -> list[str]:
    """Return the judges with pairs that people judged too, best first by alpha."""
    rows = _by_key(measured.rows("outcomes")).get(("alpha-nominal", "0-2"), {})
    judged = [row for row in rows.values() if row["items"]]
    judged.sort(key=lambda row: -np.nan_to_num(row["value"], nan=-2.0))
    return [row["rater_b"] for row in judged]


def _by_key(rows: list[Row]) -> dict[tuple[str, str], dict[str, Row]]:
    """Group rows by coefficient and scale, then by judge."""
    groups: dict[tuple[str, str], dict[str, Row]] = {}
    for row in rows:
        groups.setdefault((row["coefficient"], row["scale"]), {})[row["rater_b"]] = row
    return groups


def _ordered(keys: Iterable[tuple[str, str]]) -> list[tuple[str, str]]:
    """Return the coefficients and scales of outcomes, the leading ones first."""
    scales = [*_OF]
    words = [key for key in keys if key[1] in scales]
    return sorted(words, key=lambda key: (_LEADING.index(key[0]), scales.index(key[1])))


def _count(row: Row) -> str:
    if not row["items"]:
        return number(None)
    return f"{round(row['value'] * row['items']):,} of {row['items']:,}"
