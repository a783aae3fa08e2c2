"""How much of an account's limits is used, and how many calls are refused for exceeding them.

Fakes with token buckets (a bucket holds 5 s of the rate) stand for OpenAI. Against each limit run,
in turn: zelo-ray with 1, 2 and 4 actors on two local Ray nodes, which is told the limit by the
response headers alone; and a semaphore over the SDK with its own retries. Use is what the server
accepted a minute between the first and the last call, divided by the limit; 429s are a share of all
responses. Run: python -m benchmarks.limits
"""

import argparse
import asyncio
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.request import urlopen

from benchmarks.online import MODEL, requests_of
from tests.helpers import crash
from zelo_ray.providers.openai import build_body

LIMITS = (("600 rpm", ("--rpm", "600")), ("6,000 rpm", ("--rpm", "6000")))
TOKENS = (("400,000 tpm", ("--rpm", "6000", "--tpm", "400000")),)
_TWO_NODES = """
import sys
from ray.cluster_utils import Cluster
node = dict(num_cpus=2, object_store_memory=300 * 2**20, include_dashboard=False)
cluster = Cluster(initialize_head=True, head_node_args=node)
node.pop("include_dashboard")
cluster.add_node(**node)
print(cluster.address, flush=True)
sys.stdin.read()
cluster.shutdown()
"""


@contextmanager
def two_nodes(environ: dict[str, str]) -> Iterator[str]:
    """The address of a Ray cluster of two nodes on this machine, which hold the keys."""
    command = [sys.executable, "-c", _TWO_NODES]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.DEVNULL}
    with subprocess.Popen(command, text=True, env=environ, **pipes) as process:
        assert process.stdout
        assert process.stdin
        yield process.stdout.readline().strip()
        process.stdin.close()


async def semaphore(requests: list[Any], environ: dict[str, str], in_flight: int) -> int:
    """A plain loop over the SDK, which retries by itself; how many calls failed in the end."""
    from openai import APIError, AsyncOpenAI, DefaultAioHttpClient  # noqa: PLC0415 - paid where it is used

    client = AsyncOpenAI(
        base_url=environ["OPENAI_BASE_URL"],
        api_key=environ["OPENAI_API_KEY"],
        max_retries=10,
        http_client=DefaultAioHttpClient(),
    )
    slots = asyncio.Semaphore(in_flight)

    async def call(request: Any) -> bool:
        async with slots:
            try:
                await client.chat.completions.create(**build_body(request, cached=False))
            except APIError:
                return True
            return False

    lost = await asyncio.gather(*(call(request) for request in requests))
    await client.close()
    return sum(lost)


def figures(folder: Path, limit: float, what: str) -> tuple[float, float]:
    """Use of the limit, and the share of 429s, from the server's own journal."""
    entries = crash.journal(folder)
    accepted = sorted((e for e in entries if e["status"] == 200), key=lambda e: e["arrived"])
    if len(accepted) < 2:
        return 0.0, 0.0
    span = accepted[-1]["arrived"] - accepted[0]["arrived"]
    if what == "tokens":
        used = sum(e["input_tokens"] + e["output_tokens"] for e in accepted[1:])
    else:
        used = len(accepted) - 1
    return used / span * 60 / limit, sum(e["status"] == 429 for e in entries) / len(entries)


def measure(name: str, flags: tuple[str, ...], seconds: float, actors: list[int]) -> None:
    what = "tokens" if "--tpm" in flags else "requests"
    limit = float(flags[-1])
    with tempfile.TemporaryDirectory(prefix="zl-") as folder_name:
        folder = Path(folder_name)
        a_minute = limit / 625 if what == "tokens" else limit
        crash.write_pools(folder / "pools.jsonl", int(a_minute * seconds / 60 / 48) + 1, 12)
        requests = requests_of(folder / "pools.jsonl")
        (folder / "shards").mkdir()
        lines = (folder / "pools.jsonl").read_text().splitlines(keepends=True)
        for i in range(8):
            (folder / "shards" / f"{i}.jsonl").write_text("".join(lines[i::8]))
        runs: list[tuple[str, Any]] = [(f"zelo-ray, {n} actors on 2 nodes", n) for n in actors]
        runs += [("semaphore of 64 over the SDK", "semaphore")]
        for label, how in runs:
            own = folder / label.replace(" ", "-").replace(",", "")
            own.mkdir()
            server = ("--provider", "openai", "--latency", "0.5", "--burst", "5", *flags)
            with crash.fakes(own, *server) as environ:
                environ.pop("TEST_OPTION_LIMITS")
                began, lost = time.monotonic(), 0
                if how == "semaphore":
                    lost = asyncio.run(semaphore(requests, environ, 64))
                else:
                    with two_nodes(environ) as address:
                        environ["RAY_ADDRESS"] = address
                        flags_of = ("--judges", f"openai:{MODEL}", "--actors", str(how))
                        run = crash.annotate(folder / "shards", own / "out", environ, *flags_of)
                        status, printed = crash.finish(run)
                        assert status == 0, printed
                took = time.monotonic() - began
                server_url = environ["OPENAI_BASE_URL"].partition("/openai")[0]
                stats = json.load(urlopen(f"{server_url}/stats"))
                use, refused = figures(own, limit, what)
            early = sum(model.get("early", 0) for model in stats["models"].values())
            print(
                f"| {name} | {label} | {use:.3f} | {refused:.2%} "
                f"| {early} | {lost} | {took:.0f} s |",
                flush=True,
            )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=130)
    parser.add_argument("--actors", type=int, nargs="+", default=[1, 2, 4])
    parser.add_argument("--only", default="", help="part of a limit's name")
    given = parser.parse_args()
    print("| limit | who | use | 429s | sent before Retry-After | lost | in all |")
    print("|---|---|---|---|---|---|---|")
    for name, flags in (*LIMITS, *TOKENS):
        if given.only in name:
            measure(name, flags, given.seconds, given.actors)


if __name__ == "__main__":
    main()
