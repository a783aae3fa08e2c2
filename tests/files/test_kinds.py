"""What each reader makes of each kind of file: rows, or a refusal that names the place.

Two queries (q1, q2), two documents of each (a better than b), as people bring them.
"""

import gzip
import json
import pickle
import re
from math import inf, nan

import pyarrow as pa
import pytest
import zstandard

from tests.files.reading import (
    as_csv,
    as_lines,
    as_parquet,
    ids_of,
    read_all_judgments,
    read_corpus,
    read_inputs,
    read_labels,
    read_qrels,
    read_run,
    read_texts,
    read_votes,
    refused,
    write_file,
)

PAIRS = [(q, d) for q in ("q1", "q2") for d in "ab"]
GRADES = [(*pair, grade) for pair, grade in zip(PAIRS, (3, 0, 2, 1), strict=True)]
SCORES = [(*pair, score) for pair, score in zip(PAIRS, (2.5, -1) * 2, strict=True)]
WINNERS = [("q1", 1), ("q2", 0)]
ROWS = [
    {"query_id": q, "query": f"what is {q}?", "doc_id": d, "text": f"{d} of {q}"} for q, d in PAIRS
]
GRADED = [row | {"grade": grade} for row, (_, _, grade) in zip(ROWS, GRADES, strict=True)]
DOCUMENTS = [{"id": d, "content": f"text {d}", "score": s} for d, s in (("a", 2.5), ("b", -1))]
SCORED = [
    {"query": {"id": q, "query": f"what is {q}?"}, "documents": DOCUMENTS} for q in ("q1", "q2")
]
TEXTS = [{"id": d, "text": d, "score": "2.5" if d == "a" else -1} for d in "ab"]
RANK_LLM = [
    {
        "query": {"qid": q, "text": f"what is {q}?"},
        "candidates": [{"docid": d, "doc": {"contents": d}} for d in "ab"],
    }
    for q in ("q1", "q2")
]
TURNS = [{"qa_id": q, "query": f"what is {q}?", "assistant": f"a of {q}"} for q in ("q1", "q2")]
SESSION = {"session_id": "s", "assistant_id": "red", "conversation": TURNS}
NAMES = {"pid": "9", "docno": "d1", "snippet": "cut", "text": "whole", "rating": 5, "rel": 1}
LABELLED = {"id": 2, "text": "y", "score": 0.3, "label": "3"}
BEIR = "query-id\tcorpus-id\tscore\nq1\ta\t3\nq1\tb\t0\nq2\ta\t2\nq2\tb\t1\n"
BATTLES = "query_id,doc_id_a,doc_id_b"

