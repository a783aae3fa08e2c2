"""Files and names that are not what they should be: one line that helps, and nothing steered."""

import os
import random
import shutil
import stat
import threading
from dataclasses import replace
from pathlib import Path

import pytest

from tests.commands.test_bakeoff import all_like
from tests.commands.test_bakeoff import results_of as contest_of
from tests.files.reading import (
    POOLS,
    as_parquet,
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
from tests.helpers.builders import pool_of, reply_to, results_of, small_disk, write_run
from tests.helpers.hills import write_contests, write_verdicts
from zelo_ray import cli
from zelo_ray.cli import print_lines
from zelo_ray.commands import load_results as load
from zelo_ray.engine.batch.parts import BatchPart, Parts
from zelo_ray.engine.ledger import Ledger
from zelo_ray.engine.lock import claim_folder
from zelo_ray.engine.write_results import Summary
from zelo_ray.errors import LedgerError
from zelo_ray.reasons import Disabled, StopReason, Unscored, UnscoredReason
from zelo_ray.records import Rater

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


READING = (
    "annotate folder --out o --judges offline:bm25",
    "bakeoff --truth folder/pipe.jsonl --runs mine.run --out o",
    "bakeoff --truth labels.qrels --runs folder/pipe.jsonl --out o",
    "fit folder/pipe.jsonl",
    "convert qrels folder/pipe.jsonl --out o.txt",
    "agree folder/pipe.jsonl --human labels.qrels",
)


@pytest.mark.parametrize("words", READING)
def test_a_pipe_is_refused_though_nobody_writes(capsys, words):
    Path("folder").mkdir()
    os.mkfifo("folder/pipe.jsonl")
    before, done = everything(), []
    running = threading.Thread(target=lambda: done.append(run(capsys, words)), daemon=True)
    running.start()
    running.join(60)
    assert done, "it waits for the pipe"
    status, _, line = done[0]
    assert status in (1, 2)
    assert "is a pipe or a device" in line
    assert everything() == before


REFUSED = (
    "annotate pools.jsonl --show-metadata x --judges offline --ledger new/l",
    "annotate labels.qrels --judges offline",
    "annotate empty.jsonl --judges offline",
    "bakeoff --truth none.qrels --runs mine.run",
    "bakeoff --truth labels.qrels --rerankers bm25",
    "label --contest none --labels 2",
    "agree none none",
    "compare pools.jsonl --human none.csv --judges offline --try protocol=graded",
)


@pytest.mark.parametrize("words", REFUSED)
def test_a_command_that_is_refused_leaves_nothing(tmp_path, capsys, words):
    write_file("empty.jsonl", "")
    before = everything()
    status, _, line = run(capsys, f"{words} --out new/deep/o")
    assert status in (1, 2), line
    assert everything() == before


@pytest.mark.parametrize(
    ("words", "name"),
    [
        ("fit games.csv --out disk/ratings.csv", "ratings.csv"),
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


def garbage(path):
    """What may stand in the place of a file."""
    data, chance = path.read_bytes(), random.Random(0)
    yield data[: len(data) // 2]
    yield data[:1]
    yield chance.randbytes(len(data))
    yield data[:4] + chance.randbytes(99) + data[103:]
    if path.suffix == ".parquet":
        yield as_parquet({"query_id": [1.5], "doc_id": ["x"]})
    else:
        yield b'{"documents": 5}' if path.suffix == ".jsonl" else b"[1]"
    if path.suffix != ".jsonl":  # an empty one holds no line, and no wrong one
        yield b""


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
        ["agree", labels],
    ):
        out = str(root / words[0].partition("-")[0])
        assert cli.main([*words, "--out", out]) == 0
    return root


READ = [  # a command, the results that it reads, and which files of them
    ("report {}", "zelo", "run.json annotated.jsonl scores.parquet votes.parquet"),
    (
        "report {}",
        "bakeoff",
        "run.json leaderboard.parquet means.parquet metrics.parquet comparisons.parquet",
    ),
    ("report {}", "agree", "run.json figures.parquet"),
    ("explain {} --query q1", "zelo", "run.json scores.parquet votes.parquet failures.parquet"),
    ("explain {} --query q1", "hill", "contests.parquet winners.parquet scores.parquet"),
    ("explain {} --query q1", "debate", "verdicts.parquet"),
    ("convert qrels {} --out {}/x.qrels", "zelo", "scores.parquet"),
    ("convert train {} --out {}/x.jsonl", "zelo", "annotated.jsonl"),
    ("convert run {}/runs.parquet --out {}/x.run", "bakeoff", "runs.parquet"),
    ("agree {} --human {}/scores.parquet", "zelo", "votes.parquet scores.parquet"),
    ("fit {}/votes.parquet", "zelo", "votes.parquet"),
    ("bakeoff --truth {} --runs {}/../one.run --out {}/../o", "zelo", "scores.parquet"),
    ("agree {}/../zelo --runs {}/runs.parquet", "bakeoff", "runs.parquet"),
]


@pytest.mark.parametrize(("command", "place", "files"), READ)
def test_garbage_is_one_line_that_names_the_file(results, tmp_path, capsys, command, place, files):
    root = tmp_path / "results"
    shutil.copytree(results, root)
    for file in files.split():
        path = root / place / file
        for data in garbage(path):
            path.write_bytes(data)
            status, lines, line = run(capsys, command.replace("{}", f"{root}/{place}"))
            assert (status, lines) == (1, 1), (file, data, line)
            assert file in line, data
        shutil.copy(results / place / file, path)


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
        "agree out out/",
    ):
        status, _, line = run(capsys, words)
        assert status in (1, 2), words
        assert "out/run.json: " in line, words


PART = BatchPart("m", "openai:gpt-6-luna", "Preference", ["a" * 32], 10, 20, 0.1, 0.0)


def test_a_damaged_record_of_a_batch_stops_everything(tmp_path, capsys):
    Parts(str(tmp_path)).keep(PART)
    (record,) = (tmp_path / "batches").iterdir()
    for data in (b"", b"{", b"[]", b"{}", b"\xff", b"null", b'{"mark": 5}'):
        record.write_bytes(data)
        with pytest.raises(LedgerError, match=r"batches/m\.json: this record .* is damaged"):
            list(Parts(str(tmp_path)))
        assert run(capsys, ["batches", str(tmp_path)])[:2] == (1, 1)


# Bytes that are not UTF-8


ODD = os.fsdecode(b"b\xffd")


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


def is_harmless(text):
    """Whether a terminal shows the name, and nothing steers."""
    forged = set(text) & (STEERING - {"\n"}) or "\nzelo-ray: all" in text
    return not forged and r"q\x1b]0;x\x07\x9b2J" in text


@pytest.fixture
def _hostile_results(tmp_path, monkeypatch):
    """Results, two labels and a batch whose names steer."""
    monkeypatch.setenv("COLUMNS", "300")
    pool = pool_of()
    first, *others = pool.documents
    results_of(tmp_path, [replace(pool, documents=(replace(first, id=HOSTILE), *others))])
    Parts(str(tmp_path)).keep(BatchPart("a", f"openai:{HOSTILE}", "V", ["k"], 1, 1, 0.0, 0.0))
    rows = {"query_id": ["q1", "q1"], "doc_id": ["d1", HOSTILE], "score": [3.0, 0.0]}
    write_folder(tmp_path, {"old.parquet": rows, "new.parquet": rows | {"score": [0.0, 3.0]}})


@pytest.mark.usefixtures("_hostile_results")
@pytest.mark.parametrize(
    "words",
    [
        ["explain", ".", "--query", "q1", "--doc", HOSTILE],
        ["explain", ".", "--query", "q1", "--doc", "d3"],
        ["batches", "."],
        ["agree", "old.parquet", "new.parquet"],
        ["agree", HOSTILE],
        ["batches", "out", f"--{HOSTILE}"],
    ],
)
def test_what_is_printed_does_not_steer(capsys, words):
    cli.main(words)
    out, err = capsys.readouterr()
    assert is_harmless(out + err)


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


def test_what_a_report_prints_does_not_steer(tmp_path, capsys):
    summary = Summary(
        "run",
        2,
        unscored={HOSTILE: Unscored(UnscoredReason.OTHER, HOSTILE)},
        reasons={HOSTILE: 2},
        notes=[HOSTILE],
        disabled={HOSTILE: Disabled(StopReason.FATAL, HOSTILE)},
    )
    (tmp_path / "run").mkdir()
    write_run(tmp_path / "run", summary, HOSTILE, protocol="graded")
    raters = [Rater(HOSTILE, *[float("nan")] * 5, 1)] * 2
    write_file("run/raters.parquet", records_table(raters, Rater))
    contest = contest_of("contest", {HOSTILE: all_like("abcd"), ":cat: [b]": {"x": "ab"}})
    for lines in (load("run").render(300), contest.render(300)):
        print_lines(*lines)
        assert is_harmless(capsys.readouterr().out)
