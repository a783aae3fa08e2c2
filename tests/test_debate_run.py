"""The protocols over two answers, on MT-Bench: online, in batches, stopped and resumed, killed.

All but the last in one process, without Ray.
"""

import asyncio
import random
from collections import Counter, defaultdict
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import orjson
import pytest

from tests import builders, crash
from tests.builders import THREE, ask, options_of, rows_of, send_away
from tests.fakes import Fakes, knowing, mtbench
from zelo_ray.engine.batch import BatchClient
from zelo_ray.engine.build_results import build_results
from zelo_ray.engine.ledger import Ledger, read_rows
from zelo_ray.engine.online import OnlineClient
from zelo_ray.engine.write_results import write_results
from zelo_ray.files.pools import LineLimits, parse_line, pool_row, to_line
from zelo_ray.protocols import load_protocol
from zelo_ray.providers import build_panel

JOBS = {
    "best-of": {},
    "samre": {},
    "baseline-strong": {"rounds": 2},
    "baseline-weak": {},
}
NOISE = 0.7
WAYS = {"online": ask, "batch": send_away}


@pytest.fixture(scope="module")
def pools_of(published):
    """Twelve pairs for each protocol; for best-of there are two pools of six answers besides."""
    folder = published / "mtbench_human"
    pairs = mtbench.pairs(folder, 12)
    questions = {pool.query_id.partition("-")[0] for pool in pairs}
    more = mtbench.pools(folder, 2, without=questions)
    return {protocol: pairs + more if protocol == "best-of" else pairs for protocol in JOBS}


@pytest.fixture
def fakes(monkeypatch):
    with Fakes(judge=partial(knowing.judge, noise=NOISE), bodies=True) as fakes:
        for name, variable in crash.URLS.items():
            monkeypatch.setenv(variable, fakes.urls[name])
        yield fakes


@pytest.fixture(scope="module")
def kept(tmp_path_factory):
    """What runs that nobody disturbed came to, by protocol: see `undisturbed`."""
    return defaultdict(lambda: Outcome(tmp_path_factory.mktemp("undisturbed")))


@dataclass
class Outcome:
    """A run's directory, its files, and how often each question was put."""

    out: Path
    files: dict[str, bytes] = field(default_factory=dict)
    asked: Counter[str] = field(default_factory=Counter)


@pytest.fixture
def undisturbed(fakes, environ, pools_of, kept):
    """Gives what a protocol comes to by calls, from one run for all tests."""

    def outcome(protocol):
        found, pools = kept[protocol], pools_of[protocol]
        if not found.files:
            assert run(protocol, "online", pools, found.out, environ) == ""
            found.files = files(protocol, pools, found.out, environ)
            found.asked = questions(fakes)
            calls = calls_of(protocol, pools, found.out)
            assert by_item(fakes, pools) == calls
            assert len(sent(fakes)) == calls.total() == len(list(read_rows(str(found.out))))
            fakes.journal.clear()
        return found

    return outcome


def run(protocol, way, pools, out, environ, **more):
    """Fill a ledger; why that stopped, and empty if it came to its end."""
    found = WAYS[way](pools, out, environ, protocol=protocol, **JOBS[protocol], **more)
    (stopped,) = {each.stopped for each in ([found] if way == "online" else found.values())}
    return stopped


def files(protocol, pools, out, environ):
    """What a ledger comes to, byte by byte."""
    options = options_of(out=str(out), protocol=protocol, **JOBS[protocol])
    lines = [
        parse_line("in", i, to_line(pool_row(pool)), LineLimits())
        for i, pool in enumerate(pools, 1)
    ]
    panel = build_panel((), {}, environ)
    summary = write_results([build_results(lines, panel, options, Ledger(str(out)))], options)
    assert (summary.missing, summary.failures, summary.unscored) == (0, 0, {})
    names = (*load_protocol(protocol).tables, "scores")
    tables = {name: (out / f"{name}.parquet").read_bytes() for name in names}
    return {"annotated": (out / "annotated.jsonl").read_bytes(), **tables}


def sent(fakes):
    """All calls, and all lines of batches."""
    return [entry for entry in fakes.journal if entry["endpoint"] in ("answer", "line")]


def questions(fakes):
    """How often each question was put: the same body, online or in a batch, is the same one."""
    return Counter(entry["sha"] for entry in sent(fakes))


def by_item(fakes, pools):
    """How many questions were put about each pool, by provider."""
    counts = Counter()
    for entry in sent(fakes):
        texts = "\n".join(strings(orjson.loads(entry["body"])))
        (item,) = [
            pool.query_id for pool in pools if sum(d.content in texts for d in pool.documents) >= 2
        ]
        counts[item, entry["provider"]] += 1
    return counts


