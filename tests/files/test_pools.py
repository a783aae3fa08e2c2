"""Input lines: the good become pools, the bad become reasons, and nothing raises."""

import gzip
import json
import random
import re
from dataclasses import replace

import fsspec
import pytest
import zstandard
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.builders import line_of, pool_of
from zelo_ray.errors import InputError
from zelo_ray.files.pools import LineLimits, OwnQueries, annotate_line, parse_line, read_lines
from zelo_ray.files.storage import find_shards
from zelo_ray.records import Document, Pool

GOOD = line_of(pool_of())


def query(**fields):
    return {"id": "q1", "query": "how do I reset it?", **fields}


def doc(doc_id="d0", content="Hold the button.", **fields):
    return {"id": doc_id, "content": content, **fields}


def line(documents=None, **fields):
    pool = {"query": query(), "documents": [doc()] if documents is None else documents, **fields}
    return json.dumps(pool).encode()


def read(path, data, limits=None):
    path.write_bytes(data)
    return list(read_lines(str(path), limits or LineLimits()))


def without(fields, name):
    return {key: value for key, value in fields.items() if key != name}


def nested(depth):
    return b'{"query": {"id": "q", "query": "x", "deep": %s%s}}' % (b"[" * depth, b"]" * depth)


BAD = {
    "half a line": (GOOD[:-9], "Invalid JSON"),
    "no JSON at all": (b"query: how?", "Invalid JSON"),
    "a list": (b"[]", "object"),
    "no query": (b'{"documents": []}', "query: is missing"),
    "no query id": (line(query=without(query(), "id")), "query.id: is missing"),
    "no content": (line([doc(), without(doc(), "content")]), r"documents\[1\].content: is missing"),
    "an integer as query id": (
        line(query=query(id=7)),
        'query.id: must be a text: write "id": "7"',
    ),
    "no text as content": (line([doc(content=None)]), r"documents\[0\].content: must be a text"),
    "text as documents": (line("some text"), "documents: .*(list|array)"),
    "the same doc id twice": (line([doc(), doc()]), "'d0' appears twice"),
    "a query of white space": (line(query=query(query=" \t\u2003")), "query.query: is empty"),
    "an empty document": (line([doc(content="\n")]), r"documents\[0\].content: is empty"),
    "an escaped NUL": (line([doc(content="a\0b")]), "NUL"),
    "half a character": (GOOD.replace(b"Text 0", rb"Text \ud83d"), "Invalid JSON"),
    "bytes that are not UTF-8": (GOOD.replace(b"Text 0", b"Text \xe4"), "Invalid JSON"),
    "nested too deep": (nested(100_000), "Invalid JSON: .*depth"),
    "too large a document": (line([doc(content="é" * 600_000)]), "'d0' is 1,200,000 bytes"),
    "two things wrong": (line([doc(7), doc(8)]), r"\(and 1 more\)"),
}


def test_a_bad_line_is_set_aside_and_the_next_is_read(tmp_path):
    path = tmp_path / "in.jsonl"
    for name, (raw, reason) in BAD.items():
        first, *bad, last = read(path, b"\n".join([GOOD, raw, GOOD]))
        assert first.pool == last.pool == pool_of(), name
        assert {each.file for each in bad} == {str(path)}
        assert [each.number for each in bad] == list(range(2, 2 + len(bad)))
        assert not any(each.pool for each in bad)
        assert bad[0].raw == raw.split(b"\n")[0]
        assert "\n" not in bad[0].reason
        assert len(bad[0].reason) < 300
        assert re.search(reason, bad[0].reason)


def test_a_reason_does_not_repeat_the_text(tmp_path):
    (bad,) = read(tmp_path / "in.jsonl", line([doc(7, content="a secret recipe")]))
    assert "secret" not in bad.reason


def test_a_line_of_5_mb_is_set_aside_and_those_after_it_are_read_right(tmp_path):
    huge = line([doc(content="x" * 5 * 2**20)])
    _, bad, after, last = read(tmp_path / "in.jsonl", b"\n".join([GOOD, huge, GOOD, GOOD]))
    assert bad.reason == "longer than 4,194,304 bytes"
    assert len(bad.raw) == 1000
    assert (after.number, last.number) == (3, 4)
    assert after.pool == last.pool == pool_of()


def test_a_line_of_any_length_ends_where_it_ends(tmp_path):
    for size in (99, 100, 101, 200, 301):
        lines = read(tmp_path / "in.jsonl", b"x" * size + b"\n" + b"y" * 5, LineLimits(line=100))
        assert [each.number for each in lines] == [1, 2]
        assert lines[0].reason.startswith("longer") == (size >= 100)
        assert lines[1].raw == b"y" * 5


def test_blank_lines_are_passed_over_but_counted(tmp_path):
    lines = read(tmp_path / "in.jsonl", b"\n" + GOOD + b"\n \t\r\n\r\n" + GOOD + b"\n\n")
    assert [(each.number, each.pool) for each in lines] == [(2, pool_of()), (5, pool_of())]


