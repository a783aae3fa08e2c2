"""Predict the error of a difference by the number of labels."""

from bisect import bisect_left
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import numpy as np

from zelo_ray.evaluation.people.design import Floats, inclusion


@dataclass(frozen=True, slots=True)
class Outlook:
    """The standard error of a difference now, and what it would be with more labels."""

    error: float
    """now"""
    least: float
    """with every document labelled: what remains is how much queries differ"""
    most: int
    """how many documents that is"""
    labels: int | None
    """more labels that would bring the error to ``aim``; None: see ``never``"""
    aim: float
    never: bool = False
    """whether no number of labels would; else, without ``labels``, it cannot be told yet"""


def outlook(
    values: Floats,
    residuals: Floats,
    chance: Floats,
    size: Floats,
    *,
    predicted: Floats,
    aim: float,
) -> Outlook:
    """Predict what more labels would do for one difference.

    Its variance is that of the queries and that of the draw. The second is estimated from what
    labels corrected: a document drawn with probability p adds rest^2 (1 - p) / p, and stands for
    1 / p such (Horvitz & Thompson 1952, J. Am. Stat. Assoc. 47:663). What is left is that of the
    queries, but a few labels tell it badly; what is foretold scatters less than people's own
    difference does. That labels will not do is said only where both ways say so.

    Args:
        values: differences of the corrected metrics, [queries].
        residuals: what each label corrected, times its weight in the difference, [rows]; NaN: no
            label.
        chance: of each document to be labelled, [rows].
        size: by which the sample is drawn, [rows].
        predicted: differences of what is foretold of people, without their labels, [queries].
        aim: the standard error that is wanted.
    """
    queries, labelled = len(values), ~np.isnan(residuals) & (size > 0)
    now = float(values.var(ddof=1)) / queries
    squares, had = residuals[labelled] ** 2, chance[labelled]
    drawn = float((squares * (1 - had) / had**2).sum()) / queries**2
    lower, upper = sorted((max(now - drawn, 0.0), min(now, float(predicted.var(ddof=1)) / queries)))
    labelled_size, documents = size[labelled], int((size > 0).sum())

    def error(labels: int, least: float) -> float:
        then = inclusion(labelled_size, threshold_for(size, labels))
        return float(np.sqrt(least + (squares * (1 - then) / (then * had)).sum() / queries**2))

    labels, more = int(labelled.sum()), None
    never = error(documents, lower) > aim
    if now <= aim**2:
        more = 0
    elif error(documents, upper) <= aim:
        enough = partial(_is_enough, error, upper, aim)
        more = max(1, bisect_left(range(labels, documents), True, key=enough))
    return Outlook(float(np.sqrt(now)), error(documents, upper), documents, more, aim, never)


def _is_enough(error: Callable[[int, float], float], lowest: float, aim: float, n: int) -> bool:
    return error(n, lowest) <= aim


def threshold_for(size: Floats, labels: int) -> float:
    """Return the threshold with so many documents expected in the sample; 0 where all are."""
    ordered = -np.sort(-size[size > 0])
    if labels >= len(ordered):
        return 0.0
    tail = np.cumsum(ordered[::-1])[::-1][:labels]  # of those that are not sure to be drawn
    thresholds = tail / (labels - np.arange(labels))
    return float(thresholds[np.argmax(ordered[:labels] <= thresholds)])
