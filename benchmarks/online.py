"""Calls a second of one provider's pool beside bare loops over the same SDK client.

All talk to a fake server on loopback whose every answer takes 0.3 s, with the same requests and
the same number of calls in flight, in turn. One bare loop uses the SDK's typed method, the other
its ``post``, as the pool does. Rates come from the server's own journal: requests divided by the
time from the first arrival to the last answer. CPU is the milliseconds of a processor that a call
takes the client: the loop's process, or the actors'. With several actors each has as many calls in
flight as the one has else. Run: python -m benchmarks.online
"""

import argparse
import asyncio
import json
import statistics
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

import psutil

from tests import crash
from zelo_ray.files.pools import LineLimits, read_lines
from zelo_ray.protocols import find_protocol
from zelo_ray.protocols.zelo import ZeloOptions
from zelo_ray.providers import build_panel
from zelo_ray.providers.openai import build_body
from zelo_ray.records import Request

MODEL = "gpt-6-luna"


def requests_of(pools: Path) -> list[Request]:
    options = ZeloOptions(inputs=(str(pools),), out="unused")
    panel = build_panel([f"openai:{MODEL}"], {})
    protocol = find_protocol("zelo")
    found = []
    for line in read_lines(str(pools), LineLimits()):
        assert line.pool
        found += next(protocol.rounds(line.pool, panel, options))
    return found


async def bare_loop(
    requests: list[Request], environ: dict[str, str], in_flight: int, *, typed: bool
) -> None:
    from httpx2 import Response  # noqa: PLC0415 - paid where it is used
    from openai import AsyncOpenAI, DefaultAioHttpClient  # noqa: PLC0415 - paid where it is used

    client = AsyncOpenAI(
        base_url=environ["OPENAI_BASE_URL"],
        api_key=environ["OPENAI_API_KEY"],
        max_retries=0,
        http_client=DefaultAioHttpClient(),
    )
    slots = asyncio.Semaphore(in_flight)

    async def call(request: Request) -> None:
        async with slots:
            if typed:
                await client.chat.completions.create(**build_body(request, cached=False))
            else:
                await client.post(
                    "/chat/completions", cast_to=Response, body=build_body(request, cached=False)
                )

    await asyncio.gather(*(call(request) for request in requests))
    await client.close()


class ActorSeconds(threading.Thread):
    """Seconds of a processor that the asking actors of a run have used, looked at all the while."""

    def __init__(self, pid: int) -> None:
        super().__init__(daemon=True)
        self._root, self._used, self.ended = psutil.Process(pid), dict[int, float](), False

    def run(self) -> None:
        while not self.ended:
            time.sleep(0.5)
            try:
                for process in self._root.children(recursive=True):
                    if "OnlineActor" in " ".join(process.cmdline()):
                        times = process.cpu_times()
                        self._used[process.pid] = times.user + times.system
            except psutil.Error:
                continue

    @property
    def total(self) -> float:
        return sum(self._used.values())


def bare_once(
    folder: Path, requests: list[Request], environ: dict[str, str], in_flight: int, *, typed: bool
) -> dict[str, float]:
    seen, began = len(crash.journal(folder)), time.process_time()
    asyncio.run(bare_loop(requests, environ, in_flight, typed=typed))
    cpu = 1000 * (time.process_time() - began) / len(requests)
    return {"rate": rate(crash.journal(folder)[seen:]), "cpu": cpu}


def most_in_a_tenth(journal: list[dict[str, Any]]) -> int:
    """The most calls that arrived in a tenth of a second, once all slots were taken."""
    first = min(entry["arrived"] for entry in journal) + 1.0
    tenths = [int((entry["arrived"] - first) * 10) for entry in journal]
    return max((tenths.count(each) for each in set(tenths) if each >= 0), default=0)


def rate(journal: list[dict[str, Any]]) -> float:
    first = min(entry["arrived"] for entry in journal)
    return len(journal) / (max(entry["finished"] for entry in journal) - first)


