"""The times of a bake-off, held against an outside stopwatch.

    python -m benchmarks.stopwatch

Five rankers order some pools: bm25, a cross-encoder with random weights on this CPU, a hosted
reranker and a listwise judge on loopback, and a run file. The servers take some time on purpose,
and measure how long they took; around the models that compute here a stopwatch is put in the
process that computes, by a ``sitecustomize`` of this benchmark. Rankers behind HTTP have one call
in flight, so that nothing queues at their servers. Shown are medians over queries. Two minutes.
"""

import json
import os
import random
import re
import statistics
import subprocess
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import yaml

from tests import crash
from tests.fakes.rerank import Rerankers, worth
from zelo_ray.files.pools import LineLimits, read_lines
from zelo_ray.records import Pool

DELAY, LATENCY, POOLS, DOCUMENTS = 0.2, 0.3, 20, 15
WORDS = [
    "the",
    "matter",
    "with",
    "this",
    "is",
    "that",
    "nobody",
    "has",
    "looked",
    "into",
    "it",
    "for",
    "a",
    "very",
    "long",
    "time",
]
STOPWATCH = """
import importlib.util, json, os, sys, time

PLACES = ("zelo_ray.rerankers.local", "zelo_ray.providers.offline")


def timed(ranker, score):
    file = os.open(os.environ["STOPWATCH"], os.O_WRONLY | os.O_CREAT | os.O_APPEND)

    def watched(query, texts, *more):
        begun = time.perf_counter()
        scores = score(query, texts, *more)
        line = json.dumps([ranker, query, time.perf_counter() - begun])
        os.write(file, (line + chr(10)).encode())
        return scores
    return watched


def put_around(module):
    if module.__name__ == PLACES[0]:
        loaded = module.LoadedModel
        module.LoadedModel = lambda score, device: loaded(timed("encoder", score), device)
    else:
        score, slope = module._JUDGES["bm25"]
        module._JUDGES["bm25"] = timed("bm25", score), slope


class Finder:
    def find_spec(self, name, path=None, target=None):
        if name not in PLACES:
            return None
        sys.meta_path.remove(self)
        spec = importlib.util.find_spec(name)
        sys.meta_path.insert(0, self)
        run = spec.loader.exec_module

        def exec_module(module):
            run(module)
            put_around(module)

        spec.loader.exec_module = exec_module
        return spec


sys.meta_path.insert(0, Finder())
"""
"""What every Python process of the contest runs at its start."""
JUDGE = "openai:gpt-6-luna"
Seconds = dict[str, float]
"""By query id."""


def judge(system: str, user: str, schema: Any, model: str) -> dict[str, Any]:
    """Order a window by what its documents say that they are worth, as the judge's server."""
    del system, schema, model
    worths = {}
    for number, text in re.findall(r"\[document (\d+) (.*?\[\[worth=.*?\]\])", user, re.DOTALL):
        worths[int(number)] = worth(text)
    return {"order": sorted(worths, key=lambda number: -worths[number])}


def make_pools(folder: Path) -> dict[str, Pool]:
    """Write pools whose documents tell their worth, and grades by it; return them by query id."""
    rng = random.Random(1)

    def text(_: int) -> str:
        return f" {' '.join(rng.choices(WORDS, k=60))}"

    crash.write_pools(folder / "pools.jsonl", POOLS, DOCUMENTS, text)
    lines = read_lines(str(folder / "pools.jsonl"), LineLimits())
    pools = {line.pool.query_id: line.pool for line in lines if line.pool}
    with (folder / "truth.qrels").open("w") as file:
        for query_id, pool in pools.items():
            for document in pool.documents:
                grade = min(3, max(0, round(worth(document.content))))
                file.write(f"{query_id} 0 {document.id} {grade}\n")
    return pools


def save_encoder(folder: Path, pools: Iterable[Pool]) -> None:
    """Save a cross-encoder of four layers with random weights."""
    import torch  # noqa: PLC0415 - after the setting that keeps it offline
    from transformers import (  # noqa: PLC0415 - the same
        BertConfig,
        BertForSequenceClassification,
        BertTokenizerFast,
    )

    counts = {*WORDS, *(word for pool in pools for word in pool.query.lower().split())}
    special = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    folder.mkdir()
    (folder / "vocab.txt").write_text("\n".join([*special, *sorted(counts)]))
    torch.manual_seed(7)
    shape = {"hidden_size": 192, "num_hidden_layers": 4, "num_attention_heads": 4}
    config = BertConfig(vocab_size=len(counts) + 5, num_labels=1, intermediate_size=768, **shape)
    BertForSequenceClassification(config).save_pretrained(folder)
    BertTokenizerFast(str(folder / "vocab.txt"), model_max_length=256).save_pretrained(folder)


