"""A run seen from elsewhere: what it records of its progress, and what an onlooker makes of it."""

import json
import os
import time

import fsspec
import pytest

from zelo_ray.cli import main
from zelo_ray.commands import watch as watch_module
from zelo_ray.commands.running import run_recorded
from zelo_ray.commands.watch import poll
from zelo_ray.engine.job import claim_output
from zelo_ray.engine.tally import LastProblem, Tally
from zelo_ray.errors import ExitStatus, Stopped
from zelo_ray.files.run_record import find_record
from zelo_ray.files.storage import write_json
from zelo_ray.options import AnnotateOptions
from zelo_ray.report.progress import ProgressMeter
from zelo_ray.report.results import Results
from zelo_ray.report.watches import PROGRESS, ProgressRecorder, SilentWatch

EPOCH, JUDGE = 1.7e9, "openai:gpt-6-luna"
TALLY = Tally(
    known=10,
    in_flight=2,
    answered=30,
    dollars=1.25,
    statuses={"ok": 27, "refused": 2, "invalid": 1},
    trouble=LastProblem(EPOCH - 5, "the server is busy\x1b"),
)


def write(out, **fields):
    """Write what a run elsewhere has recorded."""
    meter = ProgressMeter()
    meter.cap = (5.0, 0.5)
    part = meter.measure({JUDGE: TALLY}, {JUDGE: 100}, 0.0)
    record = {"command": "annotate", "process": 9, "host": "elsewhere", "token": "one"}
    record |= {"every": 2.0, "began_at": EPOCH - 65, "written_at": EPOCH, "state": "running"}
    record |= {"exit_status": None, "message": "", "next_line": "", "parts": {"": part}}
    write_json(str(out), PROGRESS, {**record, **fields})


def read(out):
    return find_record(str(out), PROGRESS)


def wait_for(condition):
    for _ in range(600):
        if found := condition():
            return found
        time.sleep(0.05)
    raise AssertionError("it did not come")


# What an onlooker makes of it


@pytest.fixture
def clock(monkeypatch):
    """A clock that moves while an onlooker sleeps; the other machine's differs by ``skew``."""

    class Clock:
        now, skew = 100.0, 0.0

        @classmethod
        def monotonic(cls):
            return cls.now

        @classmethod
        def time(cls):
            return EPOCH + cls.now - 100 + cls.skew

        @classmethod
        def sleep(cls, _):
            cls.now += 10

    monkeypatch.setattr(watch_module, "time", Clock)
    return Clock


def test_a_run_that_writes_nothing_is_silent(tmp_path, clock):
    assert next(poll(str(tmp_path))).state == "nothing"
    for skew, first in ((0, "running"), (3600, "silent"), (-3600, "running")):
        clock.skew = skew - clock.now + 100
        write(tmp_path)
        states = poll(str(tmp_path))
        assert next(states).state == first  # only the first look goes by the time in the file
        write(tmp_path, written_at=EPOCH + 2)
        assert [next(states).state for _ in range(5)] == ["running"] * 3 + ["silent"] * 2
        write(tmp_path, written_at=EPOCH + 4)
        assert next(states).state == "running"
        write(tmp_path, state="ended")
        assert [each.state for each in states] == ["ended"]


def test_what_is_damaged_is_refused_and_steers_no_terminal(tmp_path, capsys):
    for content in ("[]", "{", '{"state": "running"}', '{"written_at": "x", "parts": 1}'):
        (tmp_path / PROGRESS).write_text(content)
        assert main(["watch", str(tmp_path), "--once"]) == 1
        assert PROGRESS in capsys.readouterr().err
    write(tmp_path, command="\x1b[2J")
    assert main(["watch", str(tmp_path), "--once"]) == 0
    assert "\x1b" not in capsys.readouterr().out


