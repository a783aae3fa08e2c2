"""Sample documents for people to label, by how much a label could change a difference.

Priority sampling (Duffield, Lund & Thorup 2007, J. ACM 54:32): each document has a size and a
uniform random number of its own, and its priority is size / number. The first n by priority are a
sample of n. Given the next priority, the threshold t, a document is in it with probability
min(1, size / t), independently (Ting 2017, arXiv 1708.04970), so weights of 1 over this probability
give unbiased sums. A larger sample contains every smaller one.
"""

import hashlib
from collections.abc import Iterable

import numpy as np

from zelo_ray.evaluation.people.frame import Frame
from zelo_ray.evaluation.ranking import Floats


def label_sizes(frame: Frame) -> Floats:
    """Return how much a label could change a difference of two rankers, [rows].

    It is the largest possible change; if above 0, at least a quarter of the mean, so that no weight
    becomes too large.
    """
    answered = frame.answered[:, frame.query]
    high = np.where(answered, frame.weight, -np.inf).max(axis=0)
    low = np.where(answered, frame.weight, np.inf).min(axis=0)
    sizes = np.where(answered.sum(axis=0) > 1, high - low, 0.0)
    counts = sizes > 0
    if counts.any():
        sizes[counts] = np.maximum(sizes[counts], 0.25 * sizes[counts].mean())
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
