"""Tables of every form are rows, read strictly; what is wrong is named with its line."""

import csv
import gzip
import json
import pickle
from pathlib import Path

import pyarrow as pa
import pyarrow.feather
import pyarrow.parquet as pq
import pytest

from tests.input_pools import cells, lines, put
from zelo_ray.errors import InputError, OptionError
from zelo_ray.files import rows as rows_module
from zelo_ray.files.inputs import read_pools
from zelo_ray.files.judges import read_judgments
from zelo_ray.files.judgments import read_qrels, read_runs
from zelo_ray.files.rows import open_source
from zelo_ray.files.schema import Columns, split_columns, to_id

CASES = Path(__file__).parents[1] / "golden" / "cases"
ROWS = [{"query_id": "q1", "doc_id": d, "grade": g} for d, g in (("d1", 2), ("d2", 0))]
FORMS = {
    "a.csv": cells(ROWS),
    "a.txt": cells(ROWS, ";"),
    "a.tsv": cells(ROWS, "\t"),
    "bom.csv": "\ufeff" + cells(ROWS),
    "a.jsonl": lines(ROWS),
    "a.json": json.dumps(ROWS, indent=1),
    "line.json": json.dumps(ROWS),
    "nested.json": json.dumps({"q1": {"d1": 2, "d2": "0"}}),
    "within.json": json.dumps({"data": ROWS}),
    "Other Names.csv": cells(
        [{"Q-ID": "q1", "Doc No": "d1", "Label": 2}, {"Q-ID": "q1", "Doc No": "d2", "Label": 0}]
    ),
    "comma.csv": "query_id;doc_id;grade\nq1;d1;2,0\nq1;d2;0,0\n",
    "empty-columns.csv": "query_id,doc_id,grade,,\nq1,d1,2,,\nq1,d2,0,,\n",
    "a.bin": pa.Table.from_pylist(ROWS),
}


def write(place, content):
    if isinstance(content, pa.Table):
        pq.write_table(content, place)
        return str(place)
    return put(place, content)


def triples(place):
    return [tuple(row.values())[:3] for row in read_qrels(str(place)).to_pylist()]


@pytest.mark.parametrize("name", FORMS)
@pytest.mark.parametrize("packed", ["", ".gz", ".zst"])
def test_every_form_holds_the_same(tmp_path, name, packed):
    if packed and name == "a.bin":
        pytest.skip("Parquet packs its columns itself")
    place = write(tmp_path / f"{name}{packed}", FORMS[name])
    assert triples(place) == [("q1", "d1", 2), ("q1", "d2", 0)]
    assert {*read_judgments(place, "me").table["judge"].to_pylist()} == {"me"}


@pytest.mark.parametrize("name", ["a.csv", "a.tsv", "a.jsonl", "a.json", "a.bin"])
def test_a_file_is_opened_once(tmp_path, name, monkeypatch):
    place, opened = write(tmp_path / name, FORMS[name]), []
    blocks = rows_module.read_blocks
    monkeypatch.setattr(rows_module, "read_blocks", lambda url: opened.append(url) or blocks(url))
    monkeypatch.setattr(rows_module, "open_for_reading", None)
    read_qrels(place)
    assert opened == [place]


def test_a_file_of_several_blocks_is_read_on_where_its_beginning_ends(tmp_path, monkeypatch):
    monkeypatch.setattr("zelo_ray.files.storage.BLOCK_BYTES", 64)
    many = [{"query_id": "q1", "doc_id": f"d{n}", "grade": n % 4} for n in range(99)]
    for name, text in (
        ("a.csv", cells(many)),
        ("a.tsv", cells(many, "\t")),
        ("a.jsonl", lines(many)),
    ):
        source = open_source(put(tmp_path / name, text))
        for _ in range(2):
            assert [row["doc_id"] for _, row in source.rows()] == [f"d{n}" for n in range(99)]


def places(path):
    source = open_source(str(path))
    return [(number, *row.values()) for number, row in source.rows()]


def test_a_row_stands_where_its_first_line_does(tmp_path):
    path = tmp_path / "a.csv"
    path.write_text('a, b,c\n"x\ny", "d, 1",1\n\nx"y,d,2\n"z""w",e,"3"')
    assert places(path) == [(2, "x\ny", "d, 1", "1"), (5, 'x"y', "d", "2"), (6, 'z"w', "e", "3")]
    path.write_text("a\tb\n x\ty\n")
    assert places(path) == [(2, " x", "y")]


