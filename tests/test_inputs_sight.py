"""How inputs are told apart by what stands in them, where that is odd, torn or huge."""

import json
import os
import tracemalloc
from pathlib import Path

import pytest

from tests.input_pools import POOLS, brought, lines, put
from zelo_ray.errors import InputError
from zelo_ray.formats.files import open_for_writing
from zelo_ray.formats.input import ConvertedInputs, InputOptions, convert_inputs
from zelo_ray.formats.pools import LineLimits, read_lines
from zelo_ray.formats.probe import probe


def found_in(tmp_path, text, name="in.jsonl", **asked):
    """A file of that text, and what `bring` makes of it."""
    place = put(tmp_path / name, text)
    return place, convert_inputs([place], str(tmp_path / "out"), InputOptions(**asked))


def refused(tmp_path, text, name="in.jsonl", **asked):
    """The message of the error that a text is met with."""
    with pytest.raises(InputError) as told:
        found_in(tmp_path, text, name, **asked)
    return str(told.value)


@pytest.mark.parametrize(
    "more",
    [
        {"conversation": [{"role": "user"}]},
        {"conversation": []},
        {"positive": ["a"], "negative": ["b"]},
    ],
)
def test_a_pool_is_a_pool_whatever_other_keys_it_has(tmp_path, more):
    text = lines([POOLS[0] | more, POOLS[1]])
    for name in ("in.jsonl", "in.jsonl.gz"):
        place, found = found_in(tmp_path, text, name)
        assert found == ConvertedInputs((place,))


@pytest.mark.parametrize("value", ["foo", 5, True, ["foo"]])
def test_documents_and_metadata_of_a_wrong_kind_are_refused_with_their_line(tmp_path, value):
    about = [{"id": "1", "text": "x", "metadata": value}]
    wrong = [(about, "the metadata of a document is a")]
    if not isinstance(value, list):
        wrong += [(value, f"the documents are a {type(value).__name__}; write a list")]
    for documents, says in wrong:
        rows = [{"query": "a", "documents": ["x", "y"]}, {"query": "b", "documents": documents}]
        assert refused(tmp_path, lines(rows)).startswith(f"{tmp_path}/in.jsonl:2: {says}")


@pytest.mark.parametrize("value", [None, "", [], {}])
def test_a_row_without_documents_is_left_out_and_counted(tmp_path, value):
    rows = [{"query": "a", "documents": ["x", "y"]}, {"query": "b", "documents": value}]
    found, told = brought(tmp_path, put(tmp_path / "in.jsonl", lines(rows)))
    assert (len(found), "left out queries without candidates: 1" in told[-1]) == (1, True)


def test_an_array_of_one_pool_a_line_loses_none(tmp_path):
    rows = [POOLS[0], POOLS[1], POOLS[0] | {"query": {"id": "z", "query": "z"}}]
    inner = ",\n".join(map(json.dumps, rows))
    for number, text in enumerate((f"[\n{inner}\n]\n", f"[{inner}]", f"\ufeff[\r\n{inner}]")):
        for name in ("in.json", "in.jsonl", "in.json.gz", "in.jsonl.zst"):
            place = put(tmp_path / str(number) / name, text)
            assert brought(tmp_path, place)[0] == rows


def test_a_pool_over_several_lines_is_read_whole(tmp_path):
    documents = ",\n".join(json.dumps(each) for each in POOLS[0]["documents"])
    query = json.dumps(POOLS[0]["query"])
    text = f'{{\n"query": {query},\n"documents": [\n{documents}\n]\n}}\n'
    for name in ("pool.json", "pool.jsonl"):
        assert brought(tmp_path, put(tmp_path / name, text))[0] == [POOLS[0]]


def test_what_breaks_off_or_has_no_lines_is_refused_and_not_read_in_part(tmp_path):
    torn = "[\n" + ",\n".join(map(json.dumps, POOLS))
    assert "is not valid JSON" in refused(tmp_path, torn, "in.json")
    assert "first line is longer than" in refused(tmp_path, "a,b" * 2 * 10**6, "in.csv")


