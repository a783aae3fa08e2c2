"""Decide for each ranker of a bake-off whether it may replace the baseline."""

from collections.abc import Iterable, Iterator
from typing import Any

from zelo_ray.command_options import BakeoffOptions
from zelo_ray.commands.bakeoff.outcome import BakeoffOutcome, Corrections, Floats
from zelo_ray.errors import Stopped
from zelo_ray.evaluation.gate import GateDecision, decide_gate
from zelo_ray.evaluation.people.frame import by_grades


def decide_gates(
    outcome: BakeoffOutcome, options: BakeoffOptions, drawn: Iterable[Floats]
) -> Iterator[GateDecision]:
    """Yield the gate of each other ranker against ``options.baseline``, by the leading measure.

    Args:
        outcome: of the bake-off.
        options: of the bake-off; its baseline is the name of a ranker.
        drawn: for each draw of the labels, the leading measure, of shape [rankers, queries].

    Raises:
        Stopped: the baseline ranked nothing.
    """
    baseline, people = options.baseline or "", outcome.people
    if baseline not in outcome.ranker_names:
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
        yield from decide_gate(values, outcome.answered, outcome.ranker_names, **about)
    elif people.values is not None and people.telling is not None and not why:
        labelled = people.telling[outcome.ranker_names.index(baseline)].tolist()
        about |= {"measure": people.measures[0], "labelled": labelled}
        about |= {"estimate": "corrected"}
        yield from decide_gate(people.values, outcome.answered, outcome.ranker_names, **about)
    else:
        why = why or f"people's labels correct nothing: {people.refused}"
        others = (ranker for ranker in outcome.ranker_names if ranker != baseline)
        yield from (_undecided(ranker, why, outcome, options) for ranker in others)
    for entry in outcome.rankers:
        if entry.name not in outcome.ranker_names:
            yield _undecided(entry.name, "it ranked no query of the truth", outcome, options)


def _other_measure(people: Corrections, outcome: BakeoffOutcome) -> str:
    """Say that people's labels correct a measure that is not the gate's; empty if they do.

    If the truth is zELO scores, people's grades correct nDCG in place of zelo_nDCG.
    """
    leading, corrected = outcome.measures[0], people.measures[0]
    corrected = (people.on_panel_scale or {}).get(corrected, corrected)
    if corrected in (str(leading), str(by_grades(leading))):
        return ""
    return f"people's labels correct {corrected}, not {leading}: name it first in --measures"


def _undecided(
    run: str, why: str, outcome: BakeoffOutcome, options: BakeoffOptions
) -> GateDecision:
    """Return the gate of a ranker for which there is not enough data."""
    return GateDecision(
        run=run,
        baseline=options.baseline or "",
        measure=outcome.leading,
        estimate="corrected" if outcome.people else "panel",
        margin=options.margin,
        confidence=options.confidence,
        reason=why,
    )
