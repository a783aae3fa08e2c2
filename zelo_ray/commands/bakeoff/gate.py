"""The gate of a bake-off: a line for each candidate that a script can read, and an exit status."""

from collections.abc import Iterable, Iterator
from dataclasses import replace
from math import isnan, nan
from typing import Any

from zelo_ray.commands.bakeoff.outcome import Corrections, Floats, Outcome
from zelo_ray.errors import Stopped
from zelo_ray.evaluation.gate import POWER, Gated, gate
from zelo_ray.options import BakeoffOptions


def gated(outcome: Outcome, options: BakeoffOptions, drawn: Floats | None) -> Iterator[Gated]:
    """Yield every other arm's gate against ``options.baseline``, by the leading measure.

    Args:
        outcome: of the contest.
        options: of the bake-off, whose baseline is an arm.
        drawn: the leading measure under resampled labels, of shape [draws, arms, queries].

    Raises:
        Stopped: the baseline ranked nothing.
    """
    baseline, people = options.baseline or "", outcome.people
    if baseline not in outcome.arms:
        raise Stopped(f"--baseline: {baseline} ranked no query of the truth")
    about: dict[str, Any] = {
        "baseline": baseline,
        "margin": options.margin,
        "confidence": options.confidence,
    }
    why = _other_measure(people, outcome) if people and people.values is not None else ""
    if people is None:
        values = outcome.values[outcome.leading]
        about |= {"measure": outcome.leading, "drawn": drawn}
        yield from gate(values, outcome.answered, outcome.arms, **about)
    elif people.values is not None and people.telling is not None and not why:
        labelled = people.telling[outcome.arms.index(baseline)].tolist()
        about |= {"measure": people.measures[0], "labelled": labelled}
        about |= {"estimate": "corrected"}
        yield from gate(people.values, outcome.answered, outcome.arms, **about)
    else:
        why = why or f"people's labels say nothing: {people.refused}"
        others = (arm for arm in outcome.arms if arm != baseline)
        yield from (_open(arm, why, outcome, options) for arm in others)
    for entry in outcome.entries:
        if entry.name not in outcome.arms:
            yield _open(entry.name, "it ranked no query of the truth", outcome, options)


def _other_measure(people: Corrections, outcome: Outcome) -> str:
    """Say that people correct another measure than the gate's; empty if they correct the same.

    For zELO scores people give grades, which correct nDCG in place of nDCG(dcg='zelo').
    """
    leading, corrected = outcome.measures[0], people.measures[0]
    if corrected in (str(leading), str(replace(leading, parameters=()))):
        return ""
    return f"people's labels correct {corrected}, and not {leading}: name it first in --measures"


def _open(run: str, why: str, outcome: Outcome, options: BakeoffOptions) -> Gated:
    """Return the gate of an arm that cannot be decided, for lack of data."""
    return Gated(
        run=run,
        baseline=options.baseline or "",
        measure=outcome.leading,
        estimate="corrected" if outcome.people else "panel",
        margin=options.margin,
        confidence=options.confidence,
        verdict="not enough data",
        reason=why,
        difference=nan,
        low=nan,
        high=nan,
        labels=nan,
        queries=0,
        enough=0,
    )


def gate_lines(results: Iterable[Gated]) -> Iterator[str]:
    """Yield a log line for each candidate: ``GATE pass``, ``GATE fail`` or ``GATE open``."""
    for row in results:
        within = f"than {row.baseline} by more than {row.margin:g}"
        match row.verdict:
            case "better":
                text = f"pass: {row.run} is better than {row.baseline}"
            case "not worse":
                text = f"pass: {row.run} is not worse {within}"
            case "worse":
                text = f"fail: {row.run} is worse than {row.baseline}"
            case "not enough data":
                text = f"open: not enough data to say that {row.run} is not worse {within}"
            case "only kin":
                text = f"open: {row.reason}: {row.run} against {row.baseline}"
        yield f"GATE {text} ({'; '.join(_figures(row))})"


def _figures(result: Gated) -> Iterator[str]:
    if not isnan(result.difference):
        limits = ""
        if not isnan(result.low):
            sure = f"{100 * result.confidence:g}%"
            limits = f", one-sided {sure} limits {result.low:+.4f} and {result.high:+.4f}"
        label = "" if result.estimate == "panel" else f", {result.estimate}"
        yield (
            f"{result.measure} {result.difference:+.4f}{label}{limits}, {result.queries:,} queries"
        )
    if result.reason and result.verdict != "only kin":
        yield result.reason
        if result.estimate == "panel" and result.enough > result.queries:
            yield (
                f"about {result.enough:,} queries show it in {POWER:.0%} of cases if both are alike"
            )
