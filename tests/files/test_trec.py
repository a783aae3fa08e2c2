"""TREC files: what is written is read again, what is odd is read as trec_eval does, or refused."""

import gzip
import math
from pathlib import Path

import ir_measures
import pyarrow as pa
import pyarrow.csv
import pytest
import zstandard
from hypothesis import example, given, settings
from hypothesis import strategies as st

from zelo_ray.errors import InputError, OutputError
from zelo_ray.files import storage
from zelo_ray.files.candidates import find_unjudged, pool_candidates, sort_run
from zelo_ray.files.judgments import read_qrels, read_runs
from zelo_ray.files.storage import file_stem, open_for_writing
from zelo_ray.files.tables import schema_of, table_of
from zelo_ray.files.trec import write_qrels, write_run
from zelo_ray.records import Qrel, Ranked

RUN = b"q1 Q0 d1 1 3.5 bm25\nq1 Q0 d2 2 1e-3 bm25\nq2 Q0 d1 1 -7 bm25\n"
ROWS = [("q1", "d1", 3.5), ("q1", "d2", 0.001), ("q2", "d1", -7.0)]


def file(tmp_path, data, name="a.run"):
    path = tmp_path / name
    path.write_bytes(data)
    return str(path)


def read_run(path):
    """The name and the scores of a file of one run."""
    ((name, run),) = read_runs([str(path)]).items()
    return name, run.select(schema_of(Ranked).names)


def tuples(table, *names):
    return list(
        zip(*(table[name].to_pylist() for name in names or table.schema.names), strict=True)
    )


def ranked(*rows):
    return table_of([Ranked(*row) for row in rows], Ranked)


def judged(*rows):
    return table_of([Qrel(*row, math.nan) for row in rows], Qrel)


@pytest.mark.parametrize(
    "data",
    [
        RUN,
        RUN.replace(b" ", b"\t"),
        RUN.replace(b" ", b" \t  "),
        RUN.replace(b"\n", b" \r\n"),
        b"\n\n " + RUN.replace(b"\n", b"\n \n") + b"\n\t\n",
        RUN.removesuffix(b"\n"),
        b"\xef\xbb\xbf" + RUN,
        RUN.replace(b"bm25\n", b"bm25 and more\n", 1),
        RUN.replace(b" 3.5 ", b" +3.5 "),
        RUN.replace(b" 1 ", b" rank "),
    ],
)
def test_read_run_as_trec_eval_does(tmp_path, data):
    name, run = read_run(file(tmp_path, data))
    assert (name, run.schema) == ("bm25", schema_of(Ranked))
    assert tuples(run) == ROWS


def test_quotes_and_other_scripts_are_plain_text(tmp_path):
    _, run = read_run(file(tmp_path, 'q"1 Q0 "dé,\u3042 1 2 t\n'.encode()))
    assert tuples(run) == [('q"1', '"dé,\u3042', 2.0)]


@pytest.mark.parametrize(
    ("line", "why"),
    [
        (b"q1 Q0 d3 3 1.0", "5 columns; a TREC run has 6"),
        (b"q1 0 d3 1", "4 columns"),
        (b"q1 Q0 d3 3 nan t", "'nan' is not a finite number"),
        (b"q1 Q0 d3 3 inf t", "not a finite number"),
        (b"q1 Q0 d3 3 1_0 t", "not a finite number"),
        (b"q1 Q0 d3 3 high t", "'high' is not"),
        (b"q1 Q0 d\xff 3 1 t", "not UTF-8"),
        (b"q1 Q0 d1 3 1 t", "'d1' of query 'q1' is ranked twice, first at .*a.run:1: "),
    ],
)
def test_a_bad_line_of_a_run_is_named(tmp_path, line, why):
    with pytest.raises(InputError, match=rf"a\.run:5: .*{why}"):
        read_run(file(tmp_path, RUN + b"\n" + line + b"\nq9 Q0 d9 1 1 t\n"))


def test_a_line_that_is_no_text_is_named_without_a_word_from_arrow(tmp_path, capfd):
    with pytest.raises(InputError, match=r"a\.run:3: 2 columns"):
        read_run(str(file(tmp_path, RUN[:20] + b"\n\xff \xfe\n")))
    assert capfd.readouterr().err == ""


def test_lines_are_counted_over_blocks(tmp_path, monkeypatch):
    monkeypatch.setattr(storage, "BLOCK_BYTES", 16)
    path = file(tmp_path, RUN + b"\nq1 Q0 d7 1 x t")
    with pytest.raises(InputError, match=r"a\.run:5: .*'x'"):
        read_run(path)
    with pytest.raises(InputError, match=r"a\.run:4: document 'd2' .* first at .*a\.run:2"):
        read_run(file(tmp_path, RUN + b"q1 Q0 d2 4 0 bm25\n"))
    assert tuples(read_run(file(tmp_path, RUN))[1]) == ROWS


