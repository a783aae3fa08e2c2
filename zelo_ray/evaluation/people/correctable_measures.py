"""Select the measures that people's labels can correct."""

from collections.abc import Iterable
from dataclasses import replace

from zelo_ray.errors import OptionError
from zelo_ray.evaluation.measures import Measure, linear_of, load_measure, parse_measure

OTHERWISE = "nDCG@10"


def on_panel_scale(measure: Measure) -> str:
    """Name what an nDCG becomes if people's gains are divided by the ideal of the panel's grades.

    It is not people's own nDCG: where many documents are relevant it is near it, and where few are
    it is less than half of it (``benchmarks/people.py``).
    """
    return f"{str(measure).replace('nDCG', 'gain', 1)} on the panel's scale"


def select_correctable(
    measures: Iterable[Measure], *, scores: bool = False
) -> tuple[tuple[Measure, ...], dict[str, str]]:
    """Return the measures that are linear in the labels, and why others are left out.

    People give grades, not scores: nDCG replaces nDCG(dcg='zelo'), and a measure is left out if its
    ``rel`` is a score (where the truth has ``scores``). If no measure is left, nDCG@10 is used.
    """
    chosen, left_out = list[Measure](), dict[str, str]()
    for measure in measures:
        try:
            linear_of(measure)
        except OptionError:
            if not measure.of_labels:
                left_out[str(measure)] = "not linear in the labels"
            continue
        if scores and "rel" in load_measure(measure.name).parameters:
            left_out[str(measure)] = "its rel is a score, and people give grades"
            continue
        zelo = ("dcg", "zelo") in measure.parameters
        chosen.append(replace(measure, parameters=()) if zelo else measure)
    return tuple(dict.fromkeys(chosen)) or (parse_measure(OTHERWISE),), left_out
