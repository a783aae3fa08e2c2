"""What rankers take in time and money: from replies to a table, a picture and sentences."""

import json
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.builders import Shelf, judge_of, reply_to, rows_of
from tests.crash import ROOT
from tests.fakes.rerank import Rerankers, pool
from tests.test_bakeoff_report import ARMS, write_bakeoff
from zelo_ray.cli import main
from zelo_ray.commands.bakeoff.costs import sum_costs
from zelo_ray.commands.bakeoff.latency import choose_places
from zelo_ray.commands.bakeoff.outcome import MeasuredRanker, RankerCost
from zelo_ray.commands.bakeoff.report import BAKEOFF_REPORT
from zelo_ray.commands.bakeoff.report.costs import describe_timing
from zelo_ray.commands.report import write_report
from zelo_ray.evaluation.pareto import pareto_front
from zelo_ray.formats.tables import table_of
from zelo_ray.options import BakeoffOptions, Price
from zelo_ray.protocols import Progress, find_protocol
from zelo_ray.records import Mean
from zelo_ray.rerankers import asking_options, build_rankers
from zelo_ray.rerankers.query_costs import QueryCost, sum_replies

JUDGE = judge_of("openai:gpt-6-luna")
OPTIONS = BakeoffOptions(truth="none", out="out", resamples=200)
SAMPLE, GRADES = str(ROOT / "data" / "sample"), str(ROOT / "data" / "qrels.txt")


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


def test_a_ranker_that_is_asked_again_has_other_keys_and_the_same_rounds():
    options = BakeoffOptions(truth="none", out="out", rerankers=(f"pointwise:{JUDGE.name}",))
    environ = {"OPENAI_API_KEY": "a-key-for-tests-only"}
    (ranker,) = build_rankers(options, environ, run_id="run")
    keys, scores = [], []
    for name in ("pointwise", "again:pointwise"):
        rounds = find_protocol(name).rounds(
            pool(), (ranker.judge,), asking_options(ranker, options)
        )
        shelf, progress = Shelf(), Progress(rounds)
        missing = progress.step(shelf).missing
        keys.append({request.key for request in missing})
        for request in missing:
            shelf.put(request, json.dumps({"reasoning": "", "relevance": 7}))
        scores.append(progress.step(shelf).judgments)
    assert len(keys[0]) == len(keys[1]) == 4
    assert not keys[0] & keys[1]
    assert scores[0] == scores[1]


def cost(query, seconds, **fields):
    return QueryCost("r", f"q{query}", 10, 1, seconds, **{"dollars": 0.002, **fields})


def test_figures_are_of_queries_with_a_time_and_prices_of_all():
    costs = [cost(n, 0.1 * (n + 1), in_flight=4, load_seconds=3.0 * (n == 0)) for n in range(9)]
    costs.append(cost(9, np.nan))
    entry = MeasuredRanker("r", None, costs=costs, block_size=32)
    [row] = sum_costs([entry, MeasuredRanker("file", None)], OPTIONS).rows
    assert row.queries == 9
    assert row.seconds_p50 == pytest.approx(0.5)
    assert row.seconds_p95 == pytest.approx(np.percentile(np.arange(1, 10) / 10, 95))
    assert row.documents_per_second == pytest.approx(90 / 4.5)
    assert row.usd_per_1000 == pytest.approx(2.0)
    assert (row.load_seconds, row.in_flight, row.block_size, row.is_alone) == (3.0, 4, 32, False)


def test_means_are_of_queries_asked_alone_where_there_are_some():
    costs = [cost(n, 1.0) for n in range(20)]
    costs += [cost(n, 0.2, is_alone=True) for n in range(6)]
    made = sum_costs([MeasuredRanker("r", None, costs=costs)], OPTIONS)
    means = {mean.measure: mean for mean in made.means}
    assert [row.is_alone for row in made.rows] == [False, True]
    assert means["seconds_p50"] == Mean("r", "seconds_p50", 0.2, 0.2, 0.2, 6, "cost")
    assert means["usd_per_1000"].queries == 20
    assert {mean.estimate for mean in made.means} == {"cost"}


