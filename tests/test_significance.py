import tracemalloc
from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from zelo_ray.evaluation.paired import PairedRows
from zelo_ray.evaluation.randomisation import (
    p_value_bound,
    randomisation_test,
    randomisation_test_for_many,
)
from zelo_ray.evaluation.significance import (
    TIE,
    bootstrap_means,
    compare_pairs,
    evaluate_rankers,
    holm,
    label_draws,
)

NAN = float("nan")
OPTIONS = {"resamples": 2000, "confidence": 0.95, "seed": 0}


def metrics(*shape, seed=0):
    """Values as nDCG has them: many in the middle, some 0, some 1; arms agree on hard queries."""
    rng = np.random.default_rng(seed)
    hard = rng.normal(0.5, 0.3, (*shape[:-2], 1, shape[-1]))
    return np.clip(hard + rng.normal(0, 0.15, shape), 0, 1)


def p_of(differences, **options):
    return randomisation_test(PairedRows(differences), **options)


def only(rows):
    (row,) = rows
    return row


def pair(a, b, **options):
    """The comparison of two arms by one measure."""
    return only(
        compare_pairs({"m": np.array([a, b], dtype=float)}, ["a", "b"], **{**OPTIONS, **options})
    )


def numbers(row):
    return [row.difference, row.low, row.high, row.p, row.p_better, row.wins, row.losses]


class TestMeans:
    def test_leave_out_what_is_not_defined(self):
        values = np.array([[0.2, NAN, 0.4, 0.9, 0.1, 0.9], [1.0, 0.0, NAN, 0.5, 1.0, 0.0]])
        mean, low, high = bootstrap_means(values, **OPTIONS)
        assert mean == pytest.approx([0.5, 0.5])
        assert (low < mean).all()
        assert (mean < high).all()
        assert low.min() >= 0
        assert high.max() <= 1

    def test_without_values_are_not_defined(self):
        values = np.array([[NAN] * 5, [0.3] * 4 + [NAN], [0.3] * 5])
        mean, low, high = bootstrap_means(values, **OPTIONS)
        np.testing.assert_array_equal(mean, [NAN, 0.3, 0.3])
        np.testing.assert_allclose([low, high], [[NAN, NAN, 0.3]] * 2)

    def test_of_no_queries_are_not_defined(self):
        assert np.isnan(bootstrap_means(np.empty((2, 0)), **OPTIONS)).all()

    @pytest.mark.parametrize("queries", [6, 60])
    def test_intervals_are_scipys_percentiles_at_student_s_tail(self, queries):
        values = metrics(2, queries)
        quantile = stats.t.ppf(0.95, queries - 1) * np.sqrt(queries / (queries - 1))
        authority = stats.bootstrap(
            (values,),
            np.mean,
            axis=1,
            confidence_level=1 - 2 * stats.norm.cdf(-quantile),
            n_resamples=20_000,
            method="percentile",
            rng=np.random.default_rng(1),
        )
        _, low, high = bootstrap_means(values, resamples=20_000, confidence=0.9, seed=0)
        tolerance = 0.03 * (high - low).min()
        np.testing.assert_allclose(low, authority.confidence_interval.low, atol=tolerance)
        np.testing.assert_allclose(high, authority.confidence_interval.high, atol=tolerance)

    def test_few_values_among_many_queries_have_the_interval_of_few(self):
        few = metrics(1, 20)
        many = np.concatenate([few, np.full((1, 180), NAN)], axis=1)
        widths = [
            np.subtract(*bootstrap_means(v, resamples=5000, confidence=0.9, seed=0)[:0:-1])
            for v in (few, many)
        ]
        assert widths[1] == pytest.approx(widths[0], rel=0.1)

    def test_chunks_change_nothing(self, monkeypatch):
        values = metrics(3, 50)
        whole = bootstrap_means(values, **OPTIONS), p_of(values - 0.5, resamples=999, seed=0)
        monkeypatch.setattr("zelo_ray.evaluation.resampling.CHUNK_CELLS", 400)
        split = bootstrap_means(values, **OPTIONS), p_of(values - 0.5, resamples=999, seed=0)
        np.testing.assert_allclose(split[0], whole[0])
        np.testing.assert_allclose(split[1], whole[1])

    def test_many_pairs_do_not_fill_the_memory(self, monkeypatch):
        monkeypatch.setattr("zelo_ray.evaluation.resampling.CHUNK_CELLS", 2**16)
        monkeypatch.setattr("zelo_ray.evaluation.bootstrap.ALONE_CELLS", 2**16)
        values = metrics(1000, 20)
        tracemalloc.start()
        bootstrap_means(values, resamples=800, confidence=0.9, seed=0)
        p_of(values - 0.5, resamples=800, seed=0)
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert peak < 4e6  # a table of pairs by samples alone is 6.4 MB


