"""Choose a candidate on one half of the queries, and test it on the other.

Nothing here knows of judges or files: verdicts on pairs of documents come in, as in
`zelo_ray.commands.compare_protocols.measured`, and figures come out.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import ceil, isnan, nan
from typing import Literal

import numpy as np
import scipy

from zelo_ray.commands.compare_protocols.outcome import MOST
from zelo_ray.commands.compare_protocols.people import Item
from zelo_ray.evaluation.agreement import estimate_share
from zelo_ray.evaluation.significance import TIE, Floats, paired_test

LEVEL, POWER = 0.05, 0.8
"""The level of the test, two-sided, and the power for which queries are counted."""
_MOST_QUERIES = 10_000_000  # beyond that a difference is as good as none
Measure = Literal["concordance", "agreement"]


@dataclass(frozen=True, slots=True)
class Gain:
    """The difference of a candidate from what is as it is, in agreement with people.

    Attributes:
        candidate: its name.
        half: of the queries, on which it was measured.
        value: its share of the pairs, by the measure (`credit_pairs`).
        as_it_is: the same of what is as it is.
        difference: of the two.
        low, high: ends of its 95% interval, over samples of queries.
        p: of a paired t-test over queries; NaN where no test was made.
        items, queries: how many pairs, of how many queries, both judged; others do not count.
        better, worse: on how many queries it agrees more, and less.
        needed: how many queries would show such a difference; 0 if none would, or it is unknown.
    """

    candidate: str
    half: str
    value: float
    as_it_is: float
    difference: float
    low: float
    high: float
    p: float
    items: int
    queries: int
    better: int
    worse: int
    needed: int

    @property
    def is_better(self) -> bool:
        """Return whether it is significantly better."""
        return self.difference > 0 and self.p <= LEVEL

    @property
    def is_worse(self) -> bool:
        """Return whether it is significantly worse."""
        return self.difference < 0 and self.p <= LEVEL


def credit_pairs(
    items: Sequence[Item], verdicts: Sequence[int], measure: Measure = "concordance"
) -> Floats:
    """Return what each verdict on a pair counts: 1 if it is the people's, 0 if it is the other.

    By ``concordance`` a tie where people decide counts half, as does a decision where people say a
    tie: so guesses in place of ties change nothing on average. By ``agreement`` both count 0, so a
    candidate that guesses looks better than one that says a tie.

    Args:
        items: pairs of documents with the people's verdict.
        verdicts: on each item; -1 where there is none.
        measure: concordance or agreement.

    Returns:
        Of shape [items]; NaN where there is no verdict.
    """
    people = np.array([item.verdict for item in items], dtype=np.float64)
    words = np.array(verdicts, dtype=np.float64)
    apart = np.abs(words - people)
    credit = 1 - apart / 2 if measure == "concordance" else (apart == 0).astype(np.float64)
    credits_or_nan: Floats = np.where(words < 0, np.nan, credit)
    return credits_or_nan


def weights_of(items: Sequence[Item]) -> Floats:
    """Return how many pairs each stands for, [items]."""
    return np.array([item.weight for item in items], dtype=np.float64)


def choose(
    items: Sequence[Item],
    verdicts: Mapping[str, Sequence[int]],
    measure: Measure = "concordance",
) -> str:
    """Return the candidate that agrees most with people on these items.

    Of equal ones it is the first. One that judged fewer than nine tenths of the items is not
    chosen, as they may be easier ones, unless all did.

    Args:
        items: pairs of documents with the people's verdict.
        verdicts: by candidate, its verdict on each item; -1 where it gave none.
        measure: what is compared.
    """
    counted = {name: credit_pairs(items, row, measure) for name, row in verdicts.items()}
    judged = {name: ~np.isnan(row) for name, row in counted.items()}
    eligible = [name for name, mask in judged.items() if mask.sum() >= MOST * len(items)]
    weights = weights_of(items)
    shares = {
        name: float(np.nansum(weights * counted[name])) / max(1, float(weights[judged[name]].sum()))
        for name in eligible or counted
    }
    best = max(shares.values())
    return next(name for name, share in shares.items() if share >= best - TIE)


def measure_gain(
    items: Sequence[Item],
    verdicts: Mapping[str, Sequence[int]],
    candidate: str,
    as_it_is: str,
    half: str,
    *,
    measure: Measure = "concordance",
    tested: bool,
) -> Gain:
    """Measure by how much a candidate agrees more with people than another.

    The difference is of shares of pairs, and its interval over samples of queries. p is of a
    paired t-test over queries.

    Args:
        items: pairs of documents with the people's verdict.
        verdicts: by candidate, its verdict on each item; -1 where it gave none.
        candidate: the name of the one.
        as_it_is: the name of the other.
        half: of the queries, for the result.
        measure: what is compared.
        tested: whether the test is made.
    """
    credit, credit_as_it_is = (
        credit_pairs(items, verdicts[name], measure) for name in (candidate, as_it_is)
    )
    in_common = ~np.isnan(credit + credit_as_it_is)
    names = np.array([item.query_id for item in items])[in_common]
    query_ids, query = np.unique(names, return_inverse=True)

    weights = weights_of(items)

    def sums(values: Floats) -> Floats:
        weighted = (weights * values)[in_common]
        return np.bincount(query, weighted, len(query_ids)).astype(np.float64)

    apart, pairs = sums(credit - credit_as_it_is), sums(np.ones(len(items)))
    total = max(1.0, float(pairs.sum()))
    difference = estimate_share(apart, pairs)
    p = nan
    if tested:
        p = float(paired_test(apart[np.newaxis], 0.95).p[0])
    value, value_as_it_is = (float(sums(row).sum()) / total for row in (credit, credit_as_it_is))
    return Gain(
        *(candidate, half, value, value_as_it_is),
        *(difference.value, difference.low, difference.high, p),
        *(int(in_common.sum()), len(query_ids)),
        int((apart > TIE).sum()),
        int((apart < -TIE).sum()),
        count_needed(apart, pairs),
    )


def count_needed(apart: Floats, pairs: Floats) -> int:
    """Return how many queries would show the difference seen, at level .05 with power .8.

    The difference is a ratio of sums over queries, whose variance is that of its residuals
    (Cochran 1977, Sampling Techniques, section 6.4). The number of queries follows from the normal
    approximation (Cohen 1988, Statistical Power Analysis, section 2.4; for retrieval Webber, Moffat
    & Zobel 2008, CIKM): n = ((z of .975 + z of .8) sd / difference)^2.

    Args:
        apart: by query, on how many more pairs the one is right than the other, [queries].
        pairs: by query, how many pairs both judged, above 0, [queries].

    Returns:
        The number; 0 with fewer than two queries, or no difference.
    """
    if len(apart) < 2 or abs(apart.sum()) <= TIE:
        return 0
    difference = apart.sum() / pairs.sum()
    residuals = (apart - difference * pairs) / pairs.mean()
    sd = float(np.sqrt((residuals**2).sum() / (len(apart) - 1)))
    wide = float(scipy.special.ndtri(1 - LEVEL / 2) + scipy.special.ndtri(POWER))
    needed = (wide * sd / abs(float(difference))) ** 2
    return 0 if isnan(needed) or needed > _MOST_QUERIES else max(2, ceil(needed))
