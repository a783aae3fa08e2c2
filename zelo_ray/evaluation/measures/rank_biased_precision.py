"""RBP: rank-biased precision (Moffat & Zobel 2008, ACM TOIS 27:2)."""

from dataclasses import replace

import numpy as np

from zelo_ray.evaluation.measures.lists import Floats, Lists
from zelo_ray.evaluation.measures.spec import (
    REL,
    REQUIRED,
    Linear,
    MeasureKind,
    Parameter,
    is_number,
)


def _metrics(lists: Lists, cutoff: int | None, p: float, rel: float) -> Floats:
    """Return the chance that a user who goes on with chance p stops at a relevant document."""
    relevant = (lists.ranked(cutoff) >= rel).astype(np.float64)
    precision: Floats = relevant @ _discounts(relevant.shape[-1], p)
    return precision


def _discounts(ranks: int, p: float) -> Floats:
    return (1 - p) * p ** np.arange(ranks, dtype=np.float64)


def _linear(cutoff: int | None, p: float, rel: float) -> Linear:
    return Linear(
        cutoff,
        lambda ranks: _discounts(ranks, p),
        lambda grades: (grades >= rel).astype(np.float64),
    )


MEASURE = MeasureKind(
    metrics=_metrics,
    parameters={
        "p": Parameter(0.8, lambda v: is_number(v) and 0 < v < 1, "a number between 0 and 1"),
        "rel": replace(REL, default=REQUIRED),  # ir_measures has another RBP without it
    },
    linear=_linear,
)
