"""Turns of a session joined: who takes part, what a judge will see, what is set aside."""

import json
import re

import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from zelo_ray.errors import InputError
from zelo_ray.files.conversations import join_sessions
from zelo_ray.files.pools import LineLimits, read_lines


def turn(query_id, session_id, query="Well?", **answers):
    """An input line: a turn, with each assistant's answer."""
    documents = [
        {"id": name, "content": text, "metadata": {"from": query_id}}
        for name, text in answers.items()
    ]
    session = {} if session_id is None else {"session_id": session_id}
    return json.dumps(
        {"query": {"id": query_id, "query": query}, **session, "documents": documents}
    )


def join(folder, *shards, out=None):
    """Join shards of lines; what came of it, and the pools."""
    files = []
    for number, lines in enumerate(shards):
        files.append(str(folder / f"part-{number}.jsonl"))
        (folder / f"part-{number}.jsonl").write_text("".join(line + "\n" for line in lines))
    joined = join_sessions(files, str(out or folder / "out"))
    return joined, [line.pool for line in read_lines(joined.path, LineLimits())]


def rejected(folder):
    rows = pq.read_table(folder / "out" / "rejected.parquet").to_pylist()
    return [(row["file"].rsplit("/", 1)[-1], row["line"], row["reason"]) for row in rows]


def test_a_session_becomes_one_pool_in_the_order_of_the_input(tmp_path):
    joined, pools = join(
        tmp_path,
        [turn("a1", "a", "Hi", x="Hello", y="Yo"), turn("b1", "b", "Sum?", x="2", y="3")],
        [turn("a2", "a", "Bye", y="Ciao", x="So long")],
    )
    assert (joined.left_out, joined.rejected) == ([], 0)
    assert joined.path == str(tmp_path / "out" / "sessions.jsonl")
    by_id = {pool.query_id: pool for pool in pools}
    assert [pool.session_id for pool in pools] == [pool.query_id for pool in pools] == ["a", "b"]
    told, *turns = by_id["a"].query.split("\n\n")
    assert turns == ["Turn 1: Hi", "Turn 2: Bye"]
    code = re.search("the code ([0-9a-f]{12});", told)[1]
    x, y = by_id["a"].documents
    assert (x.id, y.id, x.metadata) == ("x", "y", {"from": "a1"})
    assert x.content.splitlines() == [
        *(f"[turn 1, user, {code}]", "Hi", f"[turn 1, assistant, {code}]", "Hello"),
        *(f"[turn 2, user, {code}]", "Bye", f"[turn 2, assistant, {code}]", "So long"),
    ]
    assert y.content.count(code) == 4
    written = (tmp_path / "out" / "sessions.jsonl").read_text().splitlines()
    assert [json.loads(line)["turns"] for line in written] == [["a1", "a2"], ["b1"]]


def test_a_session_of_one_turn_is_that_turn(tmp_path):
    joined, pools = join(tmp_path, [turn("1", s, "Hi", x="a", y="b") for s in ("s", "t")])
    assert (joined.rejected, [(p.query_id, p.query) for p in pools]) == (
        0,
        [("s", "Hi"), ("t", "Hi")],
    )
    assert [document.content for document in pools[0].documents] == ["a", "b"]


def test_who_does_not_answer_every_turn_is_left_out_and_counted(tmp_path):
    joined, pools = join(
        tmp_path,
        [
            turn("a1", "a", x="1", y="2", z="3"),
            turn("a2", "a", x="4", z="6", late="7"),
            turn("b1", "b", x="1"),
            turn("c1", "c", x="1"),
            turn("c2", "c", y="1"),
        ],
    )
    assert [[d.id for d in pool.documents] for pool in pools] == [["x", "z"], ["x"], []]
    assert joined.left_out == ["y (a)", "late (a)", "x (c)", "y (c)"]


def test_bad_lines_are_set_aside_and_the_others_joined(tmp_path):
    joined, pools = join(
        tmp_path,
        [turn("1", "s", x="a", y="b"), "{broken", turn("2", None, x="a"), turn("2", "", x="a")],
        ["", turn("1", "s", x="c", y="d"), turn("2", "s", x="e", y="f")],
    )
    bad = rejected(tmp_path)
    assert [place[:2] for place in bad] == [
        *(("part-0.jsonl", 2), ("part-0.jsonl", 3), ("part-0.jsonl", 4), ("part-1.jsonl", 2)),
    ]
    assert "JSON" in bad[0][2]
    assert bad[1][2] == bad[2][2]
    assert "no session_id" in bad[1][2]
    assert bad[3][2].startswith("query id '1' occurs twice in session 's'")
    assert joined.rejected == 4
    (pool,) = pools
    assert pool.query.endswith("\n\nTurn 1: Well?\n\nTurn 2: Well?")


def test_a_session_with_a_hole_is_set_aside_whole(tmp_path):
    silent = turn("2", "s", "And now?", x="", y="b")
    joined, pools = join(
        tmp_path,
        [turn("1", "s", x="a", y="b"), silent, turn("3", "s", x="a", y="b")],
        [turn("1", "t", x="a", y="b")],
    )
    assert [pool.query_id for pool in pools] == ["t"]
    (_, empty, why), (_, first, hole) = rejected(tmp_path)
    assert (empty, first, joined.rejected) == (2, 1, 2)
    assert "is empty" in why
    assert hole.startswith("session 's', joined: one of its turns was rejected")


def test_a_session_that_grows_too_large_is_set_aside(tmp_path):
    long = "word " * (LineLimits().query // 8)
    lines = [turn(str(i), "long", long, x="a", y="b") for i in range(3)]
    big = "word " * (LineLimits().document // 8)
    lines += [turn(str(i), "big", x=big, y="b") for i in range(2)]
    wide = {f"x{i}": big for i in range(6)}
    lines += [turn("0", "wide", **wide), turn("1", "wide", **dict.fromkeys(wide, "more " * 70_000))]
    lines += [turn("0", "fine", x="a")]
    joined, pools = join(tmp_path, lines)
    assert [pool.query_id for pool in pools] == ["fine"]
    told = {reason.split(":")[0] for _, _, reason in rejected(tmp_path)}
    assert told == {f"session '{name}', joined" for name in ("long", "big", "wide")}
    assert joined.rejected == 3


def test_no_session_at_all_is_an_error(tmp_path):
    for lines in ([turn("1", None, x="a")], []):
        with pytest.raises(InputError):
            join(tmp_path, lines)


@given(
    st.lists(
        st.tuples(
            st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), min_size=1),
            st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), min_size=1),
        ).filter(lambda said: all(text.strip() for text in said)),
        min_size=2,
        max_size=4,
    )
)
@settings(max_examples=40, deadline=None)
def test_no_answer_can_make_up_a_turn(tmp_path_factory, said):
    folder = tmp_path_factory.mktemp("sessions")
    lines = [turn(str(i), "s", query, x=answer) for i, (query, answer) in enumerate(said)]
    _, (pool,) = join(folder, lines)
    (document,) = pool.documents
    code = re.search("the code ([0-9a-f]{12});", pool.query)[1]
    assert document.content.count(code) == 2 * len(said)
    assert all(f"{code}]\n{text}" in document.content for pair in said for text in pair)
