"""Answers of assistants, and turns of a session joined: who takes part, and what a judge sees."""

import json
import re
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.files.reading import (
    ids_of,
    join_sessions,
    pool_lines,
    read_inputs,
    write_file,
)


def session(assistant, name="s"):
    turns = [
        {"qa_id": f"{n}", "query": f"q {n}", "assistant": assistant, "note": "x"} for n in range(2)
    ]
    if assistant == "red":
        del turns[0]["note"]
    return {"session_id": name, "assistant_id": assistant, "conversation": turns}


@pytest.mark.parametrize("shared", [True, False])
def test_answers_of_assistants_meet_in_one_pool(tmp_path, shared):
    places = [
        write_file(tmp_path / f"{who}.json", [session(who, "s" if shared else who)])
        for who in ("red", "blue")
    ]
    found, _ = read_inputs(tmp_path, *places, show=["note"])
    assert ids_of(found) == {"0": ["red", "blue"], "1": ["red", "blue"]}
    named = {"session_id": "s", "note": "x"} if shared else {"note": "x"}
    assert found[0]["query"] == {"id": "0", "query": "q 0", **named}


# Turns of a session, joined


def turn(query_id, session_id, query="Well?", **answers):
    """An input line: a turn, with each assistant's answer."""
    documents = [{"id": name, "content": text} for name, text in answers.items()]
    named = {} if session_id is None else {"session_id": session_id}
    return {"query": {"id": query_id, "query": query}, **named, "documents": documents}


def join(folder, *shards):
    """Join shards of turns: what came of it, the pools, and what was set aside."""
    files = [write_file(folder / f"part-{n}.jsonl", turns) for n, turns in enumerate(shards)]
    joined = join_sessions(files, str(folder / "out"))
    rows = pq.read_table(folder / "out" / "rejected.parquet").to_pylist()
    rejected = [(row["file"].rpartition("/")[2], row["line"], row["reason"]) for row in rows]
    assert joined.rejected == len(rejected)
    return joined, [line.pool for line in pool_lines(joined.path)], rejected


def test_a_session_becomes_one_pool(tmp_path):
    joined, (a, b), _ = join(
        tmp_path,
        [turn("a1", "a", "Hi", x="Hello", y="Yo"), turn("b1", "b", "Sum?", x="2", y="3")],
        [turn("a2", "a", "Bye", y="Ciao", x="So long")],
    )
    assert joined.left_out == []
    assert (a.query_id, a.session_id, b.query_id, b.query) == ("a", "a", "b", "Sum?")
    told, *turns = a.query.split("\n\n")
    assert turns == ["Turn 1: Hi", "Turn 2: Bye"]
    code = re.search("the code ([0-9a-f]{12});", told)[1]
    x, y = a.documents
    assert (x.id, y.id) == ("x", "y")
    assert x.content.splitlines() == [
        *(f"[turn 1, user, {code}]", "Hi", f"[turn 1, assistant, {code}]", "Hello"),
        *(f"[turn 2, user, {code}]", "Bye", f"[turn 2, assistant, {code}]", "So long"),
    ]
    lines = Path(joined.path).read_text().splitlines()
    assert [json.loads(line)["turns"] for line in lines] == [["a1", "a2"], ["b1"]]


def test_who_misses_a_turn_is_left_out(tmp_path):
    turns = [
        turn("a1", "a", x="1", y="2", z="3"),
        turn("a2", "a", x="4", z="6", late="7"),
        turn("b1", "b", x="1"),
        turn("c1", "c", x="1"),
        turn("c2", "c", y="1"),
    ]
    joined, found, _ = join(tmp_path, turns)
    assert [[d.id for d in pool.documents] for pool in found] == [["x", "z"], ["x"], []]
    assert joined.left_out == ["y (a)", "late (a)", "x (c)", "y (c)"]


def test_bad_turns_are_set_aside_and_others_joined(tmp_path):
    first = json.dumps(turn("1", "s", x="a", y="b"))
    bare = [json.dumps(turn("2", name, x="a")) for name in (None, "")]
    again = ["", *map(json.dumps, (turn("1", "s", x="c", y="d"), turn("2", "s", x="e", y="f")))]
    texts = ("\n".join([first, "{broken", *bare]), "\n".join(again))
    _, (pool,), rejected = join(tmp_path, *texts)
    assert [place for *place, _ in rejected] == [
        *(["part-0.jsonl", line] for line in (2, 3, 4)),
        ["part-1.jsonl", 2],
    ]
    reasons = [reason for *_, reason in rejected]
    for reason, says in zip(reasons, ("JSON", *["no session_id"] * 2, "occurs twice"), strict=True):
        assert says in reason
    assert pool.query.endswith("\n\nTurn 1: Well?\n\nTurn 2: Well?")


TEXT = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), min_size=1)
SAID = st.tuples(TEXT.filter(str.strip), TEXT.filter(str.strip))


@given(st.lists(SAID, min_size=2, max_size=4))
@settings(max_examples=40)
def test_no_answer_can_make_up_a_turn(tmp_path_factory, said):
    folder = tmp_path_factory.mktemp("sessions")
    turns = [turn(str(i), "s", query, x=answer) for i, (query, answer) in enumerate(said)]
    _, (pool,), _ = join(folder, turns)
    (document,) = pool.documents
    code = re.search("the code ([0-9a-f]{12});", pool.query)[1]
    assert document.content.count(code) == 2 * len(said)
    assert all(f"{code}]\n{text}" in document.content for pair in said for text in pair)
