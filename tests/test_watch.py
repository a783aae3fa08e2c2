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

from zelo_ray.api.progress import run_recorded, run_watched
from zelo_ray.cli import main
from zelo_ray.commands.watch.look import Onlooker, Phase
from zelo_ray.commands.watch.run import watch_run
from zelo_ray.commands.watch.screen import describe_in_a_line, describe_run
from zelo_ray.engine.job import claim_output
from zelo_ray.engine.lock import RUN_LOCK, claim_folder
from zelo_ray.engine.tally import LastProblem, Tally
from zelo_ray.errors import ExitStatus, InputError, Stopped
from zelo_ray.formats.results import write_json
from zelo_ray.options import AnnotateOptions, WatchOptions
from zelo_ray.reasons import Disabled, StopReason
from zelo_ray.reports.parts import Report
from zelo_ray.reports.progress.events import SilentWatch
from zelo_ray.reports.progress.figures import RunProgress, judge_progress
from zelo_ray.reports.progress.recorder import ProgressRecorder
from zelo_ray.reports.progress.snapshot import (
    PROGRESS,
    PartProgress,
    ProgressSnapshot,
    ProgressState,
    parse_snapshot,
)

EPOCH = 1.7e9
JUDGE = "openai:gpt-6-luna"
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


def progress_of(tally=TALLY, cap=(5.0, 0.5)):
    standings = [judge_progress(JUDGE, tally, 100, 2.0, 15.0), judge_progress("b", STOPPED, 50, 0)]
    return RunProgress(standings, cap)


def snapshot_of(**fields):
    plain = {
        "command": "annotate",
        "process": os.getpid(),
        "host": "elsewhere",
        "token": "one",
        "count": 1,
        "every": 2.0,
        "began_at": EPOCH - 65,
        "written_at": EPOCH,
        "parts": (PartProgress("", progress_of(), EPOCH - 3),),
    }
    return ProgressSnapshot(**{**plain, **fields})


def written(out, **fields):
    (Path(out) / PROGRESS).write_bytes(snapshot_of(**fields).to_json())


def text_of(view, out="out"):
    file = io.StringIO()
    console = Console(file=file, width=200, highlight=False)
    for line in describe_run(view, out, 200):
        console.print(line)
    return file.getvalue()


def test_a_snapshot_comes_back_as_it_was_written():
    ended = {"state": ProgressState.FAILED, "status": 1, "message": "stopped", "next_line": "Next"}
    snapshot = snapshot_of(**ended)
    assert parse_snapshot(snapshot.to_json()) == snapshot
    for damaged in (b"", b"[]", b"{}", snapshot.to_json()[:-9], b'{"parts": [1], "state": "?"}'):
        assert parse_snapshot(damaged) is None


def test_figures_of_a_run_at_work(tmp_path):
    written(tmp_path)
    write_json(str(tmp_path), "run.json", {"kind": "annotate", "finished": False, "queries": 12})
    view = Onlooker(str(tmp_path)).look(0.0, EPOCH + 1)
    assert (view.phase, view.is_settled, view.quiet) == (Phase.RUNNING, True, 1)
    text = text_of(view)
    figures = ("1 min 6 s", "3 of 12", "1 invalid, 2 refused", "$1.75 of $5.00", "40/146", "30 s")
    assert all(figure in text for figure in figures)
    assert "$1.75 of $5.00" in describe_in_a_line(view, "out")
    parts = [PartProgress(name, progress_of(), EPOCH) for name in ("graded", "zelo")]
    written(tmp_path, command="protocols", parts=tuple(parts * 6))
    text = text_of(Onlooker(str(tmp_path)).look(0.0, EPOCH))
    assert "12 runs so far: 480/1,752 replies · 36 failures · $15.00" in text


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
        ({"process": gone.pid, "host": socket.gethostname()}, 1, Phase.GONE),
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
        (tmp_path / RUN_LOCK).write_text(f"process {holder.pid} on {socket.gethostname()}")
        assert onlooker.look(1.0, EPOCH + 9001).phase is Phase.BEGINNING
        holder.communicate(b"\n")
    assert onlooker.look(2.0, EPOCH + 9002).phase is Phase.ENDED
    written(tmp_path, token="two", written_at=EPOCH)
    view = onlooker.look(3.0, EPOCH + 9003)
    assert (view.phase, view.quiet) == (Phase.RUNNING, 0)


def test_what_is_there_without_progress(tmp_path):
    assert "nothing has been" in text_of(Onlooker(str(tmp_path / "none")).look(0.0, EPOCH))
    for finished in (False, True):
        write_json(str(tmp_path), "run.json", {"kind": "annotate", "finished": finished})
        view = Onlooker(str(tmp_path)).look(0.0, EPOCH)
        assert (view.phase is Phase.ENDED) == finished


@pytest.fixture(params=["disk", "store"])
def out(request, tmp_path):
    """An output on a disk, and one in an object store."""
    yield str(tmp_path / "out") if request.param == "disk" else "memory://watched/out"
    fsspec.filesystem("memory").store.clear()


def read(out):
    fs, path = fsspec.url_to_fs(out)
    place = f"{path}/{PROGRESS}"
    return parse_snapshot(fs.cat_file(place)) if fs.exists(place) else None


def options_for(out):
    return AnnotateOptions(inputs=("in.jsonl",), out=out, judges=("offline",))


def wait_for(condition):
    for _ in range(600):
        if found := condition():
            return found
        time.sleep(0.05)
    raise AssertionError("it did not come")


