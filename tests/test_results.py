"""The files of a run: whole or not at all, and the same bytes for the same rows."""

import gc
import json
from dataclasses import asdict
from itertools import pairwise

import fsspec
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from zelo_ray.formats import results as results_module
from zelo_ray.formats.results import ResultsWriter, write_json, write_text
from zelo_ray.formats.tables import Rejected, schema_of, table_of
from zelo_ray.records import Failure, Score, Vote

SCHEMA = schema_of(Rejected)


def rows(count):
    return [Rejected("in.jsonl", i, "why", f"text {i}") for i in range(count)]


def write(out, records, cuts=()):
    edges = [0, *sorted(cuts), len(records)]
    with ResultsWriter(str(out), {"rejected": SCHEMA}, ["lines.jsonl"]) as results:
        for start, end in pairwise(edges):
            results.add("rejected", table_of(records[start:end], Rejected))
            for record in records[start:end]:
                results.add_line("lines.jsonl", json.dumps(asdict(record)).encode())


def files(out):
    return {path.name: path.read_bytes() for path in sorted(out.iterdir())}


@settings(deadline=None, max_examples=40)
@given(st.lists(st.integers(0, 95), max_size=6))
def test_equal_rows_make_equal_files_however_they_are_split(tmp_path_factory, cuts):
    whole, split = tmp_path_factory.mktemp("whole"), tmp_path_factory.mktemp("split")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(results_module, "_ROWS", 20)  # so that 95 rows are several row groups
        write(whole, rows(95))
        write(split, rows(95), cuts)
    assert files(whole) == files(split)
    assert pq.ParquetFile(whole / "rejected.parquet").num_row_groups == 5
    assert pq.read_table(whole / "rejected.parquet").to_pylist() == [asdict(r) for r in rows(95)]


def test_a_table_without_rows_is_a_file_with_its_columns(tmp_path):
    write(tmp_path, [])
    table = pq.read_table(tmp_path / "rejected.parquet")
    assert table.num_rows == 0
    assert table.schema.names == ["file", "line", "reason", "raw"]
    assert (tmp_path / "lines.jsonl").read_bytes() == b""


def test_an_exception_leaves_the_old_files_as_they_were(tmp_path):
    write(tmp_path, rows(3))
    before = files(tmp_path)
    with pytest.raises(ZeroDivisionError):
        _break_off(str(tmp_path))
    gc.collect()
    after = files(tmp_path)
    assert {name: after[name] for name in before} == before
    write(tmp_path, rows(3))
    assert files(tmp_path) == before


def test_no_file_is_seen_before_all_are_whole(tmp_path):
    with ResultsWriter(str(tmp_path), {"rejected": SCHEMA}, ["lines.jsonl"]) as results:
        results.add("rejected", table_of(rows(1), Rejected))
        assert not [name for name in files(tmp_path) if not name.endswith(".partial")]
    assert sorted(files(tmp_path)) == ["lines.jsonl", "rejected.parquet"]


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_an_exception_leaves_the_old_objects_of_a_store_as_they_were(s3):
    out = f"{s3}/out"
    fs, root = fsspec.url_to_fs(out)
    write(out, rows(3))
    before = {name: fs.cat_file(name) for name in fs.find(root)}
    assert len(before) == 2
    with pytest.raises(ZeroDivisionError):
        _break_off(out)
    gc.collect()
    fs.invalidate_cache()
    assert {name: fs.cat_file(name) for name in fs.find(root)} == before


def _break_off(out):
    with ResultsWriter(out, {"rejected": SCHEMA}, ["lines.jsonl"]) as results:
        results.add("rejected", table_of(rows(200), Rejected))
        results.add_line("lines.jsonl", b"{}")
        raise ZeroDivisionError


@pytest.mark.parametrize("where", ["local", "s3"])
def test_a_small_file_is_written_over_the_old_one(tmp_path, s3, where):
    out = str(tmp_path) if where == "local" else s3
    write_text(out, "report.html", "old and longer")
    write_text(out, "report.html", "näu")
    write_json(out, "run.json", {"ü": [1]})
    fs, root = fsspec.url_to_fs(out)
    assert fs.cat_file(f"{root}/report.html").decode() == "näu"
    assert json.loads(fs.cat_file(f"{root}/run.json")) == {"ü": [1]}
    assert len(fs.find(root)) == 2


def test_a_record_becomes_columns_of_its_annotated_types():
    assert schema_of(Failure).field("doc_ids").type == pa.list_(pa.string())
    assert schema_of(Failure).field("status").type == pa.string()
    assert schema_of(Score).field("std_error").type == pa.float64()
    assert schema_of(Vote).field("swapped").type == pa.bool_()
    assert schema_of(Score).field("rank").type == pa.int64()
    failure = Failure("q", ("a", "b"), "j", "refused", "why", 2, "00")
    (row,) = table_of([failure], Failure).to_pylist()
    assert Failure(**row | {"doc_ids": tuple(row["doc_ids"])}) == failure
