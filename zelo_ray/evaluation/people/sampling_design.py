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
from numpy.typing import NDArray

Floats = NDArray[np.float64]

_STEPS = 2.0**53


def priorities(query_ids: Iterable[str], doc_ids: Iterable[str], size: Floats, seed: int) -> Floats:
    """Return the documents' priorities for a sample, the highest first; 0 for a size of 0.

    Args:
        query_ids: of shape [rows].
        doc_ids: of shape [rows]; a document of a query has the same number in every bake-off.
        size: of shape [rows], not negative.
        seed: of the random numbers.

    Returns:
        Of shape [rows].
    """
    chances = [_chance(seed, *ids) for ids in zip(query_ids, doc_ids, strict=True)]
    priority: Floats = size / np.array(chances, dtype=np.float64)
    return priority


def inclusion_probabilities(size: Floats, threshold: float) -> Floats:
    """Return each document's chance of a priority above the threshold, [rows].

    Args:
        size: of shape [rows].
        threshold: the highest priority outside the sample; 0 where all are in it.
    """
    if threshold <= 0:
        return (size > 0).astype(np.float64)
    return np.minimum(1.0, size / threshold)


def sample_threshold(priority: Floats, labels: int) -> float:
    """Return the highest priority outside a sample of so many documents; 0 if all are in it."""
    if labels >= np.count_nonzero(priority):
        return 0.0
    return float(np.sort(priority)[-labels - 1])


def _chance(seed: int, query_id: str, doc_id: str) -> float:
    """Return a number in (0, 1] from a hash of the arguments."""
    text = f"{seed}:{len(query_id)}:{query_id}:{doc_id}".encode()
    return (int.from_bytes(hashlib.sha256(text).digest()[:8]) // 2**11 + 1) / _STEPS
