"""Measure rank correlations of judges with people, each on its own scale."""

from collections.abc import Iterator

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from zelo_ray.commands.agree.measured_tables import MeasuredTables
from zelo_ray.evaluation.agreement import Agreement, ratings_of, scale_name
from zelo_ray.evaluation.agreement.counts import RatingMatrix, count_pair
from zelo_ray.evaluation.agreement.estimates import estimate
from zelo_ray.evaluation.agreement.rank_correlations import COEFFICIENTS
from zelo_ray.formats.interchange.all_judgments import HUMAN, AllJudgments
from zelo_ray.formats.tables import table_of
from zelo_ray.options import AgreeOptions


def measure_ranks(verdicts: AllJudgments, options: AgreeOptions) -> MeasuredTables:
    """Measure rank coefficients with people; without people, of judges with scales of their own."""
    table = pa.concat_tables([verdicts.human, verdicts.grades, verdicts.ranked])
    sizes = {name: (scale.high - scale.low + 1) for name, scale in options.scales.items()}
    judges = set(pc.unique(verdicts.ranked["judge"]).to_pylist())
    levels = {name: sizes[name] if name in judges else verdicts.levels for name in (*sizes, HUMAN)}
    ratings = ratings_of(table, max([verdicts.levels, *(sizes[name] for name in judges)]))
    agreements = [
        agreement
        for a, b in _pairs(ratings.raters, judges, people=len(verdicts.human) > 0)
        for agreement in _of_two(ratings, (a, b), levels, options)
    ]
    return MeasuredTables({"ranks": table_of(agreements, Agreement)})


def _pairs(raters: tuple[str, ...], names: set[str], *, people: bool) -> Iterator[tuple[int, int]]:
    for b in range(1, len(raters)):
        if people:
            yield 0, b
        else:
            yield from ((a, b) for a in range(b) if names & {raters[a], raters[b]})


def _of_two(
    ratings: RatingMatrix, rows: tuple[int, int], levels: dict[str, int], options: AgreeOptions
) -> Iterator[Agreement]:
    a, b = (ratings.raters[row] for row in rows)
    usual = levels[HUMAN]
    scale = ", ".join(scale_name(levels.get(name, usual)) for name in (a, b))
    counts = count_pair(ratings, *rows)
    confusion = counts.tables["confusion"]
    mask = np.ones(len(confusion), dtype=bool)
    for name, of in COEFFICIENTS.items():
        coefficient = estimate(confusion, mask, of, **options.interval_settings)
        ends = (coefficient.value, coefficient.low, coefficient.high)
        yield Agreement(a, b, scale, name, *ends, counts.items, coefficient.queries)
