"""How sure the outcome of a contest is: intervals, tests and chances, from per-query metrics.

Queries are the sample: intervals say what another sample of such queries could give. Every table
has a row for each arm (or pair of arms) and a column for each query, with NaN where an arm has no
metric for a query. All rows are resampled together, so that arms and measures stay paired. The
same seed and the same order of queries give the same numbers, whatever other arms there are.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from itertools import combinations
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr, stdtr, stdtrit

from zelo_ray.records import Comparison, Mean

Floats = NDArray[np.float64]
Counts = NDArray[np.int64]

TIE = 1e-12
"""Metrics and means that differ by no more are equal: they are of the order of 1, so it is noise of
rounding, which depends on the order of a sum."""

FEWEST = 5
"""Of fewer queries no interval is given: at nominal .95, those of 5 hold .91, and of 3 .76."""

EXACT = 16
"""Up to so many differences that are not 0, a test runs through all their signs: 65,536 cases."""

NEAR_FLOOR, SIGNS_A_TEST = 20, 100
"""Drawn signs give no p below 1 / (draws + 1), which Holm's correction multiplies by the number of
tests. A p below so many of its smallest steps is found anew, with so many draws for each test."""

CHUNK_CELLS = 2**21
"""Cells of a chunk of weights: 16 MB."""

_QUERIES, _SIGNS, _LABELS = range(3)  # streams of chance of one seed


def contest(
    values: Mapping[str, Floats],
    answered: NDArray[np.bool_],
    arms: Sequence[str],
    *,
    resamples: int,
    confidence: float,
    seed: int,
    drawn: Mapping[str, Floats] | None = None,
    uncompared: Collection[str] = (),
) -> tuple[list[Mean], list[Comparison]]:
    """Rank arms by their means, and tell how sure each difference is.

    A query that an arm did not answer counts in its mean as ``values`` has it (0, as the field
    counts it), and is left out of its comparisons.

    Args:
        values: by measure, metrics of shape [arms, queries]; NaN: not defined for that query.
        answered: which queries each arm answered, of shape [arms, queries].
        arms: names of the runs.
        resamples: how many samples of queries, and of signs, are drawn.
        confidence: chance with which an interval is to hold the true value.
        seed: all chance follows from it.
        drawn: by the same measures, metrics under resampled labels, of shape [draws, arms,
            queries], with as many draws for each; they give ``p_labels``.
        uncompared: measures that have means alone.

    Returns:
        Means by measure and arm, and comparisons by measure and pair, in the order given: the arm
        named first is A. ``p_holm`` is corrected over all comparisons.
    """
    table = np.concatenate([*values.values()])
    numbers = means(table, resamples=resamples, confidence=confidence, seed=seed)
    names = [(arm, measure) for measure in values for arm in arms]
    rows = zip(*numbers, _count(table), strict=True)
    averages = [Mean(*name, *_plain(row)) for name, row in zip(names, rows, strict=True)]
    common = {
        name: np.where(answered, metrics, np.nan)
        for name, metrics in values.items()
        if name not in uncompared
    }
    return averages, compare(
        common, arms, resamples=resamples, confidence=confidence, seed=seed, drawn=drawn
    )


def compare(
    values: Mapping[str, Floats],
    arms: Sequence[str],
    *,
    resamples: int,
    confidence: float,
    seed: int,
    drawn: Mapping[str, Floats] | None = None,
) -> list[Comparison]:
    """Compare all pairs of arms by all measures, each on the queries where both have a metric.

    Takes what ``contest`` takes, except that NaN also stands where an arm did not answer. Fewer
    than 5 common queries tell too little: the interval and ``p_better`` are NaN.

    ``p_better`` is the chance that A's mean over all queries like these is above B's, by Student's
    t. The errors of labels are a part of what differs from query to query, so it counts them in.
    ``p_labels`` is the share of the draws of ``drawn`` in which A's mean over just these queries is
    above B's: whether other answers of the judges could turn the result. The two are not to be
    multiplied or mixed: draws that know nothing of the runs pull every difference towards 0.

    Holm's correction counts the pairs that differ on any query. The test goes by the sizes of the
    differences as they are, and where all are 0 it has nothing to find and cannot alarm.
    """
    pairs = np.array([*combinations(range(len(arms)), 2)], dtype=np.intp).reshape(-1, 2)
    tables = [*values.values()]
    differences = _differences(tables, pairs)
    missing = np.isnan(differences)
    sides = (np.concatenate([table[side] for table in tables]) for side in pairs.T)
    count = _count(differences)
    differ = np.nan_to_num(differences).any(axis=1)
    p = sign_flip(differences, resamples=resamples, seed=seed)
    near = p < NEAR_FLOOR / resamples  # among many tests, these may yet be real
    more = max(resamples, SIGNS_A_TEST * int(differ.sum()))
    if more > resamples:
        p[near] = sign_flip(differences[near], resamples=more, seed=seed)
    corrected = np.ones(len(p))
    corrected[differ] = holm(p[differ])
    low, high = _interval(differences, resamples, confidence, seed)
    redrawn = (
        (
            np.where(missing, np.nan, _differences([*each], pairs))
            for each in zip(*(drawn[name] for name in values), strict=True)
        )
        if drawn
        else ()
    )
    rows = zip(
        *(_mean(np.where(missing, np.nan, side)) for side in sides),
        *(_mean(differences), low, high, p, corrected),
        *(chance_above(differences), _share_above(redrawn, len(p)), count),
        *(sign.sum(axis=1) for sign in (differences > 0, differences == 0, differences < 0)),
        strict=True,
    )
    names = [(arms[a], arms[b], measure) for measure in values for a, b in pairs]
    return [Comparison(*name, *_plain(row)) for name, row in zip(names, rows, strict=True)]


def means(
    values: Floats, *, resamples: int, confidence: float, seed: int
) -> tuple[Floats, Floats, Floats]:
    """The mean of each row, with a bootstrap interval.

    Args:
        values: of shape [rows, queries]; NaN is left out.
        resamples: how many samples of the queries are drawn.
        confidence: chance with which an interval is to hold the true mean.
        seed: all chance follows from it.

    Returns:
        Means, and the lower and upper ends of their intervals, each of shape [rows]. NaN without a
        value; the ends also with fewer than 5 values.
    """
    return _mean(values), *_interval(values, resamples, confidence, seed)


def sign_flip(differences: Floats, *, resamples: int, seed: int) -> Floats:
    """The paired randomisation test: could chance have told the two arms apart so far?

    If the arms are alike, each difference could as well have had the other sign (Fisher 1935, The
    Design of Experiments, section 21; Smucker, Allan & Carterette 2007, CIKM, for retrieval). p is
    the share of the signs under which the mean is at least as far from 0 as it was found: of all
    signs up to 16 differences, else of signs drawn, among which the signs found are counted, so
    that p is never 0 (Phipson & Smyth 2010, Stat. Appl. Genet. Mol. Biol. 9:39).

    Args:
        differences: of shape [pairs, queries]; NaN and 0 do not matter.
        resamples: how many sets of signs are drawn.
        seed: all chance follows from it.

    Returns:
        Two-sided p, of shape [pairs].
    """
    filled = np.nan_to_num(differences)
    found = np.abs(filled.mean(axis=1)) - TIE
    few = np.count_nonzero(filled, axis=1) <= EXACT
    p = np.array([_exact(row) if short else 1.0 for row, short in zip(filled, few, strict=True)])
    many, far = filled[~few], found[~few, np.newaxis]
    as_far = np.ones(len(many))
    rng = _stream(seed, _SIGNS)
    for rows in _chunks(resamples, many.shape[1]):
        signs = 1.0 - 2.0 * rng.integers(0, 2, (rows, many.shape[1]), dtype=np.int8)
        for part in _parts(len(many), rows):
            flipped = np.abs(many[part] @ signs.T) / many.shape[1]
            as_far[part] += (flipped >= far[part]).sum(axis=1)
    p[~few] = as_far / (resamples + 1)
    return p


def holm(p: Floats) -> Floats:
    """Correct tests for their number, so that in all the chance of any false alarm stays at alpha.

    The step-down procedure of Holm (1979, Scand. J. Statist. 6:65), which holds however the tests
    depend on each other. Of any shape [tests].
    """
    order = np.argsort(p)
    scaled = np.maximum.accumulate(p[order] * np.arange(p.size, 0, -1))
    adjusted = np.empty(p.size)
    adjusted[order] = np.minimum(scaled, 1.0)
    return adjusted


def label_draws(relevance: Floats, std_error: Floats, draws: int, seed: int) -> Iterator[Floats]:
    """Draw what the true labels may be, given the labels found and their errors.

    Scores are the maximum of a posterior, and their errors Laplace's (see
    ``zelo_ray.fitting.bradley_terry``): the posterior is near a normal with that mean and that
    deviation, and this draws from it. The scores
    of a query also depend on each other, through the documents that they were compared with; that
    is left out, for the errors alone are stored.

    Args:
        relevance: of shape [rows].
        std_error: of shape [rows]; NaN: the label is exact.
        draws: how many.
        seed: all chance follows from it, and from the order of the rows.

    Yields:
        Labels, of shape [rows].
    """
    errors = np.nan_to_num(std_error)
    rng = _stream(seed, _LABELS)
    for _ in range(draws):
        yield relevance + errors * rng.standard_normal(len(relevance))


def _differences(tables: Sequence[Floats], pairs: NDArray[np.intp]) -> Floats:
    """A minus B, of shape [tables * pairs, queries]."""
    apart = np.concatenate([table[pairs[:, 0]] - table[pairs[:, 1]] for table in tables])
    apart[np.abs(apart) <= TIE] = 0.0
    return apart


def _resampled(table: Floats, resamples: int, seed: int) -> Floats:
    """Means of each row under samples of the queries: [rows, resamples].

    Where a row has no metric is sampled with the queries; a sample without any gives it NaN.
    """
    rng = _stream(seed, _QUERIES)
    defined = (~np.isnan(table)).astype(np.float64)
    filled = np.nan_to_num(table)
    queries = table.shape[1]
    found = []
    for rows in _chunks(resamples, queries):
        samples = (rng.integers(0, queries, queries) for _ in range(rows))
        # how often each query is in each sample
        drawn = [np.bincount(sample, minlength=queries) for sample in samples]
        weights = np.array(drawn, dtype=np.float64)
        with np.errstate(invalid="ignore"):
            count = queries if defined.all() else defined @ weights.T
            found.append(filled @ weights.T / count)
    return np.concatenate(found, axis=1)


def _interval(
    values: Floats, resamples: int, confidence: float, seed: int
) -> tuple[Floats, Floats]:
    """The expanded percentile interval of each row (Hesterberg 2015, Am. Stat. 69:371).

    The bootstrap's percentiles are too narrow for few queries, by what parts a normal interval with
    the variance over n from Student's with that over n - 1; these stand as much further out. They
    follow the skew of the metrics and keep to their range.

    With 43 queries of six populations, 95% intervals hold .94 to .96 of true differences and .93 to
    .95 of true means, with 25 queries .93 to .95 and .92 to .95 (``benchmarks/coverage.py``). The
    low figures are of an easy test, with 35% perfect queries. The plain percentiles hold .02 less
    with 25 queries. BCa and studentised bootstraps, corrected for a skew that so few queries hardly
    show, hold more true means (.93 to .98) but fewer true differences (.90 to .94).
    """
    low, high = np.full((2, len(values)), np.nan)
    count = _count(values)
    for part in _parts(len(values), resamples):
        resampled = _resampled(values[part], resamples, seed)  # each part has the same samples
        for row, mean in enumerate(resampled, part.start):
            if (n := count[row]) >= FEWEST:
                tail = ndtr(-np.sqrt(n / (n - 1)) * stdtrit(n - 1, (1 + confidence) / 2))
                low[row], high[row] = np.quantile(mean[~np.isnan(mean)], [tail, 1 - tail])
    return low, high


def chance_above(differences: Floats) -> Floats:
    """The chance that each row's true mean is above 0, by Student's t with a flat prior.

    Args:
        differences: of shape [rows, queries]; NaN is left out.

    Returns:
        Of shape [rows]; NaN with fewer than 5 queries.
    """
    count, mean = _count(differences), _mean(differences)
    with np.errstate(invalid="ignore", divide="ignore"):
        spread = np.nansum((differences - mean[:, np.newaxis]) ** 2, axis=1) / (count - 1)
        t = np.where(np.abs(mean) <= TIE, 0.0, mean / np.sqrt(spread / count))
    chance: Floats = np.where(count < FEWEST, np.nan, stdtr(count - 1, t))
    return chance


def _share_above(draws: Iterable[Floats], rows: int) -> Floats:
    """In how many of the draws a row's mean is above 0, a tie being half; NaN without a draw."""
    above = [np.where(np.abs(m) <= TIE, 0.5, m > 0) for m in map(_mean, draws)]
    return np.mean(above, axis=0) if above else np.full(rows, np.nan)


