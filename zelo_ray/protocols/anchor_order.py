"""Test whether the order of the worked examples changes grades.

Each repeat of a question shows the four examples in another order. So a judge's grades for one
document differ by noise and by the order.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import scipy
from numpy.typing import NDArray

from zelo_ray.protocols.anchors import GRADES, shuffle_grades
from zelo_ray.protocols.grading import example_order
from zelo_ray.protocols.options import GradingOptions

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

FEWEST = 5
"""Of fewer queries there is no interval."""
_MOST = 1000  # queries: more would not be surer of anything that matters


@dataclass(frozen=True, slots=True)
class AnchorShift:
    """The change in documents' grades for each grade of an example, and its interval."""

    value: float
    low: float
    high: float

    def __str__(self) -> str:
        """Return the change if the best example takes the worst one's place, with its interval."""
        figures = (max(GRADES) * share for share in (self.value, self.low, self.high))
        return "{:+.2f} [{:+.2f}, {:+.2f}]".format(*figures)

    @property
    def is_sure(self) -> bool:
        """Return whether the interval excludes 0."""
        return self.low > 0 or self.high < 0


def describe_shift(grades: pa.Table, options: GradingOptions) -> Iterator[str]:
    """Yield a note on it, if at least `FEWEST` queries have repeats and some of these differ.

    Args:
        grades: query_id, doc_id, judge and grade; of each judge and document as they were asked.
        options: of the job.
    """
    if options.repeats < 2:
        return
    query_ids = sorted(pc.unique(grades["query_id"]).to_pylist())[:_MOST]
    grades = grades.filter(pc.is_in(grades["query_id"], pa.array(query_ids, pa.string())))
    repeats: dict[tuple[str, str, str], list[int]] = {}
    columns = (grades[name].to_pylist() for name in ("query_id", "doc_id", "judge", "grade"))
    for query_id, doc_id, judge, grade in zip(*columns, strict=True):
        repeats.setdefault((query_id, doc_id, judge), []).append(grade)
    questions = {key: marks for key, marks in repeats.items() if len(marks) == options.repeats}
    place = {query_id: number for number, query_id in enumerate({key[0]: 0 for key in questions})}
    if len(place) < FEWEST or all(len({*marks}) == 1 for marks in questions.values()):
        return
    orders = {
        (query_id, judge): [
            shuffle_grades(example_order(query_id, judge, repeat, options))
            for repeat in range(options.repeats)
        ]
        for query_id, judge in {(query_id, judge) for query_id, _, judge in questions}
    }
    shown = [orders[query_id, judge] for query_id, _, judge in questions]
    first, last = estimate_shift(
        np.array(list(questions.values()), float),
        np.array([[[places[0], places[-1]] for places in series] for series in shown], float),
        np.array([place[key[0]] for key in questions]),
    )
    what_follows = (
        "the order matters: repeats even it out, and one alone does not"
        if first.is_sure or last.is_sure
        else "both may be 0: no sign that the order matters"
    )
    yield (
        "order of the worked examples: where that of grade 3 comes first, and not that of grade 0, "
        f"a document's grade changes by {first}; where it comes last, by {last}; {what_follows}"
    )


def estimate_shift(grades: Floats, shown: Floats, query: Ints) -> list[AnchorShift]:
    """Estimate by least squares how much each place among the examples changes grades.

    Intervals are of samples of queries, a sandwich by query and Student's t; 95% hold all at once.

    Args:
        grades: of each repeat, [questions, repeats].
        shown: the grades of the examples in some places, [questions, repeats, places].
        query: a number of each question's query, from 0 on without gaps, [questions].
    """
    apart = shown - shown.mean(axis=1, keepdims=True)
    deviations = grades - grades.mean(axis=1, keepdims=True)
    inverse = np.linalg.pinv(np.einsum("qrp,qrs->ps", apart, apart), hermitian=True)
    slopes = inverse @ np.einsum("qrp,qr->p", apart, deviations)
    pulls = np.einsum("qrp,qr->qp", apart, deviations - apart @ slopes)
    by_query = np.zeros((query.max() + 1, len(slopes)))
    np.add.at(by_query, query, pulls)
    queries = len(by_query)
    spread = inverse @ by_query.T @ by_query @ inverse * queries / (queries - 1)
    half = scipy.special.stdtrit(queries - 1, 1 - 0.025 / len(slopes)) * np.sqrt(spread.diagonal())
    return [
        AnchorShift(float(value), float(value - wide), float(value + wide))
        for value, wide in zip(slopes, half, strict=True)
    ]
