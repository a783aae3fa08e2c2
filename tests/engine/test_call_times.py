"""The seconds of a call: what a reply in the ledger says of them, whoever answered."""

import asyncio
import json
import time
import zlib

import pytest

from tests.fakes.rerank import Rerankers, pool, rank
from tests.helpers.builders import reply_to
from zelo_ray.engine.ledger import Ledger
from zelo_ray.engine.ledger.segments import parse_row, reply_from_row, reply_to_line
from zelo_ray.protocols.rankers import Scores
from zelo_ray.records import Judge, Request
from zelo_ray.rerankers import local

POOLS = [pool(query_id=f"q{number}") for number in range(6)]
PAUSE = 0.25
OWN = f"""
import asyncio, time


class Plain:
    version = 1

    def __init__(self):
        time.sleep({PAUSE * 4})

    def score(self, query, documents):
        time.sleep({PAUSE})
        return [1.0] * len(documents)


class Waiting:
    version = 1

    async def score(self, query, documents):
        await asyncio.sleep({PAUSE})
        return [1.0] * len(documents)
"""


@pytest.fixture
def own(tmp_path):
    (tmp_path / "own_times.py").write_text(OWN)
    return lambda name: f"{tmp_path}/own_times.py:{name}"


def test_a_reranker_of_ones_own_is_timed_without_its_queue_and_its_making(own, tmp_path):
    rows = rank(POOLS, tmp_path / "out", {}, f"own={own('Plain')}").books
    assert [PAUSE <= row.seconds < 2 * PAUSE for row in rows] == [True] * 6  # no other one's
    assert [row.in_flight for row in rows] == [1] * 6
    loads = sorted(row.load_seconds for row in rows)
    assert loads[:-1] == [0.0] * 5
    assert loads[-1] > PAUSE * 4


def test_one_that_waits_is_timed_with_as_many_as_are_in_flight(own, tmp_path):
    rows = rank(POOLS, tmp_path / "out", {}, f"own={own('Waiting')}").books
    assert [PAUSE <= row.seconds < 2 * PAUSE for row in rows] == [True] * 6
    assert max(row.in_flight for row in rows) == 6


def test_a_failed_try_and_the_wait_after_it_do_not_count(tmp_path):
    with Rerankers() as server:
        url = f"{server.url}/vllm/v1"
        server.faults = [(429, {"Retry-After": "1"}), 503]
        [row] = rank(POOLS[:1], tmp_path / "out", {}, f"h=rerank:m@{url}").books
    assert row.status == "ok"
    assert row.attempts == 3
    assert 0 < row.seconds < 0.3  # not the second that the server asked for


def test_a_local_model_says_its_device_and_what_loading_it_took():
    def load(judge):
        time.sleep(PAUSE)
        return local.LoadedModel(lambda query, texts: [0.0] * len(texts), "cuda:3")

    connection = local.Local(load)
    judge = Judge("cross-encoder", "m", None, {})
    request = Request(judge, "", "{}", Scores, "q", POOLS[0].documents)

    async def send_two():
        return [await connection.send(request), await connection.send(request)]

    first, second = (answer.timing for answer in asyncio.run(send_two()))
    assert first.load_seconds > PAUSE > first.seconds
    assert (second.load_seconds, second.device, second.in_flight) == (0.0, "cuda:3", 1)


def test_rows_of_earlier_versions_have_no_time(tmp_path):
    row = json.loads(reply_to_line(reply_to(1, "text")))
    for name in ("seconds", "load_seconds", "device", "in_flight", "crc32"):
        del row[name]
    body = json.dumps(row, separators=(",", ":"))[:-1].encode()
    line = body + b',"crc32":"%08x"}\n' % zlib.crc32(body)
    reply = reply_from_row(parse_row(line))
    assert (reply.seconds, reply.load_seconds, reply.device, reply.in_flight) == (0.0, 0.0, "", 0)
    folder = tmp_path / "replies"
    folder.mkdir()
    (folder / "run-old-1.v2.jsonl").write_bytes(line)
    ledger = Ledger(str(tmp_path))
    assert ledger.read([reply.key]) == [reply]
