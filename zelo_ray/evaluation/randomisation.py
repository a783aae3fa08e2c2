"""Run the paired randomisation test, for one pair of rankers or for very many."""

import numpy as np
import scipy
from numpy.typing import NDArray

from zelo_ray.evaluation.paired import PairedRows
from zelo_ray.evaluation.resampling import TIE, Floats, chunk_sizes, random_stream, row_slices

EXACT = 16
"""Up to so many differences other than 0, a test enumerates all signs: 65,536 cases."""

NEAR_FLOOR, SIGNS_A_TEST = 20, 100
"""With sampled signs, p is at least 1 / (draws + 1), which Holm's correction multiplies by the
number of tests. A p below ``NEAR_FLOOR`` such steps is computed again, with ``SIGNS_A_TEST`` draws
for each of the tests."""

MOST_SIGNS, MOST_SIGN_CELLS = 250_000, 2.5e8
"""The most draws, and draws times queries; for more tests only the bound of `proven` is used."""

_CACHED = 2**16  # cells that are subtracted, compared and counted at once: half a MB


def randomisation_test(rows: PairedRows, *, resamples: int, seed: int) -> Floats:
    """Run the paired randomisation test: could the difference of two rankers be due to chance?

    If the rankers are equally good, each difference could as well have had the other sign (Fisher
    1935, The Design of Experiments, section 21; Smucker, Allan & Carterette 2007, CIKM, for
    retrieval). p is the share of the sign vectors under which the mean is at least as far from 0 as
    observed: of all sign vectors up to 16 differences, else of sampled ones, to which the observed
    one is added, so that p is never 0 (Phipson & Smyth 2010, Stat. Appl. Genet. Mol. Biol. 9:39).

    Args:
        rows: differences; NaN and 0 do not matter.
        resamples: how many sets of signs are drawn.
        seed: all chance follows from it.

    Returns:
        Two-sided p, of shape [rows].
    """
    p, far = np.ones(len(rows)), np.empty(len(rows))
    sampled = np.zeros(len(rows), dtype=bool)
    for part in row_slices(len(rows), rows.queries):
        filled = np.nan_to_num(rows.values(part))
        far[part] = np.abs(filled.sum(axis=1)) - TIE * rows.queries
        sampled[part] = np.count_nonzero(filled, axis=1) > EXACT
        p[part] = [
            1.0 if is_sampled else _exact(row)
            for row, is_sampled in zip(filled, sampled[part], strict=True)
        ]
    p[sampled] = _drawn(rows.take(sampled), far[sampled], resamples, seed)
    return p


def randomisation_test_for_many(
    rows: PairedRows, tests: int, *, resamples: int, seed: int
) -> Floats:
    """Run `randomisation_test` on rows of which ``tests`` will be corrected by Holm.

    A p near the smallest value that the draws allow is computed again: by the bound of `proven` if
    that is below what more draws could give, else by more draws. For more than about 2,500 tests
    more draws would take minutes, so only the bound is used, which needs a mean some 5% larger.

    The level of the test is kept, since both methods keep it, and the bound is chosen only where
    the draws would almost certainly agree.
    """
    p = randomisation_test(rows, resamples=resamples, seed=seed)
    more = SIGNS_A_TEST * tests
    if more > resamples:
        draws = more if more <= min(MOST_SIGNS, MOST_SIGN_CELLS / rows.queries) else resamples
        near = np.flatnonzero(p < NEAR_FLOOR / resamples)
        bound = p_value_bound(rows.take(near))
        settled = bound < 1 / (draws + 1)
        p[near[settled]] = np.minimum(p[near[settled]], bound[settled])
        if draws > resamples:
            places = near[~settled]
            p[places] = randomisation_test(rows.take(places), resamples=draws, seed=seed)
    return p


def p_value_bound(rows: PairedRows) -> Floats:
    """Return a bound that p over all signs cannot exceed, without any draw.

    Of a sum with random signs, P(sum >= x sd) <= c (1 - Phi(x)) with c = 1 / (4 (1 - Phi(sqrt 2)))
    = 3.18, whatever the sizes (Bentkus & Dzindzalieta 2015, Bernoulli 21:1231); twice that for both
    sides. Far out it is about three times p.

    Args:
        rows: differences.

    Returns:
        Of shape [rows], at most 1.
    """
    bound = np.ones(len(rows))
    for part in row_slices(len(rows), rows.queries):
        filled = np.nan_to_num(rows.values(part))
        spread = np.sqrt((filled**2).sum(axis=1))
        far = np.abs(filled.sum(axis=1)) - TIE * rows.queries
        x = np.divide(far, spread, out=np.zeros_like(far), where=spread > 0)
        above = scipy.special.ndtr(-x)
        bound[part] = np.minimum(1.0, 2 * above / (4 * scipy.special.ndtr(-np.sqrt(2.0))))
    return bound


def holm(p: Floats) -> Floats:
    """Correct p values for the number of tests: any false alarm has at most the chance alpha.

    The step-down procedure of Holm (1979, Scand. J. Statist. 6:65), which holds however the tests
    depend on each other. Of any shape [tests].
    """
    order = np.argsort(p)
    scaled = np.maximum.accumulate(p[order] * np.arange(p.size, 0, -1))
    adjusted = np.empty(p.size)
    adjusted[order] = np.minimum(scaled, 1.0)
    return adjusted


def _drawn(rows: PairedRows, far: Floats, resamples: int, seed: int) -> Floats:
    """Return the p of drawn signs, of shape [rows], for sums at least ``far`` from 0."""
    as_far: NDArray[np.float64] = np.ones(len(rows))
    rng = random_stream(seed, "signs")
    for size in chunk_sizes(resamples if len(rows) else 0, rows.queries):
        bits = rng.integers(0, 2, (size, rows.queries), dtype=np.int8)
        under = rows.apply_weights((1 - 2 * bits).astype(np.float64))
        for part in row_slices(len(rows), size, _CACHED):
            sums = rows.sums(part, under)
            as_far[part] += (np.abs(sums, out=sums) >= far[part, np.newaxis]).sum(axis=1)
    return as_far / (resamples + 1)


def _exact(differences: Floats) -> float:
    """Return the two-sided p over all signs of the differences that are not 0."""
    sums = np.zeros(1)
    for difference in differences[differences != 0]:
        sums = np.concatenate([sums + difference, sums - difference])
    as_far = np.abs(sums) >= np.abs(sums[0]) - TIE * len(differences)
    return float(as_far.mean())
