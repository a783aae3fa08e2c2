"""Map relevance of any scale to targets from 0 to 1, and to chances that one document wins."""

from dataclasses import dataclass
from math import isnan, sqrt

import pyarrow as pa
import pyarrow.compute as pc
import scipy

from zelo_ray.files.judgments import has_grades, has_logits, read_absolute


@dataclass(frozen=True, slots=True)
class TargetScale:
    """A scale of relevance.

    ``formula`` says how a relevance becomes a target from 0 to 1. Relevance in logits becomes the
    chance to beat a document of 0; any other its place between ``low`` and ``high``.
    """

    formula: str
    in_logits: bool
    low: float = 0.0
    high: float = 1.0

    def target(self, relevance: float) -> float:
        """Return the target of a relevance, from 0 to 1."""
        if self.in_logits:
            return float(scipy.special.expit(relevance))
        return min(max((relevance - self.low) / (self.high - self.low), 0.0), 1.0)

    def chance(self, gap: float, error: float) -> float:
        """Return the chance that the first of two documents is the better one.

        Args:
            gap: by how much its relevance is greater.
            error: the standard error of that, which counts for grades alone: the gap of two scores
                in logits is itself the logit of the chance to win (Bradley and Terry 1952). NaN
                where it is unknown: then the sign of the gap decides.
        """
        if self.in_logits:
            return float(scipy.special.expit(gap))
        if isnan(error) or not error:
            return 0.5 if not gap else float(gap > 0)
        return float(scipy.special.ndtr(gap / error))


def find_target_scale(place: str, qrels: pa.Table) -> TargetScale:
    """Return the scale of judgments.

    Args:
        place: where they are.
        qrels: the columns of `records.Qrel`, as read from there.
    """
    if read_absolute(place) is not None:
        return TargetScale("logistic(absolute_score)", in_logits=True)
    if has_grades(place):
        return TargetScale("mean grade / 3", in_logits=False, high=3.0)
    if has_logits(place):
        return TargetScale("logistic(score), whose 0 is each query's mean", in_logits=True)
    extremes = pc.min_max(qrels["relevance"]).as_py()
    low, high = min(0.0, extremes["min"]), extremes["max"]
    if high <= low:
        high = low + 1.0
    formula = f"(relevance + {-low:g}) / {high - low:g}" if low else f"relevance / {high:g}"
    return TargetScale(formula, in_logits=False, low=low, high=high)


def error_of_gap(a: float, b: float) -> float:
    """Return the standard error of a difference of two independent numbers; NaN if unknown."""
    return sqrt(a * a + b * b)
