"""Correct a bake-off that a panel judged, by people's labels of some of the documents."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from math import isnan

import numpy as np
import pyarrow as pa
import scipy
from numpy.typing import NDArray

from zelo_ray.command_options import BakeoffOptions
from zelo_ray.commands.bakeoff.outcome import (
    BakeoffOutcome,
    Corrections,
    Floats,
    LabelForecast,
    SampleDesign,
)
from zelo_ray.commands.bakeoff.significance import ALPHA
from zelo_ray.commands.label.people_agreement import compare_people, describe_agreement
from zelo_ray.evaluation.measures import Measure, Truth
from zelo_ray.evaluation.people.corrected import FEWEST as FEWEST_LABELS
from zelo_ray.evaluation.people.corrected import (
    correct_metrics,
    count_deciding_queries,
    metrics_by_panel,
    metrics_by_people,
    predict_gains,
)
from zelo_ray.evaluation.people.frame import (
    TOP,
    Frame,
    build_frame,
    ideals_by_people,
    label_sizes,
    on_panel_scale,
    select_correctable,
)
from zelo_ray.evaluation.people.sampling import forecast_error
from zelo_ray.evaluation.ranking import Ints
from zelo_ray.evaluation.significance import FEWEST, compare_pairs
from zelo_ray.files.labels import PeoplesLabels, ids_in_table
from zelo_ray.files.wording import counted
from zelo_ray.records import Comparison, Estimate, Mean

_UNLIKELY = 5
"""A deviation of more standard errors than this is not chance."""


@dataclass(frozen=True, slots=True)
class LabelledFrame:
    """A frame with people's labels, [rows]. If ``way`` is None they cannot correct anything."""

    frame: Frame
    size: Floats
    gain: Floats
    """NaN where there is no label"""
    chances: Floats
    """inclusion probabilities; NaN where they are unknown"""
    way: SampleDesign | None = None
    refused: str = ""
    """why ``way`` is None"""
    ideal: Floats | None = None
    """that of people's labels, [queries], if every document has one and the measure needs it"""

    @property
    def name(self) -> str:
        """Return the measure, or what nDCG is if divided by the ideal of the panel's grades."""
        of_panel = self.frame.linear.ideal and self.ideal is None
        return on_panel_scale(self.frame.measure) if of_panel else str(self.frame.measure)

    @property
    def scaled(self) -> Frame:
        """Return the frame, divided by people's ideal where that is known."""
        return self.frame if self.ideal is None else self.frame.divided_by(self.ideal)

    @property
    def labelled(self) -> NDArray[np.bool_]:
        """Return which documents have a label, [rows]."""
        return ~np.isnan(self.gain)

    @property
    def label_count(self) -> int:
        """Count the documents that have a label."""
        return int(self.labelled.sum())

    @property
    def queries(self) -> int:
        """Count the queries that have a label of a document that matters."""
        return len(np.unique(self.frame.query[self.labelled & (self.size > 0)]))

    @property
    def deciding_queries(self) -> Ints:
        """Count the queries whose labels bear on the difference of two rankers: [rankers, rankers].

        If everything, or whole queries, is labelled, each query counts, also where two rankers are
        alike.
        """
        rankers = len(self.frame.weight)
        if self.way == "drawn":
            return count_deciding_queries(self.frame, self.labelled)
        count = len(self.frame.query_ids) if self.way == "complete" else self.queries
        return np.full((rankers, rankers), count)


def join_labels(outcome: BakeoffOutcome, measure: Measure, labels: PeoplesLabels) -> LabelledFrame:
    """Return the documents on which a measure depends, with people's labels of some.

    The gains of several people for one document are averaged. Rows without a grade are treated as
    missing at random. If every document has one, nDCG is divided by the ideal of people's labels.
    """
    frame, rows = build_frame(measure, outcome.rankings), labels.rows
    row = frame.rows_of(rows["query_id"].to_pylist(), rows["doc_id"].to_pylist())
    places = np.flatnonzero(row >= 0)
    row, size = row[places], len(frame.query)
    gains = frame.linear.gains(rows["grade"].to_numpy()[places])
    count = np.bincount(row, minlength=size)
    with np.errstate(invalid="ignore"):
        gain = np.bincount(row, gains, size) / count
    chances = np.full(size, np.nan)
    chances[row] = rows["probability"].to_numpy(zero_copy_only=False)[places]
    if labels.frame is None and labels.cannot_say:
        chances *= labels.documents / (labels.documents + labels.cannot_say)
    labelled = LabelledFrame(frame, label_sizes(frame), gain, chances)
    if refused := _explain_no_labels(labelled, labels) or _explain_scale(outcome.truth, labels):
        return replace(labelled, refused=refused)
    labelled = _set_design(labelled, labels, outcome.ranker_names)
    if not frame.linear.ideal:
        return labelled
    return replace(labelled, ideal=_ideals_by_people(frame, outcome.truth, labels))


