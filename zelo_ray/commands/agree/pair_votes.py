"""Collect the votes of people and judges on pairs, and a verdict of each rater on each pair."""

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from zelo_ray.evaluation.agreement.counts import Floats, RatingMatrix
from zelo_ray.evaluation.agreement.pairs import first_named, word_ratings
from zelo_ray.evaluation.agreement.single import once
from zelo_ray.evaluation.agreement.votes import Ballots, ballots, words
from zelo_ray.formats.interchange.verdicts import Verdicts
from zelo_ray.options import AgreeOptions


@dataclass(frozen=True, slots=True)
class PairVotes:
    """Votes of people, who are the first judge, and of judges.

    ``cast`` is made of ``votes``; ``single`` is without repeated votes; ``words`` are the verdicts,
    [judges, pairs], and ``ratings`` the same on the scale of verdicts.
    """

    votes: pa.Table
    cast: Ballots
    single: Ballots
    words: Floats
    ratings: RatingMatrix


def collect_pair_votes(verdicts: Verdicts, options: AgreeOptions) -> PairVotes:
    """Collect the votes and verdicts on the pairs that people voted on."""
    votes = pa.concat_tables([verdicts.voices, verdicts.votes], promote_options="default")
    cast = ballots(votes, sorted(pc.unique(votes["query_id"]).to_pylist()))
    single = once(cast, lenient=options.lenient)
    of_judges = words(single if options.lenient else cast)[1:]
    pair_words = np.concatenate([words(single)[:1], of_judges])
    ratings = word_ratings(cast, pair_words, first_named(cast, verdicts.voices))
    return PairVotes(votes, cast, single, pair_words, ratings)
