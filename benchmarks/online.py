"""Calls a second of a run beside a bare loop over the same SDK client.

    python -m benchmarks.online [--in-flight 32 100 300]

Both talk to a fake server on loopback whose every answer takes 0.3 s, with the same requests and
the same number of calls in flight, in turn. Rates come from the server's own journal: requests
divided by the time from the first arrival to the last answer.
"""

import argparse
import asyncio
import json
import statistics
import tempfile
from pathlib import Path
from typing import Any

from tests.helpers import crash
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


async def bare_loop(requests: list[Request], environ: dict[str, str], in_flight: int) -> None:
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
            body = build_body(request, cached=False)
            await client.post("/chat/completions", cast_to=Response, body=body)

    await asyncio.gather(*(call(request) for request in requests))
    await client.close()


def judged(pools: Path, folder: Path, environ: dict[str, str], in_flight: int) -> None:
    """Judge the pools by the command line."""
    limits = {f"openai:{MODEL}": {"concurrency": in_flight, "rpm": 1e6}}
    environ = {**environ, "TEST_OPTION_LIMITS": json.dumps(limits)}
    out = Path(tempfile.mkdtemp(dir=folder))
    run = crash.annotate(pools, out, environ, "--judges", f"openai:{MODEL}")
    status, printed = crash.finish(run)
    assert status == 0, printed


def rate(journal: list[dict[str, Any]]) -> float:
    first = min(entry["arrived"] for entry in journal)
    return len(journal) / (max(entry["finished"] for entry in journal) - first)


def measure(in_flight: int, rounds: int, queries: int) -> None:
    rates: dict[str, list[float]] = {"loop": [], "run": []}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        pools = folder / "pools.jsonl"
        crash.write_pools(pools, min(queries, in_flight * 4), 12)
        requests = requests_of(pools)
        with crash.fakes(folder, "--provider", "openai", "--latency", "0.3") as environ:
            for _ in range(rounds):
                for kind, own in rates.items():
                    seen = len(crash.journal(folder))
                    if kind == "loop":
                        asyncio.run(bare_loop(requests, environ, in_flight))
                    else:
                        judged(pools, folder, environ, in_flight)
                    own.append(rate(crash.journal(folder)[seen:]))
    ratio = statistics.median(
        run / loop for run, loop in zip(rates["run"], rates["loop"], strict=True)
    )
    medians = (f"{statistics.median(own):.0f}" for own in rates.values())
    print(f"| {in_flight} | {' | '.join(medians)} | {ratio:.2f} |", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--queries", type=int, default=150)
    parser.add_argument("--in-flight", type=int, nargs="+", default=[32, 100, 300])
    flags = parser.parse_args()
    print("| in flight | calls a second of the loop | of a run | ratio |\n|---:|---:|---:|---:|")
    for in_flight in flags.in_flight:
        measure(in_flight, flags.rounds, flags.queries)


if __name__ == "__main__":
    main()
