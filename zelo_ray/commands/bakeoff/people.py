"""What people's labels of some documents make of a contest that a panel judged."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import combinations

import numpy as np
from scipy.stats import norm

from zelo_ray.commands.bakeoff.labelled import Labelled, chances_of, labelled_in, way_of
from zelo_ray.commands.bakeoff.outcome import Corrections, Floats, Forecast, Outcome, Way
from zelo_ray.commands.bakeoff.verdicts import SURE
from zelo_ray.commands.label.between import between_people, told
from zelo_ray.evaluation.people.corrected import (
    by_panel,
    corrected,
    foretold,
    people_alone,
    student,
)
from zelo_ray.evaluation.people.measures import for_people
from zelo_ray.evaluation.people.outlook import outlook
from zelo_ray.evaluation.significance import FEWEST, compare
from zelo_ray.formats.labels import PeoplesLabels
from zelo_ray.options import BakeoffOptions
from zelo_ray.records import Comparison, Estimate, Mean

_Values = Mapping[Estimate, Mapping[str, Floats]]


def corrections(outcome: Outcome, labels: PeoplesLabels, options: BakeoffOptions) -> Corrections:
    """Correct every measure that is linear in the labels; or say why that cannot be."""
    chosen, left_out = for_people(outcome.measures)
    leading = labelled_in(outcome, chosen[0], labels)
    found = int((~np.isnan(leading.gain)).sum())
    about = Corrections(
        labels=found,
        persons=len({*labels.rows["person"].to_pylist()} - {""}),
        strangers=len({*_pairs(labels)}) - found,
        unsure=labels.unsure,
        ahead=labels.ahead,
        stages=labels.stages,
        between=(*told(between_people(labels.rows, labels.top)),),
        queries=len(np.unique(leading.frame.query[~np.isnan(leading.gain)])),
    )
    if not found:
        why = f"none of the documents that {options.human} labels is among the first of any arm"
        return replace(about, refused=why)
    way, why = way_of(leading, labels, outcome.arms)
    if way is None:
        return replace(about, refused=why)
    each = {str(chosen[0]): leading}
    for measure in chosen[1:]:
        own = labelled_in(outcome, measure, labels)
        if way == "drawn" and labels.frame is None:
            left_out[str(measure)] = "the labels do not tell what else could be drawn"
        elif way_of(own, labels, outcome.arms)[0] == way:
            each[str(measure)] = own
        else:
            left_out[str(measure)] = "the labels were not drawn for it"
    values = _by_whom(outcome, each, way)
    means, comparisons = _measured(outcome, values, about.queries, options)
    forecasts = list[Forecast]()
    if way == "drawn":
        forecasts = [*_forecasts(leading, outcome.arms, comparisons, str(chosen[0]))]
    return replace(
        about,
        way=way,
        measures=tuple(each),
        left_out=left_out,
        values=values["corrected"][str(chosen[0])],
        means=means,
        comparisons=comparisons,
        forecasts=forecasts,
    )


def _pairs(labels: PeoplesLabels) -> Iterator[tuple[str, str]]:
    names = (labels.rows[name].to_pylist() for name in ("query_id", "doc_id"))
    return zip(*names, strict=True)


def _by_whom(outcome: Outcome, each: Mapping[str, Labelled], way: Way) -> _Values:
    """Metrics by whose word they are, and by measure: [arms, queries]."""
    values: dict[Estimate, dict[str, Floats]] = {"panel": {}, "people": {}, "corrected": {}}
    for name, one in each.items():
        chance = chances_of(one, way)
        panel = by_panel(one.frame)
        together = way == "queries"
        values["corrected"][name] = corrected(one.frame, one.gain, chance, whole_queries=together)
        values["people"][name] = people_alone(one.frame, one.gain, chance)
        if name not in outcome.values:  # such as nDCG@10, where the panel's scores had another
            values["panel"][name] = panel
    return values


def _measured(
    outcome: Outcome, values: _Values, queries: int, options: BakeoffOptions
) -> tuple[list[Mean], list[Comparison]]:
    """Means and comparisons by whose word they are."""
    means, found = list[Mean](), list[Comparison]()
    first, second = np.array([*combinations(range(len(outcome.arms)), 2)], int).reshape(-1, 2).T
    for estimate, tables in values.items():
        if not tables:
            continue
        common = {name: np.where(outcome.answered, of, np.nan) for name, of in tables.items()}
        compared = compare(
            common,
            outcome.arms,
            resamples=options.resamples,
            confidence=options.confidence,
            seed=options.seed,
        )
        if estimate != "panel":
            rows = np.concatenate([table[first] - table[second] for table in common.values()])
            ends = np.transpose(student(rows, queries, options.confidence)).tolist()
            compared = [
                replace(one, low=low, high=high)
                for one, (low, high) in zip(compared, ends, strict=True)
            ]
        found += [replace(one, estimate=estimate) for one in compared]
        if estimate != "people":
            means += _means(outcome.arms, tables, estimate)
    return means, found


def _means(arms: Sequence[str], tables: Mapping[str, Floats], estimate: Estimate) -> Iterator[Mean]:
    """Without intervals: of documents that all arms rank alike there is the panel's word alone."""
    for name, table in tables.items():
        for arm, row in zip(arms, table, strict=True):
            yield Mean(arm, name, float(row.mean()), np.nan, np.nan, len(row), estimate)


def _forecasts(
    labelled: Labelled, arms: Sequence[str], comparisons: Sequence[Comparison], measure: str
) -> Iterator[Forecast]:
    """For the arm that leads, against each other: what it would take to be sure of the difference.

    Of the difference as it is now, after Holm's correction at its strictest.
    """
    frame, place = labelled.frame, {arm: i for i, arm in enumerate(arms)}
    rest = labelled.gain - foretold(frame, labelled.gain)
    metrics = corrected(frame, labelled.gain, labelled.chance)
    best = arms[int(metrics.mean(axis=1).argmax())]
    sure = norm.isf(SURE / 2 / max(1, sum(one.estimate == "corrected" for one in comparisons)))
    for one in comparisons:
        of_best = best in (one.run_a, one.run_b) and one.measure == measure
        if one.estimate != "corrected" or not of_best or one.queries < FEWEST:
            continue
        a, b = place[one.run_a], place[one.run_b]
        both = frame.answered[a] & frame.answered[b]
        weight = np.where(both[frame.query], frame.weight[a] - frame.weight[b], 0.0)
        found = outlook(
            (metrics[a] - metrics[b])[both],
            weight * rest,
            labelled.chance,
            labelled.size,
            abs(one.difference) / sure,
        )
        yield Forecast(one.run_a, one.run_b, one.measure, found)
