"""The command line: what it takes, what it says, and how it ends."""

import io
import os
import re
import subprocess
import sys
import types
from pathlib import Path

import pytest

from tests.builders import line_of, pool_of, results_of, set_in_file, write_run
from zelo_ray import cli
from zelo_ray.engine.lock import claim_folder
from zelo_ray.errors import InputError, LedgerError, LockError, PanelError, RayUnavailable, Stopped
from zelo_ray.options import COMMANDS, AnnotateOptions
from zelo_ray.options.command import has_flag
from zelo_ray.reasons import Unscored, UnscoredReason


@pytest.fixture
def pipeline(monkeypatch):
    """A stand-in for the job on Ray: it notes its options, then does as the test says."""
    module = types.ModuleType("zelo_ray.commands.annotate.job")
    module.asked = []

    def judge_pools(options, watch):
        module.asked.append(options)
        watch.say("1 query")
        return module.run(options)

    module.judge_pools = judge_pools
    monkeypatch.setitem(sys.modules, "zelo_ray.commands.annotate.job", module)
    return module


@pytest.fixture
def done(pipeline):
    """A job that ends with results."""

    def finish(options):
        out = Path(options.out)
        summary = results_of(out, [pool_of()])
        for name, value in pipeline.figures.items():
            setattr(summary, name, value)
        write_run(out, summary)
        return summary

    pipeline.run, pipeline.figures = finish, {}
    return pipeline


def failing(error):
    def run(_):
        raise error

    return run


def outcome(capsys, *argv):
    """Exit status, standard output, standard error."""
    try:
        status = cli.main([str(each) for each in argv])
    except SystemExit as ended:
        status = ended.code
    out, err = capsys.readouterr()
    return status, out, err


def options_from(pipeline, capsys, *argv):
    pipeline.run = failing(Stopped("enough"))
    outcome(capsys, "annotate", *argv)
    return pipeline.asked[-1]


# What it takes


def test_help_shows_every_flag_and_fits(capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "100")
    status, text, _ = outcome(capsys, "annotate", "--help")
    assert status == 0
    assert "\n  INPUT " in text
    for name, field in AnnotateOptions.model_fields.items():
        if name != "inputs":
            assert (f"--{name.replace('_', '-')}" in text) is has_flag(field)
    assert len({*re.findall(r"^  (--[a-z-]+)", text, re.M)}) <= 50
    assert max(map(len, text.splitlines())) <= 100
    assert "None" not in text
    assert "Undefined" not in text
    status, text, _ = outcome(capsys, "--help")
    assert status == 0
    assert all(command in text for command in COMMANDS)


def test_the_help_says_of_each_command_what_its_options_say():
    assert {name: COMMANDS[name].does for name in COMMANDS} == cli.PURPOSES


def test_the_help_imports_nothing_that_takes_long():
    slow = "{'pydantic', 'numpy', 'pyarrow', 'ray', 'yaml'} & {*sys.modules}"
    asked = f"import sys; from zelo_ray import cli; cli.main(['--help']); sys.exit(len({slow}))"
    subprocess.run([sys.executable, "-c", asked], check=True, capture_output=True)


def test_flags_become_options(pipeline, capsys):
    options = options_from(
        pipeline,
        capsys,
        *("a.jsonl", "b.jsonl", "--out", "o", "--judges", "offline:bm25", "openai"),
        *("--show-metadata", "source", "year", "--document-limit", "20", "--seed", "7"),
        *("--retry-failures", *set_in_file(timeout=2.5)),
    )
    assert options.inputs == ("a.jsonl", "b.jsonl")
    assert options.judges == ("offline:bm25", "openai")
    assert options.show_metadata == ("source", "year")
    assert (options.document_limit, options.seed, options.timeout) == (20, 7, 2.5)
    assert options.retry_failures is True
    assert options.verbose is False


@pytest.mark.parametrize("data", [b"A=\xff\xfe\n", b"A=a\0b\n"], ids=repr)
def test_a_dotenv_file_that_is_no_text_is_one_line(capsys, tmp_path, monkeypatch, data):
    monkeypatch.delenv("PYTHON_DOTENV_DISABLED")
    (tmp_path / ".env").write_bytes(data)
    monkeypatch.chdir(tmp_path)
    status, _, err = outcome(capsys, "report", "out")
    assert (status, err.count("\n")) == (2, 1)
    assert err.startswith("zelo-ray: .env: cannot be read (")


# How it ends


def test_status_0_is_a_complete_run(done, capsys, tmp_path):
    status, out, err = outcome(capsys, "annotate", "a.jsonl", "--out", tmp_path)
    assert (status, err) == (0, "1 query\n")
    assert f"{tmp_path}/annotated.jsonl" in out
    assert (tmp_path / "report.html").exists()


@pytest.mark.parametrize(
    "figures",
    [
        {"failures": 3},
        {"rejected": 2},
        {"unscored": {f"q{i}": Unscored(UnscoredReason.OTHER, "why") for i in range(25)}},
    ],
)
def test_status_3_is_a_run_with_gaps(done, capsys, tmp_path, figures):
    done.figures = figures
    assert outcome(capsys, "annotate", "a.jsonl", "--out", tmp_path)[0] == 3


