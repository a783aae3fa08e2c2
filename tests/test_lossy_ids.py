"""An id that a float may have changed is an error wherever ids are read, with its remedy."""

import json
from pathlib import Path

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.input_pools import brought, lines, put
from zelo_ray.api.bakeoff import qrels_table, run_table
from zelo_ray.api.frames import convert_pools
from zelo_ray.commands.fit.comparisons import read_comparisons
from zelo_ray.errors import InputError
from zelo_ray.formats.input import InputOptions, convert_inputs
from zelo_ray.formats.interchange.texts import read_texts
from zelo_ray.formats.judgments.labels import read_labels
from zelo_ray.formats.judgments.qrels import read_qrels
from zelo_ray.formats.lossy_ids import refuse_lossy_id, refuse_lossy_ids
from zelo_ray.formats.pools import LineLimits, read_lines
from zelo_ray.formats.runs import read_runs

CASES = Path(__file__).parent / "golden" / "cases"
LOST = "may have lost digits .*write ids as texts"
BIG = 1234567890123456789.0
ROWS = {"query_id": ["q", "q"], "query": ["w", "w"], "doc_id": [BIG, 5.0], "text": ["a", "b"]}


def refused(call, *given):
    with pytest.raises(InputError, match=LOST) as error:
        call(*given)
    return str(error.value)


def test_floats_in_parquet(tmp_path):
    case = str(CASES / "float-ids.parquet")
    told = refused(convert_inputs, [case], str(tmp_path), InputOptions())
    assert told.startswith(f"{case}: row 1: doc_id 1.2345678901234568e+18 ")
    path = str(tmp_path / "a.parquet")
    pq.write_table(pa.table({"query_id": [2.0**53], "doc_id": ["d"], "relevance": [1.0]}), path)
    assert "row 1: query_id" in refused(read_qrels, path)
    pq.write_table(pa.table({"_id": [BIG], "text": ["x"]}), path)
    refused(lambda: [*read_texts(path, "corpus")])
    pq.write_table(pa.table({"query_id": ["q"], "doc_id": [BIG], "score": [1.0]}), path)
    refused(read_runs, [path])
    narrow = pa.array([2.0**24], pa.float32())
    pq.write_table(pa.table({"query_id": ["q"], "doc_id": narrow, "grade": [1.0]}), path)
    refused(read_labels, path)


@pytest.mark.parametrize(
    "text", ["1.23457E+18", "1.2345678901234568e+18", "9007199254740992.0", "2E+15"]
)
def test_texts_that_floats_became(tmp_path, text):
    path = put(tmp_path / "a.csv", f"query,doc_id,text\nq,{text},x\n")
    assert f"a.csv:2: doc_id '{text}'" in refused(
        convert_inputs, [path], str(tmp_path), InputOptions()
    )
    path = put(tmp_path / "b.csv", f"query_id,doc_id,relevance\nq,d,1\n{text},d,1\n")
    assert "b.csv:3: query_id" in refused(read_qrels, path)
    refused(read_labels, path)
    refused(read_qrels, put(tmp_path / "c.qrels", f"q 0 d 1\nq 0 {text} 1\n"))
    refused(read_runs, [put(tmp_path / "d.run", f"{text} Q0 d 1 2.5 r\n")])
    refused(read_qrels, put(tmp_path / "e.tsv", f"query-id\tcorpus-id\tscore\nq\t{text}\t1\n"))
    path = put(tmp_path / "f.tsv", f"doc_id\ttext\n{text}\tx\n")
    refused(lambda: [*read_texts(path, "corpus")])
    path = put(tmp_path / "g.csv", f"query_id,doc_id_a,doc_id_b,preference\nq,{text},b,1\n")
    refused(read_comparisons, path, {})


@pytest.mark.parametrize("number", ["1e18", "1234567890123456789.0", "123456789012345678901234"])
def test_numbers_in_json(tmp_path, number):
    row = f'"query": "w", "doc_id": {number}, "text": "x"'
    refused(
        convert_inputs, [put(tmp_path / "a.jsonl", f"{{{row}}}\n")], str(tmp_path), InputOptions()
    )
    row = f'"query": "w", "passages": [{{"id": {number}, "text": "x"}}]'
    refused(
        convert_inputs, [put(tmp_path / "b.json", f"[{{{row}}}]")], str(tmp_path), InputOptions()
    )
    row = f'"query_id": "q", "doc_id": {number}, "relevance": 1'
    refused(read_qrels, put(tmp_path / "c.json", f"[{{{row}}}]"))
    path = put(tmp_path / "d.jsonl", f'{{"_id": {number}, "text": "x"}}\n')
    refused(lambda: [*read_texts(path, "corpus")])


def test_a_line_of_pools_is_told_not_to_write_the_float(tmp_path):
    pool = {"query": {"id": "q", "query": "w"}, "documents": [{"id": 1e18, "content": "x"}]}
    [line] = read_lines(put(tmp_path / "a.jsonl", lines([pool])), LineLimits())
    assert "must be a text; " in line.reason
    assert line.reason.endswith("as a number it may have lost digits")


def test_frames_and_mappings():
    assert "inputs: row 1: doc_id" in refused(convert_pools, pd.DataFrame(ROWS), {})
    refused(convert_pools, pa.table(ROWS), {})
    refused(convert_pools, pd.DataFrame(ROWS).to_dict("records"), {})
    missing = pd.DataFrame({**ROWS, "doc_id": [1234567890123456789, None]})
    refused(convert_pools, missing, {})
    truth = pd.DataFrame({"query_id": ["q"], "doc_id": [BIG], "relevance": [1]})
    assert "truth: row 1: doc_id" in refused(qrels_table, truth, "truth")
    refused(qrels_table, {"q": {BIG: 1}}, "truth")
    refused(run_table, truth.rename(columns={"relevance": "score"}), "run")


def test_whole_numbers_that_are_exact_stay_what_they_were(tmp_path):
    exact = pd.DataFrame({**ROWS, "doc_id": [2.0**53 - 1, 12.0]})
    told, _ = convert_pools(exact, {})
    assert [d["id"] for d in json.loads(told)["documents"]] == ["9007199254740991", "12"]
    nullable = pd.array([1234567890123456789, None], dtype="Int64")
    told, _ = convert_pools(pd.DataFrame({**ROWS, "doc_id": nullable})[:1], {})
    assert json.loads(told)["documents"][0]["id"] == "1234567890123456789"
    path = str(tmp_path / "a.parquet")
    exact.to_parquet(path)
    found, _ = brought(tmp_path, path)
    assert [d["id"] for d in found[0]["documents"]] == ["9007199254740991", "12"]
    for text in ("12.0", "1.5", "1e5", "12e45", "v1.0+2", "1234567890123456.0", "a+b"):
        refuse_lossy_id("here", "the id", text)
    refused(refuse_lossy_id, "here", "the id", "1,23457E+18")  # where a comma parts decimals
    refuse_lossy_ids(pa.chunked_array([["1234567890123456.0", "1e5", None]]), "id", str)
