"""Agreement of leaderboards, against definitions written out and against scipy."""

import argparse
from itertools import pairwise, permutations
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest
from scipy.stats import kendalltau

from zelo_ray import agree
from zelo_ray.agreement.systems import discordant, tau_ap, tau_b, tau_interval

DATA = Path(__file__).parents[2] / "shared/data"
needs_data = pytest.mark.skipif(not DATA.exists(), reason=f"{DATA} is not there")


def plain_tau_ap(truth, order):
    """Equation 5 of the paper for one order of the estimate; half for a pair tied in the truth."""
    share = 0.0
    for i in range(1, len(order)):
        gaps = [truth[order[j]] - truth[order[i]] for j in range(i)]
        share += sum(1.0 if gap > 0 else 0.5 if gap == 0 else 0.0 for gap in gaps) / i
    return 2 * share / (len(order) - 1) - 1


def mean_tau_ap(truth, estimate):
    """The mean over all orders of systems tied in the estimate."""
    orders = [
        order
        for order in permutations(range(len(truth)))
        if all(estimate[a] >= estimate[b] for a, b in pairwise(order))
    ]
    return np.mean([plain_tau_ap(truth, order) for order in orders])


@pytest.mark.parametrize("levels", [2, 3, 100])
def test_tau_ap_is_the_mean_over_orders_of_ties(levels):
    rng = np.random.default_rng(levels)
    truths, estimates = rng.integers(0, levels, (2, 60, 6)).astype(float)
    expected = [mean_tau_ap(*pair) for pair in zip(truths, estimates, strict=True)]
    np.testing.assert_allclose(tau_ap(truths, estimates), expected, atol=1e-12)


def test_tau_ap_weighs_the_top_of_the_estimate():
    truth = np.arange(5.0)[::-1]
    assert tau_ap(truth, truth) == pytest.approx(1)
    assert tau_ap(truth, -truth) == pytest.approx(-1)
    top, bottom = truth[[1, 0, 2, 3, 4]], truth[[0, 1, 2, 4, 3]]
    # One pair of ten is wrong: of four chances 1 / 1, or 1 / 4, is lost.
    assert tau_ap(truth, top) == pytest.approx(1 - 2 / 4)
    assert tau_ap(truth, bottom) == pytest.approx(1 - 2 / 4 / 4)
    assert tau_b(truth, top) == tau_b(truth, bottom) == pytest.approx(0.8)
    one, other = truth, truth[[2, 0, 1, 3, 4]]
    assert tau_ap(one, other) != pytest.approx(tau_ap(other, one))


def test_one_system_has_no_order():
    assert np.isnan(tau_ap(np.ones((3, 1)), np.ones((3, 1)))).all()
    assert np.isnan(tau_b(np.ones(1), np.ones(1)))
    assert np.isnan(tau_b(np.arange(3.0), np.ones(3)))
    assert tau_ap(np.arange(3.0), np.ones(3)) == pytest.approx(
        0
    )  # an estimate without an order is chance


@pytest.mark.parametrize("levels", [3, 1000])
def test_tau_b_is_scipys(levels):
    rng = np.random.default_rng(levels)
    one, other = rng.integers(0, levels, (2, 50, 12)) / 7
    expected = [kendalltau(a, b).statistic for a, b in zip(one, other, strict=True)]
    np.testing.assert_allclose(tau_b(one, other), expected, atol=1e-12)


def test_many_draws_are_taken_in_parts(monkeypatch):
    rng = np.random.default_rng(0)
    one, other = rng.normal(size=(2, 4, 5, 9))
    whole = tau_ap(one, other)
    monkeypatch.setattr("zelo_ray.agreement.systems._CELLS", 200)
    np.testing.assert_array_equal(tau_ap(one, other), whole)
    assert whole.shape == (4, 5)
    np.testing.assert_array_equal(tau_ap(one[0, 0], other), tau_ap(one[:1, :1], other)[:, :])


def test_discordant_pairs():
    one, other = np.array([3.0, 2, 1, 1]), np.array([3.0, 1, 2, 2 + 1e-15])
    assert discordant(one, other).tolist() == [False, False, False, True, True, False]


