"""Means over all documents, by the panel's grades and set right by a few human ones.

Prediction-powered inference (Angelopoulos et al. 2023, Science 382:669), with the power tuning of
PPI++ (Angelopoulos, Duchi & Zrnic 2023, arXiv 2311.01453): the humans say how far the panel is off
where they looked, and the panel what they did not see.
"""

import numpy as np
import scipy

from zelo_ray.fitting.calibration.ratings import Floats
from zelo_ray.records import Share

FEWEST = 5
"""Of fewer human grades no interval is given; with fewer on one side of a grade they go alone."""
ROUNDING = 1e-9
"""Numbers that differ by less are equal."""


def shares(
    panel_grade: Floats,
    human: Floats,
    levels: int = 4,
    confidence: float = 0.95,
    at_least: Floats | None = None,
) -> tuple[Share, ...]:
    """Mean grade, and share of documents of each grade or a higher one.

    The documents with human grades must have been drawn at random from all of them; intervals are
    for documents such as these, not for these alone. Where all have human grades, the mean is the
    humans' own.

    Intervals are Student's. Where fewer than five labels lie on one side of a grade, its share is
    the labels' own and its interval exact (Clopper & Pearson 1934, Biometrika 26:404). Where labels
    leave no variance to go by, as when the panel was right on all, a share q of the documents may
    yet be other: as large as still leaves so many labels alike with a chance of
    (1 - confidence) / 2. The interval then is what q of them could change.

    Args:
        panel_grade: of shape [units]; a fraction counts for the nearest grade in the shares.
        human: of shape [units], NaN where there is none.
        levels: number of grades.
        confidence: of the intervals.
        at_least: of shape [units, levels - 1], the panel's chances of grades 1 and up or higher;
            None: its grades to the nearest. Nearest grades are fewer at the ends than grades are.
    """
    rounded, asked = np.floor(panel_grade + 0.5), ~np.isnan(human)
    if at_least is None:
        at_least = (rounded[:, np.newaxis] >= np.arange(1, levels)).astype(np.float64)
    rows = [("grade", panel_grade, human, levels - 1)]
    for grade in range(1, levels):
        true = np.where(asked, human >= grade, np.nan)
        rows.append((f">={grade}", at_least[:, grade - 1], true, 1))
    return tuple(
        Share(
            name,
            float(told.mean()) if told.size else np.nan,
            *_corrected(told[~asked], told[asked], true[asked], top, confidence),
            documents=len(told),
            humans=int(asked.sum()),
        )
        for name, told, true, top in rows
    )


def _corrected(
    unseen: Floats, seen: Floats, true: Floats, top: int, confidence: float
) -> tuple[float, float, float]:
    """Mean and interval, from what was told of documents without and with the truth, 0 to top."""
    if not true.size:
        return (float(unseen.mean()) if unseen.size else np.nan), np.nan, np.nan
    if true.size >= FEWEST and top == 1 and min(true.sum(), (1 - true).sum()) < FEWEST:
        return _exact(int(true.sum()), true.size, (1 - confidence) / 2)
    trust = _trust(unseen, seen, true)
    rest = true - trust * seen
    mean = float(rest.mean()) + (trust * float(unseen.mean()) if unseen.size else 0.0)
    if true.size < FEWEST:
        return mean, np.nan, np.nan
    variance, below, above = rest.var(ddof=1) / rest.size, 0.0, 0.0
    if np.ptp(rest) < ROUNDING:
        other = 1 - ((1 - confidence) / 2) ** (1 / rest.size)
        below, above = other * (rest[0] + trust * top), other * (top - rest[0])
    if unseen.size:
        variance += trust**2 * unseen.var() / unseen.size
    half = float(scipy.special.stdtrit(true.size - 1, (1 + confidence) / 2) * np.sqrt(variance))
    return mean, max(0.0, mean - half - float(below)), min(top, mean + half + float(above))


def _exact(found: int, size: int, tail: float) -> tuple[float, float, float]:
    """A share of labels, with its interval."""
    low = float(scipy.special.betaincinv(found, size - found + 1, tail)) if found else 0.0
    high = (
        float(scipy.special.betaincinv(found + 1, size - found, 1 - tail)) if found < size else 1.0
    )
    return found / size, low, high


def _trust(unseen: Floats, seen: Floats, true: Floats) -> float:
    """How much of what was told to count, so that the variance is least: from 0 to 1."""
    spread = np.concatenate([seen, unseen]).var(ddof=1) if seen.size + unseen.size > 1 else 0.0
    if not unseen.size or not spread:
        return 0.0
    together = float(np.mean((true - true.mean()) * (seen - seen.mean())))
    return float(np.clip(together / ((1 + seen.size / unseen.size) * spread), 0, 1))
