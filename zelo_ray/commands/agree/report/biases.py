"""Sections of ``agree`` on how judges err: by grades, by votes, and in the order of systems."""

from collections.abc import Iterable, Sequence

import numpy as np

from zelo_ray.commands.agree.report.results import Measured, Row
from zelo_ray.evaluation.agreement.pairs import DECIDED, VOTES, VOTES_DECIDED, WITH_TIES
from zelo_ray.formats.interchange.verdicts import HUMAN, PANEL
from zelo_ray.report.charts.figures import intervals, spans
from zelo_ray.report.charts.grids import matrix
from zelo_ray.report.charts.labels import label
from zelo_ray.report.charts.slopes import slopes
from zelo_ray.report.parts import Cells, Chart, Figure, Section, Table, Text
from zelo_ray.report.wording import estimate, number

_OF = {
    WITH_TIES: "pairs",
    DECIDED: "pairs decided",
    VOTES: "votes",
    VOTES_DECIDED: "votes decided",
}
"""What the scales of votes on pairs are called here."""
_Told = tuple[tuple[str, str], str, str]
"""A figure's name and what it is relative to; what its axis says; how to read it."""
_GRADING: tuple[_Told, ...] = (
    (
        ("leniency", "human"),
        "above people, in grades",
        (
            "On the same documents, by how much a judge's mean grade is above the people's: right "
            "of 0 is milder than people, left of it harsher."
        ),
    ),
    (
        ("leniency", "others"),
        "above the others, in grades",
        (
            "On the same documents, by how much a judge's mean grade is above that of the others. "
            "What all judges share does not show here."
        ),
    ),
    (
        ("length", "human"),
        "grades per doubling of length",
        (
            "By how much a document of the same query and human grade is graded higher when it is "
            "twice as long. A judge that length does not sway stands at 0, as far as human grades "
            "hold content constant."
        ),
    ),
    (
        ("length", "others"),
        "grades per doubling of length",
        (
            "By how much more than the other judges a judge rewards a document of the same query "
            "for being twice as long. What all judges share does not show here."
        ),
    ),
    (
        ("repeats-equal", ""),
        "share of repeats that are equal",
        "Asked again about the same document, how often a judge gave the same grade.",
    ),
    (
        ("repeats-apart", ""),
        "mean difference of repeats, in grades",
        "Asked again about the same document, how far apart a judge's grades are.",
    ),
)
_VOTING: tuple[_Told, ...] = (
    (
        ("first", ""),
        "share won by what came first",
        (
            "Of decided votes, those for the document that was shown first. A fair judge stands at "
            ".5, if the order was drawn."
        ),
    ),
    (
        ("flips", ""),
        "share of pairs that flip",
        (
            "Of pairs that a judge saw in both orders, those whose winner changed with the order. "
            "Coins would reach .5."
        ),
    ),
    (
        ("one-tie", ""),
        "share of pairs with one tie",
        "Of pairs that a judge saw in both orders, those that it decided in one order only.",
    ),
    (
        ("circles", ""),
        "share of triples in a circle",
        (
            "Of triples whose pairs are all decided, those in which each document beats one of the "
            "others, so that no order fits. Coins would reach .25."
        ),
    ),
)
_FAIR = {"leniency": 0.0, "length": 0.0, "first": 0.5, "flips": 0.5, "circles": 0.25}


def grading_section(measured: Measured) -> Section | None:
    """Show how harsh judges are, how much length sways them, and how consistent they are."""
    charts = [*_biases(measured.rows("grading"), measured, _GRADING)]
    return Section("grading", "How the judges grade", charts) if charts else None


def voting_section(measured: Measured) -> Section | None:
    """Show how judges vote on pairs."""
    charts = [*_biases(measured.rows("voting"), measured, _VOTING), *_votes(measured)]
    return Section("voting", "How the judges vote on pairs", charts) if charts else None


