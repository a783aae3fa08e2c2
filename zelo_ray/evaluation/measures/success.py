"""Success: whether a relevant document is among the first k."""

from zelo_ray.evaluation.measures.lists import Floats, Lists
from zelo_ray.evaluation.measures.reciprocal_rank import chances_of_first
from zelo_ray.evaluation.measures.spec import REL, MeasureKind


def _metrics(lists: Lists, cutoff: int, rel: float) -> Floats:
    """Return 1 or 0, as trec_eval does; over ties, the chance that one is among the first k."""
    chances: Floats = chances_of_first(lists, cutoff, rel).sum(axis=-1)
    return chances


MEASURE = MeasureKind(metrics=_metrics, cutoff="required", parameters={"rel": REL})
