"""Measure how often people agree with the panel, by how far its judges agree."""

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from zelo_ray.command_options import AgreeOptions
from zelo_ray.commands.agree.measured_tables import MeasuredTables
from zelo_ray.commands.agree.pair_votes import collect_pair_votes
from zelo_ray.evaluation.coefficients import ratings_of
from zelo_ray.files.judges import HUMAN, AllJudgments
from zelo_ray.files.tables import table_of
from zelo_ray.fitting.consensus import grade_consensus, vote_consensus
from zelo_ray.records import Consensus


def measure_consensus(verdicts: AllJudgments, options: AgreeOptions) -> MeasuredTables:
    """Measure how often people agree with the panel, at each level of agreement of its judges."""
    rows = [*_by_votes(verdicts, options), *_by_grades(verdicts, options)]
    return MeasuredTables({"consensus": table_of(rows, Consensus)})


def _by_votes(verdicts: AllJudgments, options: AgreeOptions) -> list[Consensus]:
    if not (len(verdicts.human_votes) and len(verdicts.votes)):
        return []
    pair_votes = collect_pair_votes(verdicts, options)
    return vote_consensus(
        pair_votes.verdicts[1:], pair_votes.verdicts[0], pair_votes.ballots.pairs[:, 0]
    )


def _by_grades(verdicts: AllJudgments, options: AgreeOptions) -> list[Consensus]:
    judged = verdicts.grades.filter(
        pc.is_in(verdicts.grades["judge"], pa.array(verdicts.panel, pa.string()))
    )
    if not (len(verdicts.human) and len(judged)):
        return []
    ratings = ratings_of(pa.concat_tables([verdicts.human, judged]), verdicts.levels)
    people = ratings.raters.index(HUMAN)
    judges = np.delete(ratings.grades, people, axis=0)
    cuts = options.positive_thresholds if verdicts.levels > 2 else ()
    return grade_consensus(judges, ratings.grades[people], ratings.queries, verdicts.levels, cuts)