AFTER_TABS = [
    ('1\t"open\n2\tb\n', ['"open', "b"]),
    ('1\t"open\n\n2\tclosed"\n3\tc\n', ['"open', 'closed"', "c"]),
    ('1\t"a" and "b"\n2\t"whole"\n', ['"a" and "b"', "whole"]),
    ('1\t""a" b\n2\tx "y"\n3\t"\n', ['""a" b', 'x "y"', '"']),
    ('1\t"two\nlines ""of"" it"\n2\tb\n', ['two\nlines "of" it', "b"]),
    ('1\t"three\r\n\r\nlines\tand\ttabs"\r\n2\tb\r\n', ["three\r\n\r\nlines\tand\ttabs", "b"]),
    ('1\t"lines\tof\ntwo\tcells\nand one"\n', ["lines\tof\ntwo\tcells\nand one"]),
    ('1\ta lone\rreturn\n2\t"said \\"so\\""\n', ["a lone\rreturn", r'"said \"so\""']),
    ('1\t"\n' + "2\tb\n" * 3000 + '3\t"\n', ['"', *["b"] * 3000, '"']),
    ('1\t"say ""so"""\n2\t"two\nlines\tof it"\n', ['say "so"', "two\nlines\tof it"]),
    ('1\tsay "so"\n2\t"two\nlines\tof it"\n', ['say "so"', '"two', 'of it"']),
    ('1\tplain\n2\t"two\nlines\tof it"\n', ["plain", '"two', 'of it"']),
]


@pytest.mark.parametrize(("text", "found"), AFTER_TABS)
def test_a_quote_after_tabs_that_encloses_no_cell_is_text(tmp_path, text, found):
    """Where both may be meant, other cells tell."""
    path = tmp_path / "a.tsv"
    path.write_bytes(b"id\ttext\n" + text.encode())
    assert [row["text"] for _, row in open_source(str(path)).rows()] == found


def test_what_a_table_writer_quotes_after_tabs_comes_back(tmp_path):
    texts = ['"', '""', 'a "b"', '"a" b', '"a"', "a\tb", "a\nb", '\t"\n"', 'x\n\n"y\tz', "\n1\tb\n"]
    written = [{"id": str(n), "text": text, "more": "m"} for n, text in enumerate(texts)]
    path = tmp_path / "a.tsv"
    with path.open("w", newline="") as file:
        table = csv.DictWriter(file, ["id", "text", "more"], delimiter="\t")
        table.writeheader()
        table.writerows(written)
    assert [row for _, row in open_source(str(path)).rows()] == written


def test_tables_of_users_with_open_quotes_are_read_whole():
    def column(case, name):
        return [row[name] for _, row in open_source(str(CASES / case)).rows()]

    assert column("labels-with-notes.tsv", "grade") == ["2", "0", "3", "1"]
    assert column("labels-with-notes.tsv", "note") == ['"unclear', "ok", 'says "yes"', "fine"]
    assert column("quoted.tsv", "passage") == [
        '"Dreams is a song by the band.',
        'He said "hello" twice.',
        "Dreams happen at night.",
        "Sleep has phases.",
    ]


def test_a_huge_cell_is_one(tmp_path):
    path, text = tmp_path / "a.csv", "wörd \n" * 2_000_000
    path.write_text(f'query_id,doc_id,text,grade\nq,d,"{text}",2\nq,e,,\n')
    found = read_judgments(str(path), "j")
    assert found.table["doc_id"].to_pylist() == ["d"]
    assert found.missing == 1


def test_a_line_too_long_to_be_a_pool_is_one_of_pools(tmp_path):
    place = put(tmp_path / "in.jsonl", "{" + "x" * 10**7 + "\n" + lines(ROWS))
    assert open_source(place).kind == "pools"


