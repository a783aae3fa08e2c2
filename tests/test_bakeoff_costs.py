"""What rankers take in time and money: from replies to columns of the leaderboard."""

from dataclasses import replace

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.builders import judge_of, reply_to
from tests.test_bakeoff_report import write_bakeoff
from zelo_ray.command_options import BakeoffOptions
from zelo_ray.commands.bakeoff.costs import sum_costs
from zelo_ray.commands.bakeoff.outcome import MeasuredRanker
from zelo_ray.commands.bakeoff.report import BAKEOFF_REPORT
from zelo_ray.files.tables import table_of
from zelo_ray.options import Price
from zelo_ray.records import Mean
from zelo_ray.rerankers.ranking import QueryCost, sum_replies

JUDGE = judge_of("openai:gpt-6-luna")
OPTIONS = BakeoffOptions(truth="none", out="out")


def summed(*rounds, prices=None):
    about = {"ranker": "r", "query_id": "q", "documents": 10}
    return sum_replies(rounds, JUDGE, prices or {}, **about)


def timed(*seconds, **fields):
    return [reply_to(i, seconds=each, **fields) for i, each in enumerate(seconds)]


def test_requests_of_a_round_go_side_by_side_and_rounds_follow_one_another():
    assert summed(timed(0.2, 0.5, 0.1)).seconds == 0.5
    assert summed(timed(0.2), timed(0.5), timed(0.1)).seconds == pytest.approx(0.8)


def test_one_reply_without_a_time_leaves_the_query_without_one():
    cost = summed(timed(0.2, 0.0, dollars=0.01))
    assert np.isnan(cost.seconds)
    assert cost.dollars == pytest.approx(0.02)


def test_a_price_that_was_unknown_is_computed_from_tokens_by_the_prices_of_now():
    replies = timed(1.0, dollars=None, input_tokens=1000, output_tokens=100)
    unknown = replace(JUDGE, model="unheard-of")
    about = {"ranker": "r", "query_id": "q", "documents": 10}
    assert np.isnan(sum_replies([replies], unknown, {}, **about).dollars)
    own = {unknown.name: Price(input=2.0, output=10.0)}
    assert sum_replies([replies], unknown, own, **about).dollars == pytest.approx(0.003)


def cost(query, seconds, **fields):
    return QueryCost("r", f"q{query}", 10, 1, seconds, **{"dollars": 0.002, **fields})


def test_figures_are_of_queries_with_a_time_and_prices_of_all():
    costs = [cost(n, 0.1 * (n + 1), in_flight=4, load_seconds=3.0 * (n == 0)) for n in range(9)]
    costs.append(cost(9, np.nan))
    means = sum_costs([MeasuredRanker("r", None, costs=costs)], OPTIONS)
    rows = {mean.measure: mean for mean in means}
    assert rows["seconds_p50"].mean == pytest.approx(0.5)
    assert rows["seconds_p95"].mean == pytest.approx(np.percentile(np.arange(1, 10) / 10, 95))
    assert rows["usd_per_1000"].mean == pytest.approx(2.0)
    assert [mean.queries for mean in means] == [9, 9, 10]
    assert {(mean.run, mean.estimate) for mean in means} == {("r", "cost")}


def test_rankers_that_nobody_asked_have_no_costs():
    assert sum_costs([MeasuredRanker("file", None)], OPTIONS) == []


def test_the_leaderboard_has_times_and_prices_of_what_was_asked(tmp_path):
    write_bakeoff(tmp_path)
    figures = {"seconds_p50": 0.3, "seconds_p95": 1.0}
    prices = {"bm25": 0.0, "cross-encoder": 2.0}
    means = [Mean(**row) for row in pq.read_table(tmp_path / "means.parquet").to_pylist()]
    for ranker, price in prices.items():
        for name, value in (figures | {"usd_per_1000": price}).items():
            means.append(Mean(ranker, name, value, value * 0.9, value * 1.1, 60, "cost"))
    pq.write_table(table_of(means, Mean), tmp_path / "means.parquet")
    table = BAKEOFF_REPORT.read(str(tmp_path)).section("leaderboard").parts[-1]
    assert [*table.columns[-3:]] == ["seconds p50", "p95", "$ for 1,000 queries"]
    rows = {row[0].text: row[-3:] for row in table.rows}
    assert [cell.value for cell in rows["cross-encoder"]] == [0.3, 1.0, 2.0]
    assert rows["bm25"][2] == "free"
    assert all(np.isnan(cell.value) for cell in rows["run-file"])


def test_what_earlier_runs_paid_for_rankings_counts():
    costs = [
        QueryCost("r", "q1", 5, 1, dollars=0.25),
        QueryCost("r", "q2", 5, 2),
        QueryCost("r", "q4", 5, 1, dollars=0.5),
        QueryCost("r", "q3", 5, 0),
    ]
    for ran, dollars in ((0.0, 0.75), (2.0, 2.0)):
        entry = MeasuredRanker("r", pa.table({}), dollars=ran, costs=costs)
        entry.count_earlier_runs()
        assert (entry.dollars, entry.unpriced) == (dollars, 2)