def _ideals_by_people(frame: Frame, truth: Truth, labels: PeoplesLabels) -> Floats | None:
    """Return the ideals of people's labels, [queries]; None where a document lacks a label."""
    rows, ids = labels.rows, ["query_id", "doc_id"]
    gains = pa.array(frame.linear.gains(rows["grade"].to_numpy()))
    means = rows.select(ids).append_column("gain", gains).group_by(ids, use_threads=False)
    labelled = means.aggregate([("gain", "mean")])
    return ideals_by_people(frame, truth, ids_in_table(labelled), labelled["gain_mean"].to_numpy())


def _explain_no_labels(labelled: LabelledFrame, labels: PeoplesLabels) -> str:
    """Say why no document of the frame has a label; empty if one has."""
    if labelled.label_count:
        return ""
    if labels.out_of_turn:
        return (
            f"the first document of the sample has no label yet, and "
            f"{labels.out_of_turn:,} later ones "
            "count only with it: zelo-ray label asks about it next"
        )
    if not len(labels.rows):
        return "people could not say of any document" if labels.cannot_say else "no label yet"
    return "none of the labelled documents is among the first of any ranker"


def _explain_scale(truth: Truth, labels: PeoplesLabels) -> str:
    """Say why grades of people and of the panel are not comparable; empty if they are."""
    top = TOP if truth.kind == "scores" else float(truth.relevance.max(initial=0.0))
    if (top > 1, top > TOP) == (labels.highest_grade > 1, labels.highest_grade > TOP):
        return ""
    if truth.kind == "scores":
        return (
            f"the truth is zELO scores, which grades from 0 to {TOP} correct, but these grades go "
            f"up to {labels.highest_grade:g}"
        )
    return (
        f"the truth's grades go up to {top:g}, and people's to {labels.highest_grade:g}: "
        "convert them to "
        "one scale (zelo-ray convert qrels --cut turns scores into grades)"
    )


def _set_design(
    labelled: LabelledFrame, labels: PeoplesLabels, rankers: Sequence[str]
) -> LabelledFrame:
    """Set how the labelled documents were chosen, or why they cannot correct anything."""
    matters = labelled.size > 0
    if labelled.labelled[matters].all():
        return replace(labelled, way="complete", chances=np.ones(len(matters)))
    if labels.is_random_sample:
        why = _too_few(labelled) or _explain_sample(labelled, labels, rankers)
        return replace(labelled, refused=why) if why else replace(labelled, way="drawn")
    query, size = labelled.frame.query, len(labelled.frame.query_ids)
    totals, has = (
        np.bincount(query[rows], minlength=size) for rows in (matters, matters & labelled.labelled)
    )
    if not (has == totals)[has > 0].all():
        why = (
            f"{has.sum():,} of {matters.sum():,} documents that matter are labelled, "
            "without "
            "known inclusion probabilities: if they were not drawn at random, but are, say, the "
            "top of each query, a correction by them would be wrong. Draw documents with zelo-ray "
            "label, or label whole queries, or all of these documents"
        )
        return replace(labelled, refused=why)
    if (some := int((has > 0).sum())) < FEWEST:
        return replace(labelled, refused=f"fewer than {FEWEST} whole queries are labelled")
    chances = np.full(len(matters), some / int((totals > 0).sum()))
    return replace(labelled, way="queries", chances=chances)


