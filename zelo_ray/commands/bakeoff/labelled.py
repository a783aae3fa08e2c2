"""People's labels beside the documents of a contest, and how these came to have them."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from zelo_ray.commands.bakeoff.outcome import Floats, Outcome, Way
from zelo_ray.evaluation.measures import Measure
from zelo_ray.evaluation.people.corrected import FEWEST as FEWEST_LABELS
from zelo_ray.evaluation.people.frame import Frame, frame_of, sizes
from zelo_ray.evaluation.significance import FEWEST
from zelo_ray.formats.labels import PeoplesLabels
from zelo_ray.formats.wording import counted

_UNLIKELY = 5
"""Standard errors that are not chance."""


@dataclass(frozen=True, slots=True)
class Labelled:
    """A frame with what people said of it, [rows]."""

    frame: Frame
    size: Floats
    gain: Floats
    """NaN where there is no label"""
    chance: Floats
    """of being labelled, NaN where it is not known"""


def labelled_in(outcome: Outcome, measure: Measure, labels: PeoplesLabels) -> Labelled:
    """Several people's gains of one document are averaged."""
    frame = frame_of(measure, outcome.rankings)
    columns = labels.rows
    row = frame.rows_of(columns["query_id"].to_pylist(), columns["doc_id"].to_pylist())
    here = np.flatnonzero(row >= 0)
    row, size = row[here], len(frame.query)
    gains = frame.linear.gains(columns["grade"].to_numpy()[here])
    count = np.bincount(row, minlength=size)
    with np.errstate(invalid="ignore"):
        gain = np.bincount(row, gains, size) / count
    chance = np.full(size, np.nan)
    chance[row] = columns["probability"].to_numpy(zero_copy_only=False)[here]
    return Labelled(frame, sizes(frame), gain, chance)


def way_of(
    labelled: Labelled, labels: PeoplesLabels, arms: Sequence[str]
) -> tuple[Way | None, str]:
    """How documents came to have labels; or why nothing can be corrected by them."""
    matters, known = labelled.size > 0, ~np.isnan(labelled.gain)
    if known[matters].all():
        return "complete", ""
    if labels.drawn:
        why = _too_few(known) or _not_drawn(labelled, labels, arms)
        return (None, why) if why else ("drawn", "")
    query, size = labelled.frame.query, len(labelled.frame.query_ids)
    whole, has = (np.bincount(query[rows], minlength=size) for rows in (matters, matters & known))
    if not (has == whole)[has > 0].all():
        return None, (
            f"{known.sum():,} of {matters.sum():,} documents that matter are labelled, without the "
            "probabilities with which they were drawn: if they were not chosen by chance, as the "
            "top of each query, a correction by them would be wrong. zelo-ray label draws "
            "documents; or label whole queries, or all of these documents"
        )
    if (has > 0).sum() < FEWEST:
        return None, f"whole queries are labelled, but fewer than {FEWEST}"
    return "queries", ""


def _too_few(known: NDArray[np.bool_]) -> str:
    """A few labels that find the panel right do not show how often it is wrong."""
    if (few := int(known.sum())) >= FEWEST_LABELS:
        return ""
    labels = counted(few, "document is labelled", "documents are labelled")
    return f"{labels}, and a correction takes {FEWEST_LABELS}"


def _not_drawn(labelled: Labelled, labels: PeoplesLabels, arms: Sequence[str]) -> str:
    """Why labels cannot stand for all documents that matter; empty if they can.

    Weighed by the inverse of their chances, sizes of the labelled documents sum to those of all
    that could be drawn (Horvitz & Thompson 1952), but for chance.
    """
    if labels.frame is None:
        known = (labelled.size > 0) & ~np.isnan(labelled.gain)
        size, chance = labelled.size[known], labelled.chance[known]
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
    whose = [arm for arm, own in zip(arms, frame.weight, strict=True) if own[lost].any()]
    return (
        f"{counted(int(lost.sum()), 'document')} among the first of {', '.join(whose[:5])} could "
        "not be drawn, as the labels were drawn for other arms: zelo-ray label --contest with "
        "this contest, and --out with these labels, draws them, too"
    )


def chances_of(labelled: Labelled, way: Way) -> Floats:
    """The chance of each document to be labelled, [rows]; NaN where it is not known."""
    if way == "drawn":
        return labelled.chance
    if way == "complete":
        return np.ones(len(labelled.gain))
    query = labelled.frame.query
    some, of_all = (
        len(np.unique(query[rows]))
        for rows in ((labelled.size > 0) & ~np.isnan(labelled.gain), labelled.size > 0)
    )
    return np.full(len(labelled.gain), some / of_all)
