"""What cannot be read or written as it is: one line that helps, and nothing left behind."""

import json
import os
import shutil
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from tests.builders import small_disk
from tests.crash import bare_environment
from zelo_ray import cli

POOL = {
    "query": {"id": "q1", "query": "tick"},
    "documents": [{"id": "a", "content": "A tick."}, {"id": "b", "content": "A clock."}],
}


@pytest.fixture(autouse=True)
def _folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("pools.jsonl").write_text(json.dumps(POOL) + "\n")
    Path("labels.qrels").write_text("q1 0 a 1\nq1 0 b 0\n")
    Path("mine.run").write_text("q1 Q0 a 1 2.0 mine\nq1 Q0 b 2 1.0 mine\n")
    Path("games.csv").write_text("winner,loser\na,b\nb,a\na,b\n")


def said(capsys, *words):
    """The exit status, and the one line on stderr that is the last."""
    status = cli.main([*words])
    lines = capsys.readouterr().err.splitlines()
    return status, lines[-1] if lines else ""


READING = {
    "annotate": ("annotate", "{}", "--out", "o", "--judges", "offline:bm25"),
    "bakeoff": ("bakeoff", "--truth", "{}", "--runs", "mine.run", "--out", "o"),
    "runs": ("bakeoff", "--truth", "labels.qrels", "--runs", "{}", "--out", "o"),
    "fit": ("fit", "{}"),
    "convert": ("convert", "qrels", "{}", "--out", "o.txt"),
    "agree": ("agree", "{}", "--human", "labels.qrels"),
}


@pytest.mark.parametrize("command", READING)
@pytest.mark.parametrize("name", ["pipe", "pipe.jsonl", "folder/pipe.jsonl"])
def test_a_pipe_is_refused_at_once_though_nobody_writes_to_it(capsys, command, name):
    Path("folder").mkdir()
    os.mkfifo(name)
    before = {*Path().rglob("*")}
    place = "folder" if name.startswith("folder") and command == "annotate" else name
    done = list[tuple[int, str]]()
    words = [word.format(place) for word in READING[command]]
    running = threading.Thread(target=lambda: done.append(said(capsys, *words)), daemon=True)
    running.start()
    running.join(60)
    assert done, "it waits for the pipe"
    status, line = done[0]
    assert status in (1, 2)
    assert "is a pipe or a device" in line
    assert "write it to a file" in line
    assert {*Path().rglob("*")} == before


def test_what_is_piped_into_a_command_is_refused(tmp_path):
    command = [sys.executable, "-m", "zelo_ray", *READING["annotate"]]
    words = [word.format("/dev/stdin") for word in command]
    ran = subprocess.run(
        words, input=Path("pools.jsonl").read_text(), capture_output=True, text=True, check=False
    )
    assert (ran.returncode, ran.stderr.count("\n")) == (1, 1)
    assert ran.stderr.startswith("zelo-ray: /dev/stdin: is a pipe or a device")


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (lambda: Path("in").mkdir(), "in: holds no file of data; it is empty"),
        (lambda: (Path("in").mkdir(), Path("in/page.html").touch()), "it holds page.html"),
        (lambda: Path("on").mkdir(), "in: no such file"),
    ],
    ids=["empty", "of other files", "not there"],
)
def test_a_directory_without_input_is_not_said_to_be_meant_by_itself(capsys, make, says):
    make()
    status, line = said(capsys, *(word.format("in") for word in READING["annotate"]))
    assert status != 0
    assert says in line
    assert "did you mean 'in'" not in line
    assert not Path("o").exists()