class TestRandomisation:
    def test_runs_through_all_signs_of_few_differences(self):
        # Of 8 sign sets, the means of +++ and --- are the only ones as far out.
        assert p_of(np.array([[0.1, 0.2, 0.3]]), resamples=1, seed=0) == pytest.approx([0.25])
        # |sum| is 0.2 as found, and 0.4, 0.2, 0 twice each under the others: 0.4 0.4 0.2 0.2
        p = p_of(np.array([[0.3, -0.1, 0.0, NAN]]), resamples=1, seed=0)
        assert p == pytest.approx([1.0])

    def test_counts_signs_that_are_as_far_but_for_rounding(self):
        # 0.1 + 0.2 - 0.3 is 5.6e-17: all sign sets are counted where the mean found is 0.
        assert p_of(np.array([[0.1, 0.2, -0.3]]), resamples=1, seed=0) == pytest.approx([1.0])

    @pytest.mark.parametrize("count", [2, 5, 10, 13])
    def test_is_exact_as_scipys(self, count):
        values = metrics(2, count, seed=count)
        authority = stats.permutation_test(
            tuple(values),
            lambda a, b, axis: np.mean(a - b, axis=axis),
            permutation_type="samples",
            vectorized=True,
            n_resamples=np.inf,
        )
        p = p_of(values[:1] - values[1:], resamples=1, seed=0)
        assert p == pytest.approx([authority.pvalue])

    def test_is_as_scipys_where_signs_are_drawn(self):
        values = metrics(2, 60, seed=3)
        authority = stats.permutation_test(
            tuple(values),
            lambda a, b, axis: np.mean(a - b, axis=axis),
            permutation_type="samples",
            vectorized=True,
            n_resamples=20_000,
            rng=np.random.default_rng(1),
        )
        p = p_of(values[:1] - values[1:], resamples=20_000, seed=0)
        assert 0.05 < authority.pvalue < 0.95
        assert p == pytest.approx([authority.pvalue], abs=0.02)

    def test_signs_drawn_agree_with_all_signs(self, monkeypatch):
        differences = np.subtract(*metrics(2, 14, seed=5))[np.newaxis]
        exact = p_of(differences, resamples=1, seed=0)
        monkeypatch.setattr("zelo_ray.evaluation.randomisation.EXACT", 0)
        drawn = p_of(differences, resamples=20_000, seed=0)
        assert 0.02 < exact[0] < 0.98
        assert drawn == pytest.approx(exact, abs=0.02)

    def test_is_never_0(self):
        assert p_of(np.full((1, 40), 0.1), resamples=99, seed=0) == pytest.approx([0.01])