def test_rankers_that_nobody_asked_have_no_costs():
    made = sum_costs([MeasuredRanker("file", None)], OPTIONS)
    assert (made.rows, made.means) == ([], [])


def test_the_front_is_what_nothing_beats():
    quality, price = np.array([0.7, 0.6, 0.7, np.nan, 0.5]), np.array([3.0, 1.0, 2.0, 0.0, 1.0])
    assert pareto_front(quality, price) == [2, 1]


def test_a_time_under_load_is_never_said_to_be_of_one_query():
    row = {"queries": 29, "is_alone": False, "in_flight": 32}
    assert describe_timing(row) == "under load, up to 32 in flight, 29 queries"
    assert describe_timing(row | {"in_flight": 1}).startswith("under load")
    assert describe_timing(row | {"is_alone": True}) == "one query at a time, 29 queries"
    assert describe_timing(row | {"queries": 0}) == "time unknown"


def test_the_same_queries_are_chosen_by_the_same_seed():
    places = [("a.jsonl", n, f"q{n}") for n in range(50)]
    options = OPTIONS.model_copy(update={"latency_queries": 7})
    chosen = choose_places(places, options)
    assert len(chosen) == 7
    assert chosen == choose_places(places[::-1], options)
    assert chosen != choose_places(places, options.model_copy(update={"seed": 1}))


def write_costs(out, alone=()):
    """Costs of the hand-made contest: the best one is dear, and one is beaten at its price."""
    write_bakeoff(out)
    prices = dict(zip(ARMS, (2.0, 0.4, 3.0, 0.0), strict=False))
    seconds = dict(zip(ARMS, (0.3, 0.1, 0.5, 0.01), strict=False))
    figures = [("seconds_p50", seconds), ("seconds_p95", seconds), ("usd_per_1000", prices)]
    rows = [
        RankerCost(arm, arm in alone, 60, 8, seconds[arm], 1.0, 9.0, prices[arm], 0.0, "", 0)
        for arm in prices
    ]
    means = pq.read_table(out / "means.parquet").to_pylist()
    means = [Mean(**row) for row in means] + [
        Mean(arm, name, value, value * 0.9, value * 1.1, 60, "cost")
        for name, values in figures
        for arm, value in values.items()
    ]
    pq.write_table(table_of(rows, RankerCost), out / "costs.parquet")
    pq.write_table(table_of(means, Mean), out / "means.parquet")
    return BAKEOFF_REPORT.read(str(out))


def test_sentences_name_the_rankers_that_are_worth_their_price(tmp_path):
    section = write_costs(tmp_path).section("costs")
    money, beaten, time, *_ = section.parts[0].lines
    assert money.startswith("By price: original is 0.")
    assert "below bm25 (no significant difference) at a fifth of its price" in money
    assert money.endswith("at no cost.")
    assert beaten.startswith("cross-encoder is not worth it")
    assert time.startswith("By time a query under load: original")
    assert "at a third of its time" in time
    assert [part.form for part in section.parts] == ["sentences", "chart", "table"]


def test_one_that_is_close_is_within_a_little_of_the_best(tmp_path):
    write_costs(tmp_path)
    means = pq.read_table(tmp_path / "means.parquet").to_pylist()
    best = next(row["mean"] for row in means if row["run"] == "bm25")
    for row in means:
        if (row["run"], row["measure"]) == ("original", "nDCG@10"):
            row["mean"] = best - 0.01
    pq.write_table(table_of([Mean(**row) for row in means], Mean), tmp_path / "means.parquet")
    [money, *_] = BAKEOFF_REPORT.read(str(tmp_path)).section("costs").parts[0].lines
    assert "original is within 0.010 of bm25" in money


