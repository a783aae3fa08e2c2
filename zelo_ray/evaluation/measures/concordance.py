"""Count pairs of a query's judged documents."""

import numpy as np

from zelo_ray.evaluation.measures.columns import Ints
from zelo_ray.evaluation.measures.lists import Floats, Lists

_BYTE = 127


def rank_levels(lists: Lists) -> Ints:
    """Return the rank of each judged document, the first one for ties, [queries, judged].

    Documents that the run lacks come after all others, tied.
    """
    block = lists.block
    shown = block.place
    if block.first is not None:
        shown = np.take_along_axis(block.first, np.maximum(shown, 0), axis=1)
    return np.where(block.place < 0, block.rows.shape[1], shown)


def count_pairs(relevance: Floats, level: Ints) -> tuple[Floats, Floats]:
    """Compare all pairs of the judged documents of each query.

    Args:
        relevance: [draws, queries, judged], in the order of the run; NaN is left out.
        level: ranks, ascending, [queries, judged].

    Returns:
        Pairs in the right order minus those in the wrong one, without ties of the run; and pairs
        that differ in relevance: both [draws, queries].
    """
    width = relevance.shape[-1]
    net, unequal = np.zeros((2, *relevance.shape[:-1]))
    for start in range(1, width, _BYTE):
        # Counts of so few steps fit into bytes, which are many times faster to add than wider
        # integers.
        net_here, unequal_here = np.zeros((2, *relevance.shape), np.int8)
        for distance in range(start, min(start + _BYTE, width)):
            upper, lower = relevance[..., :-distance], relevance[..., distance:]
            right, wrong = (upper > lower).view(np.int8), (upper < lower).view(np.int8)
            split = (level[:, :-distance] != level[:, distance:]).view(np.int8)
            net_here[..., :-distance] += (right - wrong) * split
            unequal_here[..., :-distance] += right | wrong
        net += net_here.sum(axis=-1)
        unequal += unequal_here.sum(axis=-1)
    return net, unequal
