"""Decide for each ranker of a bake-off whether it may replace the baseline."""

from collections.abc import Iterator
from math import isnan
from typing import Any

from zelo_ray.command_options import BakeoffOptions
from zelo_ray.commands.bakeoff.measure import Measured
from zelo_ray.commands.bakeoff.people import Corrected
from zelo_ray.errors import Stopped
from zelo_ray.evaluation.gate import GateDecision, decide_gate
from zelo_ray.evaluation.people.frame import by_grades
from zelo_ray.evaluation.significance import POWER


def decide_gates(
    measured: Measured, people: Corrected | None, options: BakeoffOptions
) -> list[GateDecision]:
    """Decide on each other ranker against ``options.baseline``, by the leading measure."""
    baseline, names = options.baseline or "", measured.names
    if baseline not in names:
        raise Stopped(f"--baseline: {baseline} ranked no query of the truth")
    shared: dict[str, Any] = {"baseline": baseline, "margin": options.margin}
    shared |= {"confidence": options.confidence, "estimate": "corrected" if people else "panel"}
    measure, why = measured.leading, _why_not(people, measured) if people else ""
    values = measured.values[measure]
    drawn = (draw[measured.leading] for draw in measured.drawn(measured.measures[:1]))
    more: dict[str, Any] = {"drawn": drawn}
    if people and not why:
        measure, values = people.about["measures"][0], people.values
        more = {"labelled": people.deciding[names.index(baseline)].tolist()}
    shared["measure"] = measure
    decisions = [] if why else decide_gate(values, measured.answered, names, **shared, **more)
    undecided = {name: why for name in names if why and name != baseline}
    silent = (name for name in measured.runs if name not in names)
    undecided |= dict.fromkeys(silent, "it ranked no query of the truth")
    return [*decisions, *(GateDecision(n, reason=each, **shared) for n, each in undecided.items())]


def _why_not(people: Corrected, measured: Measured) -> str:
    """Say why people's labels do not decide; empty if they do.

    If the truth is zELO scores, people's grades correct nDCG in place of zelo_nDCG.
    """
    if not people.about["design"]:
        return f"people's labels correct nothing: {people.about['refused']}"
    leading, corrected = measured.measures[0], people.about["measures"][0]
    corrected = people.about["on_panel_scale"].get(corrected, corrected)
    if corrected in (str(leading), str(by_grades(leading))):
        return ""
    return f"people's labels correct {corrected}, not {leading}: name it first in --measures"


def gate_line(row: GateDecision) -> str:
    """Return a line for scripts: ``GATE pass``, ``GATE fail`` or ``GATE open``, and why."""
    within = f"than {row.baseline} by more than {row.margin:g}"
    text = {
        "better": f"pass: {row.run} is better than {row.baseline}",
        "not worse": f"pass: {row.run} is not worse {within}",
        "worse": f"fail: {row.run} is worse than {row.baseline}",
        "not enough data": f"open: not enough data to say that {row.run} is not worse {within}",
        "own family only": f"open: {row.reason}: {row.run} against {row.baseline}",
    }[row.verdict]
    return f"GATE {text} ({'; '.join(_figures(row))})"


def _figures(row: GateDecision) -> Iterator[str]:
    if not isnan(row.difference):
        limits = ""
        if not isnan(row.low):
            sure = f"{100 * row.confidence:g}%"
            limits = f", one-sided {sure} limits {row.low:+z.4f} and {row.high:+z.4f}"
        label = "" if row.estimate == "panel" else f", {row.estimate}"
        yield f"{row.measure} {row.difference:+z.4f}{label}{limits}, {row.queries:,} queries"
    if not isnan(row.labels):
        yield f"not worse in {row.labels:.0%} of the draws of the labels"
    if row.reason and row.verdict != "own family only":
        yield row.reason
        if row.estimate == "panel" and row.enough > row.queries:
            yield f"about {row.enough:,} queries show it in {POWER:.0%} of cases if both are alike"
