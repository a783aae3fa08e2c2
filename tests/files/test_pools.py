"""Input lines: the good become pools, the bad are set aside with reasons, and nothing raises."""

import gzip
import json
import random
import re

import fsspec
import pytest
import zstandard
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.files.reading import annotate_line, find_shards, pool_lines, pools
from tests.helpers.builders import line_of, pool_of
from zelo_ray.records import Document, Pool

GOOD = line_of(pool_of())
LIMITS = pools.LineLimits


def query(**fields):
    return {"id": "q1", "query": "how do I reset it?", **fields}


def doc(doc_id="d0", content="Hold the button.", **fields):
    return {"id": doc_id, "content": content, **fields}


def line(documents=None, **fields):
    pool = {"query": query(), "documents": [doc()] if documents is None else documents, **fields}
    return json.dumps(pool).encode()


def read(path, data, limits=None):
    path.write_bytes(data)
    return pool_lines(path, limits)


def parse(raw):
    return pools.parse_line("f", 1, raw, LIMITS())


DEEP = b'{"query": {"id": "q", "query": "x", "deep": %s%s}}' % (b"[" * 100_000, b"]" * 100_000)
BAD = {
    "half a line": (GOOD[:-9], "Invalid JSON"),
    "no JSON at all": (b"query: how?", "Invalid JSON"),
    "a list": (b"[]", "object"),
    "no query": (b'{"documents": []}', "query: is missing"),
    "no query id": (line(query={"query": "how?"}), "query.id: is missing"),
    "no content": (line([doc(), {"id": "d1"}]), r"documents\[1\].content: is missing"),
    "an integer as query id": (line(query=query(id=7)), 'query.id: .*write "id": "7"'),
    "no text as content": (line([doc(content=None)]), r"documents\[0\].content: must be a text"),
    "text as documents": (line("some text"), "documents: .*(list|array)"),
    "the same doc id twice": (line([doc(), doc()]), "'d0' appears twice"),
    "a query of white space": (line(query=query(query=" \t\u2003")), "query.query: is empty"),
    "an empty document": (line([doc(content="\n")]), r"documents\[0\].content: is empty"),
    "an escaped NUL": (line([doc(content="a\0b")]), "NUL"),
    "half a character": (GOOD.replace(b"Text 0", rb"Text \ud83d"), "Invalid JSON"),
    "bytes that are not UTF-8": (GOOD.replace(b"Text 0", b"Text \xe4"), "Invalid JSON"),
    "an endless number": (line([doc(n=0)]).replace(b'"n": 0', b'"n": 1e400'), "Invalid JSON"),
    "nested too deep": (DEEP, "Invalid JSON: .*depth"),
    "too large a document": (line([doc(content="é" * 600_000)]), "content is 1,200,000 bytes"),
    "too long a line": (line([doc(content="x" * 5 * 2**20)]), "longer than 4,194,304 bytes"),
    "two things wrong": (line([doc(7), doc(8)]), r"documents\[0\].id: must be a text"),
    "a secret": (line([doc(7, content="a secret recipe")]), r"^(?!.*secret)"),
}


@pytest.mark.parametrize("case", BAD)
def test_a_bad_line_is_set_aside(tmp_path, case):
    raw, reason = BAD[case]
    first, bad, last = read(tmp_path / "in.jsonl", b"\n".join([GOOD, raw, GOOD]))
    assert first.pool == last.pool == pool_of()
    assert (bad.file, bad.number, bad.pool, last.number) == (str(tmp_path / "in.jsonl"), 2, None, 3)
    assert bad.raw == (raw[:1000] if case == "too long a line" else raw)
    assert re.search(reason, bad.reason)
    assert "\n" not in bad.reason
    assert len(bad.reason) < 300


def test_a_long_line_ends_where_it_ends(tmp_path):
    for size in (99, 100, 101, 200, 301):
        lines = read(tmp_path / "in.jsonl", b"x" * size + b"\n" + b"y" * 5, LIMITS(line=100))
        assert [each.number for each in lines] == [1, 2]
        assert lines[0].reason.startswith("longer") == (size >= 100)
        assert lines[1].raw == b"y" * 5


@pytest.mark.parametrize(
    ("data", "numbers"),
    [
        (b"", []),
        (b"\n" + GOOD + b"\n \t\r\n\r\n" + GOOD + b"\n\n", [2, 5]),
        (b"\xef\xbb\xbf" + GOOD, [1]),
        (GOOD + b"\r\n" + GOOD + b"\r\n", [1, 2]),
    ],
)
def test_marks_and_blank_lines_are_no_lines(tmp_path, data, numbers):
    found = read(tmp_path / "in.jsonl", data)
    assert [(each.number, each.pool, each.raw) for each in found] == [
        (number, pool_of(), GOOD) for number in numbers
    ]


# Files


