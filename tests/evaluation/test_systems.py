"""Agreement of leaderboards, against definitions written out and against scipy."""

from itertools import pairwise, permutations

import numpy as np
import pytest
from scipy.stats import kendalltau

from tests.helpers.builders import agreement_of
from zelo_ray.commands.agree.orders import OPPOSITE, OPPOSITE_SIGNIFICANT
from zelo_ray.evaluation.systems import discordant, estimate_tau, tau_ap, tau_b


def plain_tau_ap(truth, order):
    """Equation 5 of the paper for one order of the estimate; half for a pair tied in the truth."""
    share = 0.0
    for i in range(1, len(order)):
        gaps = [truth[order[j]] - truth[order[i]] for j in range(i)]
        share += sum(1.0 if gap > 0 else 0.5 if gap == 0 else 0.0 for gap in gaps) / i
    return 2 * share / (len(order) - 1) - 1


def mean_tau_ap(truth, estimate):
    """The mean over all orders of systems tied in the estimate."""
    orders = permutations(range(len(truth)))
    fitting = [o for o in orders if all(estimate[a] >= estimate[b] for a, b in pairwise(o))]
    if len(set(truth)) == 1 or len(set(estimate)) == 1:
        return np.nan
    return np.mean([plain_tau_ap(truth, order) for order in fitting])


@pytest.mark.parametrize("levels", [2, 3, 100])
def test_tau_ap_is_the_mean_over_orders_of_ties(levels):
    rng = np.random.default_rng(levels)
    truths, estimates = rng.integers(0, levels, (2, 60, 6)).astype(float)
    expected = [mean_tau_ap(*pair) for pair in zip(truths, estimates, strict=True)]
    np.testing.assert_allclose(tau_ap(truths, estimates), expected, atol=1e-12)


def test_tau_ap_weighs_the_top_of_the_estimate():
    truth = np.arange(5.0)[::-1]
    top, bottom = truth[[1, 0, 2, 3, 4]], truth[[0, 1, 2, 4, 3]]
    # One pair of ten is wrong: of four chances 1 / 1, or 1 / 4, is lost.
    assert tau_ap(truth, np.stack([truth, -truth, top, bottom])) == pytest.approx(
        [1, -1, 0.5, 0.875]
    )
    assert tau_b(truth, top) == tau_b(truth, bottom) == pytest.approx(0.8)
    other = truth[[2, 0, 1, 3, 4]]
    assert tau_ap(truth, other) != pytest.approx(tau_ap(other, truth))


@pytest.mark.parametrize("levels", [3, 1000])
def test_tau_b_is_scipys(levels):
    rng = np.random.default_rng(levels)
    one, other = rng.integers(0, levels, (2, 50, 12)) / 7
    expected = [kendalltau(a, b).statistic for a, b in zip(one, other, strict=True)]
    np.testing.assert_allclose(tau_b(one, other), expected, atol=1e-12)


def test_discordant_pairs():
    one, other = np.array([3.0, 2, 1, 1]), np.array([3.0, 1, 2, 2 + 1e-15])
    assert discordant(one, other).tolist() == [False, False, False, True, True, False]


@pytest.mark.parametrize("noise", [0.0, 0.3, 2.0])
def test_an_interval_holds_its_tau_and_stays_within_1(noise):
    rng = np.random.default_rng(0)
    truth = np.linspace(0, 1, 8)[:, np.newaxis] + rng.normal(0, 0.5, (8, 40))
    labels = truth + rng.normal(0, noise, truth.shape)
    means = truth.mean(axis=1), labels.mean(axis=1)
    for tau in (tau_b, tau_ap):
        found = estimate_tau(truth, labels, tau)
        assert found.value == pytest.approx(float(tau(*means)))
        assert -1 <= found.low <= found.value <= found.high <= 1
        assert found.queries == 40
    assert np.isnan(estimate_tau(truth[:, :4], labels[:, :4]).low)


def orders_of(*words):
    """Figures of the order of runs: by judge, against whom, and what."""
    results = agreement_of(*words)
    whats = ("tau-b", "tau-AP", OPPOSITE, OPPOSITE_SIGNIFICANT)
    rows = [row for row in results.figures if row["what"] in whats]
    return results, {(row["of"], row["against"], row["what"]): row for row in rows}


def test_dl19_leaderboards(published):
    folder = published / "trec_dl19"
    judges = [folder / f"judges/{name}_graded.txt" for name in ("gpt-4_umbrela", "gpt-4o_umbrela")]
    words = [*judges, "--human", folder / "qrels.txt", "--coefficients", "kappa"]
    words += ["--thresholds", 2, "--runs", *sorted((folder / "runs_top10").glob("*.run"))]
    results, orders = orders_of(*words)
    means = {}
    for row in results.figures:
        if row["scale"] == "mean by labels":
            means.setdefault(row["against"], {})[row["of"]] = row["value"]
    assert round(means["human"]["idst_bert_p1"], 4) == 0.7645
    for judge in ("gpt-4_umbrela_graded", "gpt-4o_umbrela_graded", "all judges"):
        truth, judged = (np.array([means[r][n] for n in means["human"]]) for r in ("human", judge))
        tau, ap, turned, _ = (
            row for (of, against, _), row in orders.items() if (of, against) == (judge, "human")
        )
        assert (tau["items"], tau["queries"], turned["items"]) == (37, 43, 666)
        assert tau["value"] == pytest.approx(kendalltau(truth, judged).statistic)
        assert tau["low"] < tau["value"] < tau["high"]
        assert len(set(judged)) == len(judged)
        assert ap["value"] == pytest.approx(plain_tau_ap(truth, np.argsort(-judged)))
        assert turned["value"] * 666 == pytest.approx(discordant(truth, judged).sum())
    assert round(orders["gpt-4o_umbrela_graded", "human", "tau-b"]["value"], 3) == 0.916


def write_grades(path, grades):
    """Qrels of documents d0, d1 ..., the same for each of eight queries."""
    lines = [f"q{q} 0 d{d} {grade}\n" for q in range(8) for d, grade in enumerate(grades)]
    path.write_text("".join(lines))
    return path


def write_run(path, order):
    lines = [f"q{q} Q0 d{d} 0 {-i} {path.stem}\n" for q in range(8) for i, d in enumerate(order)]
    path.write_text("".join(lines))
    return path


@pytest.fixture
def runs(tmp_path):
    orders = {"best": [0, 1, 2, 3], "fair": [1, 0, 3, 2], "worst": [3, 2, 1, 0]}
    return [write_run(tmp_path / f"{name}.run", order) for name, order in orders.items()]


def test_a_judge_is_measured_by_the_documents_that_both_graded(tmp_path, runs):
    human = write_grades(tmp_path / "human.qrels", [3, 2, 1, 0, 3, 2])
    judges = [write_grades(tmp_path / f"{n}.txt", [3, 2, 1, 0, 3, 2][:n]) for n in (4, 6)]
    judges.append(write_grades(tmp_path / "flat.txt", [1] * 4))
    results, orders = orders_of(*judges, "--human", human, "--runs", *runs)
    assert [orders[judge, "human", "tau-b"]["value"] for judge in "46"] == [1, 1]
    assert np.isnan(orders["flat", "human", "tau-b"]["value"])
    assert any("4 graded 32 of the 48 documents" in text for text in results.record["missing"])
    assert not any("no document in common" in text for text in results.record["missing"])
