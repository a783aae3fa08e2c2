"""How much of an account's limits is used, and how many calls are refused for exceeding them.

Fakes with token buckets (a bucket holds 5 s of the rate) stand for OpenAI. Against each limit run,
in turn: zelo-ray with 1, 2 and 4 actors on two local Ray nodes, which is told the limit by the
response headers alone; a semaphore over the SDK with its own retries; and Ray Data's
HttpRequestProcessor, which is given the rate. Use is what the server accepted a minute between the
first and the last
call, divided by the limit; 429s are a share of all responses. Run: python -m benchmarks.limits
"""

import argparse
import asyncio
import contextlib
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from typing import Any
from urllib.request import urlopen

from benchmarks.online import MODEL, requests_of
from tests import crash
from zelo_ray.engine.ledger import read_rows
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
_PROCESSOR = """
import json, os, sys, logging
os.environ["RAY_BACKEND_LOG_LEVEL"] = "fatal"
import ray, ray.data
from ray.data.llm import HttpRequestProcessorConfig, build_processor
bodies = [json.loads(line) for line in open(sys.argv[1])]
ray.init(address="local", num_cpus=2, include_dashboard=False, log_to_driver=False,
         object_store_memory=300 * 2**20, _temp_dir=sys.argv[3])
ray.data.DataContext.get_current().enable_progress_bars = False
config = HttpRequestProcessorConfig(
    url=os.environ["OPENAI_BASE_URL"] + "/chat/completions",
    headers={"Authorization": "Bearer " + os.environ["OPENAI_API_KEY"]},
    qps=float(sys.argv[2]), concurrency=4, max_retries=50, batch_size=64,
)
processor = build_processor(config, preprocess=lambda row: dict(payload=json.loads(row["body"])),
                            postprocess=lambda row: dict(ok=True))
rows = ray.data.from_items([{"body": json.dumps(b)} for b in bodies], override_num_blocks=16)
for _ in processor(rows).iter_batches(batch_size=None):
    pass
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
        bodies = folder / "bodies.jsonl"
        bodies.write_text("".join(json.dumps(build_body(r, cached=False)) + "\n" for r in requests))
        runs: list[tuple[str, Any]] = [(f"zelo-ray, {n} actors on 2 nodes", n) for n in actors]
        runs += [("semaphore of 64 over the SDK", "semaphore"), ("HttpRequestProcessor", "ray")]
        for label, how in runs:
            own = folder / label.replace(" ", "-").replace(",", "")
            own.mkdir()
            server = ("--provider", "openai", "--latency", "0.5", "--burst", "5", *flags)
            with crash.fakes(own, *server) as environ:
                environ.pop("TEST_OPTION_LIMITS")
                began, lost = time.monotonic(), 0
                if how == "semaphore":
                    lost = asyncio.run(semaphore(requests, environ, 64))
                elif how == "ray":
                    temp = tempfile.mkdtemp(prefix="zr-")
                    rate = str(a_minute / 60)
                    command = [sys.executable, "-c", _PROCESSOR, str(bodies), rate, temp]
                    with subprocess.Popen(command, env=environ, stderr=subprocess.DEVNULL) as peer:
                        try:
                            peer.wait(timeout=seconds * 1.5)
                        except subprocess.TimeoutExpired:  # its figures are of what it did so far
                            crash.kill_tree(peer)
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


def measure_llmock(seconds: float, rpm: int = 600) -> None:
    """The same against an independent server: by our own ledger, and its verdict on our conduct."""
    (port,) = crash.free_ports(1)
    with tempfile.TemporaryDirectory(prefix="zl-") as name:
        folder = Path(name)
        llmock = [str(Path(sys.executable).parent / "llmock"), "serve", "--host", "127.0.0.1"]
        llmock += ["--port", str(port), "--rpm", str(rpm), "--latency-ms", "300"]
        # Its bucket holds a minute's worth at first, so only a longer run meets the limit.
        crash.write_pools(folder / "pools.jsonl", int(rpm * seconds / 60 / 48) + 1, 12)
        with subprocess.Popen(
            llmock, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        ) as server:
            url = f"http://127.0.0.1:{port}"
            while True:
                with contextlib.suppress(OSError):
                    urlopen(f"{url}/_llmock/verdict").close()
                    break
                time.sleep(0.2)
            environ = {**crash.bare_environment(), "OPENAI_API_KEY": "a-key-for-tests-only"}
            environ["OPENAI_BASE_URL"] = f"{url}/v1"
            began = time.monotonic()
            judge = ("--judges", f"openai:{MODEL}")
            run = crash.annotate(folder / "pools.jsonl", folder / "out", environ, *judge)
            crash.finish(run)
            took, verdict = time.monotonic() - began, json.load(urlopen(f"{url}/_llmock/verdict"))
            server.terminate()
        record = json.loads((folder / "out" / "run.json").read_text())
        (tally,) = record["judges"].values()
        came = sorted(
            datetime.fromisoformat(row.received_at).timestamp()
            for row in read_rows(str(folder / "out"))
        )
    use = (len(came) - 1) / (came[-1] - came[0]) * 60 / rpm
    refused = tally["throttled"] / (len(came) + tally["throttled"])
    print(f"| {rpm} rpm of llmock | zelo-ray | {use:.3f} | {refused:.2%} | | | {took:.0f} s |")
    print(f"llmock's verdict: {json.dumps(verdict)}", flush=True)


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
    if given.only in "llmock":
        measure_llmock(given.seconds)


if __name__ == "__main__":
    main()