def test_marks_and_separators_are_no_lines(tmp_path):
    (good,) = read(tmp_path / "in.jsonl", b"\xef\xbb\xbf" + GOOD)
    assert (good.pool, good.raw) == (pool_of(), GOOD)
    lines = read(tmp_path / "in.jsonl", GOOD + b"\r\n" + GOOD + b"\r\n")
    assert [each.pool for each in lines] == [pool_of(), pool_of()]
    assert lines[0].raw == GOOD
    text = "one\u2028two\u2029three\x85four\x0cfive"
    raw = json.dumps({"query": query(), "documents": [doc(content=text)]}, ensure_ascii=False)
    (good,) = read(tmp_path / "in.jsonl", raw.encode())
    assert good.pool.documents[0].content == text
    assert read(tmp_path / "in.jsonl", b"") == []


def test_a_query_without_candidates_is_a_pool_of_none():
    assert parse_line("f", 1, line([]), LineLimits()).pool == Pool("q1", "how do I reset it?", ())


# Files


def packed(name, data):
    if name.endswith(".gz"):
        return gzip.compress(data)
    return zstandard.compress(data) if name.endswith(".zst") else data


@pytest.mark.parametrize("name", ["in.jsonl.gz", "in.jsonl.zst"])
@pytest.mark.parametrize("size", [20, 4000])
def test_a_torn_file_gives_what_it_holds_and_then_says_so(tmp_path, name, size):
    rng = random.Random(0)
    pools = [pool_of(query_id=f"q{i}", query=rng.randbytes(size).hex()) for i in range(500)]
    data = packed(name, b"\n".join(line_of(pool) for pool in pools))
    *lines, last = read(tmp_path / name, data[: len(data) // 2])
    assert "cannot be read further" in last.reason
    assert last.number == len(lines) + 1
    assert [each.pool for each in lines] == pools[: len(lines)]
    assert len(lines) > 100 or size == 20


@pytest.mark.parametrize("name", ["in.jsonl.gz", "in.jsonl.zst"])
def test_packed_files_are_read_to_the_end_or_are_one_bad_line(tmp_path, name):
    data = packed(name, GOOD + b"\n{\n") + packed(name, GOOD + b"\n")
    assert [each.pool for each in read(tmp_path / name, data)] == [pool_of(), None, pool_of()]
    (bad,) = read(tmp_path / name, GOOD)
    assert "cannot be read further" in bad.reason
    (bad,) = read_lines(str(tmp_path / f"gone-{name}"), LineLimits())
    assert "FileNotFoundError" in bad.reason


def test_shards_are_listed_once_and_in_order(tmp_path, monkeypatch):
    for name in ("b.jsonl", "a.jsonl.gz", "c.jsonl.zst", "notes.txt", "deep/d.jsonl", "e.json"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).touch()
    monkeypatch.chdir(tmp_path)
    root = str(tmp_path)
    everything = [f"{root}/{n}" for n in ("a.jsonl.gz", "b.jsonl", "c.jsonl.zst", "deep/d.jsonl")]
    assert find_shards([root]) == everything
    assert find_shards([f"{root}/*.jsonl*"]) == everything[:3]
    assert find_shards([f"{root}/c.jsonl.zst", root, f"{root}/b.jsonl"]) == [
        everything[2],
        *everything[:2],
        everything[3],
    ]
    assert find_shards(["b.jsonl", "./b.jsonl", f"{root}/b.jsonl"]) == [f"{root}/b.jsonl"]
    assert find_shards([f"{root}/notes.txt"]) == [f"{root}/notes.txt"]
    assert find_shards([f"file://{root}/b.jsonl"]) == [f"{root}/b.jsonl"]


def test_a_pattern_that_names_nothing_is_an_error(tmp_path):
    (tmp_path / "empty").mkdir()
    (tmp_path / "empty/notes.txt").touch()
    for pattern in ("gone.jsonl", "empty", "*.jsonl"):
        with pytest.raises(InputError) as caught:
            find_shards([str(tmp_path / pattern)])
        assert str(tmp_path / pattern) in str(caught.value)
    for url in ("nowhere://x/in.jsonl", "foo://x/*.jsonl"):
        with pytest.raises(InputError, match=r"^[^\n]*: cannot be reached[^\n]*$"):
            find_shards([url])
    place = tmp_path / "part[1].jsonl"  # looks like a pattern
    place.touch()
    assert find_shards([str(place)]) == [str(place)]


def test_shards_in_an_object_store_are_read_as_local_ones_are(s3):
    fs, root = fsspec.url_to_fs(s3)
    for name in ("a.jsonl", "b.jsonl.gz", "c.jsonl.zst"):
        fs.pipe_file(f"{root}/in/{name}", packed(name, GOOD + b"\n{\n" + GOOD))
    shards = find_shards([f"{s3}/in"])
    assert shards == [f"{s3}/in/{name}" for name in ("a.jsonl", "b.jsonl.gz", "c.jsonl.zst")]
    assert find_shards([f"{s3}/in/*.gz", f"{s3}/in/a.jsonl"]) == [shards[1], shards[0]]
    for shard in shards:
        lines = list(read_lines(shard, LineLimits()))
        assert [bool(each.pool) for each in lines] == [True, False, True]
    with pytest.raises(InputError, match="no such file"):
        find_shards([f"{s3}/elsewhere/*.jsonl"])


# Metadata, other scores, unknown keys


ZBENCH = (
    b'{"query": {"id": "q1", "query": "reset?", "metadata": {"lang": "en"}, "scores": {}}, '
    b'"documents": [{"id": "a", "content": "Hold it.", "metadata": {"n": 1}, "scores": {"m": 2}, '
    b'"score": 0.5}, {"id": "b", "content": "Drop it.", "metadata": {}}]}'
)


def test_the_format_of_zbench_is_read_as_it_stands():
    pool = parse_line("f", 1, ZBENCH, LineLimits()).pool
    assert pool.documents == (Document("a", "Hold it.", {"n": 1}), Document("b", "Drop it."))


SCORED = {"a": {"score": -1.25}, "b": {"score": 1.25}}


def test_scores_are_written_beside_everything_the_line_held():
    kept, out = (
        json.loads(ZBENCH),
        json.loads(annotate_line(ZBENCH, SCORED, "score")),
    )
    assert [document.pop("score") for document in out["documents"]] == [-1.25, 1.25]
    assert out["documents"][0].pop("input_score") == kept["documents"][0].pop("score")
    assert out == kept


def test_a_document_without_a_score_gets_none_and_keeps_what_it_came_with():
    out = json.loads(annotate_line(ZBENCH, {"b": {"score": 0.0}}, "score"))
    assert "score" not in out["documents"][0]
    assert out["documents"][0]["input_score"] == 0.5
    assert out["documents"][1]["score"] == 0.0


def test_keys_keep_their_order_and_numbers_their_digits():
    raw = (
        '{"z": 12345678901234567890123, "y": 0.1, "x": 1e-07, "w": -0.0, "v": "é\u2028", '
        '"documents": [{"id": "a", "u": null}], "a": true}'
    ).encode()
    assert annotate_line(raw, {}, "score") == raw
    assert annotate_line(raw, {"a": {"score": 0.1}}, "score") == raw.replace(
        b"null", b'null, "score": 0.1'
    )


def test_an_annotated_line_is_one_line_and_strict_json():
    """A number that Python holds as infinity must not come out as a word that is not valid JSON."""
    raw = line([doc(content="a\nb", n=0)]).replace(b'"n": 0', b'"n": 1e400')
    good = parse_line("f", 1, raw, LineLimits())
    if good.pool:

        def refuse(word):
            raise AssertionError(f"{word} is not valid JSON")

        out = annotate_line(good.raw, {"d0": {"score": 1.0}}, "score")
        assert b"\n" not in out
        json.loads(out, parse_constant=refuse)


TEXT = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), min_size=1)
TEXT = TEXT.filter(str.strip)
JSONS = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**63 - 1)
    | st.floats(allow_nan=False)
    | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner),
    max_leaves=5,
)
POOLS = st.builds(
    Pool,
    TEXT,
    TEXT,
    st.lists(
        st.builds(Document, TEXT, TEXT, st.dictionaries(st.text(), JSONS, max_size=3)),
        unique_by=lambda document: document.id,
        max_size=5,
    ).map(tuple),
)


