"""Tables of every form are the same rows, read strictly, and a file is opened once."""

import json

import fsspec
import pytest

from tests.files.reading import (
    CASES,
    FORMS,
    CountingFileSystem,
    as_csv,
    as_lines,
    open_source,
    read_inputs,
    read_qrels,
    read_run,
    refused,
    split_columns,
    write_file,
)

ROWS = [{"query_id": "q1", "doc_id": d, "grade": g} for d, g in (("d1", 2), ("d2", 0))]
FOUND = [("q1", "d1", 2), ("q1", "d2", 0)]
OTHER = [{"Q-ID": "q1", "Doc No": "d1", "Label": 2}, {"Q-ID": "q1", "Doc No": "d2", "Label": 0}]
SAME = {  # forms of the same table
    **dict.fromkeys(("a.csv", "a.txt", "a.tsv", "a.jsonl", "a.json", "a.bin"), ROWS),
    "bom.csv": "\ufeff" + as_csv(ROWS),
    "line.json": json.dumps(ROWS),
    "nested.json": json.dumps({"q1": {"d1": 2, "d2": "0"}}),
    "Other Names.csv": OTHER,
    "decimal-commas.csv": "query_id;doc_id;grade\nq1;d1;2,0\nq1;d2;0,0\n",
    "empty-columns.csv": "query_id,doc_id,grade,,\nq1,d1,2,,\nq1,d2,0,,\n",
    "yes-and-no.parquet": [row | {"grade": row["grade"] > 0} for row in ROWS],
}


@pytest.mark.parametrize("name", SAME)
def test_every_form_holds_the_same(tmp_path, name):
    wanted = [(q, d, min(g, 1)) for q, d, g in FOUND] if name.startswith("yes") else FOUND
    for packed in ("", ".gz", ".zst") if "json" in name or name.endswith("sv") else ("",):
        assert read_qrels(write_file(tmp_path / f"{name}{packed}", SAME[name])) == wanted


@pytest.mark.parametrize("name", ["a.csv", "a.csv.gz", "a.tsv", "a.jsonl", "a.json", "a.bin"])
def test_a_file_is_opened_once(name):
    fsspec.register_implementation("counting", CountingFileSystem, clobber=True)
    place = write_file(f"counting://{name}", SAME[name.removesuffix(".gz")])
    CountingFileSystem.opened.clear()
    assert read_qrels(place) == FOUND
    assert len(CountingFileSystem.opened) == 1


def test_a_file_of_several_blocks_is_read_on(tmp_path, monkeypatch):
    monkeypatch.setattr("zelo_ray.files.storage.BLOCK_BYTES", 64)
    many = [{"query_id": "q1", "doc_id": f"d{n}", "grade": n % 4} for n in range(99)]
    for form in ("csv", "tsv", "jsonl"):
        source = open_source(write_file(tmp_path / f"a.{form}", FORMS[form](many)))
        for _ in range(2):
            assert [row["doc_id"] for _, row in source.rows()] == [f"d{n}" for n in range(99)]


def cells(path):
    return [(number, *row.values()) for number, row in open_source(str(path)).rows()]


def test_a_row_stands_where_its_first_line_does(tmp_path):
    path = tmp_path / "a.csv"
    path.write_text('a, b,c\n"x\ny", "d, 1",1\n\nx"y,d,2\n"z""w",e,"3"')
    assert cells(path) == [(2, "x\ny", "d, 1", "1"), (5, 'x"y', "d", "2"), (6, 'z"w', "e", "3")]
    path.write_text("a\tb\n x\ty\n")
    assert cells(path) == [(2, " x", "y")]


AFTER_TABS = {
    "opened": ('1\t"open\n2\tb\n', ['"open', "b"]),
    "closed later": ('1\t"open\n\n2\tclosed"\n3\tc\n', ['"open', 'closed"', "c"]),
    "words and a cell": ('1\t"a" and "b"\n2\t"whole"\n', ['"a" and "b"', "whole"]),
    "within, alone": ('1\t""a" b\n2\tx "y"\n3\t"\n', ['""a" b', 'x "y"', '"']),
    "escaped": ('1\ta lone\rreturn\n2\t"\\"so\\""\n', ["a lone\rreturn", r'"\"so\""']),
    "far apart": ('1\t"\n' + "2\tb\n" * 3000 + '3\t"\n', ['"', *["b"] * 3000, '"']),
    "others do not": ('1\tsay "so"\n2\t"two\nlines\tof"\n', ['say "so"', '"two', 'of"']),
}


