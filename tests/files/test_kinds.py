"""What each reader makes of each kind of file: rows, or a refusal that names the place.

Two queries (q1, q2), two documents of each (a better than b), as people bring them.
"""

import json
import re

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.input_pools import brought, cells, lines
from zelo_ray.errors import InputError, OptionError
from zelo_ray.files.judgments import read_qrels, read_runs
from zelo_ray.files.rows import open_source
from zelo_ray.files.votes import read_vote_rows

QUERIES = ("q1", "q2")
POOLS = [
    {
        "query": {"id": q, "query": f"what is {q}?"},
        "documents": [{"id": d, "content": f"{d} of {q}"} for d in "ab"],
    }
    for q in QUERIES
]
SCORED = [
    {**p, "documents": [d | {"score": s} for d, s in zip(p["documents"], (2.5, -1), strict=True)]}
    for p in POOLS
]
ROWS = [
    {
        "query_id": p["query"]["id"],
        "query": p["query"]["query"],
        "doc_id": d["id"],
        "text": d["content"],
    }
    for p in POOLS
    for d in p["documents"]
]
GRADED = [row | {"grade": grade} for row, grade in zip(ROWS, (3, 0, 2, 1), strict=True)]
VOTES = [
    {"query_id": q, "doc_id_a": "a", "doc_id_b": "b", "winner": w}
    for q, w in zip(QUERIES, ("model_a", "tie"), strict=True)
]
PREFERENCES = [
    {"query_id": q, "doc_id_a": "a", "doc_id_b": "b", "preference": p}
    for q, p in zip(QUERIES, (-0.5, 0.0), strict=True)
]
SESSION = {
    "session_id": "s",
    "assistant_id": "red",
    "conversation": [
        {"qa_id": q, "query": f"what is {q}?", "assistant": f"a of {q}"} for q in QUERIES
    ],
}
KINDS = {
    "pools.jsonl": lines(POOLS),
    "scored.jsonl": lines(SCORED),
    "rows.csv": cells(ROWS),
    "rows.parquet": pa.Table.from_pylist(ROWS),
    "graded.csv": cells(GRADED),
    "graded.json": json.dumps(GRADED),
    "qrels.txt": "q1 0 a 3\nq1 0 b 0\nq2 0 a 2\nq2 0 b 1\n",
    "beir.tsv": "query-id\tcorpus-id\tscore\nq1\ta\t3\nq1\tb\t0\nq2\ta\t2\nq2\tb\t1\n",
    "ratings.csv": "qid;docid;rating\nq1;a;3\nq1;b;0\nq2;a;2\nq2;b;1\n",
    "nested.json": json.dumps({"q1": {"a": 3, "b": 0}, "q2": {"a": 2, "b": 1}}),
    "trec.run": "q1 Q0 a 1 2.5 x\nq1 Q0 b 2 -1 x\nq2 Q0 a 1 2.5 x\nq2 Q0 b 2 -1 x\n",
    "scores.csv": "query_id,doc_id,score\nq1,a,2.5\nq1,b,-1\nq2,a,2.5\nq2,b,-1\n",
    "votes.jsonl": lines(VOTES),
    "preferences.csv": cells(PREFERENCES),
    "assistant.json": json.dumps([SESSION]),
}


def of_pools(place):
    pools, _ = brought(place.parent, str(place))
    return [(pool["query"]["id"], d["id"]) for pool in pools for d in pool["documents"]]


def of_votes(place):
    rows = read_vote_rows(open_source(str(place)))
    return [*zip(rows.table["query_id"].to_pylist(), rows.won.tolist(), strict=True)]


READERS = {
    "pools": of_pools,
    "judgments": lambda place: [tuple(r.values())[:3] for r in read_qrels(str(place)).to_pylist()],
    "run": lambda place: [
        tuple(r.values())[:3] for t in read_runs([str(place)]).values() for r in t.to_pylist()
    ],
    "votes": of_votes,
}


