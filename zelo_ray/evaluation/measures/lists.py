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
    last: Ints | None
    """The last rank of them."""


class Lists:
    """A block under some draws of the relevance; matrices are [draws, queries, …]."""

    def __init__(self, block: Block, relevance: Floats, expected: bool) -> None:
        """Set up a block with these relevances.

        Args:
            block: the queries.
            relevance: float64 [draws, rows of the truth + 1]; the last column is NaN, so that
                row -1 (no row) has no relevance.
            expected: whether to take the mean over all orders of tied documents.
        """
        self.block = block
        self.first, self.last = (block.first, block.last) if expected else (None, None)
        self._relevance = relevance

    @cached_property
    def judged(self) -> Floats:
        """Return the relevance of all judged documents, NaN past the end."""
        return self._relevance[:, self.block.judged]

    def ranked(self, cutoff: int | None) -> Floats:
        """Return the relevance by rank, NaN where unjudged or past the end.

        It extends beyond the cutoff where documents tied with the last one do.
        """
        reach = cutoff
        if cutoff is not None and self.last is not None:
            reach = int(self.last[:, :cutoff].max()) + 1
        return self._relevance[:, self.block.rows[:, :reach]]

    def expected(self, gains: Floats, cutoff: int | None) -> Floats:
        """Return the expected gain at each rank up to the cutoff: the mean of those tied there."""
        if self.last is not None:
            _, within = self.tied_sums(gains)
            gains = within / self.tied(gains)[0]
        return gains[..., :cutoff]

    def tied_sums(self, gains: Floats) -> tuple[Floats, Floats]:
        """Return for each rank the sums over documents above its ties, and over the tied ones."""
        upto = np.cumsum(gains, axis=-1)
        if self.first is None or self.last is None:
            return upto - gains, gains
        upto = np.pad(upto, ((0, 0), (0, 0), (1, 0)))
        columns = gains.shape[-1]
        # Ties that extend beyond the columns of `ranked` begin after the cutoff, and do not count.
        after = np.minimum(self.last + 1, columns)
        above, with_them = (
            np.take_along_axis(upto, at[np.newaxis, :, :columns], axis=-1)
            for at in (self.first, after)
        )
        return above, with_them - above

    def tied(self, gains: Floats) -> tuple[Ints, Ints]:
        """Return for each rank how many documents are tied there, and how many ranks precede it."""
        columns = gains.shape[-1]
        ranks = np.arange(columns)
        if self.first is None or self.last is None:
            return np.ones(columns, np.int64), np.zeros(columns, np.int64)
        first, last = self.first[:, :columns], self.last[:, :columns]
        return last - first + 1, ranks - first


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
