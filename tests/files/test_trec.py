"""TREC files: what is written is read again, what is odd is read as trec_eval does, or refused."""

import math

import ir_measures
import pyarrow as pa
import pyarrow.csv
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from tests.files.reading import (
    judgments,
    pool_candidates,
    read_qrels,
    read_run,
    records_table,
    refused,
    sort_run,
    storage,
    write_file,
    write_run,
)
from zelo_ray.errors import OutputError
from zelo_ray.records import Qrel, Ranked

RUN = "q1 Q0 d1 1 3.5 bm25\nq1 Q0 d2 2 1e-3 bm25\nq2 Q0 d1 1 -7 bm25\n"
ROWS = [("q1", "d1", 3.5), ("q1", "d2", 0.001), ("q2", "d1", -7.0)]


def ranked(*rows):
    return records_table([Ranked(*row) for row in rows], Ranked)


def judged(*rows):
    return records_table([Qrel(*row, math.nan) for row in rows], Qrel)


def names(path):
    return [*judgments.read_runs([str(path)])]


def ranks(run):
    columns = (run[name].to_pylist() for name in ("query_id", "doc_id", "rank"))
    return [*zip(*columns, strict=True)]


FORMS = {
    "plain": RUN,
    "tabs": RUN.replace(" ", "\t"),
    "blanks": RUN.replace(" ", " \t  "),
    "Windows": RUN.replace("\n", " \r\n"),
    "blank lines": "\n\n " + RUN.replace("\n", "\n \n") + "\n\t\n",
    "no last end": RUN.removesuffix("\n"),
    "a mark": "\ufeff" + RUN,
    "a note": RUN.replace("bm25\n", "bm25 and more\n", 1),
    "a plus": RUN.replace(" 3.5 ", " +3.5 "),
    "odd ranks": RUN.replace(" 1 ", " rank "),
}


@pytest.mark.parametrize("form", FORMS)
def test_a_run_is_read_as_trec_eval_does(tmp_path, form):
    place = write_file(tmp_path / "a.run", FORMS[form])
    assert (read_run(place), names(place)) == (ROWS, ["bm25"])


def test_lines_are_counted_over_blocks(tmp_path, monkeypatch, capfd):
    monkeypatch.setattr(storage, "BLOCK_BYTES", 16)
    assert read_run(write_file(tmp_path / "a.run", RUN)) == ROWS
    for line, says in (
        (b"\nq1 Q0 d7 1 x t", r"a\.run:5: .*'x'"),
        (b"q1 Q0 d2 4 0 bm25\n", r"a\.run:4: document 'd2' .*a\.run:2"),
        (b"\n\xff \xfe\n", r"a\.run:5: 2 columns"),
    ):
        (tmp_path / "a.run").write_bytes(RUN.encode() + line)
        with refused(says):
            read_run(tmp_path / "a.run")
    lines = [f"q1 Q0 d{n} {n} 3.5 bm25\n" for n in (1, 2, 3, 2)]  # a blank one ends each block
    monkeypatch.setattr(storage, "BLOCK_BYTES", len(lines[0]))
    with refused(r"a\.run:7: document 'd2' .*a\.run:3"):
        read_run(write_file(tmp_path / "a.run", "\n".join(lines)))
    assert capfd.readouterr().err == "", "no word of Arrow's"


def is_id(text):
    """Whether a TREC file can hold it."""
    return text.split() == [text] and not text.startswith("\ufeff") and "\0" not in text


IDS = st.text(st.characters(codec="utf-8"), min_size=1, max_size=9).filter(is_id)
FINITE = st.floats(allow_nan=False, allow_infinity=False)
SOME = st.lists(st.tuples(IDS, IDS, FINITE), min_size=1, max_size=20, unique_by=lambda r: r[:2])


@given(SOME, IDS, st.sampled_from(["", ".gz", ".zst"]))
@settings(max_examples=100)
def test_a_run_is_read_as_it_was_written(tmp_path_factory, rows, name, packed):
    place = str(tmp_path_factory.mktemp("runs") / f"a.run{packed}")
    run = sort_run(ranked(*rows))
    write_run(place, name, run)
    assert names(place) == [name]
    assert sorted(read_run(place)) == sorted(rows)
    assert [row[:2] for row in read_run(place)] == [row[:2] for row in ranks(run)]


