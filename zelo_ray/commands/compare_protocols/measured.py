"""Measure protocols: on which items they agree with people, and what a correct verdict costs."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from math import isfinite
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from zelo_ray.commands.compare_protocols.costs import Bill
from zelo_ray.commands.compare_protocols.outcome import Cost, ProtocolsOutcome, ProtocolTrial
from zelo_ray.commands.compare_protocols.people import Item
from zelo_ray.evaluation.agreement import Difference, Figure, estimate, quotient
from zelo_ray.evaluation.coefficients import COEFFICIENTS, RatingMatrix
from zelo_ray.evaluation.ranking import Floats
from zelo_ray.evaluation.votes import (
    A_BETTER,
    A_OR_NOT,
    B_BETTER,
    DECIDED,
    TIE,
    WITH_TIES,
    agreement_with_people,
    compare_raters,
)
from zelo_ray.files.judges import HUMAN
from zelo_ray.files.tables import read_table, table_of, write_tables

Words = NDArray[np.int16]

_COEFFICIENTS = {name: COEFFICIENTS[name] for name in ("agreement", "alpha-nominal", "mcc")}
_OF_AGREEMENT = {
    "agreement": (WITH_TIES, "agreement"),
    "alpha": (WITH_TIES, "alpha-nominal"),
    "mcc": (A_OR_NOT, "mcc"),
    "agreement_decided": (DECIDED, "agreement"),
    "alpha_decided": (DECIDED, "alpha-nominal"),
    "mcc_decided": (DECIDED, "mcc"),
}
"""By the name of a figure, its scale and its coefficient."""
FIGURES = (*_OF_AGREEMENT, "dollars", "calls", "dollars_per_correct", "calls_per_correct")
"""The figures of a protocol, in this order."""
_EQUAL = 1e-9
"""Scores as near as this are equal: what rounding leaves of them."""


def verdict_on(scores: Mapping[tuple[str, str], float], item: Item) -> int:
    """Return which of an item's documents scores higher, or a tie; -1 where a score is missing."""
    pair = (item.doc_id_a, item.doc_id_b)
    a, b = (scores.get((item.query_id, doc_id), np.nan) for doc_id in pair)
    if not (isfinite(a) and isfinite(b)):
        return -1
    return TIE if abs(a - b) <= _EQUAL else A_BETTER if a > b else B_BETTER


def read_verdicts(out: str, items: Iterable[Item]) -> list[int]:
    """Return a protocol's `word` on each item, by the scores under a directory or URL."""
    columns = ("query_id", "doc_id", "score")
    table = read_table(out, "scores", columns)
    query_ids, doc_ids, scores = (table[name].to_pylist() for name in columns)
    by_pair = dict(zip(zip(query_ids, doc_ids, strict=True), scores, strict=True))
    return [verdict_on(by_pair, item) for item in items]


def measure(
    items: Sequence[Item],
    words: Mapping[str, Sequence[int]],
    bills: Mapping[str, Mapping[str, Bill]],
    together: Bill,
    *,
    compared: Iterable[str] | None = None,
) -> ProtocolsOutcome:
    """Measure how far protocols agree with people, and what they cost.

    Args:
        items: the pairs that people judged.
        words: by protocol, its verdict on each item; -1 where it gave none.
        bills: by protocol, what each query cost.
        together: what was paid for all protocols.
        compared: protocols of which every two are compared; None for all.
    """
    names, query = np.unique([item.query_id for item in items], return_inverse=True)
    query_ids: list[str] = names.tolist()
    verdicts = np.array([[item.verdict for item in items], *words.values()], dtype=np.int16)
    weights = np.array([item.weight for item in items])
    is_even = len(np.unique(weights)) < 2
    places = query.astype(np.int64)
    ratings = RatingMatrix((HUMAN, *words), verdicts, places, 3, None if is_even else weights)
    raters = words if compared is None else compared
    differences = [
        difference
        for difference in compare_raters(ratings, raters, _COEFFICIENTS)
        if (difference.scale, difference.coefficient) in _OF_AGREEMENT.values()
    ]
    outcome = ProtocolsOutcome([], [], differences, together)
    agreed = _agreement(ratings)
    for row, name in enumerate(words, start=1):
        billed = [bills[name].get(query_id, Bill()) for query_id in query_ids]
        costs = [*_by_query(ratings, row, query_ids, billed)]
        right = np.array([float(cost.correct) for cost in costs])
        figures = agreed[name] | _costs(billed, right)
        outcome.trials.append(_trial(verdicts[[0, row]], name, costs, billed, figures))
        outcome.costs += costs
    return outcome


