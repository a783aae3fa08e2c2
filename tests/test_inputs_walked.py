"""What users bring, where it is not quite as it should be: columns, ids, and what is left out."""

import pandas as pd
import pyarrow as pa
import pytest

from tests.test_inputs import POOLS, ROWS, brought, cells, lines, put
from tests.test_inputs_apart import CORPUS, folder
from zelo_ray import estimate
from zelo_ray.api.frames import pools_told
from zelo_ray.api.given import pools_in
from zelo_ray.errors import InputError, OptionError
from zelo_ray.formats.input import Asked, bring
from zelo_ray.formats.input.columns import split_columns
from zelo_ray.formats.input.keeping import noted

__all__ = ["folder"]

FRAME = pd.DataFrame(ROWS).rename(columns={"passage": "html", "question": "prompt"})
NAMED = {"query": "prompt", "content": "html"}


@pytest.mark.parametrize(
    "columns", [NAMED, "query=prompt content=html", ["query=prompt", "content=html"]]
)
def test_columns_may_be_a_mapping_or_one_text(tmp_path, columns):
    told = estimate(FRAME, out=tmp_path / "o", judges="offline", columns=columns)
    assert "about 2 queries" in str(told)


def test_a_name_with_spaces_is_to_be_quoted():
    assert split_columns(["query=Search Query content=Text"]) == {
        "query": "Search Query",
        "content": "Text",
    }
    with pytest.raises(OptionError, match="quote it: --columns 'query=Search Query'"):
        split_columns(["query=Search", "Query"])


@pytest.mark.parametrize("given", [FRAME, FRAME.to_dict("records")])
def test_python_is_told_how_to_name_a_column(given):
    with pytest.raises(InputError, match=r'name it: columns=\{"'):
        pools_told(given, {})


@pytest.mark.parametrize("kind", ["parquet", "jsonl"])
def test_a_null_in_a_corpus_is_left_out_and_counted(folder, kind):
    rows = [*CORPUS[:2], {"_id": "d2", "title": None, "text": None}]
    place = folder / f"nulls.{kind}"
    pd.DataFrame(rows).to_parquet(place) if kind == "parquet" else put(place, lines(rows))
    texts = {"corpus": str(place), "queries": str(folder / "queries.tsv")}
    found, told = brought(folder, str(folder / "mine.run"), **texts)
    assert [len(pool["documents"]) for pool in found] == [2, 2]
    assert told[1:] == ("left out documents with an empty text: 1 (d2)",)


@pytest.mark.parametrize("index", [["qid", "docno"], ["docno"], "qid"])
def test_an_index_with_names_is_columns(index):
    plain = pd.DataFrame(ROWS)
    assert pools_told(plain.set_index(index), {}) == pools_told(plain, {})


@pytest.mark.parametrize("given", [FRAME["html"], pa.chunked_array([["a"]])])
def test_a_series_is_no_frame(tmp_path, given):
    with pytest.raises(InputError, match="a Series; give a frame"):
        estimate(given, out=tmp_path / "o", judges="offline")


def test_what_was_left_out_is_kept_beside_the_pools(tmp_path):
    rows = [*ROWS, ROWS[0], {**ROWS[0], "docno": "d9", "passage": ""}]
    made = bring([put(tmp_path / "a.csv", cells(rows))], str(tmp_path / "o"), Asked()).places
    lost = [
        "left out rows that repeat a document: 1 (d0)",
        "left out documents without a text: 1 (document d9 in row 8)",
    ]
    assert noted(made) == lost
    assert noted(pools_in(pd.DataFrame(rows), str(tmp_path / "o"))) == lost
    assert noted([put(tmp_path / "plain.jsonl", lines(POOLS))]) == []


def test_what_the_corpus_lacks_is_of_the_queries_that_are_kept(folder):
    texts = {"queries": put(folder / "one.tsv", "q0\tquery\n")}
    corpus = put(folder / "two.jsonl", lines(CORPUS[:2]))
    run = (folder / "mine.run").read_text() + "q7 Q0 far 1 1 mine\n"
    place = put(folder / "more.run", run)
    _, told = brought(folder, place, corpus=corpus, **texts)
    assert "left out documents that the corpus lacks: 1 of 3 documents (d2)" in told


def test_a_rehearsal_says_why_no_line_is_a_pool(tmp_path):
    pool = {"query": {"id": 1, "query": "q"}, "documents": []}
    place = put(tmp_path / "ids.jsonl", lines([pool]))
    with pytest.raises(InputError) as told:
        estimate(place, out=tmp_path / "o", judges="offline")
    assert f'{place}, line 1: query.id: must be a text: write "id": "1"' in str(told.value)
