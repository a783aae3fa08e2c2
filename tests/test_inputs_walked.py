"""What users bring, where it is not quite as it should be: columns, ids, and what is left out."""

import pandas as pd
import pyarrow as pa
import pytest

from tests.games import write
from tests.input_pools import (
    CORPUS,
    POOLS,
    QUERIES,
    ROWS,
    brought,
    cells,
    folder,
    lines,
    of_run,
    put,
)
from zelo_ray import estimate
from zelo_ray.api.frames import convert_pools
from zelo_ray.api.store_inputs import store_pools
from zelo_ray.cli import main
from zelo_ray.errors import InputError, OptionError
from zelo_ray.formats.columns import split_columns
from zelo_ray.formats.input import InputOptions, convert_inputs
from zelo_ray.formats.input.stored_inputs import read_notes

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
        convert_pools(given, {})


@pytest.mark.parametrize("kind", ["parquet", "jsonl"])
def test_a_null_in_a_corpus_is_left_out_and_counted(folder, kind):
    rows = [*CORPUS[:2], {"_id": "d2", "title": None, "text": None}]
    write(folder / f"nulls.{kind}", rows)
    found, told = of_run(folder, f"nulls.{kind}")
    assert [len(pool["documents"]) for pool in found] == [2, 2]
    assert told[1:] == ("left out documents with an empty text: 1 (d2)",)


@pytest.mark.parametrize("index", [["qid", "docno"], ["docno"], "qid"])
def test_an_index_with_names_is_columns(index):
    plain = pd.DataFrame(ROWS)
    assert convert_pools(plain.set_index(index), {}) == convert_pools(plain, {})


@pytest.mark.parametrize("given", [FRAME["html"], pa.chunked_array([["a"]])])
def test_a_series_is_no_frame(tmp_path, given):
    with pytest.raises(InputError, match="a Series; give a frame"):
        estimate(given, out=tmp_path / "o", judges="offline")


def test_what_was_left_out_is_kept_beside_the_pools(tmp_path):
    rows = [*ROWS, ROWS[0], {**ROWS[0], "docno": "d9", "passage": ""}]
    place = put(tmp_path / "a.csv", cells(rows))
    lost = read_notes(convert_inputs([place], str(tmp_path / "o"), InputOptions()).places)
    repeated, empty = lost
    assert repeated.endswith("that repeat a document: 1 (d0)")
    assert empty.endswith(f"without a text: 1 (document d9 in {place}:16)")
    empty = empty.replace(f"{place}:16", "inputs: row 8")
    assert read_notes(store_pools(pd.DataFrame(rows), str(tmp_path / "o"))) == [repeated, empty]
    assert read_notes([put(tmp_path / "plain.jsonl", lines(POOLS))]) == []


def test_what_the_corpus_lacks_is_of_the_queries_that_are_kept(folder):
    put(folder / "one.tsv", "q0\tquery\n")
    put(folder / "two.jsonl", lines(CORPUS[:2]))
    put(folder / "more.run", (folder / "mine.run").read_text() + "q7 Q0 far 1 1 mine\n")
    _, told = of_run(folder, "two.jsonl", "one.tsv", "more.run")
    assert any(line.endswith("corpus lacks: 1 of 3 documents (d2)") for line in told)


def test_a_rehearsal_says_why_no_line_is_a_pool(tmp_path):
    pool = {"query": {"id": 1, "query": "q"}, "documents": []}
    place = put(tmp_path / "ids.jsonl", lines([pool]))
    with pytest.raises(InputError) as told:
        estimate(place, out=tmp_path / "o", judges="offline")
    assert f"{place}, line 1: query.id: " in str(told.value)
    assert 'write "id": "1"' in str(told.value)


@pytest.mark.parametrize("kind", ["jsonl", "csv", "parquet", "tsv"])
def test_columns_reach_the_corpus_and_the_queries(folder, kind):
    odd = [{"doc-key": row["_id"], "passage_body": row["text"]} for row in CORPUS]
    place = write(folder / f"odd.{kind}", odd)
    named = {"doc_id": "doc-key", "content": "passage_body"}
    found, _ = of_run(folder, place.name, columns=named)
    assert found[0]["documents"][1]["content"] == "text 1"
    rows = put(folder / "ids.csv", cells([{"qid": "q", "query": "q", "doc-key": "d1"}]))
    found, _ = brought(folder, rows, corpus=str(place), columns=named)
    assert found[0]["documents"] == [{"id": "d1", "content": "text 1"}]
    with pytest.raises(InputError, match=r"no column 'boddy'; .* doc-key, passage_body"):
        brought(folder, rows, corpus=str(place), columns={**named, "content": "boddy"})
    if kind == "jsonl":
        with pytest.raises(InputError, match="it has doc-key, passage_body: name it"):
            of_run(folder, place.name)


