"""The command line: what it takes, what it says, and how it ends."""

import io
import re
import subprocess
import sys
import types
from pathlib import Path

import pytest

from tests.helpers.builders import pool_of, results_of, write_run
from zelo_ray import cli
from zelo_ray.commands import COMMANDS
from zelo_ray.errors import InputError, LockError, PanelError, Stopped
from zelo_ray.options import AnnotateOptions, has_flag
from zelo_ray.reasons import Unscored, UnscoredReason


@pytest.fixture
def outcome(capsys):
    """Exit status, standard output, standard error of a command."""

    def run(*words):
        try:
            status = cli.main([str(word) for word in words])
        except SystemExit as ended:
            status = ended.code
        return status, *capsys.readouterr()

    return run


@pytest.fixture
def job(monkeypatch):
    """A stand-in for a job: it notes its options, then does what ``run`` says."""
    stand_in = types.SimpleNamespace(asked=[], run=None)

    def judge_pools(options, watch):
        stand_in.asked.append(options)
        watch.say("1 query")
        return stand_in.run(options)

    monkeypatch.setattr("zelo_ray.commands.annotate.run.judge_pools", judge_pools)
    return stand_in


def run_apart(program, *words):
    """Run a program in a process of its own."""
    command = [sys.executable, "-c", program, *map(str, words)]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def test_help_shows_every_flag_and_fits(outcome, monkeypatch):
    monkeypatch.setenv("COLUMNS", "100")
    status, text, _ = outcome("annotate", "--help")
    assert status == 0
    for name, field in AnnotateOptions.model_fields.items():
        if name != "inputs":
            shown = re.search(rf"--{name.replace('_', '-')}\s", text)
            assert bool(shown) is has_flag(field), name
    assert len({*re.findall(r"^  (--[a-z-]+)", text, re.M)}) <= 50
    assert max(map(len, text.splitlines())) <= 100
    assert not {"None", "Undefined"} & {*re.findall(r"\w+", text)}
    assert "--depth" not in outcome("convert", "qrels", "--help")[1], "of a format only its own"
    status, text, _ = outcome("--json", "--help")
    assert outcome("--help") == (status, text, "")
    assert (status, [command for command in COMMANDS if command not in text]) == (0, [])


def test_a_run_is_complete_or_has_gaps(job, outcome, tmp_path):
    gaps = {"q": Unscored(UnscoredReason.OTHER, "why")}
    for figures, expected in (({}, 0), ({"failures": 3}, 3), ({"unscored": gaps}, 3)):

        def finish(options, figures=figures):
            summary = results_of(Path(options.out), [pool_of()])
            for name, value in figures.items():
                setattr(summary, name, value)
            write_run(Path(options.out), summary)
            return summary

        job.run = finish
        words = ("--judges", "offline:bm25", "openai", "--retry-failures", "--seed", "7")
        status, out, err = outcome("annotate", "a.jsonl", "b.jsonl", "--out", tmp_path, *words)
        assert (status, err.splitlines()[0]) == (expected, "1 query")
        assert f"{tmp_path}/failures.parquet" in out
        assert (tmp_path / "report.html").exists()
    options = job.asked[0]
    assert (options.inputs, options.judges) == (("a.jsonl", "b.jsonl"), ("offline:bm25", "openai"))
    assert (options.retry_failures, options.seed) == (True, 7)


def test_an_error_is_one_line_on_standard_error(job, outcome):
    for error, expected in (
        (PanelError("no judge: name a panel"), 2),
        (InputError("a.jsonl: no such file"), 1),
        (LockError("out is in use by another run (process 7)"), 1),
        (Stopped("openai: the key was refused (0 replies of this run are kept)"), 1),
        (KeyboardInterrupt(), 1),
    ):

        def fail(_, error=error):
            raise error

        job.run = fail
        status, out, err = outcome("annotate", "a.jsonl", "--out", "o")
        assert (status, out, err.count("\n")) == (expected, "", 2)
        assert err.startswith(f"1 query\nzelo-ray: {str(error) or 'interrupted'}")


def test_status_2_is_for_options_and_says_which(job, outcome):
    for words, says in {
        "annotate --out o": "inputs: ",
        "annotate a.jsonl --out o --cycles many": "cycles: ",
        "annotate a.jsonl --out o --protocol best": "there are zelo",
        "annotate a.jsonl --out o --config gone.yaml": "gone.yaml: cannot be read",
        "annotate a.jsonl --out o --sead 7": "did you mean '--seed'",
        "annotate a.jsonl --out o --min-coverage 1": "--config",
        "annotate a.jsonl --seed": "annotate: --seed: expected one argument",
        "batches out other": "batches: unexpected 'other'",
        "convert qrel": "did you mean 'qrels'",
        "anotate": "did you mean 'annotate'",
        "": "command",
        "report nowhere://x/y": "nowhere://x/y: Protocol not known",
        "report out --progress maybe": "maybe",
    }.items():
        status, _, err = outcome(*words.split())
        assert (status, says in err.splitlines()[-1]) == (2, True), words
    assert job.asked == []


PIPE = """
import os, sys
from zelo_ray import cli
read, write = os.pipe()
os.close(read)
os.dup2(write, 1)
sys.exit(cli.main(sys.argv[1:]))
"""


def test_an_output_that_takes_no_more_or_few_letters(tmp_path, outcome, monkeypatch):
    write_run(tmp_path, results_of(tmp_path, [pool_of()]))
    words = ("explain", tmp_path, "--query", "q1")
    ended = run_apart(PIPE, *words)
    assert (ended.returncode, ended.stderr) == (1, ""), "who has read enough hears no more"
    terminal = io.TextIOWrapper(io.BytesIO(), encoding="ascii")
    monkeypatch.setattr("sys.stdout", terminal)
    assert outcome(*words)[0] == 0
    assert rb"\xb1" in terminal.buffer.getvalue()
    with Path("/dev/full").open("w") as full:
        monkeypatch.setattr("sys.stdout", full)
        status, _, err = outcome(*words)
    assert (status, err) == (1, "zelo-ray: output: No space left on device\n")


INTERRUPTED = """
import os, signal, sys
from zelo_ray import cli

def interrupted_as_it_ends(output):
    try:
        os.kill(os.getpid(), signal.SIGINT)
    finally:
        {again}

cli._command = interrupted_as_it_ends
sys.argv = ["zelo-ray", "annotate"]
sys.exit(cli.main())
"""


@pytest.mark.parametrize("again", ["pass", "os.kill(os.getpid(), signal.SIGINT)"])
def test_interrupts_end_a_command_without_a_traceback(again):
    ended = run_apart(INTERRUPTED.format(again=again))
    assert (ended.returncode, ended.stderr.count("\n")) == (1, 1)
    assert ended.stderr.startswith("zelo-ray: interrupted")