READERS = {
    "pools": lambda place: [
        (q, d) for q, ids in ids_of(read_inputs(place.parent, place)[0]).items() for d in ids
    ],
    "judgments": read_qrels,
    "run": read_run,
    "votes": read_votes,
}
OTHER_READERS = {
    "corpus": read_corpus,
    "queries": lambda place: [*read_texts(str(place), "queries")],
    "labels": read_labels,
    "agree": lambda place: read_all_judgments([str(place)]),
}
IN_POOLS = {"pools": PAIRS}
KINDS = {  # file: content, and what each reader reads; others refuse it
    "pools.jsonl": (as_lines(SCORED), IN_POOLS | {"judgments": SCORES, "run": SCORES}),
    "rows.csv": (ROWS, IN_POOLS),
    "rows.parquet": (ROWS, IN_POOLS),
    "graded.csv": (GRADED, IN_POOLS | {"judgments": GRADES}),
    "graded.json": (GRADED, IN_POOLS | {"judgments": GRADES}),
    "lists.jsonl": (
        [{"qid": q, "question": "?", "ctxs": TEXTS} for q in ("q1", "q2")],
        IN_POOLS | {"judgments": SCORES, "run": SCORES},
    ),
    "rank_llm.jsonl": (RANK_LLM, IN_POOLS),
    "assistant.json": ([SESSION], {"pools": [("q1", "red"), ("q2", "red")]}),
    "qrels.txt": ("q1 0 a 3\nq1 0 b 0\nq2 0 a 2\nq2 0 b 1\n", {"judgments": GRADES}),
    "beir.tsv": (BEIR, {"judgments": GRADES, "run": GRADES}),
    "ratings.csv": ("qid;docid;rating\nq1;a;3\nq1;b;0\nq2;a;2\nq2;b;1\n", {"judgments": GRADES}),
    "nested.json": (
        json.dumps({"q1": {"a": 3, "b": 0}, "q2": {"a": 2, "b": 1}}),
        {"judgments": GRADES, "run": GRADES},
    ),
    "trec.run": (
        "q1 Q0 a 1 2.5 x\nq1 Q0 b 2 -1 x\nq2 Q0 a 1 2.5 x\nq2 Q0 b 2 -1 x\n",
        {"run": SCORES},
    ),
    "headed.tsv": (
        "query_id\tQ0\tdoc_id\trank\tscore\ttag\nq1\tQ0\ta\t1\t2.5\tx\n",
        {"run": SCORES[:1], "judgments": SCORES[:1]},
    ),
    "scores.csv": (
        "query_id,doc_id,score\nq1,a,2.5\nq1,b,-1\nq2,a,2.5\nq2,b,-1\n",
        {"judgments": SCORES, "run": SCORES},
    ),
    "ranks.csv": (
        "query_id,Position,doc_id\nq1,2,a\nq1,1,b\n",
        {"run": [("q1", "a", -2), ("q1", "b", -1)]},
    ),
    "winners.jsonl": (
        as_lines(
            {"query_id": q, "doc_id_a": "a", "doc_id_b": "b", "winner": winner}
            for q, winner in (("q1", "model_a"), ("q2", "tie"))
        ),
        {"votes": WINNERS},
    ),
    "usual names.jsonl": (
        [{"query": "why", "qid": "q1", "hits": [NAMES]}],
        {"pools": [("q1", "d1")], "judgments": [("q1", "d1", 5)]},
    ),
    "labelled.jsonl": (
        [{"qid": 1, "query": "q", "passages": [LABELLED]}],
        {"pools": [("1", "2")], "judgments": [("1", "2", 3)], "run": [("1", "2", 0.3)]},
    ),
    "null.parquet": (
        {"query_id": ["q", "q"], "doc_id": ["a", "b"], "score": [1.0, None]},
        {"judgments": [("q", "a", 1)]},
    ),
    "quotes.run": ('q"1 Q0 "dé,\u3042 1 2 t\n', {"run": [('q"1', '"dé,\u3042', 2)]}),
    "preferences.csv": (f"{BATTLES},preference\nq1,a,b,-0.5\nq2,a,b,0\n", {"votes": WINNERS}),
}


@pytest.mark.parametrize("reader", READERS)
@pytest.mark.parametrize("name", KINDS)
def test_a_kind_is_read_or_refused(tmp_path, name, reader):
    content, found = KINDS[name]
    write_file(tmp_path / name, content)
    if reader in found:
        assert READERS[reader](tmp_path / name) == found[reader]
    else:
        with refused(re.escape(name)):
            READERS[reader](tmp_path / name)


def odd_parquet():
    """A table whose ids are no UTF-8, at which Arrow does not look."""
    buffers = pa.array([b"d1", b"d\xff"]).buffers()
    ids = pa.Array.from_buffers(pa.string(), 2, buffers)
    return as_parquet({"query_id": ids, "doc_id": ids, "score": [1.0, 2.0]})


