"""Measure how far judgments move, over queries: shifts with intervals, tests and their power."""

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from math import nan
from typing import Any

import numpy as np

from zelo_ray.commands.probe.changes import PROBES, ProbedPair
from zelo_ray.evaluation.significance import ALPHA, TIE, detectable_shift, holm, paired_test
from zelo_ray.files.tables import read_table
from zelo_ray.records import Grade, Vote
from zelo_ray.report.figures import Figure


@dataclass(frozen=True, slots=True)
class ShiftedJudgment:
    """A judge's judgments of a document and of its changed copy.

    Of grades, ``shift`` is the copy's less the original's. Of votes it is the preference for the
    copy (or, with the probe order, for what is shown first), from -1 to 1, the mean of both orders;
    ``original`` is then 0, what a judge says who finds both alike. ``keys`` are of the replies.
    """

    judge: str
    probe: str
    query_id: str
    doc_id: str
    original: float
    changed: float
    shift: float
    keys: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class ProbeShift:
    """Mean shift of a judge's judgments under a probe.

    ``shift`` is the mean over queries of the means over their documents, with a 95% interval over
    queries, and p of a paired t-test over queries, corrected over all judges and probes (Holm).
    ``up`` and ``down`` are the shares of documents that moved, and ``at_top`` that of originals
    that cannot move up. ``detectable`` is the shift that would be found with a chance of 80%; NaN
    if nothing moved, or with too few queries.
    """

    judge: str
    probe: str
    shift: float
    low: float
    high: float
    p: float
    up: float
    down: float
    at_top: float
    detectable: float
    documents: int
    queries: int

    @property
    def moved(self) -> bool:
        """Return whether the shift is significant, in either direction."""
        return self.p < ALPHA

    def fails(self, margin: float) -> bool:
        """Return whether a harmful shift is significant and surely larger than a margin."""
        is_either = PROBES[self.probe].change is None
        return self.moved and (self.low > margin or (is_either and self.high < -margin))

    def figures(self) -> Iterator[Figure]:
        """Yield it as rows of ``figures.parquet``, against its probe."""
        for what in ("shift", "up", "down", "at top", "detectable"):
            value = getattr(self, what.replace(" ", "_"))
            more = (self.low, self.high, self.p) if what == "shift" else (nan, nan, nan)
            sizes = (self.documents, self.queries)
            yield Figure(self.judge, self.probe, what, "", value, *more, *sizes)


def measure_shifts(judgments: Sequence[ShiftedJudgment], *, top: float) -> list[ProbeShift]:
    """Measure the shift of each judge under each probe, by judge and probe.

    ``top`` is the highest judgment; originals that have it cannot move up.
    """

    def place(row: ShiftedJudgment) -> tuple[str, str]:
        return row.judge, row.probe

    groups = [[*rows] for _, rows in groupby(sorted(judgments, key=place), key=place)]
    shifts = [_measure(rows, len(groups), top) for rows in groups]
    corrected = holm(np.array([shift.p for shift in shifts])).tolist()
    return [replace(shift, p=p) for shift, p in zip(shifts, corrected, strict=True)]


def _measure(rows: Sequence[ShiftedJudgment], tests: int, top: float) -> ProbeShift:
    by_query = defaultdict[str, list[float]](list)
    for row in rows:
        by_query[row.query_id].append(row.shift)
    means = np.array([np.mean(by_query[query_id]) for query_id in sorted(by_query)])
    test = paired_test(means[np.newaxis], 0.95)
    every = np.array([row.shift for row in rows])
    return ProbeShift(
        judge=rows[0].judge,
        probe=rows[0].probe,
        shift=float(test.mean[0]),
        low=float(test.low[0]),
        high=float(test.high[0]),
        p=float(test.p[0]),
        up=float((every > TIE).mean()),
        down=float((every < -TIE).mean()),
        at_top=float(np.mean([row.original >= top for row in rows])),
        detectable=detectable_shift(means, tests),
        documents=len(rows),
        queries=len(means),
    )


def read_judgments(
    out: str, protocol: str, pairs: Sequence[ProbedPair], judges: Iterable[str]
) -> tuple[list[ShiftedJudgment], dict[str, int]]:
    """Return what judges said of pairs in a run, and by judge how many pairs it did not judge.

    Repeated grades count with their mean; a pair of votes counts if it was judged in both orders.
    """
    find = _grades_of(out) if protocol == "graded" else _votes_of(out)
    judgments, missing = list[ShiftedJudgment](), Counter[str]()
    for judge in judges:
        for pair in pairs:
            original, changed, keys = find(judge, pair)
            if not (original and changed):
                missing[judge] += 1
                continue
            first, second = float(np.mean(original)), float(np.mean(changed))
            about = (judge, pair.probe, pair.query_id, pair.doc_id)
            judgments.append(ShiftedJudgment(*about, first, second, second - first, tuple(keys)))
    return judgments, dict(missing)


Find = Callable[[str, ProbedPair], tuple[list[float], list[float], list[str]]]
"""Returns a judge's judgments of an original and of its copy, and the keys of its replies."""


def _grades_of(out: str) -> Find:
    columns, by_item = ("judge", "query_id", "doc_id", "grade", "key"), defaultdict[Any, Any](list)
    for *place, grade, key in _rows(out, "grades", columns, Grade):
        by_item[*place].append((grade, key))

    def find(judge: str, pair: ProbedPair) -> tuple[list[float], list[float], list[str]]:
        both = [by_item[judge, pair.pool_id, doc] for doc in (pair.doc_id, pair.changed_id)]
        first, second = ([grade for grade, _ in item] for item in both)
        return first, second, [key for item in both for _, key in item]

    return find


def _votes_of(out: str) -> Find:
    columns = ("judge", "query_id", "doc_id_a", "preference", "swapped", "key")
    by_pool = defaultdict[Any, Any](list)
    for judge, pool_id, *vote in _rows(out, "votes", columns, Vote):
        by_pool[judge, pool_id].append(vote)

    def find(judge: str, pair: ProbedPair) -> tuple[list[float], list[float], list[str]]:
        votes = by_pool[judge, pair.pool_id]
        if {swapped for _, _, swapped, _ in votes} != {False, True}:
            return [], [], []
        is_order = PROBES[pair.probe].change is None
        toward = [
            preference if (swapped if is_order else a != pair.changed_id) else -preference
            for a, preference, swapped, _ in votes
        ]
        return [0.0], toward, [key for *_, key in votes]

    return find


def _rows(out: str, name: str, columns: Sequence[str], record: type) -> Iterator[Any]:
    table = read_table(out, name, columns, record).select(list(columns))
    yield from zip(*(column.to_pylist() for column in table.columns), strict=True)
