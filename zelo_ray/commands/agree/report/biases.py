"""Sections of ``agree`` on biases of judges in grades and votes, and on the order of systems."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from math import inf, isfinite, nan

import numpy as np

from zelo_ray.commands.agree.report.people import SCALE_NAMES
from zelo_ray.commands.agree.report.results import (
    AgreementTables,
    Row,
    estimate_of,
    rows_by,
    two_decimals,
)
from zelo_ray.evaluation.votes import CHANCE, DECIDED, WITH_TIES
from zelo_ray.files.judges import HUMAN, OTHERS, PANEL
from zelo_ray.files.wording import counted
from zelo_ray.reports.charts.figures import intervals, spans
from zelo_ray.reports.charts.grids import matrix
from zelo_ray.reports.charts.labels import label
from zelo_ray.reports.charts.slopes import rank_slopes
from zelo_ray.reports.parts import Cells, Chart, Figure, ReportTable, Section, TextCell
from zelo_ray.reports.wording import format_estimate, format_number

_BiasKind = tuple[tuple[str, str], str, str]
"""A bias and what it is relative to; the title of its axis; the caption."""
_GRADING: tuple[_BiasKind, ...] = (
    (
        ("leniency", "human"),
        "above people, in grades",
        (
            "By how much a judge's mean grade is above people's, on the same documents: right of "
            "0 is more lenient than people, left of it stricter."
        ),
    ),
    (
        ("leniency", "others"),
        "above the others, in grades",
        (
            "By how much a judge's mean grade is above the other judges', on the same documents. "
            "An error that all judges share does not show here."
        ),
    ),
)
_VOTING: tuple[_BiasKind, ...] = (
    (
        ("first", ""),
        "share won by what came first",
        (
            "The share of decided votes for the document that was shown first. An unbiased judge "
            "is at .5, if the order was random."
        ),
    ),
    (
        ("flips", ""),
        "share of pairs that flip",
        (
            "The share of pairs seen in both orders whose winner changed with the order. Random "
            "votes reach .5."
        ),
    ),
    (
        ("one-tie", ""),
        "share of pairs with one tie",
        "The share of pairs seen in both orders that the judge decided in one order only.",
    ),
    (
        ("circles", ""),
        "share of cyclic triads",
        (
            "The share of cyclic triads (A > B > C > A) among triples whose pairs are all decided. "
            "Random votes reach .25."
        ),
    ),
)
_ROWS = 12
_NONE = {"value": -inf}
_FAIR = {"leniency": 0.0, "first": 0.5, "flips": 0.5, "circles": 0.25}


def grading_section(tables: AgreementTables) -> Section | None:
    """Show the severity of judges that graded."""
    rows = tables.rows("grading")
    if not rows:
        return None
    against = HUMAN if any(row["against"] == HUMAN for row in rows) else OTHERS
    whom = "the people's" if against == HUMAN else "the mean of the other judges"
    columns = {
        ("leniency", against): ("above", f"mean grade less {whom}, on the same documents"),
    }
    charts = _biases(rows, tables, _GRADING)
    table = _bias_table(rows, columns, "grading.parquet")
    return Section("grading", "How the judges grade", [*charts, *table])


def voting_section(tables: AgreementTables) -> Section | None:
    """Show how judges vote on pairs."""
    rows = tables.rows("voting")
    if not rows:
        return None
    columns = {
        ("first", ""): (
            "first wins",
            "decided votes for the document shown first; unbiased is 0.5, if the order was random",
        ),
        ("flips", ""): (
            "flips",
            "of pairs seen in both orders, another winner; random votes reach 0.5",
        ),
        ("one-tie", ""): ("one tie", "of these, a tie in one order only"),
        ("circles", ""): (
            "circles",
            f"cyclic triads (A > B > C > A) among decided triples; random votes reach {CHANCE:g}",
        ),
    }
    charts = _biases(rows, tables, _VOTING)
    table = _bias_table(rows, columns, "voting.parquet")
    return Section("voting", "How the judges vote on pairs", [*charts, *table, *_votes(tables)])


def _bias_table(
    rows: Iterable[Row], columns: Mapping[tuple[str, str], tuple[str, str]], file: str
) -> Iterator[ReportTable]:
    """Yield a table of judges and their known biases, with the number of items of the first."""
    by_judge = {
        judge: {(row["bias"], row["against"]): row for row in group if row["items"]}
        for (judge,), group in rows_by(rows, "judge").items()
    }
    keys = [key for key in columns if any(key in biases for biases in by_judge.values())]
    if not keys:
        return
    cells: list[Cells] = []
    order = sorted(by_judge, key=lambda judge: -by_judge[judge].get(keys[0], _NONE)["value"])
    for judge in order:
        biases = by_judge[judge]
        figures = [biases.get(key) for key in keys]
        estimates = (
            estimate_of(row, "+z.3f" if row["against"] else "z.3f") if row else format_number(None)
            for row in figures
        )
        items = f"{figures[0]['items']:,}" if figures[0] else ""
        cells.append([TextCell(judge), *estimates, items])
    names = ("judge", *(columns[key][0] for key in keys), "items")
    caption = ". ".join(": ".join(columns[key]).capitalize() for key in keys)
    yield ReportTable(names, cells, f"{caption}.", frozenset(names[1:]), _ROWS, file=file)


def _biases(
    rows: Iterable[Row], tables: AgreementTables, bias_kinds: Sequence[_BiasKind]
) -> Iterable[Chart]:
    """Yield a chart for each known bias, with the judges in the same order."""
    place = {judge: i for i, judge in enumerate(tables.best_first)}
    by_bias = rows_by((row for row in rows if isfinite(row["value"])), "bias", "against")
    for key, title, caption in bias_kinds:
        if group := by_bias.get(key):
            group.sort(key=lambda row: place.get(row["judge"], len(place)))
            names = [row["judge"] for row in group]
            figure = intervals(names, {"": spans(group)}, title, _FAIR.get(key[0]))
            yield Chart({"": figure}, caption)


def _votes(tables: AgreementTables) -> Iterator[Chart | ReportTable]:
    """Draw how far judges agree on pairs."""
    by_key: dict[tuple[str, ...], dict[tuple[str, str], Row]] = {}
    for row in tables.rows("pairs"):
        if row["items"]:
            name = SCALE_NAMES[row["scale"]]
            by_key.setdefault((row["coefficient"], name), {})[row["rater_a"], row["rater_b"]] = row
    if not by_key:
        return
    figures: dict[tuple[str, ...], Figure] = {}
    for key, rows in by_key.items():
        names = list(dict.fromkeys(name for pair in rows for name in pair))
        both = rows | {(b, a): row for (a, b), row in rows.items()}
        values = np.array(
            [[both[a, b]["value"] if (a, b) in both else nan for b in names] for a in names]
        )
        low = 0.0 if key[0] == "agreement" else -1.0
        figures[key] = matrix(names, values, None, (1 + low) / 2, low=low, form=two_decimals)
    caption = (
        "Agreement of every two judges on the pairs that both judged. With ties: a judge's "
        "verdict on a pair is the majority of its votes. Votes: each vote of one against each of "
        "the other. Both decided: without ties."
    )
    yield Chart(figures, caption, ("measure", "of"))
    cells: list[Cells] = []
    for pair, row in by_key["agreement", SCALE_NAMES[WITH_TIES]].items():
        decided = by_key.get(("agreement", SCALE_NAMES[DECIDED]), {}).get(pair)
        kappa = by_key["kappa", SCALE_NAMES[WITH_TIES]][pair]
        measured = (row, decided, kappa)
        shown = [estimate_of(figure) if figure else format_number(None) for figure in measured]
        cells.append([*map(TextCell, pair), *shown, f"{row['items']:,}"])
    columns = ("judge", "and", "same verdict", "both decided", "kappa", "pairs")
    yield ReportTable(columns, cells, "", frozenset(columns[2:]), _ROWS, file="pairs.parquet")


def systems_section(tables: AgreementTables) -> Section | None:
    """Show whether a judge's labels put systems in the same order."""
    orders = sorted(tables.rows("systems"), key=lambda row: -np.nan_to_num(row["tau_b"], nan=-2))
    if not orders:
        return None
    names, truth = [row["rater_b"] for row in orders], orders[0]["rater_a"]
    whom = f"the labels of {truth if truth == HUMAN else 'the other judges'}"
    series = {
        title: spans(orders, (name, f"{name}_low", f"{name}_high"))
        for title, name in (("tau-b", "tau_b"), ("tau-AP", "tau_ap"))
    }
    caption = (
        f"How far a judge's labels put runs in the same order as {whom}: 1 is the same order, 0 no "
        "relation. In tau-AP errors among the best runs weigh more."
    )
    parts: list[Chart | ReportTable] = [Chart({"": intervals(names, series, "tau")}, caption)]
    means: dict[str, dict[str, float]] = {}
    for row in tables.rows("leaderboards"):
        means.setdefault(row["rater"], {})[row["run"]] = row["mean"]
    reference = truth if truth in means else PANEL
    runs = list(means.get(reference, ()))
    boards = {
        name: rank_slopes(
            runs,
            [means[reference][run] for run in runs],
            [means[name].get(run, np.nan) for run in runs],
            (label(reference, 16), label(name, 16)),
        )
        for name in names
        if runs and name in means and name != reference
    }
    if boards:
        explanation = (
            f"The runs by all labels of {reference}, left, and by all those of the other, right."
        )
        parts.append(Chart(boards, explanation, "labels of"))
    turned = ("opposite order", "of significant ones")
    columns = ("labels of", "tau-b", "tau-AP", *turned, "items", "queries")
    cells: list[Cells] = [
        [
            TextCell(row["rater_b"]),
            *(
                format_estimate(row[name], row[f"{name}_low"], row[f"{name}_high"])
                for name in ("tau_b", "tau_ap")
            ),
            f"{row['discordant']:,} of {row['pairs']:,}",
            f"{row['apart']:,} of {row['told']:,}",
            *(f"{row['items']:,}", f"{row['queries']:,}"),
        ]
        for row in orders
    ]
    note = (
        f"{counted(orders[0]['runs'], 'run')} by {orders[0]['measure']}, against "
        f"their order by {whom}, on what both graded. Opposite order: pairs of runs in the "
        f"opposite order, of all, and of those that differ significantly by {whom} (p < .05, "
        "Holm). Intervals are rough."
    )
    parts.append(
        ReportTable(columns, cells, note, frozenset(columns[1:]), _ROWS, file="systems.parquet")
    )
    return Section("systems", "The order of systems", parts)
