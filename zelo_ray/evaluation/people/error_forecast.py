"""Predict the error of a difference by the number of labels."""

from bisect import bisect_left
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import numpy as np

from zelo_ray.evaluation.people.sampling_design import Floats, inclusion_probabilities


@dataclass(frozen=True, slots=True)
class ErrorForecast:
    """The standard error of a difference now, and with more labels."""

    error: float
    """the standard error now"""
    least: float
    """the error with every document labelled, which comes from the differences between queries"""
    most: int
    """the number of documents that a label could help with"""
    labels: int | None
    """labels to add to reach ``aim``; None: see ``never``"""
    aim: float
    never: bool = False
    """whether no number of labels reaches ``aim``; if false without ``labels``, it is still
    unknown"""


def forecast_error(
    values: Floats,
    residuals: Floats,
    chance: Floats,
    size: Floats,
    *,
    predicted: Floats,
    aim: float,
) -> ErrorForecast:
    """Predict the effect of more labels on one difference.

    Its variance is that of the queries plus that of the sampling. The second is estimated from the
    residuals of the labels: a document drawn with probability p adds residual^2 (1 - p) / p, and
    represents 1 / p documents (Horvitz & Thompson 1952, J. Am. Stat. Assoc. 47:663). The rest is
    that of the queries, which few labels estimate badly; the variance of the predictions, which is
    smaller than that of people's own differences, is a second estimate. ``never`` is set only if
    both agree.

    Args:
        values: differences of the corrected metrics, [queries].
        residuals: of each label, times its weight in the difference, [rows]; NaN: no label.
        chance: of each document to be labelled, [rows].
        size: of each document in the sampling design, [rows].
        predicted: differences of the predicted gains, without labels, [queries].
        aim: the standard error to reach.
    """
    queries, labelled = len(values), ~np.isnan(residuals) & (size > 0)
    now = float(values.var(ddof=1)) / queries
    squares, had = residuals[labelled] ** 2, chance[labelled]
    drawn = float((squares * (1 - had) / had**2).sum()) / queries**2
    lower, upper = sorted((max(now - drawn, 0.0), min(now, float(predicted.var(ddof=1)) / queries)))
    labelled_size, documents = size[labelled], int((size > 0).sum())

    def error(labels: int, least: float) -> float:
        then = inclusion_probabilities(labelled_size, expected_threshold(size, labels))
        return float(np.sqrt(least + (squares * (1 - then) / (then * had)).sum() / queries**2))

    labels, more = int(labelled.sum()), None
    never = error(documents, lower) > aim
    if now <= aim**2:
        more = 0
    elif error(documents, upper) <= aim:
        enough = partial(_is_enough, error, upper, aim)
        more = max(1, bisect_left(range(labels, documents), True, key=enough))
    return ErrorForecast(float(np.sqrt(now)), error(documents, upper), documents, more, aim, never)


def _is_enough(error: Callable[[int, float], float], lowest: float, aim: float, n: int) -> bool:
    return error(n, lowest) <= aim


def expected_threshold(size: Floats, labels: int) -> float:
    """Return the threshold that gives a sample of this expected size; 0 if all are in it."""
    ordered = -np.sort(-size[size > 0])
    if labels >= len(ordered):
        return 0.0
    # Of the documents that are not certain to be drawn.
    tail = np.cumsum(ordered[::-1])[::-1][:labels]
    thresholds = tail / (labels - np.arange(labels))
    return float(thresholds[np.argmax(ordered[:labels] <= thresholds)])