ENDS = {
    "no judge": (PanelError("no judge: name a panel"), 2),
    "no input": (InputError("a.jsonl: no such file"), 1),
    "in use": (LockError("out is in use by another run (process 7)"), 1),
    "Ray": (RayUnavailable("RAY_ADDRESS=a:1: no Ray can be joined there (gone)"), 1),
    "disk": (LedgerError("out/replies: No space left on device"), 1),
    "stopped": (Stopped("openai: the key was refused (0 replies of this run are kept)"), 1),
    "interrupt": (KeyboardInterrupt(), 1),
}


@pytest.mark.parametrize("name", ENDS)
def test_an_error_is_one_line_on_standard_error(pipeline, capsys, name):
    error, expected = ENDS[name]
    pipeline.run = failing(error)
    status, out, err = outcome(capsys, "annotate", "a.jsonl", "--out", "o")
    assert (status, out) == (expected, "")
    assert err.count("\n") == 2
    assert err.startswith(f"1 query\nzelo-ray: {str(error) or 'interrupted'}")


WRONG = {
    "annotate --out o": "inputs: ",
    "annotate a.jsonl": "out: ",
    "annotate a.jsonl --out o --cycles many": "cycles: ",
    "annotate a.jsonl --out o --protocol best": "there are zelo",
    "annotate a.jsonl --out o --config gone.yaml": "gone.yaml: cannot be read",
    "annotate a.jsonl --out o --sead 7": "(did you mean '--seed'?)",
    "annotate a.jsonl --out o --cycle 7": "did you mean '--cycles'",
    "annotate a.jsonl --out o --min-coverage 1": "--config",
    "annotate a.jsonl --seed": "annotate: --seed: expected one argument",
    "batches out other": "batches: unexpected 'other'",
    "convert qrel": "did you mean 'qrels'",
    "anotate": "command 'anotate' (did you mean 'annotate'?)",
    "": "command",
    "explain out --doc d": "doc: needs query",
    "report nowhere://x/y": "nowhere://x/y: Protocol not known",
    "explain nowhere://x/y --query q --doc d": "nowhere://x/y: Protocol not known",
}


def test_status_2_is_for_options_and_says_which(pipeline, capsys):
    for words, says in WRONG.items():
        status, _, err = outcome(capsys, *words.split())
        assert status == 2, words
        assert says in err.splitlines()[-1], words
    assert pipeline.asked == []


# Before Ray starts, with the job itself


@pytest.fixture(scope="module")
def _ray_imported():
    pytest.importorskip("ray")
    import zelo_ray.ray  # noqa: F401 - seconds that count for no test


@pytest.mark.usefixtures("_ray_imported")
def test_the_job_itself_says_in_one_line_what_keeps_it_from_starting(capsys, tmp_path):
    good, file, busy = (tmp_path / name for name in ("in.jsonl", "file", "busy"))
    good.write_bytes(line_of(pool_of()))
    file.touch()
    with claim_folder(str(busy)):
        for words, expected, says in (
            (f"{good} --out {tmp_path}/o", 2, "--judges offline"),
            (f"{good} --out {tmp_path}/o --judges openai", 2, "set OPENAI_API_KEY"),
            (f"{good} --out {tmp_path}/o --judges mistral:x", 2, "unknown provider 'mistral'"),
            (f"gone --out {tmp_path}/o --judges offline", 1, "gone: no such file"),
            (f"{good} --out {busy} --judges offline", 1, f"process {os.getpid()}"),
            (f"{good} --out {file} --judges offline", 1, str(file)),
            (f"{good} --out nowhere://x/y --judges offline", 2, "nowhere"),
        ):
            status, printed, err = outcome(capsys, "annotate", *words.split())
            assert (status, printed, err.count("\n")) == (expected, "", 1), words
            assert says in err


# Reading results


@pytest.fixture
def results(tmp_path):
    summary = results_of(tmp_path, [pool_of()])
    write_run(tmp_path, summary)
    return tmp_path


PIPE = """
import os, sys
from zelo_ray import cli
read, write = os.pipe()
os.close(read)
os.dup2(write, 1)
sys.exit(cli.main(sys.argv[1:]))
"""


def test_a_reader_that_has_read_enough_hears_nothing_more(results):
    command = [sys.executable, "-c", PIPE, "explain", str(results), "--query", "q1"]
    ended = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (ended.returncode, ended.stderr) == (1, "")


def test_a_terminal_that_knows_few_letters_is_told_what_it_can_show(results, monkeypatch):
    terminal = io.TextIOWrapper(io.BytesIO(), encoding="ascii")
    monkeypatch.setattr("sys.stdout", terminal)
    assert cli.main(["explain", str(results), "--query", "q1"]) == 0
    assert rb"\xb1" in terminal.buffer.getvalue()


def test_a_full_disk_behind_the_output_is_one_line(results, capsys, monkeypatch):
    with Path("/dev/full").open("w") as full:
        monkeypatch.setattr("sys.stdout", full)
        assert cli.main(["explain", str(results), "--query", "q1"]) == 1
        assert capsys.readouterr().err == "zelo-ray: output: No space left on device\n"


INTERRUPTED = """
import os, signal, sys
from zelo_ray import cli

def interrupted_as_it_ends(words, output):
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
    program = [sys.executable, "-c", INTERRUPTED.format(again=again)]
    ended = subprocess.run(program, capture_output=True, text=True, check=False)
    assert ended.returncode == 1
    assert "Traceback" not in ended.stderr
    assert ended.stderr.count("\n") == 1
    assert ended.stderr.startswith("zelo-ray: interrupted")
