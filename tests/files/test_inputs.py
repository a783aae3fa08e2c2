"""What users bring: each kind and each container becomes the same pools, and nothing is lost."""

import json
from pathlib import Path

import fsspec
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.builders import set_in_file
from tests.games import write
from tests.input_pools import POOLS, ROWS, brought, cells, in_memory, lines, put
from zelo_ray import cli
from zelo_ray.errors import InputError, OptionError
from zelo_ray.files.candidates import explain_mismatch
from zelo_ray.files.collections import read_texts
from zelo_ray.files.inputs import ConvertedInputs, InputOptions, convert_inputs
from zelo_ray.files.judgments import read_qrels
from zelo_ray.files.make_pools import Shown
from zelo_ray.files.pools import LineLimits, read_lines
from zelo_ray.files.schema import Columns
from zelo_ray.files.storage import find_shards
from zelo_ray.records import Document

CASES = Path(__file__).parents[1] / "golden" / "cases"
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
        found, notes = brought(tmp_path, put(tmp_path / name, content))
        assert (found, len(notes)) == (POOLS, 1), name
    for rows in (ROWS, WIDE):
        for made in (pd.DataFrame(rows), pa.Table.from_pylist(rows), rows):
            found, notes = in_memory(tmp_path, made)
            assert (found, len(notes)) == (POOLS, 1)
    plain = pd.DataFrame(ROWS)
    for index in (["qid", "docno"], "qid"):
        assert in_memory(tmp_path, plain.set_index(index))[0] == POOLS


def test_the_same_input_makes_the_same_file(tmp_path):
    place = put(tmp_path / "a.csv", cells(ROWS))
    first = converted(tmp_path, "a.csv")
    text = Path(first.places[0]).read_text()
    Path(first.places[0]).write_text("")  # as a full disk leaves it
    assert converted(tmp_path, "a.csv") == first
    assert Path(first.places[0]).read_text() == text
    put(place, cells(ROWS[:3]))
    assert converted(tmp_path, "a.csv").places != first.places
    assert not [*(tmp_path / "out" / "input").glob(".*")]


def test_ids_follow_from_texts(tmp_path):
    bare = [{"query": row["question"], "text": row["passage"]} for row in ROWS]
    found, notes = brought(tmp_path, put(tmp_path / "a.csv", cells(bare)))
    turned, _ = brought(tmp_path, put(tmp_path / "b.csv", cells(bare[::-1])))
    one, other = ({q: {*ids} for q, ids in order(each).items()} for each in (found, turned))
    assert one == other
    assert len(notes) == 3


def test_what_has_no_text_is_left_out_by_name(tmp_path):
    rows = [
        *ROWS,
        {**ROWS[0], "docno": "d9", "passage": " "},
        {**ROWS[0], "qid": "q9", "passage": ""},
        ROWS[0],
    ]
    place = put(tmp_path / "a.csv", cells(rows))
    found, notes = brought(tmp_path, place)
    assert found == POOLS
    left = [line for line in notes if line.startswith("left out ")]
    places = (f"document d9 in {place}:14, document d0 in {place}:15", "(d0)", "(q9)")
    assert all(where in line for line, where in zip(left, places, strict=True))


SCORED = {
    "a.csv": "query;doc_id;text;score\nq;d1;x;1,5\nq;d2;y;\nq;d3;z; 2 \n",
    "a.tsv": "query\tdoc_id\ttext\tscore\nq\td1\tx\t1.5\nq\td2\ty\tNA\nq\td3\tz\t2\n",
    "a.json": '[{"question": "q", "ctxs": [{"id": "d1", "text": "x", "score": "1.5"}, '
    '{"id": "d2", "text": "y"}, {"id": "d3", "text": "z", "score": 2}]}]',
}


def test_a_score_may_be_written_as_text(tmp_path):
    for name, text in SCORED.items():
        (pool,), _ = brought(tmp_path, put(tmp_path / name, text))
        assert [d.get("score") for d in pool["documents"]] == [1.5, None, 2]
    for name, text in (
        ("b.csv", SCORED["a.csv"].replace("1,5", "1,500")),
        ("b.json", SCORED["a.json"].replace("1.5", "high")),
    ):
        with pytest.raises(InputError, match=f"{name}.*(thousands|'high')"):
            brought(tmp_path, put(tmp_path / name, text))