FIRST = '{torn|[|[1]|[1, 2]|[oops|{"query": {"id|oops|garbage, of two|null|{"query": 5}|{"foo": 1}'


@pytest.mark.parametrize("first", FIRST.split("|"))
@pytest.mark.parametrize("name", ["in.jsonl", "in.jsonl.gz", "in.txt"])
def test_bad_lines_before_pools_are_set_aside_one_by_one(tmp_path, first, name):
    place, found = found_in(tmp_path, f"{first}\n" + lines(POOLS * 9), name)
    assert found == ConvertedInputs((place,))
    assert not (tmp_path / "out").exists()
    strange = put(tmp_path / "0.jsonl", '{"foo": 1}\n')
    places = convert_inputs([strange, place], str(tmp_path / "out"), InputOptions()).places
    assert places == (strange, place)


TYPO = {"query": {"id": "q0", "text": "t"}, "documents": POOLS[0]["documents"]}


def test_what_most_lines_are_says_what_the_file_is(tmp_path):
    place, found = found_in(tmp_path, lines([TYPO, *POOLS]) + '{"query": broken\n')
    assert found == ConvertedInputs((place,))
    (_, found) = found_in(tmp_path, lines([POOLS[0], TYPO, TYPO | {"query": "t"}]))
    assert "JSON rows: 3 queries" in found.notes[0]


@pytest.mark.parametrize(
    "text",
    ["q1 d1 1 12.5\nq1 d2 2 11.5\nq2 d1 1 3\n", "q1\t17\t0\t12.5\n", "q1 Q0 d1 1 12.5\n"],
)
def test_a_run_with_too_few_columns_is_no_judgments(tmp_path, text):
    told = refused(tmp_path, text, "x.run")
    assert f"looks like a run of {len(text.splitlines()[0].split())} columns" in told


@pytest.mark.parametrize("text", ["q1 0 1 1.5\nq1 0 2 0.5\n", "q1 1 1 1\nq1 1 2 0\n"])
def test_judgments_of_numbered_documents_are_no_run(tmp_path, text):
    assert probe(put(tmp_path / "x.qrels", text)).kind == "trec qrels"


@pytest.mark.parametrize("start", ["", "{"])
def test_a_first_line_too_long_to_be_read_takes_no_memory(tmp_path, start):
    place = put(tmp_path / "in.jsonl", start + "x" * 3 * 10**7 + "\n" + lines(POOLS))
    tracemalloc.start()
    assert convert_inputs([place], str(tmp_path / "out"), InputOptions()) == ConvertedInputs(
        (place,)
    )
    assert tracemalloc.get_traced_memory()[1] < 2 * 10**7
    tracemalloc.stop()


@pytest.mark.parametrize(
    ("url", "why"),
    [
        ("foo://x/a.jsonl", "cannot be reached"),
        ("gs://x/a", "needs the extra gcs"),
        ("s3://x/a", "needs the extra s3"),
    ],
)
def test_storage_that_cannot_be_reached_is_one_line(tmp_path, url, why, monkeypatch):
    def unreachable(_, **__):
        raise ImportError("Please install it")

    monkeypatch.setattr("fsspec.url_to_fs", unreachable)
    with pytest.raises(InputError, match=f"^{url}: {why}") as told:
        convert_inputs([url], str(tmp_path / "out"), InputOptions())
    assert "\n" not in str(told.value)


@pytest.mark.parametrize(
    ("url", "why"), [("foo://x", "cannot be reached"), ("nowhere.jsonl", "no such file")]
)
def test_a_corpus_that_is_not_there_is_named(tmp_path, url, why):
    run, queries = "q1 Q0 d1 1 12.5 me\n", put(tmp_path / "q.jsonl", '{"_id": "q1", "text": "x"}\n')
    told = refused(tmp_path, run, "x.run", corpus=url, queries=queries)
    assert told.startswith(f"{url}: {why}")


