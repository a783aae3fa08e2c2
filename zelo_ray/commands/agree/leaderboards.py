"""Measure whether a judge's labels put runs in the same order as people's labels."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from zelo_ray.command_options import AgreeOptions
from zelo_ray.commands.agree.measured_tables import MeasuredTables
from zelo_ray.errors import OptionError
from zelo_ray.evaluation.measures import Measure, Ranking, Truth, evaluate, parse_measure, rank_run
from zelo_ray.evaluation.significance import compare_pairs
from zelo_ray.evaluation.systems import discordant, estimate_taus
from zelo_ray.files.candidates import describe_doubts
from zelo_ray.files.judges import HUMAN, OTHERS, PANEL, AllJudgments
from zelo_ray.files.judgments import read_runs
from zelo_ray.files.schema import split_columns
from zelo_ray.files.tables import table_of
from zelo_ray.files.wording import counted

_SURE = 0.05
_ITEM = ["query_id", "doc_id"]
_SORTED = [(name, "ascending") for name in _ITEM]


@dataclass(frozen=True, slots=True)
class LeaderboardPlace:
    """A run on the leaderboard of a rater; equal means share the better rank."""

    rater: str
    run: str
    measure: str
    mean: float
    rank: int
    queries: int


@dataclass(frozen=True, slots=True)
class OrderAgreement:
    """Agreement of B's leaderboard with A's, by the ``items`` that both graded.

    A is ``others`` for the mean of all judges but B. ``tau_ap`` reads B's leaderboard from the top.
    Intervals are 95%, over samples of queries, and rough. Of all ``pairs`` of runs, ``discordant``
    are in the opposite order. By A's labels ``told`` pairs differ significantly (p < .05
    after Holm's correction); of these, ``apart`` are discordant.
    """

    rater_a: str
    rater_b: str
    measure: str
    runs: int
    queries: int
    items: int
    tau_b: float
    tau_b_low: float
    tau_b_high: float
    tau_ap: float
    tau_ap_low: float
    tau_ap_high: float
    pairs: int
    discordant: int
    told: int
    apart: int


def measure_leaderboards(verdicts: AllJudgments, options: AgreeOptions) -> MeasuredTables:
    """Compare the leaderboard by each judge's labels with that by people's or other judges'."""
    placed: list[LeaderboardPlace] = []
    orders: list[OrderAgreement] = []
    missing: list[str] = []
    notes: Sequence[str] = ()
    if options.runs:
        runs = read_runs(options.runs, split_columns(options.columns))
        boards = _build_leaderboards(verdicts, options, runs)
        notes = describe_doubts(runs, parse_measure(options.measure).cutoff)
        placed = [line for board in boards.values() for line in board.rows()]
        orders = [order for pair in _pairs(boards, verdicts) if (order := _compare_orders(*pair))]
        if HUMAN in boards:
            missing = [*_note_partial_labels(orders, verdicts.judges, len(boards[HUMAN].labels))]
    tables = {
        "leaderboards": table_of(placed, LeaderboardPlace),
        "systems": table_of(orders, OrderAgreement),
    }
    return MeasuredTables(tables, missing, notes)


class _Leaderboard:
    """Runs measured by one rater's labels: ``values`` is [runs, queries]."""

    def __init__(
        self, rater: str, labels: pa.Table, runs: Mapping[str, pa.Table], measure: Measure
    ) -> None:
        self.rater, self.labels, self.runs, self.measure = rater, labels, runs, measure
        truth = Truth(labels)
        rankings: list[Ranking] = [rank_run(truth, run) for run in runs.values()]
        self.query_ids = truth.query_ids
        self._distinct: NDArray[np.bool_] | None = None
        self.values = np.stack([evaluate([measure], ranking)[0] for ranking in rankings])
        self.answered = np.stack([ranking.answered for ranking in rankings])

    def restricted_to(self, items: pa.Table) -> "_Leaderboard":
        """Return the leaderboard by the labels of some of the items only."""
        if len(items) == len(self.labels):
            return self
        labels = self.labels.join(items, _ITEM, join_type="left semi")
        return _Leaderboard(self.rater, labels.sort_by(_SORTED), self.runs, self.measure)

    def rows(self) -> Iterator[LeaderboardPlace]:
        """Yield the rows of the leaderboard, best first."""
        means = np.nan_to_num(self.values).mean(axis=1)
        for i in np.argsort(-means, kind="stable"):
            place = 1 + int((means > means[i]).sum())
            where = self.rater, [*self.runs][i], str(self.measure)
            yield LeaderboardPlace(*where, float(means[i]), place, len(self.query_ids))

    def distinct(self) -> NDArray[np.bool_]:
        """Return which pairs of runs the labels tell apart, in `itertools.combinations` order."""
        if self._distinct is None:  # most often all judges graded the same, and meet the same board
            comparisons = compare_pairs(
                {str(self.measure): np.where(self.answered, self.values, np.nan)},
                [*self.runs],
                confidence=0.95,
            )
            self._distinct = np.array([comparison.p_holm < _SURE for comparison in comparisons])
        return self._distinct


