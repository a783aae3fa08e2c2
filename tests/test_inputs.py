"""What users bring: each kind and each container becomes the same pools."""

import gzip
import json
from decimal import Decimal
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.input_pools import POOLS, ROWS, brought, cells, lines, put
from zelo_ray.api.frames import convert_pools
from zelo_ray.errors import InputError, OptionError
from zelo_ray.formats.input import InputOptions, convert_inputs, pools_of
from zelo_ray.formats.input.long import ConversionNotes, finite_score
from zelo_ray.formats.input.row_places import RowPlaces

WIDE = [
    {"query_id": p["query"]["id"], "query": p["query"]["query"], "passages": p["documents"]}
    for p in POOLS
]
RANKED = [
    {
        "query": {"qid": p["query"]["id"], "text": p["query"]["query"]},
        "candidates": [
            {"docid": d["id"], "doc": {"contents": d["content"]}} for d in p["documents"]
        ],
    }
    for p in POOLS
]


def parquet(rows):
    sink = pa.BufferOutputStream()
    pq.write_table(pa.Table.from_pylist(rows), sink)
    return sink.getvalue().to_pybytes()


CONTAINERS = {
    "rows.csv": cells(ROWS),
    "rows.txt": cells(ROWS, ";"),
    "rows.tsv.gz": cells(ROWS, "\t"),
    "rows.csv.zst": cells(ROWS),
    "bom.csv": "\ufeff" + cells(ROWS),
    "rows.jsonl": lines(ROWS),
    "rows.json": json.dumps(ROWS, indent=1),
    "array.jsonl": json.dumps(ROWS),
    "data.json": json.dumps({"data": ROWS}, indent=2),
    "mixed.csv": cells([ROWS[n] for n in (0, 3, 1, 4, 2, 5)]),
    "other order.csv": cells([dict(reversed(row.items())) for row in ROWS]),
    "wide.jsonl": lines(WIDE),
    "wide.json": json.dumps(WIDE),
    "ranked.jsonl": lines(RANKED),
    "pools.json": json.dumps(POOLS),
    "rows.parquet": parquet(ROWS),
    "wide.bin": parquet(WIDE),  # known by its content
    "ranked.bin": parquet(RANKED),
    "pools.bin": parquet(POOLS),
}


@pytest.mark.parametrize("name", CONTAINERS)
def test_every_container_holds_the_same_pools(tmp_path, name):
    found, told = brought(tmp_path, put(tmp_path / name, CONTAINERS[name]))
    assert found == POOLS
    assert told[0].partition(":")[2].startswith(" 2 queries, 6 documents; pools written to ")
    assert len(told) == 1


@pytest.mark.parametrize(
    "made", [pd.DataFrame, pa.Table.from_pylist, list], ids=lambda each: each.__name__
)
@pytest.mark.parametrize("rows", [ROWS, WIDE])
def test_what_is_in_memory_comes_to_the_same(made, rows):
    data, told = convert_pools(made(rows), {})
    assert [json.loads(line) for line in data.splitlines()] == POOLS
    assert not told


def test_a_converted_file_is_named_as_the_frame_is(tmp_path):
    found = convert_inputs([put(tmp_path / "a.csv", cells(ROWS))], str(tmp_path), InputOptions())
    assert Path(found.places[0]).read_bytes() == convert_pools(pd.DataFrame(ROWS), {})[0]


def test_a_second_run_finds_the_file_and_a_changed_source_is_read_anew(tmp_path, monkeypatch):
    place = put(tmp_path / "a.csv", cells(ROWS))
    first = convert_inputs([place], str(tmp_path), InputOptions())
    with monkeypatch.context() as patch:
        patch.setattr("zelo_ray.formats.input.store_pools", None)
        assert convert_inputs([place], str(tmp_path), InputOptions()) == first
    put(tmp_path / "a.csv", cells(ROWS[:3]))
    assert convert_inputs([place], str(tmp_path), InputOptions()).places != first.places


def ids_in(pools):
    return {pool["query"]["id"]: {d["id"] for d in pool["documents"]} for pool in pools}


def test_ids_follow_from_texts(tmp_path):
    bare = [{"query": row["question"], "text": row["passage"]} for row in ROWS]
    found, told = brought(tmp_path, put(tmp_path / "a.csv", cells(bare)))
    turned, _ = brought(tmp_path, put(tmp_path / "b.csv", cells(bare[::-1])))
    assert ids_in(found) == ids_in(turned)
    queries, documents = told[1:]
    assert queries.startswith("queries have no ids: ")
    assert documents.startswith("documents have no ids: ")
    assert all("a hash of its text" in line for line in (queries, documents))


def test_what_has_no_text_is_left_out_by_name(tmp_path):
    rows = [
        *ROWS,
        {**ROWS[0], "docno": "d9", "passage": " "},
        {**ROWS[0], "qid": "q9", "passage": ""},
    ]
    place = put(tmp_path / "a.csv", cells([*rows, ROWS[0]]))
    found, told = brought(tmp_path, place)
    assert found == POOLS
    empty, repeated, idle = told[1:]
    assert empty.startswith("left out documents without a text: 2 (")
    assert empty.endswith(f"(document d9 in {place}:14, document d0 in {place}:15)")
    assert repeated == "left out rows that repeat a document: 1 (d0)"
    assert idle == "left out queries without candidates: 1 (q9)"


