"""Measure how severe judges grade: beside people, and beside the other judges."""

from collections.abc import Iterator

import numpy as np
import pyarrow as pa

from zelo_ray.command_options import AgreeOptions
from zelo_ray.commands.agree.biases import Bias, make_bias
from zelo_ray.commands.agree.measured_tables import MeasuredTables
from zelo_ray.evaluation.agreement import estimate_share
from zelo_ray.evaluation.ranking import Floats, Ints
from zelo_ray.files.judges import HUMAN, OTHERS, AllJudgments
from zelo_ray.files.tables import iter_rows, table_of


def measure_grading(
    verdicts: AllJudgments,
    options: AgreeOptions,  # noqa: ARG001 - as the other measurements
) -> MeasuredTables:
    """Measure the severity of every judge that graded."""
    biases = [*_severities(verdicts)]
    return MeasuredTables({"grading": table_of(biases, Bias)})


def _severities(verdicts: AllJudgments) -> Iterator[Bias]:
    """Yield by how much each judge's mean grade is above people's, and above the other judges'."""
    rows = pa.concat_tables([verdicts.human, verdicts.grades])
    pairs = [*iter_rows(rows, "query_id", "doc_id")]
    items = {pair: n for n, pair in enumerate(dict.fromkeys(pairs))}
    places = {query_id: n for n, query_id in enumerate(dict.fromkeys(q for q, _ in items))}
    query = np.array([places[query_id] for query_id, _ in items], np.int64)
    item = np.array([items[pair] for pair in pairs], np.int64)
    grade = rows["grade"].to_numpy().astype(np.float64)
    judge = np.array(rows["judge"].to_pylist(), dtype=object)

    def mean(name: str) -> Floats:  # NaN where there is no grade
        at = item[judge == name]
        sums = np.bincount(at, grade[judge == name], len(items)).astype(np.float64)
        counts = np.bincount(at, minlength=len(items))
        return _divide(sums, counts)

    means = {name: mean(name) for name in {*judge}}
    people = np.ones(len(items))
    if verdicts.weights:
        people = np.array([verdicts.weights.get(pair, 0.0) for pair in items])
    for name in verdicts.judges:
        if len(verdicts.human):
            yield from _severity(name, HUMAN, means[name] - means[HUMAN], query, people)
        if others := [means[other] for other in verdicts.panel if other != name]:
            of_others = _divide(np.nansum(others, axis=0), (~np.isnan(others)).sum(axis=0))
            yield from _severity(name, OTHERS, means[name] - of_others, query, np.ones(len(items)))


def _divide(sums: Floats, counts: Floats | Ints) -> Floats:
    return np.divide(sums, counts, out=np.full_like(sums, np.nan), where=counts > 0)


def _severity(judge: str, whom: str, apart: Floats, query: Ints, weights: Floats) -> Iterator[Bias]:
    both = ~np.isnan(apart)
    if both.any():
        sums, counts = (
            np.bincount(query[both], values[both]) for values in (weights * apart, weights)
        )
        yield make_bias(judge, "leniency", whom, estimate_share(sums, counts), int(both.sum()))