def _biases(
    rows: Iterable[Row], measured: Measured, bias_kinds: Sequence[_Told]
) -> Iterable[Chart]:
    """Draw a chart for each bias that is known of any judge, with the judges in one order."""
    place = {judge: i for i, judge in enumerate(measured.best_first)}
    by_bias: dict[tuple[str, str], list[Row]] = {}
    for row in rows:
        if np.isfinite(row["value"]):
            by_bias.setdefault((row["bias"], row["against"]), []).append(row)
    for key, title, caption in bias_kinds:
        if group := by_bias.get(key):
            group.sort(key=lambda row: place.get(row["judge"], len(place)))
            names = [row["judge"] for row in group]
            figure = intervals(names, {"": spans(group)}, title, _FAIR.get(key[0]))
            yield Chart({"": figure}, caption)


def _votes(measured: Measured) -> list[Chart]:
    """Draw how far judges agree on pairs."""
    tables: dict[tuple[str, ...], dict[tuple[str, str], float]] = {}
    for row in measured.rows("pairs"):
        if row["items"]:
            cells = tables.setdefault((row["coefficient"], _OF[row["scale"]]), {})
            a, b = row["rater_a"], row["rater_b"]
            cells[a, b] = cells[b, a] = row["value"]
    figures: dict[tuple[str, ...], Figure] = {}
    for key, cells in tables.items():
        names = list(dict.fromkeys(name for pair in cells for name in pair))
        values = np.array([[cells.get((a, b), np.nan) for b in names] for a in names])
        low = 0.0 if key[0] == "agreement" else -1.0
        figures[key] = matrix(names, values, None, (1 + low) / 2, low=low, form=_two)
    caption = (
        "Every two judges on the pairs that both judged. In pairs a judge has one word on each, "
        "what most of its votes say; in votes every vote meets every one. Decided: without ties."
    )
    return [Chart(figures, caption, ("measure", "of"))] if figures else []


def _two(value: float) -> str:
    return number(value, ".2f")


def systems_section(measured: Measured) -> Section | None:
    """Show whether a judge's labels put systems in the same order."""
    orders = sorted(measured.rows("systems"), key=lambda row: -np.nan_to_num(row["tau_b"], nan=-2))
    if not orders:
        return None
    names, truth = [row["rater_b"] for row in orders], orders[0]["rater_a"]
    whom = f"the labels of {truth}" if truth == HUMAN else "those of the other judges"
    series = {
        title: spans(orders, (name, f"{name}_low", f"{name}_high"))
        for title, name in (("tau-b", "tau_b"), ("tau-AP", "tau_ap"))
    }
    caption = (
        f"How far {orders[0]['runs']:,} runs stand in the same order by a judge's labels as by "
        f"{whom}, on what both graded, by {orders[0]['measure']}, with rough 95% intervals: 1 is "
        "the same order, 0 no relation. In tau-AP an error among the best runs weighs more."
    )
    parts: list[Chart | Table] = [Chart({"": intervals(names, series, "tau")}, caption)]
    means: dict[str, dict[str, float]] = {}
    for row in measured.rows("leaderboards"):
        means.setdefault(row["rater"], {})[row["run"]] = row["mean"]
    reference = truth if truth in means else PANEL
    runs = list(means.get(reference, ()))
    boards = {
        name: slopes(
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
    turned = ("other way round", "of significant ones")
    columns = ("labels of", "tau-b", "tau-AP", *turned, "items", "queries")
    cells: list[Cells] = [
        [
            Text(row["rater_b"]),
            *(
                estimate(row[name], row[f"{name}_low"], row[f"{name}_high"])
                for name in ("tau_b", "tau_ap")
            ),
            f"{row['discordant']:,} of {row['pairs']:,}",
            f"{row['apart']:,} of {row['told']:,}",
            *(f"{row['items']:,}", f"{row['queries']:,}"),
        ]
        for row in orders
    ]
    note = (
        "Pairs of runs that stand the other way round, of all and of those that "
        f"{whom} call significant (randomisation test, p < .05 after Holm's correction). Where a "
        "difference is not significant, nothing was shown."
    )
    parts.append(Table(columns, cells, note, frozenset(columns[1:])))
    return Section("systems", "The order of systems", parts)
