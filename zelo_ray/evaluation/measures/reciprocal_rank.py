"""RR: the reciprocal of the rank of the first relevant document."""

import numpy as np

from zelo_ray.evaluation.measures.lists import Floats, Lists
from zelo_ray.evaluation.measures.spec import REL, MeasureKind


def _metrics(lists: Lists, cutoff: int | None, rel: float) -> Floats:
    """Return the reciprocal rank, 0 if there is no relevant document up to the cutoff."""
    first = chances_of_first(lists, cutoff, rel)
    values: Floats = first @ (1 / np.arange(1, first.shape[-1] + 1))
    return values


def chances_of_first(lists: Lists, cutoff: int | None, rel: float) -> Floats:
    """Return the chance that the first relevant document is at each rank up to the cutoff.

    Expected over ties (McSherry & Najork 2008, ECIR): if none came earlier, the next of g - i
    documents left among tied ones is relevant with probability b / (g - i).
    """
    relevant = (lists.ranked(cutoff) >= rel).astype(np.float64)
    _, within = lists.tied_sums(relevant)
    size, preceding = lists.tied(relevant)
    chance = np.minimum(within / (size - preceding), 1)
    none_yet = np.cumprod(1 - chance, axis=-1)
    none_yet = np.concatenate([np.ones_like(chance[..., :1]), none_yet[..., :-1]], axis=-1)
    chances: Floats = (none_yet * chance)[..., :cutoff]
    return chances


MEASURE = MeasureKind(metrics=_metrics, parameters={"rel": REL})
