"""What a bake-off comes to, from runs and a truth, without asking anybody."""

import math
from dataclasses import replace

import numpy as np
import pytest

import zelo_ray.commands.bakeoff.measure as measuring
from tests.helpers.builders import judge_of, reply_to
from tests.helpers.contests import qrels_of, run_of
from zelo_ray import bakeoff, load_run
from zelo_ray.command_options import BakeoffOptions
from zelo_ray.commands.bakeoff.gate import decide_gates
from zelo_ray.commands.bakeoff.measure import (
    DIFFICULTY,
    RELEVANT,
    compute_slices,
    measure,
    relevant_from,
)
from zelo_ray.commands.bakeoff.rank import Asked
from zelo_ray.errors import Stopped
from zelo_ray.evaluation.measures import Truth, parse_measures
from zelo_ray.evaluation.significance import Significance, significance_of, swap_rankers
from zelo_ray.options import Price
from zelo_ray.rerankers.ranking import QueryCost, sum_costs, sum_replies

QUERIES = [f"q{n}" for n in range(12)]
GRADES = {"a": 3.0, "b": 2.0, "c": 1.0, "d": 0.0}
CLOSE = {"a": 2.0, "b": 1.0, "c": 0.3, "d": 0.1}


def options_of(**fields):
    return BakeoffOptions(**{"truth": "t", "out": "o", "measures": ("nDCG@10", "R@2")} | fields)


def truth_of(std_error=math.nan, queries=QUERIES, grades=GRADES):
    return Truth(qrels_of(dict.fromkeys(queries, grades), std_error))


def all_like(order):
    return dict.fromkeys(QUERIES, order)


def scores_of(orders):
    """A run from the order of its documents for each query, such as {"q0": "abcd"}."""
    return {q: {d: -n for n, d in enumerate(order)} for q, order in orders.items()}


def measured_of(arms, truth=None, **options):
    runs = {name: run_of(scores_of(orders)) for name, orders in arms.items()}
    return measure(truth or truth_of(), runs, options_of(**options))


def results_of(out, arms, truth=None, **options):
    """The results of a bake-off of runs in memory."""
    truth = truth or dict.fromkeys(QUERIES, GRADES)
    runs = {name: scores_of(orders) for name, orders in arms.items()}
    plain = {"measures": ["nDCG@10", "R@2"], "progress": None, "out": out}
    return bakeoff(truth=truth, runs=runs, **plain | options)


def mean_of(measured, arm, name="nDCG@10"):
    [found] = [m.mean for m in measured.means if (m.run, m.measure) == (arm, name)]
    return found


def codes(results):
    return [warn.code for warn in results.report.warnings]


def test_a_query_that_was_not_ranked_counts_0_and_is_not_compared(tmp_path):
    arms = {
        "some": dict.fromkeys(QUERIES[:9], "abcd"),
        "all": all_like("abcd"),
        "none": {"x": "ab"},
    }
    results = results_of(tmp_path / "o", arms)
    assert not results.complete
    board = {row["run"]: row for row in results.leaderboard}
    assert [*board] == ["all", "some", "none"]
    assert [board[name]["missing"] for name in board] == [0, 3, 12]
    assert (board["some"]["mean"], board["none"]["ranked"]) == (pytest.approx(9 / 12), 0)
    [one] = results.rows("comparisons", measure="nDCG@10")
    assert (one["queries"], one["difference"], one["p"]) == (9, 0.0, 1.0)
    lost = {(row["run"], row["status"]) for row in results.failures}
    assert lost == {("some", "missing"), ("none", "missing")}
    assert codes(results).count("not_ranked") == 2
    with pytest.raises(Stopped, match="alone"):
        results_of(tmp_path / "p", {"alone": {"x": "abcd"}})


def test_errors_of_labels_make_a_winner_less_sure(monkeypatch):
    close = {"one": all_like("abcd"), "other": all_like("abdc")}
    plain = {"measures": ("zelo_nDCG@10",), "baseline": "other"}
    sure, unsure = (
        measured_of(close, truth_of(error, grades=CLOSE), **plain) for error in (0.001, 2.0)
    )
    assert sure.label_draws == 200
    [one], [other] = sure.comparisons, unsure.comparisons
    assert (one.p_labels, significance_of(one)) == (1.0, Significance.ABOVE)
    assert 0.4 < other.p_labels < 0.9
    assert (other.p_holm, other.difference) == (one.p_holm, one.difference)
    assert significance_of(other) is Significance.LABELS_COULD_TURN_IT
    gates = [decide_gates(each, None, options_of(**plain)) for each in (sure, unsure)]
    assert [gate.verdict for [gate] in gates] == ["better", "not enough data"]
    # What does not fit into memory at once is drawn one by one, and not left out.
    monkeypatch.setattr(measuring, "_CELLS", 1)
    parts = measured_of(close, truth_of(2.0, grades=CLOSE), **plain)
    assert parts.comparisons == unsure.comparisons
    assert decide_gates(parts, None, options_of(**plain)) == gates[1]
    exact = measured_of(close, truth_of(math.nan), measures=("nDCG@10",))
    assert exact.label_draws == 0
    assert math.isnan(exact.comparisons[0].p_labels)
    assert significance_of(exact.comparisons[0]) is Significance.ABOVE


