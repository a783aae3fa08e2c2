"""Processor time to settle a vote: from a recorded reply to rows of the result files.

    python -m benchmarks.settling [--queries 1000] [--times 3] [--protocol zelo]

Pools of 25 documents of 60 to 160 words, three judges, 300 votes a pool: nothing is called, answers
of 60 words are made up, a few of them wrapped, cut off or unreadable. Each time is that of a
process of one core, in user and system, without start and opening the ledger; the bytes written are
always the same. Run in another checkout, it tells what a change costs.
"""

import argparse
import hashlib
import json
import os
import random
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import pyarrow as pa

from benchmarks.scale import write_pools
from zelo_ray.engine.job import Job
from zelo_ray.engine.ledger import Ledger, read_rows, update_index
from zelo_ray.engine.replies import check_answer
from zelo_ray.engine.request_plans import RequestPlans
from zelo_ray.engine.sweeps import ResultsBuilder
from zelo_ray.engine.write_results import write_results
from zelo_ray.files.pools import LineLimits, read_lines
from zelo_ray.protocols import Progress, load_protocol
from zelo_ray.providers import parse_judge
from zelo_ray.records import Answer, Reply, Usage

JUDGES = ("openai:gpt-6-luna", "anthropic:claude-haiku-4-5", "gemini:gemini-3.5-flash")


def main() -> None:
    given = argparse.ArgumentParser(description=__doc__)
    given.add_argument("--queries", type=int, default=1_000)
    given.add_argument("--times", type=int, default=3)
    given.add_argument("--protocol", default="zelo")
    options = given.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        write_pools(place / "pools.jsonl", options.queries)
        print(f"{build(place, options.protocol):,} replies", flush=True)
        for _ in range(options.times):
            threads = dict.fromkeys(("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS"), "1")
            command = (sys.executable, "-m", "benchmarks.settling", str(place), options.protocol)
            subprocess.run(command, env=os.environ | threads, check=True)


def make_job(place: Path, protocol: str) -> Job:
    options = load_protocol(protocol).options(
        inputs=(str(place / "pools.jsonl"),), out=str(place / "out"), protocol=protocol
    )
    panel = tuple(parse_judge(name) for name in JUDGES)
    return Job(options, panel, "run", frozenset())


def answer_text(request: Any, rng: random.Random) -> str:
    """Make up an answer of some 60 words."""
    words = " ".join(rng.choices(request.user.split(), k=60)).replace('"', "")
    if "preference" in request.response_model.model_fields:
        value: float = rng.choice((rng.randint(-10, 10) / 10, rng.randint(-1, 1)))
        answer: dict[str, Any] = {"reasoning": words, "preference": value}
    else:
        facets = {"facets_covered": [words[:40]], "facets_missing": [words[40:70]]}
        answer = {**facets, "rationale": words, "grade": rng.randint(0, 3)}
    text = json.dumps(answer)
    luck = rng.random()
    return f"```json\n{text}\n```" if luck < 0.02 else text[:-9] if luck < 0.03 else text


def build(place: Path, protocol: str) -> int:
    """Fill a ledger as answers do."""
    job = make_job(place, protocol)
    ledger, rows, written = Ledger(job.options.ledger_dir, "run"), [], 0
    columns = {
        "model": "model",
        "input_tokens": 800,
        "output_tokens": 120,
        "cached_tokens": 0,
        "cache_write_tokens": 0,
        "thinking_tokens": 0,
        "dollars": 0.001,
        "attempts": 1,
        "received_at": "2026-01-01T00:00:00.000+00:00",
        "run_id": "run",
    }
    plans = RequestPlans(job.options, "run")
    for line in read_lines(str(place / "pools.jsonl"), LineLimits()):
        progress = Progress(load_protocol(protocol).rounds(line.pool, job.panel, job.options))
        while missing := progress.step(ledger).missing:
            for request in missing:
                rng = random.Random(request.key)
                given = Answer("ok", answer_text(request, rng), Usage(800, 120), "model")
                answer = check_answer(request.response_model, given, request.user).answer
                reply = {"key": request.key, "judge": request.judge.name}
                reply |= {"status": answer.status, "text": answer.text, "reason": answer.reason}
                reply["parsed"] = answer.parsed
                rows.append(Reply(**reply, **columns))
            written += len(rows)
            ledger.append(rows)
            rows = []
        plans.keep(line.pool, progress.plan(), job.panel)
    plans.close()
    ledger.close()
    update_index(job.options.ledger_dir)
    return written


def settle(place: Path, protocol: str) -> None:
    """Build and write the results, by one core."""
    os.sched_setaffinity(0, {sorted(os.sched_getaffinity(0))[0]})
    pa.set_cpu_count(1)
    job, out = make_job(place, protocol), place / "out"
    replies = sum(1 for _ in read_rows(job.options.ledger_dir))
    for segment in (out / "replies").glob("*.jsonl"):
        segment.read_bytes()
    actor = ResultsBuilder(job, None)
    lines = [*read_lines(str(place / "pools.jsonl"), LineLimits())]
    begun = time.process_time()
    blocks = (actor.build(lines[at : at + 32]) for at in range(0, len(lines), 32))
    write_results(blocks, job.options)
    used = time.process_time() - begun
    digest = hashlib.sha256()
    for name in sorted(path.name for path in out.glob("*.parquet")):
        digest.update((out / name).read_bytes())
    print(f"{used / replies * 1e6:.1f} us a reply; {digest.hexdigest()[:16]}", flush=True)


if __name__ == "__main__":
    if sys.argv[1:2] and not sys.argv[1].startswith("-"):
        settle(Path(sys.argv[1]), sys.argv[2])
    else:
        main()
