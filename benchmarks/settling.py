"""Processor time to settle a vote: from a recorded reply to rows of the result files.

    python -m benchmarks.settling [--before CHECKOUT] [--queries 1000] [--times 3]
                                  [--protocol zelo]

Pools of 25 documents of 60 to 160 words, three judges, 300 votes a pool: nothing is called, answers
of 60 words are made up, a few of them wrapped, cut off or unreadable. `--before` is an earlier
checkout, which builds and settles a ledger of its own; the two take turns in processes of one
core, each the best of some times, and must write the same bytes. What is counted is the time of the
processor, in user and system, without start and opening the ledger.
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
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pyarrow as pa

from benchmarks.scale import write_pools
from zelo_ray.engine.bookkeeping import check_answer
from zelo_ray.engine.job import Job
from zelo_ray.engine.ledger import Ledger, read_rows, update_index
from zelo_ray.engine.sweeps import ResultsBuilder
from zelo_ray.engine.write_results import write_results
from zelo_ray.files.pools import LineLimits, read_lines
from zelo_ray.protocols import Progress, load_protocol
from zelo_ray.providers import parse_judge
from zelo_ray.records import Answer, Reply, Usage

JUDGES = ("openai:gpt-6-luna", "anthropic:claude-haiku-4-5", "gemini:gemini-3.5-flash")
HERE = Path(__file__).parents[1]


def main() -> None:
    given = argparse.ArgumentParser(description=__doc__)
    given.add_argument("--before", type=Path)
    given.add_argument("--queries", type=int, default=1_000)
    given.add_argument("--times", type=int, default=3)
    given.add_argument("--protocol", default="zelo")
    options = given.parse_args()
    checkouts = [checkout for checkout in (options.before, HERE) if checkout]
    with tempfile.TemporaryDirectory() as folder:
        taken = dict[Path, list[dict[str, Any]]]()
        for number, checkout in enumerate(checkouts):
            place = Path(folder, str(number))
            place.mkdir()
            write_pools(place / "pools.jsonl", options.queries)
            print(run(checkout, "build", place, options.protocol), flush=True)
        for _ in range(options.times):
            for number, checkout in enumerate(checkouts):
                found = run(checkout, "settle", Path(folder, str(number)), options.protocol)
                print(checkout.name, found, flush=True)
                taken.setdefault(checkout, []).append(found)
    if len({found["digest"] for some in taken.values() for found in some}) > 1:
        raise SystemExit("the results differ")
    best = [min(found["us a reply"] for found in taken[checkout]) for checkout in checkouts]
    if options.before:
        print(f"{best[0]:.1f} -> {best[1]:.1f} us a reply; {best[1] / best[0]:.3f}")


def run(checkout: Path, what: str, place: Path, protocol: str) -> dict[str, Any]:
    """Run a part of this file with the code of a checkout."""
    threads = ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS")
    environ = os.environ | {"PYTHONPATH": str(checkout)} | dict.fromkeys(threads, "1")
    command = (sys.executable, "-P", __file__, what, str(place), protocol)
    done = subprocess.run(command, env=environ, check=True, stdout=subprocess.PIPE, cwd=place)
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def make_job(place: Path, protocol: str) -> Any:
    """Return the job; what is imported is of the checkout on the path."""
    options = load_protocol(protocol).options(
        inputs=(str(place / "pools.jsonl"),), out=str(place / "out"), protocol=protocol
    )
    panel = tuple(parse_judge(name) for name in JUDGES)
    return Job(options, panel, "run", frozenset())


def make_plans(job: Any) -> Any:
    """Return what keeps the plans of pools; None in a checkout that keeps none."""
    name = "zelo_ray.engine.request_plans"
    return import_module(name).RequestPlans(job.options, "run") if find_spec(name) else None


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


def build(place: Path, protocol: str) -> dict[str, Any]:
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
    plans = make_plans(job)
    for line in read_lines(str(place / "pools.jsonl"), LineLimits()):
        progress = Progress(load_protocol(protocol).rounds(line.pool, job.panel, job.options))
        while missing := progress.step(ledger).missing:
            for request in missing:
                rng = random.Random(request.key)
                given = Answer("ok", answer_text(request, rng), Usage(800, 120), "model")
                answer = check_answer(request.response_model, given, request.user).answer
                reply = {"key": request.key, "judge": request.judge.name}
                reply |= {"status": answer.status, "text": answer.text, "reason": answer.reason}
                if hasattr(answer, "parsed"):
                    reply["parsed"] = answer.parsed
                rows.append(Reply(**reply, **columns))
            written += len(rows)
            ledger.append(rows)
            rows = []
        if plans:
            plans.keep(line.pool, progress.plan(), job.panel)
    if plans:
        plans.close()
    ledger.close()
    update_index(job.options.ledger_dir)
    return {"replies": written}


def settle(place: Path, protocol: str) -> dict[str, Any]:
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
    us = used / replies * 1e6
    return {"us a reply": round(us, 2), "replies": replies, "digest": digest.hexdigest()[:16]}


if __name__ == "__main__":
    if sys.argv[1:2] in (["build"], ["settle"]):
        part = build if sys.argv[1] == "build" else settle
        print(json.dumps(part(Path(sys.argv[2]), sys.argv[3])))
    else:
        main()
