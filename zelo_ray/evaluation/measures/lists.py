"""Hold the ranked and the judged documents of a block of queries, as measures need them."""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from zelo_ray.evaluation.measures.columns import Ints

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Block:
    """A block of queries. Rows are those of the truth; -1 is none."""

    queries: Ints
    """Their places among the truth's queries, [queries]."""
    retrieved: Ints
    """How many documents the run has, [queries]."""
    rows: Ints
    """The row of the document at each rank, [queries, ranks]; -1 if unjudged or past the end."""
    judged: Ints
    """The rows of all judged documents, [queries, judged]: first those that the run has, in its
    order; -1 past the end."""
    place: Ints
    """The ranks of the judged documents, from 0, [queries, judged]; -1 where the run lacks one."""
    first: Ints | None
    """The first rank of the tied documents among which a rank lies, [queries, ranks]; None where
    nothing is tied."""


class Lists:
    """A block under some draws of the relevance; matrices are [draws, queries, …]."""

    def __init__(self, block: Block, relevance: Floats) -> None:
        """Set up a block with these relevances.

        Args:
            block: the queries.
            relevance: float64 [draws, rows of the truth + 1]; the last column is NaN, so that
                row -1 (no row) has no relevance.
        """
        self.block = block
        self._relevance = relevance

    @cached_property
    def judged(self) -> Floats:
        """Return the relevance of all judged documents, NaN past the end."""
        return self._relevance[:, self.block.judged]

    def ranked(self, cutoff: int | None) -> Floats:
        """Return the relevance by rank up to the cutoff, NaN where unjudged or past the end."""
        return self._relevance[:, self.block.rows[:, :cutoff]]


def tie_bounds(values: NDArray[np.generic]) -> tuple[Ints, Ints]:
    """Return the first and last place of the equal neighbours of each place, on the last axis."""
    places = np.broadcast_to(np.arange(values.shape[-1]), values.shape)
    differs = values[..., 1:] != values[..., :-1]
    edge = np.ones((*values.shape[:-1], 1), np.bool_)
    starts, ends = (np.concatenate(s, axis=-1) for s in ((edge, differs), (differs, edge)))
    first = np.maximum.accumulate(np.where(starts, places, 0), axis=-1)
    far = np.where(ends, places, values.shape[-1])
    last = np.minimum.accumulate(far[..., ::-1], axis=-1)[..., ::-1]
    return first, last


def ratio(part: Floats, whole: Floats | Ints, otherwise: float = 0.0) -> Floats:
    """Return part / whole, or ``otherwise`` where the whole is 0."""
    empty = whole == 0
    return np.where(empty, otherwise, part / np.where(empty, 1, whole))
