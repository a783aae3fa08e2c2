"""Agreement of leaderboards, against definitions written out and against scipy."""

from itertools import pairwise, permutations

import numpy as np
import pyarrow.parquet as pq
import pytest
from scipy.stats import kendalltau

from tests.builders import agreement_of
from zelo_ray.evaluation.systems import discordant, estimate_taus, tau_ap, tau_b


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
    if len(set(truth)) == 1 or len(set(estimate)) == 1:
        return np.nan
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
    assert np.isnan([tau_ap(np.arange(3.0), np.ones(3)), tau_ap(np.ones(3), np.arange(3.0))]).all()
    assert tau_ap(np.ones((0, 3)), np.ones((0, 3))).shape == (0,)


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
    for found, tau in zip(estimate_taus(truth, labels), (tau_b, tau_ap), strict=True):
        assert found.value == pytest.approx(float(tau(*means)))
        assert -1 <= found.low <= found.value <= found.high <= 1
        assert found.queries == 40
    assert np.isnan(estimate_taus(truth[:, :4], labels[:, :4])[0].low)


def test_dl19_leaderboards(tmp_path, published):
    folder = published / "trec_dl19"
    judges = [folder / f"judges/{name}_graded.txt" for name in ("gpt-4_umbrela", "gpt-4o_umbrela")]
    words = [*judges, "--human", folder / "qrels.txt", "--coefficients", "kappa"]
    words += ["--thresholds", 2, "--out", tmp_path]
    words += ["--runs", *sorted((folder / "runs_top10").glob("*.run"))]
    told = agreement_of(*words)
    boards = {}
    for row in pq.read_table(tmp_path / "leaderboards.parquet").to_pylist():
        boards.setdefault(row["rater"], {})[row["run"]] = row["mean"]
    assert round(boards["human"]["idst_bert_p1"], 4) == 0.7645
    orders = {r["rater_b"]: r for r in pq.read_table(tmp_path / "systems.parquet").to_pylist()}
    assert list(orders) == ["gpt-4_umbrela_graded", "gpt-4o_umbrela_graded", "all judges"]
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
        assert (order["told"], order["items"]) == (269, 9260)
        assert order["tau_b_low"] < order["tau_b"] < order["tau_b_high"]
    assert round(orders["gpt-4o_umbrela_graded"]["tau_b"], 3) == 0.916
    rows = told.report.table("systems").rows
    assert rows[0][1].value == max(order["tau_b"] for order in orders.values())


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
    words = [*tmp_path.glob("*.qrels"), "--runs", *tmp_path.glob("*.run"), "--out", tmp_path / "o"]
    agreement_of(*words)
    placed = pq.read_table(tmp_path / "o/leaderboards.parquet").to_pylist()
    orders = pq.read_table(tmp_path / "o/systems.parquet").to_pylist()
    ranks = {(row["rater"], row["run"]): row["rank"] for row in placed}
    assert {run: ranks["all judges", run] for run in ("good", "fair", "bad")} == {
        "good": 1,
        "fair": 2,
        "bad": 3,
    }
    tau = {row["rater_b"]: row["tau_b"] for row in orders}
    assert {row["rater_a"] for row in orders} == {"others"}
    # of "one" the others are its like and its contrary, so that they have no order
    assert np.isnan([tau["one"], tau["two"]]).all()
    assert tau["upside-down"] == pytest.approx(-1)
    (row,) = (row for row in orders if row["rater_b"] == "upside-down")
    assert row["told"] == row["apart"] > 0


def write_grades(path, grades):
    """Qrels of documents d0, d1 ..., the same for each of eight queries."""
    lines = [f"q{q} 0 d{d} {grade}\n" for q in range(8) for d, grade in grades.items()]
    path.write_text("".join(lines))
    return path


def write_run(path, order):
    lines = [f"q{q} Q0 d{d} 0 {-i} {path.stem}\n" for q in range(8) for i, d in enumerate(order)]
    path.write_text("".join(lines))
    return path


def tell(out, *words):
    """Run ``agree``: what it told, and systems.parquet by rater B."""
    told = agreement_of(*words, "--out", out)
    return told, {r["rater_b"]: r for r in pq.read_table(out / "systems.parquet").to_pylist()}


def test_a_judge_of_a_part_is_measured_on_that_part(tmp_path):
    human = dict(enumerate([3, 2, 1, 0, 3, 2, 1, 0]))
    part = {d: human[d] for d in range(4)}  # grades as people do, but half of the documents
    runs = [
        write_run(tmp_path / "one.run", [4, 5, 0, 1, 2, 6, 3, 7]),
        write_run(tmp_path / "two.run", [1, 0, 2, 3, 7, 6, 5, 4]),
        write_run(tmp_path / "three.run", [7, 3, 6, 2, 5, 1, 4, 0]),
    ]
    judges = [write_grades(tmp_path / "part.txt", part), write_grades(tmp_path / "all.txt", human)]
    people = ("--human", write_grades(tmp_path / "human.qrels", human))
    told, orders = tell(tmp_path / "out", *judges, *people, "--runs", *runs)
    assert (orders["part"]["items"], orders["all"]["items"]) == (32, 64)
    assert orders["part"]["tau_b"] == orders["all"]["tau_b"] == 1
    assert not told.complete
    assert told.report.notes[0].startswith("part graded 32 of the 64 documents that human ")


def test_without_people_no_judge_meets_itself(tmp_path):
    grades = {"one": [3, 2, 1, 0], "two": [2, 3, 0, 1]}
    judges = [write_grades(tmp_path / f"{n}.txt", dict(enumerate(g))) for n, g in grades.items()]
    orders = ([0, 1, 2, 3], [1, 0, 3, 2], [3, 2, 1, 0])
    runs = [write_run(tmp_path / f"run{i}.run", order) for i, order in enumerate(orders)]
    told, found = tell(tmp_path / "out", *judges, "--runs", *runs)
    assert {b: row["rater_a"] for b, row in found.items()} == {"one": "two", "two": "one"}
    assert found["one"]["tau_b"] == pytest.approx(1 / 3)
    assert {row[0].text for row in told.report.table("systems").rows} == {"one", "two"}
    third = write_grades(tmp_path / "three.txt", {0: 0, 1: 1, 2: 2, 3: 3})
    _, found = tell(tmp_path / "three", *judges, third, "--runs", *runs)
    assert {row["rater_a"] for row in found.values()} == {"others"}
    assert found["three"]["tau_b"] < 0


def test_no_samples_and_no_order(tmp_path):
    human = write_grades(tmp_path / "human.qrels", dict(enumerate([3, 2, 1, 0])))
    flat = write_grades(tmp_path / "flat.txt", dict.fromkeys(range(4), 1))
    orders = ([0, 1, 2, 3], [2, 3, 0, 1])
    runs = [write_run(tmp_path / f"{i}.run", order) for i, order in enumerate(orders)]
    words = [flat, "--human", human, "--runs", *runs]
    told, found = tell(tmp_path / "out", *words)
    assert np.isnan([found["flat"][name] for name in ("tau_b", "tau_ap", "tau_ap_low")]).all()
    assert (found["flat"]["told"], found["flat"]["apart"]) == (1, 0)
    for row in told.report.table("systems").rows:
        assert row[3:5] == ["0 of 1", "0 of 1"]
