"""Estimates: by hand where nothing is known, and against the books of runs where it is."""

from collections import Counter
from dataclasses import replace
from random import Random

import pytest

from tests.helpers.builders import (
    QUICK,
    SLOW,
    ask,
    ask_apart,
    graded_pools,
    missing,
    pool_of,
    reply_to,
    short,
    two_speeds,
)
from zelo_ray.commands.dry_run import build_estimate, figures_of
from zelo_ray.engine import estimate
from zelo_ray.engine.ledger import Ledger, read_rows
from zelo_ray.engine.tokens import measure_request
from zelo_ray.options import Limit, Price
from zelo_ray.protocols import load_protocol
from zelo_ray.providers import build_panel
from zelo_ray.providers.pricing import price
from zelo_ray.records import Document, Pool, Usage

KEYS = dict.fromkeys(("OPENAI_API_KEY", "ANTHROPIC_API_KEY", "GEMINI_API_KEY"), "a-key")
LUNA, HAIKU = "openai:gpt-6-luna", "anthropic:claude-haiku-5-5"
LITE, QWEN = "gemini:gemini-3.1-flash-lite", "openai:qwen3@http://127.0.0.1:8000/v1"
USED = {"input_tokens": 1000, "output_tokens": 100}
POOL = pool_of()  # of four documents, about which each judge is asked 6 times
TWIN = replace(POOL, query_id="twin", query=POOL.query.upper())


def job(out, *judges, **fields):
    """Options and the panel that they name."""
    options = load_protocol("zelo").options(
        inputs=("in.jsonl",), out=str(out), judges=judges, **fields
    )
    return options, build_panel(options.judges, options.judge_options, KEYS)


def estimated(pools, options, panel, replies=None, **more):
    found = estimate.InputEstimate(panel, options, replies)
    for pool in pools:
        found.add(pool)
    return found.figure(**more)


def answer_all(out, pools, options, panel, rows=lambda row: [row], **fields):
    """Put a reply for each request in the ledger, or what ``rows`` makes of it."""
    ledger = Ledger(str(out), "run")
    for pool in pools:
        for request in missing(pool, panel, options):
            ledger.append(rows(reply_to(request.key, judge=request.judge.name, **fields)))
    ledger.close()


def uneven_pools(count, seed=0):
    """Pools whose documents are long or short together, and each by itself."""
    rng, pools = Random(seed), []
    for i in range(count):
        usual, documents = rng.lognormvariate(4.0, 1.0), []
        for j in range(rng.randint(3, 6)):
            words = max(1, round(usual * rng.lognormvariate(0, 0.7)))
            text = " ".join(rng.choices(["reset", "the", "router", "while", "blinking"], k=words))
            documents.append(Document(f"d{j}", f"[[worth={rng.random():.2f}]] {text}"))
        pools.append(Pool(f"q{i}", "how do I reset it?", tuple(documents)))
    return pools


def pilot_of(pools, n):
    places = [("in.jsonl", number, pool.query_id) for number, pool in enumerate(pools)]
    chosen = estimate.pilot_lines(places, n, 0)
    return [pool for number, pool in enumerate(pools) if ("in.jsonl", number) in chosen]


@pytest.fixture
def few_rendered(monkeypatch):
    monkeypatch.setattr(estimate, "_MOST_RENDERED", 350)


# Nothing is known yet


def shown(found):
    """The table of an estimate, and what it says."""
    jobs = {"annotate": found}
    [section] = build_estimate(jobs, figures_of(jobs), []).sections
    return section.parts


