"""Files and names that are not what they should be: one line that helps, and nothing steered."""

import os
import random
import shutil
import stat
import subprocess
import sys
import threading
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from rich.console import Console

from tests.builders import pool_of, reply_to, results_of, set_in_file, small_disk, write_run
from tests.files.reading import (
    POOLS,
    convert,
    find_shards,
    printable,
    read_all_judgments,
    read_corpus,
    read_inputs,
    read_qrels,
    records_table,
    refused,
    storage,
    write_file,
    write_folder,
)
from tests.hills import write_contests, write_verdicts
from tests.test_bakeoff import all_like, contest_of, entry_of, report_of
from zelo_ray import cli
from zelo_ray.cli.output import print_lines
from zelo_ray.commands.annotate.report import ANNOTATE_REPORT
from zelo_ray.commands.batches import batches_table, list_batches
from zelo_ray.commands.explain import explain
from zelo_ray.engine.batch.parts import BatchPart, Parts
from zelo_ray.engine.ledger import Ledger
from zelo_ray.engine.lock import claim_folder
from zelo_ray.engine.write_results import Summary
from zelo_ray.errors import InputError, LedgerError, LockError
from zelo_ray.reasons import Disabled, StopReason, Unscored, UnscoredReason
from zelo_ray.records import Rater
from zelo_ray.reports.terminal import render_lines

DOCUMENTS = [{"id": "a", "content": "A tick."}, {"id": "b", "content": "A clock."}]
FILES = {
    "pools.jsonl": [{"query": {"id": "q1", "query": "tick"}, "documents": DOCUMENTS}],
    "labels.qrels": "q1 0 a 1\nq1 0 b 0\n",
    "mine.run": "q1 Q0 a 1 2.0 mine\nq1 Q0 b 2 1.0 mine\n",
    "games.csv": "winner,loser\na,b\nb,a\na,b\n",
}


@pytest.fixture(autouse=True)
def _folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write_folder(tmp_path, FILES)


def run(capsys, words):
    """The exit status, the number of lines on stderr, and the last of them."""
    status = cli.main(words.split() if isinstance(words, str) else words)
    lines = capsys.readouterr().err.splitlines()
    return status, len(lines), lines[-1] if lines else ""


def everything():
    return {*Path().rglob("*")}


# What is no file, and what is not there


READING = {
    "annotate": "annotate folder --out o --judges offline:bm25",
    "bakeoff": "bakeoff --truth folder/pipe.jsonl --runs mine.run --out o",
    "runs": "bakeoff --truth labels.qrels --runs folder/pipe.jsonl --out o",
    "fit": "fit folder/pipe.jsonl",
    "convert": "convert qrels folder/pipe.jsonl --out o.txt",
    "agree": "agree folder/pipe.jsonl --human labels.qrels",
}


@pytest.mark.parametrize("command", READING)
def test_a_pipe_is_refused_though_nobody_writes(capsys, command):
    Path("folder").mkdir()
    os.mkfifo("folder/pipe.jsonl")
    before, done = everything(), []
    running = threading.Thread(
        target=lambda: done.append(run(capsys, READING[command])), daemon=True
    )
    running.start()
    running.join(60)
    assert done, "it waits for the pipe"
    status, _, line = done[0]
    assert status in (1, 2)
    assert "is a pipe or a device" in line
    assert everything() == before


def test_what_is_piped_into_a_command_is_refused():
    words = ["-m", "zelo_ray", "annotate", "/dev/stdin", "--out", "o", "--judges", "offline:bm25"]
    text = Path("pools.jsonl").read_text()
    ran = subprocess.run(
        [sys.executable, *words], input=text, capture_output=True, text=True, check=False
    )
    assert (ran.returncode, ran.stderr.count("\n")) == (1, 1)
    assert ran.stderr.startswith("zelo-ray: /dev/stdin: is a pipe or a device")