class TestProven:
    @pytest.mark.parametrize("count", [1, 2, 3, 8, 15])
    def test_no_p_exceeds_the_bound(self, count):
        values = np.random.default_rng(count).normal(0.5, 1, (40, count))
        values[0] = 1.0  # all alike, which comes nearest to it
        p = p_of(values, resamples=1, seed=0)
        assert (p <= p_value_bound(PairedRows(values)) + TIE).all()

    def test_by_hand(self):
        sure = p_value_bound(
            PairedRows(np.array([[0.5] * 25, [0.0] * 25, [0.1, -0.1] + [NAN] * 23]))
        )
        assert sure == pytest.approx([2 * 3.1787 * 2.8665e-7, 1.0, 1.0], rel=1e-4)


class TestManyTests:
    """Of more tests than draws are made for, the bound tells what is clear."""

    values = metrics(12, 60) + np.array([[0.0] * 60] * 11 + [[0.3] * 60])

    def told(self):
        rows = compare_pairs({"m": self.values, "n": self.values**2}, [*"abcdefghijkl"], **OPTIONS)
        return {(r.run_a, r.run_b, r.measure): r for r in rows}

    def test_draws_and_the_bound_tell_the_same_apart(self, monkeypatch):
        drawn = self.told()
        monkeypatch.setattr("zelo_ray.evaluation.randomisation.MOST_SIGNS", 0)
        bound = self.told()
        clear = [key for key in drawn if "l" in key]
        assert len(clear) == 22
        assert all(found[key].p_holm < 0.001 for key in clear for found in (drawn, bound))
        for key in set(drawn) - set(clear):
            assert bound[key].p >= 1 / 2001
            assert (drawn[key].p_holm < 0.05) == (bound[key].p_holm < 0.05)

    def test_clear_ones_have_the_bound_and_others_draws(self):
        rows = PairedRows(np.stack([np.full(60, 0.1), metrics(1, 60, seed=4)[0] - 0.5]))
        p = randomisation_test_for_many(rows, tests=200, resamples=1000, seed=0)
        assert p[0] == pytest.approx(p_value_bound(rows)[0])
        assert p[0] < 1e-12
        assert p[1] == p_of(rows.values(slice(1, 2)), resamples=1000, seed=0)[0]


class TestRows:
    """Sums of differences, by subtraction and row by row."""

    pairs = np.array([(0, 1), (0, 2), (1, 2)])

    @pytest.mark.parametrize("lost", [0, 3, 40])
    def test_sums_and_counts_are_those_of_the_differences(self, lost):
        rng = np.random.default_rng(lost)
        tables = [rng.random((3, 30)), rng.random((3, 30))]
        tables[0].ravel()[rng.choice(90, lost, replace=False)] = NAN
        tables[1][:, :4] = NAN  # of all arms
        rows = PairedRows.of_pairs(tables, self.pairs)
        apart = np.concatenate([t[self.pairs[:, 0]] - t[self.pairs[:, 1]] for t in tables])
        weights = rng.random((5, 30))
        under, part = rows.apply_weights(weights, counted=True), slice(1, 5)
        np.testing.assert_array_equal(rows.values(part), apart[part])
        np.testing.assert_allclose(rows.sums(part, under), np.nan_to_num(apart)[part] @ weights.T)
        np.testing.assert_allclose(rows.counts(part, under), ~np.isnan(apart)[part] @ weights.T)
        some = rows.take(np.array([4, 0]))
        np.testing.assert_allclose(
            some.sums(slice(0, 2), under), np.nan_to_num(apart)[[4, 0]] @ weights.T
        )


