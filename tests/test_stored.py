"""Tables as they are stored: in one file, or in parts; a query's rows without the others."""

import json
import math
import subprocess
import sys

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.builders import write_run
from zelo_ray.cli import main
from zelo_ray.commands.adapter import with_lines
from zelo_ray.engine.write_results import Summary
from zelo_ray.errors import InputError
from zelo_ray.formats.files import list_directory, part_files, read_placed_lines
from zelo_ray.formats.probe import probe
from zelo_ray.formats.results import read_table
from zelo_ray.formats.stored import StoredTable, parquet_table
from zelo_ray.formats.tables import defaults_of, schema_of, table_of
from zelo_ray.records import Score, Vote
from zelo_ray.reports.parts import Report
from zelo_ray.results import Results, Table

HEAVY = "ray", "pandas", "plotly", "rich", "openai"


def table_of_queries(query_ids):
    told = [f"said {n}" for n in range(len(query_ids))]
    return pa.table({"query_id": query_ids, "reasoning": told}, schema=SCHEMA)


SCHEMA = pa.schema([("query_id", pa.string()), ("reasoning", pa.string())])
TABLE = table_of_queries([*"bbaaacab"])


def in_parts(folder, table, *cuts):
    """Writes a table in parts, cut at some places."""
    folder.mkdir()
    for number, (start, end) in enumerate(zip((0, *cuts), (*cuts, len(table)), strict=True)):
        part = table.slice(start, end - start)
        pq.write_table(part, folder / f"part-{number:05}.parquet", row_group_size=2)


@settings(deadline=None, max_examples=30)
@given(
    st.lists(st.sampled_from("abcd"), max_size=12),
    st.integers(1, 5),
    st.sets(st.sampled_from("abcde"), max_size=3),
)
def test_a_querys_rows_are_found_wherever_they_stand(tmp_path_factory, ids, size, wanted):
    path = tmp_path_factory.mktemp("one") / "votes.parquet"
    table = table_of_queries(ids)
    pq.write_table(table, path, row_group_size=size)
    found = [
        row for part in StoredTable(str(path)).rows_of_queries(wanted) for row in part.to_pylist()
    ]
    assert found == [row for row in table.to_pylist() if row["query_id"] in wanted]


def test_row_groups_without_the_query_are_not_read(tmp_path, monkeypatch):
    pq.write_table(TABLE, tmp_path / "votes.parquet", row_group_size=2)
    whole = []
    read = pq.ParquetFile.read_row_group

    def counted(file, group, columns=None, **more):
        whole.extend([group] if columns is None else [])
        return read(file, group, columns, **more)

    monkeypatch.setattr(pq.ParquetFile, "read_row_group", counted)
    (rows,) = StoredTable(str(tmp_path / "votes.parquet")).rows_of_queries(["c"])
    assert (rows.num_rows, whole) == (1, [2])


