"""What others chose (ids, names, reasons, files) is seen on a terminal, and never steers it."""

from dataclasses import replace

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from rich.console import Console

from tests.builders import line_of, parsed, pool_of, results_of, write_run
from tests.test_bakeoff import all_like, contest_of, entry_of, report_of
from zelo_ray import cli
from zelo_ray.cli.printing import print_lines
from zelo_ray.commands.annotate.report import ANNOTATE_REPORT
from zelo_ray.commands.batches import batches_table, list_batches
from zelo_ray.commands.convert import convert
from zelo_ray.commands.explain import explain
from zelo_ray.engine.batch.parts import BatchPart, Parts
from zelo_ray.engine.write_results import Summary
from zelo_ray.errors import InputError
from zelo_ray.formats.tables import table_of
from zelo_ray.formats.wording import printable
from zelo_ray.reasons import Disabled, StopReason, Unscored, UnscoredReason
from zelo_ray.records import Rater
from zelo_ray.reports.terminal import render_lines

HOSTILE = (
    "q\x1b]0;x\x07\x9b2J\u202e\u2066\u200b\r\nzelo-ray: all is well \U0001f9d1\u200d\U0001f52c日é"
)
"""Sets a title, clears the screen, turns the writing, forges a line; and an emoji of two."""
SEEN = (
    r"q\x1b]0;x\x07\x9b2J\u202e\u2066\u200b\r\nzelo-ray: all is well "
    "\U0001f9d1\u200d\U0001f52c日é"
)
STEERING = set("\x1b\x07\x9b\u202e\u2066\u200b\r\n")


@pytest.mark.parametrize(
    ("text", "seen"),
    [
        (HOSTILE, SEEN),
        ("日本語\u3000 naïve e\u0301 ❤\ufe0f\u200d\U0001f525 👍🏽", None),
        ("a\u200db \ufeff\u00ad\u2028", r"a\u200db \ufeff\xad\u2028"),
        ("\udc80\ud800 \t", r"\udc80\ud800 \t"),
        ("", None),
    ],
)
def test_what_steers_or_is_not_seen_is_escaped_and_letters_are_not(text, seen):
    assert printable(text) == (text if seen is None else seen)
    assert printable(printable(text)) == printable(text)
    printable(text).encode()


def judged(line):
    """Whether a line of a terminal shows the name whole, and nothing steers."""
    return SEEN in line and not set(line) & STEERING


def printed(capsys, *parts):
    print_lines(*parts)
    return capsys.readouterr().out


def test_a_run_ends_with_printable_lines(tmp_path, capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "300")
    nan = float("nan")
    summary = Summary(
        str(tmp_path),
        2,
        unscored={HOSTILE: Unscored(UnscoredReason.OTHER, HOSTILE)},
        reasons={HOSTILE: 2},
        notes=[HOSTILE],
        disabled={HOSTILE: Disabled(StopReason.FATAL, HOSTILE)},
    )
    write_run(tmp_path, summary, HOSTILE, protocol="graded")
    raters = table_of([Rater(HOSTILE, nan, nan, nan, nan, nan, 1)] * 2, Rater)
    pq.write_table(raters, tmp_path / "raters.parquet")
    report = ANNOTATE_REPORT.read(str(tmp_path))
    out = printed(capsys, *render_lines(report, 300, with_warnings=False))
    shown = "".join(out.split())
    assert shown.count(SEEN.replace(" ", "")) == 9
    assert not set(out) & (STEERING - {"\n"})
    assert "\nzelo-ray: all" not in out


def test_tables_and_sentences_of_bakeoffs_are_printable(capsys, monkeypatch, tmp_path):
    monkeypatch.setenv("COLUMNS", "200")
    arms = (entry_of(HOSTILE, all_like("abcd"), note=HOSTILE), entry_of(":cat: [b]", {}))
    out = printed(capsys, *render_lines(report_of(contest_of(*arms), tmp_path), 200))
    shown = "".join(out.split())
    assert SEEN.replace(" ", "") in shown
    assert ":cat: [b]" in out
    assert not set(out) & (STEERING - {"\n"})
    assert "\nzelo-ray: all" not in out


def test_batches_are_listed_printably(tmp_path):
    Parts(str(tmp_path)).keep(BatchPart("a", f"openai:{HOSTILE}", "V", ["k"], 1, 1, 0.0, 0.0))
    console = Console(width=300, record=True)
    console.print(batches_table(list_batches(str(tmp_path), {})))
    assert judged(console.export_text().splitlines()[1])


def test_explanations_are_printable(tmp_path):
    pool = pool_of()
    first, *others = pool.documents
    hostile = replace(pool, documents=(replace(first, id=HOSTILE), *others))
    results_of(tmp_path, [hostile])
    for doc_id in (HOSTILE, "d3"):
        lines = explain(str(tmp_path), "q1", doc_id).split("\n")
        assert any(map(judged, lines))
        assert not any(set(line) & STEERING for line in lines)


