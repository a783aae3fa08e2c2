"""Compute precision, recall and F1 of a rater's judgments, with people's as the truth."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from zelo_ray.evaluation.agreement.counts import Counts
from zelo_ray.evaluation.agreement.estimates import estimate, quotient

MEASURES = ("precision", "recall", "f1")


@dataclass(frozen=True, slots=True)
class Precision:
    """One of ``MEASURES`` of a judge for one label, with people as the truth.

    ``label`` is a verdict, a grade, or ``>=2`` where grades are binarised at 2. Precision is the
    share of the ``said`` items, to which the judge gives the label, to which people give it, too;
    recall is the share of the ``right`` items, to which people give it, to which the judge does; F1
    is their harmonic mean. NaN where the share is of no items. ``low`` and ``high`` are the 95%
    interval over samples of queries.
    """

    judge: str
    scale: str
    label: str
    measure: str
    value: float
    low: float
    high: float
    said: int
    right: int
    items: int
    queries: int


def compute_precision(
    judge: str,
    scale: str,
    counts: Counts,
    labels: dict[int, str],
    *,
    resamples: int,
    seed: int,
) -> Iterator[Precision]:
    """Measure a judge's precision, recall and F1 for some labels.

    Args:
        judge: its name.
        scale: the name of the scale.
        counts: the confusion of the people (rows) and the judge.
        labels: the categories to measure, with their names.
        resamples: how many samples of queries are drawn.
        seed: of the samples.

    Yields:
        By label and measure.
    """
    confusion = counts.tables["confusion"]
    for place, label in labels.items():
        hits = confusion[:, place, place]
        predicted, right = confusion[:, :, place].sum(axis=1), confusion[:, place].sum(axis=1)
        parts = {
            "precision": (hits, predicted),
            "recall": (hits, right),
            "f1": (2 * hits, predicted + right),
        }
        for measure in MEASURES:
            table = np.stack(parts[measure], axis=1)
            mask = np.ones(len(table), dtype=bool)
            ratio = estimate(table, mask, quotient, resamples=resamples, seed=seed)
            ends = (ratio.value, ratio.low, ratio.high)
            sizes = (round(float(predicted.sum())), round(float(right.sum())))
            yield Precision(
                judge, scale, label, measure, *ends, *sizes, counts.items, counts.queries
            )
