"""Measure how far judges' verdicts on pairs agree with the majority of people."""

from collections.abc import Iterator, Sequence

import numpy as np

from zelo_ray.command_options import AgreeOptions
from zelo_ray.commands.agree.measured_tables import MeasuredTables
from zelo_ray.commands.agree.pair_votes import collect_pair_votes
from zelo_ray.evaluation.agreement import Agreement, Difference, estimate_share
from zelo_ray.evaluation.coefficients import COEFFICIENTS
from zelo_ray.evaluation.ranking import Floats
from zelo_ray.evaluation.votes import (
    VOTES,
    VOTES_DECIDED,
    WITH_TIES,
    VoteTable,
    agreement_with_people,
    compare_raters,
    cross_votes,
)
from zelo_ray.files.judges import HUMAN, AllJudgments
from zelo_ray.files.tables import table_of

_NAMED = {name: COEFFICIENTS[name] for name in ("agreement", "alpha-nominal", "kappa", "mcc")}


def measure_verdicts(verdicts: AllJudgments, options: AgreeOptions) -> MeasuredTables:
    """Measure how far judges agree with people on pairs, and compare every two judges in that."""
    agreed: list[Agreement] = []
    apart: list[Difference] = []
    missing: list[str] = []
    if len(verdicts.human_votes):
        pair_votes = collect_pair_votes(verdicts, options)
        ratings = pair_votes.ratings
        agreed = [
            *agreement_with_people(ratings, _NAMED),
            *_by_votes(pair_votes.without_repeats, ratings.weights),
        ]
        judges = _best_first(agreed)
        apart = compare_raters(ratings, judges, _NAMED)
        missing = [*_note_unmatched(verdicts, agreed)]
    elif len(verdicts.votes) and len(verdicts.human):
        missing = [f"judges voted, but {HUMAN} graded both documents of each pair alike"]
    tables = {
        "outcomes": table_of(agreed, Agreement),
        "differences": table_of(apart, Difference),
    }
    return MeasuredTables(tables, missing)


def _by_votes(cast: VoteTable, weights: Floats | None) -> Iterator[Agreement]:
    """Yield each judge's agreement with the people, vote by vote."""
    for row, judge in enumerate(cast.judges[1:], 1):
        table, plain = cross_votes(cast, 0, row, weights), cross_votes(cast, 0, row)
        for scale, part in ((VOTES, slice(None)), (VOTES_DECIDED, slice(None, None, 2))):
            counts = table[:, part, part]
            same, totals = np.trace(counts, axis1=1, axis2=2), counts.sum(axis=(1, 2))
            agreement = estimate_share(same, totals)
            ends = (agreement.value, agreement.low, agreement.high)
            items = round(float(plain[:, part, part].sum()))
            yield Agreement(HUMAN, judge, scale, "agreement", *ends, items, agreement.queries)


def _best_first(agreed: Sequence[Agreement]) -> list[str]:
    """Return the judges that have pairs in common with people, the highest alpha first."""
    leading = {
        row.rater_b: np.nan_to_num(row.value, nan=-2)
        for row in agreed
        if (row.scale, row.coefficient) == (WITH_TIES, "alpha-nominal") and row.items
    }
    return sorted(leading, key=lambda judge: -leading[judge])


def _note_unmatched(verdicts: AllJudgments, agreed: Sequence[Agreement]) -> Iterator[str]:
    if not len(verdicts.votes):
        yield f"{HUMAN} voted on pairs, but no judge did"
    for row in agreed:
        if row.scale == VOTES and not row.items:
            yield f"{row.rater_b} and {HUMAN} judged no pair in common"
