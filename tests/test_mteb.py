"""MTEB's reranking rows: to pools and their truth, and back."""

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.builders import write_lines
from zelo_ray.errors import InputError
from zelo_ray.formats.input import InputOptions, pools_of
from zelo_ray.formats.input.long import ConversionNotes
from zelo_ray.formats.interchange.mteb import read_rows
from zelo_ray.formats.probe import probe

ROWS = [
    {"query": "which?", "positive": ["yes", "also yes"], "negative": ["no", "no"]},
    {"query": ["how?", "in what way?"], "positive": ["so"], "negative": ["hm"], "more": 1},
]


def read(path, rows=()):
    """Return what is read of rows, which are written first."""
    return read_rows(probe(str(write_lines(path, rows) if rows else path)))


def as_rows(pools, qrels):
    """Rows of the same content, sorted."""
    grades = {(r["query_id"], r["doc_id"]): r["relevance"] for r in qrels.to_pylist()}
    return [
        (
            pool.query,
            sorted(d.content for d in pool.documents if grades[pool.query_id, d.id] == 1),
            sorted(d.content for d in pool.documents if grades[pool.query_id, d.id] == 0),
        )
        for pool in pools
    ]


def test_no_pool_of_several_files_is_lost_and_none_has_an_id_of_one_file_alone(tmp_path):
    places = [str(write_lines(tmp_path / f"{name}.jsonl", ROWS)) for name in "ab"]
    pools = [*pools_of(places, InputOptions(), ConversionNotes())[1]]
    assert [pool["query"]["id"] for pool in pools] == [
        f"{n}-query{m}" for n in (1, 2) for m in (1, 2)
    ]
    ids = {(pool["query"]["id"], doc["id"]) for pool in pools for doc in pool["documents"]}
    assert len(ids) == 12
    alone = {row["query_id"] for row in read(places[1])[1].to_pylist()}
    assert alone == {"query1", "query2"}  # as truth, they match none of the pools by mistake


def test_read(tmp_path):
    filled, qrels = read(tmp_path / "rows.jsonl", ROWS)
    pools = filled.pools
    assert filled.notes == []
    assert as_rows(pools, qrels) == [
        ("which?", ["also yes", "yes"], ["no", "no"]),
        ("how?\nin what way?", ["so"], ["hm"]),
    ]
    assert {d.id for d in pools[0].documents} == {f"query1-0000{i}" for i in (1, 2, 3, 4)}
    pq.write_table(pa.Table.from_pylist([ROWS[0]]), tmp_path / "rows.parquet")
    assert read(tmp_path / "rows.parquet")[0].pools == pools[:1]


def test_neither_place_nor_id_tells_the_positives(tmp_path):
    many = [{"query": "?", "positive": ["p"] * 5, "negative": ["n"] * 5}] * 40
    pools = read(tmp_path / "rows.jsonl", many)[0].pools
    for place in (0, 9):
        by_place = [pool.documents[place].content for pool in pools]
        by_id = [sorted(pool.documents, key=lambda d: d.id)[place].content for pool in pools]
        assert 8 < by_place.count("p") < 32
        assert 8 < by_id.count("p") < 32
    assert read(tmp_path / "rows.jsonl")[0].pools == pools


def test_what_is_empty_is_left_out_and_noted(tmp_path):
    rows = [{"query": " ", "positive": ["p"], "negative": ["n"]}, ROWS[0] | {"negative": ["n", ""]}]
    filled, qrels = read(tmp_path / "rows.jsonl", rows)
    assert [pool.query_id for pool in filled.pools] == ["query2"]
    assert len(qrels) == 3
    assert filled.notes == [
        "left out rows with an empty query: 1 (query1)",
        "left out empty documents of rows: 1 (query2)",
    ]


@pytest.mark.parametrize(
    ("row", "why"),
    [
        ({"query": "?", "positive": ["p"]}, "negative is not a list of texts"),
        ({"query": "?", "positive": "p", "negative": []}, "positive is not a list"),
        ({"query": 7, "positive": ["p"], "negative": []}, "query is not a list"),
        ({"query": "?", "positive": [["p"]], "negative": []}, "positive is not a list"),
    ],
)
def test_what_is_wrong_is_named(tmp_path, row, why):
    with pytest.raises(InputError, match=rf"rows.jsonl:3: {why}"):
        read(tmp_path / "rows.jsonl", [*ROWS, row])
