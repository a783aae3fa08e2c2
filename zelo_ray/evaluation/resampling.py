"""Provide random streams, and split work into pieces that fit into memory."""

from collections.abc import Iterator
from typing import Literal

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Counts = NDArray[np.int64]

TIE = 1e-12
"""Metrics and means that differ by less are equal: they are of the order of 1, so the difference is
rounding, which depends on the order of summation."""

CHUNK_CELLS = 2**21
"""Cells of a chunk of weights, or of sums under weights: 16 MB."""

_STREAMS = {"queries": 0, "signs": 1, "labels": 2}


def random_stream(seed: int, name: Literal["queries", "signs", "labels"]) -> np.random.Generator:
    """Return one of a seed's random streams."""
    # A seed may be negative, which numpy does not take.
    return np.random.Generator(np.random.PCG64([_STREAMS[name], seed % 2**64]))


def chunk_sizes(resamples: int, queries: int) -> Iterator[int]:
    """Yield the sizes of chunks of resamples whose weights fit into memory."""
    # Independent of the number of rows: the size of chunks changes the random numbers.
    step = max(1, CHUNK_CELLS // max(1, queries))
    for start in range(0, resamples, step):
        yield min(step, resamples - start)


def row_slices(rows: int, width: int, cells: int = 0) -> Iterator[slice]:
    """Yield slices of rows of some width whose tables fit into memory."""
    step = max(1, (cells or CHUNK_CELLS) // max(1, width))
    for start in range(0, rows, step):
        yield slice(start, min(start + step, rows))


def mean_of(values: Floats) -> Floats:
    """Return the mean of each row, without its NaN."""
    with np.errstate(invalid="ignore"):
        mean: Floats = np.nansum(values, axis=1) / count_of(values)
    return mean


def count_of(values: Floats) -> Counts:
    """Return how many values of each row are not NaN."""
    count: Counts = (~np.isnan(values)).sum(axis=1)
    return count
