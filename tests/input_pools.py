"""Two pools as users bring them: rows, cells and lines, and a run with its texts beside it."""

import csv
import io
import json

import pytest

from zelo_ray.formats.files import open_for_writing
from zelo_ray.formats.input import InputOptions, convert_inputs
from zelo_ray.formats.pools import LineLimits, read_lines

POOLS = [
    {
        "query": {"id": f"q{q}", "query": f"what, is; {q}?"},
        "documents": [{"id": f"d{d}", "content": f'text "{q}"\n{d}'} for d in range(3)],
    }
    for q in range(2)
]
ROWS = [
    {
        "qid": pool["query"]["id"],
        "question": pool["query"]["query"],
        "docno": document["id"],
        "passage": document["content"],
    }
    for pool in POOLS
    for document in pool["documents"]
]


def cells(rows, mark=","):
    text = io.StringIO()
    writer = csv.DictWriter(text, [*rows[0]], delimiter=mark)
    writer.writeheader()
    writer.writerows(rows)
    return text.getvalue()


def lines(rows):
    return "".join(json.dumps(row) + "\n" for row in rows)


def put(path, text):
    with open_for_writing(str(path)) as file:
        file.write(text if isinstance(text, bytes) else text.encode())
    return str(path)


def brought(tmp_path, *places, **asked):
    """The pools of what is made, and what is said."""
    found = convert_inputs(places, str(tmp_path / "out"), InputOptions(**asked))
    (place,) = found.places
    read = [*read_lines(place, LineLimits())]
    assert not [line.reason for line in read if line.pool is None]
    return [json.loads(line.raw) for line in read], tuple(found.lines())


RUN = "".join(
    f"{pool['query']['id']} Q0 {document['id']} {rank} {9 - rank} mine\n"
    for pool in POOLS
    for rank, document in enumerate(pool["documents"])
)
QRELS = "".join(f"q{q} 0 d{d} {d}\n" for q in range(2) for d in range(3))
CORPUS = [{"_id": f"d{d}", "title": "", "text": f"text {d}"} for d in range(3)]
QUERIES = [{"_id": f"q{q}", "text": f"query {q}"} for q in range(2)]


@pytest.fixture
def folder(tmp_path):
    """A run, and texts beside it."""
    put(tmp_path / "mine.run", RUN)
    put(tmp_path / "qrels.txt", QRELS)
    put(tmp_path / "corpus.jsonl", lines(CORPUS))
    put(tmp_path / "queries.tsv", "".join(f"{q['_id']}\t{q['text']}\n" for q in QUERIES))
    return tmp_path


def of_run(folder, corpus="corpus.jsonl", queries="queries.tsv", run="mine.run", **asked):
    """Return the pools of a run and its texts, by their names in a folder, and the notes."""
    texts = {"corpus": str(folder / corpus), "queries": str(folder / queries)}
    return brought(folder, str(folder / run), **texts, **asked)
