"""ERR: expected reciprocal rank (Chapelle, Metzler, Zhang & Grinspan 2009, CIKM)."""

import numpy as np

from zelo_ray.evaluation.measures.lists import Floats, Lists
from zelo_ray.evaluation.measures.spec import MeasureKind, Parameter

_HIGHEST = 4
"""The highest grade of gdeval, the script of TREC's Web track."""


def _metrics(lists: Lists, cutoff: int | None, max_rel: int) -> Floats:
    """Return the mean of 1 / rank where a user stops, who reads from the top until satisfied.

    A document of grade g satisfies with chance (2^g - 1) / 2^max_rel (their equation 4). It is
    max_rel 4 in gdeval, which refuses higher grades; here they count as max_rel.
    """
    grades = np.clip(np.nan_to_num(lists.ranked(cutoff), nan=0.0), 0, max_rel)
    goes_on = np.cumprod(1 - np.expm1(np.log(2) * grades) / 2.0**max_rel, axis=-1)
    before = np.concatenate([np.ones_like(goes_on[..., :1]), goes_on[..., :-1]], axis=-1)
    stops = before - goes_on
    values: Floats = stops @ (1 / np.arange(1, stops.shape[-1] + 1))
    return values


MEASURE = MeasureKind(
    metrics=_metrics,
    parameters={
        "max_rel": Parameter(
            _HIGHEST, lambda v: type(v) is int and 1 <= v <= 50, "a whole number from 1 to 50"
        )
    },
)
