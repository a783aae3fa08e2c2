"""Ids: no float has changed them, and those that do not match are shown."""

import pandas as pd
import pyarrow as pa
import pytest

from tests.files.reading import (
    CASES,
    explain_mismatch,
    ids_of,
    pool_lines,
    read_corpus,
    read_inputs,
    read_labels,
    read_memory,
    read_qrels,
    read_run,
    read_votes,
    refused,
    to_id,
    write_file,
)
from zelo_ray import measure

BIG = 1234567890123456789.0
ROWS = {"query_id": ["q", "q"], "query": ["w", "w"], "doc_id": [BIG, 5.0], "text": ["a", "b"]}
LOST = "may have lost digits"


def test_what_is_an_id(tmp_path):
    for value in ("1.23457E+18", "1,23457E+18", "12345678901234567.0", 1e17, 2.0**53):
        with pytest.raises(ValueError, match=LOST):
            to_id(value)
    for text in ("12.0", "1.5", "1e5", "12e45", "v1.0+2", "1234567890123456.0", "a+b"):
        assert to_id(text) == text
    for value, found in ((3.0, "3"), (2**60, str(2**60)), (float("nan"), None), ("", None)):
        assert to_id(value) == found
    for value in (1.5, True, ["a"]):
        with pytest.raises(ValueError, match="it is no id"):
            to_id(value)


def read_pools(place):
    return read_inputs(place.parent, place)


IDS = {"float": "1.23457E+18", "just one": "9007199254740992.0", "Excel's": "2E+15"}
NUMBERS = {"float": "1e18", "long": "123456789012345678901234"}
FILES = [  # a reader, a file, its content, and the ids that it is tried with
    (read_pools, "a.csv", "query,doc_id,text\nq,{},x\n", IDS),
    (read_labels, "b.csv", "query_id,doc_id,relevance\nq,d,1\n{},d,1\n", IDS),
    (read_qrels, "c.qrels", "q 0 d 1\nq 0 {} 1\n", IDS),
    (read_run, "d.run", "{} Q0 d 1 2.5 r\n", IDS),
    (read_qrels, "e.tsv", "query-id\tcorpus-id\tscore\nq\t{}\t1\n", IDS),
    (read_corpus, "f.tsv", "doc_id\ttext\n{}\tx\n", IDS),
    (read_votes, "g.csv", "query_id,doc_id_a,doc_id_b,preference\nq,{},b,1\n", IDS),
    (read_pools, "a.jsonl", '{"query": "w", "doc_id": {}, "text": "x"}\n', NUMBERS),
    (read_pools, "b.json", '[{"query": "w", "passages": [{"id": {}, "text": "x"}]}]', NUMBERS),
    (read_qrels, "c.json", '[{"query_id": "q", "doc_id": {}, "relevance": 1}]', NUMBERS),
    (read_corpus, "d.jsonl", '{"_id": {}, "text": "x"}\n', NUMBERS),
]


@pytest.mark.parametrize(
    ("read", "name", "content", "ids"), FILES, ids=[f"{r.__name__} {n}" for r, n, *_ in FILES]
)
def test_ids_that_were_floats_are_refused_in_files(tmp_path, read, name, content, ids):
    for text in ids.values():
        write_file(tmp_path / name, content.replace("{}", text))
        with refused(LOST):
            read(tmp_path / name)


def test_a_float_is_named_with_its_row(tmp_path):
    with refused(r"float-ids.parquet: row 1: doc_id 1\.2345678901234568e\+18 .*lost digits"):
        read_inputs(tmp_path, CASES / "float-ids.parquet")
    documents = [{"id": 1e18, "content": "x"}]
    pool = {"query": {"id": "q", "query": "w"}, "documents": documents}
    [line] = pool_lines(write_file(tmp_path / "h.jsonl", [pool]))
    assert "must be a text; " in line.reason


def test_ids_that_were_floats_are_refused_in_memory(tmp_path):
    frame = pd.DataFrame(ROWS)
    missing = pd.DataFrame({**ROWS, "doc_id": [1234567890123456789, None]})
    for given in (frame, pa.table(ROWS), frame.to_dict("records"), missing):
        with refused(LOST):
            read_memory(tmp_path, given)
    run, truth = {"q": {"d": 1}}, {"query_id": ["q"], "doc_id": [BIG], "relevance": [1]}
    scores = pd.DataFrame(truth).rename(columns={"relevance": "score"})
    for first, second in ((run, pd.DataFrame(truth)), (run, {"q": {BIG: 1}}), (scores, run)):
        with refused(LOST):
            measure(first, second)


def test_whole_floats_and_large_integers_are_kept(tmp_path):
    exact = pd.DataFrame({**ROWS, "doc_id": [2.0**53 - 1, 12.0]})
    place = write_file(tmp_path / "a.parquet", pa.Table.from_pandas(exact))
    for found, _ in (read_memory(tmp_path, exact), read_inputs(tmp_path, place)):
        assert ids_of(found) == {"q": ["9007199254740991", "12"]}
    nullable = pd.array([1234567890123456789, None], dtype="Int64")
    found, _ = read_memory(tmp_path, pd.DataFrame({**ROWS, "doc_id": nullable})[:1])
    assert ids_of(found) == {"q": ["1234567890123456789"]}


# Ids of two files


@pytest.mark.parametrize(
    ("one", "other"), [("Caf\u00e9-1", "Cafe\u0301-1"), ("007", "7"), ("Q 7.0", "q7"), ("x", "y")]
)
def test_ids_that_nearly_match_are_shown(one, other):
    assert explain_mismatch("a", [one, "zz"], "b", [other, "yy"]) == (
        f"a has {one!a}, b has {other!a}"
    )
    assert explain_mismatch("a", [], "b", [other]) == f"a has '(nothing)', b has {other!a}"
