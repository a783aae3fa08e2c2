"""The gate of a bake-off: a line for each candidate that a script can read, and an exit status."""

from collections.abc import Iterable, Iterator
from math import isnan, nan

from zelo_ray.commands.bakeoff.outcome import Floats, Outcome
from zelo_ray.errors import Stopped
from zelo_ray.evaluation.gate import POWER, Gated, gate
from zelo_ray.options import BakeoffOptions


def gated(outcome: Outcome, options: BakeoffOptions, drawn: Floats | None) -> Iterator[Gated]:
    """Every other arm against ``options.baseline`` by the leading measure, as people correct it.

    Args:
        outcome: of the contest.
        options: of the bake-off, whose baseline is an arm.
        drawn: the leading measure under resampled labels, of shape [draws, arms, queries].

    Raises:
        Stopped: the baseline ranked nothing.
    """
    baseline, measure = options.baseline or "", outcome.leading
    values, estimate = outcome.values[measure], "panel"
    if outcome.people and outcome.people.values is not None:
        values, measure, drawn = outcome.people.values, outcome.people.measures[0], None
        estimate = "corrected"
    if baseline not in outcome.arms:
        raise Stopped(f"--baseline: {baseline} ranked no query of the truth")
    yield from gate(
        values,
        outcome.answered,
        outcome.arms,
        baseline,
        measure=measure,
        margin=options.margin,
        confidence=options.confidence,
        drawn=drawn,
        estimate=estimate,
    )
    for entry in outcome.entries:
        if entry.name not in outcome.arms:
            yield Gated(
                run=entry.name,
                baseline=baseline,
                measure=measure,
                estimate=estimate,
                margin=options.margin,
                confidence=options.confidence,
                verdict="not enough data",
                reason="it ranked no query of the truth",
                difference=nan,
                low=nan,
                high=nan,
                labels=nan,
                queries=0,
                enough=0,
            )


def gate_lines(found: Iterable[Gated]) -> Iterator[str]:
    """One line for each candidate, for a log: ``GATE pass``, ``GATE fail`` or ``GATE open``."""
    for one in found:
        within = f"than {one.baseline} by more than {one.margin:g}"
        match one.verdict:
            case "better":
                said = f"pass: {one.run} is better than {one.baseline}"
            case "not worse":
                said = f"pass: {one.run} is not worse {within}"
            case "worse":
                said = f"fail: {one.run} is worse than {one.baseline}"
            case "not enough data":
                said = f"open: not enough data to say that {one.run} is not worse {within}"
        yield f"GATE {said} ({'; '.join(_figures(one))})"


def _figures(one: Gated) -> Iterator[str]:
    if not isnan(one.difference):
        limits = ""
        if not isnan(one.low):
            sure = f"{100 * one.confidence:g}%"
            limits = f", one-sided {sure} limits {one.low:+.4f} and {one.high:+.4f}"
        told = "" if one.estimate == "panel" else f", {one.estimate}"
        yield f"{one.measure} {one.difference:+.4f}{told}{limits}, {one.queries:,} queries"
    if one.reason:
        yield one.reason
        if one.enough > one.queries:
            yield f"about {one.enough:,} queries show it in {POWER:.0%} of cases if both are alike"
