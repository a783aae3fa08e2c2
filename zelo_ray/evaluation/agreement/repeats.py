"""Measure how consistent a judge is when it is asked the same again."""

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]


def measure_repeats(query: Ints, item: Ints, grade: Floats, queries: int) -> Floats:
    """Measure by query how far one judge's repeated grades of the same documents differ.

    For each document all pairs of its grades are compared and averaged, so that each document
    counts the same, however often it was graded. Documents that were graded once are left out.

    Args:
        query: place of the query of each grade, [grades].
        item: place of the (query_id, doc_id) of each grade, [grades].
        grade: [grades].
        queries: how many there are.

    Returns:
        Of shape [queries, 3]: documents graded more than once; the sum over them of the share of
        pairs of grades that are equal; and of their mean absolute difference.
    """
    totals = np.zeros((queries, 3))
    order = np.lexsort((grade, item))
    query, item, grade = query[order], item[order], grade[order]
    starts = np.flatnonzero(np.diff(item, prepend=-1))
    sizes = np.diff(starts, append=len(item))
    for size in np.unique(sizes[sizes > 1]):
        rows = starts[sizes == size]
        table = grade[rows[:, np.newaxis] + np.arange(size)]
        i, j = np.triu_indices(size, 1)
        apart = np.abs(table[:, i] - table[:, j])
        sums = [np.ones(len(rows)), (apart == 0).mean(axis=1), apart.mean(axis=1)]
        np.add.at(totals, query[rows], np.stack(sums, axis=1))
    return totals
