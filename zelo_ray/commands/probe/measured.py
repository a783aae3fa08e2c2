"""Measure how far judgments move, over queries: shifts with intervals, tests and their power."""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from math import log2, nan, sqrt
from typing import Any, Protocol

import numpy as np
import scipy

from zelo_ray.commands.probe.sample import ProbedPair
from zelo_ray.evaluation.probes import load_probe
from zelo_ray.evaluation.significance import FEWEST, TIE, Floats, holm, paired_test
from zelo_ray.files.tables import read_table
from zelo_ray.records import Grade, Vote

SURE = 0.05
"""Shifts with a smaller p (after Holm's correction) are significant."""
POWER = 0.8
"""Chance with which a shift of the detectable size is found."""


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
    queries; ``up`` and ``down`` are the shares of documents that moved. p is of a paired t-test
    over queries, and ``p_holm`` is corrected over all judges and probes.
    ``detectable`` is the shift that would be found with a chance of 80%; NaN if nothing moved, or
    with fewer than 5 queries. ``at_top`` is the share of
    originals that cannot move up.
    """

    judge: str
    probe: str
    shift: float
    low: float
    high: float
    p: float
    p_holm: float
    up: float
    down: float
    at_top: float
    detectable: float
    documents: int
    queries: int
    missing: int

    @property
    def moved(self) -> bool:
        """Return whether the shift is significant, in either direction."""
        return is_significant(self.p_holm)

    def fails(self, margin: float) -> bool:
        """Return whether a harmful shift is significant and surely larger than a margin."""
        wrong = self.low > margin
        if load_probe(self.probe).wrong == "either":
            wrong |= self.high < -margin
        return self.moved and wrong


def is_significant(p_holm: float) -> bool:
    """Return whether a shift with this corrected p is significant."""
    return p_holm < SURE


def queries_needed(tests: int) -> int:
    """Return the fewest queries with which a test can be significant.

    Its smallest p is 2 / 2**queries, which Holm multiplies by the number of tests.
    """
    return max(FEWEST, int(log2(2 * max(tests, 1) / SURE)) + 1)


def have_enough_queries(shifts: Sequence[ProbeShift]) -> bool:
    """Return whether each of these shifts has the queries with which it can be significant."""
    needed = queries_needed(len(shifts))
    return all(shift.queries >= needed for shift in shifts)


def measure_shifts(
    judgments: Sequence[ShiftedJudgment],
    missing: Mapping[tuple[str, str], int],
    *,
    top: float,
) -> list[ProbeShift]:
    """Measure the shift of each judge under each probe, by judge and probe.

    Args:
        judgments: of all judges and probes.
        missing: by judge and probe, how many documents lack a judgment.
        top: the highest judgment; originals that have it cannot move up.
    """
    groups = {
        name: [*rows]
        for name, rows in groupby(
            sorted(judgments, key=lambda row: (row.judge, row.probe)),
            key=lambda row: (row.judge, row.probe),
        )
    }
    tests = len(groups)
    shifts = [_measure(rows, missing.get(name, 0), tests, top=top) for name, rows in groups.items()]
    corrected = holm(np.array([shift.p for shift in shifts]))
    return [replace(shift, p_holm=float(p)) for shift, p in zip(shifts, corrected, strict=True)]


def _measure(
    rows: Sequence[ShiftedJudgment],
    missing: int,
    tests: int,
    *,
    top: float,
) -> ProbeShift:
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
        p_holm=1.0,
        up=float((every > TIE).mean()),
        down=float((every < -TIE).mean()),
        at_top=float(np.mean([row.original >= top for row in rows])),
        detectable=detectable_shift(means, tests),
        documents=len(rows),
        queries=len(means),
        missing=missing,
    )


def detectable_shift(means: Floats, tests: int) -> float:
    """Return the mean shift that the test finds with a chance of 80%, given how queries spread.

    The level is what Holm's correction leaves the smallest of ``tests`` p values. A noncentral t
    lies beyond its quantile with a chance of 80% (by its normal approximation: Johnson & Welch
    1940, Biometrika 31:362).

    Args:
        means: shifts of the queries, of shape [queries].
        tests: how many are corrected for.

    Returns:
        NaN with fewer than 5 queries or too few for any p as small, or if nothing moved.
    """
    n = len(means)
    if n < queries_needed(tests) or (spread := float(means.std(ddof=1))) <= TIE:
        return nan
    t = float(scipy.special.stdtrit(n - 1, 1 - SURE / tests / 2))
    steps = t + float(scipy.special.ndtri(POWER)) * sqrt(1 + t * t / (2 * (n - 1)))
    return steps * spread / sqrt(n)


class JudgedPairs(Protocol):
    """Judgments of originals and copies, by judge and pair."""

    def of_pair(self, judge: str, pair: ProbedPair) -> ShiftedJudgment | None:
        """Return what a judge said of a pair; None if a judgment is missing."""


def read_judgments(
    said: JudgedPairs, pairs: Sequence[ProbedPair], judges: Iterable[str]
) -> tuple[list[ShiftedJudgment], dict[tuple[str, str], int]]:
    """Return the judgments of pairs, and how many pairs lack one, by judge and probe.

    Args:
        said: what was judged.
        pairs: originals and copies.
        judges: names of the panel.
    """
    judgments, missing = list[ShiftedJudgment](), defaultdict[tuple[str, str], int](int)
    for judge in judges:
        for pair in pairs:
            judgment = said.of_pair(judge, pair)
            if judgment is None:
                missing[judge, pair.probe] += 1
            else:
                judgments.append(judgment)
    return judgments, dict(missing)


class JudgedGrades:
    """Grades by judge, query and document; the mean of those that are repeated."""

    def __init__(self, judged: str) -> None:
        columns = ("judge", "query_id", "doc_id", "grade", "key")
        self._by_item = defaultdict[tuple[str, str, str], list[tuple[float, str]]](list)
        for judge, query_id, doc_id, grade, key in read_rows(judged, "grades", columns, Grade):
            self._by_item[judge, query_id, doc_id].append((grade, key))

    def of_pair(self, judge: str, pair: ProbedPair) -> ShiftedJudgment | None:
        """Return what a judge said of a pair; None if a judgment is missing."""
        items = [
            self._by_item.get((judge, pair.pool_id, doc_id))
            for doc_id in (pair.original_id, pair.changed_id)
        ]
        if not (items[0] and items[1]):
            return None
        original, changed = (float(np.mean([grade for grade, _ in item or ()])) for item in items)
        keys = tuple(key for item in items for _, key in item or ())
        names = (judge, pair.probe, pair.query_id, pair.doc_id)
        return ShiftedJudgment(*names, original, changed, changed - original, keys)


class JudgedVotes:
    """Votes by judge and pool; a pair counts if it was judged in both orders."""

    def __init__(self, judged: str) -> None:
        columns = ("judge", "query_id", "doc_id_a", "preference", "swapped", "key")
        self._by_pool = defaultdict[tuple[str, str], list[tuple[str, float, bool, str]]](list)
        for judge, query_id, a, preference, swapped, key in read_rows(
            judged, "votes", columns, Vote
        ):
            self._by_pool[judge, query_id].append((a, preference, swapped, key))

    def of_pair(self, judge: str, pair: ProbedPair) -> ShiftedJudgment | None:
        """Return what a judge said of a pair; None without votes in both orders."""
        votes = self._by_pool.get((judge, pair.pool_id), [])
        if {swapped for _, _, swapped, _ in votes} != {False, True}:
            return None
        first = load_probe(pair.probe).change is None
        toward = [
            (preference if swapped else -preference)
            if first
            else (-preference if a == pair.changed_id else preference)
            for a, preference, swapped, _ in votes
        ]
        shift, keys = float(np.mean(toward)), tuple(key for *_, key in votes)
        names = (judge, pair.probe, pair.query_id, pair.doc_id)
        return ShiftedJudgment(*names, 0.0, shift, shift, keys)


def read_rows(judged: str, name: str, columns: Sequence[str], record: type) -> Iterator[Any]:
    """Yield the rows of a table of judgments, each a tuple of some columns."""
    table = read_table(judged, name, columns, record).select(list(columns))
    yield from zip(*(column.to_pylist() for column in table.columns), strict=True)
