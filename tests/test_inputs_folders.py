"""A folder is read whole, or what is left out of it is named."""

import bz2
import gzip
import io
import json
import lzma
import re
import zipfile
from pathlib import Path

import fsspec
import pytest

from tests.games import write
from tests.input_pools import POOLS, ROWS, cells, lines, put
from zelo_ray.errors import InputError
from zelo_ray.formats.files import file_stem
from zelo_ray.formats.input import InputOptions, convert_inputs
from zelo_ray.formats.input.stored_inputs import read_notes
from zelo_ray.formats.pools import LineLimits, find_shards, read_lines
from zelo_ray.formats.recordings import list_recordings

CASES = Path(__file__).parent / "golden" / "cases"


def pool(number):
    documents = [{"id": f"d{d}", "content": f"text {d}"} for d in range(2)]
    return {"query": {"id": f"q{number}", "query": f"what {number}"}, "documents": documents}


def zipped(files):
    data = io.BytesIO()
    with zipfile.ZipFile(data, "w") as archive:
        for name, text in files.items():
            archive.writestr(name, text)
    return data.getvalue()


def converted(tmp_path, *names):
    """Convert files of these names."""
    places = [str(tmp_path / name) for name in names]
    return convert_inputs(places, str(tmp_path / "out"), InputOptions())


def ids(places):
    read = [line for place in find_shards(places) for line in read_lines(place, LineLimits())]
    assert not [line.reason for line in read if line.pool is None]
    return sorted(line.pool.query_id for line in read)


WRITTEN = {
    "a.jsonl": lines([pool(0)]),
    "B.JSONL": lines([pool(1)]),
    "c.ndjson": lines([pool(2)]),
    "more/deep/d.jsonl.gz": lines([pool(3)]),
    "e.jsonl.gz": gzip.compress(lines([pool(4)]).encode()),
    "f.ndjson": lines([pool(5)]),
    "g.json": json.dumps([pool(6), pool(7)], indent=1),
    "h.JSON": json.dumps(pool(8)),
    "i.csv": "query_id,query,doc_id,text\nq9,what,d0,x\nq9,what,d1,y\n",
    "j.tsv.zst": "query_id\tquery\tdoc_id\ttext\nqa\twhat\td0\tx\n",
    "k.jsonl": lines([pool("c")]),
    "part-00000": lines([pool("b")]),
}


@pytest.fixture(params=["disk", "memory", "s3"])
def root(request, tmp_path):
    """A folder on a disk, in memory, and in an object store."""
    if request.param == "s3":
        return f"{request.getfixturevalue('s3')}/mixed"
    return "memory://mixed" if request.param == "memory" else str(tmp_path / "in")


def test_what_is_read_by_its_name_is_read_in_a_folder(root):
    for name, text in WRITTEN.items():
        if isinstance(text, bytes):
            fs, path = fsspec.url_to_fs(f"{root}/{name}")
            fs.makedirs(path.rpartition("/")[0], exist_ok=True)
            fs.pipe_file(path, text)
        else:
            put(f"{root}/{name}", text)
    found = convert_inputs([root], f"{root}/out", InputOptions())
    assert ids(found.places) == [f"q{n}" for n in "0123456789abc"]
    assert not [line for line in found.notes if "left out" in line]
    again = convert_inputs([root], f"{root}/out", InputOptions())
    assert again == found


def test_what_is_no_input_is_left_out_by_name(tmp_path):
    read = {
        "a.jsonl": "{torn\n" + lines([pool(0)]),
        "b.csv": cells(ROWS),
        ".DS_Store": "x",
        "results/run.json": "{}",
        "results/annotated.jsonl": lines([pool(2)]),
    }
    other = {
        ".cache/x.csv": (cells(ROWS), ": is hidden"),
        ".hidden.jsonl": (lines([pool(1)]), ": is hidden"),
        "README.md": ("# data", ": its name ends"),
        "_SUCCESS": ("", ": holds nothing that can be read"),
        "s.json": ('{"a": 1}', ": holds no pools, .*but the columns a"),
        "utf16.csv": ("query,text\nq,d\n".encode("utf-16"), ": is UTF-16: save it as UTF-8"),
        "qrels.txt": ("q0 0 d0 1\n", ": holds judgments, .*there pools"),
    }
    for name, text in {**read, **{name: text for name, (text, _) in other.items()}}.items():
        put(tmp_path / "in" / name, text)
    out = str(tmp_path / "in" / "out")
    found = convert_inputs([str(tmp_path / "in")], out, InputOptions())
    torn, made = found.places
    assert torn == str(tmp_path / "in/a.jsonl")
    assert ids([made]) == ["q0", "q1"]
    left = [line for line in found.notes if "left out" in line]
    for line, (name, (_, why)) in zip(left, other.items(), strict=True):
        assert re.match(rf"left out {tmp_path}/in/{name}{why}", line)
    assert read_notes(found.places, out) == left
    for name in other:
        (tmp_path / "in" / name).unlink()
    found = convert_inputs([str(tmp_path / "in")], out, InputOptions())
    assert read_notes(found.places, out) == []