def test_a_run_file_has_a_dash_and_a_ring_marks_what_is_beaten(tmp_path):
    section = write_costs(tmp_path, alone=ARMS).section("costs")
    table = section.parts[2]
    rows = {row[0].text: row for row in table.rows}
    assert all(np.isnan(cell.value) for cell in rows["run-file"][1:5])
    assert rows["run-file"][5].text == "not timed here"
    assert rows["bm25"][4].value == 2.0
    assert rows["bm25"][5].text == "one query at a time, 60 queries"
    assert "under load" not in " ".join(section.parts[0].lines)
    drawn = section.parts[1].figures["dollars for 1,000 queries"]["data"]
    rings = [point["name"] for point in drawn if point["marker"].get("symbol") == "circle-open"]
    assert rings == ["cross-encoder"]
    write_report(str(tmp_path))
    assert "Time and money" in (tmp_path / "report.html").read_text()


def test_results_of_earlier_versions_have_no_such_section(tmp_path):
    write_bakeoff(tmp_path)
    assert "costs" not in [s.name for s in BAKEOFF_REPORT.read(str(tmp_path)).sections if s]


def rankers_of(out):
    return json.loads((out / "run.json").read_text())["summary"]["rankers"]


def test_what_earlier_runs_paid_for_rankings_counts():
    costs = [
        QueryCost("r", "q1", 5, 1, dollars=0.25),
        QueryCost("r", "q2", 5, 2),
        QueryCost("r", "q2", 5, 1, dollars=0.5, is_alone=True),
        QueryCost("r", "q3", 5, 0),
    ]
    for ran, dollars, alone in ((0.0, 0.75, 0.5), (2.0, 2.0, 0.5)):
        entry = MeasuredRanker("r", pa.table({}), dollars=ran, costs=costs)
        entry.count_earlier_runs()
        assert (entry.dollars, entry.latency_dollars, entry.unpriced) == (dollars, alone, 2)


@pytest.mark.ray
@pytest.mark.nightly
def test_a_contest_is_timed_alone_once_and_its_ledger_knows_the_times(one_ray, tmp_path):
    """What the server measures and what the bake-off says agree; a second run asks nothing."""
    out, run_file = tmp_path / "out", tmp_path / "first.run"
    run_file.write_text("parcel-missing Q0 parcel-missing-01 1 1.0 first\n")
    with Rerankers() as server:
        server.delay = 1.0  # a busy machine delays what a client sees by some 10 ms
        spec = f"hosted=rerank:m@{server.url}/vllm/v1"
        words = ["bakeoff", "--truth", GRADES, "--pools", SAMPLE, "--runs", str(run_file)]
        words += ["--rerankers", "original", "bm25", spec, "--latency-queries", "5"]
        words += ["--resamples", "200", "--out", str(out)]
        environ = {"TEST_OPTION_PRICES": json.dumps({"hosted": {"input": 1000.0, "output": 0.0}})}
        status, printed = one_ray.run(environ, *words)
        assert status in (0, 3), printed
        first, measured = len(server.journal), [entry["seconds"] for entry in server.journal]
        assert first == 29 + 5
        paid = [row["dollars"] for row in rankers_of(out)]
        status, again = one_ray.run(environ, *words)
        assert len(server.journal) == first, again
    assert "one query at a time, 5 queries" in printed
    times = [row for row in rows_of(out, "times") if row["run"] == "hosted"]
    alone = sorted(row["seconds"] for row in times if row["is_alone"])
    assert len(alone) == 5
    assert min(alone) == pytest.approx(min(measured[-5:]), rel=0.05)
    assert max(row["in_flight"] for row in times if row["is_alone"]) == 1
    costs = {(row["run"], row["is_alone"]): row for row in rows_of(out, "costs")}
    assert {run for run, _ in costs} == {"bm25", "hosted"}
    assert costs["hosted", True]["usd_per_1000"] > 0
    [hosted] = [ranker for ranker in rankers_of(out) if ranker["name"] == "hosted"]
    assert 0.0 < hosted["latency_dollars"] < hosted["dollars"]
    assert [row["dollars"] for row in rankers_of(out)] == pytest.approx(paid, rel=1e-9)


def test_the_option_is_refused_below_nothing(capsys, tmp_path):
    words = ["bakeoff", "--truth", GRADES, "--latency-queries", "-1", "--out", str(tmp_path)]
    assert main(words) == 2
    assert "latency" in capsys.readouterr().err
