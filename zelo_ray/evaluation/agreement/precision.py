"""Precision, recall and F1 of a rater's judgments, with people's as the truth."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from zelo_ray.evaluation.agreement.counts import Counts
from zelo_ray.evaluation.agreement.estimates import estimate, quotient

MEASURES = ("precision", "recall", "f1")


@dataclass(frozen=True, slots=True)
class Precision:
    """One of ``MEASURES`` of one thing that a judge may say, beside the people.

    ``label`` is that thing: a verdict, a grade, or ``>=2`` where grades are binarised there.
    Precision is the share of the ``said`` items of which the judge says so that the people say it
    of, too; recall the share of the ``right`` ones, of which the people do; F1 is their harmonic
    mean. NaN where there is nothing to have a share of. ``low`` and ``high`` are the 95% interval
    over samples of queries.
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


def precisions(
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
        scale: what its categories are together.
        counts: the confusion of the people (rows) and the judge.
        labels: the categories that are wanted, and what they are called.
        resamples: how many samples of queries are drawn.
        seed: all chance follows from it.

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
