"""Rows of text files of every kind say the same, and what is wrong is named by its line."""

import csv
import json
from pathlib import Path

import pytest

from zelo_ray.errors import InputError
from zelo_ray.files.judges import read_all_judgments, read_judgments
from zelo_ray.files.judgments import read_qrels
from zelo_ray.files.storage import open_for_writing

CASES = Path(__file__).parent / "golden" / "cases"
HEAD = ("query_id", "doc_id", "relevance")
ROWS = [("q1", "dé, 1", 3.0), ("q1", '7 "x"\nend', 0.5), ("東京", "007", -1.0)]


def delimited(rows_, mark=",", end="\n", head=HEAD):
    def cell(value):
        text = f"{value:g}" if isinstance(value, float) else str(value)
        return '"' + text.replace('"', '""') + '"' if set(text) & set(mark + '"\n') else text

    return "".join(mark.join(map(cell, row)) + end for row in [head, *rows_])


def array(indent=None):
    return json.dumps([dict(zip(HEAD, row, strict=True)) for row in ROWS], indent=indent)


def lines_of(rows_):
    return "".join(json.dumps(dict(zip(HEAD, row, strict=True))) + "\n" for row in rows_)


EVERY = {
    "a.csv": delimited(ROWS),
    "a.tsv": delimited(ROWS, "\t"),
    "semicolons.csv": delimited(ROWS, ";"),
    "crlf.csv": delimited(ROWS, end="\r\n"),
    "bom.csv": "\ufeff" + delimited(ROWS),
    "no-end.csv": delimited(ROWS).rstrip("\n"),
    "blank.csv": delimited(ROWS).replace("query_id", "\n\nquery_id", 1) + "\n\n",
    "spaced.csv": delimited(ROWS, head=("query_id ", " doc_id", "relevance")),
    "other.csv": delimited(
        [(w, "note", d, q) for q, d, w in ROWS], head=("relevance", "note", "doc_id", "query_id")
    ),
    "indented.json": array(2),
    "bom.json": "\ufeff" + array(),
    "a.jsonl": lines_of(ROWS),
}


def test_every_kind_says_the_same(tmp_path):
    for name, text in EVERY.items():
        for packed in ("", ".gz", ".zst"):
            path = str(tmp_path / f"{name}{packed}")
            with open_for_writing(path) as file:
                file.write(text.encode())
            assert {*HEAD} <= {*probe(path).names}
            assert [tuple(row.values())[:3] for row in read_qrels(path).to_pylist()] == ROWS
            assert {*read_judgments(path, "me").table["judge"].to_pylist()} == {"me"}


def test_a_row_stands_where_its_first_line_does(tmp_path):
    path = tmp_path / "a.csv"
    path.write_text('a,b\n"x\ny",1\n\nz,2\n')
    assert [(p.rsplit("/", 1)[1], row) for p, row in probe(str(path)).rows()] == [
        ("a.csv:2", {"a": "x\ny", "b": "1"}),
        ("a.csv:5", {"a": "z", "b": "2"}),
    ]


def test_quotes_within_cells_and_blanks_before_them(tmp_path):
    path = tmp_path / "a.csv"
    path.write_text('a, b, c\nx"y, "d, 1", 2\n"z""w",d,"3"')
    assert [tuple(row.values()) for _, row in probe(str(path)).rows()] == [
        ('x"y', "d, 1", "2"),
        ('z"w', "d", "3"),
    ]
    path.write_text("a\tb\n x\ty\n")
    assert [row for _, row in probe(str(path)).rows()] == [{"a": " x", "b": "y"}]


