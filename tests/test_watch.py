"""A run seen from elsewhere: what it records of its progress, and what an onlooker makes of it."""

import io
import json
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

from tests.builders import line_of, pool_of
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
    snapshot = snapshot_of(
        state=ProgressState.FAILED, status=1, message="stopped", next_line="Next"
    )
    assert parse_snapshot(snapshot.to_json()) == snapshot
    for damaged in (b"", b"[]", b"{}", snapshot.to_json()[:-9], b'{"parts": [1], "state": "?"}'):
        assert parse_snapshot(damaged) is None


def test_figures_of_a_run_at_work_are_shown(tmp_path):
    written(tmp_path)
    write_json(str(tmp_path), "run.json", {"kind": "annotate", "finished": False, "queries": 12})
    view = Onlooker(str(tmp_path)).look(0.0, EPOCH + 1)
    assert (view.phase, view.is_settled, view.quiet) == (Phase.RUNNING, True, 1)
    text = text_of(view)
    assert "annotate in out: at work for 1 min 6 s; last wrote 1 s ago" in text
    assert "queries: 3 of 12 are answered by all judges" in text
    assert "failures: 1 invalid, 2 refused" in text
    assert "last answer: 4 s ago" in text
    assert "$1.75 of $5.00" in text
    assert "40/146" in text
    assert "30 s" in text  # left: 60 requests at 2 a second
    assert "stopped: b: the budget is used up" in text
    assert f"last trouble: {JUDGE}: the server is busy, 6 s ago" in text
    line = describe_in_a_line(view, "out")
    assert "at work for 1 min 6 s" in line
    assert "$1.75 of $5.00" in line


def test_a_clock_that_is_wrong_makes_no_run_silent(tmp_path):
    for skew in (-3600, 3600):
        written(tmp_path, count=1)
        onlooker = Onlooker(str(tmp_path))
        view = onlooker.look(0.0, EPOCH + skew)
        assert view.phase is Phase.RUNNING
        assert view.is_settled == (skew < 0)  # an hour may be true, so a second look decides
        written(tmp_path, count=2)
        view = onlooker.look(1.0, EPOCH + skew + 1)
        assert (view.phase, view.is_settled, view.quiet) == (Phase.RUNNING, True, 0)
        view = onlooker.look(25.0, EPOCH + skew + 25)
        assert (view.phase, view.quiet) == (Phase.RUNNING, 24)
        view = onlooker.look(40.0, EPOCH + skew + 40)
        assert (view.phase, view.quiet) == (Phase.SILENT, 39)
        assert "nothing was written for 39 s; if it was killed, run the same command" in text_of(
            view
        )


def test_a_run_that_was_silent_before_the_first_look_is_so_at_the_second(tmp_path):
    written(tmp_path)
    onlooker = Onlooker(str(tmp_path))
    assert not onlooker.look(0.0, EPOCH + 240).is_settled
    view = onlooker.look(5.0, EPOCH + 245)
    assert (view.phase, view.is_settled) == (Phase.SILENT, True)
    assert "nothing was written for 4 min 5 s" in text_of(view)


def test_a_process_that_was_killed_here_is_told_as_gone(tmp_path):
    with subprocess.Popen([sys.executable, "-c", ""]) as process:
        process.wait()
    written(tmp_path, process=process.pid, host=socket.gethostname())
    onlooker = Onlooker(str(tmp_path))
    assert not onlooker.look(0.0, EPOCH + 1).is_settled  # it may be a process of a container
    view = onlooker.look(5.0, EPOCH + 6)
    assert (view.phase, view.is_settled) == (Phase.GONE, True)
    assert f"process {process.pid} on {socket.gethostname()} is gone" in text_of(view)


def test_an_earlier_run_is_not_taken_for_the_one_that_goes_on(tmp_path):
    written(
        tmp_path, state=ProgressState.ENDED, status=3, next_line="Next step: zelo-ray report out"
    )
    onlooker = Onlooker(str(tmp_path))
    view = onlooker.look(0.0, EPOCH + 9000)
    assert view.phase is Phase.ENDED
    text = text_of(view)
    assert "has ended at 2023-11-14 22:13 UTC after 1 min 5 s, exit status 3: finished" in text
    assert "Next step: zelo-ray report out" in text
    assert "last answer" not in text
    # Another process has locked the output, and has written nothing yet.
    holder = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    with holder:
        (tmp_path / RUN_LOCK).write_text(f"process {holder.pid} on {socket.gethostname()}")
        view = onlooker.look(1.0, EPOCH + 9001)
        assert view.phase is Phase.BEGINNING
        assert f"process {holder.pid}" in text_of(view)
        holder.communicate(b"\n")
    assert onlooker.look(2.0, EPOCH + 9002).phase is Phase.ENDED
    written(tmp_path, token="two", written_at=EPOCH)
    view = onlooker.look(3.0, EPOCH + 9003)
    assert (view.phase, view.quiet) == (Phase.RUNNING, 0)


