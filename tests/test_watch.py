"""A run seen from elsewhere: what it records of its progress, and what an onlooker makes of it."""

import io
import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import fsspec
import pytest
from rich.console import Console

from zelo_ray.cli import main
from zelo_ray.command_options import WatchOptions
from zelo_ray.commands.running import run_recorded
from zelo_ray.commands.watch.look import Onlooker, Phase
from zelo_ray.commands.watch.run import watch_run
from zelo_ray.commands.watch.screen import describe_in_a_line, describe_run
from zelo_ray.engine.job import claim_output
from zelo_ray.engine.lock import RUN_LOCK, claim_folder
from zelo_ray.engine.tally import LastProblem, Tally
from zelo_ray.errors import ExitStatus, InputError, Stopped
from zelo_ray.files.storage import write_json
from zelo_ray.options import AnnotateOptions
from zelo_ray.reasons import Disabled, StopReason
from zelo_ray.report.watches import SilentWatch
from zelo_ray.report.progress.figures import RunProgress, judge_progress
from zelo_ray.report.recorder import ProgressRecorder
from zelo_ray.report.progress.snapshot import (
    PROGRESS,
    PartProgress,
    ProgressSnapshot,
    ProgressState,
    parse_snapshot,
)
from zelo_ray.report.results import Results

EPOCH, JUDGE, HERE = 1.7e9, "openai:gpt-6-luna", socket.gethostname()
TALLY = Tally(
    known=10,
    queries=3,
    in_flight=2,
    answered=30,
    dollars=1.25,
    statuses={"ok": 27, "refused": 2, "invalid": 1},
    limits={"rpm": 300.0},
    trouble=LastProblem(EPOCH - 5, "the server is busy"),
)
STOPPED = Tally(spared=4, disabled=Disabled(StopReason.BUDGET, "the budget is used up"))


def part(name=""):
    standings = [judge_progress(JUDGE, TALLY, 100, 2.0, 15.0), judge_progress("b", STOPPED, 50, 0)]
    return PartProgress(name, RunProgress(standings, (5.0, 0.5)), EPOCH - 3)


def written(out, place=PROGRESS, **fields):
    """Write what a run elsewhere has recorded; return it."""
    plain = {"command": "annotate", "process": os.getpid(), "host": "elsewhere", "token": "one"}
    plain |= {"count": 1, "every": 2.0, "began_at": EPOCH - 65, "written_at": EPOCH}
    snapshot = ProgressSnapshot(**{**plain, "parts": (part(),), **fields})
    (Path(out) / place).write_bytes(snapshot.to_json())
    return snapshot


def read(out):
    fs, path = fsspec.url_to_fs(out)
    place = f"{path}/{PROGRESS}"
    return parse_snapshot(fs.cat_file(place)) if fs.exists(place) else None


def text_of(view):
    console = Console(file=io.StringIO(), width=200, highlight=False)
    for line in describe_run(view, "out", 200):
        console.print(line)
    return console.file.getvalue()


def wait_for(condition):
    for _ in range(600):
        if found := condition():
            return found
        time.sleep(0.05)
    raise AssertionError("it did not come")


# What an onlooker makes of it


def test_a_snapshot_comes_back_as_it_was_written(tmp_path):
    ended = {"state": ProgressState.FAILED, "status": 1, "message": "stopped", "next_line": "Next"}
    snapshot = written(tmp_path, **ended)
    assert read(str(tmp_path)) == snapshot
    for damaged in (b"", b"[]", b"{}", snapshot.to_json()[:-9], b'{"parts": [1], "state": "?"}'):
        assert parse_snapshot(damaged) is None


def test_figures_of_a_run_at_work(tmp_path):
    assert "nothing has been" in text_of(Onlooker(str(tmp_path)).look(0.0, EPOCH))
    for finished in (True, False):
        record = {"kind": "annotate", "finished": finished, "queries": 12}
        write_json(str(tmp_path), "run.json", record)
        view = Onlooker(str(tmp_path)).look(0.0, EPOCH)
        assert (view.phase is Phase.ENDED) == finished
    written(tmp_path)
    view = Onlooker(str(tmp_path)).look(0.0, EPOCH + 1)
    assert (view.phase, view.is_settled, view.quiet) == (Phase.RUNNING, True, 1)
    text = text_of(view)
    for figure in ("1 min 6 s", "3 of 12", "1 invalid, 2 refused", "$1.75 of $5.00", "40/146"):
        assert figure in text
    assert "$1.75 of $5.00" in describe_in_a_line(view, "out")
    written(tmp_path, command="protocols", parts=tuple(map(part, ("graded", "zelo") * 6)))
    text = text_of(Onlooker(str(tmp_path)).look(0.0, EPOCH))
    assert "480/1,752 replies · 36 failures · $15.00" in text


def test_a_wrong_clock_makes_no_run_silent(tmp_path):
    for skew in (-3600, 3600):
        written(tmp_path, count=1)
        onlooker = Onlooker(str(tmp_path))
        view = onlooker.look(0.0, EPOCH + skew)
        assert view.phase is Phase.RUNNING
        assert view.is_settled == (skew < 0)  # an hour may be true, so a second look decides
        written(tmp_path, count=2)
        for second, phase, quiet in ((1, "RUNNING", 0), (25, "RUNNING", 24), (40, "SILENT", 39)):
            view = onlooker.look(second, EPOCH + skew + second)
            assert (view.phase, view.quiet) == (Phase[phase], quiet)


