"""Files as people bring them, and what each reader makes of them; readers are imported here."""

import csv
import io
import json
from pathlib import Path
from typing import ClassVar

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from fsspec.implementations.memory import MemoryFileSystem

from zelo_ray.errors import InputError, OptionError
from zelo_ray.files import (
    candidates,
    collections,
    conversations,
    inputs,
    judges,
    judgments,
    labels,
    make_pools,
    pools,
    rows,
    schema,
    storage,
    tables,
    trec,
    votes,
    wording,
)
from zelo_ray.memory import as_options
from zelo_ray.providers import recorded

annotate_line = pools.annotate_line
as_votes = votes.as_votes
explain_mismatch = candidates.explain_mismatch
find_doubts = candidates.find_doubts
find_shards = storage.find_shards
hash_id = pools.hash_id
join_sessions = conversations.join_sessions
open_source = rows.open_source
pool_candidates = candidates.pool_candidates
printable = wording.printable
read_all_judgments = judges.read_all_judgments
read_judgments = judges.read_judgments
read_recording = recorded.read_recording
read_runs = judgments.read_runs
read_vote_rows = votes.read_vote_rows
records_table = tables.table_of
sort_run = candidates.sort_run
split_columns = schema.split_columns
to_id = schema.to_id
with_title = make_pools.with_title
write_qrels = trec.write_qrels
write_run = trec.write_run

CASES = Path(__file__).parents[1] / "golden" / "cases"
"""Files that people had."""
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


def as_csv(rows, separator=","):
    text = io.StringIO(newline="")
    names = dict.fromkeys(name for row in rows for name in row)
    table = csv.DictWriter(text, names, delimiter=separator)
    table.writeheader()
    table.writerows(rows)
    return text.getvalue()


def as_lines(rows):
    return "".join(json.dumps(row) + "\n" for row in rows)


def as_parquet(rows):
    table = pa.Table.from_pylist(rows) if isinstance(rows, list) else pa.table(rows)
    file = pa.BufferOutputStream()
    pq.write_table(table, file)
    return file.getvalue().to_pybytes()


FORMS = {
    "csv": as_csv,
    "tsv": lambda rows: as_csv(rows, "\t"),
    "txt": lambda rows: as_csv(rows, ";"),
    "jsonl": as_lines,
    "json": lambda rows: json.dumps(rows, indent=1),
    "parquet": as_parquet,
    "bin": as_parquet,
}


def write_file(path, content):
    """Write a text, bytes, or rows in the form of the ending; packed if it ends in gz or zst."""
    if not isinstance(content, str | bytes):
        ending = str(path).removesuffix(".gz").removesuffix(".zst").rpartition(".")[2]
        content = FORMS[ending](content)
    with storage.open_for_writing(str(path)) as file:
        file.write(content if isinstance(content, bytes) else content.encode())
    return str(path)


def write_folder(folder, files):
    for name, content in files.items():
        write_file(f"{folder}/{name}", content)
    return str(folder)


def refused(match):
    """Expect that a file or an option is refused, with these words."""
    return pytest.raises((InputError, OptionError), match=match)


def convert(folder, *places, show=(), show_documents=(), columns=None, **texts):
    """Convert inputs into ``folder/out``: the places of their pools, and notes."""
    shown = make_pools.Shown(tuple(show), tuple(show_documents))
    options = inputs.InputOptions(columns=schema.Columns(columns or {}), shown=shown, **texts)
    return inputs.convert_inputs([str(place) for place in places], f"{folder}/out", options)


def read_inputs(folder, *places, **asked):
    """Convert inputs as ``annotate`` does; the pools, and what is said of them."""
    found = convert(folder, *places, **asked)
    (place,) = found.places
    lines = pool_lines(place)
    assert not [line.reason for line in lines if line.pool is None]
    return [json.loads(line.raw) for line in lines], list(found.notes)


def read_memory(folder, value, **asked):
    """Read what a caller holds in memory as inputs."""
    return read_inputs(folder, *as_options({"inputs": value}, str(folder))["inputs"], **asked)


def pool_lines(place, limits=None):
    """The lines of a file of pools, also those that are set aside."""
    return [*pools.read_lines(str(place), limits or pools.LineLimits())]


def read_pools(place):
    """The pools of an input of any kind."""
    return inputs.read_pools(str(place))


def ids_of(found):
    """By query, the ids of its documents."""
    return {pool["query"]["id"]: [d["id"] for d in pool["documents"]] for pool in found}


def read_qrels(place, columns=None):
    return triples(judgments.read_qrels(str(place), columns), "relevance")


def read_run(place):
    """The rows of the one run of a file."""
    (run,) = judgments.read_runs([str(place)]).values()
    return triples(run, "score")


def read_labels(place):
    return labels.read_labels(str(place))


def read_votes(place):
    """The query of each vote, and who won: -1, 0 or 1."""
    found = votes.read_vote_rows(open_source(str(place)))
    return [*zip(found.table["query_id"].to_pylist(), found["won"].to_pylist(), strict=True)]


def read_texts(place, part, **more):
    return [*collections.read_texts(str(place), part, **more).values()]


def read_corpus(place):
    return [(d.id, d.content) for d in read_texts(place, "corpus")]


def triples(table, value):
    names = ("query_id", "doc_id", value)
    return [*zip(*(table[name].to_pylist() for name in names), strict=True)]


class CountingFileSystem(MemoryFileSystem):
    """Files at ``counting://``, which counts how often one is opened."""

    protocol = "counting"
    store: ClassVar = {}
    pseudo_dirs: ClassVar = [""]
    opened: ClassVar = []

    def _open(self, path, mode="rb", **more):
        self.opened.append((path, mode))
        return super()._open(path, mode, **more)

    def cat_file(self, path, **more):
        self.opened.append((path, "rb"))
        return super().cat_file(path, **more)