def _exact(differences: Floats) -> float:
    """The two-sided p of all signs of the differences that are not 0."""
    sums = np.zeros(1)
    for difference in differences[differences != 0]:
        sums = np.concatenate([sums + difference, sums - difference])
    as_far = np.abs(sums) >= np.abs(sums[0]) - TIE * len(differences)
    return float(as_far.mean())


def _mean(values: Floats) -> Floats:
    """Of each row, without its NaN."""
    with np.errstate(invalid="ignore"):
        mean: Floats = np.nansum(values, axis=1) / _count(values)
    return mean


def _count(values: Floats) -> Counts:
    """How many values of each row are not NaN."""
    count: Counts = (~np.isnan(values)).sum(axis=1)
    return count


def _stream(seed: int, number: int) -> np.random.Generator:
    # A seed may be negative, which numpy does not take.
    return np.random.Generator(np.random.PCG64([number, seed % 2**64]))


def _chunks(resamples: int, queries: int) -> Iterator[int]:
    """Split resamples, so that their weights do not fill the memory."""
    # Not by the number of rows: a chunk may use up more chance than it needs.
    step = max(1, CHUNK_CELLS // max(1, queries))
    for start in range(0, resamples, step):
        yield min(step, resamples - start)


def _parts(rows: int, width: int) -> Iterator[slice]:
    """Split rows of some width, so that a table of them does not fill the memory."""
    step = max(1, CHUNK_CELLS // max(1, width))
    for start in range(0, rows, step):
        yield slice(start, start + step)


def _plain(row: Iterable[np.generic]) -> list[Any]:
    return [number.item() for number in row]
