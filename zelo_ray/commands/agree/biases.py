"""A figure of how one judge judges, for the sections on grades and on votes."""

from dataclasses import dataclass

from zelo_ray.evaluation.agreement import Figure


@dataclass(frozen=True, slots=True)
class Bias:
    """A bias of a judge.

    ``bias`` is its name; ``against`` says what it is relative to: ``human``, ``others`` (the mean
    of the other judges), or "" if it needs no reference. ``low`` and ``high`` are the 95% interval
    over samples of queries. ``items`` counts the documents, votes, pairs or triples that it is
    computed from.
    """

    judge: str
    bias: str
    against: str
    value: float
    low: float
    high: float
    items: int
    queries: int


def make_bias(judge: str, bias: str, against: str, estimate: Figure, items: int) -> Bias:
    """Return the row of a bias from its estimate."""
    return Bias(
        judge, bias, against, estimate.value, estimate.low, estimate.high, items, estimate.queries
    )
