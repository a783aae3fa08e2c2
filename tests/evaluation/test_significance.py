"""Intervals and tests over queries: against scipy, by hand, and their level on equal rankers."""

from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from zelo_ray.evaluation.significance import (
    compare_pairs,
    holm,
    label_draws,
    mean_metrics,
    paired_test,
    student_test,
)


def equal_rankers(rng, queries, measure):
    """Metrics of five rankers that are equally good."""
    ranks = rng.geometric(0.35, (5, queries))
    return {"Success@1": ranks == 1, "RR": 1 / ranks}[measure].astype(float)


NAN = float("nan")
OPTIONS = {"confidence": 0.95}


def metrics(*shape, seed=0):
    """Values as nDCG has them: many in the middle, some 0, some 1; arms agree on hard queries."""
    rng = np.random.default_rng(seed)
    hard = rng.normal(0.5, 0.3, (*shape[:-2], 1, shape[-1]))
    return np.clip(hard + rng.normal(0, 0.15, shape), 0, 1)


def only(rows):
    (row,) = rows
    return row


def pair(a, b, **options):
    """The comparison of two arms by one measure."""
    return only(
        compare_pairs({"m": np.array([a, b], dtype=float)}, ["a", "b"], **OPTIONS | options)
    )


def numbers(row):
    return [row.difference, row.low, row.high, row.p, row.p_better, row.wins, row.losses]


class TestMeans:
    def test_leave_out_what_is_not_defined(self):
        values = np.array([[0.2, NAN, 0.4, 0.9, 0.1, 0.9], [1.0, 0.0, NAN, 0.5, 1.0, 0.0]])
        found = mean_metrics(values, 0.95)
        for row, mean, low, high in zip(values, found.mean, found.low, found.high, strict=True):
            known = row[~np.isnan(row)]
            ends = stats.ttest_1samp(known, 0).confidence_interval(0.95)
            assert mean == pytest.approx(known.mean())
            assert (low, high) == pytest.approx(np.clip(ends, 0, 1))
        assert found.queries.tolist() == [5, 5]

    def test_without_values_are_not_defined(self):
        found = mean_metrics(np.array([[NAN] * 5, [0.3] * 4 + [NAN], [0.3] * 5]), 0.95)
        np.testing.assert_array_equal(found.mean, [NAN, 0.3, 0.3])
        np.testing.assert_allclose([found.low, found.high], [[NAN, NAN, 0.3]] * 2)
        assert np.isnan(mean_metrics(np.empty((2, 0)), 0.95).mean).all()


class TestStudent:
    def test_is_scipys_where_many_differences_are_not_0(self):
        values = metrics(3, 40) - 0.45
        found, authority = paired_test(values, 0.9), stats.ttest_1samp(values, 0, axis=1)
        np.testing.assert_allclose(found.p, authority.pvalue, rtol=1e-9)
        ends = authority.confidence_interval(0.9)
        np.testing.assert_allclose([found.low, found.high], [ends.low, ends.high], rtol=1e-9)

    @pytest.mark.parametrize("count", [5, 10, 13])
    def test_of_few_has_the_larger_p_of_t_and_of_all_signs(self, count):
        for seed in range(20):
            values = metrics(1, count, seed=seed) - 0.3
            signs = stats.permutation_test(
                (values[0], np.zeros(count)),
                lambda a, b, axis: np.mean(a - b, axis=axis),
                permutation_type="samples",
                vectorized=True,
                n_resamples=np.inf,
            ).pvalue
            expected = max(signs, stats.ttest_1samp(values[0], 0).pvalue)
            assert paired_test(values, 0.95).p[0] == pytest.approx(expected)

    @pytest.mark.parametrize(
        ("values", "p"),
        [
            ([0.1] * 5, 2 / 2**5),  # t alone: 0
            ([0.1] * 40, 2 / 2**40),
            ([0.1] * 3 + [0.0] * 2, 0.25),
            ([0.1, 0.2, -0.3, 0.0, NAN], 1.0),  # 5.6e-17 is 0
            ([0.0] * 9, 1.0),
            ([NAN] * 9, 1.0),
        ],
    )
    def test_by_hand(self, values, p):
        assert paired_test(np.array([values]), 0.95).p == pytest.approx([p])

    def test_an_interval_never_contradicts_p(self):
        rng = np.random.default_rng(1)
        for queries, rare in product((5, 6, 8, 12, 25), (0.1, 0.3, 0.9)):
            drawn = rng.integers(-1, 4, (200, queries)) * (rng.random((200, queries)) < rare)
            found = paired_test(drawn / 4, 0.95)
            excludes_0 = (found.low > 0) | (found.high < 0)
            assert (excludes_0 == (found.p < 0.05)).all()
            beyond = (found.chance_above < 0.025) | (found.chance_above > 0.975)
            assert (beyond == (found.p < 0.05)).all()

    def test_labels_give_the_degrees_of_freedom(self):
        values = metrics(3, 30) - 0.45
        found = student_test(values, 0.95, np.array([30, 9, 4]))
        t = values.mean(axis=1) / stats.sem(values, axis=1)
        expected = [2 * stats.t.sf(abs(t[0]), 29), 2 * stats.t.sf(abs(t[1]), 8), NAN]
        np.testing.assert_allclose(found.p, expected)
        assert np.isnan([found.low[2], found.high[2], found.chance_above[2]]).all()


