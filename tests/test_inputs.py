"""What users bring: each kind and each container becomes the same pools, and nothing is lost."""

import gzip
import json
import os
import tracemalloc
from pathlib import Path

import fsspec
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.builders import set_in_file
from tests.games import scores_of, write
from tests.input_pools import POOLS, ROWS, brought, cells, in_memory, lines, put
from zelo_ray import cli
from zelo_ray.errors import InputError, OptionError
from zelo_ray.files.candidates import explain_mismatch
from zelo_ray.files.collections import read_texts
from zelo_ray.files.inputs import InputOptions, convert_inputs
from zelo_ray.files.judges import read_judgments
from zelo_ray.files.judgments import read_qrels, read_runs
from zelo_ray.files.labels import read_labels
from zelo_ray.files.pools import LineLimits, hash_id, read_lines
from zelo_ray.files.storage import find_shards, open_for_writing
from zelo_ray.formats.input import ConvertedInputs, pools_of
from zelo_ray.formats.input.row_places import RowPlaces
from zelo_ray.formats.input.stored_inputs import read_notes
from zelo_ray.records import Document

CASES = Path(__file__).parent / "golden" / "cases"
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
RUN = "".join(
    f"{pool['query']['id']} Q0 {document['id']} {rank} {9 - rank} mine\n"
    for pool in POOLS
    for rank, document in enumerate(pool["documents"])
)
QRELS = "".join(f"q{q} 0 d{d} {d}\n" for q in range(2) for d in range(3))
CORPUS = [{"_id": f"d{d}", "title": "", "text": f"text {d}"} for d in range(3)]
QUERIES = [{"_id": f"q{q}", "text": f"query {q}"} for q in range(2)]


def parquet(rows):
    sink = pa.BufferOutputStream()
    pq.write_table(pa.Table.from_pylist(rows), sink)
    return sink.getvalue().to_pybytes()


def order(pools):
    return {pool["query"]["id"]: [d["id"] for d in pool["documents"]] for pool in pools}


def about(pools):
    """By query, its further fields."""
    return {
        pool["query"]["id"]: {n: v for n, v in pool["query"].items() if n not in ("id", "query")}
        for pool in pools
    }


def converted(tmp_path, *names):
    places = [str(tmp_path / name) for name in names]
    return convert_inputs(places, str(tmp_path / "out"), InputOptions())


CONTAINERS = {
    "rows.csv": cells(ROWS),
    "rows.txt": cells(ROWS, ";"),
    "rows.tsv.gz": cells(ROWS, "\t"),
    "rows.csv.zst": cells(ROWS),
    "bom.csv": "\ufeff" + cells(ROWS),
    "rows.jsonl": lines(ROWS),
    "rows.json": json.dumps(ROWS, indent=1),
    "data.json": json.dumps({"data": ROWS}, indent=2),
    "mixed.csv": cells([ROWS[n] for n in (0, 3, 1, 4, 2, 5)]),
    "other order.csv": cells([dict(reversed(row.items())) for row in ROWS]),
    "wide.json": json.dumps(WIDE),
    "ranked.jsonl": lines(RANKED),
    "pools.json": json.dumps(POOLS),
    "lines.json": "\ufeff[\r\n" + ",\n".join(map(json.dumps, POOLS)) + "]",
    "array.jsonl.zst": "[\n" + ",\n".join(map(json.dumps, POOLS)) + "\n]\n",
    "rows.parquet": parquet(ROWS),
    "wide.bin": parquet(WIDE),  # known by its content
    "pools.bin": parquet(POOLS),
}


def test_every_container_holds_the_same_pools(tmp_path):
    for name, content in CONTAINERS.items():
        found, told = brought(tmp_path, put(tmp_path / name, content))
        assert (found, len(told)) == (POOLS, 1), name
    for rows in (ROWS, WIDE):
        for made in (pd.DataFrame(rows), pa.Table.from_pylist(rows), rows):
            found, told = in_memory(tmp_path, made)
            assert (found, len(told)) == (POOLS, 1)
    plain = pd.DataFrame(ROWS)
    for index in (["qid", "docno"], "qid"):
        assert in_memory(tmp_path, plain.set_index(index))[0] == POOLS


