"""Define grades as columns, the input of the calibration, and count them by unit and grade."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Ratings:
    """Grades, one entry an observation.

    A unit has one latent number: it is an item, or a query whose documents' scores are known up to
    a shift, and are given as ``offset``. Repeats of a judge on the same item of a unit share the
    weight of one observation, since a judge repeats its errors.
    """

    unit: Ints
    """0 to units - 1"""
    judge: Ints
    """place in judges"""
    grade: Ints
    """0 to levels - 1"""
    units: int
    judges: tuple[str, ...]
    offset: Floats | None = None
    """known part of the latent; None: 0 for all"""
    item: Ints | None = None
    """the item of its unit that an observation is about, from 0; None: the unit is one item, or
    each offset is"""
    weight: Floats | None = None
    """of each observation; None: 1"""
    levels: int = 4

    def __post_init__(self) -> None:
        """Raise ValueError where entries are of unequal length, out of range or not finite."""
        columns: list[NDArray[Any]] = [self.unit, self.judge, self.grade]
        columns += [c for c in (self.offset, self.item, self.weight) if c is not None]
        if len({np.shape(column) for column in columns}) > 1 or self.unit.ndim != 1:
            raise ValueError("unit, judge, grade, offset, item and weight must be of one length")
        for what, column, end in (
            ("unit", self.unit, self.units),
            ("judge", self.judge, len(self.judges)),
            ("grade", self.grade, self.levels),
        ):
            if column.size and not 0 <= column.min() <= column.max() < end:
                raise ValueError(f"{what} must lie in 0 to {end - 1}")
        if self.offset is not None and not np.isfinite(self.offset).all():
            raise ValueError("offset must be finite")
        if self.weight is not None and not (
            np.isfinite(self.weight).all() and (self.weight >= 0).all()
        ):
            raise ValueError("weight must be finite and not negative")


def shared_weights(ratings: Ratings) -> Floats:
    """Return the weight of each observation, with repeats sharing one vote."""
    weight = np.ones(len(ratings.unit)) if ratings.weight is None else ratings.weight
    vote = ratings.unit * len(ratings.judges) + ratings.judge
    about = ratings.item if ratings.item is not None else ratings.offset
    if about is not None:
        vote = _codes(vote, np.unique(about, return_inverse=True)[1])
    _, place, repeats = np.unique(vote, return_inverse=True, return_counts=True)
    shared: Floats = weight / repeats[place]
    return shared


def has_grades(ratings: Ratings) -> NDArray[np.bool_]:
    """Return which units have a grade, of shape [units]."""
    return np.bincount(ratings.unit, minlength=ratings.units) > 0


def grade_matrix(ratings: Ratings) -> NDArray[np.int16]:
    """Return grades as a matrix, -1 where a judge gave none; of several the median.

    Of two middle ones it is their mean, and a half goes to the even grade.

    Returns:
        Of shape [judges, units].
    """
    cells = ratings.judge * ratings.units + ratings.unit
    at = np.lexsort((ratings.grade, cells))
    starts = np.flatnonzero(np.diff(cells[at], prepend=-1))
    sizes = np.diff(starts, append=len(at))
    lower, upper = at[starts + (sizes - 1) // 2], at[starts + sizes // 2]
    matrix = np.full(len(ratings.judges) * ratings.units, -1, np.int16)
    matrix[cells[lower]] = np.rint((ratings.grade[lower] + ratings.grade[upper]) / 2)
    return matrix.reshape(len(ratings.judges), ratings.units)


def count_features(
    ratings: Ratings, shifts: Floats | None, low: int, span: int
) -> "scipy.sparse.csr_array":
    """Sum each unit's weight by feature: a judge's grade, at a shift on the lattice.

    An observation between two places of the lattice is shared by both, in proportion.

    Args:
        ratings: the grades.
        shifts: offsets in steps of the lattice; None: all 0.
        low: lowest place that a feature stands for.
        span: how many places there are.

    Returns:
        Weights of shape [units, judges * levels * span], in canonical order.
    """
    weight = shared_weights(ratings)
    kind = (ratings.judge * ratings.levels + ratings.grade) * span
    if shifts is None:
        rows, columns, values = ratings.unit, kind, weight
    else:
        floor = np.floor(shifts).astype(np.int64)
        part = shifts - floor
        rows = np.concatenate([ratings.unit, ratings.unit])
        columns = np.concatenate([kind + floor - low, kind + floor + 1 - low])
        values = np.concatenate([weight * (1 - part), weight * part])
    # Sorted by value, too, so that the order of the input does not change the sums.
    order = np.lexsort((values, columns, rows))
    shape = (ratings.units, len(ratings.judges) * ratings.levels * span)
    counts = scipy.sparse.csr_array((values[order], (rows[order], columns[order])), shape=shape)
    counts.sum_duplicates()
    return counts


def find_distinct_rows(counts: "scipy.sparse.csr_array") -> tuple[Ints, Ints]:
    """Find equal rows.

    Returns:
        The place of the first of each distinct row, and for each row its number among these.
    """
    lengths = np.diff(counts.indptr)
    entries = _codes(
        counts.indices.astype(np.int64), np.unique(counts.data, return_inverse=True)[1]
    )
    code = lengths.astype(np.int64)
    for position in range(int(lengths.max(initial=0))):
        long = np.flatnonzero(lengths > position)
        entry = entries[counts.indptr[long] + position]
        # Rows of other lengths have had other codes from the start.
        code[long] = _codes(code[long], entry)
        code = _codes(code, lengths)
    _, first, place = np.unique(code, return_index=True, return_inverse=True)
    return first, place


def _codes(first: Ints, second: Ints) -> Ints:
    """Map pairs of numbers to small whole numbers that are equal where both are."""
    keys = np.unique(first, return_inverse=True)[1] * (int(second.max(initial=0)) + 1) + second
    codes: Ints = np.unique(keys, return_inverse=True)[1].astype(np.int64)
    return codes