class TestHolm:
    @given(st.lists(st.floats(0, 1), min_size=1, max_size=12), st.floats(0.001, 0.999))
    def test_rejects_what_the_steps_reject(self, p, alpha):
        """Holm's own wording: go up while the i-th smallest p is at most alpha / (m - i)."""
        rejected, left = set(), sorted(range(len(p)), key=p.__getitem__)
        while left and p[left[0]] * len(left) <= alpha:
            rejected.add(left.pop(0))
        assert {i for i, q in enumerate(holm(np.array(p))) if q <= alpha} == rejected


class TestCompare:
    def test_by_hand(self):
        row = pair([0.9, 0.5, 0.4, NAN, 0.7], [0.5, 0.6, 0.4, 0.9, NAN])
        assert (row.run_a, row.run_b, row.measure) == ("a", "b", "m")
        assert (row.queries, row.wins, row.ties, row.losses) == (3, 1, 1, 1)
        assert (row.mean_a, row.mean_b) == (pytest.approx(0.6), pytest.approx(0.5))
        assert row.difference == pytest.approx(0.1)
        assert row.p == row.p_holm == 1.0

    @pytest.mark.parametrize("noise", [0.0, 1e-16])
    def test_equal_arms(self, noise):
        a = metrics(1, 30)[0]
        row = pair(a, a + noise)
        assert numbers(row) == [0.0, 0.0, 0.0, 1.0, 0.5, 0, 0]
        assert row.ties == 30

    @pytest.mark.parametrize("b", [[NAN, NAN, 0.5], [NAN, 0.5, 0.7]])
    def test_too_few_common_queries(self, b):
        row = pair([0.1, 0.9, NAN], b)
        assert row.queries == int(b[1] == 0.5)
        assert row.difference == pytest.approx(0.4 if row.queries else NAN, nan_ok=True)
        assert np.isnan([row.low, row.high, row.p_better]).all()
        assert row.p == row.p_holm == 1.0

    def test_other_arms_and_measures_do_not_matter(self):
        values = metrics(6, 40)
        alone = pair(values[1], values[4])
        rows = compare_pairs({"x": values * 0.5, "m": values}, [*"zayxbw"], **OPTIONS)
        found = only(r for r in rows if (r.run_a, r.run_b, r.measure) == ("a", "b", "m"))
        assert numbers(found) == pytest.approx(numbers(alone))
        assert found.p_holm > alone.p_holm


def by_measure(drawn):
    """Draws of the labels, as a bake-off makes them: one after the other."""
    return ({"m": draw} for draw in drawn)


class TestLabelUncertainty:
    def test_is_the_share_of_draws(self):
        a = np.concatenate([np.full((30, 1, 8), 0.7), np.full((10, 1, 8), 0.3)])
        drawn = by_measure(np.concatenate([a, np.full_like(a, 0.5)], axis=1))
        assert pair([0.7] * 8, [0.5] * 8, drawn=drawn).p_labels == pytest.approx(0.75)

    def test_leaves_out_what_was_not_answered(self):
        drawn = np.full((10, 2, 4), 0.5)
        drawn[:, 0, :2] = 0.0  # A would lose by these, which it did not answer
        drawn[:, 0, 2:] = 0.6
        values = [NAN, NAN, 0.6, 0.6], [0.5, 0.5, 0.5, 0.5]
        assert pair(*values, drawn=by_measure(drawn)).p_labels == 1.0


class TestLabelDraws:
    def test_have_the_mean_and_the_deviation_told(self):
        found, errors = np.array([-1.0, 0.0, 2.5]), np.array([0.5, 2.0, NAN])
        drawn = np.stack([*label_draws(found, errors, draws=4000, seed=0)])
        np.testing.assert_allclose(drawn.mean(axis=0), found, atol=0.15)
        np.testing.assert_allclose(drawn.std(axis=0), [0.5, 2.0, 0.0], rtol=0.05)
        assert abs(np.corrcoef(drawn[:, :2].T)[0, 1]) < 0.06


@pytest.mark.parametrize("queries", [5, 8, 10, 25])
@pytest.mark.parametrize("measure", ["Success@1", "RR"])
def test_equal_rankers_seldom_differ(queries, measure):
    """The level of one test is at most .05, and so is any false alarm of ten after Holm."""
    rng = np.random.default_rng(queries)
    found = [
        compare_pairs({measure: equal_rankers(rng, queries, measure)}, [*"abcde"], **OPTIONS)
        for _ in range(300)
    ]
    assert np.mean([row.p <= 0.05 for rows in found for row in rows]) < 0.06
    assert np.mean([min(row.p_holm for row in rows) <= 0.05 for rows in found]) < 0.07