def test_silence_is_certain_at_the_second_look(tmp_path):
    """Where its process is gone on this host, and where it is elsewhere."""
    with subprocess.Popen([sys.executable, "-c", ""]) as gone:
        gone.wait()
    for fields, first, phase in (
        ({}, 240, Phase.SILENT),
        ({"process": gone.pid, "host": HERE}, 1, Phase.GONE),
    ):
        written(tmp_path, **fields)
        onlooker = Onlooker(str(tmp_path))
        assert not onlooker.look(0.0, EPOCH + first).is_settled  # it may be in a container
        view = onlooker.look(5.0, EPOCH + first + 5)
        assert (view.phase, view.is_settled) == (phase, True)


def test_an_earlier_run_is_not_the_one_that_goes_on(tmp_path):
    written(tmp_path, state=ProgressState.ENDED, status=3, next_line="Next")
    onlooker = Onlooker(str(tmp_path))
    assert onlooker.look(0.0, EPOCH + 9000).phase is Phase.ENDED
    # Another process has locked the output, and has written nothing yet.
    holder = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    with holder:
        (tmp_path / RUN_LOCK).write_text(f"process {holder.pid} on {HERE}")
        assert onlooker.look(1.0, EPOCH + 9001).phase is Phase.BEGINNING
        holder.communicate(b"\n")
    assert onlooker.look(2.0, EPOCH + 9002).phase is Phase.ENDED
    written(tmp_path, token="two", written_at=EPOCH)
    view = onlooker.look(3.0, EPOCH + 9003)
    assert (view.phase, view.quiet) == (Phase.RUNNING, 0)


# What a run records


@pytest.fixture(params=["disk", "store"])
def out(request, tmp_path):
    """An output on a disk, and one in an object store."""
    yield str(tmp_path / "out") if request.param == "disk" else "memory://watched/out"
    fsspec.filesystem("memory").store.clear()


def options_for(out):
    return AnnotateOptions(inputs=("in.jsonl",), out=out, judges=("offline",))


def run(out, end, shows=True):
    """Run a job that shows its progress, and ends with a report or an error."""

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
        assert read(out) is None
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
    assert (during.state, during.command) == (ProgressState.RUNNING, "annotate")
    assert during.process == os.getpid()
    (only,) = during.parts
    assert (only.progress.cap, only.progress.judges[0].tally) == ((5.0, 0.5), TALLY)
    assert (after.state, after.status, after.token) == (ProgressState.ENDED, 3, during.token)
    assert after.count > during.count
    assert [each.name for each in after.parts] == ["", "zelo"]
    assert after.next_line == "Next step: annotate s3://…@host/x"
    assert Onlooker(out).look(0.0, 0.0).phase is Phase.ENDED


def test_a_run_that_fails_shows_no_text_of_a_defect(tmp_path):
    for error, message in (
        (Stopped("no http://me:secret@host"), "no http://…@host"),
        (KeyboardInterrupt(), "interrupted"),
        (RuntimeError("a text of a prompt"), "RuntimeError"),
    ):
        with pytest.raises(type(error)):
            run(tmp_path, error)
        end = read(str(tmp_path))
        assert (end.state, end.status, end.message) == (ProgressState.FAILED, 1, message)


def test_what_ends_at_once_or_cannot_be_written_records_nothing(out, tmp_path):
    with pytest.raises(InputError):
        run(out, InputError("no such input"), shows=False)
    run(out, Results({}, is_current=True), shows=False)
    assert read(out) is None
    (tmp_path / f"{PROGRESS}.partial").mkdir()
    report = run(tmp_path, Results({}))
    assert (report.status, read(str(tmp_path))) == (ExitStatus.COMPLETE, None)


def test_the_end_of_a_run_does_not_hide_the_next_one(tmp_path):
    recorder = ProgressRecorder(SilentWatch())
    recorder.follow(str(tmp_path), "annotate")
    wait_for(lambda: read(str(tmp_path)))
    written(tmp_path, token="the next one")
    recorder.end(0, "")
    assert read(str(tmp_path)).token == "the next one"


# The command


def test_watching_takes_no_lock_and_writes_nothing(tmp_path, capsys):
    def times():
        return sorted((path.name, path.stat().st_mtime_ns) for path in tmp_path.iterdir())

    written(tmp_path, host=HERE, written_at=time.time())
    with claim_folder(str(tmp_path)):
        before = times()
        for place in (tmp_path, tmp_path / "none"):
            assert main(["watch", str(place), "--once"]) == 0
        assert times() == before
    assert "at work" in capsys.readouterr().out


def test_watching_ends_with_the_run(tmp_path):
    written(tmp_path, host=HERE, written_at=time.time())
    written(tmp_path, "end.json", state=ProgressState.ENDED, status=0, count=2)
    console, move = Console(file=io.StringIO(), width=200), "sleep 1.5; mv end.json " + PROGRESS
    with subprocess.Popen(["bash", "-c", move], cwd=tmp_path):
        lines, _ = watch_run(WatchOptions(run=str(tmp_path)), console)
    assert "has ended" in lines[0]
    assert console.file.getvalue().count("at work") == 1


def test_an_onlooker_leaves_with_an_interrupt(tmp_path):
    command = [sys.executable, "-m", "zelo_ray", "watch", str(tmp_path / "none")]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as watching:
        assert watching.stdout.readline()
        watching.send_signal(signal.SIGINT)
        assert watching.stdout.read() == ""
    assert watching.returncode == 0
