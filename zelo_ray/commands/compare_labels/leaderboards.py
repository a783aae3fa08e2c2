"""Compare the leaderboards of the same runs under two sets of labels."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from zelo_ray.commands.compare_labels.neighbours import SURE, Sibling, find_siblings, median_size
from zelo_ray.evaluation.measures import Measure, Truth, evaluate, rank_run
from zelo_ray.evaluation.significance import TIE, Floats, evaluate_rankers
from zelo_ray.evaluation.systems import estimate_taus
from zelo_ray.records import Mean

_CONFIDENCE = 0.95

Coefficient = Literal["tau-b", "tau-ap"]


@dataclass(frozen=True, slots=True)
class LeaderboardRow:
    """A run under both labels.

    Ranks start at 1; equal means share the better rank. ``moved`` is the number of places that the
    run is higher by the new labels.
    """

    run: str
    measure: str
    old: float
    old_low: float
    old_high: float
    old_rank: int
    new: float
    new_low: float
    new_high: float
    new_rank: int
    moved: int
    queries: int


@dataclass(frozen=True, slots=True)
class Tau:
    """Agreement of two leaderboards, with the 95% interval over samples of queries."""

    coefficient: Coefficient
    value: float
    low: float
    high: float


@dataclass(frozen=True, slots=True)
class Leaderboards:
    """Two leaderboards of the same runs, and how far they agree."""

    rows: tuple[LeaderboardRow, ...]
    """by the new labels, best first"""
    siblings: tuple[Sibling, ...]
    """neighbours by the new labels from the top, then others by the old labels"""
    taus: tuple[Tau, ...]
    """of the new against the old order; tau-AP reads the new one from the top"""
    significant: tuple[int, int]
    """the number of significantly different pairs of runs, by the old and by the new labels"""
    reversed_pairs: int
    """the number of pairs that differ significantly by both, in opposite directions"""
    median_effect_sizes: tuple[float, float]
    """the median absolute Cohen's d of all pairs of runs, by the old and by the new labels"""
    missing: Mapping[str, int]
    """by run, the number of queries that it did not rank, if any"""


def compare_leaderboards(
    old: pa.Table,
    new: pa.Table,
    runs: Mapping[str, pa.Table],
    measure: Measure,
) -> Leaderboards:
    """Measure runs by two sets of labels, on the queries that have both.

    In means, a query that a run did not answer counts as 0; pairs of runs are compared on queries
    that both answered.

    Args:
        old: the columns of `records.Qrel`.
        new: the same.
        runs: tables with the columns of `records.Ranked`, by name.
        measure: for both.

    Raises:
        OptionError: the measure cannot be computed.
        InputError: a run is not valid.
    """
    values: list[Floats] = []
    for labels, others in ((old, new), (new, old)):
        mask = pc.is_in(labels["query_id"], value_set=pc.unique(others["query_id"]))
        truth = Truth(labels.filter(mask).sort_by("query_id"))
        rankings = [rank_run(truth, run) for run in runs.values()]
        values.append(np.stack([evaluate([measure], ranking)[0] for ranking in rankings]))
    answered = np.stack([ranking.answered for ranking in rankings])  # the same under both labels
    unanswered = (~answered).sum(axis=1)
    rankers = [*runs]
    contests = [
        evaluate_rankers(
            *({str(measure): table}, answered, rankers),
            confidence=_CONFIDENCE,
        )
        for table in values
    ]
    rows = _rows(*(means for means, _ in contests))
    old_order = sorted(rows, key=lambda row: (row.old_rank, row.run))
    common = [
        dict(zip(rankers, np.where(answered, table, np.nan), strict=True)) for table in values
    ]
    old_of, new_of = ({(c.run_a, c.run_b): c for c in comparisons} for _, comparisons in contests)
    pairs = [(old_of[pair], new_of[pair]) for pair in old_of]
    both = [(a, b) for a, b in pairs if a.p_holm < SURE and b.p_holm < SURE]
    return Leaderboards(
        rows=rows,
        siblings=find_siblings(
            [[row.run for row in side] for side in (old_order, rows)],
            *(common, [old_of, new_of]),
        ),
        taus=_taus(*values),
        significant=(
            sum(a.p_holm < SURE for a, _ in pairs),
            sum(b.p_holm < SURE for _, b in pairs),
        ),
        reversed_pairs=sum(a.difference * b.difference < 0 for a, b in both),
        median_effect_sizes=(median_size(common[0]), median_size(common[1])),
        missing={ranker: int(n) for ranker, n in zip(rankers, unanswered, strict=True) if n},
    )


def _rows(old: list[Mean], new: list[Mean]) -> tuple[LeaderboardRow, ...]:
    ranks = [_ranks(side) for side in (old, new)]
    rows = [
        LeaderboardRow(
            run=a.run,
            measure=a.measure,
            old=a.mean,
            old_low=a.low,
            old_high=a.high,
            old_rank=ranks[0][a.run],
            new=b.mean,
            new_low=b.low,
            new_high=b.high,
            new_rank=ranks[1][b.run],
            moved=ranks[0][a.run] - ranks[1][b.run],
            queries=a.queries,
        )
        for a, b in zip(old, new, strict=True)
    ]
    return tuple(sorted(rows, key=lambda row: (row.new_rank, row.old_rank, row.run)))


def _ranks(means: list[Mean]) -> dict[str, int]:
    """Return competition ranks; a run without a mean is last."""
    values = np.nan_to_num([mean.mean for mean in means], nan=-np.inf)
    ranks = (1 + (values > value + TIE).sum() for value in values)
    return {mean.run: int(place) for mean, place in zip(means, ranks, strict=True)}


def _taus(old: Floats, new: Floats) -> tuple[Tau, ...]:
    if len(old) < 2:
        return ()
    names: tuple[Coefficient, ...] = ("tau-b", "tau-ap")
    return tuple(
        Tau(name, tau.value, tau.low, tau.high)
        for name, tau in zip(names, estimate_taus(old, new), strict=True)
    )