def _too_few(labelled: LabelledFrame) -> str:
    """Say that there are too few labels for a correction; empty if there are enough."""
    if labelled.label_count >= FEWEST_LABELS and labelled.queries >= FEWEST:
        return ""
    labels = counted(labelled.label_count, "document is labelled", "documents are labelled")
    of = counted(labelled.queries, "query", "queries")
    return f"{labels} in {of}; a correction takes {FEWEST_LABELS} documents in {FEWEST} queries"


def _explain_sample(labelled: LabelledFrame, labels: PeoplesLabels, rankers: Sequence[str]) -> str:
    """Say why the sample does not represent all documents that matter; empty if it does.

    Weighted by their inverse inclusion probabilities, the sizes of the labelled documents add up
    to those of all that could be drawn, except for chance (Horvitz & Thompson 1952).
    """
    if labels.frame is None:
        mask = (labelled.size > 0) & labelled.labelled
        size, chance = labelled.size[mask], labelled.chances[mask]
        error = np.sqrt((size**2 * (1 - chance) / chance**2).sum())
        if abs((size / chance).sum() - labelled.size.sum()) <= _UNLIKELY * error:
            return ""
        return (
            "the inclusion probabilities do not fit these rankers: a sample drawn with them would "
            "represent more documents than there are, or fewer"
        )
    frame, could = labelled.frame, np.zeros(len(labelled.size), np.bool_)
    row = frame.rows_of(*(labels.frame[name].to_pylist() for name in ("query_id", "doc_id")))
    could[row[(row >= 0) & (labels.frame["size"].to_numpy() > 0)]] = True
    lost = (labelled.size > 0) & ~could
    if not lost.any():
        return ""
    whose = [
        ranker for ranker, weights in zip(rankers, frame.weight, strict=True) if weights[lost].any()
    ]
    return (
        f"{counted(int(lost.sum()), 'document')} among the first of {', '.join(whose[:5])} by "
        f"{frame.measure} could not be drawn: the sample was drawn for other rankers or another "
        "measure. To extend it to new rankers, run zelo-ray label with --contest (this bake-off) "
        "and --out (these labels)"
    )


_Values = Mapping[Estimate, Mapping[str, Floats]]


def correct_by_people(
    outcome: BakeoffOutcome, labels: PeoplesLabels, options: BakeoffOptions
) -> Corrections:
    """Correct every measure that is linear in the labels, or say why that is impossible."""
    chosen, left_out = select_correctable(outcome.measures, scores=outcome.truth.kind == "scores")
    tried = {str(measure): join_labels(outcome, measure, labels) for measure in chosen}
    by_measure = {labelled.name: labelled for labelled in tried.values() if labelled.way}
    left_out |= {name: labelled.refused for name, labelled in tried.items() if not labelled.way}
    if labels.frame is None:  # unknown whether deeper documents could have been drawn
        drawn = [name for name, labelled in by_measure.items() if labelled.way == "drawn"]
        left_out |= dict.fromkeys(
            (str(by_measure[name].frame.measure) for name in drawn[1:]),
            "it is unknown which other documents could have been drawn",
        )
        by_measure = {
            name: labelled for name, labelled in by_measure.items() if name not in drawn[1:]
        }
    leading = next(iter(by_measure.values() or tried.values()))
    about = Corrections(
        labels=leading.label_count,
        persons=len({*labels.rows["person"].to_pylist()} - {""}),
        strangers=labels.documents - leading.label_count,
        unsure=labels.cannot_say,
        ahead=labels.out_of_turn,
        stages=labels.stages,
        waiting=max(
            0, labels.sample_size - labels.out_of_turn - labels.documents - labels.cannot_say
        ),
        between=(*describe_agreement(compare_people(labels.rows, labels.highest_grade)),),
        queries=leading.queries,
        left_out=left_out,
    )
    if not by_measure:
        return replace(about, refused=leading.refused)
    values = _compute_estimates(outcome, by_measure)
    telling = {name: labelled.deciding_queries for name, labelled in by_measure.items()}
    comparisons = _compare_estimates(outcome, values, telling, options)
    first = next(iter(by_measure))
    leader = _leader(outcome.ranker_names, comparisons, first)
    forecasts = list[LabelForecast]()
    if leading.way == "drawn":
        rows = [row for row in comparisons if (row.estimate, row.measure) == ("corrected", first)]
        metrics = values["corrected"][first]
        forecasts = [
            *_forecasts(
                leading, telling[first], outcome.ranker_names, leader, rows, metrics=metrics
            )
        ]
    return replace(
        about,
        way=leading.way,
        measures=tuple(by_measure),
        on_panel_scale={
            name: str(labelled.frame.measure)
            for name, labelled in by_measure.items()
            if name != str(labelled.frame.measure)
        },
        leader=leader,
        values=values["corrected"][first],
        telling=telling[first],
        means=[*_means(outcome.ranker_names, values)],
        comparisons=comparisons,
        forecasts=forecasts,
    )


