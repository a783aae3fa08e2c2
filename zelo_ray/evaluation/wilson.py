"""Compute the interval of a share (Wilson 1927, doi:10.1080/01621459.1927.10502953)."""

import numpy as np

_Z = 1.959964


def wilson_intervals(share: np.ndarray, count: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the ends of the 95% intervals of shares, each out of ``count``."""
    middle = (share + _Z * _Z / (2 * count)) / (1 + _Z * _Z / count)
    reach = share * (1 - share) / count + _Z * _Z / (4 * count * count)
    half = _Z / (1 + _Z * _Z / count) * np.sqrt(reach)
    return middle - half, middle + half


def wilson_interval(part: float, total: float) -> tuple[float, float]:
    """Return the ends of the 95% interval of one share, ``part`` of ``total``."""
    low, high = wilson_intervals(np.array(part / total), np.array(total))
    return float(low), float(high)
