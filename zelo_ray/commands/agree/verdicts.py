"""Measure how far judges' verdicts on pairs agree with the majority of people."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from zelo_ray.commands.agree.measured_tables import MeasuredTables
from zelo_ray.commands.agree.pair_votes import PairVotes, collect_pair_votes
from zelo_ray.evaluation.agreement import COEFFICIENTS, FEWEST, Agreement
from zelo_ray.evaluation.agreement.differences import Difference
from zelo_ray.evaluation.agreement.estimates import estimate_share
from zelo_ray.evaluation.agreement.pairs import (
    VOTES,
    VOTES_DECIDED,
    WITH_TIES,
    agreement_with_people,
    compare_raters,
)
from zelo_ray.evaluation.agreement.votes import Ballots, cross_votes
from zelo_ray.formats.interchange.all_judgments import HUMAN, AllJudgments
from zelo_ray.formats.tables import table_of
from zelo_ray.options import AgreeOptions

_NAMED = {name: COEFFICIENTS[name] for name in ("agreement", "alpha-nominal", "kappa", "mcc")}


@dataclass(frozen=True, slots=True)
class Win:
    """The share of pairs that a document wins, of those that a judge and people judged.

    A tie is half a win; of several votes of a rater on a pair the majority counts. ``human`` is
    the same by people's verdicts; intervals are 95%, over samples of queries.
    """

    judge: str
    doc_id: str
    wins: float
    low: float
    high: float
    human: float
    human_low: float
    human_high: float
    pairs: int
    queries: int


def measure_verdicts(verdicts: AllJudgments, options: AgreeOptions) -> MeasuredTables:
    """Measure how far judges agree with people on pairs, and compare every two judges in that."""
    agreed: list[Agreement] = []
    apart: list[Difference] = []
    won: list[Win] = []
    missing: list[str] = []
    if len(verdicts.human_votes):
        pair_votes = collect_pair_votes(verdicts, options)
        ratings = pair_votes.ratings
        agreed = [
            *agreement_with_people(ratings, _NAMED, **options.interval_settings),
            *_by_votes(pair_votes.without_repeats, options),
        ]
        judges = _best_first(agreed)
        apart = compare_raters(ratings, judges, _NAMED, **options.interval_settings)
        won = [*_wins(pair_votes, options)]
        missing = [*_note_unmatched(verdicts, agreed)]
    elif len(verdicts.votes) and len(verdicts.human):
        missing = [f"judges voted, but {HUMAN} graded both documents of each pair alike"]
    tables = {
        "outcomes": table_of(agreed, Agreement),
        "differences": table_of(apart, Difference),
        "wins": table_of(won, Win),
    }
    return MeasuredTables(tables, missing)


def _by_votes(cast: Ballots, options: AgreeOptions) -> Iterator[Agreement]:
    """Yield each judge's agreement with the people, vote by vote."""
    for row, judge in enumerate(cast.judges[1:], 1):
        table = cross_votes(cast, 0, row)
        for scale, counts in ((VOTES, table), (VOTES_DECIDED, table[:, ::2, ::2])):
            same, totals = np.trace(counts, axis1=1, axis2=2), counts.sum(axis=(1, 2))
            agreement = estimate_share(same, totals, **options.interval_settings)
            ends = (agreement.value, agreement.low, agreement.high)
            items = round(float(totals.sum()))
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


def _wins(pair_votes: PairVotes, options: AgreeOptions) -> Iterator[Win]:
    """Yield win rates of each document that was compared in enough queries for an interval."""
    cast, words, votes = pair_votes.ballots, pair_votes.verdicts, pair_votes.votes
    doc_ids = sorted({*votes["doc_id_a"].to_pylist(), *votes["doc_id_b"].to_pylist()})
    for row, judge in enumerate(cast.judges[1:], 1):
        pairs = np.flatnonzero(~np.isnan(words[[0, row]]).any(axis=0))
        query = cast.pairs[pairs, 0]
        documents = np.unique(
            np.concatenate([cast.pairs[pairs][:, [0, side]] for side in (1, 2)]), axis=0
        )
        places, queries = np.unique(documents[:, 1], return_counts=True)
        for place in places[queries >= FEWEST]:
            first, second = (cast.pairs[pairs, side] == place for side in (1, 2))
            mask = first | second
            totals = np.bincount(query[mask], minlength=len(cast.query_ids))
            turn = np.where(first[mask], 1, -1)
            points = [(turn * words[rater, pairs[mask]] + 1) / 2 for rater in (row, 0)]
            by_judge, by_people = (
                estimate_share(
                    np.bincount(query[mask], won, len(totals)), totals, **options.interval_settings
                )
                for won in points
            )
            ends = (
                by_judge.value,
                by_judge.low,
                by_judge.high,
                by_people.value,
                by_people.low,
                by_people.high,
            )
            yield Win(judge, doc_ids[place - 1], *ends, int(totals.sum()), by_judge.queries)
