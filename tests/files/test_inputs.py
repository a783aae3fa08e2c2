"""What users bring becomes the same pools from every container, and nothing is lost in silence."""

import json
import math
from pathlib import Path

import fsspec
import pandas as pd
import pyarrow as pa
import pytest

from tests.files.reading import (
    CASES,
    POOLS,
    ROWS,
    as_lines,
    convert,
    find_shards,
    ids_of,
    pool_lines,
    read_corpus,
    read_inputs,
    read_memory,
    read_texts,
    refused,
    write_file,
    write_folder,
)

LISTS = [
    {"query_id": p["query"]["id"], "query": p["query"]["query"], "passages": p["documents"]}
    for p in POOLS
]
RUN = "".join(
    f"{q} Q0 {d} {rank} {9 - rank} mine\n"
    for q, ids in ids_of(POOLS).items()
    for rank, d in enumerate(ids)
)
QRELS = "".join(f"q{q} 0 d{d} {d}\n" for q in range(2) for d in range(3))
CORPUS = [{"_id": f"d{d}", "title": "", "text": f"text {d}"} for d in range(3)]
QUERIES = [{"_id": f"q{q}", "text": f"query {q}"} for q in range(2)]
POOLS_BY_LINE = ",\n".join(map(json.dumps, POOLS))
SAME = {
    **dict.fromkeys(("rows.csv", "rows.jsonl.gz", "rows.json", "rows.parquet"), ROWS),
    "mixed.csv": [ROWS[n] for n in (0, 3, 1, 4, 2, 5)],
    "other order.csv": [dict(reversed(row.items())) for row in ROWS],
    "lists.json": LISTS,
    "lists.bin": LISTS,
    "pools.json": POOLS,
    "pools.bin": POOLS,
    "lines.json": f"\ufeff[\r\n{POOLS_BY_LINE}]",
}


def fields_of(pools):
    """By query, its further fields."""
    queries = [dict(pool["query"]) for pool in pools]
    return {query.pop("id"): query for query in queries if query.pop("query")}


@pytest.mark.parametrize("name", SAME)
def test_every_container_holds_the_same_pools(tmp_path, name):
    found, notes = read_inputs(tmp_path, write_file(tmp_path / name, SAME[name]))
    assert (found, len(notes)) == (POOLS, 1)


def test_what_is_in_memory_is_the_same_pools(tmp_path):
    frame = pd.DataFrame(ROWS)
    values = [kind(rows) for rows in (ROWS, LISTS) for kind in (pd.DataFrame, list)]
    values += [pa.Table.from_pylist(LISTS)]
    for value in (*values, frame.set_index(["qid", "docno"]), frame.set_index("qid")):
        assert read_memory(tmp_path, value)[0] == POOLS


def test_nan_in_metadata_is_no_value(tmp_path):
    documents = [{"id": "a", "content": "x", "metadata": {"price": math.nan, "n": {"m": math.nan}}}]
    pools = [{"query": {"id": "q", "query": "w"}, "documents": documents}]
    rows = [
        {"query": "w", "doc_id": d["id"], "text": "x", "metadata": d["metadata"]} for d in documents
    ]
    for value in (pools, rows):
        for kind in (pa.Table.from_pylist, pd.DataFrame, list):
            ((pool,), _) = read_memory(tmp_path, kind(value))
            assert "NaN" not in json.dumps(pool)
            assert not pool["documents"][0]["metadata"].get("price")


def test_the_same_input_makes_the_same_file(tmp_path):
    place = write_file(tmp_path / "a.csv", ROWS)
    first = convert(tmp_path, place)
    text = Path(first.places[0]).read_text()
    Path(first.places[0]).write_text("")  # as a full disk leaves it
    assert convert(tmp_path, place) == first
    assert Path(first.places[0]).read_text() == text
    write_file(place, ROWS[:3])
    assert convert(tmp_path, place).places != first.places
    assert not [*(tmp_path / "out" / "input").glob(".*")]


def test_a_document_without_text_is_left_out(tmp_path):
    blank, silent = {"docno": "d9", "passage": " "}, {"qid": "q9", "passage": ""}
    place = write_file(tmp_path / "a.csv", [*ROWS, ROWS[0] | blank, ROWS[0] | silent, ROWS[0]])
    found, notes = read_inputs(tmp_path, place)
    assert found == POOLS
    left = [line for line in notes if line.startswith("left out ")]
    places = (f"document d9 in {place}:14, document d0 in {place}:15", "(d0)", "(q9)")
    assert all(where in line for line, where in zip(left, places, strict=True))


