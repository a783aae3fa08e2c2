"""Sum up a grid of first stages and rerankers: each pair, and the main effect of each factor."""

from collections.abc import Iterator, Mapping, Sequence
from math import nan

import numpy as np

from zelo_ray.commands.bakeoff.first_stages import Grid
from zelo_ray.commands.bakeoff.outcome import BakeoffOutcome, Floats, GridCell
from zelo_ray.evaluation.bootstrap import bootstrap_means
from zelo_ray.options import BakeoffOptions


def sum_up_grid(outcome: BakeoffOutcome, grid: Grid, options: BakeoffOptions) -> list[GridCell]:
    """Return a cell for each pair and measure, and one for each first stage and reranker alone.

    The latter are means over the other factor, query by query. One with a pair that ranked no query
    has none, as its mean would be over other pairs than that of its rivals.
    """
    cells = list[GridCell]()
    if not grid.pairs:
        return cells
    means = {(row.run, row.measure): row for row in outcome.means}
    places = {name: place for place, name in enumerate(outcome.ranker_names)}
    for measure in (str(m) for m in outcome.measures if not m.of_labels):
        for run, (stage, reranker) in grid.pairs.items():
            if row := means.get((run, measure)):
                ends = (row.mean, row.low, row.high, row.queries)
                cells.append(GridCell(stage, reranker, run, measure, *ends, nan, nan, nan))
        if all(run in places for run in grid.pairs):
            rows = {run: outcome.values[measure][places[run]] for run in grid.pairs}
            cells += _effects(rows, grid.pairs, measure, options)
    return cells


def _effects(
    rows: Mapping[str, Floats],
    pairs: Mapping[str, tuple[str, str]],
    measure: str,
    options: BakeoffOptions,
) -> Iterator[GridCell]:
    """Yield the main effect of each first stage and of each reranker, by one measure."""
    everything = np.mean([*rows.values()], axis=0)
    levels = [*dict.fromkeys((stage, "") for stage, _ in pairs.values())]
    levels += dict.fromkeys(("", reranker) for _, reranker in pairs.values())
    level_means = [np.mean(_rows_at(rows, pairs, level), axis=0) for level in levels]
    means = _bootstrap(level_means, options)
    effects = _bootstrap([row - everything for row in level_means], options)
    for place, (stage, reranker) in enumerate(levels):
        mean, low, high = (float(column[place]) for column in means)
        effect, effect_low, effect_high = (float(column[place]) for column in effects)
        queries = int((~np.isnan(level_means[place])).sum())
        figures = (mean, low, high, queries, effect, effect_low, effect_high)
        yield GridCell(stage, reranker, "", measure, *figures)


def _rows_at(
    rows: Mapping[str, Floats], pairs: Mapping[str, tuple[str, str]], level: tuple[str, str]
) -> list[Floats]:
    """Return the rows of the pairs with a first stage or a reranker; the other name is empty."""
    stage, reranker = level
    return [row for run, row in rows.items() if pairs[run][0] == stage or pairs[run][1] == reranker]


def _bootstrap(rows: Sequence[Floats], options: BakeoffOptions) -> tuple[Floats, Floats, Floats]:
    settings = {"resamples": options.resamples, "seed": options.seed}
    return bootstrap_means(np.array(rows), confidence=options.confidence, **settings)