QUOTES = [
    ('1\t"open\n2\tb\n', ['"open', "b"]),
    ('1\t"open\n\n2\tclosed"\n3\tc\n', ['"open', 'closed"', "c"]),
    ('1\t"a" and "b"\n2\t"whole"\n', ['"a" and "b"', "whole"]),
    ('1\t""a" b\n2\tx "y"\n3\t"\n', ['""a" b', 'x "y"', '"']),
    ('1\t"two\nlines ""of"" it"\n2\tb\n', ['two\nlines "of" it', "b"]),
    ('1\t"three\r\n\r\nlines\tand\ttabs"\r\n2\tb\r\n', ["three\r\n\r\nlines\tand\ttabs", "b"]),
    ('1\t"lines\tof\ntwo\tcells\nand one"\n', ["lines\tof\ntwo\tcells\nand one"]),
    ('1\t"tab\tin it"\n2\t"end', ["tab\tin it", '"end']),
    ('1\ta lone\rreturn\n2\t"said \\"so\\""\n', ["a lone\rreturn", r'"said \"so\""']),
    ("1\ta\r\r\n2\tb\r\r\n", ["a", "b"]),
    ('1\t"\n' + "2\tb\n" * 3000 + '3\t"\n', ['"', *["b"] * 3000, '"']),
]
BEFORE = [
    ('1\t"say ""so"""\n', ['say "so"', "two\nlines\tof it", "end"]),
    ('1\t"two\nlines"\n', ["two\nlines", "two\nlines\tof it", "end"]),
    ('1\tsay "so"\n', ['say "so"', '"two', 'of it"', "end"]),
    ("1\tplain\n", ["plain", '"two', 'of it"', "end"]),
]


def test_a_quote_after_tabs_that_encloses_no_cell_is_text(tmp_path):
    """Where both may be meant, the rows before tell."""
    path, end = tmp_path / "a.tsv", '2\t"two\nlines\tof it"\n3\tend\n'
    for text, found in (*QUOTES, *((text + end, found) for text, found in BEFORE)):
        path.write_bytes(b"id\ttext\n" + text.encode())
        assert [row["text"] for _, row in probe(str(path)).rows()] == found, text


def test_quotes_of_two_cells_of_one_line_are_text(tmp_path):
    path = tmp_path / "a.tsv"
    path.write_text('a\tb\tc\n1\t"x\ty"\n2\t"x"\t"y"\n3\t"p\nq"\t"r\ns"\n4\t"t\tu\n')
    assert [(place[-1], *row.values()) for place, row in probe(str(path)).rows()] == [
        ("2", "1", '"x', 'y"'),
        ("3", "2", "x", "y"),
        ("4", "3", "p\nq", "r\ns"),
        ("7", "4", '"t', "u"),
    ]


def test_what_a_table_writer_quotes_after_tabs_comes_back(tmp_path):
    texts = [
        '"',
        '""',
        'a "b"',
        '"a" b',
        '"a"',
        "a\tb",
        "a\nb",
        '\t"\n"',
        'x\n\n"y\tz',
        "\n1\tb\n",
    ]
    written = [{"id": str(n), "text": text, "more": "m"} for n, text in enumerate(texts)]
    path = tmp_path / "a.tsv"
    with path.open("w", newline="") as file:
        table = csv.DictWriter(file, ["id", "text", "more"], delimiter="\t")
        table.writeheader()
        table.writerows(written)
    assert [row for _, row in probe(str(path)).rows()] == written


def test_a_huge_cell_is_one(tmp_path):
    path, text = tmp_path / "a.csv", "wörd \n" * 2_000_000
    path.write_text(f'query_id,doc_id,text,grade\nq,d,"{text}",2\nq,e,,\n')
    found = read_judgments(str(path), "j")
    assert found.table.to_pylist() == [{"query_id": "q", "doc_id": "d", "judge": "j", "grade": 2}]
    assert found.missing == 1


def test_a_head_alone_and_one_row(tmp_path):
    path = tmp_path / "a.csv"
    path.write_text("query_id,doc_id,relevance\n")
    assert len(read_judgments(str(path), "j").table) == 0
    with pytest.raises(InputError, match="holds no judged document"):
        read_qrels(str(path))
    path.write_text("query_id,doc_id,relevance\nNA,null,1")
    assert read_qrels(str(path)).to_pylist()[0]["query_id"] == "NA"