def test_texts_in_columns_and_in_segments_are_documents(tmp_path):
    passages = {"is_selected": [0, 1], "passage_text": ["a", "b"]}
    row = {"query": "q", "query_id": 7, "passages": passages, "answers": ["x"]}
    (pool,), _ = read_inputs(tmp_path, write_file(tmp_path / "a.jsonl", [row]))
    assert (pool["query"]["id"], [d["content"] for d in pool["documents"]]) == ("7", ["a", "b"])
    (pool,), _ = read_inputs(tmp_path, CASES / "segments.jsonl")
    assert pool["documents"][0]["content"] == "Ticks\nPull it out with tweezers."


FIRST = '{torn|[|[1]|[1, 2]|[oops|{"query": {"id|oops|garbage, of two|null|{"query": 5}|{"foo": 1}'
TYPO = {"query": {"id": "q0", "text": "t"}, "documents": POOLS[0]["documents"]}


def test_an_object_over_several_lines_is_read(tmp_path):
    query, document = (json.dumps(part) for part in (POOLS[0]["query"], POOLS[0]["documents"][0]))
    text = f'{{"query": {query},\n"documents": [\n{document}\n]}}'
    assert ids_in(convert(tmp_path, write_file(tmp_path / "a.json", text)).places) == ["q0"]


def test_bad_lines_are_left_to_their_reader(tmp_path):
    """Also before them: what most lines are says what the file is."""
    texts = [f"{first}\n" + as_lines(POOLS * 9) for first in FIRST.split("|")]
    texts += [as_lines([TYPO, *POOLS]) + '{"query": broken\n']
    texts += [as_lines([POOLS[0] | {"conversation": [], "positive": ["a"]}, POOLS[1]])]
    for text in texts:
        for name in ("in.jsonl", "in.jsonl.gz", "in.txt"):
            place = write_file(tmp_path / name, text)
            assert convert(tmp_path, place).places == (place,), text[:40]
    assert not (tmp_path / "out").exists()
    rows = [POOLS[0], {"query": POOLS[1]["query"]}, POOLS[1] | {"documents": 5}]
    found = convert(tmp_path, write_file(tmp_path / "bad.json", rows))
    assert [bool(line.reason) for line in pool_lines(found.places[0])] == [False, False, True]


# Runs and their texts


@pytest.fixture
def folder(tmp_path):
    """A run, judgments, and texts beside them."""
    texts = "".join(f"{q['_id']}\t{q['text']}\n" for q in QUERIES)
    files = {"mine.run": RUN, "qrels.txt": QRELS, "corpus.jsonl": CORPUS, "queries.tsv": texts}
    write_folder(tmp_path, files)
    return tmp_path


def read_run(folder, corpus="corpus.jsonl", queries="queries.tsv", run="mine.run", **asked):
    """The pools of a run and its texts, by their names in a folder, and the notes."""
    texts = {"corpus": str(folder / corpus), "queries": str(folder / queries)}
    return read_inputs(folder, folder / run, **texts, **asked)


def test_a_run_needs_its_texts(folder):
    assert ids_of(read_run(folder)[0]) == ids_of(POOLS)
    with refused("add --corpus and --queries"):
        read_inputs(folder, folder / "mine.run")
    for lacking in ("passage", "question"):
        rows = [{name: value for name, value in row.items() if name != lacking} for row in ROWS]
        with refused("rows.csv: holds no pools"):
            read_inputs(folder, write_file(folder / "rows.csv", rows))
    write_file(folder / "other.jsonl", [{"_id": "doc-0", "text": "a"}])
    with refused(r"has 'd0', .*other.jsonl has 'doc-0'"):
        read_run(folder, "other.jsonl")


def test_qrels_do_not_tell_grades_by_order(folder):
    found, _ = read_run(folder, run="qrels.txt")
    assert {q: sorted(ids) for q, ids in ids_of(found).items()} == ids_of(POOLS)
    assert ids_of(found) != ids_of(POOLS)
    assert "relevance" not in json.dumps(found)