def slices_of(measured, fields=None, **options):
    rows = compute_slices(measured, options_of(**options), fields or {})
    return {(s.slice, s.value, s.run): s for s in rows if s.measure == str(measured.measures[0])}


def test_slices_by_a_field_by_difficulty_and_by_relevant_documents():
    orders = {q: "abcd" if n % 2 else "dcba" for n, q in enumerate(QUERIES)}
    fields = {q: {"language": "en" if n % 2 else "de"} for n, q in enumerate(QUERIES)}
    found = slices_of(measured_of({"arm": orders}), fields, slices=("language",))
    assert found["language", "en", "arm"].mean == 1.0
    assert found["language", "de", "arm"].mean < 0.7
    easy, hard = (found[DIFFICULTY, value, "arm"] for value in ("easy", "hard"))
    assert (easy.mean, easy.queries, hard.queries) == (1.0, 4, 4)
    some = {"all": {q: "abcd" if q == "q0" else "bacd" for q in QUERIES}}
    some["some"] = dict.fromkeys(QUERIES[1:], "bacd")
    measured = measured_of(some)
    assert slices_of(measured)[DIFFICULTY, "easy", "all"].mean > mean_of(measured, "all")
    few, many = {"a": 2.0, "b": 0.0}, {f"d{n}": 2.0 for n in range(7)}
    truth = {q: few if n < 8 else many for n, q in enumerate(QUERIES)}
    orders = {q: list(documents) for q, documents in truth.items()}
    options = {"measures": ("R(rel=2)@1",)}
    found = slices_of(measured_of({"arm": orders}, Truth(qrels_of(truth)), **options))
    assert (found[RELEVANT, "1", "arm"].mean, found[RELEVANT, "1", "arm"].queries) == (1.0, 8)
    assert found[RELEVANT, "6+", "arm"].mean == pytest.approx(1 / 7)
    scores = measured_of({"arm": orders}, truth_of(grades={"a": 1.5, "b": -0.5}))
    assert RELEVANT not in {name for name, *_ in slices_of(scores)}, "scores have no threshold"


@pytest.mark.parametrize(
    ("measures", "grades", "least"),
    [
        (["nDCG@10", "AP(rel=2)", "RR"], GRADES, 2.0),
        (["nDCG@10", "RR"], GRADES, 1.0),
        (["R(k_gt=5)@10"], GRADES, 2.0),
        (["nDCG@10"], {"a": 1.0, "b": 0.0}, 1.0),
        (["nDCG@10", "AP"], {"a": 1.5, "b": -0.5}, None),
        (["AP(rel=0.5)"], {"a": 1.5, "b": -0.5}, 0.5),
    ],
)
def test_relevant_is_what_the_measures_take_for_it(measures, grades, least):
    assert relevant_from(parse_measures(measures), truth_of(grades=grades)) == least


def test_a_measure_by_which_all_are_equal_makes_no_other_less_sure():
    """R@4 of four documents is 1 whatever the order, and P@4 a half."""
    arms = {order: all_like(order) for order in ("abcd", "dcba", "badc")}
    together = measured_of(arms, measures=("nDCG@10", "R@4", "P(rel=2)@4", "R@2"))
    alone = measured_of(arms, measures=("nDCG@10", "R@2"))
    found = {(row.run_a, row.run_b, row.measure): row.p_holm for row in together.comparisons}
    assert all(found[r.run_a, r.run_b, r.measure] == r.p_holm for r in alone.comparisons)


