"""Measure whether a protocol's labels put systems in the order of people's, at equal money.

A budget pays for as many queries as a protocol's mean cost of a query allows; with these labels
the mean of a measure orders the runs. People's order is by their labels of all queries.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from math import isfinite, isnan, nan

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from zelo_ray.commands.compare_protocols.outcome import Cost, Unit
from zelo_ray.errors import InputError, OptionError
from zelo_ray.evaluation.agreement.estimates import Estimate
from zelo_ray.evaluation.agreement.intervals import interval
from zelo_ray.evaluation.agreement.systems import Floats, discordant, tau_ap, tau_b, tau_interval
from zelo_ray.evaluation.measures import (
    Measure,
    Truth,
    default_measures,
    evaluate,
    parse_measure,
    rank_run,
)
from zelo_ray.evaluation.significance import compare_pairs
from zelo_ray.formats.matching_ids import explain_mismatch
from zelo_ray.formats.results import read_table

Grades = Mapping[str, Mapping[str, float]]
"""Labels by query and document."""

FEWEST_RUNS = 2
_SHARES = (0.25, 0.5)
"""Budgets below what the cheapest protocol took in all, as shares of that."""
_SURE = 0.05
_SCORES = ("query_id", "doc_id", "score")


@dataclass(frozen=True, slots=True)
class SystemOrder:
    """Agreement of the order of runs by a protocol's labels, for some money, with people's order.

    Intervals are 95%, over samples of queries, and rough. Of all ``pairs`` of runs people's labels
    tell ``apart_by_people`` apart (randomisation test, p < .05 after Holm's correction), and the
    protocol's labels ``apart``: of these ``right`` are so by people's labels and in their order,
    ``wrong`` in the opposite one, and the others are not told apart by people's labels.
    """

    protocol: str
    measure: str
    budget: float
    """dollars, or calls, that every protocol may spend; NaN where costs are not known"""
    spent: float
    """dollars, or calls, for the labels, on average over the choice of queries"""
    all_labels: bool
    """whether these are all labels of the protocol"""
    queries: int
    """whose labels they are"""
    of_queries: int
    """that people labelled"""
    runs: int
    tau_b: float
    tau_b_low: float
    tau_b_high: float
    tau_ap: float
    tau_ap_low: float
    tau_ap_high: float
    best: bool
    """whether no other protocol has a higher tau-b for so much money"""
    like_best: bool
    """whether its tau-b is not significantly below that of the best for so much money: the paired
    95% interval of the difference holds 0"""
    pairs: int
    apart_by_people: int
    apart: int
    right: int
    wrong: int


@dataclass(frozen=True, slots=True)
class _Board:
    """Runs measured by some labels: values [runs, queries], NaN where there is no label."""

    measure: str
    values: Floats
    answered: NDArray[np.bool_]

    @property
    def queries(self) -> NDArray[np.int64]:
        """Return the places of the queries that have labels."""
        places: NDArray[np.int64] = np.flatnonzero((~np.isnan(self.values)).any(axis=0))
        return places


def check_runs(runs: Mapping[str, pa.Table], grades: Grades, human: str) -> None:
    """Refuse runs that cannot be ordered by people's labels, before anything is asked.

    Raises:
        OptionError: people voted and gave no grades, or there is one run only.
        InputError: no run has a query that people labelled.
    """
    if not grades:
        raise OptionError(f"--runs: runs are measured by grades of documents; {human} holds votes")
    if len(runs) < FEWEST_RUNS:
        raise OptionError("--runs: an order takes at least two runs")
    for name, run in runs.items():
        ids = pc.unique(run["query_id"]).to_pylist()
        if not grades.keys() & {*ids}:
            why = explain_mismatch(name, ids, human, [*grades])
            raise InputError(f"no query of the run {name} has labels of people: {why}")


def read_scores(out: str) -> Grades:
    """Read the scores of a protocol's run under a directory or URL."""
    by_query: dict[str, dict[str, float]] = {}
    table = read_table(out, "scores", _SCORES)
    for query_id, doc_id, score in zip(*(table[c].to_pylist() for c in _SCORES), strict=True):
        if score is not None and isfinite(score):
            by_query.setdefault(query_id, {})[doc_id] = score
    return by_query


def measure_orders(
    people: Grades,
    labels: Mapping[str, Grades],
    costs: Sequence[Cost],
    runs: Mapping[str, pa.Table],
    *,
    unit: Unit,
    measure: str | None,
    resamples: int,
    seed: int,
) -> list[SystemOrder]:
    """Compare the order of runs by each protocol's labels with that by people's, at some budgets.

    Only documents that people graded count, so that all protocols are compared with one order.

    Args:
        people: their grades, of the queries that protocols were asked about.
        labels: by protocol, its scores.
        costs: of each protocol and query.
        runs: the systems, tables of `Ranked`.
        unit: of the costs.
        measure: orders the runs; None: what suits each one's labels.
        resamples: how many samples of queries are drawn.
        seed: of all that is drawn.
    """
    query_ids = [*people]
    theirs = _build_board(query_ids, people, runs, measure)
    rng = np.random.default_rng(seed % 2**64)
    samples = rng.integers(0, len(query_ids), (resamples, len(query_ids)))
    orders = np.argsort(rng.random((resamples, len(query_ids))), axis=1)
    boards = {
        protocol: _build_board(query_ids, _restrict(scores, people), runs, measure)
        for protocol, scores in labels.items()
    }
    totals = {protocol: _sum_costs(protocol, costs, unit) for protocol in boards}
    price = {p: total / max(1, len(boards[p].queries)) for p, total in totals.items()}
    apart = _tell_apart(theirs, theirs.queries, runs, resamples, seed)
    rows_of_all = list[SystemOrder]()
    for budget in _budgets([*totals.values()]):
        rows, drawn = list[SystemOrder](), list[Floats]()
        for protocol, board in boards.items():
            full = len(board.queries)
            count = full if isnan(budget) else min(full, int(budget / price[protocol] + 1e-9))
            if not count:
                continue
            chosen = _choose(board, orders, count)
            by_b, by_ap, sampled = _compare(theirs, board, samples, chosen)
            distinct = _tell_apart(board, chosen[0], runs, resamples, seed)
            against = discordant(_mean(theirs.values), _mean(board.values[:, chosen[0]]))
            row = SystemOrder(
                protocol=protocol,
                measure=board.measure,
                budget=budget,
                spent=price[protocol] * count,
                all_labels=count == full,
                queries=count,
                of_queries=len(query_ids),
                runs=len(runs),
                tau_b=by_b.value,
                tau_b_low=by_b.low,
                tau_b_high=by_b.high,
                tau_ap=by_ap.value,
                tau_ap_low=by_ap.low,
                tau_ap_high=by_ap.high,
                best=False,
                like_best=False,
                pairs=len(apart),
                apart_by_people=int(apart.sum()),
                apart=int(distinct.sum()),
                right=int((apart & distinct & ~against).sum()),
                wrong=int((apart & distinct & against).sum()),
            )
            rows.append(row)
            drawn.append(sampled)
        rows_of_all += _mark_best(rows, drawn)
    return rows_of_all


def _restrict(scores: Grades, people: Grades) -> Grades:
    """Return the scores of documents that people graded."""
    labelled = {
        query_id: {doc_id: s for doc_id, s in scores.get(query_id, {}).items() if doc_id in grades}
        for query_id, grades in people.items()
    }
    return {query_id: of for query_id, of in labelled.items() if of}


def _build_board(
    query_ids: Sequence[str], labels: Grades, runs: Mapping[str, pa.Table], measure: str | None
) -> _Board:
    values = np.full((len(runs), len(query_ids)), np.nan)
    answered = np.zeros(values.shape, np.bool_)
    rows = [(q, d, float(label)) for q, of in labels.items() for d, label in of.items()]
    if not rows:
        return _Board(measure or "", values, answered)
    names = ("query_id", "doc_id", "relevance")
    truth = Truth(pa.table(dict(zip(names, map(list, zip(*rows, strict=True)), strict=True))))
    by: Measure = parse_measure(measure) if measure else default_measures(truth)[0]
    place = {query_id: i for i, query_id in enumerate(query_ids)}
    columns = [place[query_id] for query_id in truth.query_ids]
    for i, run in enumerate(runs.values()):
        ranking = rank_run(truth, run)
        values[i, columns] = evaluate([by], ranking)[0]
        answered[i, columns] = ranking.answered
    return _Board(str(by), values, answered)


def _sum_costs(protocol: str, costs: Sequence[Cost], unit: Unit) -> float:
    """Return what all labels of a protocol cost; NaN if a price is unknown."""
    spent = (
        cost.dollars if unit == "dollars" else float(cost.calls)
        for cost in costs
        if cost.protocol == protocol
    )
    return sum(spent)


def _budgets(totals: Sequence[float]) -> list[float]:
    """Return the budgets to compare at, ascending; NaN, for all labels, where costs are unknown."""
    if any(isnan(total) or not total for total in totals):
        return [nan]
    lowest = min(totals)
    return sorted({*(share * lowest for share in _SHARES), *totals})


def _choose(board: _Board, orders: NDArray[np.int64], count: int) -> NDArray[np.int64]:
    """Return so many queries with labels for each order of all queries, [resamples, count]."""
    labelled = np.zeros(orders.shape[1], np.bool_)
    labelled[board.queries] = True
    return orders[labelled[orders]].reshape(len(orders), -1)[:, :count]


def _compare(
    theirs: _Board, board: _Board, samples: NDArray[np.int64], chosen: NDArray[np.int64]
) -> tuple[Estimate, Estimate, Floats]:
    """Return tau-b and tau-AP with their intervals, and tau-b in each sample of the queries.

    Args:
        theirs: people's.
        board: of the protocol.
        samples: of all queries, with replacement, [resamples, queries].
        chosen: queries with labels that the budget pays for, [resamples, count]: the value is the
            mean over these choices. In a sample it pays for the same share of those with labels.
    """
    count, full = chosen.shape[1], len(board.queries)
    choices = chosen[:1] if count == full else chosen
    means = _weighted(board, choices, np.ones(choices.shape, np.bool_))
    everything = np.arange(samples.shape[1])[np.newaxis]
    reference = _weighted(theirs, everything, everything >= 0)
    has_labels = np.isin(samples, board.queries)
    place = np.cumsum(has_labels, axis=1)
    paid = has_labels & (place <= np.ceil(place[:, -1:] * count / full))
    sampled = _weighted(board, samples, paid)
    people_sampled = _weighted(theirs, samples, samples >= 0)
    figures, taus = list[Estimate](), list[Floats]()
    for tau in (tau_b, tau_ap):
        by_choice = tau(np.broadcast_to(reference, means.shape), means)
        value = nan if np.isnan(by_choice).all() else float(np.nanmean(by_choice))
        taus.append(tau(people_sampled, sampled))
        figures.append(Estimate(value, *tau_interval(value, taus[-1], count), count))
    return figures[0], figures[1], taus[0]


def _weighted(board: _Board, queries: NDArray[np.int64], paid: NDArray[np.bool_]) -> Floats:
    """Return means of the runs over some queries, of which those paid for count.

    Args:
        board: of the labels.
        queries: places, perhaps repeated, [samples, n].
        paid: of the same shape.

    Returns:
        [samples, runs]; NaN where none is paid for.
    """
    size = board.values.shape[1]
    rows = np.broadcast_to(np.arange(len(queries))[:, np.newaxis], queries.shape)
    flat = np.bincount((rows * size + queries)[paid], minlength=len(queries) * size)
    weights = flat.reshape(len(queries), size).astype(np.float64)
    with np.errstate(invalid="ignore"):
        means: Floats = (weights @ np.nan_to_num(board.values).T) / weights.sum(axis=1)[:, None]
    return means


def _mean(values: Floats) -> Floats:
    """Return the mean of each run over queries; a measure that is undefined counts as 0."""
    means: Floats = np.nan_to_num(values).mean(axis=1)
    return means


def _tell_apart(
    board: _Board,
    queries: NDArray[np.int64],
    runs: Mapping[str, pa.Table],
    resamples: int,
    seed: int,
) -> NDArray[np.bool_]:
    """Return which pairs of runs labels tell apart, in the order of `itertools.combinations`."""
    comparisons = compare_pairs(
        {board.measure: np.where(board.answered, board.values, np.nan)[:, queries]},
        [*runs],
        resamples=max(100, resamples),
        confidence=0.95,
        seed=seed,
    )
    return np.array([comparison.p_holm < _SURE for comparison in comparisons], np.bool_)


def _mark_best(rows: Sequence[SystemOrder], drawn: Sequence[Floats]) -> Iterator[SystemOrder]:
    """Mark the best protocol of a budget, and those that are not significantly below it."""
    values = [-np.inf if isnan(row.tau_b) else row.tau_b for row in rows]
    best = int(np.argmax(values)) if rows else 0
    for i, row in enumerate(rows):
        difference = drawn[best] - drawn[i]
        low, _ = interval(difference, min(rows[best].queries, row.queries))
        finite = difference[~np.isnan(difference)]
        shift = values[best] - values[i] - (float(finite.mean()) if finite.size else nan)
        yield replace(row, best=i == best, like_best=i == best or not low + shift > 0)
