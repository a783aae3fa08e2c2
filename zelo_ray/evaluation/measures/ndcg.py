"""nDCG: normalised discounted cumulative gain (Järvelin & Kekäläinen 2002, ACM TOIS 20:422)."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from zelo_ray.evaluation.measures.lists import Floats, Lists, ratio
from zelo_ray.evaluation.measures.spec import Linear, MeasureKind, Parameter, is_number


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


_DESCRIPTIONS = {"exp-log2": "gains are 2^relevance - 1", "zelo": "gains are from zELO scores"}
_GAINS = {"log2": _linear, "exp-log2": _exponential, "zelo": _zelo}


@dataclass(frozen=True, slots=True)
class Gains:
    """Gains of whole grades, as ir_measures writes them; other grades gain themselves."""

    by_grade: tuple[tuple[int, float], ...]

    def __repr__(self) -> str:
        """Return the gains as ir_measures writes them."""
        return "{" + ",".join(f"{grade}:{gain:g}" for grade, gain in self.by_grade) + "}"

    def of(self, grades: Floats) -> Floats:
        """Return the gains of some grades; between two whole grades they are interpolated."""
        below = np.floor(grades)
        part = grades - below
        gains: Floats = (1 - part) * self._of_whole(below) + part * self._of_whole(below + 1)
        return np.maximum(gains, 0)

    def _of_whole(self, grades: Floats) -> Floats:
        gains = grades.copy()
        for grade, gain in self.by_grade:
            gains[grades == grade] = gain
        return gains


def _are_gains(value: Any) -> bool:
    return isinstance(value, dict) and all(
        type(grade) is int and is_number(gain) and gain >= 0 and (grade > 0 or gain == 0)
        for grade, gain in value.items()
    )


def _read_gains(value: dict[int, float]) -> Gains | None:
    pairs = tuple(sorted((grade, gain) for grade, gain in value.items() if grade != gain))
    return Gains(pairs) if pairs else None


def _metrics(lists: Lists, cutoff: int | None, dcg: str, gains: Gains | None) -> Floats:
    """Return the run's discounted gain, divided by that of the best order of judged documents."""
    judged = np.nan_to_num(lists.judged, nan=0.0)
    top = judged.max(axis=-1, keepdims=True)
    ranked = np.nan_to_num(lists.ranked(cutoff), nan=0.0)
    of_best, of_run = (
        gains.of(grades) if gains else _GAINS[dcg](grades, top) for grades in (judged, ranked)
    )
    ideal = -np.sort(-of_best, axis=-1)[..., :cutoff]
    return ratio(_discounted(of_run), _discounted(ideal))


def _discounted(gains: Floats) -> Floats:
    return gains @ _discounts(gains.shape[-1])


def _discounts(ranks: int) -> Floats:
    return 1 / np.log2(np.arange(2, ranks + 2))


def _linear_in(cutoff: int | None, dcg: str, gains: Gains | None) -> Linear:
    """Build the linear form, with a fixed ideal and with grades, or 2^g - 1, as gains."""

    def gains_of(grades: Floats) -> Floats:
        if gains:
            return gains.of(grades)
        gained = np.maximum(grades, 0)
        return np.expm1(np.log(2) * gained) if dcg == "exp-log2" else gained

    return Linear(cutoff, _discounts, gains_of, ideal=True)


MEASURE = MeasureKind(
    metrics=_metrics,
    linear=_linear_in,
    parameters={
        "dcg": Parameter(
            "log2",
            lambda v: isinstance(v, str) and v in _GAINS,
            " or ".join(_GAINS),
            describe=_DESCRIPTIONS.get,
        ),
        "gains": Parameter(
            None,
            _are_gains,
            "a gain from 0 for some whole grades, such as {1:0,2:1,3:5} (a grade below 1 has none)",
            _read_gains,
        ),
    },
    exclusive=True,
)
