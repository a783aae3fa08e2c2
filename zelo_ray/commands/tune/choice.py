"""Choose a candidate on one half of the queries, and test it on the other.

Nothing here knows of judges or files: verdicts on pairs of documents come in, as in
`zelo_ray.commands.compare_protocols.measured`, and figures come out.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import ceil, isnan, nan

import numpy as np
from scipy.special import ndtri

from zelo_ray.commands.compare_protocols.outcome import MOST
from zelo_ray.commands.compare_protocols.people import Item
from zelo_ray.evaluation.agreement import COEFFICIENTS, RatingMatrix
from zelo_ray.evaluation.agreement.counts import Floats
from zelo_ray.evaluation.agreement.differences import differences
from zelo_ray.evaluation.paired import PairedRows
from zelo_ray.evaluation.randomisation import randomisation_test
from zelo_ray.formats.judgments.all_judgments import HUMAN

LEVEL, POWER = 0.05, 0.8
"""The level of the test, two-sided, and the power for which queries are counted."""
_MOST_QUERIES = 10_000_000  # beyond that a difference is as good as none
_AGREEMENT = {"agreement": COEFFICIENTS["agreement"]}


@dataclass(frozen=True, slots=True)
class Gain:
    """How much more a candidate agrees with people than what is as it is, on what both judged.

    Attributes:
        candidate: its name.
        half: of the queries, on which it was measured.
        agreement: the share of the pairs on which it has the people's verdict.
        as_it_is: the same of what is as it is.
        difference: of the two.
        low, high: ends of its 95% interval, over samples of queries.
        p: of the paired randomisation test over queries; NaN where no test was made.
        items, queries: how many pairs, of how many queries, both judged.
        better, worse: on how many queries it agrees more, and less.
        needed: how many queries would show such a difference; 0 if none would, or it is unknown.
    """

    candidate: str
    half: str
    agreement: float
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


def choose(items: Sequence[Item], verdicts: Mapping[str, Sequence[int]]) -> str:
    """Return the candidate that agrees most with people on these items.

    Of equal ones it is the first. One that judged fewer than nine tenths of the items is not
    chosen, as they may be easier ones, unless all did.

    Args:
        items: pairs of documents with the people's verdict.
        verdicts: by candidate, its verdict on each item; -1 where it gave none.
    """
    people = np.array([item.verdict for item in items])
    words = {name: np.array(row) for name, row in verdicts.items()}
    whole = [name for name, row in words.items() if (row >= 0).sum() >= MOST * len(row)]
    shares = {
        name: (words[name] == people).sum() / max(1, (words[name] >= 0).sum())
        for name in whole or words
    }
    return max(shares, key=lambda name: float(shares[name]))


def measure_gain(
    items: Sequence[Item],
    verdicts: Mapping[str, Sequence[int]],
    candidate: str,
    as_it_is: str,
    half: str,
    *,
    resamples: int,
    seed: int,
    tested: bool,
) -> Gain:
    """Measure by how much a candidate agrees more with people than another.

    The difference is of shares of pairs, and its interval over samples of queries. p is of the
    paired randomisation test over queries (Smucker, Allan & Carterette 2007, CIKM): if neither is
    better, the verdicts of both could be exchanged on any query.

    Args:
        items: pairs of documents with the people's verdict.
        verdicts: by candidate, its verdict on each item; -1 where it gave none.
        candidate: the name of the one.
        as_it_is: the name of the other.
        half: of the queries, for the result.
        resamples: how many samples of queries, and of signs, are drawn.
        seed: all chance follows from it.
        tested: whether the test is made.
    """
    query_ids, query = np.unique([item.query_id for item in items], return_inverse=True)
    names = (HUMAN, candidate, as_it_is)
    rows = [[item.verdict for item in items], verdicts[candidate], verdicts[as_it_is]]
    grades = np.array(rows, dtype=np.int16).reshape(3, len(items))
    ratings = RatingMatrix(names, grades, query.astype(np.int64), 3)
    [found] = differences(ratings, HUMAN, [names[1:]], _AGREEMENT, resamples=resamples, seed=seed)
    both = (grades >= 0).all(axis=0)
    right = (grades[1:] == grades[0]).astype(np.float64)
    size = len(query_ids)
    apart: Floats = np.bincount(query[both], (right[0] - right[1])[both], size).astype(np.float64)
    pairs = np.bincount(query[both], minlength=size).astype(np.float64)
    p = nan
    if tested:
        [p] = randomisation_test(PairedRows(apart[np.newaxis]), resamples=resamples, seed=seed)
    return Gain(
        candidate,
        half,
        *(found.value_a, found.value_b, found.difference, found.low, found.high),
        float(p),
        *(found.items, found.queries),
        int((apart > 0).sum()),
        int((apart < 0).sum()),
        count_needed(apart[pairs > 0], pairs[pairs > 0]),
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
    if len(apart) < 2 or not apart.sum():
        return 0
    difference = apart.sum() / pairs.sum()
    residuals = (apart - difference * pairs) / pairs.mean()
    sd = float(np.sqrt((residuals**2).sum() / (len(apart) - 1)))
    wide = float(ndtri(1 - LEVEL / 2) + ndtri(POWER))
    needed = (wide * sd / abs(float(difference))) ** 2
    return 0 if isnan(needed) or needed > _MOST_QUERIES else max(2, ceil(needed))