def test_a_run_records_its_progress_while_it_holds_its_output(out):
    stages = []

    def run(options, watch):
        assert read(out) is None
        with claim_output(options, watch, "annotate"):
            watch.budget(5.0, 0.5)
            watch.show({JUDGE: TALLY}, {JUDGE: 100})
            stages.append(wait_for(lambda: read(out)))
        with claim_output(options.model_copy(update={"out": f"{out}/zelo"}), watch, "annotate"):
            watch.show({JUDGE: Tally(answered=1)}, {JUDGE: 7})
        return Report("", (), (), (), complete=False, next_step=" ".join)

    shown = []

    class Shown(SilentWatch):
        def budget(self, cap, spent):
            shown.append((cap, spent))

        def show(self, tallies, planned):
            shown.append((tallies, planned))

    run_recorded(run, options_for(out), Shown(), words=["annotate", "s3://me:secret@host/x"])
    assert shown[:2] == [(5.0, 0.5), ({JUDGE: TALLY}, {JUDGE: 100})]
    during, after = stages[0], read(out)
    assert (during.state, during.command) == (ProgressState.RUNNING, "annotate")
    assert during.process == os.getpid()
    (part,) = during.parts
    assert part.progress.cap == (5.0, 0.5)
    assert part.progress.judges[0].tally == TALLY
    assert (after.state, after.status, after.token) == (ProgressState.ENDED, 3, during.token)
    assert after.count > during.count
    assert [part.name for part in after.parts] == ["", "zelo"]
    assert after.next_line == "Next step: annotate s3://…@host/x"
    assert Onlooker(out).look(0.0, 0.0).phase is Phase.ENDED


def test_a_run_that_fails_shows_no_text_of_a_defect(tmp_path):
    for error, message in (
        (Stopped("no http://me:secret@host"), "no http://…@host"),
        (KeyboardInterrupt(), "interrupted"),
        (RuntimeError("a text of a prompt"), "RuntimeError"),
    ):

        def run(options, watch, error=error):
            with claim_output(options, watch, "annotate"):
                watch.show({JUDGE: TALLY}, {JUDGE: 100})
                raise error

        with pytest.raises(type(error)):
            run_watched(run, options_for(str(tmp_path)), None)
        end = read(str(tmp_path))
        assert (end.state, end.status, end.message) == (ProgressState.FAILED, 1, message)


def test_what_is_refused_or_up_to_date_at_once_records_nothing(out):
    def refuse(options, watch):
        with claim_output(options, watch, "annotate"):
            raise InputError("no such input")

    def look(options, watch):
        with claim_output(options, watch, "annotate"):
            return Report("", (), (), (), is_up_to_date=True)

    with pytest.raises(InputError):
        run_watched(refuse, options_for(out), None)
    run_watched(look, options_for(out), None)
    assert read(out) is None


def test_a_run_goes_on_where_its_progress_cannot_be_written(tmp_path):
    (tmp_path / f"{PROGRESS}.partial").mkdir()

    def run(options, watch):
        with claim_output(options, watch, "annotate"):
            watch.show({JUDGE: TALLY}, {JUDGE: 100})
        return Report("", (), (), (), complete=True)

    report = run_watched(run, options_for(str(tmp_path)), None)
    assert report.status == ExitStatus.COMPLETE
    assert read(str(tmp_path)) is None


def test_the_end_of_a_run_does_not_hide_the_next_one(tmp_path):
    out = str(tmp_path)
    recorder = ProgressRecorder(SilentWatch())
    recorder.follow(out, "annotate")
    wait_for(lambda: read(out))
    written(out, token="the next one")
    recorder.end(0, "")
    assert read(out).token == "the next one"


def test_watching_takes_no_lock_and_writes_nothing(tmp_path, capsys):
    written(tmp_path, host=socket.gethostname(), written_at=time.time())
    before = sorted((p.name, p.stat().st_mtime_ns) for p in tmp_path.iterdir())
    with claim_folder(str(tmp_path)):
        before = sorted((p.name, p.stat().st_mtime_ns) for p in tmp_path.iterdir())
        assert main(["watch", str(tmp_path), "--once"]) == 0
        assert "at work" in capsys.readouterr().out
    assert sorted((p.name, p.stat().st_mtime_ns) for p in tmp_path.iterdir()) == before
    assert main(["watch", str(tmp_path / "none"), "--once"]) == 0
    assert not (tmp_path / "none").exists()


def test_watching_ends_with_the_run_and_elsewhere_prints_lines(tmp_path):
    console = Console(file=io.StringIO(), width=200)
    written(tmp_path, host=socket.gethostname(), written_at=time.time())
    follow = (
        "import sys, time; from pathlib import Path; time.sleep(1.5);"
        "Path(sys.argv[1]).write_bytes(Path(sys.argv[2]).read_bytes())"
    )
    end = tmp_path / "end.json"
    end.write_bytes(snapshot_of(state=ProgressState.ENDED, status=0, count=2).to_json())
    with subprocess.Popen([sys.executable, "-c", follow, str(tmp_path / PROGRESS), str(end)]):
        lines, _ = watch_run(WatchOptions(dir=str(tmp_path)), console)
    assert "has ended" in lines[0]
    assert console.file.getvalue().count("at work") == 1


def test_an_onlooker_leaves_with_an_interrupt(tmp_path):
    command = [sys.executable, "-m", "zelo_ray", "watch", str(tmp_path / "none")]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as watching:
        assert "nothing has been written" in watching.stdout.readline()
        watching.send_signal(signal.SIGINT)
        assert watching.stdout.read() == ""
    assert watching.returncode == 0