GRADES = "query_id,doc_id,grade\n"
ROW = '{"query_id": "q", "doc_id": "d", "grade": 1}'
TORN = "[\n" + ",\n".join(map(json.dumps, ROWS))
WRONG = {
    "short.csv": (GRADES + "q,d\n", ":2: has 2 columns, but the header has 3"),
    "long.csv": (GRADES + "q,d,1,2\n", ":2: has 4 columns"),
    "open.csv": (GRADES + 'q,"d,1\n', ":2: cannot be read"),
    "joined.csv": (GRADES + 'q,"d"e,1\n', ":2: text follows the quote"),
    "lines.csv": (
        GRADES + 'q,"d\n",1\nq,"c,1\nq,"e",1\n',
        ":5: text follows .* in line 4: .*twice",
    ),
    "word.csv": (GRADES + "q,d,high\n", ":2: grade cannot be 'high'"),
    "score.csv": (GRADES + "q,d,1_0\n", ":2: grade cannot be '1_0'"),
    "infinite.csv": (GRADES + "q,d,inf\n", ":2: grade is inf"),
    "no-id.csv": (GRADES + "q,,1\n", ":2: has no doc_id"),
    "latin.csv": (GRADES.encode() + b"q,\xff,1\n", ":2: is not UTF-8"),
    "twice.csv": ("query_id,doc_id,doc_id,grade\nq,d,d,1\n", "two columns have the same name"),
    "thousands.csv": ("query_id;doc_id;grade\nq;d;1,500\n", ":2: grade .*thousands"),
    "returns.csv": ("query_id,doc_id,grade\rq,d,1\r", "lines end with carriage returns"),
    "two-tabs.tsv": (
        'query_id\tdoc_id\tgrade\nq\t"x\ty"\n2\t"t\tu\n',
        ":2: cannot be read|:2: has|grade",
    ),
    "item.json": (f"[{ROW}, 7]", "row 2 is not a JSON object"),
    "number.json": (f"[{ROW}]".replace("1", '"one"'), "item 1: grade cannot be"),
    "torn.json": (TORN, "is not valid JSON"),
    "torn.jsonl": (lines(ROWS)[:-9], ":2: is not valid JSON"),
    "utf16.csv": ("query,text\n".encode("utf-16"), "is UTF-16"),
    "packed.csv": (gzip.compress(b"query,text\n", mtime=0), r"ends in .gz"),
    "torn.csv.gz": (gzip.compress(cells(ROWS * 999).encode(), mtime=0)[:-20], "cannot be read"),
    "bzip2.csv": (b"BZh91AY&SY", "bzip2"),
    "xz.csv": (b"\xfd7zXZ\x00\x00", "xz"),
    "page.html": ("<!DOCTYPE html><html></html>", "web page"),
    "book.xlsx": (b"PK\x03\x04", "workbook"),
    "frame.pkl": (pickle.dumps(ROWS), "pickle, which could run code"),
    "columns.json": (
        json.dumps({"query_id": {"0": 1}, "doc_id": {"0": 2}, "score": {"0": 3}}),
        "column by column",
    ),
    "split.json": (json.dumps({"columns": ["a"], "index": [0], "data": [[1]]}), "column by column"),
    "values.json": (json.dumps([[1, 2], [3, 4]]), "list of lists"),
    "sep.csv": ("sep=;\nquery_id;doc_id;grade\nq;d;1\n", "delete that line"),
    "empty.csv": ("", "an empty file"),
    "blank.txt": (" \n\n", "an empty file"),
    "broken.parquet": (b"PAR1 and no more", "is not Parquet, or damaged"),
}


@pytest.mark.parametrize("name", WRONG)
def test_what_is_wrong_is_named_with_its_place(tmp_path, name):
    content, says = WRONG[name]
    (tmp_path / name).write_bytes(content if isinstance(content, bytes) else content.encode())
    with pytest.raises(InputError, match=rf"{name}.*{says}"):
        read_qrels(str(tmp_path / name))


def test_what_people_bring_and_nobody_reads_is_named(tmp_path):
    pyarrow.feather.write_feather(pa.Table.from_pylist(ROWS), tmp_path / "a.feather")
    with pytest.raises(InputError, match="is Arrow or Feather: write it as Parquet"):
        open_source(str(tmp_path / "a.feather"))
    put(tmp_path / "saved/dataset_info.json", "{}")
    put(tmp_path / "saved/data-00000-of-00001.arrow", b"ARROW1")
    with pytest.raises(InputError, match="datasets saved to disk"):
        open_source(str(tmp_path / "saved"))


def test_ids_that_went_through_floats_are_refused(tmp_path):
    with pytest.raises(InputError, match="may have lost digits"):
        read_pools(str(CASES / "float-ids.parquet"))
    for value in ("1.23457E+18", "1,23457E+18", "12345678901234567.0", 1e17, 2.0**53):
        with pytest.raises(ValueError, match="may have lost digits"):
            to_id(value)
    for text in ("12.0", "1.5", "1e5", "12e45", "v1.0+2", "1234567890123456.0", "a+b"):
        assert to_id(text) == text
    assert (to_id(3.0), to_id(2**60), to_id(float("nan")), to_id("")) == (
        "3",
        str(2**60),
        None,
        None,
    )
    for value in (1.5, True, ["a"]):
        with pytest.raises(ValueError, match="an id is a text or a whole number"):
            to_id(value)