def strings(value):
    if isinstance(value, dict | list):
        inner = value.values() if isinstance(value, dict) else value
        return [text for each in inner for text in strings(each)]
    return [value] if isinstance(value, str) else []


def calls_of(protocol, pools, out):
    """How many calls each pool takes of each provider, as the protocol is defined."""
    if protocol == "best-of":
        winners = rows_of(out, "winners")
        assert len(winners) == len(pools) * len(THREE)
        contests = {pool.query_id: len(pool.documents) - 1 for pool in pools}
        assert all(one["contests"] == contests[one["query_id"]] for one in winners)
        return Counter({(pool, each): n for pool, n in contests.items() for each in THREE})
    verdicts = rows_of(out, "verdicts")
    assert len(verdicts) == len(pools) * len(THREE)
    rounds = {(one["query_id"], one["judge"].partition(":")[0]): one["rounds"] for one in verdicts}
    possible = {"samre": {2, 3, 4}, "baseline-strong": {2}, "baseline-weak": {1}}[protocol]
    assert set(rounds.values()) == possible
    calls = 4 if protocol == "samre" else 1
    return Counter({item: calls * number for item, number in rounds.items()})


@pytest.mark.parametrize("protocol", JOBS)
def test_batches_come_to_what_calls_come_to(
    undisturbed, fakes, environ, tmp_path, pools_of, protocol
):
    """To calls as many as the protocol is defined to take, of each judge on each item."""
    expected, pools = undisturbed(protocol), pools_of[protocol]
    assert run(protocol, "batch", pools, tmp_path, environ) == ""
    assert {entry["endpoint"] for entry in sent(fakes)} == {"line"}
    assert questions(fakes) == expected.asked
    assert files(protocol, pools, tmp_path, environ) == expected.files


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("protocol", JOBS)
def test_stopped_in_the_middle_it_goes_on_and_asks_nothing_twice(
    undisturbed, fakes, environ, tmp_path, pools_of, monkeypatch, protocol, way
):
    expected, pools = undisturbed(protocol), pools_of[protocol]
    total = expected.asked.total()
    most = random.Random(f"{protocol} {way}").randint(total // 4, total // 2)
    few = {judge.name: {"concurrency": 2} for judge in build_panel((), {}, environ)}
    with monkeypatch.context() as patch:
        patch.setattr(builders, *impatient(way, lambda: len(sent(fakes)) >= most))
        assert run(protocol, way, pools, tmp_path, environ, limits=few) == "enough"
    assert len(list(read_rows(str(tmp_path)))) < total
    assert run(protocol, way, pools, tmp_path, environ) == ""
    assert questions(fakes) == expected.asked
    assert files(protocol, pools, tmp_path, environ) == expected.files


def impatient(way, enough):
    """What fills a ledger that way, and stops as soon as there is enough."""

    async def stop(filler):
        while not enough():
            await asyncio.sleep(0.002)
        filler.stop("enough")

    class ImpatientAsker(OnlineClient):
        async def ask_about(self, pool):
            await asyncio.gather(super().ask_about(pool), stop(self))

    class ImpatientBatcher(BatchClient):
        async def run(self, pools):
            await asyncio.gather(super().run(pools), stop(self))

    return (
        ("OnlineClient", ImpatientAsker) if way == "online" else ("BatchClient", ImpatientBatcher)
    )


@pytest.mark.ray
@pytest.mark.nightly
def test_a_debate_that_is_killed_goes_on_where_it_was(undisturbed, tmp_path, pools_of):
    expected, pools = undisturbed("samre"), tmp_path / "pools.jsonl"
    pools.write_bytes(b"".join(to_line(pool_row(pool)) + b"\n" for pool in pools_of["samre"]))
    out, flags = tmp_path / "out", ("--protocol", "samre")
    noisy = ("--judge-options", f'{{"noise": {NOISE}}}')
    with crash.fakes(tmp_path, "--latency", "0.1", *noisy) as environ:
        half = expected.asked.total() // 2
        with crash.held(environ, after=half):
            killed = crash.annotate(pools, out, environ, *flags)
            crash.await_requests(tmp_path, half, killed)
            assert killed.poll() is None, crash.finish(killed)[1]
            crash.kill_tree(killed)
        status, printed = crash.finish(crash.annotate(pools, out, environ, *flags))
    assert status == 0, printed
    assert crash.paid_twice(tmp_path, out)[1] == 0
    for name in ("verdicts", "scores"):
        assert rows_of(out, name) == rows_of(expected.out, name)