def test_an_interval_lies_around_its_tau():
    rng = np.random.default_rng(0)
    sampled = rng.normal(0.7, 0.05, 1000)
    low, high = tau_interval(0.9, sampled, 40)
    assert (low, high) == pytest.approx((0.8, 1.0), abs=0.02)
    assert tau_interval(0.99, sampled, 40)[1] == 1
    assert np.isnan(tau_interval(0.9, sampled, 4)).all()


@needs_data
def test_dl19_leaderboards(tmp_path):
    folder = DATA / "trec_dl19"
    judges = [folder / f"judges/{name}_graded.txt" for name in ("gpt-4_umbrela", "gpt-4o_umbrela")]
    words = [*judges, "--human", folder / "qrels.txt", "--coefficients", "kappa"]
    words += ["--thresholds", 2, "--resamples", 200, "--out", tmp_path]
    words += ["--runs", *sorted((folder / "runs_top10").glob("*.run"))]
    parser = argparse.ArgumentParser()
    agree.add_arguments(parser)
    told = agree.run(vars(parser.parse_args([str(word) for word in words])))
    boards = {}
    for row in pq.read_table(tmp_path / "leaderboards.parquet").to_pylist():
        boards.setdefault(row["rater"], {})[row["run"]] = row["mean"]
    assert round(boards["human"]["idst_bert_p1"], 4) == 0.7645
    orders = {r["rater_b"]: r for r in pq.read_table(tmp_path / "systems.parquet").to_pylist()}
    assert list(orders) == ["gpt-4_umbrela_graded", "gpt-4o_umbrela_graded", "panel"]
    for rater, order in orders.items():
        assert (order["rater_a"], order["runs"], order["queries"]) == ("human", 37, 43)
        names = list(boards["human"])
        truth, judged = (np.array([boards[r][n] for n in names]) for r in ("human", rater))
        assert order["tau_b"] == pytest.approx(kendalltau(truth, judged).statistic)
        ranked = np.argsort(-judged)
        assert len(set(judged)) == len(judged)
        assert order["tau_ap"] == pytest.approx(plain_tau_ap(truth, ranked))
        assert order["discordant"] == sum(
            (truth[i] - truth[j]) * (judged[i] - judged[j]) < 0 for i in range(37) for j in range(i)
        )
        assert order["apart"] <= order["discordant"] < order["pairs"] == 666
        assert order["tau_b_low"] < order["tau_b"] < order["tau_b_high"]
    assert round(orders["gpt-4o_umbrela_graded"]["tau_b"], 3) == 0.916
    assert "37 runs by nDCG@10" in told.text


def test_leaderboards_without_people(tmp_path):
    rng = np.random.default_rng(0)
    for judge, wrong in (("one", 0), ("two", 0), ("upside-down", 3)):
        lines = [f"q{q} 0 d{d} {abs(wrong - d % 4)}\n" for q in range(8) for d in range(8)]
        (tmp_path / f"{judge}.qrels").write_text("".join(lines))
    for name, noise in (("good", 0.1), ("fair", 3.0), ("bad", 90.0)):
        lines = [
            f"q{q} Q0 d{d} 0 {d % 4 + noise * rng.normal()} {name}\n"
            for q in range(8)
            for d in range(8)
        ]
        (tmp_path / f"{name}.run").write_text("".join(lines))
    parser = argparse.ArgumentParser()
    agree.add_arguments(parser)
    words = [*tmp_path.glob("*.qrels"), "--runs", *tmp_path.glob("*.run"), "--out", tmp_path / "o"]
    agree.run(vars(parser.parse_args([str(word) for word in words])))
    placed = pq.read_table(tmp_path / "o/leaderboards.parquet").to_pylist()
    orders = pq.read_table(tmp_path / "o/systems.parquet").to_pylist()
    ranks = {(row["rater"], row["run"]): row["rank"] for row in placed}
    assert {run: ranks["panel", run] for run in ("good", "fair", "bad")} == {
        "good": 1,
        "fair": 2,
        "bad": 3,
    }
    tau = {row["rater_b"]: row["tau_b"] for row in orders}
    assert {row["rater_a"] for row in orders} == {"panel"}
    assert (tau["one"], tau["two"], tau["upside-down"]) == pytest.approx((1, 1, -1))
    assert {row["apart"] > 0 for row in orders if row["rater_b"] == "upside-down"} == {True}
