"""Correct a bake-off that a panel judged, by people's labels of some of the documents."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from zelo_ray.command_options import BakeoffOptions
from zelo_ray.commands.bakeoff.measure import Measured
from zelo_ray.evaluation.measures import Measure, Truth
from zelo_ray.evaluation.people.corrected import FEWEST as FEWEST_LABELS
from zelo_ray.evaluation.people.corrected import (
    correct_metrics,
    count_deciding_queries,
    metrics_by_panel,
    metrics_by_people,
)
from zelo_ray.evaluation.people.frame import (
    TOP,
    Frame,
    build_frame,
    ideals_by_people,
    on_panel_scale,
    select_correctable,
)
from zelo_ray.evaluation.people.sampling import label_sizes
from zelo_ray.evaluation.ranking import Floats, Ints
from zelo_ray.evaluation.significance import FEWEST, compare_pairs
from zelo_ray.files.labels import PeoplesLabels, ids_in_table
from zelo_ray.files.wording import counted
from zelo_ray.records import Comparison, Estimate, Mean

_UNLIKELY = 5
"""A deviation of more standard errors than this is not chance."""


@dataclass(frozen=True, slots=True)
class Corrected:
    """What people's labels change.

    ``about`` is for the record: counts of labels, and which measures they correct or why none.
    ``values`` are those of the leading measure, [rankers, queries]; ``deciding`` are queries whose
    labels bear on a difference, [rankers, rankers]. Means and comparisons come on top.
    """

    about: dict[str, Any]
    values: Floats
    deciding: Ints
    means: Sequence[Mean] = ()
    comparisons: Sequence[Comparison] = ()


@dataclass(frozen=True, slots=True)
class LabelledFrame:
    """A frame with people's labels, [rows]: NaN where there is no gain, or no known chance.

    ``design``: how the labelled documents were chosen: at random with known probabilities; all; or
    all of some queries, which are taken as a random sample. Without one, ``refused`` says why.
    ``ideal`` is that of people's labels, [queries], if every document has one and it is needed.
    """

    frame: Frame
    size: Floats
    gain: Floats
    chances: Floats
    design: Literal["drawn", "complete", "queries"] | None = None
    refused: str = ""
    ideal: Floats | None = None

    @property
    def name(self) -> str:
        """Return the measure, or what nDCG is if divided by the ideal of the panel's grades."""
        by_panel = self.frame.linear.ideal and self.ideal is None
        return on_panel_scale(self.frame.measure) if by_panel else str(self.frame.measure)

    @property
    def scaled(self) -> Frame:
        """Return the frame, divided by people's ideal where that is known."""
        return self.frame if self.ideal is None else self.frame.divided_by(self.ideal)

    @property
    def labelled(self) -> NDArray[np.bool_]:
        """Return which documents have a label, [rows]."""
        return ~np.isnan(self.gain)

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
        if self.design == "drawn":
            return count_deciding_queries(self.frame, self.labelled)
        count = len(self.frame.query_ids) if self.design == "complete" else self.queries
        return np.full((len(self.frame.weight),) * 2, count)


def join_labels(measured: Measured, measure: Measure, labels: PeoplesLabels) -> LabelledFrame:
    """Return the documents on which a measure depends, with people's labels of some.

    The gains of several people for one document are averaged. Rows without a grade are treated as
    missing at random. If every document has one, nDCG is divided by the ideal of people's labels.
    """
    frame, rows, truth = build_frame(measure, measured.rankings), labels.rows, measured.truth
    row = frame.find_rows(ids_in_table(rows))
    places = np.flatnonzero(row >= 0)
    row, size = row[places], len(frame.query)
    gains = frame.linear.gains(rows["grade"].to_numpy())
    with np.errstate(invalid="ignore"):
        gain = np.bincount(row, gains[places], size) / np.bincount(row, minlength=size)
    chances = np.full(size, np.nan)
    chances[row] = rows["probability"].to_numpy(zero_copy_only=False)[places]
    if labels.frame is None and labels.cannot_say:
        chances *= labels.documents / (labels.documents + labels.cannot_say)
    joined = LabelledFrame(frame, label_sizes(frame), gain, chances)
    if why := _why_none(joined, labels, truth):
        return replace(joined, refused=why)
    joined = with_design(joined, labels, measured.names)
    if not frame.linear.ideal:
        return joined
    ids = ["query_id", "doc_id"]
    table = rows.select(ids).append_column("gain", pa.array(gains))
    means = table.group_by(ids, use_threads=False).aggregate([("gain", "mean")])
    ideal = ideals_by_people(frame, truth, ids_in_table(means), means["gain_mean"].to_numpy())
    return replace(joined, ideal=ideal)