def _build_leaderboards(
    verdicts: AllJudgments, options: AgreeOptions, runs: Mapping[str, pa.Table]
) -> dict[str, _Leaderboard]:
    """Return the leaderboards of people, of every judge, and of the panel."""
    measure = parse_measure(options.measure)
    if measure.of_labels:
        raise OptionError(f"{measure} measures the labels, not a run")
    rows = {HUMAN: verdicts.human} if len(verdicts.human) else {}
    for judge in verdicts.judges:
        rows[judge] = verdicts.grades.filter(pc.equal(verdicts.grades["judge"], judge))
    labels = {
        name: _mean(table.rename_columns({"grade": "relevance"})) for name, table in rows.items()
    }
    if len(verdicts.panel) > 1:
        labels[PANEL] = _mean(pa.concat_tables([labels[judge] for judge in verdicts.panel]))
    return {name: _Leaderboard(name, table, runs, measure) for name, table in labels.items()}


def _pairs(
    boards: Mapping[str, _Leaderboard], verdicts: AllJudgments
) -> Iterator[tuple[_Leaderboard, _Leaderboard]]:
    """Yield the reference leaderboard (people's, else other judges') with each other one."""
    if HUMAN in boards:
        yield from ((boards[HUMAN], board) for name, board in boards.items() if name != HUMAN)
        return
    for judge in verdicts.judges:
        judge_board = boards[judge]
        others = [boards[name] for name in verdicts.panel if name != judge]
        if len(others) == 1:
            yield others[0], judge_board
        elif others:
            labels = _mean(pa.concat_tables([board.labels for board in others]))
            yield _Leaderboard(OTHERS, labels, judge_board.runs, judge_board.measure), judge_board


def _mean(labels: pa.Table) -> pa.Table:
    """Average the labels of each item."""
    table = labels.group_by(_ITEM).aggregate([("relevance", "mean")])
    return table.rename_columns({"relevance_mean": "relevance"}).sort_by(_SORTED)


def _compare_orders(first: _Leaderboard, second: _Leaderboard) -> OrderAgreement | None:
    items = first.labels.select(_ITEM).join(second.labels, _ITEM, join_type="left semi")
    if not len(items) or len(first.runs) < 2:
        return None
    first, second = first.restricted_to(items), second.restricted_to(items)
    queries = len(first.query_ids)
    tables = [np.nan_to_num(board.values) for board in (first, second)]
    taus = [(tau.value, tau.low, tau.high) for tau in estimate_taus(*tables)]
    against, distinct = discordant(*(table.mean(axis=1) for table in tables)), first.distinct()
    return OrderAgreement(
        *(first.rater, second.rater, str(first.measure), len(first.runs), queries, len(items)),
        *(*taus[0], *taus[1]),
        *(len(against), int(against.sum()), int(distinct.sum()), int((against & distinct).sum())),
    )


def _note_partial_labels(
    orders: Sequence[OrderAgreement], judges: Sequence[str], documents: int
) -> Iterator[str]:
    for order in orders:
        if order.items < documents and order.rater_b in judges:
            yield (
                f"{order.rater_b} graded {order.items:,} of the {counted(documents, 'document')} "
                f"that {HUMAN} graded, and its order of runs is by these"
            )