REFUSED = (
    "annotate pools.jsonl --show-metadata brand --judges offline",
    "annotate pools.jsonl --show-metadata x --judges offline --ledger new/l",
    "annotate labels.qrels --judges offline",
    "annotate empty.jsonl --judges offline",
    "annotate nothing --judges offline",
    "bakeoff --truth none.qrels --runs mine.run",
    "bakeoff --truth labels.qrels --runs mine.run --measures nDGC@10",
    "bakeoff --truth labels.qrels --rerankers bm25",
    "label --contest none --labels 2",
    "agree labels.qrels --human none.qrels",
    "compare-labels none labels.qrels",
    "drift none none",
    "compare-protocols pools.jsonl --human none.csv --judges offline",
)


@pytest.mark.parametrize("words", REFUSED)
def test_a_command_that_is_refused_leaves_nothing(tmp_path, capsys, words):
    write_folder(tmp_path, {"empty.jsonl": "", "nothing/page.html": ""})
    before = everything()
    status, _, line = run(capsys, f"{words} --out new/deep/o")
    assert status in (1, 2), line
    assert everything() == before


@pytest.mark.parametrize(
    ("words", "name"),
    [
        ("fit games.csv --out disk/ratings.csv", "ratings.csv"),
        ("convert qrels labels.qrels --out disk/qrels.txt", "qrels.txt"),
        ("bakeoff --truth labels.qrels --runs mine.run --out disk", ""),
    ],
)
def test_a_full_disk_is_told_with_its_file(tmp_path, capsys, words, name):
    with small_disk(tmp_path / "disk"):
        (tmp_path / "disk/fill").write_bytes(bytes(64 * 1024))
        status, _, line = run(capsys, words)
        drafts = [each.name for each in (tmp_path / "disk").rglob("*.partial*")]
    assert (status, drafts) == (1, [])
    assert f"disk/{name}" in line
    assert "the disk is full" in line


# Results that are damaged