@given(st.text(max_size=5))
@example("\ufeffa")  # as a table's first column may be, whose reader left the mark there
@settings(max_examples=300)
def test_an_id_that_would_break_columns_is_refused(tmp_path_factory, text):
    path = tmp_path_factory.mktemp("ids") / "a.run"
    try:
        write_run(str(path), "tag", sort_run(ranked(("q", text, 1.0))))
        assert is_id(text) or "\0" in text
    except OutputError:
        assert not is_id(text)
        assert not list(path.parent.iterdir())


def test_what_cannot_be_written_leaves_what_there_was(tmp_path):
    path = tmp_path / "a.run"
    path.write_text("old")
    for name, score in (("my run", 1.0), ("run", math.nan)):
        with pytest.raises(OutputError):
            write_run(str(path), name, sort_run(ranked(("q", "d", score))))
    with pytest.raises(ZeroDivisionError), storage.open_for_writing(f"{path}.gz") as out:
        out.write(b"half %d" % (1 / 0))
    assert [(p.name, p.read_text()) for p in tmp_path.iterdir()] == [("a.run", "old")]


def test_two_writers_of_one_name_do_not_remove_each_others_draft(tmp_path, monkeypatch):
    place, drafts = tmp_path / "a.json", []

    def sync(path):
        if path.is_dir() and not drafts:  # the first is in its place, and the next one begins
            drafts.append(tmp_path / f"a.json{storage.PARTIAL}")
            drafts[0].write_text("the next one's")

    monkeypatch.setattr(storage, "sync_path", sync)
    storage.write_text(str(tmp_path), place.name, "first")
    assert (place.read_text(), drafts[0].read_text()) == ("first", "the next one's")


# Orders and candidates


def test_ties_are_ordered_as_trec_eval_orders_them():
    near = 1.0 + 1e-12  # the same number in 32 bits
    run = sort_run(ranked(("q", "a", near), ("q", "b", 1.0), ("q", "é", 1.0), ("p", "x", 0.0)))
    assert ranks(run) == [("q", "é", 1), ("q", "b", 2), ("q", "a", 3), ("p", "x", 1)]
    chunks = pa.chunked_array([["a", "b"], ["b", "a"]])
    run = pa.table({"query_id": chunks, "doc_id": [*"xxyy"], "score": [1.0, 2, 3, 4]})
    assert ranks(sort_run(run)) == [("a", "y", 1), ("a", "x", 2), ("b", "y", 1), ("b", "x", 2)]


def test_candidates_favour_no_run_and_hide_the_truth():
    runs = {
        "one": ranked(("q", "a", 3), ("q", "b", 2), ("q", "c", 1)),
        "two": ranked(("q", "c", 9), ("q", "b", 8), ("q", "d", 7), ("q", "e", 6)),
    }
    found = pool_candidates(runs, 3)["q"]
    assert found["b"] == {"one": 2, "two": 2}
    assert {*[*found][:2]} == {"b", "c"}  # found twice
    assert {*found} == {*"abcd"}
    turned = pool_candidates({name: runs[name] for name in ("two", "one")}, 3)["q"]
    assert [*turned] == [*found]
    grades = [
        (f"q{i}", f"{good}{i}-{j}", float(good))
        for i in range(40)
        for j, good in enumerate((1, 1, 0, 0))
    ]
    firsts = [next(iter(ids)) for ids in pool_candidates({}, 0, judged(*grades)).values()]
    assert 8 < sum(first.startswith("1") for first in firsts) < 32


# What others published


def test_official_runs(published):
    runs = sorted((published / "trec_dl19").glob("runs_*/*.run"))
    assert len(runs) == 43
    fixtures = [*(published / "trec_eval_fixtures").glob("results*.test")]
    for path in (*runs, *fixtures):
        theirs = [(r.query_id, r.doc_id, r.score) for r in ir_measures.read_trec_run(str(path))]
        assert read_run(path) == theirs
        assert names(path) == ["STANDARD" if path in fixtures else path.stem]


@pytest.mark.parametrize(
    "name",
    ["trec_eval_fixtures/qrels.test", "trec_dl19/qrels.txt", "cranfield/qrels_graded_0to3.txt"],
)
def test_official_qrels(published, name):
    theirs = ir_measures.read_trec_qrels(str(published / name))
    assert read_qrels(published / name) == [
        (r.query_id, r.doc_id, float(r.relevance)) for r in theirs
    ]
