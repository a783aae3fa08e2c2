"""Compute intervals of coefficients by sampling queries, since items of a query are dependent."""

from collections.abc import Iterator
from functools import lru_cache

import numpy as np
import scipy

from zelo_ray.evaluation.agreement.counts import Floats, Kind

FEWEST = 5
"""With fewer queries no interval is given."""

CONFIDENCE = 0.95
_UNDEFINED = 0.05  # share of the samples that may be undefined
_CHUNK_CELLS = 2**19  # cells of a chunk of sampled tables: 4 MB


@lru_cache(maxsize=4)
def draw_samples(queries: int, resamples: int, seed: int) -> Floats:
    """Draw how often each query is in each sample, of shape [resamples, queries].

    The same for all coefficients and raters that have as many queries.
    """
    rng = np.random.default_rng([seed % 2**64, queries])
    samples = (rng.integers(0, queries, queries) for _ in range(resamples))
    drawn = [np.bincount(sample, minlength=queries) for sample in samples]
    return np.array(drawn, dtype=np.float64).reshape(resamples, queries)


def sample_tables(
    tables: dict[Kind, Floats], resamples: int, seed: int
) -> Iterator[dict[Kind, Floats]]:
    """Yield tables of samples of the queries, in chunks: [rows, levels, levels] each."""
    queries, levels, _ = next(iter(tables.values())).shape
    weights = draw_samples(queries, resamples, seed)
    step = max(1, _CHUNK_CELLS // levels**2)
    flat = {kind: table.reshape(queries, levels**2) for kind, table in tables.items()}
    for start in range(0, resamples, step):
        rows = weights[start : start + step]
        yield {kind: (rows @ table).reshape(-1, levels, levels) for kind, table in flat.items()}


def interval(values: Floats, queries: int) -> tuple[float, float]:
    """Return the 95% interval of a coefficient, from its values in samples of so many queries.

    The expanded percentile interval (Hesterberg 2015, Am. Stat. 69:371): plain percentiles are too
    narrow for few queries. NaN with fewer than 5 queries, or if the coefficient is undefined in
    more than one sample of 20: the other samples would be a biased selection.
    """
    samples = values[~np.isnan(values)]
    if queries < FEWEST or len(samples) < (1 - _UNDEFINED) * len(values) or not len(samples):
        return np.nan, np.nan
    wider = scipy.special.stdtrit(queries - 1, (1 + CONFIDENCE) / 2)
    wider *= np.sqrt(queries / (queries - 1))
    steps = np.arange(len(samples))  # what np.quantile does, at a tenth of its time
    low, high = np.interp(scipy.special.ndtr([-wider, wider]) * steps[-1], steps, np.sort(samples))
    return float(low), float(high)
