"""A hundred thousand requests through one provider's batches: time and memory of the whole run.

Batches end at once at the fake server, so the time is that of building, uploading, harvesting and
fitting. Repeats are requests that the server answered more than once. Memory is that of all
processes of the run, and of the actor that sends and collects alone.

Run: python -m benchmarks.batches [--provider openai anthropic gemini]
"""

import argparse
import json
import tempfile
import threading
import time
from collections import Counter
from pathlib import Path

import psutil

from benchmarks.cranfield import PeakMemory
from tests import crash

DOCUMENTS, BYTES = 12, 1500


class ActorMemory(threading.Thread):
    """The most that the sending actors of a run have held at once, in resident bytes."""

    def __init__(self, pid: int) -> None:
        super().__init__(daemon=True)
        self.root, self.peak, self.ended = psutil.Process(pid), 0, False

    def run(self) -> None:
        while not self.ended:
            time.sleep(1.0)
            try:
                for process in self.root.children(recursive=True):
                    if "BatchActor" in " ".join(process.cmdline()):
                        self.peak = max(self.peak, process.memory_info().rss)
            except psutil.Error:
                continue


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--provider", nargs="+", default=["openai", "anthropic", "gemini"])
    parser.add_argument("--requests", type=int, default=100_000)
    flags = parser.parse_args()
    print(
        "| provider | judgments | batches | repeats | failures | plan to last reply | fit, write "
        "| wall | peak (PSS) | actor's peak |"
    )
    print("|---|---|---|---|---|---|---|---|---|---|")
    for provider in flags.provider:
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            write_pools(folder / "pools.jsonl", flags.requests // (4 * DOCUMENTS))
            with crash.fakes(folder, "--provider", provider, judges=()) as environ:
                began = time.monotonic()
                run = crash.annotate(
                    *(folder / "pools.jsonl", folder / "out", environ),
                    *("--judges", provider, "--mode", "batch", "--batch-poll", "2"),
                )
                memory = PeakMemory(run.pid)
                actor = ActorMemory(run.pid)
                memory.start()
                actor.start()
                status, printed = crash.finish(run, timeout=1800)
                memory.ended = actor.ended = True
                wall = time.monotonic() - began
            assert status == 0, printed
            summary = json.loads((folder / "out" / "run.json").read_text())["summary"]
            batches = len(list((folder / "out" / "batches").glob("*.json")))
            seconds = summary["seconds"]
            asked = Counter(entry["sha"] for entry in crash.answers(folder))
            repeats = asked.total() - len(asked)
        print(
            f"| {provider} | {summary['judgments']:,} | {batches} | {repeats} "
            f"| {summary['failures']} | {seconds['ask']:.0f} s | {seconds['fit and write']:.0f} s "
            f"| {wall:.0f} s | {memory.peak / 2**30:.2f} GiB | {actor.peak / 2**30:.2f} GiB |",
            flush=True,
        )


def write_pools(path: Path, queries: int) -> None:
    """Pools of documents of some length."""
    crash.write_pools(path, queries, DOCUMENTS)
    lines = []
    for line in path.read_text().splitlines():
        pool = json.loads(line)
        for document in pool["documents"]:
            document["content"] += " padding" * (BYTES // 8)
        lines.append(json.dumps(pool))
    path.write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