def test_the_figures_of_a_run_are_shown_and_a_document(tmp_path, capsys):
    write(tmp_path)
    assert main(["watch", str(tmp_path), "--once"]) == 0
    shown = capsys.readouterr().out
    for figure in ("40/100", "$1.75 of $5.00", "the server is busy", "silent"):
        assert figure in shown
    assert main(["watch", str(tmp_path), "--once", "--json"]) == 0
    result = json.loads(capsys.readouterr().out)["result"]
    assert (result["state"], result["record"]["parts"][""]["failures"]) == ("silent", 3)
    write(tmp_path, state="failed", exit_status=1, message="interrupted")
    assert main(["watch", str(tmp_path)]) == 0
    assert "exit status 1: interrupted" in capsys.readouterr().out


# What a run records


@pytest.fixture(params=["disk", "store"])
def out(request, tmp_path):
    """An output on a disk, and one in an object store."""
    yield str(tmp_path / "out") if request.param == "disk" else "memory://watched/out"
    fsspec.filesystem("memory").store.clear()


def options_for(out):
    return AnnotateOptions(inputs=("in.jsonl",), out=out, judges=("offline",))


def run(out, end, shows=True):
    """Run a job that shows its progress, and ends with results or an error."""

    def job(options, watch):
        with claim_output(options, watch, "annotate"):
            if shows:
                watch.show({JUDGE: TALLY}, {JUDGE: 100})
            if isinstance(end, BaseException):
                raise end
        return end

    return run_recorded(job, options_for(str(out)), SilentWatch())


def test_a_run_records_its_progress_while_it_holds_its_output(out):
    stages, shown = [], []

    def job(options, watch):
        assert read(out) == {}
        with claim_output(options, watch, "annotate"):
            watch.budget(5.0, 0.5)
            watch.show({JUDGE: TALLY}, {JUDGE: 100})
            stages.append(wait_for(lambda: read(out)))
        with claim_output(options.model_copy(update={"out": f"{out}/zelo"}), watch, "annotate"):
            watch.show({JUDGE: Tally(answered=1)}, {JUDGE: 7})
        step = "annotate s3://me:secret@host/x"
        return Results({}, status=ExitStatus.INCOMPLETE, next_command=step)

    class Shown(SilentWatch):
        def budget(self, *said):
            shown.append(said)

        show = budget

    run_recorded(job, options_for(out), Shown())
    assert shown[:2] == [(5.0, 0.5), ({JUDGE: TALLY}, {JUDGE: 100})]
    during, after = stages[0], read(out)
    assert (during["state"], during["command"]) == ("running", "annotate")
    assert during["process"] == os.getpid()
    (only,) = during["parts"].values()
    assert (only["max_usd"], only["judges"][JUDGE]["done"]) == (5.0, 40)
    assert (after["state"], after["exit_status"], after["token"]) == ("ended", 3, during["token"])
    assert [*after["parts"]] == ["", "zelo"]
    assert after["next_line"] == "Next step: annotate s3://…@host/x"
    assert next(poll(out)).state == "ended"


def test_a_run_that_fails_shows_no_text_of_a_defect(tmp_path):
    for error, message in (
        (Stopped("no http://me:secret@host"), "no http://…@host"),
        (KeyboardInterrupt(), "interrupted"),
        (RuntimeError("a text of a prompt"), "RuntimeError"),
    ):
        with pytest.raises(type(error)):
            run(tmp_path, error)
        end = read(tmp_path)
        assert (end["state"], end["exit_status"], end["message"]) == ("failed", 1, message)


def test_the_end_of_a_run_does_not_hide_the_next_one(tmp_path):
    recorder = ProgressRecorder(SilentWatch())
    recorder._record["every"] = 600.0  # or both would write at once
    recorder.follow(str(tmp_path), "annotate")
    wait_for(lambda: read(tmp_path))
    write(tmp_path, token="the next one")
    recorder.end(0, "")
    assert read(tmp_path)["token"] == "the next one"