def _by_query(
    ratings: RatingMatrix, row: int, query_ids: Sequence[str], bills: Sequence[Bill]
) -> Iterator[Cost]:
    """Yield the costs and results of a protocol, query by query."""
    human, verdicts = ratings.grades[[0, row]]
    columns = (
        np.bincount(ratings.queries, weights, len(query_ids)).astype(np.int64).tolist()
        for weights in (np.ones(len(verdicts)), verdicts >= 0, verdicts == human)
    )
    for query_id, bill, *counts in zip(query_ids, bills, *columns, strict=True):
        yield Cost(ratings.raters[row], query_id, bill.calls, bill.price, *counts)


def _trial(
    answers: Words,
    name: str,
    costs: Sequence[Cost],
    bills: Sequence[Bill],
    figures: Mapping[str, Figure],
) -> ProtocolTrial:
    """Return one protocol's row; ``answers`` are people's verdicts and its own, [2, items]."""
    decided = (answers >= 0).all(axis=0) & (answers != TIE).all(axis=0)
    total = Bill()
    for bill in bills:
        total.add(bill)
    return ProtocolTrial(
        protocol=name,
        items=answers.shape[1],
        judged=sum(cost.judged for cost in costs),
        correct=sum(cost.correct for cost in costs),
        decided=int(decided.sum()),
        decided_correct=int((answers[0] == answers[1])[decided].sum()),
        queries=sum(cost.judged > 0 for cost in costs),
        bill=total,
        figures={figure: figures[figure] for figure in FIGURES},
    )


def _agreement(ratings: RatingMatrix) -> dict[str, dict[str, Figure]]:
    """Return the figures of `_OF_AGREEMENT` by protocol."""
    estimates = {
        (agreement.rater_b, agreement.scale, agreement.coefficient): Figure(
            agreement.value, agreement.low, agreement.high, agreement.queries
        )
        for agreement in agreement_with_people(ratings, _COEFFICIENTS)
    }
    return {
        protocol: {name: estimates[protocol, *of] for name, of in _OF_AGREEMENT.items()}
        for protocol in ratings.raters[1:]
    }


def _costs(bills: Sequence[Bill], correct: Floats) -> dict[str, Figure]:
    """Estimate what all verdicts cost, and a correct one, in dollars and in calls."""
    every = np.ones(len(bills), np.bool_)  # queries without a correct verdict cost money too
    estimates = {}
    for name, spent in (
        ("dollars", [bill.price for bill in bills]),
        ("calls", [float(bill.calls) for bill in bills]),
    ):
        table = np.stack([np.array(spent), correct], axis=1)
        estimates[name] = estimate(table, every, _first)
        estimates[f"{name}_per_correct"] = estimate(table, every, quotient)
    return estimates


def _first(sums: Floats) -> Floats:
    return sums[..., 0]


_COUNTS = ("items", "judged", "correct", "decided", "decided_correct", "queries")
_TRIALS = pa.schema(
    [
        ("protocol", pa.string()),
        *((name, pa.int64()) for name in (*_COUNTS, "unpriced")),
        ("dollars_known", pa.float64()),
        *((f"{name}{end}", pa.float64()) for name in FIGURES for end in ("", "_low", "_high")),
    ]
)


def write_outcome(out: str, outcome: ProtocolsOutcome) -> None:
    """Write the tables of a comparison under a directory or URL."""
    tables = {
        "trials": pa.Table.from_pylist(_rows(outcome.ranked), schema=_TRIALS),
        "costs": table_of(outcome.costs, Cost),
        "differences": table_of(outcome.differences, Difference),
    }
    write_tables(out, tables)


def _rows(trials: Sequence[ProtocolTrial]) -> list[dict[str, Any]]:
    rows = []
    for trial in trials:
        row: dict[str, Any] = {name: getattr(trial, name) for name in ("protocol", *_COUNTS)}
        row |= {"unpriced": trial.bill.unpriced, "dollars_known": trial.bill.dollars}
        for name, figure in trial.figures.items():
            row |= {name: figure.value, f"{name}_low": figure.low, f"{name}_high": figure.high}
        rows.append(row)
    return rows