GRADES = "query_id,doc_id,grade\n"
WRONG_ROWS = [
    ("q,d\n", ":2: has 2 columns, but the header has 3"),
    ('q,"d,1\n', ":2: cannot be read"),
    ('q,"d"e,1\n', ":2: text follows the quote"),
    ('q,"d\n",1\nq,"c,1\nq,"e",1\n', ":5: text follows .* in line 4: .*twice"),
    ("q,d,high\n", ":2: grade cannot be 'high'"),
    ("q,d,1_0\n", ":2: grade cannot be '1_0'"),
    ("q,,1\n", ":2: has no doc_id"),
    (b"q,\xff,1\n", ":2: is not UTF-8"),
]
ROW = '{"query_id": "q", "doc_id": "d", "grade": 1}'
UNKNOWN = "holds no judgments of a known kind"
WRONG_FILES = [
    ("a.csv", "query_id,doc_id,doc_id,grade\nq,d,d,1\n", "two columns have the same name"),
    ("a.csv", "query_id;doc_id;grade\nq;d;0,5,1\n", "a.csv:2: grade cannot be '0,5,1'"),
    ("a.csv", "query_id,doc_id,grade\rq,d,1\r", "a.csv: lines end with carriage returns"),
    ("a.json", f"[{ROW}, 7]", "item 2: is not a JSON obj"),
    ("a.json", f"[{ROW}]".replace("1", '"one"'), "item 1: grade cannot be"),
    ("a.json", '[{"query_id": "q"},\n{"doc_id"]', UNKNOWN),
]


def test_what_is_wrong_is_named_by_its_line(tmp_path):
    rows = [("a.csv", text, f"a.csv{says}") for text, says in WRONG_ROWS]
    for name, text, says in (*rows, *WRONG_FILES):
        data = text if isinstance(text, bytes) else text.encode()
        head = GRADES.encode() if (name, text, says) in rows else b""
        (tmp_path / name).write_bytes(head + data)
        with pytest.raises(InputError, match=says):
            read_qrels(str(tmp_path / name))


def test_tables_of_users_with_open_quotes_are_read_whole():
    def column(case, name):
        return [row[name] for _, row in probe(str(CASES / case)).rows()]

    assert column("labels-with-notes.tsv", "grade") == ["2", "0", "3", "1"]
    assert column("labels-with-notes.tsv", "note") == ['"unclear', "ok", 'says "yes"', "fine"]
    assert column("quoted.tsv", "passage") == [
        '"Dreams is a song by the band.',
        'He said "hello" twice.',
        "Dreams happen at night.",
        "Sleep has phases.",
    ]


def test_votes_and_winners_under_a_head(tmp_path):
    votes = tmp_path / "votes.csv"
    votes.write_text(
        "judge,query_id,doc_id_a,doc_id_b,preference,swapped\n"
        "j,q,1,2,-1,True\nj,q,1,3,0.5,0\nj,q,2,3,,false\nj,q,2,4,NaN,\n"
    )
    found = read_all_judgments([str(votes)])
    assert [tuple(row.values())[1:] for row in found.votes.to_pylist()] == [
        ("1", "2", "j", -1.0, True),
        ("1", "3", "j", 0.5, False),
    ]
    assert found.notes == (f"{votes}: 2 rows without an answer (null)",)
    winners = tmp_path / "winners.tsv"
    winners.write_text("winner\tturn\tmodel_b\tmodel_a\tquestion_id\nmodel_b\t1\ty\tx\t81\n")
    found = read_all_judgments([f"me={winners}"])
    assert [tuple(row.values()) for row in found.votes.to_pylist()] == [
        ("81-1", "x", "y", "me", 1.0, None)
    ]