def pool_once(
    pools: Path, folder: Path, environ: dict[str, str], in_flight: int, actors: int
) -> dict[str, float]:
    seen = len(crash.journal(folder))
    limits = {f"openai:{MODEL}": {"concurrency": in_flight * actors, "rpm": 1e6}}
    environ = {**environ, "TEST_OPTION_LIMITS": json.dumps(limits)}
    out = Path(tempfile.mkdtemp(dir=folder))
    began = time.time()
    flags = ("--judges", f"openai:{MODEL}", "--actors", str(actors))
    run = crash.annotate(pools, out, environ, *flags)
    used = ActorSeconds(run.pid)
    used.start()
    status, printed = crash.finish(run)
    used.ended = True
    assert status == 0, printed
    journal = crash.journal(folder)[seen:]
    seconds = json.loads((out / "run.json").read_text())["summary"]["seconds"]
    return {
        "rate": rate(journal),
        "cpu": 1000 * used.total / len(journal),
        "most": most_in_a_tenth(journal),
        "first": min(entry["arrived"] for entry in journal) - began,
        **seconds,
    }


def measure(in_flight: int, flags: argparse.Namespace) -> None:
    runs: dict[str, list[dict[str, float]]] = {"typed": [], "post": [], "pool": []}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        shards = folder / "pools"
        shards.mkdir()
        crash.write_pools(folder / "all.jsonl", min(flags.queries, in_flight * 4), 12)
        lines = (folder / "all.jsonl").read_text().splitlines(keepends=True)
        for i in range(flags.actors):  # a file is a block at least, and a block is one actor's
            (shards / f"{i}.jsonl").write_text("".join(lines[i :: flags.actors]))
        requests = requests_of(folder / "all.jsonl")
        with crash.fakes(folder, "--provider", "openai", "--latency", "0.3") as environ:
            server = psutil.Process().children()[-1]
            for _ in range(flags.rounds):
                for kind in ("typed", "post") if not flags.pool_only else ():
                    given = (folder, requests, environ, in_flight)
                    runs[kind].append(bare_once(*given, typed=kind == "typed"))
                runs["pool"].append(pool_once(shards, folder, environ, in_flight, flags.actors))
            times, asked = server.cpu_times(), len(crash.journal(folder))
    served = 1000 * (times.user + times.system) / asked

    def middle(kind: str, what: str) -> float:
        return statistics.median([run[what] for run in runs[kind]] or [float("nan")])

    ratios = [
        statistics.median(
            [
                mine["rate"] / bare["rate"]
                for mine, bare in zip(runs["pool"], runs[kind], strict=False)
            ]
            or [float("nan")]
        )
        for kind in ("typed", "post")
    ]
    print(
        f"| {in_flight} | {flags.actors} | {in_flight * flags.actors / 0.3:.0f} "
        f"| {middle('typed', 'rate'):.0f} ({middle('typed', 'cpu'):.2f}) "
        f"| {middle('post', 'rate'):.0f} ({middle('post', 'cpu'):.2f}) "
        f"| {middle('pool', 'rate'):.0f} ({middle('pool', 'cpu'):.2f}) "
        f"| {ratios[0]:.2f} | {ratios[1]:.2f} | {middle('pool', 'most'):.0f} | {served:.2f} "
        f"| {middle('pool', 'first'):.1f} s |",
        flush=True,
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--queries", type=int, default=150)
    parser.add_argument("--in-flight", type=int, nargs="+", default=[32, 100, 300])
    parser.add_argument("--actors", type=int, default=1)
    parser.add_argument("--pool-only", action="store_true")
    flags = parser.parse_args()
    print(
        "| in flight an actor | actors | ideal | typed loop (CPU ms) | post loop | pool "
        "| to typed | to post | most in .1 s | server's CPU ms | first request after |"
    )
    print("|---|---|---|---|---|---|---|---|---|---|---|")
    for in_flight in flags.in_flight:
        measure(in_flight, flags)


if __name__ == "__main__":
    main()
