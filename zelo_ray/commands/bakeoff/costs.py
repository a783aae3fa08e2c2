"""Sum up what rankings take: seconds a query, documents a second, dollars for 1,000 queries."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from math import nan

import numpy as np

from zelo_ray.commands.bakeoff.outcome import Floats, MeasuredRanker, RankerCost, RankingCosts
from zelo_ray.evaluation.bootstrap import FEWEST
from zelo_ray.evaluation.resampling import chunk_sizes, random_stream
from zelo_ray.options import BakeoffOptions
from zelo_ray.records import Mean
from zelo_ray.rerankers.query_costs import QueryCost

_RESAMPLES = 1000
"""Samples of queries at most: more would not show in the digits of a time."""


def _percentile(share: float) -> Callable[[Floats], Floats]:
    return lambda samples: np.asarray(np.percentile(samples[..., 0], share, axis=-1))


def _documents_per_second(samples: Floats) -> Floats:
    return np.asarray(samples[..., 1].sum(axis=-1) / samples[..., 0].sum(axis=-1))


def _per_1000(samples: Floats) -> Floats:
    return np.asarray(1000 * samples[..., 2].mean(axis=-1))


FIGURES: Mapping[str, Callable[[Floats], Floats]] = {
    "seconds_p50": _percentile(50),
    "seconds_p95": _percentile(95),
    "documents_per_second": _documents_per_second,
    "usd_per_1000": _per_1000,
}
"""By the name of a figure, how it follows from queries: [..., queries, 3], whose last axis is
seconds, documents and dollars."""


def sum_costs(rankers: Sequence[MeasuredRanker], options: BakeoffOptions) -> RankingCosts:
    """Sum up the costs of rankers; those that were not asked, such as run files, have none."""
    rows, means = list[RankerCost](), list[Mean]()
    for entry in rankers:
        by_way = {alone: [c for c in entry.costs if c.is_alone is alone] for alone in (False, True)}
        for alone, costs in by_way.items():
            if costs:
                rows.append(_cost_of(entry, costs, is_alone=alone))
        means += _means(entry.name, [*by_way.values()], options)
    return RankingCosts(rows, means)


def _cost_of(entry: MeasuredRanker, costs: Sequence[QueryCost], *, is_alone: bool) -> RankerCost:
    timed = [cost for cost in costs if not np.isnan(cost.seconds)]
    devices = sorted({cost.device for cost in entry.costs if cost.device})
    values, paid = _values(timed), _values(costs)
    return RankerCost(
        run=entry.name,
        is_alone=is_alone,
        queries=len(timed),
        in_flight=max((cost.in_flight for cost in timed), default=0),
        **{
            name: float(figure(paid if name == "usd_per_1000" else values))
            if timed or name == "usd_per_1000"
            else nan
            for name, figure in FIGURES.items()
        },
        load_seconds=max(cost.load_seconds for cost in entry.costs),
        device=", ".join(devices),
        block_size=entry.block_size,
    )


def _values(costs: Sequence[QueryCost]) -> Floats:
    """Return seconds, documents and dollars, [queries, 3]."""
    rows = [(cost.seconds, cost.documents, cost.dollars) for cost in costs]
    return np.array(rows, dtype=float).reshape(len(rows), 3)


def _means(
    name: str, ways: Sequence[Sequence[QueryCost]], options: BakeoffOptions
) -> Iterator[Mean]:
    """Yield the figures of a ranker with intervals, from a bootstrap over queries.

    Times are of queries that were asked one at a time, where there are any; prices are of all.
    """
    together, alone = ways
    timed = [cost for cost in alone or together if not np.isnan(cost.seconds)]
    for measure, figure in FIGURES.items():
        values = _values(together if measure == "usd_per_1000" else timed)
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
    stream, samples = random_stream(options.seed, "queries"), list[Floats]()
    for size in chunk_sizes(min(options.resamples, _RESAMPLES), 3 * len(values)):
        samples.append(figure(values[stream.integers(0, len(values), (size, len(values)))]))
    tail = 50 * (1 - options.confidence)
    low, high = np.percentile(np.concatenate(samples), [tail, 100 - tail])
    return float(low), float(high)
