"""Sample documents for people to label, by how much a label could change a difference.

Priority sampling (Duffield, Lund & Thorup 2007, J. ACM 54:32): each document has a size and a
uniform random number of its own, and its priority is size / number. The first n by priority are a
sample of n. Given the next priority, the threshold t, a document is in it with probability
min(1, size / t), independently (Ting 2017, arXiv 1708.04970), so weights of 1 over this probability
give unbiased sums. A larger sample contains every smaller one.
"""

import hashlib
from bisect import bisect_left
from collections.abc import Iterable

import numpy as np

from zelo_ray.evaluation.people.frame import Frame
from zelo_ray.evaluation.ranking import Floats


def label_sizes(frame: Frame, floor: float = 0.25) -> Floats:
    """Return how much a label could change a difference of two rankers, [rows].

    It is the largest possible change; if above 0, at least ``floor`` of the mean, so that no weight
    becomes too large.
    """
    answered = frame.answered[:, frame.query]
    high = np.where(answered, frame.weight, -np.inf).max(axis=0)
    low = np.where(answered, frame.weight, np.inf).min(axis=0)
    sizes = np.where(answered.sum(axis=0) > 1, high - low, 0.0)
    counts = sizes > 0
    if counts.any():
        sizes[counts] = np.maximum(sizes[counts], floor * sizes[counts].mean())
    return sizes


def priorities(query_ids: Iterable[str], doc_ids: Iterable[str], size: Floats, seed: int) -> Floats:
    """Return the documents' priorities, [rows]: the highest are drawn first; 0 for a size of 0.

    A document of a query has the same random number, in (0, 1], in every bake-off.
    """
    numbers = list[float]()
    for query_id, doc_id in zip(query_ids, doc_ids, strict=True):
        text = f"{seed}:{len(query_id)}:{query_id}:{doc_id}"
        digest = hashlib.sha256(text.encode()).digest()
        numbers.append((int.from_bytes(digest[:8]) // 2**11 + 1) / 2.0**53)
    return np.asarray(size / np.array(numbers, dtype=np.float64))


def sample_threshold(priority: Floats, labels: int) -> float:
    """Return the highest priority outside a sample of so many documents; 0 if all are in it."""
    if labels >= np.count_nonzero(priority):
        return 0.0
    return float(np.sort(priority)[-labels - 1])


def inclusion_probabilities(size: Floats, threshold: float) -> Floats:
    """Return each document's chance of a priority above a threshold; 0 where all are drawn."""
    if threshold <= 0:
        return (size > 0).astype(np.float64)
    return np.minimum(1.0, size / threshold)


def expected_threshold(size: Floats, labels: int) -> float:
    """Return the threshold that gives a sample of this expected size; 0 if all are in it."""
    ordered = -np.sort(-size[size > 0])
    if labels >= len(ordered):
        return 0.0
    # Of the documents that are not certain to be drawn.
    tail = np.cumsum(ordered[::-1])[::-1][:labels]
    thresholds = tail / (labels - np.arange(labels))
    return float(thresholds[np.argmax(ordered[:labels] <= thresholds)])


def forecast_labels(
    values: Floats,
    residuals: Floats,
    chance: Floats,
    size: Floats,
    *,
    predicted: Floats,
    aim: float,
) -> tuple[int | None, bool]:
    """Return how many more labels bring the standard error of a difference to ``aim``.

    ``values`` are the corrected difference and ``predicted`` that of the predicted gains,
    [queries]. Of each document, [rows], are given the residual of its label times its weight in the
    difference (NaN: no label), its chance to be labelled, and its size in the sampling design.

    The variance is that of the queries plus that of the sampling. The second is estimated from the
    residuals of the labels: a document drawn with probability p adds residual^2 (1 - p) / p, and
    represents 1 / p documents (Horvitz & Thompson 1952, J. Am. Stat. Assoc. 47:663). The rest is
    that of the queries, which few labels estimate badly; the variance of the predictions, which is
    smaller than that of people's own differences, is a second estimate.

    Returns:
        The number, None if it is unknown or there is none; and whether no number of labels will do,
        by both estimates.
    """
    queries, labelled = len(values), ~np.isnan(residuals) & (size > 0)
    now = float(values.var(ddof=1)) / queries
    squares, had = residuals[labelled] ** 2, chance[labelled]
    drawn = float((squares * (1 - had) / had**2).sum()) / queries**2
    lower, upper = sorted((max(now - drawn, 0.0), min(now, float(predicted.var(ddof=1)) / queries)))
    labels, documents = int(labelled.sum()), int((size > 0).sum())

    def error(labels: int, least: float) -> float:
        then = inclusion_probabilities(size[labelled], expected_threshold(size, labels))
        return float(np.sqrt(least + (squares * (1 - then) / (then * had)).sum() / queries**2))

    never = error(documents, lower) > aim
    if now <= aim**2:
        return 0, never
    if error(documents, upper) > aim:
        return None, never
    counts = range(labels, documents)
    return max(1, bisect_left(counts, True, key=lambda n: error(n, upper) <= aim)), never