def _compute_estimates(outcome: BakeoffOutcome, by_measure: Mapping[str, LabelledFrame]) -> _Values:
    """Compute the metrics, [rankers, queries], by estimate and measure."""
    values: dict[Estimate, dict[str, Floats]] = {"graded": {}, "people": {}, "corrected": {}}
    for name, labelled in by_measure.items():
        labels = labelled.scaled, labelled.gain, labelled.chances
        together = labelled.way == "queries"
        values["corrected"][name] = correct_metrics(*labels, whole_queries=together)
        values["people"][name] = metrics_by_people(*labels)
        if outcome.truth.kind == "scores" or name not in outcome.values:
            # The panel's measures use scores, or lack this one: compute it of the panel, too.
            values["graded"][name] = metrics_by_panel(labelled.frame)
    return values


def _compare_estimates(
    outcome: BakeoffOutcome, values: _Values, telling: Mapping[str, Ints], options: BakeoffOptions
) -> list[Comparison]:
    comparisons = list[Comparison]()
    for estimate, tables in values.items():
        common = {name: np.where(outcome.answered, of, np.nan) for name, of in tables.items()}
        comparisons += compare_pairs(
            common,
            outcome.ranker_names,
            confidence=options.confidence,
            labelled=None if estimate == "graded" else telling,
            estimate=estimate,
        )
    return comparisons


def _means(rankers: Sequence[str], values: _Values) -> Iterator[Mean]:
    """Yield means. They have no intervals: where rankers agree, only the panel labelled."""
    for estimate in ("graded", "corrected"):
        for name, table in values[estimate].items():
            for ranker, row in zip(rankers, table, strict=True):
                mean = float(row.mean())
                yield Mean(ranker, name, mean, np.nan, np.nan, len(row), estimate)


def _leader(rankers: Sequence[str], comparisons: Sequence[Comparison], measure: str) -> str:
    """Return the ranker with the largest sum of differences to the others."""
    above = dict.fromkeys(rankers, 0.0)
    for row in comparisons:
        if (row.estimate, row.measure) == ("corrected", measure) and row.queries:
            above[row.run_a] += row.difference
            above[row.run_b] -= row.difference
    return max(above, key=lambda ranker: above[ranker])


def _forecasts(
    labelled: LabelledFrame,
    telling: Ints,
    rankers: Sequence[str],
    leader: str,
    corrected: Sequence[Comparison],
    *,
    metrics: Floats,
) -> Iterator[LabelForecast]:
    """Yield forecasts of the labels that make a difference to the leader significant.

    It is assumed that the difference stays as it is, and that Holm's correction is at its
    strictest. Rankers whose difference too few labels bear on are left out.
    """
    frame, place = labelled.scaled, {ranker: i for i, ranker in enumerate(rankers)}
    guess = predict_gains(frame, labelled.gain)
    residual = labelled.gain - guess
    for row in corrected:
        if leader not in (row.run_a, row.run_b) or isnan(row.low):
            continue
        a, b = place[row.run_a], place[row.run_b]
        sure = float(scipy.special.stdtrit(telling[a, b] - 1, 1 - ALPHA / 2 / len(corrected)))
        answered = frame.answered[a] & frame.answered[b]
        weight = np.where(answered[frame.query], frame.weight[a] - frame.weight[b], 0.0)
        forecast = forecast_error(
            (metrics[a] - metrics[b])[answered],
            weight * residual,
            labelled.chances,
            labelled.size,
            predicted=frame.by_query((weight * guess)[np.newaxis])[0, answered],
            aim=abs(row.difference) / sure,
        )
        yield LabelForecast(row.run_a, row.run_b, row.measure, forecast)