def test_a_table_without_a_head_is_told_to_have_one(tmp_path):
    with pytest.raises(InputError) as told:
        brought(tmp_path, put(tmp_path / "a.csv", "how to,use tweezers\nhow to,the clock\n"))
    head, names = told.value.__notes__[1:]
    assert head.endswith(" such as query,text.")
    assert names.endswith(": --columns query=NAME content=NAME")


def test_answers_beside_a_list_of_documents_are_no_documents(tmp_path):
    rows = [{"question": "q", "contexts": ["a", "b"], "answer": "x", "response": "y"}]
    (found,), _ = brought(tmp_path, put(tmp_path / "a.jsonl", lines(rows)))
    assert [d["content"] for d in found["documents"]] == ["a", "b"]


@pytest.mark.parametrize(
    ("name", "text", "scores"),
    [
        ("a.csv", "query;doc_id;text;score\nq;d1;x;1,5\nq;d2;y;-,5\nq;d3;z; 2 \n", [1.5, None, 2]),
        ("a.tsv", "query\tdoc_id\ttext\tscore\nq\td1\tx\t12.5\nq\td2\ty\tNA\nq\td3\tz\t1_0\n",
         [12.5, None, None]),
        ("a.json", json.dumps([{"question": "q", "ctxs": [
            {"id": "d1", "text": "x", "score": "12.5"}, {"id": "d2", "text": "y", "score": 3},
            {"id": "d3", "text": "z", "score": "high"}]}]), [12.5, 3, None]),
    ],
)  # fmt: skip
def test_a_score_that_is_written_as_text_counts_and_what_is_none_is_said(
    tmp_path, name, text, scores
):
    path = tmp_path / name
    path.write_text(text)
    notes = ConversionNotes()
    (pool,) = pools_of([str(path)], InputOptions(), notes)[1]
    assert [document.get("score") for document in pool["documents"]] == scores
    noted = sum(notes.counts.get(what, 0) for what in notes.counts if "score" in what)
    assert noted == scores.count(None) - text.count("NA")


@pytest.mark.parametrize("kind", [np.float32, np.float64, np.int64, Decimal, float, int])
def test_a_score_of_any_type_of_number_counts(kind):
    notes = ConversionNotes()
    assert finite_score("here", kind(3), notes) == 3.0
    assert not notes.counts


def test_a_score_that_may_be_a_fraction_or_thousands_is_refused(tmp_path):
    path = tmp_path / "a.csv"
    path.write_text("query;doc_id;text;score\nq;d1;x;1,5\nq;d2;y;1,500\n")
    with pytest.raises(InputError, match=r"a.csv:3: .*thousands"):
        [*pools_of([str(path)], InputOptions(), ConversionNotes())[1]]


def test_columns_in_place_of_rows(tmp_path):
    passages = {"is_selected": [0, 1], "passage_text": ["a", "b"]}
    rows = [{"query": "q", "query_id": 7, "passages": passages, "answers": ["x"]}]
    (found,), _ = brought(tmp_path, put(tmp_path / "a.jsonl", lines(rows)))
    assert found["query"] == {"id": "7", "query": "q"}
    assert [d["content"] for d in found["documents"]] == ["a", "b"]


def test_columns_that_are_ambiguous_are_asked_for(tmp_path):
    place = put(tmp_path / "a.csv", "query,text,body\nq,a,b\n")
    with pytest.raises(InputError) as told:
        brought(tmp_path, place)
    assert str(told.value).startswith(f"{place}: has both 'text' and 'body': ")
    assert str(told.value).endswith(": --columns content=text")
    (found,), _ = brought(tmp_path, place, columns={"content": "body"})
    assert [d["content"] for d in found["documents"]] == ["b"]


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("hello there, this is\nnothing\n", "nor any other known kind of input, but the columns"),
        ("hello\n", "but 'hello'"),
        ('{"foo": 1}\n', "but the columns foo"),
        ('{"_id": "d1", "text": "a"}\n', "no column says which query they belong to"),
        ("query,text,query\nq,a,b\n", "two columns have the same name"),
        (
            "query_id,query,text\nq,a,b\nq,other,c\n",
            ":3: query 'q' has a different text",
        ),
        ("query,doc_id,text\nq,d,b\nq,d,c\n", ":3: document 'd' of query 'q-8e35c2cd3bf6'"),
        (b"PK\x03\x04rest", "save the table as CSV"),
        ("query,text\n".encode("utf-16"), "is UTF-16: save it as UTF-8"),
        (gzip.compress(b"query,text\n", mtime=0), "a name that ends in .gz"),
    ],
)
def test_what_is_not_known_is_told(tmp_path, text, says):
    place = put(tmp_path / "a.txt", text)
    with pytest.raises((InputError, OptionError)) as told:
        brought(tmp_path, place)
    assert says in str(told.value)
    assert str(told.value).startswith(place)


def test_a_number_stands_for_the_place_of_a_row():
    places = RowPlaces()
    texts = ["a.csv:21", "b.parquet: row 3", "a.csv:2", "part-001", "part-1", "a.csv", "x:0", "9"]
    numbers = [places.to_number(text) for text in texts]
    assert len(set(numbers)) == len(texts)
    assert [places.to_text(number) for number in numbers] == texts