def test_pools_that_were_emptied_are_made_again(tmp_path):
    place = put(tmp_path / "rows.csv", "query,text\nq,a\nq,b\n")
    (made,) = convert_inputs([place], str(tmp_path / "out"), InputOptions()).places
    text = Path(made).read_text()
    for _ in range(2):
        Path(made).write_text("")
        assert brought(tmp_path, place)
        assert Path(made).read_text() == text
        for note in (tmp_path / "out" / "input").glob("made-*"):
            note.unlink()


def test_drafts_of_runs_killed_long_ago_are_removed(tmp_path):
    old, new = (tmp_path / "out" / "input" / f".pools-{each}.partial" for each in "ab")
    put(old, "{")
    put(new, "{")
    os.utime(old, (0, 0))
    assert brought(tmp_path, put(tmp_path / "rows.csv", "query,text\nq,a\n"))
    assert new.exists()
    assert not old.exists()


def test_two_may_write_one_file_at_once(tmp_path):
    place = tmp_path / "made.json"
    with open_for_writing(str(place)) as one:
        one.write(b"one")
        with open_for_writing(str(place)) as other:
            other.write(b"other")
    assert place.read_bytes() == b"one"
    assert [each.name for each in tmp_path.iterdir()] == ["made.json"]


def test_a_bad_pool_in_an_array_is_left_to_the_reader_of_lines(tmp_path):
    rows = [POOLS[0], {"query": POOLS[1]["query"]}, POOLS[1] | {"documents": 5}]
    (_, found) = found_in(tmp_path, json.dumps(rows), "in.json")
    read = [*read_lines(found.places[0], LineLimits())]
    assert [bool(line.reason) for line in read] == [False, False, True]


@pytest.mark.parametrize(
    "mark", ["run.json", "replies/a.v2.jsonl", "input/pools-0123456789ab.jsonl"]
)
def test_tables_beside_the_results_of_an_earlier_run_are_read(tmp_path, mark):
    folder = tmp_path / "data"
    for name in ("a.csv", "more/b.csv"):
        put(folder / name, f"query,text\n{name},x\n{name},y\n")
    put(folder / "runs" / "old" / mark, "{}")
    for name in ("annotated.jsonl", "input/pools-0.jsonl", "scores.csv"):
        put(folder / "runs" / "old" / name, lines(POOLS))
    found, told = brought(tmp_path, str(folder))
    assert [each["query"]["query"] for each in found] == ["a.csv", "more/b.csv"]
    assert not [line for line in told if "old" in line]


def test_tables_that_a_finished_run_left_inside_a_folder_are_read_each_time(tmp_path):
    folder = tmp_path / "data"
    put(folder / "a.csv", "query,text\nq,x\n")
    first = convert_inputs([str(folder)], str(folder / "one"), InputOptions())
    put(folder / "b.csv", "query,text\nr,y\n")
    second = convert_inputs([str(folder)], str(folder / "two"), InputOptions())
    assert [len(Path(each.places[0]).read_text().splitlines()) for each in (first, second)] == [
        1,
        2,
    ]


@pytest.mark.parametrize("inside", ["", "out"])
def test_a_collection_is_made_anew_when_it_changes_and_not_for_results_inside_it(tmp_path, inside):
    put(tmp_path / "corpus.jsonl", '{"_id": "d", "text": "a"}\n')
    put(tmp_path / "queries.jsonl", '{"_id": "q", "text": "b"}\n')
    put(tmp_path / "qrels" / "test.tsv", "query-id\tcorpus-id\tscore\nq\td\t1\n")
    asked = [str(tmp_path)], str(tmp_path / inside), InputOptions()
    first = convert_inputs(*asked).places
    put(tmp_path / "out" / "run.json", "{}")
    assert convert_inputs(*asked).places == first
    if inside:
        assert len([*(tmp_path / inside / "input").glob("made-*")]) == 1
    put(tmp_path / "corpus.jsonl", '{"_id": "d", "text": "another"}\n')
    assert convert_inputs(*asked).places != first


def test_a_folder_called_replies_holds_tables_like_any_other(tmp_path):
    put(tmp_path / "data" / "more" / "replies" / "a.csv", "query,text\nq,x\n")
    assert len(brought(tmp_path, str(tmp_path / "data"))[0]) == 1