def _why_none(joined: LabelledFrame, labels: PeoplesLabels, truth: Truth) -> str:
    """Say why no label can be compared with the panel's; empty if some can."""
    if not joined.labelled.any():
        if labels.out_of_turn:
            return "the first document of the sample has no label yet: zelo-ray label asks about it"
        some = "none of the labelled documents is among the first of any ranker"
        return some if len(labels.rows) else "there is no label yet"
    is_scores = truth.kind == "scores"
    top = TOP if is_scores else float(truth.relevance.max(initial=0.0))
    if (top > 1, top > TOP) == (labels.highest_grade > 1, labels.highest_grade > TOP):
        return ""
    panel = "scores, which grades from 0 to 3 correct" if is_scores else f"grades up to {top:g}"
    return (
        f"the truth is {panel}, and people's grades go up to {labels.highest_grade:g}: convert "
        "them to one scale (zelo-ray convert qrels --cut turns scores into grades)"
    )


def with_design(
    joined: LabelledFrame, labels: PeoplesLabels, rankers: Sequence[str]
) -> LabelledFrame:
    """Return the same with how the labelled documents were chosen, or why they correct nothing."""
    matters, count = joined.size > 0, int(joined.labelled.sum())
    if joined.labelled[matters].all():
        return replace(joined, design="complete", chances=np.ones(len(matters)))
    if labels.is_random_sample:
        why = _why_no_sample(joined, labels, rankers)
        if count < FEWEST_LABELS or joined.queries < FEWEST:
            why = f"{counted(count, 'label')} in {counted(joined.queries, 'query', 'queries')}: "
            why += f"a correction takes {FEWEST_LABELS} in {FEWEST} queries"
        return replace(joined, refused=why) if why else replace(joined, design="drawn")
    query, size = joined.frame.query, len(joined.frame.query_ids)
    totals, has = (
        np.bincount(query[rows], minlength=size) for rows in (matters, matters & joined.labelled)
    )
    if not (has == totals)[has > 0].all():
        why = (
            f"{has.sum():,} of {matters.sum():,} documents that matter are labelled, with unknown "
            "chances. Were they the top of each query, say, a correction would be wrong: draw "
            "documents with zelo-ray label, or label whole queries, or all of these documents"
        )
        return replace(joined, refused=why)
    if (some := int((has > 0).sum())) < FEWEST:
        return replace(joined, refused=f"fewer than {FEWEST} whole queries are labelled")
    chances = np.full(len(matters), some / int((totals > 0).sum()))
    return replace(joined, design="queries", chances=chances)


def _why_no_sample(joined: LabelledFrame, labels: PeoplesLabels, rankers: Sequence[str]) -> str:
    """Say why the sample does not represent all documents that matter; empty if it does.

    Weighted by their inverse inclusion probabilities, the sizes of the labelled documents add up
    to those of all that could be drawn, except for chance (Horvitz & Thompson 1952).
    """
    frame, matters = joined.frame, joined.size > 0
    if labels.frame is None:
        size, chance = (x[matters & joined.labelled] for x in (joined.size, joined.chances))
        error = np.sqrt((size**2 * (1 - chance) / chance**2).sum())
        if abs((size / chance).sum() - joined.size.sum()) <= _UNLIKELY * error:
            return ""
        return "a sample drawn with these probabilities represents more or fewer documents"
    row = frame.find_rows(ids_in_table(labels.frame))
    drawable = row[(row >= 0) & (labels.frame["size"].to_numpy() > 0)]
    lost = matters.copy()
    lost[drawable] = False
    if not lost.any():
        return ""
    whose = [name for name, row in zip(rankers, frame.weight, strict=True) if row[lost].any()]
    return (
        f"{counted(int(lost.sum()), 'document')} among the first of {', '.join(whose[:5])} by "
        f"{frame.measure} could not be drawn: extend the sample by zelo-ray label with --contest "
        "(this bake-off) and --out (these labels)"
    )


