"""Correct a contest that a panel judged by people's labels of some documents."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from math import isnan

import numpy as np
from scipy.special import stdtrit

from zelo_ray.commands.bakeoff.labelled import Labelled, labelled_in
from zelo_ray.commands.bakeoff.outcome import BakeoffOutcome, Corrections, Floats, LabelForecast
from zelo_ray.commands.bakeoff.significance import SURE
from zelo_ray.commands.label.between import between_people, told
from zelo_ray.evaluation.people.corrected import by_panel, corrected, foretold, people_alone
from zelo_ray.evaluation.people.frame import Ints
from zelo_ray.evaluation.people.measures import for_people
from zelo_ray.evaluation.people.outlook import outlook
from zelo_ray.evaluation.people.tested import compared
from zelo_ray.evaluation.significance import compare
from zelo_ray.formats.labels import PeoplesLabels
from zelo_ray.options import BakeoffOptions
from zelo_ray.records import Comparison, Estimate, Mean

_Values = Mapping[Estimate, Mapping[str, Floats]]


def corrections(
    outcome: BakeoffOutcome, labels: PeoplesLabels, options: BakeoffOptions
) -> Corrections:
    """Correct every measure that is linear in the labels; or say why that cannot be."""
    chosen, left_out = for_people(outcome.measures, scores=outcome.truth.kind == "scores")
    tried = {str(measure): labelled_in(outcome, measure, labels) for measure in chosen}
    by_measure = {name: labelled for name, labelled in tried.items() if labelled.way}
    left_out |= {name: labelled.refused for name, labelled in tried.items() if not labelled.way}
    if labels.frame is None:  # nothing tells whether a deeper document could have been drawn
        drawn = [name for name, labelled in by_measure.items() if labelled.way == "drawn"]
        left_out |= dict.fromkeys(drawn[1:], "the labels do not tell what else could be drawn")
        by_measure = {
            name: labelled for name, labelled in by_measure.items() if name not in drawn[1:]
        }
    leading = next(iter(by_measure.values() or tried.values()))
    about = Corrections(
        labels=leading.known,
        persons=len({*labels.rows["person"].to_pylist()} - {""}),
        strangers=labels.documents - leading.known,
        unsure=labels.unsure,
        ahead=labels.ahead,
        stages=labels.stages,
        waiting=max(0, labels.drawn_so_far - labels.ahead - labels.documents - labels.unsure),
        between=(*told(between_people(labels.rows, labels.top)),),
        queries=leading.queries,
        left_out=left_out,
    )
    if not by_measure:
        return replace(about, refused=leading.refused)
    values = _by_whom(outcome, by_measure)
    telling = {name: labelled.telling for name, labelled in by_measure.items()}
    comparisons = _compared(outcome, values, telling, options)
    first = next(iter(by_measure))
    leader = _leader(outcome.arms, comparisons, first)
    forecasts = list[LabelForecast]()
    if leading.way == "drawn":
        rows = [row for row in comparisons if (row.estimate, row.measure) == ("corrected", first)]
        metrics = values["corrected"][first]
        forecasts = [
            *_forecasts(leading, telling[first], outcome.arms, leader, rows, metrics=metrics)
        ]
    return replace(
        about,
        way=leading.way,
        measures=tuple(by_measure),
        leader=leader,
        values=values["corrected"][first],
        telling=telling[first],
        means=[*_means(outcome.arms, values)],
        comparisons=comparisons,
        forecasts=forecasts,
    )


def _by_whom(outcome: BakeoffOutcome, by_measure: Mapping[str, Labelled]) -> _Values:
    """Compute the metrics by estimate (graded, people, corrected) and measure: [arms, queries]."""
    values: dict[Estimate, dict[str, Floats]] = {"graded": {}, "people": {}, "corrected": {}}
    for name, labelled in by_measure.items():
        labels = labelled.frame, labelled.gain, labelled.chances
        together = labelled.way == "queries"
        values["corrected"][name] = corrected(*labels, whole_queries=together)
        values["people"][name] = people_alone(*labels)
        if outcome.truth.kind == "scores":  # by which the panel's own metrics are of another kind
            values["graded"][name] = by_panel(labelled.frame)
    return values


def _compared(
    outcome: BakeoffOutcome, values: _Values, telling: Mapping[str, Ints], options: BakeoffOptions
) -> list[Comparison]:
    comparisons = list[Comparison]()
    for estimate, tables in values.items():
        common = {name: np.where(outcome.answered, of, np.nan) for name, of in tables.items()}
        if estimate != "graded" and common:
            comparisons += compared(common, outcome.arms, telling, options.confidence, estimate)
        elif common:
            rows = compare(
                common,
                outcome.arms,
                resamples=options.resamples,
                confidence=options.confidence,
                seed=options.seed,
            )
            comparisons += [replace(row, estimate=estimate) for row in rows]
    return comparisons


def _means(arms: Sequence[str], values: _Values) -> Iterator[Mean]:
    """Yield means without intervals: documents that all arms rank alike have only panel labels."""
    for estimate in ("graded", "corrected"):
        for name, table in values[estimate].items():
            for arm, row in zip(arms, table, strict=True):
                mean = float(row.mean())
                yield Mean(arm, name, mean, np.nan, np.nan, len(row), estimate)


def _leader(arms: Sequence[str], comparisons: Sequence[Comparison], measure: str) -> str:
    """Return the arm that leads the others by most, on the queries that each two ranked."""
    above = dict.fromkeys(arms, 0.0)
    for row in comparisons:
        if (row.estimate, row.measure) == ("corrected", measure) and row.queries:
            above[row.run_a] += row.difference
            above[row.run_b] -= row.difference
    return max(above, key=lambda arm: above[arm])


def _forecasts(
    labelled: Labelled,
    telling: Ints,
    arms: Sequence[str],
    leader: str,
    corrected: Sequence[Comparison],
    *,
    metrics: Floats,
) -> Iterator[LabelForecast]:
    """Yield what it takes to be sure of the difference between the leading arm and each other.

    The difference is taken as it is now, with Holm's correction at its strictest. Arms that too
    few labels tell apart are left out.
    """
    frame, place = labelled.frame, {arm: i for i, arm in enumerate(arms)}
    guess = foretold(frame, labelled.gain)
    residual = labelled.gain - guess
    for row in corrected:
        if leader not in (row.run_a, row.run_b) or isnan(row.low):
            continue
        a, b = place[row.run_a], place[row.run_b]
        sure = float(stdtrit(telling[a, b] - 1, 1 - SURE / 2 / len(corrected)))
        answered = frame.answered[a] & frame.answered[b]
        weight = np.where(answered[frame.query], frame.weight[a] - frame.weight[b], 0.0)
        forecast = outlook(
            (metrics[a] - metrics[b])[answered],
            weight * residual,
            labelled.chances,
            labelled.size,
            predicted=frame.by_query((weight * guess)[np.newaxis])[0, answered],
            aim=abs(row.difference) / sure,
        )
        yield LabelForecast(row.run_a, row.run_b, row.measure, forecast)
