"""Train two small rerankers on labels of Cranfield, and measure them on queries not trained on.

* titles: a panel labels documents' titles as queries, with 20 abstracts each; a bi-encoder of
  random word vectors learns from it. All queries of people are held out.
* people: the query map of a bi-encoder learns people's grades of half their queries. The other
  half is held out.

The candidates of people's queries are BM25's top 50 of the collection (`original`). Prints the
commands, their seconds, and the bake-offs' means and differences of nDCG@10 with linear gain.
Run: python -m benchmarks.train_recipe FOLDER_OF_THE_COLLECTION --base FOLDER_OF_A_BI_ENCODER
"""

import argparse
import json
import shlex
import subprocess
import sys
import time
from pathlib import Path
from tempfile import TemporaryDirectory

import bm25s
import pyarrow.parquet as pq
import snowballstemmer

from tests.crash import ROOT

COMMAND = {"zelo-ray": ["-m", "zelo_ray"], "train": [str(ROOT / "jobs" / "train_reranker.py")]}
TITLES = """
zelo-ray annotate titles.jsonl --judges offline --out panel
zelo-ray convert train panel --form triplets --min-gap 1 --per-query 8 --splits 95 5 0 --out battles
train battles --kind bi-encoder --base tiny --epochs 0 --out tiny-before
train battles --kind bi-encoder --base tiny --batch 64 --rate 0.1 --epochs 3 --out tiny-after
zelo-ray bakeoff --truth people.qrels --pools people.jsonl --measures nDCG@10 --out contest-titles \
    --rerankers original before=bi-encoder:tiny-before after=bi-encoder:tiny-after
"""
PEOPLE = """
zelo-ray convert train all.qrels --pools people.jsonl --form lists --splits 50 0 50 --out lists
train lists --kind query-map --base BASE --batch 16 --rate 1e-3 --epochs 20 --out mapped
zelo-ray bakeoff --truth people.qrels --pools lists/test-pools.jsonl --measures nDCG@10 \
    --rerankers original before=bi-encoder:BASE after=bi-encoder:mapped --out contest-people
"""


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


def write_titles(source: Path, place: Path) -> None:
    """Write pools whose queries are documents' titles, and whose documents are abstracts."""
    queries, documents = [], []
    for line in (source / "docs.jsonl").read_text().splitlines():
        told = json.loads(line)
        title = told["title"].strip()
        abstract = told["text"].strip().removeprefix(title).strip()
        if title and abstract:
            queries.append(f"t{told['docid']}\t{title.rstrip(' .')}\n")
            documents.append(json.dumps({"docid": told["docid"], "text": abstract}) + "\n")
    (place / "queries.tsv").write_text("".join(queries))
    (place / "docs.jsonl").write_text("".join(documents))
    write_pools(place, place / "titles.jsonl", 20)


def write_all(place: Path) -> None:
    """Write people's grades again, with 0 for each candidate that nobody graded."""
    graded = (place / "people.qrels").read_text().splitlines()
    pairs = {tuple(line.split()[0:3:2]) for line in graded}
    for line in (place / "people.jsonl").read_text().splitlines():
        pool = json.loads(line)
        ids = [(pool["query"]["id"], document["id"]) for document in pool["documents"]]
        graded += [f"{query} 0 {doc} 0" for query, doc in ids if (query, doc) not in pairs]
    (place / "all.qrels").write_text("\n".join(graded) + "\n")


def run(commands: str, base: str, place: Path) -> None:
    """Run commands one after the other, each with its seconds."""
    for line in commands.strip().splitlines():
        words = [word.replace("BASE", base) for word in shlex.split(line)]
        began = time.monotonic()
        done = subprocess.run(
            [sys.executable, *COMMAND[words[0]], *words[1:]],
            cwd=place,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stdout
        print(f"{time.monotonic() - began:6.0f} s  {' '.join(line.split())}", flush=True)


def show(contest: Path) -> None:
    """Print what a bake-off found."""
    for row in pq.read_table(contest / "means.parquet").to_pylist():
        if row["measure"] == "nDCG@10":
            bounds = f"{row['low']:.3f} to {row['high']:.3f}"
            print(f"{row['run']:9} {row['mean']:.3f} ({bounds}), {row['queries']} queries")
    for row in pq.read_table(contest / "comparisons.parquet").to_pylist():
        bounds = f"{row['low']:+.3f} to {row['high']:+.3f}"
        said = f"{row['difference']:+.3f} ({bounds}), p {row['p']:.4f}, Holm {row['p_holm']:.4f}"
        print(f"{row['run_a']} - {row['run_b']}: {said}", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--base", type=Path, required=True)
    parser.add_argument("--parts", nargs="+", default=["titles", "people"])
    flags = parser.parse_args()
    with TemporaryDirectory() as name:
        place, base = Path(name), str(flags.base.resolve())
        write_pools(flags.folder, place / "people.jsonl", 50)
        (place / "people.qrels").write_text((flags.folder / "qrels_graded_0to3.txt").read_text())
        write_all(place)
        write_titles(flags.folder, place)
        for part in flags.parts:
            run({"titles": TITLES, "people": PEOPLE}[part], base, place)
            show(place / f"contest-{part}")


if __name__ == "__main__":
    main()