@pytest.mark.parametrize("given", ["beir/parts/*.jsonl", "beir/corpus", "beir"])
def test_a_corpus_may_be_a_glob_or_the_part_of_a_folder(folder, given):
    for n, row in enumerate(CORPUS):
        for name in (f"parts/{n}.jsonl", f"corpus/test-{n}.jsonl"):
            put(folder / "beir" / name, lines([row]))
    found, told = of_run(folder, given)
    assert [len(pool["documents"]) for pool in found] == [3, 3]
    assert len(told) == 1


@pytest.mark.parametrize("kind", ["run", "csv"])
def test_ids_that_do_not_match_are_shown(folder, kind):
    rows = [{"query_id": "q0", "query": "q", "doc_id": "d0"}]
    place = str(folder / "mine.run") if kind == "run" else put(folder / "a.csv", cells(rows))
    corpus = put(folder / "other.jsonl", lines([{"_id": "doc-0", "text": "a"}]))
    texts = {"queries": str(folder / "queries.tsv")} if kind == "run" else {}
    with pytest.raises(InputError) as told:
        brought(folder, place, corpus=corpus, **texts)
    assert str(told.value) == (
        f"no id of {place} is in {corpus}: {place} has 'd0', {corpus} has 'doc-0'"
    )


def test_a_corpus_given_for_the_queries_is_asked_about(folder):
    with pytest.raises(InputError, match="has 'd0'; are --corpus and --queries swapped"):
        of_run(folder, "queries.tsv", "corpus.jsonl")


@pytest.mark.parametrize("grades", [(1, 1), (1, 0)])
def test_a_folder_of_relevant_documents_alone_asks_for_a_run(tmp_path, grades):
    root = tmp_path / "set"
    rows = "".join(f"q0\td{d}\t{grade}\n" for d, grade in enumerate(grades))
    files = {"corpus.jsonl": lines(CORPUS), "queries.jsonl": lines(QUERIES)}
    files["qrels/test.tsv"] = f"query-id\tcorpus-id\tscore\n{rows}"
    for name, text in files.items():
        put(root / name, text)
    (root / "top_ranked").mkdir()  # an empty one tells nothing
    _, told = brought(tmp_path, str(root))
    warned = "(median 2 a query, all relevant): bring a run"
    assert any(warned in line for line in told) == (grades == (1, 1))


def test_queries_with_one_document_are_counted(tmp_path):
    _, told = brought(tmp_path, put(tmp_path / "a.csv", cells(ROWS[:4])))
    (note,) = told[1:]
    assert note.startswith("1 of 2 queries has one document")
    assert convert_pools(ROWS[:4], {})[1] == [note]


def test_a_table_whose_document_has_a_name_of_its_own_is_asked_about(tmp_path):
    row = {"Search Query": "tick", "Rating": "4", "Brand": "A", "The Text": "Use tweezers."}
    place = put(tmp_path / "a.csv", cells([row]))
    with pytest.raises(InputError, match="which column is the document") as told:
        brought(tmp_path, place)
    assert "--columns 'content=The Text'; others are Brand" in str(told.value)
    assert not any("irst line" in each for each in told.value.__notes__)


def test_what_is_near_is_named(tmp_path, capsys):
    put(tmp_path / "in/notes.docx", "x")
    with pytest.raises(InputError, match=r"it holds notes\.docx$"):
        brought(tmp_path, str(tmp_path / "in"))
    with pytest.raises(InputError, match=r"did you mean 'notes\.docx'"):
        brought(tmp_path, str(tmp_path / "in/note.docx"))
    assert main(["annotate", "x", "--out", "o", "--depth", "15"]) == 2
    assert "did you mean '--document-limit'?" in capsys.readouterr().err


@pytest.mark.parametrize("more", [[], ["--dry-run"]])
def test_the_input_is_looked_at_before_the_judges(folder, capsys, monkeypatch, more):
    monkeypatch.setattr("os.environ", {"HOME": str(folder)})
    words = ["annotate", str(folder / "mine.run"), "--out", str(folder / "o"), *more]
    assert main(words) == 2
    assert "add --corpus and --queries" in capsys.readouterr().err
