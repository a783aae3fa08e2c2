"""Collect the votes of people and judges on pairs, and a verdict of each rater on each pair."""

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from zelo_ray.command_options import AgreeOptions
from zelo_ray.evaluation.coefficients import RatingMatrix
from zelo_ray.evaluation.ranking import Floats
from zelo_ray.evaluation.votes import (
    VoteTable,
    encode_votes,
    find_orientation,
    judge_verdicts,
    reduce_repeats,
    verdict_ratings,
)
from zelo_ray.files.judges import AllJudgments, weights_of


@dataclass(frozen=True, slots=True)
class PairVotes:
    """Votes of people, who are the first judge, and of judges.

    ``verdicts`` are of shape [judges, pairs], and ``ratings`` the same on the scale of verdicts,
    with the weights of the pairs.
    """

    ballots: VoteTable
    without_repeats: VoteTable
    verdicts: Floats
    ratings: RatingMatrix


def collect_pair_votes(verdicts: AllJudgments, options: AgreeOptions) -> PairVotes:
    """Collect the votes and verdicts on the pairs that people voted on."""
    votes = pa.concat_tables([verdicts.human_votes, verdicts.votes], promote_options="default")
    cast = encode_votes(votes, sorted(pc.unique(votes["query_id"]).to_pylist()))
    lenient = options.both_orders == "lenient"
    single = reduce_repeats(cast, lenient=lenient)
    of_judges = judge_verdicts(single if lenient else cast)[1:]
    pair_words = np.concatenate([judge_verdicts(single)[:1], of_judges])
    weights = None
    if verdicts.weights:
        by_row = weights_of(verdicts.human_votes, verdicts.weights)
        weights = np.zeros(len(cast.pairs))
        weights[cast.pair[: len(by_row)]] = by_row  # people's votes come first
    turn = find_orientation(cast, verdicts.human_votes)
    ratings = verdict_ratings(cast, pair_words, turn, weights)
    return PairVotes(cast, single, pair_words, ratings)
