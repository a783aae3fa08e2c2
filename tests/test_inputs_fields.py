"""What inputs say of a query beside its text: each kind carries it, and none is missed quietly."""

import json
from collections import namedtuple

import pandas as pd
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
from zelo_ray.cli import main
from zelo_ray.commands.convert import convert
from zelo_ray.errors import InputError, OptionError
from zelo_ray.formats.input import InputOptions, convert_inputs
from zelo_ray.formats.interchange import beir
from zelo_ray.formats.interchange.texts import read_texts
from zelo_ray.formats.pools import LineLimits, read_lines
from zelo_ray.formats.shown_fields import ShownFields
from zelo_ray.options import ConvertOptions
from zelo_ray.protocols.texts import shown_query
from zelo_ray.records import Document, Pool

__all__ = ["folder"]

TOPICS = """<top>

<num> Number: q0
<title> query 0

<desc> Description:
What does
q0 ask?

<narr> Narrative:
Not <5 kitchens.

</top>
<top><num>q1</num><title>query 1</title><desc>What does q1 ask?</desc></top>
"""


def about(pools):
    """By query, its further fields."""
    return {
        pool["query"]["id"]: {n: v for n, v in pool["query"].items() if n not in ("id", "query")}
        for pool in pools
    }


def told(query):
    return {**query, "description": f"What does {query['_id']} ask?", "year": 1999, "narrative": ""}


def write_queries(path):
    return str(write(path, [told(query) for query in QUERIES]))


@pytest.mark.parametrize("name", ["q.jsonl", "q.csv", "q.tsv", "q.parquet"])
def test_files_of_queries_give_all_their_fields(folder, name):
    write_queries(folder / name)
    found, _ = of_run(folder, queries=name)
    assert about(found) == {
        q: {"description": f"What does {q} ask?", "year": "1999"} for q in ("q0", "q1")
    }


def test_the_metadata_of_beirs_queries_are_fields_too(folder):
    rows = [
        {**query, "metadata": {"narrative": "n", "url": None, "query": "x"}, "tags": ["a", "b"]}
        for query in QUERIES
    ]
    put(folder / "set" / "queries.jsonl", lines(rows))
    put(folder / "set" / "corpus.jsonl", lines(CORPUS))
    found, _ = brought(folder, str(folder / "set"), str(folder / "mine.run"))
    assert about(found)["q1"] == {"narrative": "n", "tags": "a\nb"}
    assert found[1]["query"]["query"] == "query 1"


def test_topics_of_trec_are_queries(folder):
    put(folder / "topics.txt", TOPICS)
    found, _ = of_run(folder, queries="topics.txt")
    assert about(found) == {
        "q0": {"description": "What does q0 ask?", "narrative": "Not <5 kitchens."},
        "q1": {"description": "What does q1 ask?"},
    }
    assert [pool["query"]["query"] for pool in found] == ["query 0", "query 1"]


def test_a_topic_without_a_title_is_its_description(tmp_path):
    topic = "<top><num> Number: 7\n<desc> Description: what?</top>"
    (found,) = read_texts(put(tmp_path / "topics", topic), "queries")
    assert (found.id, found.content) == ("7", "what?")
    with pytest.raises(InputError, match="topic 1 has no <num>"):
        list(read_texts(put(tmp_path / "topics", topic.replace("num", "nun")), "queries"))
    with pytest.raises(InputError, match="is not UTF-8"):
        list(read_texts(put(tmp_path / "topics", b"<top>caf\xe9"), "queries"))


@pytest.mark.parametrize(
    ("narrative", "told"),
    [
        (
            "<narr> It <b>must</b> be\n  not <i>old</i>.\n",
            {"narrative": "It <b>must</b> be not <i>old</i>."},
        ),
        ("<narr>one\n<b>two</b>\n</narr>", {"narrative": "one <b>two</b>"}),
        ("<narr> a &lt; b &amp; c, AT&T\n", {"narrative": "a < b & c, AT&T"}),
        ("<desc> one\n<DESC> Description: two\n", {"description": "one two"}),
        ("<num>", {}),
    ],
)
def test_a_field_of_a_topic_ends_at_its_end_or_at_a_tag_that_begins_a_line(
    tmp_path, narrative, told
):
    topic = f"<top>\n<num> Number: 1\n<title> a\n{narrative}</top>\n"
    assert list(read_texts(put(tmp_path / "t", topic), "queries")) == [Document("1", "a", told)]


def test_a_topic_without_an_end_is_named_by_its_line_and_none_is_lost(tmp_path):
    one, two = (f"<top>\n<num> {n}\n<title> a\n" for n in "12")
    for topics, line in ((f"{one}{two}</top>\n", 1), (f"{one}</top>\n{two}", 5)):
        with pytest.raises(InputError, match=rf"t:{line}: this <top> has no </top>"):
            list(read_texts(put(tmp_path / "t", topics), "queries"))


