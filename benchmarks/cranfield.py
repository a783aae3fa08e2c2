"""The whole of Cranfield: BM25's top 25 of all 225 queries, annotated by the offline panel.

Prints wall time, peak memory, votes a second and nDCG@10 (linear gain) against the human grades.
Run: python -m benchmarks.cranfield FOLDER_OF_THE_COLLECTION
"""

import argparse
import json
import os
import tempfile
import threading
import time
from collections import defaultdict
from pathlib import Path

import bm25s
import ir_measures
import psutil
import pyarrow.parquet as pq
import snowballstemmer
from ir_measures import nDCG

from tests import crash
from zelo_ray.fitting.bradley_terry import score_votes
from zelo_ray.records import Vote

Runs = dict[str, dict[str, float]]


def write_pools(folder: Path, path: Path, depth: int = 25) -> None:
    texts = [json.loads(line) for line in (folder / "docs.jsonl").read_text().splitlines()]
    texts = [text for text in texts if text["text"].strip()]
    queries = [line.split("\t") for line in (folder / "queries.tsv").read_text().splitlines()]
    stemmer = snowballstemmer.stemmer("english")

    def tokens(strings: list[str]) -> object:
        def stem(words: list[str]) -> list[str]:
            return [stemmer.stemWord(word) for word in words]

        return bm25s.tokenize(strings, stopwords="en", stemmer=stem, show_progress=False)

    index = bm25s.BM25()
    index.index(tokens([text["text"] for text in texts]), show_progress=False)
    found, _ = index.retrieve(tokens([q[1] for q in queries]), k=depth, show_progress=False)
    with path.open("w") as file:
        for (query_id, query), row in zip(queries, found, strict=True):
            documents = [{"id": texts[i]["docid"], "content": texts[i]["text"]} for i in row]
            pool = {"query": {"id": query_id, "query": query}, "documents": documents}
            file.write(json.dumps(pool) + "\n")


class PeakMemory(threading.Thread):
    """The most that a tree of processes holds at once, shared pages counted once (PSS)."""

    def __init__(self, pid: int) -> None:
        super().__init__(daemon=True)
        self.root, self.peak, self.ended = psutil.Process(pid), 0, False

    def run(self) -> None:
        while not self.ended:
            held = 0
            for process in [self.root, *self.root.children(recursive=True)]:
                try:
                    held += process.memory_full_info().pss
                except psutil.Error:
                    continue
            self.peak = max(self.peak, held)
            time.sleep(0.5)


def ndcg(run: Runs, grades: dict[str, dict[str, int]]) -> float:
    return float(ir_measures.calc_aggregate([nDCG @ 10], grades, run)[nDCG @ 10])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    folder = parser.parse_args().folder
    grades: dict[str, dict[str, int]] = defaultdict(dict)
    for line in (folder / "qrels_graded_0to3.txt").read_text().splitlines():
        query_id, _, doc_id, grade = line.split()
        grades[query_id][doc_id] = int(grade)
    with tempfile.TemporaryDirectory() as name:
        pools, out = Path(name) / "pools.jsonl", Path(name) / "out"
        write_pools(folder, pools)
        began = time.monotonic()
        process = crash.annotate(pools, out, dict(os.environ), "--judges", "offline")
        memory = PeakMemory(process.pid)
        memory.start()
        status, printed = crash.finish(process)
        memory.ended = True
        wall = time.monotonic() - began
        assert status == 0, printed
        summary = json.loads((out / "run.json").read_text())["summary"]
        votes = [Vote(**row) for row in pq.read_table(out / "votes.parquet").to_pylist()]
        lines = [json.loads(line) for line in pools.read_text().splitlines()]
    asking = summary["seconds"]["ask"]
    print(f"wall {wall:.1f} s; {summary['seconds']}; peak {memory.peak / 2**30:.2f} GiB (PSS)")
    print(f"{len(votes):,} votes, {len(votes) / asking:,.0f} a second while asking")
    judges = sorted({vote.judge for vote in votes})
    for label, panel in [
        ("zELO, whole panel", judges),
        *((f"zELO, {j} alone", [j]) for j in judges),
    ]:
        by_query: dict[str, list[Vote]] = defaultdict(list)
        for vote in votes:
            if vote.judge in panel:
                by_query[vote.query_id].append(vote)
        run: Runs = {}
        for fit in score_votes(list(by_query.values())):
            run[fit.scores[0].query_id] = {s.doc_id: s.score for s in fit.scores}
        print(f"nDCG@10 {ndcg(run, grades):.4f}  {label}")
    order = {
        line["query"]["id"]: {d["id"]: -float(i) for i, d in enumerate(line["documents"])}
        for line in lines
    }
    print(f"nDCG@10 {ndcg(order, grades):.4f}  input order (BM25 over the whole collection)")


if __name__ == "__main__":
    main()
