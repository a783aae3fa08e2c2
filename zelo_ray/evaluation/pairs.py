"""Compare ways of judging by their verdicts on pairs that people judged."""

from collections.abc import Mapping
from dataclasses import dataclass
from math import nan
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike

from zelo_ray.evaluation.agreement import Figure, estimate_share
from zelo_ray.evaluation.changes import LEVEL, count_needed
from zelo_ray.evaluation.significance import TIE, Floats, Ints, paired_test

Measure = Literal["concordance", "agreement"]
MOST = 0.9
"""A way that judged a smaller share is not chosen: these pairs may be easier."""


@dataclass(frozen=True, slots=True)
class LabelledPairs:
    """Pairs with people's verdicts, [pairs] each: see `votes`.

    ``queries`` are places in ``query_ids``; ``weights`` say how many pairs each stands for. The
    verdicts of a way are of the same form, and -1 where it gave none.
    """

    verdicts: Ints
    weights: Floats
    query_ids: list[str]
    queries: Ints

    def credit(self, given: ArrayLike, measure: Measure = "concordance") -> Floats:
        """Return what each verdict counts: 1 if it is the people's, 0 if it is the other.

        By ``concordance`` a tie where people decide counts half, as does a decision where people
        say a tie: so guesses in place of ties change nothing on average. By ``agreement`` both
        count 0, so a way that guesses looks better than one that says a tie. NaN without a verdict.
        """
        given = np.asarray(given, np.float64)
        difference = np.abs(given - self.verdicts)
        exact = (difference == 0).astype(np.float64)
        credit: Floats = 1 - difference / 2 if measure == "concordance" else exact
        return np.where(given < 0, nan, credit)

    def sums(self, values: Floats) -> Floats:
        """Return weighted sums by query; NaN is left out."""
        weighted = self.weights * np.nan_to_num(values)
        return np.bincount(self.queries, weighted, len(self.query_ids)).astype(np.float64)

    def share(self, values: Floats) -> Figure:
        """Estimate the weighted mean of values, over the queries; NaN is left out."""
        return estimate_share(self.sums(values), self.sums((~np.isnan(values)).astype(np.float64)))


def choose(
    pairs: LabelledPairs, verdicts: Mapping[str, ArrayLike], measure: Measure = "concordance"
) -> str:
    """Return the way that agrees most with people; of equal ones the first.

    One that judged fewer than nine tenths of the pairs is not chosen, as they may be easier ones,
    unless all did.
    """
    credit = {name: pairs.credit(row, measure) for name, row in verdicts.items()}
    known = {name: (~np.isnan(row)).astype(np.float64) for name, row in credit.items()}
    eligible = [name for name, row in known.items() if row.sum() >= MOST * len(row)]
    shares = {
        name: pairs.sums(credit[name]).sum() / max(1.0, pairs.sums(known[name]).sum())
        for name in eligible or credit
    }
    return next(name for name, share in shares.items() if share >= max(shares.values()) - TIE)


@dataclass(frozen=True, slots=True)
class Gain:
    """By how much a way agrees more with people than another, on the pairs that both judged.

    ``value`` and ``other_value`` are their shares of the pairs; the interval of the difference is
    over samples of queries, and p of a paired t-test over queries, NaN where none was made.
    ``needed`` queries would show such a difference; 0 if none would.
    """

    way: str
    other: str
    value: float
    other_value: float
    difference: float
    low: float
    high: float
    p: float
    items: int
    queries: int
    needed: int

    @property
    def is_better(self) -> bool:
        """Return whether it is significantly better."""
        return self.difference > 0 and self.p <= LEVEL


def measure_gain(
    pairs: LabelledPairs,
    verdicts: Mapping[str, ArrayLike],
    way: str,
    other: str,
    *,
    measure: Measure = "concordance",
    tested: bool = False,
) -> Gain:
    """Measure by how much a way agrees more with people than another; test it if asked."""
    first, second = (pairs.credit(verdicts[name], measure) for name in (way, other))
    difference = first - second
    known = ~np.isnan(difference)
    both, gained = pairs.sums(known.astype(np.float64)), pairs.sums(difference)
    judged = both > 0
    both, gained = both[judged], gained[judged]
    found, total = estimate_share(gained, both), max(1.0, float(both.sum()))
    p = float(paired_test(gained[np.newaxis], 0.95).p[0]) if tested else nan
    value, other_value = (
        float(pairs.sums(np.where(known, row, nan)).sum()) / total for row in (first, second)
    )
    ends = (value, other_value, found.value, found.low, found.high, p)
    sizes = (int(known.sum()), int(judged.sum()), count_needed(gained, both))
    return Gain(way, other, *ends, *sizes)
