"""Sum up what rankings take: seconds a query, and dollars for 1,000 queries."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from math import nan

import numpy as np

from zelo_ray.command_options import BakeoffOptions
from zelo_ray.commands.bakeoff.outcome import Floats, MeasuredRanker
from zelo_ray.evaluation.significance import FEWEST
from zelo_ray.records import Mean
from zelo_ray.rerankers.ranking import QueryCost

_SAMPLES, _CELLS = 1000, 2**20
"""Samples of queries, and how many of their values are in memory at once."""


def _percentile(share: float) -> Callable[[Floats], Floats]:
    return lambda samples: np.asarray(np.percentile(samples[..., 0], share, axis=-1))


def _per_1000(samples: Floats) -> Floats:
    return np.asarray(1000 * samples[..., 1].mean(axis=-1))


FIGURES: Mapping[str, Callable[[Floats], Floats]] = {
    "seconds_p50": _percentile(50),
    "seconds_p95": _percentile(95),
    "usd_per_1000": _per_1000,
}
"""By the name of a figure, how it follows from queries: [..., queries, 2], whose last axis is
seconds and dollars."""


def sum_costs(rankers: Sequence[MeasuredRanker], options: BakeoffOptions) -> list[Mean]:
    """Sum up the costs of rankers; those that were not asked, such as run files, have none."""
    return [mean for entry in rankers for mean in _means(entry.name, entry.costs, options)]


def _means(name: str, costs: Sequence[QueryCost], options: BakeoffOptions) -> Iterator[Mean]:
    """Yield the figures of a ranker with intervals, from a bootstrap over queries.

    Times are of queries whose time is known, prices of all.
    """
    timed = [cost for cost in costs if not np.isnan(cost.seconds)]
    for measure, figure in FIGURES.items():
        rows = costs if measure == "usd_per_1000" else timed
        values = np.array([(cost.seconds, cost.dollars) for cost in rows], dtype=float)
        if not len(values):
            continue
        value = float(figure(values))
        if np.isnan(value):
            continue
        low, high = _interval(values, figure, options) if len(values) >= FEWEST else (nan, nan)
        yield Mean(name, measure, value, low, high, len(values), "cost")


def _interval(
    values: Floats, figure: Callable[[Floats], Floats], options: BakeoffOptions
) -> tuple[float, float]:
    """Return the percentile interval of a figure over samples of the queries."""
    stream, samples = np.random.default_rng(options.seed % 2**64), list[Floats]()
    step = max(1, _CELLS // len(values))
    for start in range(0, _SAMPLES, step):
        size = (min(step, _SAMPLES - start), len(values))
        samples.append(figure(values[stream.integers(0, len(values), size)]))
    tail = 50 * (1 - options.confidence)
    low, high = np.percentile(np.concatenate(samples), [tail, 100 - tail])
    return float(low), float(high)