def test_threads_of_arrow_hold_nothing_of_pythons(tmp_path, monkeypatch):
    """One that let go of it after Python's end would abort a program that had done its work."""
    sources = []
    read_csv = pa.csv.read_csv
    monkeypatch.setattr(
        "pyarrow.csv.read_csv",
        lambda source, *how: sources.append(source) or read_csv(source, *how),
    )
    (tmp_path / "run").write_text("q1 Q0 d1 1 2.5 r\n")
    read_run(str(tmp_path / "run"))
    assert [type(source) for source in sources] == [pa.BufferReader]


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (b"q1 0 d1 1\nq1 0 d3", ":2: .*3 columns"),
        (b"q1 0 d1 1\nq1 0 d3 1 more", ":2: .*5 columns; a TREC qrels file has 4"),
        (b"q1 0 d1 1\nq1 0 d3 nan", ":2: .*'nan'"),
        (b"q1 0 d1 1\nq1 0 d1 0", ":2: .*twice"),
        (b"", ": holds no judgments; it is an empty file"),
        (b" \n\n", ": holds no judgments; it is an empty file"),
    ],
)
def test_what_is_wrong_with_qrels_is_named(tmp_path, data, why):
    with pytest.raises(InputError, match=rf"a\.qrels{why}"):
        read_qrels(file(tmp_path, data, "a.qrels"))


@pytest.mark.parametrize(
    ("name", "data", "why"),
    [
        ("a.run", b"", "holds no run; it is an empty file"),
        ("a.run", b" \n\n", "holds no run; it is an empty file"),
        ("a.run.gz", gzip.compress(RUN * 9, mtime=0)[:-9], "cannot be read"),
        ("a.run.zst", zstandard.compress(RUN * 99)[:-5], "cannot be read"),
    ],
)
def test_an_empty_or_torn_run_is_an_error(tmp_path, name, data, why):
    with pytest.raises(InputError, match="no such file"):
        read_run(str(tmp_path / name))
    with pytest.raises(InputError, match=why):
        read_run(file(tmp_path, data, name))


def test_a_run_of_different_tags_is_called_as_its_file(tmp_path):
    path = file(tmp_path, RUN.replace(b"bm25", b"other", 1), "dense.v2.run")
    assert read_run(path)[0] == "dense.v2"
    assert [file_stem(s) for s in ("a/b.run.gz", "s3://x/b.txt", "b", "x/.run")] == [
        "b",
        "b",
        "b",
        ".run",
    ]


def is_id(text):
    """Whether a TREC file can hold it."""
    return text.split() == [text] and not text.startswith("\ufeff")


IDS = st.text(st.characters(codec="utf-8"), min_size=1, max_size=9).filter(
    lambda text: is_id(text) and "\0" not in text
)
FINITE = st.floats(allow_nan=False, allow_infinity=False)
SOME = st.lists(st.tuples(IDS, IDS, FINITE), min_size=1, max_size=20, unique_by=lambda r: r[:2])


@given(SOME, IDS, st.sampled_from(["", ".gz", ".zst"]))
@settings(max_examples=100, deadline=None)
def test_a_run_is_read_as_it_was_written(tmp_path_factory, rows, name, packed):
    path = str(tmp_path_factory.mktemp("runs") / f"a.run{packed}")
    write_run(path, name, sort_run(ranked(*rows)))
    back_name, back = read_run(path)
    assert back_name == name
    assert sorted(tuples(back)) == sorted(rows)
    assert tuples(back) == tuples(sort_run(ranked(*rows)).drop_columns(["rank"]))


@given(SOME)
@settings(max_examples=100, deadline=None)
def test_qrels_are_read_as_they_were_written(tmp_path_factory, rows):
    path = str(tmp_path_factory.mktemp("qrels") / "a.qrels")
    write_qrels(path, judged(*rows))
    back = read_qrels(path)
    assert back.schema == schema_of(Qrel)
    assert tuples(back, "query_id", "doc_id", "relevance") == rows
    assert all(map(math.isnan, back["std_error"].to_pylist()))


@given(st.text(max_size=5))
@example("\ufeffa")  # as a table's first column may be, whose reader left the mark there
@settings(max_examples=300, deadline=None)
def test_an_id_that_would_break_the_columns_is_refused(tmp_path_factory, text):
    path = tmp_path_factory.mktemp("ids") / "a.run"
    try:
        write_run(str(path), "tag", sort_run(ranked(("q", text, 1.0))))
        assert is_id(text)
    except OutputError:
        assert not is_id(text)
        assert not list(path.parent.iterdir())


def test_what_a_written_run_looks_like(tmp_path):
    path = tmp_path / "new/a.run"
    run = ranked(("q2", "d1", 1.0), ("q1", "a", 0.1), ("q1", "b", 2.0), ("q1", "c", 0.1))
    write_run(str(path), "mine", sort_run(run))
    assert path.read_text().splitlines() == [
        "q2 Q0 d1 1 1 mine",
        "q1 Q0 b 1 2 mine",
        "q1 Q0 c 2 0.1 mine",
        "q1 Q0 a 3 0.1 mine",
    ]
    assert list(path.parent.iterdir()) == [path]