@settings(deadline=None, max_examples=150)
@given(POOLS, st.booleans())
def test_what_is_written_is_what_is_read(pool, ensure_ascii):
    documents = [{"id": d.id, "content": d.content, "metadata": d.metadata} for d in pool.documents]
    value = {"query": {"id": pool.query_id, "query": pool.query}, "documents": documents}
    try:
        raw = json.dumps(value, ensure_ascii=ensure_ascii, allow_nan=False).encode()
    except (ValueError, UnicodeEncodeError):
        return
    good = parse_line("f", 1, raw, LineLimits())
    assert good.reason == ""
    kept = tuple(d for d in pool.documents if d.id != pool.query_id or good.own_query != "left out")
    assert good.pool == replace(pool, documents=kept)
    assert json.loads(annotate_line(raw, {}, "score")) == value
    assert parse_line("f", 1, annotate_line(raw, {}, "score"), LineLimits()).pool == pool


def test_the_query_itself_is_left_out_of_its_candidates_and_its_id_alone_is_not():
    own = doc("q1", "how do I  reset it?")
    left = parse_line("f", 1, line([doc(), own]), LineLimits())
    assert (left.own_query, [d.id for d in left.pool.documents]) == ("left out", ["d0"])
    titled = doc("q1", "Reset\nhow do I reset it?", metadata={"title": "Reset"})
    assert parse_line("f", 1, line([titled]), LineLimits()).own_query == "left out"
    other = parse_line("f", 1, line([doc(), doc("q1", "another")]), LineLimits())
    assert (other.own_query, len(other.pool.documents)) == ("other text", 2)
    found = OwnQueries()
    for each in (left, other):
        found.count(each)
    assert [note[-4:] for note in found.notes()] == ["does", "(q1)"]