@pytest.mark.parametrize(
    ("fields", "found"),
    [
        ({"p_holm": 0.01}, Significance.ABOVE),
        ({"p_holm": 0.01, "p_labels": 0.8}, Significance.LABELS_COULD_TURN_IT),
        ({"p_holm": 0.01, "family": "gpt"}, Significance.ONLY_BY_OWN_FAMILY),
        ({"p_holm": 0.2}, Significance.NOT_SIGNIFICANT),
        ({"p_holm": 0.01, "queries": 3}, Significance.TOO_FEW_QUERIES),
        ({"p": math.nan, "estimate": "corrected"}, Significance.TOO_FEW_LABELS),
    ],
)
def test_a_difference_is_called_no_surer_than_it_is(fields, found):
    [one] = measured_of(
        {"a": all_like("abcd"), "b": all_like("dcba")}, measures=("nDCG@10",)
    ).comparisons
    row = replace(one, **fields)
    assert significance_of(row) is found
    both = {significance_of(row), significance_of(swap_rankers(row))}
    assert both == ({Significance.ABOVE, Significance.BELOW} if found.is_significant else {found})


def test_documents_that_nobody_judged_are_listed_and_warned_of(tmp_path):
    results = results_of(tmp_path, {"arm": all_like("xaby"), "other": all_like("abcd")})
    found = [(row["run"], row["doc_id"], row["rank"]) for row in results.unjudged][:2]
    assert found == [("arm", "x", 1), ("arm", "y", 4)]
    assert "unjudged" in codes(results)
    assert "unjudged" not in codes(results_of(tmp_path / "o", {"a": all_like("abcd")}))


def test_tables_of_an_earlier_run_with_other_options_go(tmp_path):
    arms = {"old": all_like("bacd"), "new": all_like("abcd")}
    assert "gate" in results_of(tmp_path, arms, baseline="old")
    again = results_of(tmp_path, arms)
    assert "gate" not in again
    assert not (tmp_path / "gate.parquet").exists()
    loaded = load_run(tmp_path)
    assert {*loaded} == {*again}
    assert loaded.report.tiles == again.report.tiles
    loaded.write_report()
    assert "Leaderboard" in (tmp_path / "report.html").read_text()


def test_the_truth_that_changed_is_said(tmp_path):
    arms = {"old": all_like("bacd"), "new": all_like("abcd")}
    truth = tmp_path / "t.qrels"
    for grade, changed in ((1, False), (1, False), (2, True)):
        truth.write_text("".join(f"{q} 0 a {grade}\n{q} 0 b 0\n" for q in QUERIES))
        results = results_of(tmp_path / "o", arms, str(truth))
        assert ("truth_changed" in codes(results)) is changed


def cost(query, seconds=math.nan, run="r", **fields):
    return QueryCost(run, f"q{query}", 10, 1, seconds, **{"dollars": 0.002, **fields})


def test_times_are_of_queries_with_a_time_and_prices_of_all():
    costs = [*(cost(n, 0.1 * (n + 1)) for n in range(9)), cost(9)]
    rows = {row.measure: row for row in sum_costs(costs)}
    assert {*rows} == {"seconds_p50", "seconds_p95", "usd_per_1000"}
    assert rows["seconds_p50"].mean == pytest.approx(0.5)
    assert rows["seconds_p95"].mean == pytest.approx(np.percentile(np.arange(1, 10) / 10, 95))
    assert rows["usd_per_1000"].mean == pytest.approx(2.0)
    assert [row.queries for row in rows.values()] == [9, 9, 10]
    assert {(row.run, row.estimate) for row in rows.values()} == {("r", "cost")}
    paid = Asked(costs=[cost(1, dollars=0.25), cost(2, dollars=math.nan), cost(3, run="s")])
    assert (paid.paid("r"), paid.paid("s")) == ((0.25, 1), (0.002, 0)), "whichever run paid"


def test_rounds_follow_one_another_and_no_time_or_price_is_guessed():
    judge = judge_of("openai:gpt-6-luna")
    unknown = replace(judge, model="unheard-of")

    def summed(*rounds, judge=judge, prices=None, **fields):
        replies = [
            [reply_to(i, seconds=each, **fields) for i, each in enumerate(seconds)]
            for seconds in rounds
        ]
        return sum_replies(replies, judge, prices or {})

    assert summed((0.2, 0.5, 0.1))["seconds"] == 0.5
    assert summed((0.2,), (0.5,), (0.1,))["seconds"] == pytest.approx(0.8)
    cost = summed((0.2, 0.0), dollars=0.01)
    assert (math.isnan(cost["seconds"]), cost["dollars"]) == (True, pytest.approx(0.02))
    tokens = {"dollars": None, "input_tokens": 1000, "output_tokens": 100}
    assert math.isnan(summed((1.0,), judge=unknown, **tokens)["dollars"])
    prices = {unknown.name: Price(input=2.0, output=10.0)}
    priced = summed((1.0,), judge=unknown, prices=prices, **tokens)
    assert priced["dollars"] == pytest.approx(0.003)
