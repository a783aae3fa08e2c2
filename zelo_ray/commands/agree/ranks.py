"""The section on ranks: judges beside people, each on the scale that it grades on."""

from collections.abc import Iterator

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from zelo_ray.commands.agree.section import Section, laid_out, with_interval
from zelo_ray.evaluation.agreement import Agreement, ratings_of, scale_name
from zelo_ray.evaluation.agreement.counts import Ratings, of_pair
from zelo_ray.evaluation.agreement.estimates import estimate
from zelo_ray.evaluation.agreement.ranks import COEFFICIENTS
from zelo_ray.formats.interchange.verdicts import HUMAN, Verdicts
from zelo_ray.formats.tables import table_of
from zelo_ray.options import AgreeOptions


def ranks(verdicts: Verdicts, options: AgreeOptions) -> Section:
    """Rank coefficients with the people; of judges with a scale of their own with all others."""
    table = pa.concat_tables([verdicts.human, verdicts.grades, verdicts.ranked])
    own = {name: (scale.high - scale.low + 1) for name, scale in options.scales.items()}
    kept = set(pc.unique(verdicts.ranked["judge"]).to_pylist())
    levels = {name: own[name] if name in kept else verdicts.levels for name in (*own, HUMAN)}
    ratings = ratings_of(table, max([verdicts.levels, *(own[name] for name in kept)]))
    found = [
        one
        for a, b in _pairs(ratings.raters, kept, people=len(verdicts.human) > 0)
        for one in _of_two(ratings, (a, b), levels, options)
    ]
    return Section([*_lines(found)] if kept else [], {"ranks": table_of(found, Agreement)})


def _pairs(raters: tuple[str, ...], kept: set[str], *, people: bool) -> Iterator[tuple[int, int]]:
    for b in range(1, len(raters)):
        if people:
            yield 0, b
        else:
            yield from ((a, b) for a in range(b) if kept & {raters[a], raters[b]})


def _of_two(
    ratings: Ratings, rows: tuple[int, int], levels: dict[str, int], options: AgreeOptions
) -> Iterator[Agreement]:
    a, b = (ratings.raters[row] for row in rows)
    usual = levels[HUMAN]
    scale = ", ".join(scale_name(levels.get(name, usual)) for name in (a, b))
    counts = of_pair(ratings, *rows)
    confusion = counts.tables["confusion"]
    known = np.ones(len(confusion), dtype=bool)
    for name, of in COEFFICIENTS.items():
        found = estimate(confusion, known, of, **options.chance)
        ends = (found.value, found.low, found.high)
        yield Agreement(a, b, scale, name, *ends, counts.items, found.queries)


def _lines(found: list[Agreement]) -> Iterator[str]:
    of = {(one.rater_a, one.rater_b, one.coefficient): one for one in found}
    rows = []
    for a, b in dict.fromkeys((one.rater_a, one.rater_b) for one in found):
        each = [of[a, b, name] for name in COEFFICIENTS]
        cells = [with_interval(one.value, one.low, one.high) for one in each]
        rows.append([f"{a} and {b}", each[0].scale, *cells, f"{each[0].items:,}"])
    yield "Ranks, each on its own scale"
    yield from laid_out(["raters", "scales", *COEFFICIENTS, "items"], rows)