def test_a_converted_file_is_found_again_and_made_anew(tmp_path, monkeypatch):
    place, asked = put(tmp_path / "a.csv", cells(ROWS)), (str(tmp_path), InputOptions())
    first = convert_inputs([place], *asked)
    (made,) = first.places
    with monkeypatch.context() as patch:
        patch.setattr("zelo_ray.formats.input.store_pools", None)
        assert convert_inputs([place], *asked) == first
    text = Path(made).read_text()
    Path(made).write_text("")  # as a full disk leaves it
    assert convert_inputs([place], *asked) == first
    assert Path(made).read_text() == text
    put(tmp_path / "a.csv", cells(ROWS[:3]))
    assert convert_inputs([place], *asked).places != first.places


def test_ids_follow_from_texts(tmp_path):
    bare = [{"query": row["question"], "text": row["passage"]} for row in ROWS]
    found, told = brought(tmp_path, put(tmp_path / "a.csv", cells(bare)))
    turned, _ = brought(tmp_path, put(tmp_path / "b.csv", cells(bare[::-1])))
    one, other = ({q: {*ids} for q, ids in order(each).items()} for each in (found, turned))
    assert one == other
    assert len(told) == 3


def test_what_has_no_text_is_left_out_by_name(tmp_path):
    rows = [
        *ROWS,
        {**ROWS[0], "docno": "d9", "passage": " "},
        {**ROWS[0], "qid": "q9", "passage": ""},
        ROWS[0],
    ]
    place = put(tmp_path / "a.csv", cells(rows))
    found, told = brought(tmp_path, place)
    assert found == POOLS
    left = [line for line in told if line.startswith("left out ")]
    places = (f"document d9 in {place}:14, document d0 in {place}:15", "(d0)", "(q9)")
    assert all(where in line for line, where in zip(left, places, strict=True))
    stored = convert_inputs([place], str(tmp_path / "o"), InputOptions()).places
    assert {*read_notes(stored)} == {*left}


SCORED = {
    "a.csv": "query;doc_id;text;score\nq;d1;x;1,5\nq;d2;y;-,5\nq;d3;z; 2 \n",
    "a.tsv": "query\tdoc_id\ttext\tscore\nq\td1\tx\t1.5\nq\td2\ty\tNA\nq\td3\tz\t2\n",
    "a.json": '[{"question": "q", "ctxs": [{"id": "d1", "text": "x", "score": "1.5"}, '
    '{"id": "d2", "text": "y", "score": "high"}, {"id": "d3", "text": "z", "score": 2}]}]',
}


def test_a_score_may_be_written_as_text(tmp_path):
    for name, text in SCORED.items():
        notes = ConversionNotes()
        (pool,) = pools_of([put(tmp_path / name, text)], InputOptions(), notes)[1]
        assert [d.get("score") for d in pool["documents"]] == [1.5, None, 2]
        noted = sum(count for what, count in notes.counts.items() if "score" in what)
        assert noted == (0 if "NA" in text else 1)
    place = put(tmp_path / "b.csv", SCORED["a.csv"].replace("-,5", "1,500"))
    with pytest.raises(InputError, match=r"b.csv:3: .*thousands"):
        [*pools_of([place], InputOptions(), ConversionNotes())[1]]


def test_columns_may_be_named(tmp_path):
    place = put(tmp_path / "a.csv", "query,text,body\nq,a,b\n")
    with pytest.raises(InputError, match="has both 'text' and 'body'"):
        brought(tmp_path, place)
    (found,), _ = brought(tmp_path, place, columns={"content": "body"})
    assert [d["content"] for d in found["documents"]] == ["b"]
    passages = {"is_selected": [0, 1], "passage_text": ["a", "b"]}  # columns in place of rows
    rows = [{"query": "q", "query_id": 7, "passages": passages, "answers": ["x"]}]
    (found,), _ = brought(tmp_path, put(tmp_path / "a.jsonl", lines(rows)))
    assert found["query"] == {"id": "7", "query": "q"}
    assert [d["content"] for d in found["documents"]] == ["a", "b"]
    case = (CASES / "segments.jsonl").read_text()
    for name, columns in (("segment", {}), ("body of it", {"content": "body of it"})):
        place = put(tmp_path / "s.jsonl", case.replace('"segment"', json.dumps(name)))
        (pool,), _ = brought(tmp_path, place, columns=columns)
        assert pool["documents"][0]["content"] == "Ticks\nPull it out with tweezers."


