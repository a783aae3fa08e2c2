"""Sum rows of differences between rankers under many weightings of the queries."""

from collections.abc import Sequence
from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from zelo_ray.evaluation.resampling import TIE, Floats

Indices = NDArray[np.intp]
NOTHING = np.empty((0, 0))


class WeightedSums(NamedTuple):
    """Sums and counts of a table under weights, and the weights of the queries ``alone``."""

    own: Floats
    """[queries alone, draws]"""
    sums: Floats
    """[table, draws]"""
    counts: Floats
    """[table, draws]"""


class PairedRows:
    """Rows of values over queries, which are summed under many weights.

    A row is a row of a table, or the difference of two. The sum of differences is the difference of
    sums, so for the pairs of 100 rankers by 3 measures 300 rows are multiplied with the weights and
    not 14,850. This holds for queries for which all rankers have a metric, or none; the other
    queries, ``alone``, are summed row by row. NaN marks a missing value, which counts as 0 in sums.
    """

    def __init__(
        self,
        table: Floats,
        a: Indices | None = None,
        b: Indices | None = None,
        alone: NDArray[np.bool_] | None = None,
    ) -> None:
        """Take a table [any, queries], and the rows of A in it, and of B if there is one."""
        self.table, self.b = table, b
        self.a = np.arange(len(table)) if a is None else a
        self.alone = np.ones(table.shape[1], dtype=bool) if alone is None else alone
        self.is_complete = not np.isnan(table).any()

    @classmethod
    def of_pairs(cls, tables: Sequence[Floats], pairs: Indices) -> "PairedRows":
        """Build rows A minus B for pairs of rankers, [pairs, 2], in tables [rankers, queries]."""
        starts = np.arange(len(tables)) * len(tables[0])
        a, b = ((starts[:, np.newaxis] + side).ravel() for side in pairs.T)
        masks = [~np.isnan(table) for table in tables]
        alone = np.any([mask.any(axis=0) & ~mask.all(axis=0) for mask in masks], axis=0)
        return cls(np.concatenate(tables), a, b, alone)

    def __len__(self) -> int:
        return len(self.a)

    @property
    def queries(self) -> int:
        """Return how many queries there are, with or without values."""
        return len(self.alone)

    def take(self, rows: Indices | NDArray[np.bool_]) -> "PairedRows":
        """Return some of the rows."""
        b = None if self.b is None else self.b[rows]
        return PairedRows(self.table, self.a[rows], b, self.alone)

    def values(self, part: slice) -> Floats:
        """Return the values of some rows, of shape [part, queries]."""
        return self._of(self.table, part)

    def sides(self, part: slice) -> tuple[Floats, ...]:
        """Return the values of A, and of B if there is one, each of shape [part, queries]."""
        return tuple(self.table[side[part]] for side in (self.a, self.b) if side is not None)

    def apply_weights(self, weights: Floats, *, counted: bool = False) -> WeightedSums:
        """Compute what `sums` and, if ``counted``, `counts` need under weights [draws, queries]."""
        if self.b is None:
            return WeightedSums(weights.T, NOTHING, NOTHING)
        shared, together, weights_alone = self.table, weights, NOTHING
        if self.alone.any():  # else nothing needs to be copied
            shared, together = self.table[:, ~self.alone], weights[:, ~self.alone]
            weights_alone = weights[:, self.alone].T
        counts = (~np.isnan(shared)).astype(np.float64) @ together.T if counted else NOTHING
        return WeightedSums(weights_alone, np.nan_to_num(shared) @ together.T, counts)

    def sums(self, part: slice, under: WeightedSums) -> Floats:
        """Return weighted sums of some rows, of shape [part, draws]."""
        if self.b is None:
            return np.nan_to_num(self.values(part)) @ under.own
        totals = np.take(under.sums, self.a[part], axis=0)
        totals -= np.take(under.sums, self.b[part], axis=0)
        if len(under.own):
            totals += np.nan_to_num(self._of(self._own, part)) @ under.own
        return totals

    def counts(self, part: slice, under: WeightedSums) -> Floats:
        """Return the weights of the values that some rows have, of shape [part, draws]."""
        if self.b is None:
            return (~np.isnan(self.values(part))).astype(np.float64) @ under.own
        totals = np.take(under.counts, self.a[part], axis=0)
        if len(under.own):
            totals += (~np.isnan(self._of(self._own, part))).astype(np.float64) @ under.own
        return totals

    @cached_property
    def _own(self) -> Floats:
        return self.table[:, self.alone]

    def _of(self, table: Floats, part: slice) -> Floats:
        metrics = table[self.a[part]]
        if self.b is not None:
            metrics -= table[self.b[part]]
            metrics[np.abs(metrics) <= TIE] = 0.0
        return metrics
