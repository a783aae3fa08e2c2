"""People's labels beside the documents of a contest, and how these came to have them."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from zelo_ray.commands.bakeoff.outcome import BakeoffOutcome, Floats, Way
from zelo_ray.evaluation.measures import Measure, Truth
from zelo_ray.evaluation.people.corrected import FEWEST as FEWEST_LABELS
from zelo_ray.evaluation.people.frame import TOP, Frame, Ints, frame_of, sizes
from zelo_ray.evaluation.significance import FEWEST
from zelo_ray.formats.labels import PeoplesLabels
from zelo_ray.formats.wording import counted

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