def pack(name, data):
    if name.endswith(".gz"):
        return gzip.compress(data)
    return zstandard.compress(data) if name.endswith(".zst") else data


@pytest.mark.parametrize("name", ["in.jsonl.gz", "in.jsonl.zst"])
@pytest.mark.parametrize("size", [20, 4000])
def test_a_torn_file_gives_what_it_holds(tmp_path, name, size):
    rng = random.Random(0)
    whole = [pool_of(query_id=f"q{i}", query=rng.randbytes(size).hex()) for i in range(500)]
    data = pack(name, b"\n".join(line_of(pool) for pool in whole))
    *lines, last = read(tmp_path / name, data[: len(data) // 2])
    assert "cannot be read further" in last.reason
    assert last.number == len(lines) + 1
    assert [each.pool for each in lines] == whole[: len(lines)]
    assert len(lines) > 100 or size == 20


def test_shards_are_listed_once_and_in_order(tmp_path, monkeypatch):
    root = str(tmp_path)
    files = [f"{root}/{n}" for n in ("a.jsonl.gz", "b.jsonl", "c.jsonl.zst", "deep/d.jsonl")]
    for place in (*files, f"{root}/notes.txt", f"{root}/e.json", f"{root}/part[1].json"):
        fsspec.open(place, "w", auto_mkdir=True).open().close()
    monkeypatch.chdir(tmp_path)
    a, b, c, d = files
    for patterns, found in (
        ([root], files),
        ([f"{root}/*.jsonl*"], files[:3]),
        ([c, root, b], [c, a, b, d]),
        (["b.jsonl", "./b.jsonl", b, f"file://{b}"], [b]),
        ([f"{root}/notes.txt"], [f"{root}/notes.txt"]),
        ([f"{root}/part[1].json"], [f"{root}/part[1].json"]),  # which looks like a pattern
    ):
        assert find_shards(patterns) == found


# What is written back


ZBENCH = (
    b'{"query": {"id": "q1", "query": "reset?", "metadata": {"lang": "en"}, "scores": {}}, '
    b'"documents": [{"id": "a", "content": "Hold it.", "metadata": {"n": 1}, "scores": {"m": 2}, '
    b'"score": 0.5}, {"id": "b", "content": "Drop it.", "metadata": {}}]}'
)


def test_scores_are_written_beside_what_the_line_held():
    scores = {"a": {"score": -1.25}, "b": {"score": 0.0}}
    kept, out = (json.loads(raw) for raw in (ZBENCH, annotate_line(ZBENCH, scores, "score")))
    assert [document.pop("score") for document in out["documents"]] == [-1.25, 0.0]
    assert out["documents"][0].pop("input_score") == kept["documents"][0].pop("score")
    assert out == kept
    first, second = json.loads(annotate_line(ZBENCH, {"b": {"score": 0.0}}, "score"))["documents"]
    assert ("score" in first, first["input_score"], second["score"]) == (False, 0.5, 0.0)


def test_keys_keep_their_order_and_numbers_their_digits():
    raw = (
        '{"z": 12345678901234567890123, "y": 0.1, "x": 1e-07, "w": -0.0, "v": "é\u2028", '
        '"documents": [{"id": "a", "u": null}], "a": true}'
    ).encode()
    assert annotate_line(raw, {}, "score") == raw
    scored = annotate_line(raw, {"a": {"score": 0.1}}, "score")
    assert scored == raw.replace(b"null", b'null, "score": 0.1')


TEXT = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), min_size=1)
TEXT = TEXT.filter(str.strip)
NUMBERS = st.integers(-(2**63), 2**63 - 1) | st.floats(allow_nan=False)
JSONS = st.recursive(
    st.none() | st.booleans() | NUMBERS | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner),
    max_leaves=5,
)
DOCUMENTS = st.lists(
    st.builds(Document, TEXT, TEXT, st.dictionaries(st.text(), JSONS, max_size=3)),
    unique_by=lambda document: document.id,
    max_size=5,
)


@settings(max_examples=150)
@given(TEXT, TEXT, DOCUMENTS, st.booleans())
def test_what_is_written_is_what_is_read(query_id, text, documents, ensure_ascii):
    rows = [{"id": d.id, "content": d.content, "metadata": d.metadata} for d in documents]
    value = {"query": {"id": query_id, "query": text}, "documents": rows}
    try:
        raw = json.dumps(value, ensure_ascii=ensure_ascii, allow_nan=False).encode()
    except (ValueError, UnicodeEncodeError):
        return
    good = parse(raw)
    assert good.reason == ""
    kept = [d for d in documents if d.id != query_id or good.own_query != "left out"]
    assert good.pool == Pool(query_id, text, tuple(kept))
    again = annotate_line(raw, {}, "score")
    assert json.loads(again) == value
    assert parse(again).pool == good.pool