def test_before_any_reply_the_figures_are_assumptions(tmp_path):
    pool = pool_of([1, 2])
    options, panel = job(tmp_path, LUNA)
    (request,) = missing(pool, panel, options)
    words = -(-measure_request(request.with_codes("")) // 4) + 20
    (found,) = estimated([pool], options, panel).forecasts
    assert (found.planned, found.answered, found.replies) == (1, 0, 0)
    assert (found.input_tokens, found.output_tokens) == (words, 250)
    most = panel[0].options["max_output_tokens"]
    for dollars, input_share, output in (
        (found.online.low, 0.75, 80),
        (found.online.expected, 1, 250),
        (found.online.high, 1.6, most),
    ):
        by_hand = words * input_share * 0.1e-6 + output * 0.5e-6
        assert dollars == pytest.approx(by_hand, rel=0.01)
    assert found.batch.expected == pytest.approx(found.online.expected / 2)


def test_a_judge_says_no_more_than_it_may(tmp_path):
    for judge, own, tokens in (
        (LUNA, {"max_output_tokens": 100}, 100),
        ("simulated:a", {"output_tokens": 120}, 120),
        ("offline:bm25", {}, 0),
    ):
        options, panel = job(tmp_path, judge, judge_options={judge: own})
        (found,) = estimated([POOL], options, panel).forecasts
        assert (found.left, found.output_tokens) == (6, 6 * tokens)
        assert (found.online.high == 0) == (judge != LUNA)


# Replies are there


def test_later_rounds_are_estimated_by_those_that_were_held(fakes, environ, tmp_path):
    pools = [replace(pool, documents=pool.documents[:2]) for pool in uneven_pools(60)]
    debating = {"protocol": "samre", "judges": (LUNA,)}
    pilot = ask(pilot_of(pools, 15), tmp_path, environ, **debating)
    panel, options = pilot.job
    (found,) = estimated(pools, options, panel, Ledger(str(tmp_path))).forecasts
    rest = ask(pools, tmp_path, environ, run_id="rest", **debating).books[len(pilot.books) :]
    assert found.left >= len(rest)
    for tokens in ("input_tokens", "output_tokens"):
        mean = sum(getattr(row, tokens) for row in rest) / len(rest)
        assert getattr(found, tokens) / found.left == pytest.approx(mean, rel=0.15)


def replies_of(request, rng):
    """A reply with tokens in proportion to the prompt, at times after one that did not read."""
    words = round(measure_request(request.with_codes("")) / 4 * 1.3)
    usage = Usage(words, round(rng.lognormvariate(4.5, 0.5)))
    counts = {"input_tokens": usage.input_tokens, "output_tokens": usage.output_tokens}
    dollars = price(request.judge, usage)
    row = reply_to(request.key, judge=request.judge.name, dollars=dollars, **counts)
    return [row._replace(status="invalid", final=False), row] if rng.random() < 0.05 else [row]


@pytest.mark.parametrize(
    ("share", "by_length", "cycles"),
    [
        (0.05, False, 4),  # a pilot
        (0.4, True, 4),  # a run that broke off, over input that begins with the shortest
        (0.5, False, 1),  # a run with fewer cycles: some of what it asked is not asked any more
    ],
)
def test_what_is_left_is_foretold_whatever_was_answered(
    tmp_path, monkeypatch, few_rendered, share, by_length, cycles
):
    monkeypatch.setattr(estimate, "_MOST_RENDERED", 700)
    pools = uneven_pools(300)
    options, panel = job(tmp_path, LUNA)
    first = pilot_of(pools, round(share * len(pools)))
    if by_length:
        pools.sort(key=lambda pool: sum(len(d.content) for d in pool.documents))
        first = pools[: len(first)]
    rng, ledger = Random(1), Ledger(str(tmp_path), "run")
    for pool in first:
        for request in missing(pool, panel, options.model_copy(update={"cycles": cycles})):
            ledger.append(replies_of(request, rng))
    every = [request for pool in pools for request in missing(pool, panel, options)]
    left = [request for request in every if not ledger.has(request.key)]
    ledger.close()
    bill = sum(row.dollars for request in left for row in replies_of(request, rng))
    found, answered = estimated(pools, options, panel), len(every) - len(left)
    assert found.forecasts[0].answered == pytest.approx(answered, rel=0 if cycles == 4 else 0.05)
    spread = found.dollars("online")
    assert spread.expected == pytest.approx(bill, rel=0.1)
    assert spread.low <= bill <= spread.high


@pytest.mark.parametrize("protocol", ["zelo", "samre", "best-of"])
def test_of_an_interrupted_run_what_each_judge_answered_counts(tmp_path, protocol):
    """Judges of different speed: one is far ahead on pools that wait for the other."""
    pools = graded_pools(8)
    options, panel = two_speeds(tmp_path, protocol=protocol, **short(protocol))
    ask_apart(pools, options, panel, enough=40)
    rows = Counter(row.judge for row in read_rows(str(tmp_path)))
    assert 0 < rows[SLOW] < rows[QUICK]
    found = estimated(pools, options, panel, Ledger(str(tmp_path)))
    assert {each.judge: each.answered for each in found.forecasts} == rows
    assert all(each.exact for each in found.forecasts)


def test_what_was_asked_again_and_cached_costs_so_again(tmp_path):
    options, panel = job(tmp_path, LUNA)

    def twice(row):
        return [row._replace(status="invalid", final=False), row]

    answer_all(tmp_path / "twice", [POOL], options, panel, twice, **USED, dollars=150e-6)
    at = {"ledger": str(tmp_path / "twice")}
    (found,) = estimated([POOL, TWIN], options.model_copy(update=at), panel).forecasts
    assert (found.answered, found.left, found.replies) == (6, 6, 6)
    assert found.input_tokens == pytest.approx(6 * 2000, rel=0.02)
    assert found.output_tokens == pytest.approx(6 * 200)
    assert found.online.expected == pytest.approx(6 * 300e-6, rel=0.02)
    assert found.batch.expected == pytest.approx(3 * 300e-6, rel=0.02)
    assert found.online.low / 0.95 <= found.online.expected <= found.online.high / 1.05
    used = {"input_tokens": 1000, "cached_tokens": 500, "cache_write_tokens": 100}
    answer_all(tmp_path, [POOL], options, panel, **used)
    (found,) = estimated([POOL, TWIN], options, panel).forecasts
    # 400 x 0.1 + 500 x 0.01 + 100 x 0.125, in millionths
    assert found.online.expected == pytest.approx(6 * 57.5e-6, rel=0.02)


def test_what_failed_or_is_not_final_is_missing(tmp_path):
    options, panel = job(tmp_path, LUNA)
    statuses = iter(("failed", "refused", "invalid", "ok", "ok", "ok"))

    def change(row):
        status = next(statuses)
        return [row._replace(status=status, final=status != "invalid")]

    answer_all(tmp_path, [POOL], options, panel, change, **USED)
    for retry, left in (((), 2), (("failed", "refused"), 3)):
        (found,) = estimated(
            [POOL], options, panel, **({"retry": retry} if retry else {})
        ).forecasts
        assert found.left == left


# Prices, batches, hours


def test_batches_are_for_those_who_have_them(tmp_path):
    options, panel = job(tmp_path, LUNA, QWEN, "offline:bm25", mode="batch")
    options = options.model_copy(update={"prices": {QWEN: Price(input=1, output=1)}})
    found = estimated([POOL], options, panel)
    assert [each.has_batch for each in found.forecasts] == [True, False, False]
    luna, qwen, offline = found.forecasts
    assert luna.batch.expected == pytest.approx(luna.online.expected / 2)
    assert (qwen.batch, offline.batch.high) == (qwen.online, 0)
    both = luna.batch.expected + qwen.online.expected
    assert found.dollars("batch").expected == pytest.approx(both)
    assert found.dollars("online").expected == pytest.approx(both + luna.batch.expected)


@pytest.mark.parametrize(
    ("judge", "limit", "minutes"),
    [
        (LUNA, {"rpm": 3}, 6 / 3),
        (LUNA, {"rpm": 3000, "tpm": 1100}, 6),  # 1,000 in and 100 out
        (HAIKU, {"rpm": 3000, "itpm": 500, "otpm": 500}, 6 * 2),
        (HAIKU, {"rpm": 3000, "itpm": 5000, "otpm": 10}, 6 * 10),
        (LITE, {"rpm": 3000, "tpm": 1000}, 6),  # its output does not count
    ],
)
def test_the_hours_are_those_of_the_tightest_limit(tmp_path, judge, limit, minutes):
    options, panel = job(tmp_path, judge, limits={judge: Limit(**limit)})
    answer_all(tmp_path, [POOL], options, panel, **USED)
    other = replace(POOL, query_id="q2", query="how do I reset ut?")
    (found,) = estimated([POOL, other], options, panel).forecasts
    assert found.left == 6
    assert found.hours * 60 == pytest.approx(minutes, rel=0.02)


def test_a_cap_is_compared_with_the_range(tmp_path):
    for cap, word in ((0.0001, "will exhaust"), (0.001, "may exhaust"), (1, "stays within")):
        found = estimated([POOL], *job(tmp_path, LUNA, max_usd=cap))
        spread = found.dollars("online")
        assert 0.0001 < spread.low < 0.001 < spread.high < 1
        assert word in shown(found)[-1]


def test_a_pilot_is_a_share_that_stays_when_the_input_grows():
    pilot_lines = estimate.pilot_lines
    places = [("in.jsonl", i, f"q{i}") for i in range(1000)]
    small = pilot_lines(places, 50, 0)
    assert len(small) == 50
    assert small < pilot_lines(places, 60, 0)
    assert small == pilot_lines(places[::-1], 50, 0) != pilot_lines(places, 50, 1)
    before = pilot_lines(places[:900], 50, 0)
    assert {p for p in small if p[1] < 900} <= before  # newcomers push some out, and draw none in
    assert 400 < sum(number for _, number in small) / 50 < 600
    assert len(pilot_lines(places, 2000, 0)) == 1000
    moved = [("other.jsonl", 7 * i, query_id) for _, i, query_id in places]
    assert pilot_lines(moved, 50, 0) == {("other.jsonl", 7 * i) for _, i in small}
