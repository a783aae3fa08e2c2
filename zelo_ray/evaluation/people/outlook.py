"""What more labels would bring: the error of a difference by how many of them there are."""

from bisect import bisect_left
from dataclasses import dataclass

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
    """more labels that would bring the error to ``aim``; None: no number of them would"""
    aim: float


def outlook(
    values: Floats,
    rest: Floats,
    chance: Floats,
    size: Floats,
    aim: float,
) -> Outlook:
    """Tell what more labels would do for one difference.

    Its variance is that of the queries and that of the draw. The second is estimated from what
    labels corrected: a document drawn with probability p adds rest^2 (1 - p) / p, and stands for
    1 / p such (Horvitz & Thompson 1952, J. Am. Stat. Assoc. 47:663).

    Args:
        values: differences of the corrected metrics, [queries].
        rest: what each label corrected, times its weight in the difference, [rows]; NaN: no label.
        chance: of each document to be labelled, [rows].
        size: by which the sample is drawn, [rows].
        aim: the standard error that is wanted.
    """
    queries, known = len(values), ~np.isnan(rest) & (size > 0)
    now = float(values.var(ddof=1)) / queries
    squares, had = rest[known] ** 2, chance[known]
    drawn = float((squares * (1 - had) / had**2).sum()) / queries**2
    # at least as much as the queries would leave if they were all that differs
    least = max(now - drawn, 0.1 * now)
    known_size, many = size[known], int((size > 0).sum())

    def error(labels: int) -> float:
        then = inclusion(known_size, threshold_for(size, labels))
        return float(np.sqrt(least + (squares * (1 - then) / (then * had)).sum() / queries**2))

    labels = int(known.sum())
    if now <= aim**2:
        more: int | None = 0
    elif error(many) > aim:
        more = None
    else:
        enough = bisect_left(range(labels, many), True, key=lambda n: error(n) <= aim)
        more = max(1, enough)
    return Outlook(float(np.sqrt(now)), error(many), many, more, aim)


def threshold_for(size: Floats, labels: int) -> float:
    """The threshold at which so many documents are expected in the sample; 0 where all are."""
    ordered = -np.sort(-size[size > 0])
    if labels >= len(ordered):
        return 0.0
    rest = np.cumsum(ordered[::-1])[::-1][:labels]  # of those that are not sure to be drawn
    thresholds = rest / (labels - np.arange(labels))
    return float(thresholds[np.argmax(ordered[:labels] <= thresholds)])