PAIRS = [(q, d) for q in QUERIES for d in "ab"]
GRADES = [(*pair, grade) for pair, grade in zip(PAIRS, (3, 0, 2, 1), strict=True)]
SCORES = [(*pair, score) for pair, score in zip(PAIRS, (2.5, -1) * 2, strict=True)]
WINNERS = [("q1", 1), ("q2", 0)]
IN_POOLS, IN_VOTES = {"pools": PAIRS}, {"votes": WINNERS}
READ = {
    "pools.jsonl": IN_POOLS,
    "scored.jsonl": IN_POOLS | {"judgments": SCORES, "run": SCORES},
    "rows.csv": IN_POOLS,
    "rows.parquet": IN_POOLS,
    "graded.csv": IN_POOLS | {"judgments": GRADES},
    "graded.json": IN_POOLS | {"judgments": GRADES},
    "qrels.txt": {"judgments": GRADES},
    "beir.tsv": {"judgments": GRADES, "run": GRADES},
    "ratings.csv": {"judgments": GRADES},
    "nested.json": {"judgments": GRADES, "run": GRADES},
    "trec.run": {"run": SCORES},
    "scores.csv": {"judgments": SCORES, "run": SCORES},
    "votes.jsonl": IN_VOTES,
    "preferences.csv": IN_VOTES,
    "assistant.json": {"pools": [("q1", "red"), ("q2", "red")]},
}


@pytest.mark.parametrize("reader", READERS)
@pytest.mark.parametrize("kind", KINDS)
def test_a_kind_of_file_is_read_or_refused(tmp_path, kind, reader):
    place, content = tmp_path / kind, KINDS[kind]
    if isinstance(content, pa.Table):
        pq.write_table(content, place)
    else:
        place.write_text(content)
    if rows := READ[kind].get(reader):
        assert READERS[reader](place) == rows
        return
    with pytest.raises((InputError, OptionError), match=re.escape(kind)):
        READERS[reader](place)


HTML = "<!DOCTYPE html><html><body><table><tr><td>q1</td></tr></table></body></html>"
REFUSED = {  # file: (content, readers, where)
    "words.jsonl": ("hello\n", "judgments run votes", "words.jsonl"),
    "empty.csv": ("", "judgments run votes", "empty.csv"),
    "head.csv": ("query_id,doc_id,grade\n", "judgments", "head.csv"),
    "page.html": (HTML, "pools judgments run votes", "page.html"),
    "book.xlsx": ("PK\x03\x04", "pools judgments run votes", "book.xlsx"),
    "torn.json": ('{"q1": {"a": 3', "judgments run", "torn.json"),
    "torn.jsonl": (lines(VOTES)[:-9], "votes", "torn.jsonl:2"),
    "grade.csv": ("query_id,doc_id,grade\nq1,a,3\nq1,b,good\n", "judgments", "grade.csv:3"),
    "nan.txt": ("q1 0 a 3\nq1 0 b nan\n", "judgments", "nan.txt:2"),
    "twice.txt": ("q1 0 a 3\nq1 0 a 2\n", "judgments", "twice.txt"),
    "short.txt": ("q1 0 a 3\nq1 0 b\n", "judgments", "short.txt:2"),
    "short.run": ("q1 Q0 a 1 2.5 x\nq1 Q0 b 2\n", "run", "short.run:2"),
    "score.run": ("q1 Q0 a 1 high x\n", "run", "score.run:1"),
    "infinite.run": ("q1 Q0 a 1 2.5 x\nq1 Q0 b 2 inf x\n", "run", "infinite.run:2"),
    "again.run": ("q1 Q0 a 1 2.5 x\nq1 Q0 a 2 2 x\n", "run", "again.run"),
    "winner.csv": ("query_id,doc_id_a,doc_id_b,winner\nq1,a,b,maybe\n", "votes", "winner.csv:2"),
    "far.csv": ("query_id,doc_id_a,doc_id_b,preference\nq1,a,b,7\n", "votes", "far.csv:2"),
    "raters.csv": ("query_id,doc_id,ann,bob\nq1,a,3,2\n", "judgments", "raters.csv"),
    "cells.csv": ("query_id,query,doc_id,text\nq1,what,a,one,more\n", "pools", "cells.csv:2"),
    "texts.csv": ("query_id,query,doc_id,text\nq1,what,a,\n", "pools", "texts.csv"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_cannot_be_read_is_refused_with_its_place(tmp_path, name):
    content, readers, where = REFUSED[name]
    (tmp_path / name).write_text(content)
    for reader in readers.split():
        with pytest.raises((InputError, OptionError), match=re.escape(where)):
            READERS[reader](tmp_path / name)