HEAD = "query_id,doc_id,grade\n"
ROW = '{"query_id": "q", "doc_id": "d", "grade": 1}'
FEW = [{"query_id": "q1", "doc_id": d, "grade": 1} for d in "ab"]
SCORE = '{{"query": {{"id": "q3"}}, "documents": [{{"id": {}, "score": {}}}]}}\n'
HTML = "<!DOCTYPE html><html><body><table><tr><td>q1</td></tr></table></body></html>"
RUN = b"q1 Q0 d1 1 3.5 bm25\nq1 Q0 d2 2 1e-3 bm25\n"
BY_COLUMN = {name: {"0": 1, "1": 2} for name in ("query_id", "doc_id", "grade")}
ONE = {"query_id": "q1", "doc_id": "d1", "judge": "j", "grade": 1}
BARE = {name: value for name, value in ONE.items() if name != "judge"}
VOTE = {"query_id": "q1", "doc_id_a": "a", "doc_id_b": "b", "judge": "j", "preference": 0.5}
WON = {"question_id": 1, "model_a": "x", "model_b": "y", "judge": "j", "winner": "tie"}
PEOPLE = "query_id,doc_id,person,grade,probability\nq,d0,ann,1,\n"
TWO = {"query_id": ["q", "q"], "doc_id": ["a", "b"], "score": [1.0, 2.0]}
ALL, NUMBERS = "pools judgments run votes", "judgments run"
REFUSED = {  # what it is: name, readers, content, words that stay
    "no text": ("words.jsonl", "judgments run votes", "hello\n", ""),
    "empty": ("empty.csv", "judgments run votes", "", "an empty file"),
    "a head alone": ("head.csv", "judgments", HEAD, ""),
    "a page": ("page.html", ALL, HTML, "web page"),
    "a workbook": ("book.xlsx", ALL, b"PK\x03\x04", "workbook"),
    "a pickle": ("frame.pkl", ALL, pickle.dumps(FEW), ""),
    "other packers": ("bzip2.csv", ALL, b"BZh91AY&SY", "bzip2"),
    "packed unsaid": ("packed.csv", ALL, gzip.compress(HEAD.encode(), mtime=0), r"\.gz"),
    "packed, torn": (
        "torn.csv.gz",
        NUMBERS,
        gzip.compress(as_csv(FEW * 999).encode(), mtime=0)[:-20],
        "cannot be read",
    ),
    "a torn run": ("torn.run.gz", "run", gzip.compress(RUN * 9, mtime=0)[:-9], "cannot be read"),
    "a torn frame": ("torn.run.zst", "run", zstandard.compress(RUN * 99)[:-5], "cannot be read"),
    "broken Parquet": ("broken.parquet", ALL, b"PAR1 and no more", "is not Parquet, or damaged"),
    "Parquet, no UTF-8": ("odd.parquet", "judgments run", odd_parquet(), "is not Parquet, or dam"),
    "JSON, no UTF-8": ("odd.jsonl", "judgments run", b'{"query_id":"q\xff","doc_id":"d"}\n', ""),
    "UTF-16": ("utf16.csv", NUMBERS, "query,text\n".encode("utf-16"), "UTF-16"),
    "Latin 1": ("latin.csv", "judgments", HEAD.encode() + b"q,\xff,1\n", ":2: is not UTF-8"),
    "Excel's line": ("sep.csv", "judgments", f"sep=,\n{HEAD}q,d,1\n", "delete that line"),
    "a short row": ("short.csv", "judgments", f"{HEAD}q,d\n", ":2: has 2 columns"),
    "a long row": ("long.csv", "judgments", f"{HEAD}q,d,1,2\n", ":2: has 4 columns"),
    "an open quote": ("open.csv", "judgments", f'{HEAD}q,"d,1\n', ":2: cannot be read"),
    "a joined quote": ("joined.csv", "judgments", f'{HEAD}q,"d"e,1\n', ":2: .*quote"),
    "a lost quote": ("lines.csv", "judgments", f'{HEAD}q,"d\n",1\nq,"c,1\nq,"e",1\n', ":5: .*4"),
    "a name twice": ("names.csv", "judgments", "query_id,doc_id,doc_id\nq,d,d\n", "same name"),
    "a rater a column": ("raters.csv", "judgments", "query_id,doc_id,ann,bob\nq,a,3,2\n", "ann"),
    "a word": ("word.csv", "judgments", f"{HEAD}q,d,1\nq,e,good\n", ":3: .*'good'"),
    "infinity": ("infinite.csv", "judgments", f"{HEAD}q,d,inf\n", ":2: .*inf"),
    "thousands": ("comma.csv", "judgments", "query_id;doc_id;grade\nq;d;1,500\n", ":2: .*1,500"),
    "no id": ("no-id.csv", "judgments", f"{HEAD}q,,1\n", ":2: has no doc_id"),
    "a row twice": ("again.csv", "judgments", f"{HEAD}q,d,1\nq,e,1\nq,d,0\n", ":4: .*twice.*:2"),
    "no rows": ("item.json", "judgments", f"[{ROW}, 7]", "row 2"),
    "a word in a list": ("item.json", "judgments", f"[{ROW}]".replace("1", '"one"'), "item 1"),
    "torn JSON": ("torn.json", NUMBERS, '{"q1": {"a": 3', "is not valid JSON"),
    "torn rows": ("rows.json", "judgments", f"[\n{ROW},\n{ROW}", "is not valid JSON"),
    "two values": ("two.json", NUMBERS, '{"a": 1}{"b": 2}', "is not valid JSON"),
    "NaN in cells": ("nan.json", NUMBERS, '{"q1":{"d1":NaN,"d2":1}}', "is not valid JSON"),
    "torn lines": ("torn.jsonl", "judgments", as_lines(FEW)[:-9], ":2: is not valid JSON"),
    "torn votes": ("torn.jsonl", "votes", KINDS["winners.jsonl"][0][:-9], ":2: "),
    "by column": ("columns.json", "judgments", json.dumps(BY_COLUMN), "query_id cannot be"),
    "lists of lists": ("values.json", "judgments", "[[1, 2], [3, 4]]", "holds no judgments"),
    "unknown columns": ("who.csv", "judgments", "who,what\nq,d\n", "who, what.*--columns"),
    "qrels, twice": ("twice.txt", "judgments", "q1 0 a 3\nq1 0 a 2\n", ":2: .*twice"),
    "qrels, short": ("short.txt", "judgments", "q1 0 a 3\nq1 0 b\n", ":2: .*3 columns"),
    "a run, short": ("short.run", "run", b"\n" + RUN + b"q1 Q0 a 3 1\n", ":4: .*5 columns"),
    "a run, a word": ("score.run", "run", RUN + b"q1 Q0 a 1 high x\n", ":3: .*'high'"),
    "a run, no UTF-8": ("latin.run", "run", RUN + b"q1 Q0 d\xff 3 1 t\n", ":3: .*UTF-8"),
    "a run, twice": ("again.run", "run", RUN + b"q1 Q0 d1 3 2 x\n", ":3: .*'d1'.*:1"),
    "a maybe": ("winner.csv", "votes", f"{BATTLES},winner\nq1,a,b,maybe\n", ":2: .*'maybe'"),
    "a preference of 7": ("far.csv", "votes", f"{BATTLES},preference\nq1,a,b,7\n", ":2: .*7"),
    "no head": ("headless.csv", "pools", "how to,tweezers\nhow to,the clock\n", "--columns"),
    "unknown lines": ("rows.jsonl", "pools", '{"foo": 1}\n', "columns foo"),
    "a corpus": ("corpus.jsonl", "pools", '{"_id": "d1", "text": "a"}\n', "--columns"),
    "two texts": ("two.csv", "pools", "query,text,body\nq,a,b\n", "'text' and 'body'"),
    "a query twice": ("two.csv", "pools", "query_id,query,text\nq,a,b\nq,z,c\n", ":3: query 'q'"),
    "a document twice": ("two.csv", "pools", "query,doc_id,text\nq,d,b\nq,d,c\n", ":3: .*'d'"),
    "a blank text": ("texts.csv", "pools", "query,doc_id,text\nwhat,a,\n", ""),
    "no list": (
        "list.json",
        "pools",
        '[{"query": "b", "documents": 5}, {"query": "a", "documents": ["x"]}]',
        "list",
    ),
    "a run of 4 columns": ("four.run", "pools", "q1 d1 1 12.5\nq1 d2 2 11.5\n", "4 columns"),
    "a run without texts": ("bare.run", "pools", RUN, "--corpus and --queries"),
    "a topic of Latin 1": ("t", "queries", b"<top>caf\xe9", "TREC topics"),
    "a person's word": ("a.csv", "labels", f"{PEOPLE}q,d1,ann,good,\n", ":3: .*'good'"),
    "a chance of 0": ("a.csv", "labels", f"{PEOPLE}q,d1,ann,1,0\n", ":3: the probability 0"),
    "some chances": ("a.csv", "labels", f"{PEOPLE}q,d1,ann,1,.5\n", ":2: has no probability"),
    "a label's query": ("a.csv", "labels", f"{PEOPLE},d1,ann,1,\n", ":3: has no query_id"),
    "a label twice": (
        "a.csv",
        "labels",
        f"{PEOPLE}q,d0,ann,1,\n",
        ":3: .*judged by one person twice.*a.csv:2",
    ),
    "a grade's word": ("a.jsonl", "agree", [ONE, ONE | {"grade": "two"}], ":2: .*'two'"),
    "a grade of yes": ("a.jsonl", "agree judgments", [BARE, BARE | {"grade": True}], ":2: .*True"),
    "a grade's document": ("a.jsonl", "agree", [ONE, ONE | {"doc_id": None}], ":2: has no doc_id"),
    "a grade's judge": ("a.jsonl", "agree", [ONE, ONE | {"judge": None}], ":2: has no judge"),
    "a list as id": ("a.jsonl", "agree", [ONE, ONE | {"query_id": ["q"]}], r":2: .*\['q'\]"),
    "a grade twice": ("a.jsonl", "agree", [BARE, BARE], ":2: document 'd1' .*twice"),
    "a preference": ("a.jsonl", "agree", [VOTE, VOTE | {"preference": 1.1}], ":2: .*1.1"),
    "a preference's word": ("a.jsonl", "agree", [VOTE, VOTE | {"preference": "A"}], ":2: .*'A'"),
    "a swap": ("a.jsonl", "agree", [VOTE, VOTE | {"swapped": 2}], ":2: swapped cannot be 2"),
    "a winner": ("a.jsonl", "agree", [WON, WON | {"winner": "model_1"}], ":2: .*'model_1'"),
    "a winner's number": ("a.jsonl", "agree", [WON, WON | {"winner": 1.5}], ":2: .*1.5"),
    "itself": ("a.jsonl", "agree", [WON, WON | {"model_b": "x"}], ":2: .*with itself"),
    "no grade": ("a.jsonl", "agree", [ONE, {"query_id": "q", "doc_id": "e"}], ":2: has no"),
    "a vote at last": ("a.jsonl", "agree", [ONE, VOTE], ":1: has no 'preference'"),
    "a line of a grade": ("a.jsonl", "agree", [VOTE, ONE], ":2: has no 'preference'"),
    "a judge at last": ("a.jsonl", "agree", [BARE, ONE | {"doc_id": "e"}], ":1: has no 'judge'"),
    "no winner": (
        "a.jsonl",
        "agree",
        [WON, {"question_id": 2, "judge": "j"}],
        ":2: has no 'winner'",
    ),
    "a pool's word": ("a.jsonl", NUMBERS, as_lines(SCORED) + SCORE.format('"d"', '"high"'), ":3: "),
    "a pool's query": ("a.jsonl", NUMBERS, as_lines(SCORED) + '{"query": {}}\n', ":3: "),
    "a torn pool": ("a.jsonl", NUMBERS, as_lines(SCORED) + '{"query": ', ":3: is not valid JSON"),
    "a pool twice": ("a.jsonl", NUMBERS, as_lines([*SCORED, SCORED[0]]), ":3: document 'a' .*:1"),
    "Parquet, infinite": ("a.parquet", NUMBERS, TWO | {"score": [1.0, inf]}, "row 2: score is inf"),
    "Parquet, NaN": ("a.parquet", "run", TWO | {"score": [1.0, nan]}, "row 2: score is nan"),
    "Parquet, a text": ("a.parquet", NUMBERS, TWO | {"score": ["a", "b"]}, "row 1: .*'a'"),
    "Parquet, lists": ("a.parquet", NUMBERS, TWO | {"score": [[1.0], [2.0]]}, r"row 1: .*\[1.0\]"),
    "an infinite error": ("a.parquet", "judgments", TWO | {"std_error": [0.1, inf]}, "is inf"),
    "an error below 0": ("a.parquet", "judgments", TWO | {"std_error": [0.1, -0.1]}, "below 0"),
    "Parquet, no id": ("a.parquet", NUMBERS, TWO | {"doc_id": ["a", None]}, "row 2: has no doc_id"),
    "Parquet, twice": ("a.parquet", NUMBERS, TWO | {"doc_id": ["a", "a"]}, "row 2: .*twice.*row 1"),
    "Parquet, no run": ("a.parquet", "run", TWO | {"run": ["a", ""]}, "row 2: has no run"),
    "no tab": ("texts.tsv", "corpus", "7 what?\n", ":1: has no tab"),
    "a text of Latin 1": ("texts.tsv", "corpus", b"7\tcaf\xe9\n", ":1: is not UTF-8"),
    "an unknown text": ("t.tsv", "corpus", "docid\ttitle\tabstract\nd\ta\tb\n", "--columns"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_cannot_be_read_names_its_place(tmp_path, case):
    name, readers, content, words = REFUSED[case]
    place = tmp_path / name
    if isinstance(content, bytes):
        place.write_bytes(content)  # as it stands, not packed
    else:
        write_file(place, content)
    for reader in readers.split():
        with refused(f"{re.escape(name)}.*{words}"):
            (READERS | OTHER_READERS)[reader](place)