def test_what_lacks_a_text_or_candidate_is_named(folder):
    silent = {"_id": "d2", "title": None, "text": None}
    files = {"two.jsonl": [*CORPUS[:2], silent], "one.jsonl": CORPUS[:2]}
    write_folder(folder, files | {"more.jsonl": [*QUERIES, {"_id": "q9", "text": "idle"}]})
    for corpus in ("one.jsonl", "two.jsonl"):
        found, notes = read_run(folder, corpus, "more.jsonl")
        assert ids_of(found) == {"q0": ["d0", "d1"], "q1": ["d0", "d1"]}
        assert all(said in " ".join(notes) for said in ("1 (d2)", "1 (q9)"))


def test_texts_are_read_from_any_table(folder):
    odd = [{"doc-key": row["_id"], "passage_body": row["text"]} for row in CORPUS]
    columns = {"doc_id": "doc-key", "content": "passage_body"}
    for kind in ("jsonl", "csv", "parquet", "tsv"):
        write_file(folder / f"odd.{kind}", odd)
        found, _ = read_run(folder, f"odd.{kind}", columns=columns)
        assert found[0]["documents"][1]["content"] == "text 1"
    for number, row in enumerate(CORPUS):
        write_file(folder / f"beir/corpus/test-{number}.jsonl", [row])
    for given in ("beir/corpus/*.jsonl", "beir/corpus", "beir"):
        assert ids_of(read_run(folder, given)[0]) == ids_of(POOLS)
    for text in ("d1\thello there\n", "q1\ttopic\n", "d1\tx\tA title\ttext\n"):  # without a head
        assert read_corpus(write_file(folder / "t.tsv", text)) == [(text[:2], text[3:-1])]
    place = write_file(folder / "t.tsv", "docid\ttitle\tabstract\nd1\tone\ttwo\n")
    (document,) = read_texts(place, "corpus", columns={"content": "abstract"})
    assert document.content.endswith("two")


def test_a_collection_has_candidates_or_is_given_them(tmp_path):
    root = write_folder(tmp_path / "set", {"corpus.jsonl": CORPUS, "queries.jsonl": QUERIES})
    run = write_file(tmp_path / "mine.run", RUN)
    assert ids_of(read_inputs(tmp_path, root, run)[0]) == ids_of(POOLS)
    with refused("nothing in it says which documents to judge"):
        read_inputs(tmp_path, root)
    for name, text in (("bm25.run", RUN), ("scoreddocs.trec", RUN), ("qrels.trec", QRELS)):
        place = Path(write_file(f"{root}/{name}", text))
        found, _ = read_inputs(tmp_path, root)
        assert {q: sorted(ids) for q, ids in ids_of(found).items()} == ids_of(POOLS)
        place.unlink()


# Further fields of queries and documents


def test_queries_give_all_their_fields(folder):
    asks = [
        {**query, "description": f"What does {query['_id']} ask?", "year": 1999, "narrative": ""}
        for query in QUERIES
    ]
    for name in ("q.jsonl", "q.csv", "q.tsv", "q.parquet"):
        write_file(folder / name, asks)
        found, _ = read_run(folder, queries=name)
        assert fields_of(found)["q1"] == {"description": "What does q1 ask?", "year": "1999"}
    more = {"metadata": {"narrative": "n", "url": None, "query": "x"}, "tags": ["a", "b"]}
    write_file(folder / "m.jsonl", [{**query, **more} for query in QUERIES])
    found, _ = read_run(folder, queries="m.jsonl")
    assert fields_of(found)["q1"] == {"narrative": "n", "tags": "a\nb"}
    assert found[1]["query"]["query"] == "query 1"


