"""Measure how far judgments move, over queries: shifts with intervals, tests and their power."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from math import nan
from typing import Any

import numpy as np

from zelo_ray.commands.probe.changes import PROBES, ProbedPair
from zelo_ray.evaluation.significance import ALPHA, TIE, detectable_shift, holm, paired_test
from zelo_ray.files.tables import iter_rows, read_table
from zelo_ray.records import Grade, Vote
from zelo_ray.report.figures import Figure

_FIRST = ""  # stands for what is shown first


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


def measure_shifts(judgments: Iterable[ShiftedJudgment]) -> list[Figure]:
    """Measure how far each judge's judgments move under each probe, by judge and probe.

    ``shift`` is a mean over queries with a 95% interval and p of a paired t-test, corrected over
    all judges and probes (Holm); ``up`` and ``down`` are shares of documents that moved;
    ``detectable`` would be found with a chance of 80%, NaN if nothing moved.
    """

    def place(row: ShiftedJudgment) -> tuple[str, str]:
        return row.judge, row.probe

    groups = [[*rows] for _, rows in groupby(sorted(judgments, key=place), key=place)]
    measured = [_measure(rows, len(groups)) for rows in groups]
    corrected = holm(np.array([shift.p for shift, *_ in measured])).tolist()
    shifts = [replace(each[0], p=p) for each, p in zip(measured, corrected, strict=True)]
    return [row for shift, each in zip(shifts, measured, strict=True) for row in (shift, *each[1:])]


def _measure(rows: Sequence[ShiftedJudgment], tests: int) -> list[Figure]:
    by_query = defaultdict[str, list[float]](list)
    for row in rows:
        by_query[row.query_id].append(row.shift)
    means = np.array([np.mean(by_query[query_id]) for query_id in sorted(by_query)])
    test, every = paired_test(means[np.newaxis], 0.95), np.array([row.shift for row in rows])
    shift, low, high, p = (float(each[0]) for each in (test.mean, test.low, test.high, test.p))
    others = {
        "up": float((every > TIE).mean()),
        "down": float((every < -TIE).mean()),
        "detectable": detectable_shift(means, tests),
    }
    where, sizes = (rows[0].judge, rows[0].probe), (len(rows), len(means))
    return [
        Figure(*where, "shift", "", shift, low, high, p, *sizes),
        *(Figure(*where, name, "", each, nan, nan, nan, *sizes) for name, each in others.items()),
    ]


def is_harmful(shift: Figure, margin: float) -> bool:
    """Return whether a shift is significant, in the direction of a fault, and surely larger."""
    is_either = PROBES[shift.against].change is None
    return shift.p < ALPHA and (shift.low > margin or (is_either and shift.high < -margin))


def read_judgments(
    out: str, protocol: str, pairs: Sequence[ProbedPair], judges: Iterable[str]
) -> tuple[list[ShiftedJudgment], dict[str, int]]:
    """Return what judges said of pairs in a run, and by judge how many pairs it did not judge.

    Repeated grades count with their mean; a pair of votes counts if it was judged in both orders.
    """
    values, orders = defaultdict[Any, Any](list), defaultdict[Any, set[bool]](set)
    is_graded = protocol == "graded"
    name, record = ("grades", Grade) if is_graded else ("votes", Vote)
    both = ("doc_id", "grade") if is_graded else ("doc_id_a", "doc_id_b", "preference", "swapped")
    names = ("judge", "query_id", "key", *both)
    for judge, pool_id, key, *said in iter_rows(read_table(out, name, names, record), *names):
        places = {said[0]: said[1]}
        if not is_graded:
            a, b, preference, swapped = said
            places = {a: -preference, b: preference, _FIRST: preference if swapped else -preference}
            orders[judge, pool_id].add(swapped)
        for place, value in places.items():
            values[judge, pool_id, place].append((value, key))
    judgments, missing = list[ShiftedJudgment](), Counter[str]()
    for judge in judges:
        for pair in pairs:
            place = pair.changed_id if PROBES[pair.probe].change else _FIRST
            changed = values[judge, pair.pool_id, place]
            original = values[judge, pair.pool_id, pair.doc_id]
            if not is_graded:
                original = []
                changed = changed if len(orders[judge, pair.pool_id]) == 2 else []
            if not changed or (is_graded and not original):
                missing[judge] += 1
                continue
            first, second = (
                float(np.mean([value for value, _ in rows] or [0.0]))
                for rows in (original, changed)
            )
            keys = tuple(key for _, key in (*original, *changed))
            about = (judge, pair.probe, pair.query_id, pair.doc_id)
            judgments.append(ShiftedJudgment(*about, first, second, second - first, keys))
    return judgments, dict(missing)