def correct_by_people(
    measured: Measured, labels: PeoplesLabels, options: BakeoffOptions
) -> Corrected:
    """Correct every measure that is linear in the labels, or say why that is impossible."""
    chosen, left_out = select_correctable(measured.measures, scores=measured.truth.kind == "scores")
    tried = {str(measure): join_labels(measured, measure, labels) for measure in chosen}
    used = {joined.name: joined for joined in tried.values() if joined.design}
    left_out |= {name: joined.refused for name, joined in tried.items() if not joined.design}
    if labels.frame is None:  # unknown whether deeper documents could have been drawn
        drawn = [name for name, joined in used.items() if joined.design == "drawn"]
        left_out |= dict.fromkeys(
            (str(used.pop(name).frame.measure) for name in drawn[1:]),
            "it is unknown which other documents could have been drawn",
        )
    leading = next(iter(used.values() or tried.values()))
    about = _describe(labels, leading, used) | {"left_out": left_out}
    if not used:
        return Corrected(about, np.zeros((0, 0)), np.zeros((0, 0), np.int64))
    values, first = _compute_estimates(measured, used), next(iter(used))
    deciding = {name: joined.deciding_queries for name, joined in used.items()}
    comparisons = [
        row
        for estimate, tables in values.items()
        for row in compare_pairs(
            {n: np.where(measured.answered, table, np.nan) for n, table in tables.items()},
            measured.names,
            confidence=options.confidence,
            labelled=None if estimate == "graded" else deciding,
            estimate=estimate,
        )
    ]
    above = dict.fromkeys(measured.names, 0.0)  # the sum of differences to the others
    for row in comparisons:
        if (row.estimate, row.measure) == ("corrected", first) and row.queries:
            above[row.run_a] += row.difference
            above[row.run_b] -= row.difference
    about["leader"] = max(above, key=lambda ranker: above[ranker])
    means = [*_means(measured.names, values)]
    return Corrected(about, values["corrected"][first], deciding[first], means, comparisons)


def _describe(
    labels: PeoplesLabels, leading: LabelledFrame, used: Mapping[str, LabelledFrame]
) -> dict[str, Any]:
    """Return what the record says of labels: counts, design, and what they correct."""
    answers = labels.documents + labels.cannot_say + labels.out_of_turn
    return {
        "labels": int(leading.labelled.sum()),
        "persons": len({*labels.rows["person"].to_pylist()} - {""}),
        "cannot_say": labels.cannot_say,
        "stages": labels.stages,
        "waiting": max(0, labels.sample_size - answers),
        "design": leading.design if used else None,
        "queries": leading.queries,
        "refused": "" if used else leading.refused,
        "measures": [*used],
        "on_panel_scale": {
            name: str(joined.frame.measure)
            for name, joined in used.items()
            if name != str(joined.frame.measure)
        },
    }


_Values = dict[Estimate, dict[str, Floats]]


def _compute_estimates(measured: Measured, used: Mapping[str, LabelledFrame]) -> _Values:
    """Compute the metrics, [rankers, queries], by estimate and measure."""
    values: _Values = {"graded": {}, "people": {}, "corrected": {}}
    for name, joined in used.items():
        labels = joined.scaled, joined.gain, joined.chances
        whole_queries = joined.design == "queries"
        values["corrected"][name] = correct_metrics(*labels, whole_queries=whole_queries)
        values["people"][name] = metrics_by_people(*labels)
        if measured.truth.kind == "scores" or name not in measured.values:
            # The panel's measures use scores, or lack this one: compute it of the panel, too.
            values["graded"][name] = metrics_by_panel(joined.frame)
    return values


def _means(rankers: Sequence[str], values: _Values) -> Iterator[Mean]:
    """Yield means. They have no intervals: where rankers agree, only the panel labelled."""
    for estimate in ("graded", "corrected"):
        for name, table in values[estimate].items():
            for ranker, row in zip(rankers, table, strict=True):
                mean = float(row.mean())
                yield Mean(ranker, name, mean, np.nan, np.nan, len(row), estimate)
