"""Measure how grades of judges agree with people's and with each other, and how severe they are."""

from collections.abc import Iterable, Iterator
from math import nan
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from zelo_ray.command_options import AgreeOptions
from zelo_ray.evaluation.agreement import (
    Agreement,
    ConfusionCell,
    estimate_share,
    measure_agreement,
    quotient,
)
from zelo_ray.evaluation.coefficients import choose_coefficients, ratings_of
from zelo_ray.evaluation.ranking import Floats
from zelo_ray.files.judges import HUMAN, OTHERS, PANEL, WITH_HUMAN, AllJudgments, weights_of
from zelo_ray.files.tables import iter_rows
from zelo_ray.fitting import consensus
from zelo_ray.fitting.consensus import grade_consensus
from zelo_ray.records import Consensus
from zelo_ray.report.figures import Figure, make_figure

LENIENCY = "leniency"
PEOPLE_AGREE, SHARE = "people agree", "share"
"""Of a level of the judges' agreement: how often people agree, and the share of all items."""
ABOUT = {
    consensus.VOTES: "pairs, by votes",
    consensus.ORDERS: "pairs, by grades",
    consensus.GRADES: "documents",
}


def measure_grades(
    judgments: AllJudgments, options: AgreeOptions
) -> tuple[list[Figure], list[ConfusionCell]]:
    """Measure every two raters and the panel, and each judge's severity; with confusions."""
    has_people = len(judgments.human) > 0
    weights = None
    if judgments.weights and has_people:
        weights = weights_of(judgments.human, judgments.weights)
    graded = pa.concat_tables([judgments.human, judgments.grades])
    agreed, confused = measure_agreement(
        ratings_of(graded, judgments.levels, weights),
        {PANEL: judgments.panel, WITH_HUMAN: (HUMAN, *judgments.panel) if has_people else ()},
        choose_coefficients(options.coefficients),
        thresholds=options.positive_thresholds,
    )
    return [*map(figure_of, agreed), *_severities(judgments, graded)], confused


def figure_of(row: Agreement, scale: str = "") -> Figure:
    """Return agreement as a figure: of a judge against people, or of B against A; of a panel."""
    of, against = (row.rater_b, row.rater_a) if row.rater_b else (row.rater_a, "")
    return make_figure(of, against, row.coefficient, row, scale=scale or row.scale, items=row.items)


def _severities(judgments: AllJudgments, graded: pa.Table) -> Iterator[Figure]:
    """Yield by how much each judge's mean grade is above people's, and above the other judges'."""
    ids = [*iter_rows(graded, "query_id", "doc_id")]
    items = {pair: place for place, pair in enumerate(dict.fromkeys(ids))}
    _, query = np.unique([query_id for query_id, _ in items], return_inverse=True)
    item = np.array([items[pair] for pair in ids], np.int64)
    grade, judge = graded["grade"].to_numpy(), graded["judge"].to_numpy()

    def mean(name: str) -> Floats:  # NaN where there is no grade
        mine = judge == name
        sums = np.bincount(item[mine], grade[mine], len(items))
        return _mean(sums, np.bincount(item[mine], minlength=len(items)))

    def severity(name: str, against: str, difference: Floats, weights: Floats) -> Iterator[Figure]:
        both = ~np.isnan(difference)
        if both.any():
            sums = np.bincount(query[both], (weights * difference)[both])
            found = estimate_share(sums, np.bincount(query[both], weights[both]))
            yield make_figure(name, against, LENIENCY, found, items=both.sum())

    means, even = {name: mean(name) for name in {*judge}}, np.ones(len(items))
    drawn = even
    if judgments.weights:
        drawn = np.array([judgments.weights.get(pair, 0.0) for pair in items])
    for name in judgments.judges:
        if HUMAN in means:
            yield from severity(name, HUMAN, means[name] - means[HUMAN], drawn)
        if others := [means[other] for other in judgments.panel if other != name]:
            count = (~np.isnan(others)).sum(axis=0)
            of_others = _mean(np.nansum(others, axis=0), count)
            yield from severity(name, OTHERS, means[name] - of_others, even)


def _mean(sums: Any, counts: Any) -> Floats:
    return quotient(np.stack([sums, counts], axis=-1).astype(np.float64))


def consensus_of_grades(judgments: AllJudgments, options: AgreeOptions) -> list[Figure]:
    """Measure how often people grade as the panel does, by how far its judges agree."""
    panel = pa.array(judgments.panel, pa.string())
    graded = judgments.grades.filter(pc.is_in(judgments.grades["judge"], panel))
    if not (len(judgments.human) and len(graded)):
        return []
    ratings = ratings_of(pa.concat_tables([judgments.human, graded]), judgments.levels)
    people = ratings.raters.index(HUMAN)
    judges, human = np.delete(ratings.grades, people, axis=0), ratings.grades[people]
    cuts = options.positive_thresholds if judgments.levels > 2 else ()
    found = grade_consensus(judges, human, ratings.queries, judgments.levels, cuts)
    return [*consensus_figures(found)]


def consensus_figures(rows: Iterable[Consensus]) -> Iterator[Figure]:
    """Yield how often people agree with a panel at each level of its judges' agreement."""
    for row in rows:
        scale, sizes = f"{ABOUT[row.about]} {row.scale}".rstrip(), (row.items, row.queries)
        ends = (row.same, row.low, row.high, nan)
        yield Figure(row.level, HUMAN, PEOPLE_AGREE, scale, *ends, *sizes)
        yield Figure(row.level, HUMAN, SHARE, scale, row.share, nan, nan, nan, *sizes)
