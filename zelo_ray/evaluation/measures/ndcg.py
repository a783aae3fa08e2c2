"""nDCG: normalised discounted cumulative gain (Järvelin & Kekäläinen 2002, ACM TOIS 20:422)."""

import numpy as np

from zelo_ray.evaluation.measures.lists import Floats, Lists, ratio
from zelo_ray.evaluation.measures.spec import Linear, MeasureKind, Parameter


def _linear(relevance: Floats, _top: Floats) -> Floats:
    """Return the relevance itself as the gain, as trec_eval does."""
    return np.maximum(relevance, 0)


def _exponential(relevance: Floats, top: Floats) -> Floats:
    """Return 2^g - 1 as the gain (Burges et al. 2005, ICML).

    If the query's best g is beyond 500, all gains are divided by 2^(best - 500), so that nothing
    overflows: a common factor does not change nDCG, and what is lost is below 2^-500 of the best.
    """
    shift = np.maximum(top - 500, 0)
    gains: Floats = np.expm1(np.log(2) * np.maximum(relevance - shift, 0))
    return gains


def _zelo(relevance: Floats, _top: Floats) -> Floats:
    """Return the gain for scores in logits: how much more often a document wins than loses.

    A score s is centred on the query's mean, so against an average document of its query it wins
    with probability p = 1 / (1 + exp(-s)); the gain is 2p - 1 = tanh(s / 2), and 0 below the
    average. It lies in [0, 1): nothing overflows, and a document far above the others gains little
    more than another good one. With exp(s) as the gain, the first document alone would decide where
    scores spread widely: with the other 24 of 25 reversed, nDCG would still be .99.
    """
    return np.tanh(np.maximum(relevance, 0) / 2)


_GAINS = {"log2": _linear, "exp-log2": _exponential, "zelo": _zelo}


def _metrics(lists: Lists, cutoff: int | None, dcg: str) -> Floats:
    """Return the run's discounted gain, divided by that of the best order of judged documents."""
    judged = np.nan_to_num(lists.judged, nan=0.0)
    top = judged.max(axis=-1, keepdims=True)
    ideal = -np.sort(-_GAINS[dcg](judged, top), axis=-1)[..., :cutoff]
    gains = _GAINS[dcg](np.nan_to_num(lists.ranked(cutoff), nan=0.0), top)
    return ratio(_discounted(lists.expected(gains, cutoff)), _discounted(ideal))


def _discounted(gains: Floats) -> Floats:
    return gains @ _discounts(gains.shape[-1])


def _discounts(ranks: int) -> Floats:
    return 1 / np.log2(np.arange(2, ranks + 2))


def _linear_in(cutoff: int | None, dcg: str) -> Linear:
    """Build the linear form, with a fixed ideal and with grades, or 2^g - 1, as gains."""

    def gains(grades: Floats) -> Floats:
        gained = np.maximum(grades, 0)
        return np.expm1(np.log(2) * gained) if dcg == "exp-log2" else gained

    return Linear(cutoff, _discounts, gains, ideal=True)


MEASURE = MeasureKind(
    metrics=_metrics,
    linear=_linear_in,
    parameters={
        "dcg": Parameter("log2", lambda v: isinstance(v, str) and v in _GAINS, " or ".join(_GAINS))
    },
)
