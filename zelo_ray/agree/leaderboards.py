"""The section on systems: whether runs stand in the same order by a judge's labels."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from zelo_ray.agree.section import Given, Section, laid_out, with_interval
from zelo_ray.agreement.intervals import draws
from zelo_ray.agreement.systems import discordant, tau_ap, tau_b, tau_interval
from zelo_ray.formats.runs import read_runs
from zelo_ray.formats.tables import table_of
from zelo_ray.formats.verdicts import HUMAN, Verdicts
from zelo_ray.measures import Measure, MeasureError, Ranking, Truth, evaluate, parse_measure, rank
from zelo_ray.significance import compare

PANEL = "panel"
"""The mean of the judges' grades."""

_SURE = 0.05
_JUDGES = 40  # for which there is room
Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Placed:
    """One run on the leaderboard of one rater; equal means share the better rank."""

    rater: str
    run: str
    measure: str
    mean: float
    rank: int
    queries: int


@dataclass(frozen=True, slots=True)
class Order:
    """How far the leaderboard of B agrees with that of A, on the queries that both graded.

    ``tau_ap`` reads B's from the top. Intervals are 95%, over samples of queries. ``discordant``
    counts the pairs of runs that stand the other way round; of these, ``apart`` are told apart by
    A's labels (the randomisation test, below .05 after Holm's correction over all ``pairs``).
    """

    rater_a: str
    rater_b: str
    measure: str
    runs: int
    queries: int
    tau_b: float
    tau_b_low: float
    tau_b_high: float
    tau_ap: float
    tau_ap_low: float
    tau_ap_high: float
    pairs: int
    discordant: int
    apart: int


def leaderboards(verdicts: Verdicts, given: Given) -> Section:
    """The runs by the people's labels, or else the panel's, and by those of every judge."""
    placed: list[Placed] = []
    orders: list[Order] = []
    if given["runs"]:
        boards = _boards(verdicts, given)
        first = HUMAN if len(verdicts.human) else PANEL
        placed = [line for board in boards.values() for line in board.placed()]
        if first in boards:
            pairs = [each for name, each in boards.items() if name != first]
            found = (_order(boards[first], each, given) for each in pairs)
            orders = [each for each in found if each]
    tables = {"leaderboards": table_of(placed, Placed), "systems": table_of(orders, Order)}
    return Section([*_lines(orders)], tables)


class _Board:
    """Runs measured by one rater's labels: ``values`` is [runs, queries]."""

    def __init__(
        self, rater: str, labels: pa.Table, runs: Mapping[str, pa.Table], measure: Measure
    ) -> None:
        self.rater, self.runs, self.measure = rater, [*runs], measure
        truth = Truth(labels)
        rankings: list[Ranking] = [rank(truth, run) for run in runs.values()]
        self.query_ids = truth.query_ids
        self._apart: dict[bytes, NDArray[np.bool_]] = {}
        self.values = np.stack([evaluate([measure], ranking)[0] for ranking in rankings])
        self.answered = np.stack([ranking.answered for ranking in rankings])

    def placed(self) -> Iterator[Placed]:
        """The leaderboard, best first."""
        means = np.nan_to_num(self.values).mean(axis=1)
        for i in np.argsort(-means, kind="stable"):
            place = 1 + int((means > means[i]).sum())
            name = str(self.measure)
            yield Placed(
                self.rater, self.runs[i], name, float(means[i]), place, len(self.query_ids)
            )

    def apart(self, queries: NDArray[np.int64], given: Given) -> NDArray[np.bool_]:
        """Which pairs of runs these labels tell apart, in the order of `itertools.combinations`."""
        key = queries.tobytes()  # most often those of all judges are the same
        if key not in self._apart:
            found = compare(
                {str(self.measure): np.where(self.answered, self.values, np.nan)[:, queries]},
                self.runs,
                resamples=max(100, given["resamples"]),
                confidence=0.95,
                seed=given["seed"],
            )
            self._apart[key] = np.array([each.p_holm < _SURE for each in found])
        return self._apart[key]


def _boards(verdicts: Verdicts, given: Given) -> dict[str, _Board]:
    measure = parse_measure(given["measure"])
    if measure.of_labels:
        raise MeasureError(f"{measure} tells more of the labels than of a run")
    runs = read_runs(given["runs"])
    rows = {HUMAN: verdicts.human} if len(verdicts.human) else {}
    for judge in verdicts.judges:
        rows[judge] = verdicts.grades.filter(pc.equal(verdicts.grades["judge"], judge))
    labels = {name: _mean(own) for name, own in rows.items()}
    judged = [labels[judge] for judge in verdicts.judges]
    if len(judged) > 1:
        labels[PANEL] = _mean(pa.concat_tables(judged).rename_columns({"relevance": "grade"}))
    return {name: _Board(name, own, runs, measure) for name, own in labels.items()}


def _mean(grades: pa.Table) -> pa.Table:
    """One label a document, the mean of its grades, by query_id."""
    keys = ["query_id", "doc_id"]
    table = grades.group_by(keys).aggregate([("grade", "mean")])
    return table.rename_columns({"grade_mean": "relevance"}).sort_by("query_id")


def _order(first: _Board, other: _Board, given: Given) -> Order | None:
    both = sorted(set(first.query_ids) & set(other.query_ids))
    if not both or len(first.runs) < 2:
        return None
    mine, theirs = (np.searchsorted(board.query_ids, both) for board in (first, other))
    tables = [np.nan_to_num(t) for t in (first.values[:, mine], other.values[:, theirs])]
    weights = draws(len(both), given["resamples"], given["seed"])
    whole = [table.mean(axis=1) for table in tables]
    sampled = [weights @ table.T / len(both) for table in tables]
    taus = []
    for tau in (tau_b, tau_ap):
        value = float(tau(*whole))
        taus.append((value, *tau_interval(value, tau(*sampled), len(both))))
    against = discordant(*whole)
    sure = first.apart(mine, given) if against.any() else against
    return Order(
        *(first.rater, other.rater, str(first.measure), len(first.runs), len(both)),
        *(*taus[0], *taus[1]),
        *(len(against), int(against.sum()), int((against & sure).sum())),
    )


def _lines(orders: Sequence[Order]) -> Iterator[str]:
    if not orders:
        return
    one = orders[0]
    ranked = sorted(orders, key=lambda each: -np.nan_to_num(each.tau_b, nan=-2))
    rows = [
        [
            each.rater_b,
            with_interval(each.tau_b, each.tau_b_low, each.tau_b_high),
            with_interval(each.tau_ap, each.tau_ap_low, each.tau_ap_high),
            f"{each.discordant:,} of {each.pairs:,}",
            f"{each.apart:,}",
            f"{each.queries:,}",
        ]
        for each in ranked[:_JUDGES]
    ]
    yield f"{one.runs:,} runs by {one.measure}, against their order by the labels of {one.rater_a}"
    yield from laid_out(["labels of", "tau-b", "tau-AP", "turned", "apart", "queries"], rows)
    if len(ranked) > _JUDGES:
        yield f"… and {len(ranked) - _JUDGES:,} more judges"
    yield "turned: pairs of runs in the other order; apart: of these, those that the labels of"
    yield f"{one.rater_a} tell apart (p < .05 after Holm)"