TORN = "[\n" + ",\n".join(map(json.dumps, POOLS))
REFUSED = {
    "no head.csv": ("how to,use tweezers\nhow to,the clock\n", ""),
    "rows.jsonl": ('{"foo": 1}\n', "foo"),
    "documents.jsonl": ('{"_id": "d1", "text": "a"}\n', "no column says which query"),
    "head.csv": ("query,text,query\nq,a,b\n", "two columns have the same name"),
    "query.csv": ("query_id,query,text\nq,a,b\nq,other,c\n", "query.csv:3: query 'q'"),
    "twice.csv": ("query,doc_id,text\nq,d,b\nq,d,c\n", "twice.csv:3: document 'd'"),
    "fields.csv": ("query_id,query,text,note\nq,a,b,x\nq,a,c,y\n", "two of 'note'"),
    "utf16.csv": ("query,text\n".encode("utf-16"), "is UTF-16"),
    "packed.csv": (gzip.compress(b"query,text\n", mtime=0), ".gz"),
    "bzip2.csv": (b"BZh91AY&SY", "bzip2"),
    "xz.csv": (b"\xfd7zXZ\x00\x00", "xz"),
    "torn.json": (TORN, "is not valid JSON"),
    "line.csv": ("a,b" * 2 * 10**6, "first line is longer than"),
    "four.run": ("q1 d1 1 12.5\nq1 d2 2 11.5\nq2 d1 1 3\n", "a run of 4 columns"),
    "five.run": ("q1 Q0 d1 1 12.5\n", "a run of 5 columns"),
    "documents.json": ('[{"query": "b", "documents": 5}, {"query": "a", "documents": ["x"]}]', ""),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_no_input_is_refused(tmp_path, name):
    content, says = REFUSED[name]
    with pytest.raises((InputError, OptionError)) as told:
        brought(tmp_path, put(tmp_path / name, content), show=("note",))
    assert name in str(told.value)
    assert says in str(told.value)


def test_a_number_stands_for_the_place_of_a_row():
    places = RowPlaces()
    texts = ["a.csv:21", "b.parquet: row 3", "a.csv:2", "part-001", "part-1", "a.csv", "x:0", "9"]
    numbers = [places.to_number(text) for text in texts]
    assert len(set(numbers)) == len(texts)
    assert [places.to_text(number) for number in numbers] == texts


# What lines are


FIRST = '{torn|[|[1]|[1, 2]|[oops|{"query": {"id|oops|garbage, of two|null|{"query": 5}|{"foo": 1}'
TYPO = {"query": {"id": "q0", "text": "t"}, "documents": POOLS[0]["documents"]}


def test_bad_lines_beside_pools_are_left_to_their_reader(tmp_path):
    """Also before them: what most lines are says what the file is."""
    texts = [f"{first}\n" + lines(POOLS * 9) for first in FIRST.split("|")]
    texts += [lines([TYPO, *POOLS]) + '{"query": broken\n']
    texts += [lines([POOLS[0] | {"conversation": [], "positive": ["a"]}, POOLS[1]])]
    for text in texts:
        for name in ("in.jsonl", "in.jsonl.gz", "in.txt"):
            place = put(tmp_path / name, text)
            assert converted(tmp_path, name) == ConvertedInputs((place,))
    assert not (tmp_path / "out").exists()
    put(tmp_path / "rows.jsonl", lines([POOLS[0], TYPO, TYPO | {"query": "t"}]))
    assert "3 queries" in converted(tmp_path, "rows.jsonl").notes[0]
    rows = [POOLS[0], {"query": POOLS[1]["query"]}, POOLS[1] | {"documents": 5}]
    put(tmp_path / "bad.json", json.dumps(rows))
    read = [*read_lines(converted(tmp_path, "bad.json").places[0], LineLimits())]
    assert [bool(line.reason) for line in read] == [False, False, True]


def test_a_line_too_long_to_be_read_takes_no_memory(tmp_path):
    place = put(tmp_path / "in.jsonl", "{" + "x" * 3 * 10**7 + "\n" + lines(POOLS))
    tracemalloc.start()
    assert converted(tmp_path, "in.jsonl") == ConvertedInputs((place,))
    assert tracemalloc.get_traced_memory()[1] < 2 * 10**7
    tracemalloc.stop()


def test_two_may_write_one_file_at_once(tmp_path):
    place = tmp_path / "made.json"
    with open_for_writing(str(place)) as one:
        one.write(b"one")
        with open_for_writing(str(place)) as other:
            other.write(b"other")
    assert place.read_bytes() == b"one"
    old, new = (tmp_path / "out" / "input" / f".pools-{each}.partial" for each in "ab")
    put(old, "{")
    put(new, "{")
    os.utime(old, (0, 0))
    put(tmp_path / "rows.csv", "query,text\nq,a\n")
    assert converted(tmp_path, "rows.csv")
    assert (old.exists(), new.exists()) == (False, True)


# Runs and their texts


@pytest.fixture
def folder(tmp_path):
    """A run, and texts beside it."""
    put(tmp_path / "mine.run", RUN)
    put(tmp_path / "qrels.txt", QRELS)
    put(tmp_path / "corpus.jsonl", lines(CORPUS))
    put(tmp_path / "queries.tsv", "".join(f"{q['_id']}\t{q['text']}\n" for q in QUERIES))
    return tmp_path


def of_run(folder, corpus="corpus.jsonl", queries="queries.tsv", run="mine.run", **asked):
    """The pools of a run and its texts, by their names in a folder, and the notes."""
    texts = {"corpus": str(folder / corpus), "queries": str(folder / queries)}
    return brought(folder, str(folder / run), **texts, **asked)


def test_a_run_needs_its_texts(folder):
    assert order(of_run(folder)[0]) == order(POOLS)
    with pytest.raises(OptionError, match="add --corpus and --queries"):
        brought(folder, str(folder / "mine.run"))
    for lacking, flag in (("passage", "corpus"), ("question", "queries")):
        rows = [{name: value for name, value in row.items() if name != lacking} for row in ROWS]
        place = put(folder / "rows.csv", cells(rows))
        with pytest.raises(OptionError, match=f"add --{flag}"):
            convert_inputs([place], str(folder), InputOptions())
        assert order(of_run(folder, run="rows.csv")[0]) == order(POOLS)
    with pytest.raises(InputError, match="are --corpus and --queries swapped"):
        of_run(folder, "queries.tsv", "corpus.jsonl")
    put(folder / "other.jsonl", lines([{"_id": "doc-0", "text": "a"}]))
    with pytest.raises(InputError, match=r"has 'd0', .*other.jsonl has 'doc-0'"):
        of_run(folder, "other.jsonl")


def test_qrels_do_not_tell_their_grades_by_the_order(folder):
    put(folder / "qrels.tsv", QRELS.replace(" 0 ", "\t").replace(" ", "\t"))
    beir, _ = of_run(folder, run="qrels.tsv")
    found, _ = of_run(folder, run="qrels.txt")
    assert found == beir
    assert {q: sorted(ids) for q, ids in order(found).items()} == order(POOLS)
    assert order(found) != order(POOLS)
    assert "relevance" not in json.dumps(found)


def test_what_lacks_a_text_or_a_candidate_is_named(folder):
    put(folder / "two.jsonl", lines([*CORPUS[:2], {"_id": "d2", "title": None, "text": None}]))
    put(folder / "one.jsonl", lines(CORPUS[:2]))
    put(folder / "more.jsonl", lines([*QUERIES, {"_id": "q9", "text": "idle"}]))
    for corpus in ("one.jsonl", "two.jsonl"):
        found, told = of_run(folder, corpus, "more.jsonl")
        assert order(found) == {"q0": ["d0", "d1"], "q1": ["d0", "d1"]}
        assert "(d2)" in told[1]
        assert told[2].endswith("1 (q9)")


def test_texts_are_read_from_any_table(folder):
    odd = [{"doc-key": row["_id"], "passage_body": row["text"]} for row in CORPUS]
    named = {"doc_id": "doc-key", "content": "passage_body"}
    for kind in ("jsonl", "csv", "parquet", "tsv"):
        write(folder / f"odd.{kind}", odd)
        found, _ = of_run(folder, f"odd.{kind}", columns=named)
        assert found[0]["documents"][1]["content"] == "text 1"
    for number, row in enumerate(CORPUS):
        put(folder / f"beir/corpus/test-{number}.jsonl", lines([row]))
    for given in ("beir/corpus/*.jsonl", "beir/corpus", "beir"):
        assert order(of_run(folder, given)[0]) == order(POOLS)
    for text in ("d1\thello there\n", "q1\ttopic\n", "d1\tx\tA title\ttext\n"):  # without a head
        (document,) = read_texts(put(folder / "t.tsv", text), "corpus")
        assert (document.id, document.content) == (text[:2], text[3:-1])
    place = put(folder / "t.tsv", "docid\ttitle\tabstract\nd1\tone\ttwo\n")
    with pytest.raises(InputError, match=r"t.tsv:2: has no text"):
        [*read_texts(place, "corpus")]
    (document,) = read_texts(place, "corpus", columns={"text": "abstract"})
    assert document.content.endswith("two")


def test_a_collection_has_its_candidates_or_is_given_them(tmp_path):
    root = str(tmp_path / "set")
    put(tmp_path / "set/corpus.jsonl", lines(CORPUS))
    put(tmp_path / "set/queries.jsonl", lines(QUERIES))
    run = put(tmp_path / "mine.run", RUN)
    assert order(brought(tmp_path, root, run)[0]) == order(POOLS)
    with pytest.raises(InputError, match="nothing in it says which documents to judge"):
        convert_inputs([root], str(tmp_path), InputOptions())
    for name, text in (("bm25.run", RUN), ("scoreddocs.trec", RUN), ("qrels.trec", QRELS)):
        place = Path(put(tmp_path / "set" / name, text))
        found, _ = brought(tmp_path, root)
        assert {q: sorted(ids) for q, ids in order(found).items()} == order(POOLS)
        place.unlink()
    put(tmp_path / "set/qrels/test.tsv", "query-id\tcorpus-id\tscore\nq0\td1\t1\n")
    asked = [root], str(tmp_path / "set/out"), InputOptions()
    first = convert_inputs(*asked).places
    put(tmp_path / "set/out/run.json", "{}")
    assert convert_inputs(*asked).places == first
    put(tmp_path / "set/corpus.jsonl", lines([*CORPUS[:1], CORPUS[1] | {"text": "other"}]))
    assert convert_inputs(*asked).places != first


def session(assistant, name="s", **more):
    turns = [{"qa_id": f"{n}", "query": f"q {n}", "assistant": assistant, **more} for n in range(2)]
    return {"session_id": name, "assistant_id": assistant, "conversation": turns}


def test_answers_of_assistants_meet_in_one_pool(tmp_path):
    for shared in (True, False):
        names = [
            put(tmp_path / f"{n}.json", json.dumps([session(n, "s" if shared else n, note="x")]))
            for n in ("red", "blue")
        ]
        found, _ = brought(tmp_path, *names, show=("note",))
        assert order(found) == {"0": ["red", "blue"], "1": ["red", "blue"]}
        named = {"session_id": "s", "note": "x"} if shared else {"note": "x"}
        assert about(found)["0"] == named
    rows = [session(who, name) for name in ("s", "t") for who in ("red", "blue")]
    found, _ = brought(tmp_path, put(tmp_path / "a.jsonl", lines(rows)))
    assert [*order(found)] == ["s:0", "s:1", "t:0", "t:1"], "equal ids stay apart"


# Further fields of queries


TOPICS = """<?xml version="1.0"?>
<xml><top>

<num> Number: q0
<title> query 0

<desc> Description:
What does
q0 ask?

<narr> Narrative:
Not <5 kitchens &amp; <b>never</b> AT&T.

</top>
<top><num>q1</num><title>query 1</title><desc>What does q1 ask?</desc></top>
</xml>
"""


def test_queries_give_all_their_fields(folder):
    rows = [
        {**query, "description": f"What does {query['_id']} ask?", "year": 1999, "narrative": ""}
        for query in QUERIES
    ]
    for name in ("q.jsonl", "q.csv", "q.tsv", "q.parquet"):
        write(folder / name, rows)
        found, _ = of_run(folder, queries=name)
        assert about(found)["q1"] == {"description": "What does q1 ask?", "year": "1999"}
    more = {"metadata": {"narrative": "n", "url": None, "query": "x"}, "tags": ["a", "b"]}
    put(folder / "m.jsonl", lines([{**query, **more} for query in QUERIES]))
    found, _ = of_run(folder, queries="m.jsonl")
    assert about(found)["q1"] == {"narrative": "n", "tags": "a\nb"}
    assert found[1]["query"]["query"] == "query 1"
    put(folder / "topics.txt", TOPICS)
    found, _ = of_run(folder, queries="topics.txt")
    narrative = "Not <5 kitchens & <b>never</b> AT&T."
    assert about(found) == {
        "q0": {"description": "What does q0 ask?", "narrative": narrative},
        "q1": {"description": "What does q1 ask?"},
    }
    assert [pool["query"]["query"] for pool in found] == ["query 0", "query 1"]


def test_topics_that_are_torn_are_refused(tmp_path):
    topic = "<top><num> Number: 7\n<desc> Description: what?</top>"
    (found,) = read_texts(put(tmp_path / "t", topic), "queries")
    assert found == Document("7", "what?", {"description": "what?"})
    one, two = (f"<top>\n<num> {n}\n<title> a\n" for n in "12")
    for text, says in (
        (f"{one}{two}</top>\n", "t:1: this <top> has no </top>"),
        (f"{one}</top>\n{two}", "t:5: this <top> has no </top>"),
        (topic.replace("num", "nun"), "topic 1 has no <num>"),
        (b"<top>caf\xe9", "is not UTF-8"),
    ):
        with pytest.raises(InputError, match=says):
            list(read_texts(put(tmp_path / "t", text), "queries"))


def test_rows_give_the_fields_that_are_to_be_shown(tmp_path):
    rows = [
        {**row, "Notes": f"of {row['qid']}", "year": 7 if row["docno"] == "d0" else None}
        for row in ROWS
    ]
    wanted = {q: {"Notes": f"of {q}", "year": "7"} for q in ("q0", "q1")}
    show = ("Notes", "year")
    for form in ("csv", "jsonl", "parquet"):
        place = str(write(tmp_path / f"rows.{form}", rows))
        assert about(brought(tmp_path, place, show=show)[0]) == wanted
    for given in (pd.DataFrame(rows), rows):
        assert about(in_memory(tmp_path, given, show=show)[0]) == wanted
    place = put(tmp_path / "a.csv", cells(rows))
    with pytest.raises(OptionError, match="'notes' of --show-query"):
        brought(tmp_path, place, show=("notes",))
    assert about(brought(tmp_path, place)[0]) == {"q0": {}, "q1": {}}
    wide = {"query": "a", "documents": ["x", "y"], "narrative": "n"}
    (found,) = about(brought(tmp_path, put(tmp_path / "w.jsonl", lines([wide])))[0]).values()
    assert found == {"narrative": "n"}


def test_columns_become_fields_of_documents(tmp_path):
    text = "query_id,query,doc_id,text,brand\nt,a,a1,Pull it out.,x\nt,a,a2,Clocks tick.,\n"
    (pool,), _ = brought(tmp_path, put(tmp_path / "a.csv", text), show_metadata=("brand",))
    assert [d.get("metadata") for d in pool["documents"]] == [{"brand": "x"}, None]


# Folders


def one_pool(number):
    documents = [{"id": f"d{d}", "content": f"text {d}"} for d in range(2)]
    return {"query": {"id": f"q{number}", "query": f"what {number}"}, "documents": documents}


def ids(places):
    read = [line for place in find_shards(places) for line in read_lines(place, LineLimits())]
    assert not [line.reason for line in read if line.pool is None]
    return sorted(line.pool.query_id for line in read)


WRITTEN = {
    "a.jsonl": lines([one_pool(0)]),
    "B.JSONL": lines([one_pool(1)]),
    "c.ndjson": lines([one_pool(2)]),
    "more/deep/d.jsonl.gz": lines([one_pool(3)]),
    "g.json": json.dumps([one_pool(4), one_pool(5)], indent=1),
    "h.JSON": json.dumps(one_pool(6)),
    "i.csv": "query_id,query,doc_id,text\nq7,what,d0,x\nq7,what,d1,y\n",
    "j.tsv.zst": "query_id\tquery\tdoc_id\ttext\nq8\twhat\td0\tx\n",
    "part-00000": lines([one_pool(9)]),
}


@pytest.mark.parametrize("store", ["disk", "memory", "s3"])
def test_all_that_is_read_by_its_name_is_read_in_a_folder(request, tmp_path, store):
    root = {"disk": str(tmp_path / "in"), "memory": "memory://mixed"}.get(store)
    root = root or f"{request.getfixturevalue('s3')}/mixed"
    for name, text in WRITTEN.items():
        put(f"{root}/{name}", text)
    found = convert_inputs([root], f"{root}/out", InputOptions())
    assert ids(found.places) == [f"q{n}" for n in range(10)]
    assert not [line for line in found.notes if "left out" in line]
    assert convert_inputs([root], f"{root}/out", InputOptions()) == found
    if store == "disk":
        assert ids(converted(tmp_path, "in/[am]*").places) == ["q0", "q3"]
    fs, path = fsspec.url_to_fs(root)
    fs.rm(path, recursive=True)


def test_what_is_no_input_of_a_folder_is_left_out_by_name(tmp_path):
    read = {
        "a.jsonl": "{torn\n" + lines([one_pool(0)]),
        "b.csv": cells(ROWS),
        ".DS_Store": "x",
        "results/run.json": "{}",
        "results/annotated.jsonl": lines([one_pool(2)]),
        "results/scores.csv": cells(ROWS),
        "more/replies/r.csv": cells([row | {"qid": "q5"} for row in ROWS[:3]]),
    }
    other = {
        ".cache/x.csv": cells(ROWS),
        ".hidden.jsonl": lines([one_pool(1)]),
        "README.md": "# data",
        "_SUCCESS": "",
        "s.json": '{"a": 1}',
        "utf16.csv": "query,text\nq,d\n".encode("utf-16"),
        "qrels.txt": "q0 0 d0 1\n",
    }
    for name, text in {**read, **other}.items():
        put(tmp_path / "in" / name, text)
    out = str(tmp_path / "in/out")
    found = convert_inputs([str(tmp_path / "in")], out, InputOptions())
    torn, *made = found.places
    assert torn == str(tmp_path / "in/a.jsonl")
    assert ids(made) == ["q0", "q1", "q5"]
    left = [line for line in found.notes if "left out" in line]
    assert [line.split(": ")[0] for line in left] == [f"left out {tmp_path}/in/{n}" for n in other]
    assert read_notes(found.places, out) == left
    put(tmp_path / "in/c.csv", cells([row | {"qid": "q6"} for row in ROWS[:3]]))
    for place in (out, f"{out}-too"):  # results inside of the folder are not in the way
        _, *made = convert_inputs([str(tmp_path / "in")], place, InputOptions()).places
        assert ids(made) == ["q0", "q1", "q5", "q6"]


def test_a_file_that_is_named_is_not_left_out(tmp_path):
    put(tmp_path / "a.jsonl", lines(POOLS))
    put(tmp_path / "qrels.txt", "q0 0 d0 1\n")
    put(tmp_path / "in/b.csv", "x,y\n1,2\n")
    put(tmp_path / "in/notes.md", "x")
    with pytest.raises(InputError, match="are of different kinds"):
        converted(tmp_path, "a.jsonl", "qrels.txt")
    for names in (["a.jsonl", "in/b.csv"], ["in"]):
        with pytest.raises(InputError, match=r"b\.csv: holds no pools"):
            converted(tmp_path, *names)
    put(tmp_path / "b.csv", cells(ROWS[3:]))
    write(tmp_path / "c.parquet", [{"query": "why", "passages": ["x", "y"]}])
    put(tmp_path / "one.json", json.dumps(one_pool(0)))
    assert len(ids(converted(tmp_path, "b.csv", "c.parquet", "one.json").places)) == 3


# Judgments and ids as newcomers have them


TICK, RAY = hash_id("q", "how to remove a tick"), hash_id("q", "ray, the fish")
GRADED = {
    "labels-rating.csv": [(TICK, "a1", "me", 3), (TICK, "a2", "me", 0), (RAY, "b2", "me", 2)],
    "nested-qrels.json": [("q1", "d1", "me", 1), ("q1", "d2", "me", 0), ("q2", "d3", "me", 2)],
    "excel-sep.csv": [2, 1, 1, 3, 0, 0],
    "decimal-comma.csv": [2, 1, 1, 3, 0, 0, 0],
}


def test_all_readers_find_the_same_grades(tmp_path):
    for name, wanted in GRADED.items():
        place = str(CASES / name)
        rows = [tuple(row.values()) for row in read_judgments(place, "me").table.to_pylist()]
        assert (rows if isinstance(wanted[0], tuple) else [row[3] for row in rows]) == wanted
        grades = [row[3] for row in rows]
        assert read_labels(place).rows["grade"].to_pylist() == grades
        assert read_qrels(place)["relevance"].to_pylist() == grades
    ratings = [{"docId": "B01", "rating": "3.000"}, {"docId": "B02", "rating": "0"}]
    rows = [{"query": "how to remove a tick", "ratings": ratings}]  # of OpenSearch's workbench
    for whole in ({"name": "x", "judgmentRatings": rows}, rows, rows[0]):
        found = read_qrels(put(tmp_path / "o.json", json.dumps(whole, indent=2)))
        assert found["relevance"].to_pylist() == [3, 0]
        assert found["query_id"].to_pylist() == [TICK, TICK]
    for text in ("q1 0 1 1.5\nq1 0 2 0.5\n", "q1 1 1 1\nq1 1 2 0\n"):
        assert probe(put(tmp_path / "x.qrels", text)).kind == "trec qrels"
    with pytest.raises(InputError, match="ann and bob"):
        read_judgments(str(CASES / "one-column-a-rater.csv"), "me")


def test_votes_in_words_and_in_columns(tmp_path):
    def wins(name):
        return scores_of(CASES / name).to_pandas().set_index("doc_id")["wins"].to_dict()

    assert wins("one-hot-votes.csv") == {"m1": 1.5, "m3": 1.5, "m2": 0}
    assert wins("blanks-in-names.csv") == {"Claude": 1.5, "GPT-4": 1, "Llama": 0.5}
    votes = read_judgments(str(CASES / "one-hot-votes.csv"), "me", columns={"query_id": "id"}).table
    assert votes["preference"].to_pylist() == [-1, 1, 0]
    assert len(scores_of(put(tmp_path / "a.csv", "a,b,winner\n1.5,y,a\n"))) == 2
    with pytest.raises(InputError, match="'1,000' may be a fraction or thousands"):
        scores_of(put(tmp_path / "b.csv", "a;b;winner;count\nx;y;a;1,000\n"))


def test_rankings_without_scores_are_runs(tmp_path):
    for rank in ("rank", "Position"):
        text = f"query_id,{rank},doc_id\nq,2,b\nq,1,a\nq,3,c\n"
        run = read_runs([put(tmp_path / "mine.csv", text)])["mine"]
        assert run["score"].to_pylist() == [-2, -1, -3]
    documents = [{"id": "a", "text": "x", "score": 0.9, "label": 0}]
    documents += [{"id": 2, "text": "y", "score": 0.3, "label": "2"}]
    place = put(tmp_path / "a.jsonl", json.dumps({"qid": 1, "query": "q", "passages": documents}))
    assert read_qrels(place)["relevance"].to_pylist() == [0, 2]
    assert read_qrels(place)["doc_id"].to_pylist() == ["a", "2"]
    assert read_runs([place])["a"]["score"].to_pylist() == [0.9, 0.3]


def test_ids_are_the_same_in_pools_and_judgments(tmp_path):
    rows = "query,doc_id,text,label\nhow to ,a ,x,1\nhow to ,b,y,0\nhow to,c,z,2\n"
    place = put(tmp_path / "rows.csv", rows)
    (pool,), _ = brought(tmp_path, place)
    truth = read_qrels(place)
    assert {*truth["query_id"].to_pylist()} == {pool["query"]["id"]}
    assert [row["id"] for row in pool["documents"]] == truth["doc_id"].to_pylist()


@pytest.mark.parametrize(
    ("one", "other", "way"),
    [
        ("Caf\u00e9-1", "Cafe\u0301-1", "their Unicode form"),
        ("007", "7", "leading zeros"),
        ("Q 7.0", "q7", "capitals and in blanks and in a .0"),
    ],
)
def test_ids_that_nearly_match_are_shown(one, other, way):
    assert way in explain_mismatch("a", [one, "zz"], "b", [other, "yy"])
    assert explain_mismatch("a", ["x"], "b", ["y"]) == "a has 'x', b has 'y'"


def contest(tmp_path, truth, pools, *words):
    place = ["--truth", str(truth), "--pools", str(pools), "--out", str(tmp_path / "out")]
    return cli.main(["bakeoff", *place, *words, *set_in_file(resamples=100)])


def test_a_contest_by_the_texts_of_queries_is_one_by_their_ids(tmp_path, capsys):
    pools = put(
        tmp_path / "pools.csv",
        "query_id,query,doc_id,text\nt1,how to remove a tick,a1,Pull it out.\n"
        't1,how to remove a tick,a2,Clocks tick.\nt2,"ray, the fish",b2,Rays swim.\n',
    )
    rows = ["how to remove a tick,1,a2", "how to remove a tick,2,a1", '"ray, the fish",1,b2']
    ranks = "\n".join(["query,position,doc_id", *rows, ""])
    runs = ("--runs", f"mine={put(tmp_path / 'ranks.csv', ranks)}")
    named = put(tmp_path / "named.csv", "query_id,doc_id,stars\nt1,a1,3\nt1,a2,0\nt2,b2,2\n")
    values = []
    for truth, more in ((CASES / "labels-rating.csv", []), (named, ["--columns", "grade=stars"])):
        assert contest(tmp_path, truth, pools, *runs, *more) == 0
        values.append(pq.read_table(tmp_path / "out/metrics.parquet").to_pylist())
    assert str(values[0]) == str(values[1])  # NaN is not equal to itself
    assert {row["query_id"] for row in values[0]} == {"t1", "t2"}
    assert contest(tmp_path, CASES / "nfd.qrels", CASES / "nfd.jsonl", *runs) == 1
    assert "Cafe\\u0301-1" in capsys.readouterr().err
    twins = [{"query": {"id": q, "query": "how"}, "documents": [{"id": "a", "content": "x"}]}
             for q in ("q1", "q2")]  # fmt: skip
    truth = put(tmp_path / "truth.csv", "query,doc_id,rating\nhow,a,1\n")
    pools = put(tmp_path / "pools.jsonl", lines(twins))
    assert contest(tmp_path, truth, pools, "--rerankers", "original") == 1
    assert "'q1' and 'q2' have the same text" in capsys.readouterr().err
