"""Bake-offs: of six rankers on Cranfield and DL19, and of five over many queries for their speed.

The rankers: the original order, BM25, query likelihood, a tiny cross-encoder with random weights
(which has nothing to say), a class of its own, and a run file. Prints each table as a
user sees it, then wall time, where it went, rows a second and peak memory.
Run: python -m benchmarks.bakeoff FOLDER [--queries 2000] [--only many]
FOLDER holds cranfield and trec_dl19, as in tests/golden/SOURCES.md, with their texts.
"""

import argparse
import json
import os
import random
import subprocess
import tempfile
import time
from collections.abc import Iterable
from pathlib import Path

from benchmarks.cranfield import PeakMemory, write_pools
from tests import crash
from zelo_ray.formats.interchange.trec import read_run

_MINE = '''
class Overlap:
    """The share of the query's words that a document holds."""

    async def score(self, query, documents):
        words = set(query.lower().split())
        return [len(words & set(text.lower().split())) / len(words) for text in documents]
'''


def write_encoder(folder: Path, texts: Iterable[str]) -> None:
    """A cross-encoder of two thin layers with random weights, on the words of some texts."""
    import torch  # noqa: PLC0415 - seconds, paid where it is used
    from transformers import (  # noqa: PLC0415 - paid where it is used
        BertConfig,
        BertForSequenceClassification,
        BertTokenizerFast,
    )

    words = sorted({word for text in texts for word in text.lower().split()})[:20_000]
    special = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    folder.mkdir()
    (folder / "vocab.txt").write_text("\n".join(dict.fromkeys([*special, *words])))
    BertTokenizerFast(str(folder / "vocab.txt"), model_max_length=64).save_pretrained(folder)
    torch.manual_seed(7)
    shape = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2}
    size = len(special) + len(words)
    config = BertConfig(vocab_size=size, num_labels=1, intermediate_size=64, **shape)
    BertForSequenceClassification(config).save_pretrained(folder)


def write_dl19(folder: Path, path: Path) -> None:
    """BM25's official first hundred, as far as their texts are at hand."""
    texts = {}
    for line in (folder / "passages.jsonl").read_text().splitlines():
        row = json.loads(line)
        texts[row["docid"]] = row["text"]
    queries = dict(line.split("\t") for line in (folder / "queries.tsv").read_text().splitlines())
    _, run = read_run(str(folder / "runs_top100" / "bm25base_p.run"))
    held: dict[str, list[dict[str, str]]] = {}
    for row in sorted(run.to_pylist(), key=lambda row: -row["score"]):
        if row["doc_id"] in texts:
            document = {"id": row["doc_id"], "content": texts[row["doc_id"]]}
            held.setdefault(row["query_id"], []).append(document)
    with path.open("w") as file:
        for query_id, documents in held.items():
            query = {"id": query_id, "query": queries[query_id]}
            file.write(json.dumps({"query": query, "documents": documents}) + "\n")


def write_many(data: Path, pools: Path, qrels: Path, queries: int, documents: int) -> None:
    """Queries of words drawn from Cranfield's abstracts, graded by chance."""
    rng = random.Random(0)
    lines = (data / "cranfield" / "docs.jsonl").read_text().splitlines()
    texts = [text for line in lines if (text := json.loads(line)["text"].strip())]
    with pools.open("w") as file, qrels.open("w") as truth:
        for q in range(queries):
            chosen = rng.sample(texts, documents)
            query = " ".join(rng.sample(chosen[0].split(), 8))
            rows = [{"id": f"d{n}", "content": text} for n, text in enumerate(chosen)]
            pool = {"query": {"id": f"q{q}", "query": query}, "documents": rows}
            file.write(json.dumps(pool) + "\n")
            truth.writelines(f"q{q} 0 d{n} {rng.randrange(4)}\n" for n in range(documents))


def contest(
    folder: Path, title: str, truth: Path, pools: Path, rankers: list[str], *runs: Path
) -> None:
    out = folder / title
    flags = ["--truth", truth, "--pools", pools, "--out", out, "--measures", "nDCG@10", "RR@10"]
    flags += ["--rerankers", *rankers, *(["--runs", *runs] if runs else [])]
    began = time.monotonic()
    environ = {**os.environ, "HF_HUB_OFFLINE": "1", "COLUMNS": "120", "PYTHONPATH": str(crash.ROOT)}
    process = subprocess.Popen(
        [*crash.COMMAND, "bakeoff", *map(str, flags)],
        cwd=folder,
        env=environ,
        stdout=subprocess.PIPE,
        text=True,
    )
    memory = PeakMemory(process.pid)
    memory.start()
    printed, _ = process.communicate()
    memory.ended = True
    wall = time.monotonic() - began
    summary = json.loads((out / "run.json").read_text())["summary"]
    print(f"\n== {title}: exit {process.returncode}\n{printed}")
    documents = sum(len(json.loads(line)["documents"]) for line in pools.open())
    asked = documents * len(rankers)
    print(
        f"wall {wall:.1f} s, {summary['seconds']}; {asked:,} documents scored, "
        f"{asked / summary['seconds']['ask']:,.0f} a second while asking; "
        f"peak {memory.peak / 2**30:.2f} GiB (PSS); "
        f"report {(out / 'report.html').stat().st_size / 2**20:.1f} MB"
    )


def contest_cranfield(collection: Path, folder: Path, rankers: list[str]) -> None:
    """BM25's first 25 of each query, and a run of them backwards."""
    pools, run = folder / "cranfield.jsonl", folder / "reversed.run"
    write_pools(collection, pools)
    with run.open("w") as file:
        for line in pools.open():
            pool = json.loads(line)
            for rank, document in enumerate(reversed(pool["documents"]), start=1):
                row = (pool["query"]["id"], "Q0", document["id"], rank, -rank, "reversed")
                file.write(" ".join(map(str, row)) + "\n")
    contest(folder, "cranfield", collection / "qrels_graded_0to3.txt", pools, rankers, run)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--queries", type=int, default=2000, help="of the contest for speed")
    parser.add_argument("--documents", type=int, default=100, help="of each of these queries")
    parser.add_argument("--only", choices=("cranfield", "dl19", "many"), help="one of the three")
    given = parser.parse_args()
    cranfield, dl19 = given.folder / "cranfield", given.folder / "trec_dl19"
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "mine.py").write_text(_MINE)
        texts = [json.loads(line)["text"] for line in (cranfield / "docs.jsonl").open()]
        write_encoder(folder / "tiny", texts)
        rankers = ["original", "bm25", "likelihood", "tiny=cross-encoder:tiny", "mine:Overlap"]
        if given.only in {None, "cranfield"}:
            contest_cranfield(cranfield, folder, rankers)
        if given.only in {None, "dl19"}:
            write_dl19(dl19, folder / "dl19.jsonl")
            best = dl19 / "runs_top100" / "idst_bert_p1.run"
            contest(folder, "dl19", dl19 / "qrels.txt", folder / "dl19.jsonl", rankers, best)
        if given.only in {None, "many"}:
            many, grades = folder / "many.jsonl", folder / "many.qrels"
            write_many(given.folder, many, grades, given.queries, given.documents)
            quick = ["original", "bm25", "likelihood", "chargram", "mine:Overlap"]
            contest(folder, "many", grades, many, quick)


if __name__ == "__main__":
    main()