class TestHolm:
    def test_by_hand(self):
        adjusted = holm(np.array([0.01, 0.04, 0.03, 0.005]))
        assert adjusted == pytest.approx([0.03, 0.06, 0.06, 0.02])

    def test_stays_at_most_1(self):
        assert holm(np.array([0.9, 0.4, 0.7])) == pytest.approx([1.0, 1.0, 1.0])

    def test_of_one_test_and_of_none(self):
        assert holm(np.array([0.2])) == pytest.approx([0.2])
        assert holm(np.array([])).size == 0

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

    def test_p_better_is_that_of_students_t(self):
        a, b = metrics(2, 12)
        authority = stats.ttest_rel(a, b, alternative="greater").pvalue
        assert pair(a, b).p_better == pytest.approx(1 - authority)

    def test_few_queries_tell_too_little(self):
        row = pair([0.4, 0.5, 0.6, 0.9], [0.3, 0.1, 0.2, 0.1])
        assert np.isnan([row.low, row.high, row.p_better]).all()
        assert row.p == 0.125

    def test_the_interval_is_that_of_the_differences(self):
        a, b = metrics(2, 30)
        row = pair(a, b)
        _, low, high = bootstrap_means((a - b)[np.newaxis], **OPTIONS)
        assert (row.low, row.high) == (pytest.approx(low[0]), pytest.approx(high[0]))

    @pytest.mark.parametrize("noise", [0.0, 1e-16])
    def test_equal_arms(self, noise):
        a = metrics(1, 30)[0]
        row = pair(a, a + noise)
        assert numbers(row) == [0.0, 0.0, 0.0, 1.0, 0.5, 0, 0]
        assert row.ties == 30

    def test_a_clear_winner(self):
        row = pair(metrics(1, 40)[0] + 0.1, metrics(1, 40)[0])
        assert row.low == pytest.approx(0.1)
        assert row.p_better == 1.0
        assert row.p == pytest.approx(1 / 2001)

    @pytest.mark.parametrize("b", [[NAN, NAN, 0.5], [NAN, 0.5, 0.7]])
    def test_too_few_common_queries(self, b):
        row = pair([0.1, 0.9, NAN], b)
        assert row.queries == int(b[1] == 0.5)
        assert row.difference == pytest.approx(0.4 if row.queries else NAN, nan_ok=True)
        assert np.isnan([row.low, row.high, row.p_better]).all()
        assert row.p == row.p_holm == 1.0

    def test_swapped_arms_mirror_the_result(self):
        a, b = metrics(2, 35, seed=2)
        ab, ba = pair(a, b), pair(b, a)
        assert (ba.difference, ba.low, ba.high) == pytest.approx(
            (-ab.difference, -ab.high, -ab.low)
        )
        assert (ba.wins, ba.losses, ba.p) == (ab.losses, ab.wins, pytest.approx(ab.p))
        assert ba.p_better == pytest.approx(1 - ab.p_better)

    def test_other_arms_and_measures_do_not_matter(self):
        values = metrics(6, 40)
        alone = pair(values[1], values[4])
        rows = compare_pairs({"x": values * 0.5, "m": values}, [*"zayxbw"], **OPTIONS)
        found = only(r for r in rows if (r.run_a, r.run_b, r.measure) == ("a", "b", "m"))
        assert numbers(found) == pytest.approx(numbers(alone))
        assert found.p_holm > alone.p_holm

    def test_the_seed_decides(self):
        a, b = metrics(2, 40, seed=1)
        assert numbers(pair(a, b)) == numbers(pair(a, b))
        assert pair(a, b).low != pair(a, b, seed=-1).low


def by_measure(drawn):
    """Draws of the labels, as a bake-off makes them: one after the other."""
    return ({"m": draw} for draw in drawn)


class TestLabelUncertainty:
    values = np.array([[0.6, 0.7, 0.8, 0.4, 0.9, 0.7], [0.5, 0.6, 0.8, 0.3, 0.7, 0.8]])

    def p_labels(self, deviation, draws=300):
        noise = np.random.default_rng(0).normal(0, 1, (draws, *self.values.shape))
        drawn = self.values + deviation * noise
        return pair(*self.values, drawn=by_measure(drawn)).p_labels

    def test_moves_p_labels_to_a_half(self):
        shares = [self.p_labels(deviation) for deviation in (0.0, 0.2, 1.0, 100.0)]
        assert shares == sorted(shares, reverse=True)
        assert shares[0] == 1.0
        assert shares[-1] == pytest.approx(0.5, abs=0.1)

    def test_leaves_all_else_as_it_was(self):
        drawn = by_measure(np.random.default_rng(0).random((9, *self.values.shape)))
        with_draws, without = pair(*self.values, drawn=drawn), pair(*self.values)
        assert np.isnan(without.p_labels)
        assert numbers(with_draws) == numbers(without)

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

    def test_follow_from_the_seed(self):
        draws = [np.stack([*label_draws(np.zeros(5), np.ones(5), 3, s)]) for s in (7, 7, 8)]
        np.testing.assert_array_equal(draws[0], draws[1])
        assert (draws[0] != draws[2]).all()