def test_what_is_there_without_progress_is_told(tmp_path):
    onlooker = Onlooker(str(tmp_path / "none"))
    assert text_of(onlooker.look(0.0, EPOCH)).startswith("nothing has been written to out yet")
    write_json(str(tmp_path), "run.json", {"kind": "annotate", "finished": False})
    assert "was begun and has recorded no progress" in text_of(
        Onlooker(str(tmp_path)).look(0.0, EPOCH)
    )
    write_json(str(tmp_path), "run.json", {"kind": "annotate", "finished": True})
    view = Onlooker(str(tmp_path)).look(0.0, EPOCH)
    assert view.phase is Phase.ENDED
    assert "has the finished results of annotate" in text_of(view)


def test_parts_of_a_command_are_shown_with_their_sum(tmp_path):
    parts = [PartProgress(name, progress_of(), EPOCH) for name in ("graded", "zelo")]
    written(tmp_path, command="protocols", parts=tuple(parts))
    (tmp_path / "zelo").mkdir()
    write_json(str(tmp_path / "zelo"), "run.json", {"queries": 4})
    text = text_of(Onlooker(str(tmp_path)).look(0.0, EPOCH))
    assert "graded: 40/146 replies · 3 failures · $1.25" in text
    assert "queries: 3 of 4" in text
    assert "2 runs so far: 80/292 replies · 6 failures · $2.50" in text
    written(tmp_path, parts=tuple(parts * 6))
    text = text_of(Onlooker(str(tmp_path)).look(0.0, EPOCH))
    assert "… 3 more" in text
    assert text.count("40/146 replies") == 8


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
    assert (during.state, during.status, during.command) == (
        ProgressState.RUNNING,
        None,
        "annotate",
    )
    assert during.process == os.getpid()
    (part,) = during.parts
    assert part.progress.cap == (5.0, 0.5)
    assert part.progress.judges[0].tally == TALLY
    assert part.replied_at
    assert (after.state, after.status, after.token) == (ProgressState.ENDED, 3, during.token)
    assert after.count > during.count
    assert [part.name for part in after.parts] == ["", "zelo"]
    assert after.parts[1].progress.cap is None
    assert after.next_line == "Next step: annotate s3://…@host/x"
    assert Onlooker(out).look(0.0, 0.0).phase is Phase.ENDED


@pytest.mark.parametrize(
    ("error", "status", "message"),
    [
        (Stopped("the judge has no money"), 1, "the judge has no money"),
        (Stopped("no http://me:secret@host"), 1, "no http://…@host"),
        (KeyboardInterrupt(), 1, "interrupted"),
        (RuntimeError("a text of a prompt"), 1, "RuntimeError"),
    ],
)
def test_a_run_that_fails_says_why_and_shows_no_text_of_a_defect(tmp_path, error, status, message):
    out = str(tmp_path)

    def run(options, watch):
        with claim_output(options, watch, "annotate"):
            watch.show({JUDGE: TALLY}, {JUDGE: 100})
            raise error

    with pytest.raises(type(error)):
        run_watched(run, options_for(out), None)
    snapshot = read(out)
    assert (snapshot.state, snapshot.status, snapshot.message) == (
        ProgressState.FAILED,
        status,
        message,
    )
    assert f"exit status {status}: {message}" in text_of(Onlooker(out).look(0.0, EPOCH))


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


def test_a_terminal_shows_one_view_that_is_replaced(tmp_path):
    console = Console(file=io.StringIO(), width=100, height=40, force_terminal=True)
    written(tmp_path, state=ProgressState.ENDED, status=0)
    lines, _ = watch_run(WatchOptions(dir=str(tmp_path)), console)
    assert "exit status 0: complete" in lines[0]
    assert "Ctrl-C leaves" in console.file.getvalue()


@pytest.mark.ray
def test_a_real_run_is_seen_to_its_end(tmp_path):
    lines = [line_of(pool_of(query_id=f"q{n}")).decode() for n in range(3)]
    (tmp_path / "pools.jsonl").write_text("\n".join(lines) + "\n")
    (tmp_path / "job.yaml").write_text(
        "judge_options:\n  simulated:a: {truth: worth, latency: 0.2, refusals: 0.3}\n"
        "limits:\n  simulated:a: {concurrency: 1}\n"
    )
    words = ["annotate", "pools.jsonl", "--out", "out", "--judges", "simulated:a"]
    for line in lines:
        assert "worth=" in line
    pools = [json.loads(line) for line in lines]
    for pool in pools:
        for document in pool["documents"]:
            document["metadata"] = {"worth": int(document["content"].split("worth=")[1][0])}
    (tmp_path / "pools.jsonl").write_text("\n".join(map(json.dumps, pools)) + "\n")
    command = [sys.executable, "-m", "zelo_ray", *words, "--config", "job.yaml"]
    console = Console(file=io.StringIO(), width=300)
    with subprocess.Popen(
        command, cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    ) as run:
        lines, _ = watch_run(WatchOptions(dir=str(tmp_path / "out")), console)
        printed, _ = run.communicate()
    assert run.returncode == 3, printed
    assert "nothing has been written" in console.file.getvalue()
    assert "at work" in console.file.getvalue()
    assert "exit status 3: finished, but with failures or gaps" in lines[0]
    assert "queries: 3 of 3 are answered by all judges" in lines
    assert any("refused" in line for line in lines if isinstance(line, str))
    assert lines[-1].startswith("Next step: zelo-ray annotate pools.jsonl")
    assert lines[-1] in printed