OTHER_COLUMNS = {".jsonl": b'{"documents": 5}', ".json": b"[1]"}
GARBAGE = {
    "cut": lambda data, _: data[: len(data) // 2],
    "a byte": lambda data, _: data[:1],
    "empty": lambda _, __: b"",
    "chance": lambda data, _: random.Random(0).randbytes(len(data)),
    "chance within": lambda data, _: data[:4] + random.Random(0).randbytes(99) + data[103:],
    "other columns": lambda _, ending: OTHER_COLUMNS.get(ending, b""),
}


def spoil(path, how):
    """Put garbage in the place of a file."""
    path.write_bytes(GARBAGE[how](path.read_bytes(), path.suffix))
    if how == "other columns" and path.suffix == ".parquet":
        pq.write_table(pa.table({"query_id": [1.5], "doc_id": ["x"]}), path)


@pytest.fixture(scope="module")
def results(tmp_path_factory):
    """What each of several commands leaves."""
    root = tmp_path_factory.mktemp("results")
    pools = [pool_of(), pool_of((3, 1, 2), query_id="q2")]
    write_run(root / "zelo", results_of(root / "zelo", pools))
    for name, write in {"hill": write_contests, "debate": write_verdicts}.items():
        (root / name).mkdir()
        write(root / name)
    for name, ranks in {"one": (0, 1, 2), "two": (2, 0, 1)}.items():
        rows = [f"q{q} Q0 d{d} {n} {9 - n} {name}" for q in (1, 2) for n, d in enumerate(ranks, 1)]
        write_file(root / f"{name}.run", "\n".join(rows) + "\n")
    runs, labels = [f"{root}/one.run", f"{root}/two.run"], f"{root}/zelo"
    for words in (
        ["bakeoff", "--truth", labels, "--runs", *runs],
        ["compare-labels", "--old", labels, "--new", labels, "--runs", *runs],
        ["agree", labels],
    ):
        out = str(root / words[0].partition("-")[0])
        assert cli.main([*words, *set_in_file(resamples=100), "--out", out]) == 0
    return root


READ = [  # a command, the results that it reads, and which files of them
    ("report {}", "zelo", "run.json annotated.jsonl scores.parquet votes.parquet"),
    (
        "report {}",
        "bakeoff",
        "run.json means.parquet metrics.parquet comparisons.parquet runs.parquet failures.parquet",
    ),
    ("report {}", "bakeoff", "unjudged.parquet slices.parquet"),
    ("report {}", "compare", "compare.json leaderboards.parquet siblings.parquet"),
    ("report {}", "agree", "agree.json agreement.parquet voting.parquet pairs.parquet"),
    ("explain {} --query q1", "zelo", "run.json scores.parquet votes.parquet failures.parquet"),
    ("explain {} --query q1", "hill", "contests.parquet winners.parquet scores.parquet"),
    ("explain {} --query q1", "debate", "verdicts.parquet"),
    ("convert qrels {} --out {}/x.qrels", "zelo", "scores.parquet"),
    ("convert train {} --out {}/x.jsonl", "zelo", "annotated.jsonl"),
    ("convert run {}/runs.parquet --out {}/x.run", "bakeoff", "runs.parquet"),
    ("agree {} --human {}/scores.parquet", "zelo", "votes.parquet scores.parquet"),
    ("fit {}/votes.parquet", "zelo", "votes.parquet"),
    ("bakeoff --truth {} --runs {}/../one.run --out {}/../o", "zelo", "scores.parquet"),
    ("compare-labels --old {} --new {} --bakeoff {}/../bakeoff", "zelo", "scores.parquet"),
    ("compare-labels --old {}/../zelo --new {}/../zelo --bakeoff {}", "bakeoff", "runs.parquet"),
]


@pytest.mark.parametrize(("command", "place", "files"), READ)
def test_garbage_is_one_line_that_names_the_file(results, tmp_path, capsys, command, place, files):
    root = tmp_path / "results"
    shutil.copytree(results, root)
    for file in files.split():
        for how in GARBAGE:
            if how == "empty" and file.endswith(".jsonl"):
                continue  # it holds no line, and no wrong one
            spoil(root / place / file, how)
            status, lines, line = run(capsys, command.replace("{}", f"{root}/{place}"))
            assert (status, lines) == (1, 1), (file, how, line)
            assert file in line, how
            shutil.copy(results / place / file, root / place / file)


@pytest.mark.parametrize("text", [b'{"finished": tr', b"[1]", b'{"options": 7}', b"\xff"])
def test_a_broken_record_is_one_line_everywhere(results, capsys, text):
    shutil.copytree(results / "zelo", "out")
    Path("out/run.json").write_bytes(text)
    for words in (
        "annotate pools.jsonl --out out --judges offline:bm25",
        "explain out --query q1",
        "report out",
        "agree out --human labels.qrels",
        "bakeoff --truth out --runs mine.run --out contest",
        "drift out out",
    ):
        status, _, line = run(capsys, words)
        assert status in (1, 2), words
        assert "out/run.json: " in line, words


def test_a_lock_of_any_bytes_locks():
    Path("out").mkdir()
    Path("out/.run.lock").write_bytes(b"\xff\0")
    with claim_folder("out"), pytest.raises(LockError, match="in use"), claim_folder("out"):
        pass


PART = BatchPart("m", "openai:gpt-6-luna", "Preference", ["a" * 32], 10, 20, 0.1, 0.0)


def test_a_damaged_record_of_a_batch_stops_everything(tmp_path, capsys):
    Parts(str(tmp_path)).keep(PART)
    (record,) = (tmp_path / "batches").iterdir()
    for data in (b"", b"{", b"[]", b"{}", b"\xff", b"null", b'{"mark": 5}'):
        record.write_bytes(data)
        with pytest.raises(LedgerError, match=r"batches/m\.json: this record .* is damaged"):
            list(Parts(str(tmp_path)))
        assert run(capsys, ["batches", str(tmp_path)])[:2] == (1, 1)


@pytest.mark.parametrize(("umask", "mode"), [(0o077, 0o600), (0o002, 0o664)])
def test_all_that_is_written_follows_the_umask(tmp_path, umask, mode):
    before, out = os.umask(umask), tmp_path / "written"
    try:
        with claim_folder(str(out)):
            ledger = Ledger(str(out), "run")
            ledger.append([reply_to(1)])
            Parts(str(out)).keep(PART)
            write_run(out, results_of(out, [pool_of()]))
            write_file(out / "packed.jsonl.gz", "x")
            storage.write_text(str(out), "report.html", "x")
            modes = {p.name: stat.S_IMODE(p.stat().st_mode) for p in out.rglob("*") if p.is_file()}
            ledger.close()
    finally:
        os.umask(before)
    assert len(modes) >= 10
    assert {*modes.values()} == {mode}, modes


# Bytes that are not UTF-8


ODD = os.fsdecode(b"b\xffd")


def test_an_argument_of_other_bytes_is_refused(tmp_path, monkeypatch, capsys):
    for command in ("annotate", "no-such-command"):
        for words in ([ODD], ["--out", ODD], [f"--{ODD}"], ["x", f"{ODD}=y"]):
            status, lines, line = run(capsys, [command, *words])
            assert (status, lines) == (2, 1)
            assert r"b\xffd" in line
    (tmp_path / ODD).mkdir()
    monkeypatch.chdir(tmp_path / ODD)
    status, _, line = run(capsys, "annotate a.jsonl --out o")
    assert (status, r"b\xffd: holds bytes that are not UTF-8" in line) == (2, True)


def test_files_whose_names_are_other_bytes_are_named(tmp_path):
    texts = {
        f"in/{ODD}.csv": "query,text\nq,d\n",
        f"set/corpus/{ODD}.jsonl": '{"_id": "d", "text": "x"}\n',
        f"labels/{ODD}.qrels": "q 0 d 1\n",
    }
    for name, text in texts.items():
        Path(name).parent.mkdir(parents=True)
        Path(name).write_text(text)
    write_file("in/a.jsonl", POOLS)
    assert r"b\xffd.csv" in convert(tmp_path, "in").notes[0]
    Path("in/a.jsonl").unlink()
    for call in (
        lambda: read_inputs(tmp_path, "in"),
        lambda: find_shards(["in/*"]),
        lambda: read_corpus("set"),
        lambda: read_all_judgments(["labels"]),
        lambda: read_qrels(f"labels/{ODD}.qrels"),
    ):
        with refused(r"b\\xffd.*: holds bytes that are not UTF-8"):
            call()


def odd_texts(**columns):
    """A table whose texts may be no UTF-8, which Arrow does not look at."""
    table = pa.table(columns)
    for n, field in enumerate(table.schema):
        if pa.types.is_binary(field.type):
            buffers = table.column(n).chunk(0).buffers()
            texts = pa.Array.from_buffers(pa.string(), len(table), buffers)
            table = table.set_column(n, field.name, texts)
    return table


IDS = {"query_id": [b"q1", b"q1"], "doc_id": [b"d1", b"d\xff"]}
BAD = {
    "scores.parquet": (odd_texts(**IDS, score=[1.0, 2.0]), ": is not Parquet, or damaged"),
    "grades.parquet": (odd_texts(**IDS, judge=[b"j"] * 2, grade=[1, 2]), ": is not Parquet, or"),
    "first.jsonl": (b'{"query_id":"q\xff","doc_id":"d1","grade":1}\n', ": "),
    "second.qrels": (b"q1 0 d1 1\nq1 0 d\xff 0\n", ":2: is not UTF-8"),
    "cut.qrels.gz": (b"\x1f\x8b\x08\x00\x00\x00\x00\x00\x00\x03", ": cannot be read"),
    "none.qrels.zst": (b"q1 0 d1 1\n", ": cannot be read"),
}


@pytest.mark.parametrize("name", BAD)
def test_files_of_other_bytes_are_named_in_one_line(capsys, name):
    content, says = BAD[name]
    if isinstance(content, bytes):
        Path(name).write_bytes(content)
    else:
        pq.write_table(content, name)
    commands = [f"agree {name} labels.qrels", f"agree labels.qrels --human {name}"]
    if name == "scores.parquet":
        commands += [f"compare-labels --old labels.qrels --new labels.qrels --runs {name}"]
    for words in commands:
        status, _, line = run(capsys, words)
        assert status == 1
        assert f"{name}{says}" in line


# Names that steer a terminal


HOSTILE = "q\x1b]0;x\x07\x9b2J\u202e\u2066\u200b\r\nzelo-ray: all is well 日é"
"""Sets a title, clears the screen, turns the writing, forges a line."""
SEEN = r"q\x1b]0;x\x07\x9b2J\u202e\u2066\u200b\r\nzelo-ray: all is well 日é"
STEERING = set("\x1b\x07\x9b\u202e\u2066\u200b\r\n")


@pytest.mark.parametrize(
    ("text", "seen"),
    [
        (HOSTILE, SEEN),
        ("日本語\u3000 naïve e\u0301 👍🏽", "日本語\u3000 naïve e\u0301 👍🏽"),
        ("a\u200db \ufeff\u00ad\u2028", r"a\u200db \ufeff\xad\u2028"),
        ("\udc80\ud800 \t", r"\udc80\ud800 \t"),
    ],
)
def test_what_steers_is_escaped_and_letters_are_not(text, seen):
    assert printable(text) == printable(seen) == seen
    seen.encode()


def is_harmless(line):
    """Whether a line of a terminal shows the name whole, and nothing steers."""
    return SEEN in line and not set(line) & STEERING


def test_what_a_run_and_a_contest_print_does_not_steer(tmp_path, capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "300")
    nan, out = float("nan"), tmp_path / "run"
    out.mkdir()
    summary = Summary(
        str(out),
        2,
        unscored={HOSTILE: Unscored(UnscoredReason.OTHER, HOSTILE)},
        reasons={HOSTILE: 2},
        notes=[HOSTILE],
        disabled={HOSTILE: Disabled(StopReason.FATAL, HOSTILE)},
    )
    write_run(out, summary, HOSTILE, protocol="graded")
    raters = records_table([Rater(HOSTILE, nan, nan, nan, nan, nan, 1)] * 2, Rater)
    pq.write_table(raters, out / "raters.parquet")
    arms = (entry_of(HOSTILE, all_like("abcd"), note=HOSTILE), entry_of(":cat: [b]", {}))
    (tmp_path / "contest").mkdir()
    contest = report_of(contest_of(*arms), tmp_path / "contest")
    for report in (ANNOTATE_REPORT.read(str(out)), contest):
        print_lines(*render_lines(report, 300, with_warnings=False))
        shown = capsys.readouterr().out
        assert SEEN.replace(" ", "") in "".join(shown.split())
        assert not set(shown) & (STEERING - {"\n"})
        assert "\nzelo-ray: all" not in shown


def test_what_other_commands_print_does_not_steer(tmp_path, capsys):
    Parts(str(tmp_path)).keep(BatchPart("a", f"openai:{HOSTILE}", "V", ["k"], 1, 1, 0.0, 0.0))
    console = Console(width=300, record=True)
    console.print(batches_table(list_batches(str(tmp_path), {})))
    assert is_harmless(console.export_text().splitlines()[1])
    pool = pool_of()
    first, *others = pool.documents
    results_of(tmp_path, [replace(pool, documents=(replace(first, id=HOSTILE), *others))])
    for doc_id in (HOSTILE, "d3"):
        lines = explain(str(tmp_path), "q1", doc_id).split("\n")
        assert any(map(is_harmless, lines))
        assert not any(set(line) & STEERING for line in lines)
    rows = {"query_id": ["q1", "q1"], "doc_id": ["d1", HOSTILE], "score": [3.0, 0.0]}
    write_file("old.parquet", rows)
    write_file("new.parquet", rows | {"score": [0.0, 3.0]})
    assert cli.main(["compare-labels", "--old", "old.parquet", "--new", "new.parquet"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert any(r"q\x1b]0;x\x07\x9b2J" in line for line in lines)
    assert not any(set(line) & STEERING for line in lines)
    error = InputError(f"{HOSTILE}: no such file")
    assert cli.Output(["batches"]).fail(error, 1, error.code()) == 1
    assert is_harmless(capsys.readouterr().err.removesuffix("\n"))
    assert is_harmless(run(capsys, ["batches", "out", f"--{HOSTILE}"])[2])