@pytest.mark.parametrize(
    "words",
    [
        ("annotate", "pools.jsonl", "--show-metadata", "brand", "--judges", "offline"),
        ("annotate", "labels.qrels", "--judges", "offline"),
        ("annotate", "empty.jsonl", "--judges", "offline"),
        ("annotate", "pools.jsonl", "--show-query", "x", "--judges", "offline"),
        ("bakeoff", "--truth", "none.qrels", "--runs", "mine.run"),
        ("bakeoff", "--truth", "labels.qrels", "--runs", "none.run"),
        ("bakeoff", "--truth", "labels.qrels", "--runs", "mine.run", "--measures", "nDGC@10"),
        ("bakeoff", "--truth", "labels.qrels", "--rerankers", "bm25"),
        (
            "annotate",
            "pools.jsonl",
            "--show-metadata",
            "x",
            "--judges",
            "offline",
            "--ledger",
            "new/l",
        ),
        ("label", "--contest", "none", "--labels", "2"),
        ("agree", "labels.qrels", "--human", "none.qrels"),
        ("compare-labels", "none", "labels.qrels"),
        ("drift", "none", "none"),
        ("compare-protocols", "pools.jsonl", "--human", "none.csv", "--judges", "offline"),
    ],
    ids=" ".join,
)
def test_a_command_that_is_refused_leaves_no_folder(capsys, words):
    Path("empty.jsonl").touch()
    before = {*Path().rglob("*")}
    status, line = said(capsys, *words, "--out", "new/deep/o")
    assert status in (1, 2), line
    assert {*Path().rglob("*")} == before


def test_what_was_there_before_a_refusal_stays(capsys):
    Path("o").mkdir()
    Path("o/mine.txt").write_text("x")
    words = ("annotate", "pools.jsonl", "--show-metadata", "brand", "--judges", "offline")
    assert said(capsys, *words, "--out", "o")[0] == 2
    assert Path("o/mine.txt").read_text() == "x"


# A record that is broken


BROKEN = ['{"finished": tr', "[1]", '"x"', "", '{"options": 7}', '{"summary": []}', "\xff"]


@pytest.fixture(scope="module")
def finished(one_ray, tmp_path_factory):
    """Results of annotate."""
    folder = tmp_path_factory.mktemp("finished")
    pools, out = folder / "pools.jsonl", folder / "out"
    pools.write_text(json.dumps(POOL) + "\n")
    judges = ("--judges", "offline:bm25")
    status, printed = one_ray.annotate(pools, out, bare_environment(), *judges)
    assert status == 0, printed
    return out


@pytest.mark.ray
@pytest.mark.parametrize("text", BROKEN)
def test_a_broken_record_is_one_line_in_every_command_that_reads_it(capsys, finished, text):
    shutil.copytree(finished, "out")
    Path("out/run.json").write_bytes(text.encode("latin-1"))
    for words in (
        ("annotate", "pools.jsonl", "--out", "out", "--judges", "offline:bm25"),
        ("explain", "out", "--query", "q1"),
        ("report", "out"),
        ("agree", "out", "--human", "labels.qrels"),
        ("bakeoff", "--truth", "out", "--runs", "mine.run", "--out", "contest"),
        ("drift", "out", "out"),
    ):
        status, line = said(capsys, *words)
        assert status in (1, 2), words
        assert "out/run.json: " in line, words
        assert "; move it away and run the command again" in line, words
    Path("out/run.json").unlink()
    status, _ = said(capsys, "annotate", "pools.jsonl", "--out", "out", "--judges", "offline:bm25")
    assert status == 0


# A disk that is full


@pytest.mark.parametrize(
    ("words", "name"),
    [
        (("fit", "games.csv", "--out", "disk/ratings.csv"), "ratings.csv"),
        (("convert", "qrels", "labels.qrels", "--out", "disk/qrels.txt"), "qrels.txt"),
        (("agree", "labels.qrels", "--human", "labels.qrels", "--out", "disk"), ""),
        (("bakeoff", "--truth", "labels.qrels", "--runs", "mine.run", "--out", "disk"), ""),
    ],
    ids=["fit", "convert", "agree", "bakeoff"],
)
def test_a_full_disk_is_told_with_its_file_and_what_to_do(tmp_path, capsys, words, name):
    with small_disk(tmp_path / "disk"):
        (tmp_path / "disk" / "fill").write_bytes(bytes(64 * 1024))
        status, line = said(capsys, *words)
        left = [each.name for each in (tmp_path / "disk").rglob("*.partial*")]
    assert status == 1
    assert f"disk/{name}" in line
    assert "the disk is full; make room" in line
    assert left == []
