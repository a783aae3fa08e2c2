"""Tables of `label` that go out and come back."""

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.helpers.labelling import back, sample_at, sheet
from zelo_ray import cli
from zelo_ray.files.labels import read_labels


@pytest.mark.parametrize("mark", [",", ";"])
def test_a_spreadsheet_goes_out_and_comes_back_moved_and_cut(tmp_path, capsys, mark):
    out = sample_at(tmp_path / "labels", 6, text='=cmd()\nüber; "all"')
    rows = sheet(out, tmp_path / "out.csv", capsys)
    assert [row["number"] for row in rows] == ["1", "2", "3", "4", "5", "6"]
    assert not any("doc-" in "".join(row.values()) for row in rows)
    for row, grade in zip(rows, ("2.0", "u", "Cannot say", "", "0", "3,0"), strict=True):
        row |= {"grade": grade, "colour": "red"}
    moved = [
        {name: row[name] for name in ("grade", "colour", "document", "key")} for row in rows[::-1]
    ]
    words = ("--person", "ann")
    status, told = back(out, tmp_path / "in.csv", moved, capsys, *words, mark=mark)
    assert (status, "Read 5 answers" in told and "5 of them new" in told) == (0, True)
    labels = read_labels(str(out))
    assert labels.rows["grade"].to_pylist() == [2.0]
    assert (labels.cannot_say, labels.out_of_turn) == (2, 2)
    assert "0 of them new" in back(out, tmp_path / "in.csv", moved, capsys, *words, mark=mark)[1]
    assert [row["number"] for row in sheet(out, tmp_path / "rest.csv", capsys)] == ["1"]


def test_no_text_is_taken_for_a_formula_and_a_long_one_is_cut(tmp_path, capsys):
    starts = ("=1+1", "+1", "-1", "@SUM(A1)", "\t=1", "\r\n=1", " =1", "\uff1d1", "\uff0bx", "'=1")
    out = sample_at(tmp_path / "labels", len(starts) + 1)
    table, texts = pq.read_table(out / "documents.parquet"), [*starts, "x" * 40_000]
    for name in ("query", "document"):
        at = table.schema.get_field_index(name)
        table = table.set_column(at, name, pa.array(texts))
    pq.write_table(table, out / "documents.parquet")
    *rows, last = sheet(out, tmp_path / "out.csv", capsys)
    assert [row["query"] for row in rows] == [row["document"] for row in rows]
    assert [row["query"] for row in rows] == [f"'{start}" for start in starts]
    assert len(last["document"]) < 32_767
    assert "the whole text has 40,000 characters" in last["document"]


def test_a_cell_that_cannot_be_read_is_named_and_nothing_is_kept(tmp_path, capsys):
    out = sample_at(tmp_path / "labels", 3)
    rows = [row | {"grade": "1", "person": "ann"} for row in sheet(out, tmp_path / "o.csv", capsys)]
    for change in ("grade=good", "grade=4", "grade=1.5", "grade=0_1", "key=kwrong", "person="):
        name, _, value = change.partition("=")
        given = [rows[0], rows[1] | {name: value}, rows[2]]
        status, told = back(out, tmp_path / "in.csv", given, capsys)
        assert status == 1
        assert "in.csv:3: " in told
        assert value in told
    (tmp_path / "in.csv").write_text("id,grade\n1,2\n")
    assert cli.main(["label", "--out", str(out), "--read", str(tmp_path / "in.csv")]) == 1
    assert (out / "answers.jsonl").read_bytes() == b""
