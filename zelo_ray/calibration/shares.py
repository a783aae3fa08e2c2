"""Means over all documents, by the panel's grades and set right by a few human ones.

Prediction-powered inference (Angelopoulos et al. 2023, Science 382:669), with the power tuning of
PPI++ (Angelopoulos, Duchi & Zrnic 2023, arXiv 2311.01453): the humans say how far the panel is off
where they looked, and the panel what they did not see.
"""

import numpy as np
from scipy.special import stdtrit

from zelo_ray.calibration.ratings import Floats
from zelo_ray.records import Share

FEWEST = 5
"""Of fewer human grades no interval is given."""


def shares(
    panel_grade: Floats, human: Floats, levels: int = 4, confidence: float = 0.95
) -> tuple[Share, ...]:
    """Mean grade, and share of documents of each grade or a higher one.

    The documents with human grades must have been drawn at random from all of them; intervals are
    for documents such as these, not for these alone. Where all have human grades, the mean is the
    humans' own.

    Args:
        panel_grade: of shape [units]; a fraction counts for the nearest grade in the shares.
        human: of shape [units], NaN where there is none.
        levels: number of grades.
        confidence: of the intervals, which are Student's.
    """
    rounded, asked = np.floor(panel_grade + 0.5), ~np.isnan(human)
    rows = [("grade", panel_grade, human)]
    for grade in range(1, levels):
        true = np.where(asked, human >= grade, np.nan)
        rows.append((f">={grade}", (rounded >= grade).astype(np.float64), true))
    return tuple(
        Share(
            name,
            float(told.mean()) if told.size else np.nan,
            *_corrected(told[~asked], told[asked], true[asked], confidence),
            documents=len(told),
            humans=int(asked.sum()),
        )
        for name, told, true in rows
    )


def _corrected(
    unseen: Floats, seen: Floats, true: Floats, confidence: float
) -> tuple[float, float, float]:
    """Mean and interval, from what was told of documents without and with the truth."""
    if not true.size:
        return (float(unseen.mean()) if unseen.size else np.nan), np.nan, np.nan
    trust = _trust(unseen, seen, true)
    rest = true - trust * seen
    mean = float(rest.mean()) + (trust * float(unseen.mean()) if unseen.size else 0.0)
    if true.size < FEWEST:
        return mean, np.nan, np.nan
    variance = rest.var(ddof=1) / rest.size
    if unseen.size:
        variance += trust**2 * unseen.var() / unseen.size
    half = float(stdtrit(true.size - 1, (1 + confidence) / 2) * np.sqrt(variance))
    return mean, mean - half, mean + half


def _trust(unseen: Floats, seen: Floats, true: Floats) -> float:
    """How much of what was told to count, so that the variance is least: from 0 to 1."""
    spread = np.concatenate([seen, unseen]).var(ddof=1) if seen.size + unseen.size > 1 else 0.0
    if not unseen.size or not spread:
        return 0.0
    together = float(np.mean((true - true.mean()) * (seen - seen.mean())))
    return float(np.clip(together / ((1 + seen.size / unseen.size) * spread), 0, 1))