@pytest.mark.parametrize("case", AFTER_TABS)
def test_a_quote_that_encloses_no_cell_is_text(tmp_path, case):
    text, found = AFTER_TABS[case]
    path = tmp_path / "a.tsv"
    path.write_bytes(b"id\ttext\n" + text.encode())
    assert [row["text"] for _, row in open_source(str(path)).rows()] == found


def test_what_a_table_writer_quotes_comes_back(tmp_path):
    texts = ['"', '""', 'a "b"', '"a" b', '"a"', "a\tb", "a\nb", '\t"\n"', 'x\n\n"y\tz', "\n1\tb\n"]
    written = [{"id": str(n), "text": text, "more": "m"} for n, text in enumerate(texts)]
    assert [
        row for _, row in open_source(write_file(tmp_path / "a.csv", written)).rows()
    ] == written
    place = write_file(tmp_path / "a.tsv", written[:5])
    assert [row for _, row in open_source(place).rows()] == written[:5]
    with refused("a.tsv:3: has 2 columns.*take CSV or JSON lines"):
        [*open_source(write_file(tmp_path / "a.tsv", written[4::2])).rows()]


def test_open_quotes_of_users_are_read_whole():
    notes = [row["note"] for _, row in open_source(str(CASES / "labels-with-notes.tsv")).rows()]
    assert notes == ['"unclear', "ok", 'says "yes"', "fine"]
    passages = [row["passage"] for _, row in open_source(str(CASES / "quoted.tsv")).rows()]
    assert passages[:2] == ['"Dreams is a song by the band.', 'He said "hello" twice.']


def test_a_cell_or_a_line_may_be_huge(tmp_path):
    text = "wörd \n" * 2_000_000
    place = write_file(tmp_path / "a.csv", f'query_id,doc_id,text,grade\nq,d,"{text}",2\nq,e,,\n')
    assert read_qrels(place) == [("q", "d", 2)]
    place = write_file(tmp_path / "in.jsonl", "{" + "x" * 10**7 + "\n" + as_lines(ROWS))
    assert open_source(place).kind == "pools"


# Names of columns


def test_columns_are_named_by_the_user(tmp_path):
    place = write_file(tmp_path / "a.csv", "who,what,stars\nq1,d1,2\n")
    columns = split_columns(["query_id=who", "doc_id=what", "grade=stars"])
    assert read_qrels(place, columns) == [("q1", "d1", 2)]
    columns.refuse_unused()
    columns = split_columns(["query_id=who", "doc_id=what", "grade=stars", "judge=nobody"])
    read_qrels(place, columns)
    with refused("no file has a column 'nobody'"):
        columns.refuse_unused()
    for words, says in (("a b", "ROLE=NAME"), ("docid=x", "'doc_id'"), ("grade=a,grade=b", "one")):
        with refused(says):
            split_columns(words.split(","))
    both = write_file(tmp_path / "b.csv", "query_id,doc_id,rating,label\nq1,d1,2,3\n")
    with refused("rating and label may all be the grade"):
        read_qrels(both)
    assert read_qrels(both, {"grade": "label"}) == [("q1", "d1", 3)]
    texts = write_file(tmp_path / "c.csv", "query,text,body\nq,a,b\n")
    (pool,), _ = read_inputs(tmp_path, texts, columns={"content": "body"})
    assert [d["content"] for d in pool["documents"]] == ["b"]


def test_a_late_column_is_refused_where_needed(tmp_path):
    rows = [ROWS[0] | {"doc_id": f"d{n}", "score": n} for n in range(150)]
    late = ROWS[1] | {"score": 1, "doc_id": "z", "probability": 0.5}
    place = write_file(tmp_path / "late.jsonl", [*rows, late])
    with refused(r"late.jsonl:151: has 'probability', unlike"):
        read_qrels(place)
    assert len(read_run(place)) == 151
