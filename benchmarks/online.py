"""Calls a second of one provider's pool beside a bare loop over the same SDK client.

Both talk to a fake server on loopback whose every answer takes 0.3 s, with the same requests and
the same number of calls in flight, in turn. Rates come from the server's own journal: requests
divided by the time from the first arrival to the last answer. Run: python -m benchmarks.online
"""

import argparse
import asyncio
import json
import statistics
import tempfile
import time
from pathlib import Path
from typing import Any

from tests import crash
from zelo_ray.formats.pools import Limits, read_lines
from zelo_ray.protocols import find
from zelo_ray.protocols.zelo import ZeloOptions
from zelo_ray.providers import build_panel
from zelo_ray.providers.openai.connection import body
from zelo_ray.records import Request

MODEL = "gpt-6-luna"


def requests_of(pools: Path) -> list[Request]:
    options = ZeloOptions(inputs=(str(pools),), out="unused")
    panel = build_panel([f"openai:{MODEL}"], {})
    protocol = find("zelo")
    found = []
    for line in read_lines(str(pools), Limits()):
        assert line.pool
        found += next(protocol.rounds(line.pool, panel, options))
    return found


async def bare_loop(requests: list[Request], environ: dict[str, str], in_flight: int) -> None:
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
            await client.chat.completions.create(**body(request))

    await asyncio.gather(*(call(request) for request in requests))
    await client.close()


def rate(journal: list[dict[str, Any]]) -> float:
    first = min(entry["arrived"] for entry in journal)
    return len(journal) / (max(entry["finished"] for entry in journal) - first)


def pool_once(
    pools: Path, folder: Path, environ: dict[str, str], in_flight: int
) -> dict[str, float]:
    seen = len(crash.journal(folder))
    limits = {f"openai:{MODEL}": {"concurrency": in_flight, "rpm": 1e6}}
    environ = {**environ, "ZELO_RAY_LIMITS": json.dumps(limits)}
    out = Path(tempfile.mkdtemp(dir=folder))
    began = time.time()
    run = crash.annotate(pools, out, environ, "--judges", f"openai:{MODEL}")
    status, printed = crash.finish(run)
    assert status == 0, printed
    journal = crash.journal(folder)[seen:]
    seconds = json.loads((out / "run.json").read_text())["summary"]["seconds"]
    first = min(entry["arrived"] for entry in journal) - began
    return {"rate": rate(journal), "first": first, **seconds}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--queries", type=int, default=150)
    flags = parser.parse_args()
    print("| in flight | ideal | bare loop | pool | ratio | first request after | ... of which |")
    print("|---|---|---|---|---|---|---|")
    for in_flight in (32, 100, 256):
        ratios, bare, pooled, runs = [], [], [], []
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            pools = folder / "pools.jsonl"
            crash.write_pools(pools, min(flags.queries, in_flight * 4), 12)
            requests = requests_of(pools)
            with crash.fakes(folder, "--provider", "openai", "--latency", "0.3") as environ:
                for _ in range(flags.rounds):
                    seen = len(crash.journal(folder))
                    asyncio.run(bare_loop(requests, environ, in_flight))
                    bare.append(rate(crash.journal(folder)[seen:]))
                    runs.append(pool_once(pools, folder, environ, in_flight))
                    pooled.append(runs[-1]["rate"])
                    ratios.append(pooled[-1] / bare[-1])
        middle = sorted(runs, key=lambda run: run["first"])[len(runs) // 2]
        rest = middle["first"] - middle["read"] - middle["start Ray"]
        print(
            f"| {in_flight} | {in_flight / 0.3:.0f} | {statistics.median(bare):.0f} "
            f"| {statistics.median(pooled):.0f} | {statistics.median(ratios):.2f} "
            f"({min(ratios):.2f}-{max(ratios):.2f}) | {middle['first']:.1f} s "
            f"| start Ray {middle['start Ray']:.1f} s, import and first dataset {rest:.1f} s |",
            flush=True,
        )


if __name__ == "__main__":
    main()