def test_of_many_that_are_left_out_the_first_are_told_with_their_reason(tmp_path):
    put(tmp_path / "in/a.jsonl", lines([pool(0)]))
    for number in range(18):
        put(tmp_path / f"in/{number:02}.png", "x")
    told = converted(tmp_path, "in").notes
    assert len(told) == 11
    assert told[-1].startswith("left out 8 more files: ")
    assert told[-1].endswith("14.png ...")


def test_a_file_that_was_named_is_not_left_out_nor_the_only_one_of_a_folder(tmp_path):
    put(tmp_path / "a.jsonl", lines(POOLS))
    put(tmp_path / "qrels.txt", "q0 0 d0 1\n")
    put(tmp_path / "in/b.csv", "x,y\n1,2\n")
    put(tmp_path / "in/notes.md", "x")
    with pytest.raises(InputError, match="are of different kinds"):
        converted(tmp_path, "a.jsonl", "qrels.txt")
    for names in (["a.jsonl", "in/b.csv"], ["in"]):
        with pytest.raises(InputError, match=r"b\.csv: holds no pools"):
            converted(tmp_path, *names)


def test_kinds_of_pools_that_are_named_are_read_together(tmp_path):
    one = put(tmp_path / "a.json", json.dumps(pool(0)))
    put(tmp_path / "b.csv", cells(ROWS[3:]))
    write(tmp_path / "c.parquet", [{"query": "why", "passages": ["x", "y"]}])
    found = converted(tmp_path, "b.csv", "c.parquet", "a.json")
    assert found.places[0] == one
    assert len(ids(found.places)) == 3
    assert found.notes[0].startswith("CSV rows and Parquet rows: 2 queries, 5 documents")


def test_a_glob_opens_the_folders_that_it_matches(tmp_path):
    put(tmp_path / "in/a.jsonl", lines([pool(0)]))
    put(tmp_path / "in/more/b.jsonl", lines([pool(1)]))
    put(tmp_path / "in/more/c.csv", "query_id,query,text\nq2,what,x\n")
    assert ids(converted(tmp_path, "in/*").places) == ["q0", "q1", "q2"]


def test_all_parts_of_a_corpus_are_read_and_other_files_of_a_collection_named(tmp_path):
    put(tmp_path / "set/corpus/test-0.jsonl", '{"_id": "d0", "text": "x"}\n')
    put(tmp_path / "set/corpus/test-1.ndjson.gz", '{"_id": "d1", "text": "y"}\n')
    put(tmp_path / "set/corpus/test-2.csv", "id,text\nd2,z\n")
    put(tmp_path / "set/corpus/.3.jsonl", "x")
    put(tmp_path / "set/queries.ndjson", '{"_id": "q", "text": "a"}\n')
    put(tmp_path / "set/qrels.tsv", "q\td0\t1\nq\td1\t0\nq\td2\t0\n")
    put(tmp_path / "set/pools.jsonl", lines(POOLS))
    notes = converted(tmp_path, "set").notes
    assert "3 documents" in notes[0]
    assert f"left out other files of {tmp_path}/set: pools.jsonl" in notes


def test_all_recordings_of_a_folder_are_judges(tmp_path):
    row = '{"query_id": "q", "doc_id": "d", "worth": 1}\n'
    for name in ("a.jsonl", "b.ndjson", "c.jsonl.gz"):
        data = row.encode()
        (tmp_path / name).write_bytes(gzip.compress(data) if name.endswith("gz") else data)
    assert [file_stem(place) for place in list_recordings(str(tmp_path))] == ["a", "b", "c"]


@pytest.mark.parametrize(
    ("name", "data", "says"),
    [
        ("a.csv.zip", zipped({"a.csv": "query,text\nq,x\n"}), "a workbook or a zip archive"),
        ("a.csv.bz2", bz2.compress(b"query,text\nq,x\n"), "is packed by bzip2"),
        ("a.csv.xz", lzma.compress(b"query,text\nq,x\n"), "is packed by xz"),
        ("a.csv", b"<!DOCTYPE html>\n<html><body>x, y</body></html>\n", "is a web page"),
    ],
)
def test_what_is_not_read_is_refused_with_what_it_is(tmp_path, name, data, says):
    (tmp_path / name).write_bytes(data)
    with pytest.raises(InputError, match=says):
        converted(tmp_path, name)