class TestContest:
    def test_counts_a_missing_answer_in_means_and_leaves_it_out_of_comparisons(self):
        values = {"m": np.array([[0.8, 0.6, 0.0, 0.4], [0.5, 0.5, 0.5, 0.5]])}
        answered = np.array([[True, True, False, True], [True] * 4])
        averages, comparisons = evaluate_rankers(values, answered, ["a", "b"], **OPTIONS)
        assert [(m.run, m.measure, m.queries) for m in averages] == [("a", "m", 4), ("b", "m", 4)]
        assert [m.mean for m in averages] == pytest.approx([0.45, 0.5])
        row = only(comparisons)
        assert (row.mean_a, row.queries, row.wins, row.losses) == (pytest.approx(0.6), 3, 2, 1)

    def test_a_measure_that_is_not_defined_for_a_query(self):
        values = {"m": np.array([[0.8, NAN, 0.4]]), "n": np.array([[0.1, 0.2, 0.3]])}
        averages, comparisons = evaluate_rankers(
            values, np.ones((1, 3), dtype=bool), ["a"], **OPTIONS
        )
        assert [(m.measure, m.queries) for m in averages] == [("m", 2), ("n", 3)]
        assert averages[0].mean == pytest.approx(0.6)
        assert comparisons == []

    def test_rows_come_in_order_and_p_is_corrected_over_all(self):
        values = {"m": metrics(3, 12, seed=1), "n": metrics(3, 12, seed=2)}
        averages, rows = evaluate_rankers(values, np.ones((3, 12), dtype=bool), [*"cab"], **OPTIONS)
        assert [(m.measure, m.run) for m in averages] == [*product("mn", "cab")]
        pairs = [("c", "a"), ("c", "b"), ("a", "b")]
        assert [(r.measure, (r.run_a, r.run_b)) for r in rows] == [*product("mn", pairs)]
        assert [r.p_holm for r in rows] == pytest.approx(holm(np.array([r.p for r in rows])))
        assert [r.difference for r in rows] == pytest.approx([r.mean_a - r.mean_b for r in rows])


def test_a_measure_of_the_labels_has_means_alone():
    values = {name: metrics(2, 9) for name in ("nDCG@10", "Judged@10")}
    found = evaluate_rankers(
        values, np.ones((2, 9), bool), [*"ab"], **OPTIONS, uncompared={"Judged@10"}
    )
    averages, comparisons = found
    assert {mean.measure for mean in averages} == {"nDCG@10", "Judged@10"}
    assert {row.measure for row in comparisons} == {"nDCG@10"}


def test_measures_that_cannot_tell_arms_apart_cost_the_others_nothing():
    rng = np.random.default_rng(3)
    values = {"nDCG@10": rng.random((3, 40)), "Judged@10": np.ones((3, 40))}
    alone = evaluate_rankers(
        {"nDCG@10": values["nDCG@10"]}, np.ones((3, 40), bool), list("abc"), **OPTIONS
    )
    both = evaluate_rankers(values, np.ones((3, 40), bool), list("abc"), **OPTIONS)
    corrected = [[c.p_holm for c in found if c.measure == "nDCG@10"] for _, found in (alone, both)]
    assert corrected[0] == corrected[1]
    assert {c.p_holm for c in both[1] if c.measure == "Judged@10"} == {1.0}
