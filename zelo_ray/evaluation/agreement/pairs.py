"""Turn verdicts on pairs of documents into ratings, to measure agreement with people.

A verdict (word) is 0 for "B is better", 1 for "a tie", 2 for "A is better"; without ties, where
both decided, 0 is B and 1 is A.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from itertools import combinations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from zelo_ray.evaluation.agreement.coefficients import (
    Agreement,
    Coefficient,
    measure_agreement,
    scale_name,
)
from zelo_ray.evaluation.agreement.counts import Floats, Ints, RatingMatrix
from zelo_ray.evaluation.agreement.differences import Difference, differences
from zelo_ray.evaluation.agreement.votes import Ballots

B_BETTER, TIE, A_BETTER = range(3)
WITH_TIES, A_OR_NOT, DECIDED = scale_name(3), scale_name(3, A_BETTER), scale_name(2)
"""The scales of verdicts: all three; A is better or not; A or B, where neither has a tie."""
VOTES, VOTES_DECIDED = "votes", "votes decided"
"""The scales of single votes, where each vote of one rater is compared with each of the other."""


def verdict_ratings(
    cast: Ballots, words: Floats, turn: Ints, weights: Floats | None = None
) -> RatingMatrix:
    """Build ratings from raters' verdicts on pairs.

    Args:
        cast: the votes; its queries are in the order of their ids.
        words: their verdicts, from `votes.words`, [raters, pairs].
        turn: from `find_orientation`, [pairs].
        weights: of the pairs that the first rater judged, [pairs]; None: not weighted.
    """
    grades = np.where(np.isnan(words), -1, np.nan_to_num(words * turn) + 1).astype(np.int16)
    return RatingMatrix(tuple(cast.judges), grades, cast.pairs[:, 0], 3, weights)


def find_orientation(cast: Ballots, people: pa.Table) -> Ints:
    """Return the document of each pair that people name A: 1 the first by ID, -1 the second.

    Of shape [pairs]. If they name any pair in both orders, A has no meaning, and it is always 1.

    Args:
        cast: the votes, of which those of the people come first.
        people: their votes.
    """
    direction = np.where(pc.less(people["doc_id_a"], people["doc_id_b"]).to_numpy(), 1, -1)
    pair = cast.pair[: len(direction)]
    sums = np.bincount(pair, direction, len(cast.pairs))
    if (np.abs(sums) < np.bincount(pair, minlength=len(cast.pairs))).any():
        return np.ones(len(cast.pairs), np.int64)
    return np.where(sums < 0, -1, 1)


def agreement_with_people(
    ratings: RatingMatrix, coefficients: Mapping[str, Coefficient], *, resamples: int, seed: int
) -> Iterator[Agreement]:
    """Measure how well each rater agrees with the people, the first rater.

    Args:
        ratings: verdicts of all raters.
        coefficients: by name.
        resamples: how many samples of queries are drawn.
        seed: all chance follows from it.

    Yields:
        By rater, scale (`WITH_TIES`, `A_OR_NOT`, `DECIDED`) and coefficient.
    """
    for row in range(1, len(ratings.raters)):
        two = ratings.choose([0, row])
        for judgments in (two, _decided(two)):
            yield from measure_agreement(
                *(judgments, {}, coefficients),
                thresholds=[A_BETTER],
                resamples=resamples,
                seed=seed,
            )[0]


def compare_raters(
    ratings: RatingMatrix,
    raters: Iterable[str],
    coefficients: Mapping[str, Coefficient],
    *,
    resamples: int,
    seed: int,
) -> list[Difference]:
    """Compare every two raters by how well they agree with the people.

    Args:
        ratings: verdicts of all raters; the people are the first one.
        raters: the raters to compare, in the order in which they are paired.
        coefficients: by name.
        resamples: how many samples of queries are drawn.
        seed: all chance follows from it.
    """
    pairs = [*combinations(raters, 2)]
    return [
        difference
        for judgments in (ratings, _decided(ratings))
        for difference in differences(
            *(judgments, ratings.raters[0], pairs, coefficients),
            resamples=resamples,
            seed=seed,
            thresholds=[A_BETTER],
        )
    ]


def _decided(ratings: RatingMatrix) -> RatingMatrix:
    """Return the ratings without ties."""
    grades = np.array([0, -1, 1, -1], np.int16)[ratings.grades]  # -1, the last, stays -1
    return replace(ratings, grades=grades, levels=2)