THREADS = """
import sys
from psutil import Process
from zelo_ray.formats.stored import StoredTable
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


def test_explaining_imports_little(tmp_path):
    code = "import sys; import zelo_ray.commands.explain; print(*sys.modules)"
    told = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert not set(HEAVY) & set(told.stdout.split())


def test_a_column_that_an_earlier_version_did_not_write_takes_its_default(tmp_path):
    scores = [Score(q, d, 1.0, 0.1, 3, 1, truth_error=0.2) for q in "ab" for d in "xy"]
    whole, path = table_of(scores, Score), tmp_path / "scores.parquet"
    pq.write_table(whole.drop_columns(["truth_error"]), path)
    columns = ["query_id", "truth_error"]
    stored = StoredTable(str(path), schema_of(Score), defaults=defaults_of(Score))
    parts = [*stored.rows_of_queries(["b"]), *stored.batches(3), stored.head(2)]
    parts += [stored.read(), stored.read(columns), stored.read(columns[1:])]
    parts += [stored.where(pc.field("query_id") == "a")]
    for table in parts:
        assert len(table)
        assert all(map(math.isnan, table["truth_error"].to_pylist()))
    assert stored.schema.names == schema_of(Score).names
    assert "truth_error" not in stored.read(columns[:1]).column_names
    read = read_table(str(tmp_path), "scores", ["doc_id", "truth_error"], Score)
    assert [*read.column_names] == ["doc_id", "truth_error"]
    pq.write_table(whole.drop_columns(["rank"]), path)
    with pytest.raises(InputError, match="no column rank"):
        StoredTable(str(path), schema_of(Score), defaults=defaults_of(Score))


@pytest.mark.parametrize("dropped", [["truth_error"], ["truth_error", "std_error"]])
def test_report_and_explain_read_the_scores_of_an_earlier_version(tmp_path, capsys, dropped):
    write_run(tmp_path, Summary(str(tmp_path)))
    documents = [{"id": name, "content": "text", "score": 1.0} for name in "xy"]
    line = {"query": {"id": "q", "query": "?"}, "documents": documents}
    (tmp_path / "annotated.jsonl").write_text(json.dumps(line) + "\n")
    votes = [Vote("q", "x", "y", "j", -1.0, False, "", "k")]
    pq.write_table(table_of(votes, Vote), tmp_path / "votes.parquet")
    scores = table_of([Score("q", d, 1.0, 0.1, 1, n) for n, d in enumerate("xy", 1)], Score)
    pq.write_table(scores.drop_columns(dropped), tmp_path / "scores.parquet")
    is_read = dropped == ["truth_error"]
    for words in (["report", str(tmp_path)], ["explain", str(tmp_path), "--query", "q"]):
        assert (main(words) == 0) is is_read
        assert ("no column std_error" in capsys.readouterr().err) is not is_read


def test_parts_are_read_as_the_one_file_is(tmp_path):
    (tmp_path / "one").mkdir()
    pq.write_table(TABLE, tmp_path / "one" / "votes.parquet")
    in_parts(tmp_path / "votes", TABLE, 3, 3, 6)
    for out in (str(tmp_path / "one"), str(tmp_path)):
        url = f"{out}/votes.parquet"
        stored = StoredTable(url)
        assert (stored.names, stored.row_count) == (TABLE.column_names, 8)
        assert stored.read(["reasoning", "none"]) == TABLE.select(["reasoning"])
        assert pa.concat_tables(stored.batches(2)).equals(TABLE)
        assert [stored.head(n).equals(TABLE.slice(0, n)) for n in (1, 5, 9)] == [True] * 3
        each, other = (sum(t.num_rows for t in stored.batches(8, every=n)) for n in (1, 2))
        assert (each, other) == (8, 8 if out.endswith("one") else 3)
        assert pa.concat_tables(stored.rows_of_queries("b"))["reasoning"].to_pylist() == [
            *("said 0", "said 1", "said 7")
        ]
        assert parquet_table(url) == read_table(out, "votes", SCHEMA.names) == TABLE
        assert [row for _, row in probe(url).rows()] == TABLE.to_pylist()
        table = Results(with_lines(Report("", (), (), (), out=out)))["votes"]
        assert (len(table), [*table]) == (8, TABLE.to_pylist())
        assert len(Table(url)) == 8


def test_lines_in_parts_are_read_in_order_and_named_by_their_part(tmp_path):
    (tmp_path / "annotated").mkdir()
    for number, text in enumerate(["a\n\nb\n", "", "c\n"]):
        (tmp_path / "annotated" / f"part-{number:05}.jsonl").write_text(text)
    found = [*read_placed_lines(f"{tmp_path}/annotated.jsonl")]
    assert [line for _, line in found] == [b"a", b"b", b"c"]
    assert [place.removeprefix(f"{tmp_path}/annotated/") for place, _ in found] == [
        *("part-00000.jsonl:1", "part-00000.jsonl:3", "part-00002.jsonl:1")
    ]


def test_the_one_file_counts_where_both_are_there(tmp_path):
    in_parts(tmp_path / "votes", TABLE, 3)
    url = f"{tmp_path}/votes.parquet"
    assert len(part_files(url)) == 2
    assert list_directory(str(tmp_path)) == ["votes.parquet"]
    pq.write_table(TABLE.slice(0, 1), url)
    assert part_files(url) == [url]
    assert StoredTable(url).row_count == 1
    assert list_directory(str(tmp_path)) == ["votes.parquet"]


def test_a_part_that_is_missing_is_told(tmp_path):
    in_parts(tmp_path / "votes", TABLE, 3, 5)
    (tmp_path / "votes" / "part-00001.parquet").unlink()
    with pytest.raises(InputError, match=r"votes: part-00001\.parquet is missing"):
        StoredTable(f"{tmp_path}/votes.parquet")


def test_what_is_no_part_is_passed_over(tmp_path):
    in_parts(tmp_path / "votes", TABLE, 3)
    for name in ("part-00002.parquet.partial", "part-1.parquet", "part-00000.jsonl", "x.parquet"):
        (tmp_path / "votes" / name).write_text("")
    assert StoredTable(f"{tmp_path}/votes.parquet").row_count == 8
