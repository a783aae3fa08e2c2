"""Numbers that look random and are the same everywhere."""

import numpy as np
from numpy.typing import NDArray

from zelo_ray.fitting.battles import Ints


def mixed(seed: int, *columns: Ints) -> NDArray[np.uint64]:
    """Hash each row of some columns of integers (SplitMix64: Steele et al. 2014, OOPSLA 49:453)."""
    state = np.full(len(columns[0]), seed % 2**64, dtype=np.uint64)
    for column in columns:
        state = _scrambled(state ^ column.astype(np.uint64))
    return state


def _scrambled(state: NDArray[np.uint64]) -> NDArray[np.uint64]:
    state = state + np.uint64(0x9E3779B97F4A7C15)
    state = (state ^ (state >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    state = (state ^ (state >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return state ^ (state >> np.uint64(31))
