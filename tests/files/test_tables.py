"""Stored tables: whole or not at all, the same bytes for the same rows, read piece by piece."""

import gc
import json
import subprocess
import sys
from dataclasses import asdict
from itertools import pairwise

import fsspec
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.files.reading import refused, tables
from zelo_ray.records import Score

ROWS = [tables.Rejected("in.jsonl", n, "why", f"text {n}") for n in range(95)]
SCHEMA = tables.schema_of(tables.Rejected)


def write(out, rows, cuts=(), error=None):
    """Write rows as a table and as lines, in pieces; then an error may break it off."""
    with tables.ResultsWriter(str(out), {"rejected": SCHEMA}, ["lines.jsonl"]) as results:
        for start, end in pairwise([0, *sorted(cuts), len(rows)]):
            results.add("rejected", tables.table_of(rows[start:end], tables.Rejected))
            for row in rows[start:end]:
                results.add_line("lines.jsonl", json.dumps(asdict(row)).encode())
        if error:
            raise error


def files(out):
    fs, root = fsspec.url_to_fs(str(out))
    fs.invalidate_cache()
    return {name.rpartition("/")[2]: fs.cat_file(name) for name in fs.find(root)}


@settings(max_examples=40)
@given(st.lists(st.integers(0, 95), max_size=6))
def test_equal_rows_make_equal_files_however_split(tmp_path_factory, cuts):
    whole, split = tmp_path_factory.mktemp("whole"), tmp_path_factory.mktemp("split")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tables, "_GROUP_ROWS", 20)  # so that 95 rows are several row groups
        write(whole, ROWS)
        write(split, ROWS, cuts)
    assert files(whole) == files(split)
    assert pq.ParquetFile(whole / "rejected.parquet").num_row_groups == 5
    assert pq.read_table(whole / "rejected.parquet").to_pylist() == [asdict(row) for row in ROWS]


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.parametrize("where", ["local", "s3"])
def test_an_exception_leaves_the_old_files(tmp_path, s3, where):
    out = str(tmp_path / "out") if where == "local" else f"{s3}/out"
    write(out, ROWS[:3])
    before = files(out)
    with pytest.raises(ConnectionError) as raised:
        write(out, ROWS, error=ConnectionError(111, "refused"))
    assert raised.value.filename is None
    gc.collect()
    assert sorted(before) == ["lines.jsonl", "rejected.parquet"]
    assert files(out) == before


IDS = st.sampled_from("abcd")


@settings(max_examples=30)
@given(st.lists(IDS, max_size=12), st.integers(1, 5), st.sets(IDS, max_size=3))
def test_pieces_of_a_table_are_its_rows(tmp_path_factory, ids, size, wanted):
    out = tmp_path_factory.mktemp("one")
    table = pa.table({"query_id": pa.array(ids, pa.string()), "n": pa.array(range(len(ids)))})
    pq.write_table(table, out / "votes.parquet", row_group_size=size)
    stored, every = tables.StoredTable(f"{out}/votes.parquet"), table.to_pylist()
    chosen = [row for row in every if row["query_id"] in wanted]
    skipped = [row for n, row in enumerate(every) if n // size % 2 == 0]
    for pieces, rows in (
        (stored.rows_of_queries(wanted), chosen),
        (stored.batches(2), every),
        (stored.batches(3, every=2), skipped),
        ([stored.head(1)], every[:1]),
    ):
        assert [row for piece in pieces for row in piece.to_pylist()] == rows
    assert tables.read_table(str(out), "votes", ["n", "none"]) == table.select(["n"])


THREADS = """
import sys
from psutil import Process
from zelo_ray.files.tables import StoredTable
table, before = StoredTable(sys.argv[1]), Process().num_threads()
table.read()
[*table.batches(2)]
[*table.rows_of_queries(["b"])]
print(Process().num_threads() - before)
"""


def test_small_files_are_read_by_no_thread(tmp_path):
    """One that still holds the file as Python shuts down ends the process by an abort."""
    file = tmp_path / "scores.parquet"
    pq.write_table(pa.table({"query_id": [*"aabbb"], "score": [*range(5)]}), file)
    command = [sys.executable, "-c", THREADS, str(file)]
    said = subprocess.run(command, capture_output=True, text=True, check=True)
    assert (said.stdout, said.stderr) == ("0\n", "")


def test_a_table_that_is_damaged_is_refused(tmp_path):
    file = tmp_path / "scores.parquet"
    pq.write_table(tables.table_of([], Score).drop_columns(["rank"]), file)
    with refused("no column rank"):
        tables.read_table(str(tmp_path), "scores", ["rank"], Score)
    file.write_bytes(b"PAR1" + bytes(200) + b"PAR1")
    with refused("cannot be read|is not Parquet"):
        tables.StoredTable(str(file))
    buffers = [None, pa.py_buffer(b"\0\0\0\0\1\0\0\0"), pa.py_buffer(b"\xff")]
    names = pa.Array.from_buffers(pa.string(), 1, buffers)  # no UTF-8
    pq.write_table(pa.table({"query_id": names}), file)
    for read in (tables.StoredTable.read, lambda table: [*table.batches(2)]):
        with refused("cannot be read|is not Parquet"):
            read(tables.StoredTable(str(file)))
