"""Two pools as users bring them: rows, cells and lines."""

import csv
import io
import json

from zelo_ray.files.inputs import InputOptions, convert_inputs
from zelo_ray.files.pools import LineLimits, read_lines
from zelo_ray.files.storage import open_for_writing
from zelo_ray.memory import as_options

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


def in_memory(tmp_path, value, **asked):
    """The same of what a caller holds in memory."""
    return brought(tmp_path, *as_options({"inputs": value}, str(tmp_path))["inputs"], **asked)


def brought(tmp_path, *places, **asked):
    """The pools of what is made, and what is said."""
    found = convert_inputs(places, str(tmp_path / "out"), InputOptions(**asked))
    (place,) = found.places
    read = [*read_lines(place, LineLimits())]
    assert not [line.reason for line in read if line.pool is None]
    return [json.loads(line.raw) for line in read], found.notes
