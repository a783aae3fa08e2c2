"""Stored tables: whole or not at all, the same bytes for the same rows, read piece by piece."""

import gc
import json
import subprocess
import sys
from dataclasses import asdict
from itertools import pairwise

import fsspec
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from zelo_ray.errors import InputError
from zelo_ray.files import tables
from zelo_ray.files.storage import write_json, write_text
from zelo_ray.files.tables import (
    Rejected,
    ResultsWriter,
    StoredTable,
    read_table,
    schema_of,
    table_of,
)
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
        patch.setattr(tables, "_GROUP_ROWS", 20)  # so that 95 rows are several row groups
        write(whole, rows(95))
        write(split, rows(95), cuts)
    assert files(whole) == files(split)
    assert pq.ParquetFile(whole / "rejected.parquet").num_row_groups == 5
    assert pq.read_table(whole / "rejected.parquet").to_pylist() == [asdict(r) for r in rows(95)]


def test_a_table_without_rows_is_a_file_with_its_columns(tmp_path):
    write(tmp_path, [])
    table = pq.read_table(tmp_path / "rejected.parquet")
    assert (table.num_rows, table.schema.names) == (0, ["file", "line", "reason", "raw"])
    assert (tmp_path / "lines.jsonl").read_bytes() == b""


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.parametrize("where", ["local", "s3"])
def test_an_exception_leaves_the_old_files_as_they_were(tmp_path, s3, where):
    out = str(tmp_path / "out") if where == "local" else f"{s3}/out"
    fs, root = fsspec.url_to_fs(out)
    write(out, rows(3))
    before = {name: fs.cat_file(name) for name in fs.find(root)}
    assert len(before) == 2
    with pytest.raises(ConnectionError) as raised:
        break_off(out)
    assert raised.value.filename is None
    gc.collect()
    fs.invalidate_cache()
    assert {name: fs.cat_file(name) for name in fs.find(root)} == before


def break_off(out):
    with ResultsWriter(out, {"rejected": SCHEMA}, ["lines.jsonl"]) as results:
        results.add("rejected", table_of(rows(200), Rejected))
        results.add_line("lines.jsonl", b"{}")
        raise ConnectionError(111, "refused")


def test_no_file_is_seen_before_all_are_whole(tmp_path):
    with ResultsWriter(str(tmp_path), {"rejected": SCHEMA}, ["lines.jsonl"]) as results:
        results.add("rejected", table_of(rows(1), Rejected))
        assert not [name for name in files(tmp_path) if not name.endswith(".partial")]
    assert sorted(files(tmp_path)) == ["lines.jsonl", "rejected.parquet"]


@pytest.mark.parametrize("where", ["local", "s3"])
def test_a_small_file_is_written_over_the_old_one(tmp_path, s3, where):
    out = str(tmp_path) if where == "local" else s3
    write_text(out, "report.html", "old and longer")
    write_text(out, "report.html", "näu")
    write_json(out, "run.json", {"ü": [1, float("nan")]})
    fs, root = fsspec.url_to_fs(out)
    assert fs.cat_file(f"{root}/report.html").decode() == "näu"
    assert json.loads(fs.cat_file(f"{root}/run.json")) == {"ü": [1, None]}
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


@settings(deadline=None, max_examples=30)
@given(
    st.lists(st.sampled_from("abcd"), max_size=12),
    st.integers(1, 5),
    st.sets(st.sampled_from("abcde"), max_size=3),
)
def test_pieces_of_a_table_are_its_rows_in_order(tmp_path_factory, ids, size, wanted):
    out = tmp_path_factory.mktemp("one")
    table = pa.table({"query_id": pa.array(ids, pa.string()), "n": pa.array(range(len(ids)))})
    pq.write_table(table, out / "votes.parquet", row_group_size=size)
    stored, every = StoredTable(f"{out}/votes.parquet"), table.to_pylist()
    chosen = [row for row in every if row["query_id"] in wanted]
    assert [r for t in stored.rows_of_queries(wanted) for r in t.to_pylist()] == chosen
    among = pc.field("query_id").isin(pa.array([*wanted], pa.string()))
    assert stored.where(among).to_pylist() == chosen
    assert [r for t in stored.batches(2) for r in t.to_pylist()] == every
    assert [stored.head(n).to_pylist() for n in (1, 5)] == [every[:1], every[:5]]
    assert stored.query_ids() == [*dict.fromkeys(ids)]
    assert read_table(str(out), "votes", ["n", "none"]) == table.select(["n"])
    skipped = [row for n, row in enumerate(every) if n // size % 2 == 0]
    assert [r for t in stored.batches(3, every=2) for r in t.to_pylist()] == skipped


def test_row_groups_without_the_query_are_not_read(tmp_path, monkeypatch):
    file, whole = tmp_path / "votes.parquet", []
    pq.write_table(pa.table({"query_id": [*"bbaaacab"]}), file, row_group_size=2)
    read = pq.ParquetFile.read_row_group

    def counted(file, group, columns=None, **more):
        whole.extend([group] if columns is None else [])
        return read(file, group, columns, **more)

    monkeypatch.setattr(pq.ParquetFile, "read_row_group", counted)
    (found,) = StoredTable(str(file)).rows_of_queries(["c"])
    assert (found.num_rows, whole) == (1, [2])


THREADS = """
import sys
from psutil import Process
from zelo_ray.files.tables import StoredTable
table, before = StoredTable(sys.argv[1]), Process().num_threads()
table.read()
[*table.batches(2)]
[*table.rows_of_queries(["b"])]
table.query_ids()
print(Process().num_threads() - before)
"""


def test_small_files_are_read_by_no_thread_that_could_outlive_python(tmp_path):
    """One that still holds the file as Python shuts down ends the process by an abort."""
    file = tmp_path / "scores.parquet"
    pq.write_table(pa.table({"query_id": [*"aabbb"], "score": [*range(5)]}), file)
    command = [sys.executable, "-c", THREADS, str(file)]
    said = subprocess.run(command, capture_output=True, text=True, check=True)
    assert (said.stdout, said.stderr) == ("0\n", "")


def test_a_table_that_lacks_a_column_or_is_damaged_is_refused(tmp_path):
    file = tmp_path / "scores.parquet"
    pq.write_table(table_of([], Score).drop_columns(["rank"]), file)
    with pytest.raises(InputError, match="no column rank"):
        read_table(str(tmp_path), "scores", ["rank"], Score)
    file.write_bytes(b"PAR1" + bytes(200) + b"PAR1")
    with pytest.raises(InputError, match="cannot be read"):
        StoredTable(str(file))
    names = pa.Array.from_buffers(
        pa.string(), 1, [None, pa.py_buffer(b"\0\0\0\0\1\0\0\0"), pa.py_buffer(b"\xff")]
    )
    pq.write_table(pa.table({"query_id": names}), file)
    for read in (StoredTable.read, lambda table: [*table.batches(2)]):
        with pytest.raises(InputError, match="cannot be read"):
            read(StoredTable(str(file)))