def test_conversions_and_comparisons_are_told_printably(tmp_path, capsys):
    rows = {"query_id": ["q1", "q1"], "doc_id": ["d1", HOSTILE], "score": [3.0, 0.0]}
    pq.write_table(pa.table(rows), tmp_path / "old.parquet")
    pq.write_table(pa.table(rows | {"score": [0.0, 3.0]}), tmp_path / "new.parquet")
    words = ["--old", f"{tmp_path}/old.parquet", "--new", f"{tmp_path}/new.parquet"]
    assert cli.main(["compare-labels", *words]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert any(r"q\x1b]0;x\x07\x9b2J" in line for line in lines)
    assert not any(set(line) & STEERING for line in lines)
    (tmp_path / "pools.jsonl").write_bytes(line_of(pool_of()) + b"\n")
    words = ["train", f"{tmp_path}/old.parquet", "--pools", f"{tmp_path}/pools.jsonl", "--out"]
    out = tmp_path / f"out\x1b{HOSTILE[-3:]}.jsonl"
    assert r"out\x1b" in convert(parsed("convert", *words, out))


def test_complaints_are_one_printable_line(capsys, monkeypatch):
    error = InputError(f"{HOSTILE}: no such file")
    assert cli.Output(["batches"], cli.PURPOSES).fail(error, 1, error.code()) == 1
    assert judged(capsys.readouterr().err.removesuffix("\n"))
    assert cli.main(["batches", "out", f"--{HOSTILE}"]) == 2
    assert judged(capsys.readouterr().err.removesuffix("\n"))


# Files that are not what they are called


def parquet_with(path, **columns):
    """A Parquet file whose texts may be no UTF-8, which Arrow does not look at."""
    made = {}
    for name, values in columns.items():
        made[name] = pa.array(values)
        if isinstance(values[0], bytes):
            made[name] = pa.Array.from_buffers(
                pa.string(), len(values), pa.array(values, pa.binary()).buffers()
            )
    pq.write_table(pa.table(made), path)


BAD = {
    "first.jsonl": "first.jsonl: holds no judgments of a known kind (but bytes that are not UTF-8)",
    "scores.parquet": "scores.parquet: cannot be read",
    "grades.parquet": "grades.parquet: cannot be read",
    "beir.parquet": "beir.parquet: cannot be read",
    "second.qrels": "second.qrels:2: is not UTF-8",
    "cut.qrels.gz": "cut.qrels.gz: cannot be read",
    "none.qrels.zst": "none.qrels.zst: cannot be read",
}


@pytest.fixture
def bad(tmp_path):
    two = {"query_id": [b"q1", b"q1"], "doc_id": [b"d1", b"d\xff"]}
    parquet_with(tmp_path / "scores.parquet", **two, score=[1.0, 2.0])
    parquet_with(tmp_path / "grades.parquet", **two, judge=[b"j", b"j"], grade=[1, 2])
    parquet_with(
        tmp_path / "beir.parquet",
        **{"query-id": [b"q1", b"q1"], "corpus-id": [b"d1", b"d\xff"], "score": [1.0, 2.0]},
    )
    good = b"q1 0 d1 1\nq1 0 d2 0\n"
    (tmp_path / "first.jsonl").write_bytes(b'{"query_id":"q\xff","doc_id":"d1","grade":1}\n')
    (tmp_path / "second.qrels").write_bytes(good.replace(b"d2", b"d\xff"))
    (tmp_path / "cut.qrels.gz").write_bytes(b"\x1f\x8b\x08\x00\x00\x00\x00\x00\x00\x03")
    (tmp_path / "none.qrels.zst").write_bytes(good)
    (tmp_path / "good.qrels").write_bytes(good)
    return tmp_path


@pytest.mark.parametrize("name", BAD)
def test_a_file_of_other_bytes_is_named_in_one_line(bad, capsys, name):
    good, file = str(bad / "good.qrels"), str(bad / name)
    for argv in (["agree", file, good], ["agree", good, "--human", file]):
        assert cli.main(argv) == 1
        out, err = capsys.readouterr()
        assert (out, err.count("\n")) == ("", 1)
        assert f"/{BAD[name]}" in err


def test_a_run_of_other_bytes_is_named_in_one_line(bad, capsys):
    good, file = str(bad / "good.qrels"), str(bad / "scores.parquet")
    assert cli.main(["compare-labels", "--old", good, "--new", good, "--runs", file]) == 1
    assert capsys.readouterr().err.startswith(f"zelo-ray: {file}: cannot be read")


def test_examples_of_other_bytes_are_named(bad, capsys):
    (bad / "anchors.yaml").write_bytes(b"- \xff")
    argv = ["annotate", str(bad), "--out", str(bad / "out"), "--judges", "offline", "--dry-run"]
    argv += ["--protocol", "graded"]
    assert cli.main([*argv, "--anchors", str(bad / "anchors.yaml")]) == 2
    err = capsys.readouterr().err
    assert err.startswith(f"zelo-ray: anchors: {bad}/anchors.yaml: is not UTF-8 text")
    assert err.count("\n") == 1
