"""Orders of systems by protocols' labels against people's order, at equal money."""

from math import isnan, nan

import numpy as np
import pytest
from scipy.stats import kendalltau

from tests.contests import run_of
from tests.test_report import page_of
from tests.test_trials_report import write_comparison
from zelo_ray.commands.compare_protocols.outcome import Cost
from zelo_ray.commands.compare_protocols.report import COMPARE_PROTOCOLS_REPORT
from zelo_ray.commands.compare_protocols.system_order import (
    SystemOrder,
    check_runs,
    measure_orders,
)
from zelo_ray.commands.report import write_report
from zelo_ray.errors import InputError, OptionError
from zelo_ray.formats.results import write_tables
from zelo_ray.formats.runs import read_runs
from zelo_ray.formats.tables import table_of

QUERIES = 40
CHANCE = {"unit": "dollars", "measure": "nDCG@5", "resamples": 300, "seed": 0}


def world(errors, *, price=None, seed=0):
    """People's grades, labels of protocols that err so much, their costs, and six runs."""
    rng = np.random.default_rng(seed)
    documents = [f"d{n}" for n in range(12)]
    people = {f"q{q}": {d: float(rng.integers(0, 4)) for d in documents} for q in range(QUERIES)}
    labels = {
        name: {
            q: {d: max(0.0, round(g + rng.normal(0, error))) for d, g in grades.items()}
            for q, grades in people.items()
        }
        for name, error in errors.items()
    }
    costs = [
        Cost(name, q, 10, (price or {}).get(name, 1.0), 1, 1, 1) for name in labels for q in people
    ]
    runs = {
        f"run{n}": run_of(
            {q: {d: g + rng.normal(0, 0.5 + n) for d, g in of.items()} for q, of in people.items()}
        )
        for n in range(6)
    }
    return people, labels, costs, runs


def rows_of(people, labels, costs, runs, **more):
    return measure_orders(people, labels, costs, runs, **CHANCE | more)


def test_labels_that_are_people_s_give_their_order():
    [*_, last] = rows_of(*world({"same": 0.0}))
    assert (last.tau_b, last.tau_ap, last.queries, last.all_labels) == (1.0, 1.0, 40, True)
    assert last.right == last.apart == last.apart_by_people > 5
    assert (last.wrong, last.best, last.like_best, last.pairs) == (0, True, True, 15)


def test_labels_that_err_give_another_order_and_a_worse_one_is_told_apart():
    people, labels, costs, runs = world({"good": 0.3, "bad": 4.0})
    labels["upside-down"] = {q: {d: 3 - g for d, g in of.items()} for q, of in people.items()}
    costs += [Cost("upside-down", q, 10, 1.0, 1, 1, 1) for q in people]
    rows = {row.protocol: row for row in rows_of(people, labels, costs, runs)[-3:]}
    assert rows["good"].tau_b > rows["bad"].tau_b > rows["upside-down"].tau_b
    assert rows["good"].best
    assert not rows["upside-down"].like_best
    assert rows["upside-down"].wrong > 5
    assert rows["upside-down"].right == 0
    for row in rows.values():
        assert row.tau_b_low <= row.tau_b <= row.tau_b_high


def test_money_buys_labels_of_as_many_queries_as_it_pays_for():
    world_of_two = world({"cheap": 1.0, "dear": 0.2}, price={"cheap": 1.0, "dear": 4.0})
    rows = rows_of(*world_of_two)
    bought = {(row.budget, row.protocol): (row.queries, row.spent, row.all_labels) for row in rows}
    assert bought == {
        (10.0, "cheap"): (10, 10.0, False),
        (10.0, "dear"): (2, 8.0, False),
        (20.0, "cheap"): (20, 20.0, False),
        (20.0, "dear"): (5, 20.0, False),
        (40.0, "cheap"): (40, 40.0, True),
        (40.0, "dear"): (10, 40.0, False),
        (160.0, "cheap"): (40, 40.0, True),
        (160.0, "dear"): (40, 160.0, True),
    }
    by_money = [row.tau_b for row in rows if row.protocol == "dear"]
    assert by_money[0] < by_money[-1]


def test_a_value_for_some_queries_is_the_mean_over_choices_of_them():
    people, labels, costs, runs = world({"one": 1.0})
    first = rows_of(people, labels, costs, runs)[0]
    others = rows_of(people, labels, costs, runs, seed=1, resamples=2000)[0]
    assert first.queries == 10
    assert first.tau_b == pytest.approx(others.tau_b, abs=0.03)


