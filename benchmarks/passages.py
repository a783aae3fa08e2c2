"""Planted answers: whether a judge is shown them, by a document's beginning or by its passages.

From the texts of Cranfield: the text that people graded best for a query is hidden at some depth of
a long document, whose other texts nobody judged for that query. Of 2,000 tokens either way, prints
the share of answers of which 90% is shown, and how often offline BM25 then prefers the document to
the same one without the answer (a tie is half).
Run: python -m benchmarks.passages FOLDER_OF_THE_COLLECTION
"""

import argparse
import json
import random
import re
from collections.abc import Iterator
from difflib import SequenceMatcher
from pathlib import Path

from zelo_ray.options import AnnotateOptions
from zelo_ray.protocols.texts import BYTES_PER_TOKEN, shown_document
from zelo_ray.providers.offline import bm25
from zelo_ray.records import Document, Pool

DEPTHS = (0.0, 0.25, 0.5, 0.75, 1.0)
WAYS = (None, 512, 256, 128)
NUMBER = re.compile(r"\[passage \d+ of \d+\]")


def planted(folder: Path) -> Iterator[tuple[str, str, list[str]]]:
    """Each query, its best text, and texts that are not judged for it, in an order of chance."""
    lines = (json.loads(line) for line in (folder / "docs.jsonl").read_text().splitlines())
    texts = {each["docid"]: each["text"] for each in lines if each["text"].strip()}
    grades = [g.split() for g in (folder / "qrels_graded_0to3.txt").read_text().splitlines()]
    judged = {(query, doc) for query, _, doc, _ in grades}
    best = {
        query: doc for query, _, doc, grade in reversed(grades) if grade == "3" and doc in texts
    }
    chance = random.Random(0)
    for line in (folder / "queries.tsv").read_text().splitlines():
        query_id, query = line.split("\t")
        if query_id in best:
            others = [doc for doc in texts if (query_id, doc) not in judged]
            yield query, texts[best[query_id]], [texts[d] for d in chance.sample(others, 200)]


def shown(query: str, text: str, passages: int | None) -> str:
    """What a judge sees of it."""
    pool = Pool("q", query, (document := Document("d", text, {}),))
    options = AnnotateOptions(inputs=("-",), out="-", judges=("-",), passages=passages)
    return " ".join(NUMBER.sub(" ", shown_document(document, pool, options).content).split())


def hidden(answer: str, others: list[str], depth: float, size: int) -> tuple[str, str]:
    """A document of so many bytes with the answer at some depth, and the same without it."""
    few, left = list[str](), size - len(answer)
    for text in others:
        if left > 0:
            few.append(text[:left])
            left -= len(few[-1]) + len("\n\n")
    at = round(depth * len(few))
    return "\n\n".join([*few[:at], answer, *few[at:]]), "\n\n".join(few)


def share(answer: str, said: str) -> float:
    """How much of an answer is there, in runs of ten words or more."""
    words, there = answer.split(), said.split()
    runs = SequenceMatcher(None, words, there, autojunk=False).get_matching_blocks()
    return sum(run.size for run in runs if run.size >= 10) / len(words)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    items = list(planted(parser.parse_args().folder))
    length = sum(len(answer) for _, answer, _ in items) / len(items)
    print(f"{len(items)} queries; answers of {length:.0f} bytes")
    for tokens in (2_100, 8_000, 32_000):
        print(
            f"\ndocuments of {tokens:,} tokens\n{'shown by':12}"
            + "".join(f"{d:>14}" for d in DEPTHS)
        )
        for way in WAYS:
            cells = []
            for depth in DEPTHS:
                there = won = 0.0
                for query, answer, others in items:
                    texts = hidden(answer, others, depth, tokens * BYTES_PER_TOKEN)
                    with_it, without = (shown(query, text, way) for text in texts)
                    there += share(answer, with_it) >= 0.9
                    a, b = bm25(query, [with_it, without])
                    won += (a > b) + 0.5 * (a == b)
                cells.append(f"{there / len(items):.2f} / {won / len(items):.2f}")
            name = f"passages {way}" if way else "beginning"
            print(f"{name:12}" + "".join(f"{cell:>14}" for cell in cells), flush=True)


if __name__ == "__main__":
    main()