def test_rows_give_the_fields_that_are_shown(tmp_path):
    rows = [
        {**row, "Notes": f"of {row['qid']}", "year": 7 if row["docno"] == "d0" else None}
        for row in ROWS
    ]
    wanted = {q: {"Notes": f"of {q}", "year": "7"} for q in ("q0", "q1")}
    for form in ("csv", "jsonl", "parquet"):
        place = write_file(tmp_path / f"rows.{form}", rows)
        assert fields_of(read_inputs(tmp_path, place, show=["Notes", "year"])[0]) == wanted
        assert fields_of(read_inputs(tmp_path, place)[0]) == {"q0": {}, "q1": {}}
    found, _ = read_memory(tmp_path, pd.DataFrame(rows), show=["Notes", "year"])
    assert fields_of(found) == wanted
    with refused("'notes' of --show-query"):
        read_inputs(tmp_path, place, show=["notes"])
    (pool,), _ = read_inputs(
        tmp_path,
        write_file(tmp_path / "a.csv", "query,doc_id,text,brand\na,a1,b,x\na,a2,c,\n"),
        show_documents=["brand"],
    )
    assert [d.get("metadata") for d in pool["documents"]] == [{"brand": "x"}, None]
    place = write_file(tmp_path / "b.csv", "query_id,query,text,note\nq,a,b,x\nq,a,c,y\n")
    with refused("two of 'note'"):
        read_inputs(tmp_path, place, show=["note"])


# Folders, and several files


def pool_of(number):
    return {**POOLS[0], "query": {"id": f"q{number}", "query": f"what {number}"}}


def ids_in(places):
    lines = [line for place in find_shards(places) for line in pool_lines(place)]
    assert not [line.reason for line in lines if line.pool is None]
    return sorted(line.pool.query_id for line in lines)


@pytest.mark.parametrize("store", ["disk", "memory", "s3"])
def test_a_folder_is_its_lines_or_its_tables(request, tmp_path, store):
    root = {"disk": str(tmp_path / "in"), "memory": "memory://mixed"}.get(store)
    root = root or f"{request.getfixturevalue('s3')}/mixed"
    rows = "query_id,query,doc_id,text\nq7,what,d0,x\nq7,what,d1,y\n"
    write_folder(root, {"a.csv": rows, "b.json": [pool_of(4)], "c.run": RUN})
    found = convert(root, root)
    assert ids_in(found.places) == ["q4", "q7"]
    assert "c.run" in found.notes[1]
    lines = ("e.NDJSON", "d.jsonl.gz", "more/f.jsonl")
    write_folder(root, {name: as_lines([pool_of(name[0])]) for name in lines})
    found = convert(root, root)
    assert ids_in(find_shards(found.places, f"{root}/out")) == ["qd", "qe"]
    (note,) = found.notes
    assert all(name in note for name in ("a.csv", "b.json", "c.run", "more/"))
    assert "out" not in note.partition(": ")[2]
    fs, path = fsspec.url_to_fs(root)
    fs.rm(path, recursive=True)


def test_results_in_a_folder_are_no_input(tmp_path):
    files = {"a.jsonl": [pool_of(0)], ".hidden.jsonl": [pool_of(1)], "out/b.jsonl": [pool_of(2)]}
    files |= {f"run/{name}": "{}" for name in ("run.json", "annotated.jsonl")}
    root = write_folder(tmp_path / "in", files)
    assert ids_in(convert(root, root).places) == ["q0"]
    with refused("holds no JSON lines, and no table"):  # but what this run writes
        convert(root, f"{root}/out")
    with refused("holds no JSON lines, and no table, but run"):
        convert(root, write_folder(tmp_path / "deep", {"run/annotated.jsonl": "{}"}))
    files = {"scores.parquet": "", "annotated.jsonl": [pool_of(3)]}
    assert ids_in(convert(tmp_path, write_folder(tmp_path / "judged", files)).places) == ["q3"]


def test_named_files_are_read_or_refused(tmp_path):
    files = {"a.jsonl": POOLS, "qrels.txt": QRELS, "in/b.csv": "x,y\n1,2\n", "docs/notes.md": "x"}
    write_folder(tmp_path, files | {"b.csv": ROWS[3:], "c.parquet": LISTS[:1]})
    for names, says in (
        ("a.jsonl qrels.txt", r"qrels\.txt is a file of TREC's qrels, without its texts"),
        ("b.csv qrels.txt", r"b.csv is a table .* and .*qrels.txt is a file of TREC"),
        ("a.jsonl in/b.csv", r"b\.csv: holds no pools"),
        ("in", r"b\.csv: holds no pools"),
        ("docs", r"notes\.md"),
        ("qrel.txt", r"no such file.*did you mean 'qrels.txt'"),
    ):
        with refused(says):
            convert(tmp_path, *(tmp_path / name for name in names.split()))
    places = convert(tmp_path, tmp_path / "b.csv", tmp_path / "c.parquet").places
    assert ids_in(places) == ["q0", "q1"]
