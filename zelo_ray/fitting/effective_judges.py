"""Estimate the effective number of judges: judges that err together count as fewer.

Of n judges whose errors have the correlations rho, the mean errs like that of

    n_eff = n^2 / sum_ij rho_ij

independent judges (Kish 1965, Survey Sampling, section 5.4, for equal correlations; arXiv
2605.29800 for judges). With people's grades the errors are known.
"""

import numpy as np
from numpy.typing import NDArray

from zelo_ray.fitting.grades import Ratings

Floats = NDArray[np.float64]


def effective_number(correlation: Floats) -> float:
    """Return the number of independent judges for a correlation of errors [judges, judges]."""
    return float(len(correlation) ** 2 / np.clip(correlation, 0, 1).sum())


def effective_number_by_people(ratings: Ratings, human: Floats) -> float:
    """Return the effective number of judges by their errors, given the grades of people.

    An error is how far a judge's grade lies from its mean for documents of that human grade, so
    that being harsh throughout is not an error.

    Args:
        ratings: the panel's; a unit is a document.
        human: people's grades, [units]; NaN where there is none.

    Returns:
        NaN where fewer than two judges vary on common documents.
    """
    shape = (ratings.units, len(ratings.judges))
    sums, counts = np.zeros(shape), np.zeros(shape)
    np.add.at(sums, (ratings.unit, ratings.judge), ratings.grade)
    np.add.at(counts, (ratings.unit, ratings.judge), 1)
    mask = np.isfinite(human) & (counts > 0).all(axis=1)
    errors = sums[mask] / counts[mask]
    for grade in np.unique(human[mask]):
        rows = human[mask] == grade
        errors[rows] -= errors[rows].mean(axis=0)
    if shape[1] < 2 or not mask.any() or not errors.std(axis=0).all():
        return float("nan")
    return effective_number(np.asarray(np.corrcoef(errors.T), np.float64))


def grade_correlation(confusion: Floats) -> float:
    """Return Pearson's correlation of two judges' grades; NaN where one of them never varies.

    Args:
        confusion: how often each pair of grades occurred, [levels, levels].
    """
    total, levels = confusion.sum(), np.arange(len(confusion))
    if not total:
        return float("nan")
    marginal_a, marginal_b = confusion.sum(axis=1) / total, confusion.sum(axis=0) / total
    means = marginal_a @ levels, marginal_b @ levels
    spreads = marginal_a @ levels**2 - means[0] ** 2, marginal_b @ levels**2 - means[1] ** 2
    if min(spreads) <= 0:
        return float("nan")
    shared = levels @ confusion @ levels / total - means[0] * means[1]
    return float(shared / np.sqrt(spreads[0] * spreads[1]))