def test_columns_are_named_by_the_user(tmp_path):
    place = put(tmp_path / "a.csv", "who,what,stars\nq1,d1,2\n")
    with pytest.raises(InputError, match=r"the columns who, what, stars.*--columns"):
        read_qrels(place)
    columns = split_columns(["query_id=who doc_id=what", "grade=stars"])
    assert len(read_qrels(place, columns)) == 1
    columns.refuse_unused()
    other = Columns({**columns, "judge": "nobody"})
    read_qrels(place, other)
    with pytest.raises(OptionError, match="no file has a column 'nobody'"):
        other.refuse_unused()
    for text, says in (
        ("a b", "is not ROLE=NAME"),
        ("docid=x", "did you mean 'doc_id'"),
        ("grade=a grade=b", "name one"),
    ):
        with pytest.raises(OptionError, match=says):
            split_columns([text])
    both = put(tmp_path / "b.csv", "query_id,doc_id,rating,label\nq1,d1,2,3\n")
    with pytest.raises(InputError, match="rating and label may all be the grade"):
        read_qrels(both)
    assert read_qrels(both, Columns(grade="label"))["relevance"].to_pylist() == [3]


def test_of_several_usual_names_the_first_of_the_table_counts(tmp_path):
    document = {"pid": "9", "docno": "d1", "snippet": "cut", "text": "whole", "rating": 5, "rel": 1}
    row = {"query": "why", "qid": "q1", "hits": [document]}
    place = put(tmp_path / "hits.jsonl", lines([row]))
    assert triples(place) == [("q1", "d1", 5)]
    (pool,) = read_pools(place)
    assert [(d.id, d.content) for d in pool.documents] == [("d1", "whole")]


def test_what_first_comes_late_is_refused_where_somebody_looks_for_it(tmp_path):
    rows = [ROWS[0] | {"doc_id": f"d{n}", "score": n} for n in range(150)]
    place = put(
        tmp_path / "late.jsonl",
        lines([*rows, ROWS[1] | {"score": 1, "doc_id": "z", "probability": 0.5}]),
    )
    with pytest.raises(InputError, match=r"late.jsonl:151: has 'probability', which the first"):
        read_qrels(place)
    (run,) = read_runs([place]).values()
    assert len(run) == 151


def test_damage_is_told_by_whoever_reads(tmp_path):
    whole = gzip.compress("".join(lines(ROWS) for _ in range(99)).encode())
    place = tmp_path / "torn.jsonl.gz"
    place.write_bytes(whole[:-20])
    for read in (read_qrels, lambda place: read_runs([place])):
        with pytest.raises(InputError, match=r"torn.jsonl.gz: cannot be read"):
            read(str(place))


@pytest.mark.parametrize("text", ['{"q1":{"d1":NaN,"d2":1}}', '{"a": 1}{"b": 2}'])
def test_broken_json_is_not_taken_for_cells(tmp_path, text):
    with pytest.raises(InputError, match="is not valid JSON"):
        read_qrels(put(tmp_path / "a.json", text))


def test_a_header_may_be_that_of_a_run(tmp_path):
    text = "query_id\tQ0\tdoc_id\trank\tscore\ttag\nq1\tQ0\td1\t1\t2.5\tx\n"
    (run,) = read_runs([put(tmp_path / "a.tsv", text)]).values()
    assert run["score"].to_pylist() == [2.5]


def test_commas_are_those_of_fractions_in_all_numbers(tmp_path):
    text = "query_id;doc_id;grade;std_error;probability\nq1;d1;2,5;0,25;0,5\n"
    assert read_qrels(put(tmp_path / "a.csv", text))["std_error"].to_pylist() == [0.25]


def test_a_column_of_yes_and_no_is_one_and_nought_and_one_such_cell_is_not(tmp_path):
    table = pa.Table.from_pylist([row | {"grade": row["grade"] > 0} for row in ROWS])
    assert triples(write(tmp_path / "a.parquet", table)) == [("q1", "d1", 1), ("q1", "d2", 0)]
    with pytest.raises(InputError, match=r"a.jsonl:2: grade cannot be True"):
        read_qrels(put(tmp_path / "a.jsonl", lines([ROWS[0], ROWS[1] | {"grade": True}])))
