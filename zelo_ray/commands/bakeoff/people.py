"""Correct a contest that a panel judged by people's labels of some documents."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from math import isnan

import numpy as np
from numpy.typing import NDArray
from scipy.special import stdtrit

from zelo_ray.commands.bakeoff.outcome import (
    BakeoffOutcome,
    Corrections,
    Floats,
    LabelForecast,
    Way,
)
from zelo_ray.commands.bakeoff.significance import SURE
from zelo_ray.commands.label.between import between_people, told
from zelo_ray.evaluation.measures import Measure, Truth
from zelo_ray.evaluation.people.corrected import FEWEST as FEWEST_LABELS
from zelo_ray.evaluation.people.corrected import by_panel, corrected, foretold, people_alone
from zelo_ray.evaluation.people.frame import TOP, Frame, Ints, frame_of, sizes
from zelo_ray.evaluation.people.measures import for_people
from zelo_ray.evaluation.people.outlook import outlook
from zelo_ray.evaluation.people.tested import compared
from zelo_ray.evaluation.significance import FEWEST, compare
from zelo_ray.formats.labels import PeoplesLabels
from zelo_ray.formats.wording import counted
from zelo_ray.options import BakeoffOptions
from zelo_ray.records import Comparison, Estimate, Mean

_UNLIKELY = 5
"""Standard errors that are not chance."""


@dataclass(frozen=True, slots=True)
class Labelled:
    """A frame with what people said of it, [rows]. Without ``way`` they correct nothing."""

    frame: Frame
    size: Floats
    gain: Floats
    """NaN where there is no label"""
    chances: Floats
    """of being labelled, NaN where they are not known"""
    way: Way | None = None
    refused: str = ""
    """why there is no way"""

    @property
    def labelled(self) -> NDArray[np.bool_]:
        """Return which documents have a label, [rows]."""
        return ~np.isnan(self.gain)

    @property
    def known(self) -> int:
        """Count the documents that have a label."""
        return int(self.labelled.sum())

    @property
    def queries(self) -> int:
        """Count the queries that have a label of a document that matters."""
        return len(np.unique(self.frame.query[self.labelled & (self.size > 0)]))

    @property
    def telling(self) -> Ints:
        """Count the queries whose labels tell two arms apart, [arms, arms].

        Of documents that were drawn, 0 where these labels are too few for a correction: they may
        lie where a third arm is unlike both. Where all is labelled, or whole queries, that two arms
        are alike is known as well.
        """
        frame, arms = self.frame, len(self.frame.weight)
        if self.way != "drawn":
            count = len(frame.query_ids) if self.way == "complete" else self.queries
            return np.full((arms, arms), count)
        rows, counts = np.flatnonzero(self.labelled), np.zeros((arms, arms), np.int64)
        weight, answered = frame.weight[:, rows], frame.answered[:, frame.query[rows]]
        starts = np.unique(frame.query[rows], return_index=True)[1]
        for arm in range(arms):
            apart = (weight != weight[arm]) & answered & answered[arm]
            queries = np.logical_or.reduceat(apart, starts, axis=1).sum(axis=1)
            counts[arm] = np.where(apart.sum(axis=1) < FEWEST_LABELS, 0, queries)
        return counts


def labelled_in(outcome: BakeoffOutcome, measure: Measure, labels: PeoplesLabels) -> Labelled:
    """Return the documents that decide a measure, with people's labels of some.

    Several people's gains of one document are averaged. Rows of a table without a grade are taken
    as missing by chance.
    """
    frame, rows = frame_of(measure, outcome.rankings), labels.rows
    row = frame.rows_of(rows["query_id"].to_pylist(), rows["doc_id"].to_pylist())
    places = np.flatnonzero(row >= 0)
    row, size = row[places], len(frame.query)
    gains = frame.linear.gains(rows["grade"].to_numpy()[places])
    count = np.bincount(row, minlength=size)
    with np.errstate(invalid="ignore"):
        gain = np.bincount(row, gains, size) / count
    chances = np.full(size, np.nan)
    chances[row] = rows["probability"].to_numpy(zero_copy_only=False)[places]
    if labels.frame is None and labels.unsure:
        chances *= labels.documents / (labels.documents + labels.unsure)
    labelled = Labelled(frame, sizes(frame), gain, chances)
    if refused := _nothing(labelled, labels) or _other_scale(outcome.truth, labels):
        return replace(labelled, refused=refused)
    return _with_way(labelled, labels, outcome.arms)


def _nothing(labelled: Labelled, labels: PeoplesLabels) -> str:
    """Say why no document has a label; empty if one has."""
    if labelled.known:
        return ""
    if labels.ahead:
        return (
            f"the first document that was drawn has no answer yet, and {labels.ahead:,} others "
            "wait for it: zelo-ray label goes on with it"
        )
    if not len(labels.rows):
        return f"no document has a grade ({labels.unsure:,} times: cannot say)"
    return "none of the documents with a label is among the first of any arm"


def _other_scale(truth: Truth, labels: PeoplesLabels) -> str:
    """Say why grades of people and of the panel cannot be compared; empty if they can."""
    top = TOP if truth.kind == "scores" else float(truth.relevance.max(initial=0.0))
    if (top > 1, top > TOP) == (labels.top > 1, labels.top > TOP):
        return ""
    if truth.kind == "scores":
        return (
            f"beside zELO scores people grade from 0 to {TOP}, and these grades go up to "
            f"{labels.top:g}"
        )
    return (
        f"the truth's grades go up to {top:g}, and people's to {labels.top:g}: bring them to one "
        "scale (zelo-ray convert qrels --cut makes grades of scores)"
    )


def _with_way(labelled: Labelled, labels: PeoplesLabels, arms: Sequence[str]) -> Labelled:
    """Add how the labelled documents were chosen, or why their labels cannot correct anything."""
    matters = labelled.size > 0
    if labelled.labelled[matters].all():
        return replace(labelled, way="complete", chances=np.ones(len(matters)))
    if labels.drawn:
        why = _too_few(labelled) or _not_drawn(labelled, labels, arms)
        return replace(labelled, refused=why) if why else replace(labelled, way="drawn")
    query, size = labelled.frame.query, len(labelled.frame.query_ids)
    totals, has = (
        np.bincount(query[rows], minlength=size) for rows in (matters, matters & labelled.labelled)
    )
    if not (has == totals)[has > 0].all():
        why = (
            f"{labelled.known:,} of {matters.sum():,} documents that matter are labelled, without "
            "the probabilities with which they were drawn: if they were not chosen by chance, as "
            "the top of each query, a correction by them would be wrong. zelo-ray label draws "
            "documents; or label whole queries, or all of these documents"
        )
        return replace(labelled, refused=why)
    if (some := int((has > 0).sum())) < FEWEST:
        return replace(labelled, refused=f"whole queries are labelled, but fewer than {FEWEST}")
    chances = np.full(len(matters), some / int((totals > 0).sum()))
    return replace(labelled, way="queries", chances=chances)


def _too_few(labelled: Labelled) -> str:
    """Say that there are too few labels for a correction; empty if there are enough."""
    if labelled.known >= FEWEST_LABELS and labelled.queries >= FEWEST:
        return ""
    labels = counted(labelled.known, "document is labelled", "documents are labelled")
    of = counted(labelled.queries, "query", "queries")
    return f"{labels} in {of}, and a correction takes {FEWEST_LABELS} in {FEWEST}"


def _not_drawn(labelled: Labelled, labels: PeoplesLabels, arms: Sequence[str]) -> str:
    """Say why the labels cannot stand for all documents that matter; empty if they can.

    Weighed by the inverse of their chances, sizes of the labelled documents sum to those of all
    that could be drawn (Horvitz & Thompson 1952), but for chance.
    """
    if labels.frame is None:
        mask = (labelled.size > 0) & labelled.labelled
        size, chance = labelled.size[mask], labelled.chances[mask]
        error = np.sqrt((size**2 * (1 - chance) / chance**2).sum())
        if abs((size / chance).sum() - labelled.size.sum()) <= _UNLIKELY * error:
            return ""
        return (
            "the probabilities do not fit these arms: labels that were drawn with them would stand "
            "for more documents than there are, or for fewer"
        )
    frame, could = labelled.frame, np.zeros(len(labelled.size), np.bool_)
    row = frame.rows_of(*(labels.frame[name].to_pylist() for name in ("query_id", "doc_id")))
    could[row[(row >= 0) & (labels.frame["size"].to_numpy() > 0)]] = True
    lost = (labelled.size > 0) & ~could
    if not lost.any():
        return ""
    whose = [arm for arm, weights in zip(arms, frame.weight, strict=True) if weights[lost].any()]
    return (
        f"{counted(int(lost.sum()), 'document')} among the first of {', '.join(whose[:5])} by "
        f"{frame.measure} could not be drawn: the labels were drawn for other arms or another "
        "measure. For new arms, zelo-ray label --contest with this contest, and --out with these "
        "labels, draws them, too"
    )


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