@pytest.mark.parametrize("head", ["<topics>\n", '<?xml version="1.0"?>\n<!-- x -->\n<xml>', "\n\n"])
def test_topics_may_stand_inside_of_another_element(tmp_path, head):
    topics = f"{head}<top><num>1</num><title>a</title></top>\n</topics>\n"
    assert list(read_texts(put(tmp_path / "t", topics), "queries")) == [Document("1", "a")]


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (["one", "two"], "one\ntwo"),
        (2024.0, "2024"),
        *((each, "") for each in ([], {}, "  ", None)),
    ],
)
def test_a_field_is_shown_alike_from_pools_and_from_a_folder(tmp_path, value, text):
    pool = {"query": {**POOLS[0]["query"], "narrative": value}}
    (line,) = read_lines(put(tmp_path / "pools.jsonl", lines([pool])), LineLimits())
    shown = shown_query(line.pool, ("narrative",))
    row = {"_id": "q0", "text": POOLS[0]["query"]["query"], "metadata": {"narrative": value}}
    (query,) = read_texts(put(tmp_path / "queries.jsonl", lines([row])), "queries")
    assert query.metadata.get("narrative", "") == text
    assert shown == "\n".join([query.content, *([f"narrative: {text}"] if text else [])])
    if not text:
        fields = ShownFields(["narrative"])
        fields.count_fields(line.pool.about)
        with pytest.raises(OptionError, match="no query has the field 'narrative'"):
            fields.refuse_unknown("pools.jsonl")


def test_a_query_that_stands_twice_may_differ_in_what_is_not_its_text(tmp_path):
    rows = [{**query, "split": split} for query in QUERIES for split in ("a", "b")]
    found = beir.read_queries(put(tmp_path / "queries.jsonl", lines(rows)))
    assert found == {q["_id"]: Document(q["_id"], q["text"], {"split": "a"}) for q in QUERIES}


def test_a_query_may_be_called_title_as_ir_datasets_exports_topics(tmp_path):
    row = {"query_id": "7", "title": "a", "description": "b", "narrative": "c"}
    (found,) = read_texts(put(tmp_path / "q.jsonl", lines([row])), "queries")
    assert found == Document("7", "a", {"description": "b", "narrative": "c"})


def with_notes(rows, name="docno"):
    return [{**row, "Notes": f"of {row['qid']}", "year": 7 if row[name] == "d0" else None}
            for row in rows]  # fmt: skip


@pytest.mark.parametrize("form", ["csv", "jsonl", "parquet", "frame", "dicts"])
def test_rows_give_the_fields_that_are_to_be_shown(tmp_path, form):
    rows, show = with_notes(ROWS), ("Notes", "year")
    if form in ("frame", "dicts"):
        given = pd.DataFrame(rows) if form == "frame" else rows
        found = [json.loads(line) for line in convert_pools(given, {}, show)[0].splitlines()]
    else:
        place = write(tmp_path / f"rows.{form}", rows)
        found, _ = brought(tmp_path, str(place), show=show)
    assert about(found) == {q: {"Notes": f"of {q}", "year": "7"} for q in ("q0", "q1")}


def test_rows_give_no_field_unasked_and_their_file_is_the_same_as_before(tmp_path):
    def places(name, *show):
        options = InputOptions(show=show)
        return convert_inputs([str(tmp_path / name)], str(tmp_path / "out"), options).places

    put(tmp_path / "0.csv", cells(ROWS))
    put(tmp_path / "1.csv", cells(with_notes(ROWS)))
    bare = places("0.csv")
    assert places("1.csv") == bare
    assert places("1.csv", "Notes") != bare
    assert places("1.csv") == bare


def test_rows_of_a_query_agree_on_its_fields(tmp_path):
    rows = [{**row, "note": row["docno"]} for row in ROWS]
    place = put(tmp_path / "r.csv", cells(rows))
    with pytest.raises(InputError, match="query 'q0' has two of 'note': 'd0' and 'd1'"):
        brought(tmp_path, place, show=("note",))


def test_a_file_of_queries_tells_more_of_the_queries_of_rows(folder):
    place = put(folder / "rows.csv", cells(ROWS))
    queries = write_queries(folder / "q.csv")
    found, _ = brought(folder, place, queries=queries, show=("description",))
    assert about(found)["q0"]["description"] == "What does q0 ask?"
    assert found[0]["query"]["query"] == POOLS[0]["query"]["query"]


WIDE = {"query": "a", "documents": ["x", "y"], "narrative": "n", "note": "own", "vector": [0.5]}