def write_run(path: Path, pools: Iterable[Pool]) -> None:
    """Write the order in which the documents came as a run of TREC."""
    with path.open("w") as file:
        for pool in pools:
            for rank, document in enumerate(pool.documents, 1):
                file.write(f"{pool.query_id} Q0 {document.id} {rank} {-rank} file\n")


def read_stopwatch(path: Path, pools: Mapping[str, Pool]) -> dict[str, Seconds]:
    """What the stopwatch measured around each model's last call for each query, by ranker."""
    names, seconds = {pool.query: query_id for query_id, pool in pools.items()}, {}
    for line in path.read_text().splitlines():
        ranker, query, took = json.loads(line)
        if query in names:
            seconds.setdefault(ranker, Seconds())[names[query]] = took
    return seconds


def time_hosted(journal: Iterable[Mapping[str, Any]], pools: Mapping[str, Pool]) -> Seconds:
    """What the hosted reranker measured of its last answer to each query."""
    names = {pool.query: query_id for query_id, pool in pools.items()}
    return {names[entry["body"]["query"]]: entry["seconds"] for entry in journal}


def time_listwise(journal: Path, pools: Mapping[str, Pool]) -> Seconds:
    """What the judge's server measured of its last answer to each query."""
    seconds = Seconds()
    for line in journal.read_text().splitlines():
        entry = json.loads(line)
        prompt = json.dumps(json.loads(entry["body"])["messages"], ensure_ascii=False)
        for query_id, pool in pools.items():
            if json.dumps(pool.query, ensure_ascii=False)[1:-1] in prompt:
                seconds[query_id] = entry["finished"] - entry["arrived"]
    return seconds


def run_contest(folder: Path, encoder: Path, environ: Mapping[str, str]) -> str:
    """Run the contest; return what it printed."""
    config = {
        "truth": str(folder / "truth.qrels"),
        "pools": str(folder / "pools.jsonl"),
        "out": str(folder / "out"),
        "rerankers": [
            *("bm25", f"encoder=cross-encoder:{encoder}", "hosted=cohere:rerank-v5.0-pro"),
            f"listwise=listwise:{JUDGE}",
        ],
        "runs": [f"file={folder}/file.run"],
        "reranker_options": {"encoder": {"device": "cpu"}},
        "prices": {"hosted": {"search": 2.0}},
        "limits": {name: {"rpm": 100_000, "concurrency": 1} for name in ("hosted", "listwise")},
    }
    path = folder / "contest.yaml"
    path.write_text(yaml.safe_dump(config))
    command = [*crash.COMMAND, "bakeoff", "--config", str(path)]
    where = {"cwd": folder, "env": {**environ, "COLUMNS": "160"}}
    ended = subprocess.run(command, check=False, capture_output=True, text=True, **where)
    return ended.stdout + ended.stderr


def compare(times: Sequence[Mapping[str, Any]], watched: Mapping[str, Seconds]) -> None:
    """Print the medians of both, and their ratio, over queries."""
    print("| ranker | queries | bake-off, s | stopwatch, s | ratio |\n|---|---:|---:|---:|---:|")
    for ranker, seconds in watched.items():
        rows = {r["query_id"]: r["seconds"] for r in times if r["run"] == ranker}
        ours = statistics.median(rows.values())
        outside = statistics.median(seconds[query_id] for query_id in rows)
        print(f"| {ranker} | {len(rows)} | {ours:.5f} | {outside:.5f} | {ours / outside:.3f} |")


def main() -> None:
    os.environ["HF_HUB_OFFLINE"] = "1"
    flags = ("--judge", "benchmarks.stopwatch:judge", "--latency", str(LATENCY), "--bodies")
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        encoder, pools = folder / "encoder", make_pools(folder)
        save_encoder(encoder, pools.values())
        write_run(folder / "file.run", pools.values())
        (folder / "watch").mkdir()  # not the working directory, which Ray's processes do not see
        (folder / "watch" / "sitecustomize.py").write_text(STOPWATCH)
        with Rerankers() as server, crash.fakes(folder, *flags, judges=(JUDGE,)) as environ:
            server.delay = DELAY
            more = {"CO_API_KEY": server.key, "CO_API_URL": server.url + "/cohere"}
            environ.pop("TEST_OPTION_LIMITS")  # it names a judge, and the ranker has another name
            more |= {"HF_HUB_OFFLINE": "1", "STOPWATCH": str(folder / "stopwatch.jsonl")}
            more |= {"PYTHONPATH": f"{folder}/watch:{crash.ROOT}"}
            print(run_contest(folder, encoder, {**environ, **more}))
            watched = {
                "hosted": time_hosted(server.journal, pools),
                "listwise": time_listwise(folder / "journal.jsonl", pools),
            }
        watched |= read_stopwatch(folder / "stopwatch.jsonl", pools)
        compare(pq.read_table(folder / "out" / "times.parquet").to_pylist(), watched)


if __name__ == "__main__":
    main()