def test_what_cannot_be_written_leaves_what_there_was(tmp_path):
    path = tmp_path / "a.run"
    path.write_text("old")
    with pytest.raises(OutputError, match="the run's name 'my run'"):
        write_run(str(path), "my run", sort_run(ranked(("q", "d", 1.0))))
    with pytest.raises(OutputError, match="that is not finite"):
        write_run(str(path), "run", sort_run(ranked(("q", "d", math.nan))))
    assert path.read_text() == "old"
    with pytest.raises(ZeroDivisionError), open_for_writing(f"{path}.gz") as out:
        out.write(b"half %d" % (1 / 0))
    assert list(tmp_path.iterdir()) == [path]


def test_urls(tmp_path):
    write_run("memory://trec/a.run", "tag", sort_run(ranked(*ROWS)))
    assert sorted(tuples(read_run("memory://trec/a.run")[1])) == sorted(ROWS)


def test_ties_are_ordered_as_trec_eval_orders_them():
    near = 1.0 + 1e-12  # the same number in 32 bits
    run = sort_run(ranked(("q", "a", near), ("q", "b", 1.0), ("q", "é", 1.0), ("p", "x", 0.0)))
    assert tuples(run, "query_id", "doc_id", "rank") == [
        ("q", "é", 1), ("q", "b", 2), ("q", "a", 3), ("p", "x", 1)
    ]  # fmt: skip


def test_holes():
    truth = judged(("q", "a", 1), ("q", "c", 0), ("p", "x", 1))
    run = ranked(("p", "y", 3), ("q", "a", 3), ("q", "b", 2), ("q", "d", 1), ("z", "a", 1))
    found = find_unjudged(truth, "mine", run, 2)
    assert tuples(found) == [("mine", "p", "y", 1), ("mine", "q", "b", 2)]
    assert find_unjudged(truth, "mine", run.slice(1, 1), 9).num_rows == 0


def test_a_pool_favours_no_run_and_hides_the_truth():
    runs = {
        "one": ranked(("q", "a", 3), ("q", "b", 2), ("q", "c", 1)),
        "two": ranked(("q", "c", 9), ("q", "b", 8), ("q", "d", 7), ("q", "e", 6)),
    }
    found = pool_candidates(runs, 3)["q"]
    assert found["b"] == {"one": 2, "two": 2}
    assert list(found)[:2] in (["c", "b"], ["b", "c"])  # found twice
    assert set(found) == {"a", "b", "c", "d"}
    turned = pool_candidates({name: runs[name] for name in ("two", "one")}, 3)["q"]
    assert list(turned) == list(found)
    grades = [
        (f"q{i}", f"{good}{i}-{j}", float(good))
        for i in range(40)
        for j, good in enumerate((1, 1, 0, 0))
    ]
    firsts = [next(iter(ids)) for ids in pool_candidates({}, 0, judged(*grades)).values()]
    assert 8 < sum(first.startswith("1") for first in firsts) < 32


def test_official_runs(published):
    for path in sorted((published / "trec_dl19").glob("runs_*/*.run")):
        name, run = read_run(str(path))
        assert name == path.stem
        theirs = {(r.query_id, r.doc_id): r.score for r in ir_measures.read_trec_run(str(path))}
        assert {(q, d): s for q, d, s in tuples(run)} == theirs
    assert len(list((published / "trec_dl19").glob("runs_top10/*.run"))) == 37


@pytest.mark.parametrize("name", ["results.test", "results.trunc", "results-302.test"])
def test_nists_own_runs(published, name):
    path = str(published / "trec_eval_fixtures" / name)
    tag, run = read_run(path)
    assert tag == "STANDARD"
    theirs = [line.split()[:5] for line in Path(path).read_text().splitlines()]
    assert tuples(run) == [(q, d, float(score)) for q, _, d, _, score in theirs]


@pytest.mark.parametrize(
    "name",
    ["trec_eval_fixtures/qrels.test", "trec_dl19/qrels.txt", "cranfield/qrels_graded_0to3.txt"],
)
def test_official_qrels(published, name):
    path = str(published / name)
    theirs = [(r.query_id, r.doc_id, float(r.relevance)) for r in ir_measures.read_trec_qrels(path)]
    assert tuples(read_qrels(path), "query_id", "doc_id", "relevance") == theirs


def test_large_ids_of_many_chunks_are_one_table():
    parts = pa.chunked_array([["a", "b"], ["b", "a"]])
    run = pa.table({"query_id": parts, "doc_id": ["x", "x", "y", "y"], "score": [1.0, 2, 3, 4]})
    assert tuples(sort_run(run), "query_id", "doc_id", "rank") == [
        ("a", "y", 1), ("a", "x", 2), ("b", "y", 1), ("b", "x", 2)
    ]  # fmt: skip