def test_without_known_costs_all_labels_are_compared():
    people, labels, _, runs = world({"one": 1.0, "other": 0.1})
    costs = [Cost(name, q, 0, nan, 1, 1, 1) for name in labels for q in people]
    rows = rows_of(people, labels, costs, runs)
    assert [(row.protocol, row.queries, isnan(row.budget)) for row in rows] == [
        ("one", 40, True),
        ("other", 40, True),
    ]


def test_queries_that_a_protocol_did_not_label_are_not_measured_by_it():
    people, labels, costs, runs = world({"some": 0.0})
    labels["some"] = {q: of for n, (q, of) in enumerate(labels["some"].items()) if n % 2}
    [*_, last] = rows_of(people, labels, costs, runs)
    assert (last.queries, last.of_queries, last.all_labels) == (20, 40, True)
    labels["some"]["q1"]["stranger"] = 3.0  # nobody graded it
    assert rows_of(people, labels, costs, runs)[-1] == last


def test_real_labels_give_the_taus_that_agree_gives(published):
    """NIST's grades and GPT-4's of 37 official runs, as docs/compare.md shows them."""
    folder = published / "trec_dl19"
    people, labels = (
        grades_of(folder / name) for name in ("qrels.txt", "judges/gpt-4_umbrela_graded.txt")
    )
    runs = read_runs(map(str, sorted((folder / "runs_top10").glob("*.run"))))
    costs = [Cost("gpt-4", query_id, 1, 1.0, 1, 1, 1) for query_id in people]
    [*_, last] = measure_orders(
        people, {"gpt-4": labels}, costs, runs, **CHANCE | {"measure": None}
    )
    assert (last.runs, last.measure, last.pairs) == (37, "nDCG@10", 666)
    assert (round(last.tau_b, 3), round(last.tau_ap, 3)) == (0.850, 0.795)
    assert (last.apart_by_people, last.apart) == pytest.approx((302, 256), abs=6)  # few resamples


def grades_of(path):
    found = {}
    for line in path.read_text().splitlines():
        query_id, _, doc_id, grade = line.split()
        found.setdefault(query_id, {})[doc_id] = float(grade)
    return found


def test_tau_b_is_scipys():
    people, labels, costs, runs = world({"one": 2.0}, seed=3)
    [*_, last] = rows_of(people, labels, costs, runs, measure="P(rel=2)@5")
    means = [
        [
            round(np.mean([sum(of[q][d] >= 2 for d in top(run, q)) / 5 for q in people]), 9)
            for run in runs.values()
        ]
        for of in (people, labels["one"])
    ]
    assert last.tau_b == pytest.approx(kendalltau(*means).statistic)


def top(run, query_id):
    rows = [row for row in run.to_pylist() if row["query_id"] == query_id]
    return [row["doc_id"] for row in sorted(rows, key=lambda row: -row["score"])[:5]]


def test_runs_that_cannot_be_ordered_are_refused():
    runs = {"a": run_of({"q": {"d": 1.0}}), "b": run_of({"q": {"d": 1.0}})}
    with pytest.raises(
        OptionError, match="runs are measured by grades of documents; h holds votes"
    ):
        check_runs(runs, {}, "h")
    with pytest.raises(OptionError, match="at least two runs"):
        check_runs({"a": runs["a"]}, {"q": {"d": 1.0}}, "h")
    with pytest.raises(InputError, match="no query of the run a has labels of people"):
        check_runs(runs, {"Q-1": {"d": 1.0}}, "h")


def test_the_report_says_who_is_nearest_for_equal_money(tmp_path):
    write_comparison(tmp_path)
    two = world({"cheap": 1.5, "dear": 0.1}, price={"cheap": 0.01, "dear": 0.04})
    write_tables(str(tmp_path), {"systems": table_of(rows_of(*two), SystemOrder)})
    sentences, chart, table = COMPARE_PROTOCOLS_REPORT.read(str(tmp_path)).section("systems").parts
    first, second = sentences.lines
    assert first.startswith("By all its labels, dear puts the 6 runs nearest to people's order")
    assert second.startswith("For $0.40, what the cheapest took in all, it is ")
    assert [row[1] for row in table.rows] == ["$0.40", "$0.40", "all its labels", "all its labels"]
    assert {row[0].text: row[2] for row in table.rows[:2]} == {
        "cheap": "40 of 40",
        "dear": "10 of 40",
    }
    traces = chart.figures["tau-b"]["data"]
    assert [len(trace["x"]) for trace in traces] == [3, 4]
    write_report(str(tmp_path))
    assert "systems" in page_of(tmp_path).sections


def test_without_runs_there_is_no_section(tmp_path):
    write_comparison(tmp_path)
    names = [part.name for part in COMPARE_PROTOCOLS_REPORT.read(str(tmp_path)).sections if part]
    assert names == ["protocols", "differences"]