def test_columns_may_be_named(tmp_path):
    place = put(tmp_path / "a.csv", "query,text,body\nq,a,b\n")
    with pytest.raises(InputError, match="'text' and 'body' may all be the content"):
        brought(tmp_path, place)
    (found,), _ = brought(tmp_path, place, columns=Columns(content="body"))
    assert [d["content"] for d in found["documents"]] == ["b"]
    passages = {"is_selected": [0, 1], "passage_text": ["a", "b"]}  # columns in place of rows
    rows = [{"query": "q", "query_id": 7, "passages": passages, "answers": ["x"]}]
    (found,), _ = brought(tmp_path, put(tmp_path / "a.jsonl", lines(rows)))
    assert found["query"] == {"id": "7", "query": "q"}
    assert [d["content"] for d in found["documents"]] == ["a", "b"]
    case = (CASES / "segments.jsonl").read_text()
    for name, columns in (("segment", {}), ("body of it", {"content": "body of it"})):
        place = put(tmp_path / "s.jsonl", case.replace('"segment"', json.dumps(name)))
        (pool,), _ = brought(tmp_path, place, columns=Columns(columns))
        assert pool["documents"][0]["content"] == "Ticks\nPull it out with tweezers."


REFUSED = {
    "no head.csv": ("how to,use tweezers\nhow to,the clock\n", "--columns ROLE=NAME"),
    "rows.jsonl": ('{"foo": 1}\n', "columns foo"),
    "documents.jsonl": ('{"_id": "d1", "text": "a"}\n', "a corpus alone names no candidates"),
    "question.csv": ("prompt,query\nlong text,q\n", "--columns content=prompt"),
    "query.csv": ("query_id,query,text\nq,a,b\nq,other,c\n", "query.csv:3: query 'q'"),
    "twice.csv": ("query,doc_id,text\nq,d,b\nq,d,c\n", "twice.csv:3: document 'd'"),
    "fields.csv": ("query_id,query,text,note\nq,a,b,x\nq,a,c,y\n", "two of 'note'"),
    "four.run": ("q1 d1 1 12.5\nq1 d2 2 11.5\nq2 d1 1 3\n", "a run of 4 columns"),
    "five.run": ("q1 Q0 d1 1 12.5\n", "a run of 5 columns"),
    "documents.json": (
        '[{"query": "b", "documents": 5}, {"query": "a", "documents": ["x"]}]',
        "write a list",
    ),
    "votes.csv": ("query_id,a,b,winner\nq,x,y,a\n", "holds no"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_no_input_is_refused(tmp_path, name):
    content, says = REFUSED[name]
    with pytest.raises((InputError, OptionError)) as error:
        brought(tmp_path, put(tmp_path / name, content), shown=Shown(("note",)))
    assert name in str(error.value)
    assert says in str(error.value)


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
            assert converted(tmp_path, name) == ConvertedInputs((place,)), text[:40]
    assert not (tmp_path / "out").exists()
    put(tmp_path / "rows.jsonl", lines([POOLS[0], TYPO, TYPO | {"query": "t"}]))
    assert "3 queries" in converted(tmp_path, "rows.jsonl").notes[0]
    rows = [POOLS[0], {"query": POOLS[1]["query"]}, POOLS[1] | {"documents": 5}]
    put(tmp_path / "bad.json", json.dumps(rows))
    read = [*read_lines(converted(tmp_path, "bad.json").places[0], LineLimits())]
    assert [bool(line.reason) for line in read] == [False, False, True]


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
        found, notes = of_run(folder, corpus, "more.jsonl")
        assert order(found) == {"q0": ["d0", "d1"], "q1": ["d0", "d1"]}
        said = " ".join(notes)
        assert "1 (d2)" in said
        assert "1 (q9)" in said


def test_texts_are_read_from_any_table(folder):
    odd = [{"doc-key": row["_id"], "passage_body": row["text"]} for row in CORPUS]
    named = Columns({"doc_id": "doc-key", "content": "passage_body"})
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
    with pytest.raises(InputError, match=r"t.tsv: .*docid, title, abstract.*--columns"):
        [*read_texts(place, "corpus")]
    (document,) = read_texts(place, "corpus", columns={"content": "abstract"})
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


def session(assistant, name="s", **more):
    turns = [{"qa_id": f"{n}", "query": f"q {n}", "assistant": assistant, **more} for n in range(2)]
    return {"session_id": name, "assistant_id": assistant, "conversation": turns}


def test_answers_of_assistants_meet_in_one_pool(tmp_path):
    for shared in (True, False):
        names = [
            put(tmp_path / f"{n}.json", json.dumps([session(n, "s" if shared else n, note="x")]))
            for n in ("red", "blue")
        ]
        found, _ = brought(tmp_path, *names, shown=Shown(("note",)))
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
    shown = Shown(("Notes", "year"))
    for form in ("csv", "jsonl", "parquet"):
        place = str(write(tmp_path / f"rows.{form}", rows))
        assert about(brought(tmp_path, place, shown=shown)[0]) == wanted
    for given in (pd.DataFrame(rows), rows):
        assert about(in_memory(tmp_path, given, shown=shown)[0]) == wanted
    place = put(tmp_path / "a.csv", cells(rows))
    with pytest.raises(OptionError, match="'notes' of --show-query"):
        brought(tmp_path, place, shown=Shown(("notes",)))
    assert about(brought(tmp_path, place)[0]) == {"q0": {}, "q1": {}}
    wide = {"query": "a", "documents": ["x", "y"], "narrative": "n"}
    (found,) = about(brought(tmp_path, put(tmp_path / "w.jsonl", lines([wide])))[0]).values()
    assert found == {"narrative": "n"}


def test_columns_become_fields_of_documents(tmp_path):
    text = "query_id,query,doc_id,text,brand\nt,a,a1,Pull it out.,x\nt,a,a2,Clocks tick.,\n"
    place = put(tmp_path / "a.csv", text)
    (pool,), _ = brought(tmp_path, place, shown=Shown((), ("brand",)))
    assert [d.get("metadata") for d in pool["documents"]] == [{"brand": "x"}, None]


# Folders


def one_pool(number):
    documents = [{"id": f"d{d}", "content": f"text {d}"} for d in range(2)]
    return {"query": {"id": f"q{number}", "query": f"what {number}"}, "documents": documents}


def ids(places):
    read = [line for place in find_shards(places) for line in read_lines(place, LineLimits())]
    assert not [line.reason for line in read if line.pool is None]
    return sorted(line.pool.query_id for line in read)


@pytest.mark.parametrize("store", ["disk", "memory", "s3"])
def test_a_folder_is_its_json_lines_or_else_its_tables(request, tmp_path, store):
    root = {"disk": str(tmp_path / "in"), "memory": "memory://mixed"}.get(store)
    root = root or f"{request.getfixturevalue('s3')}/mixed"
    rows = "query_id,query,doc_id,text\nq7,what,d0,x\nq7,what,d1,y\n"
    texts = {"a.csv": rows, "more/b.json": json.dumps([one_pool(4)]), "c.run": RUN}
    for name, text in texts.items():
        put(f"{root}/{name}", text)
    found = convert_inputs([root], f"{root}/out", InputOptions())
    assert ids(found.places) == ["q4", "q7"]
    assert found.notes[1] == f"left out of {root}: c.run"
    for name in ("a.jsonl", "B.NDJSON", "more/deep/d.jsonl.gz"):
        put(f"{root}/{name}", lines([one_pool(len(name))]))
    found = convert_inputs([root], f"{root}/out", InputOptions())
    assert ids(find_shards(found.places, f"{root}/out")) == ["q20", "q7", "q8"]
    assert found.notes == (f"left out of {root}: a.csv, c.run, b.json",)
    if store == "disk":
        assert ids(converted(tmp_path, "in/[am]*").places) == ["q20", "q7", "q7"]
    fs, path = fsspec.url_to_fs(root)
    fs.rm(path, recursive=True)


def test_the_results_of_runs_in_a_folder_are_no_input(tmp_path):
    put(tmp_path / "in/a.jsonl", lines([one_pool(0)]))
    put(tmp_path / "in/.hidden.jsonl", lines([one_pool(1)]))
    for name in ("run.json", "annotated.jsonl", "replies/x.v2.jsonl"):
        put(tmp_path / "in/results" / name, "{}")
    out = str(tmp_path / "in/out")
    put(f"{out}/b.jsonl", lines([one_pool(2)]))
    assert ids(convert_inputs([str(tmp_path / "in")], out, InputOptions()).places) == ["q0"]
    with pytest.raises(InputError, match="all its files lie in --out"):
        convert_inputs([out], out, InputOptions())
    put(tmp_path / "judged/scores.parquet", "")
    put(tmp_path / "judged/annotated.jsonl", lines([one_pool(3)]))
    assert ids(converted(tmp_path, "judged").places) == ["q3"]


def test_files_that_are_named_are_read_or_refused(tmp_path):
    put(tmp_path / "a.jsonl", lines(POOLS))
    put(tmp_path / "qrels.txt", "q0 0 d0 1\n")
    put(tmp_path / "in/b.csv", "x,y\n1,2\n")
    with pytest.raises(
        OptionError, match=r"qrels\.txt is a file of TREC's qrels, without the texts"
    ):
        converted(tmp_path, "a.jsonl", "qrels.txt")
    for names in (["a.jsonl", "in/b.csv"], ["in"]):
        with pytest.raises(InputError, match=r"b\.csv: holds no pools"):
            converted(tmp_path, *names)
    put(tmp_path / "b.csv", cells(ROWS[3:]))
    with pytest.raises(InputError, match=r"b.csv is a table .* and .*qrels.txt is a file of TREC"):
        converted(tmp_path, "b.csv", "qrels.txt")
    write(tmp_path / "c.parquet", [{"query": "why", "passages": ["x", "y"]}])
    put(tmp_path / "one.json", json.dumps(one_pool(0)))
    assert len(ids(converted(tmp_path, "b.csv", "c.parquet", "one.json").places)) == 3
    with pytest.raises(InputError, match=r"no such file.*did you mean 'qrels.txt'"):
        converted(tmp_path, "qrel.txt")
    put(tmp_path / "docs/notes.md", "x")
    with pytest.raises(InputError, match=r"holds no JSON lines, and no table, but notes\.md"):
        converted(tmp_path, "docs")


# Ids of several files


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
        ("Caf\u00e9-1", "Cafe\u0301-1", "Unicode's forms"),
        ("007", "7", "leading zeros"),
        ("Q1", "q1", "capitals"),
        ("Q 7.0", "q7", "capitals, blanks"),
    ],
)
def test_ids_that_nearly_match_are_shown(one, other, way):
    says = explain_mismatch("a", [one, "zz"], "b", [other, "yy"])
    assert says.startswith(f"a has {one!r}")
    assert f"they differ only in {way}" in says
    assert explain_mismatch("a", ["x"], "b", ["y"]) == "a has 'x', b has 'y'"
    says = explain_mismatch("a", ["q-0123456789ab"], "b", ["y"])
    assert says.endswith("is a hash of a query's text; give both files query_id")


def test_a_contest_without_a_common_query_shows_an_id_of_each_side(tmp_path, capsys):
    runs = ["--runs", f"mine={put(tmp_path / 'a.run', RUN)}"]
    place = ["--truth", str(CASES / "nfd.qrels"), "--pools", str(CASES / "nfd.jsonl")]
    words = ["bakeoff", *place, *runs, "--out", str(tmp_path / "out")]
    assert cli.main([*words, *set_in_file(resamples=100)]) == 1
    assert "Cafe\\u0301-1" in capsys.readouterr().err
    case = ["--truth", str(CASES / "no-common-query.qrels")]
    other = ["--runs", str(CASES / "no-common-query.run"), "--out", str(tmp_path / "other")]
    assert cli.main(["bakeoff", *case, *other]) != 0
    said = "".join(capsys.readouterr())
    assert "a has '2024-100000'" in said
    assert "has '2024-100000.1'" in said