@pytest.mark.parametrize(
    "row",
    [
        WIDE,
        {**WIDE, "query": {"text": "a", "narrative": "n", "note": "own"}, "note": "other"},
        {"query": "a", "positive": ["x"], "negative": ["y"], "narrative": "n", "note": "own"},
    ],
)
def test_rows_of_one_query_give_description_and_narrative_unasked(tmp_path, row):
    place = put(tmp_path / "rows.jsonl", lines([row]))
    (found,) = about(brought(tmp_path, place, show=("note",))[0]).values()
    assert found == {"narrative": "n", "note": "own"}
    (found,) = about(brought(tmp_path, place)[0]).values()
    assert found["narrative"] == "n"


def test_turns_of_assistants_give_the_fields_that_are_to_be_shown(tmp_path):
    rows = [
        {
            "session_id": "s",
            "assistant_id": who,
            "conversation": [{"qa_id": "1", "query": "Hi?", "assistant": who, "note": "n"}],
        }
        for who in ("red", "blue")
    ]
    found, _ = brought(tmp_path, put(tmp_path / "a.jsonl", lines(rows)), show=("note",))
    assert about(found) == {"1": {"session_id": "s", "note": "n"}}


def test_queries_and_pools_in_memory_keep_their_fields():
    doc = namedtuple("Doc", "doc_id text")
    qrel = namedtuple("Qrel", "query_id doc_id relevance")

    class Topic(namedtuple("Topic", "query_id title description narrative")):
        def default_text(self):
            return self.title

    class Held:
        docs_iter = staticmethod(lambda: [doc(d["_id"], d["text"]) for d in CORPUS])
        queries_iter = staticmethod(lambda: [Topic("q0", "a", "b", "c")])
        qrels_iter = staticmethod(lambda: [qrel("q0", "d0", 1)])

    told = {"description": "b", "narrative": "c"}
    assert about([json.loads(convert_pools(Held(), {})[0])]) == {"q0": told}
    pool = Pool("q0", "a", (Document("d", "x"),), about=told)
    assert about([json.loads(convert_pools([pool], {})[0])]) == {"q0": told}


def test_a_beir_folder_gives_back_what_was_written_to_it(tmp_path):
    pool = {"query": {"id": "q", "query": "a", "narrative": "n"}, "documents": []}
    pool["documents"] = [{"id": name, "content": name} for name in "xy"]
    pools = put(tmp_path / "pools.jsonl", lines([pool]))
    qrels = put(tmp_path / "qrels.txt", "q 0 x 1\nq 0 y 0\n")
    out = str(tmp_path / "beir")
    convert(ConvertOptions(what="beir", source=qrels, pools=(pools,), out=out))
    assert about(brought(tmp_path, out)[0]) == {"q": {"narrative": "n"}}


# What there is not


def test_a_field_that_no_row_has_is_named_with_the_columns(tmp_path):
    place = put(tmp_path / "rows.csv", cells(with_notes(ROWS)))
    why = r"'notes' of --show-query; fields are .* 'Notes'\?"
    with pytest.raises(OptionError, match=why):
        convert_inputs([place], str(tmp_path / "out"), InputOptions(show=("notes",)))
    assert not list((tmp_path / "out" / "input").iterdir())
    with pytest.raises(OptionError, match=why):
        convert_pools(pd.DataFrame(with_notes(ROWS)), {}, ("notes",))


def test_a_field_that_no_pool_has_is_told_before_anything_is_asked(tmp_path):
    pools = [{**POOLS[0], "query": {**POOLS[0]["query"], "narrative": "n"}}, POOLS[1]]
    place = put(tmp_path / "pools.jsonl", lines(pools))
    with pytest.raises(OptionError, match=r"'narr' of --show-query; fields are narrative"):
        estimate(place, out=tmp_path / "o", judges="offline", show_query=["narr"])
    told = estimate(place, out=tmp_path / "o", judges="offline", show_query=["narrative"])
    assert "1 of 2 queries have the field 'narrative'" in str(told)
    bare = put(tmp_path / "bare.jsonl", lines(POOLS))
    with pytest.raises(OptionError, match="they have no field but their text"):
        estimate(bare, out=tmp_path / "o", judges="offline", show_query=["narrative"])


@pytest.mark.parametrize(
    "words",
    [
        "bakeoff --truth qrels.txt --runs mine.run --out o",
        "compare-protocols --human qrels.txt --judges offline --dry-run --out o",
        "annotate --judges offline --dry-run --out o",
    ],
)
def test_every_command_that_shows_fields_refuses_one_that_is_not_there(
    folder, words, capsys, monkeypatch
):
    monkeypatch.chdir(folder)
    put(folder / "pools.jsonl", lines(POOLS))
    pools = ["--pools", "pools.jsonl"] if words.startswith("bakeoff") else ["pools.jsonl"]
    command, *rest = words.split()
    assert main([command, *pools, *rest, "--show-query", "narrative"]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("zelo-ray: the input: no query ")
    assert " 'narrative' of --show-query; " in line
    assert line.endswith(" no field but their text")
