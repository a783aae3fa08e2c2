"""Thurstone's ordered categories: each judge cuts a noisy view of the latent into grades.

P(grade >= k | x) = Phi(a x - t_k), with t_1 < t_2 < ...: the judge sees x with a normal error of
standard deviation 1/a, and its cut points are t_k / a (Thurstone 1927, Psychol. Rev. 34:273;
Samejima 1969, Psychometrika Monograph 17).
"""

import numpy as np
import scipy

from zelo_ray.fitting.calibration.ratings import Floats

STEEPEST = 5.0
"""Largest slope. Judges that agree even better repeat each other's errors, and the latent would
become that common error."""


def priors(levels: int) -> tuple[Floats, Floats]:
    """Return the means and standard deviations of the normal priors of a judge's parameters.

    The slope is 1 until a judge's grades show otherwise; the priors of the cut points are so wide
    that they matter only where nothing else determines them.
    """
    means, sds = np.zeros(levels), np.full(levels, 2.0)
    means[0], sds[:2] = 1.0, (1.0, 5.0)
    return means, sds


def limits(levels: int) -> tuple[Floats, Floats]:
    """Return the least and the greatest values of a judge's parameters."""
    lowest, highest = np.full(levels, -np.inf), np.full(levels, np.inf)
    lowest[0], highest[0] = 0, STEEPEST
    return lowest, highest


def start(shares: Floats) -> Floats:
    """Return initial parameters [judges, levels] for positive shares of grades [judges, levels].

    They are a, t_1, and the logarithms of the steps from one cut to the next.
    """
    above = shares[:, ::-1].cumsum(axis=1)[:, ::-1][:, 1:]
    cuts = np.sqrt(2) * scipy.special.ndtri(1 - above)
    gaps = np.log(np.maximum(np.diff(cuts, axis=1), 1e-3))
    return np.hstack([np.ones((len(shares), 1)), cuts[:, :1], gaps])


def cells(
    parameters: Floats,
    x: Floats,
) -> tuple[Floats, Floats]:
    """Compute the chance of each grade where the latent is x.

    Returns:
        Chances of shape [judges, levels, x], and their derivatives by each parameter, of shape
        [judges, parameters, levels, x].
    """
    slope, gaps = parameters[:, 0], np.exp(parameters[:, 2:])
    cuts = _cuts(parameters)
    reach = slope[:, None, None] * x - cuts[:, :, None]
    density = np.exp(-0.5 * reach**2) / np.sqrt(2 * np.pi)
    judges, thresholds = cuts.shape
    by = np.zeros((judges, thresholds + 1, thresholds, len(x)))
    by[:, 0] = density * x
    for k in range(thresholds):
        by[:, 1, k] = -density[:, k]
        for gap in range(k):
            by[:, 2 + gap, k] = -density[:, k] * gaps[:, gap, None]
    # Computed from the nearer tail, so that small chances keep their digits.
    upper, lower = scipy.special.ndtr(reach), scipy.special.ndtr(-reach)
    between = np.where(reach[:, 1:] < 0, upper[:, :-1] - upper[:, 1:], lower[:, 1:] - lower[:, :-1])
    chances = np.concatenate([lower[:, :1], between, upper[:, -1:]], axis=1)
    ends = np.zeros_like(by[:, :, :1])
    above = np.concatenate([ends, by, ends], axis=2)  # of P(grade >= k), k = 0 to levels
    return chances, above[:, :, :-1] - above[:, :, 1:]


def cut_points(parameters: Floats) -> tuple[Floats, Floats]:
    """Compute where P(grade >= k) is one half, and how sharply it rises there.

    Returns:
        Cut points of shape [judges, levels - 1], infinite or reversed if a slope is not positive,
        and for each the slope, as the inverse of the standard deviation of an error.
    """
    slope = parameters[:, :1]
    with np.errstate(divide="ignore", invalid="ignore"):
        cuts: Floats = _cuts(parameters) / slope
    return cuts, np.broadcast_to(slope, cuts.shape)


def _cuts(parameters: Floats) -> Floats:
    steps = np.hstack([parameters[:, 1:2], np.exp(parameters[:, 2:])])
    cuts: Floats = steps.cumsum(axis=1)
    return cuts
