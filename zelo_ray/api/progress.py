"""Run a command with its progress shown on the terminal, to a caller's object, or not at all."""

import contextlib
import logging
import shlex
import warnings
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING, TypeVar

from zelo_ray.errors import ZeloError
from zelo_ray.options import CommandOptions
from zelo_ray.reports.next_step import next_line
from zelo_ray.reports.parts import Report
from zelo_ray.reports.progress.display import Display
from zelo_ray.reports.progress.events import SilentWatch
from zelo_ray.reports.progress.recorder import ProgressRecorder
from zelo_ray.reports.tracking import check_trackers, track_report

warnings.filterwarnings("ignore", "IProgress not found")  # a notebook shows no widget of Ray's
logging.getLogger("ray.widgets.util").setLevel(logging.WARNING)

if TYPE_CHECKING:
    from zelo_ray.engine.job import Watch


Options = TypeVar("Options", bound=CommandOptions)


def watch_for(progress: "Watch | bool | None") -> "AbstractContextManager[Watch]":
    """Return a context manager of the watch for the ``progress`` argument of a public function."""
    if progress is None or progress is False:
        return SilentWatch()
    return Display() if progress is True else nullcontext(progress)


def run_watched(
    run: "Callable[[Options, Watch], Report]",
    options: Options,
    progress: "Watch | bool | None",
    notes: Sequence[str] = (),
) -> Report:
    """Run a command with its progress shown as the argument ``progress`` says.

    Args:
        run: runs it.
        options: of the command.
        progress: what shows the progress.
        notes: lines that are shown first.
    """
    with watch_for(progress) as watch:
        for note in notes:
            watch.say(note)
        return run_recorded(run, options, watch)


def run_recorded(
    run: "Callable[[Options, Watch], Report]",
    options: Options,
    watch: "Watch",
    words: Sequence[str] = (),
) -> Report:
    """Run a command, record its progress in its output, and its results at trackers.

    Args:
        run: runs it.
        options: of the command.
        watch: shows the progress.
        words: the command as typed, if it was.
    """
    trackers: Sequence[str] = getattr(options, "track", ())
    check_trackers(trackers)
    recorder = ProgressRecorder(watch)
    try:
        report = run(options, recorder)
    except BaseException as error:
        recorder.fail(error)
        raise
    _record_end(recorder, report, words or shlex.split(options.command_line())[1:])
    warn = warnings.warn if type(watch) is SilentWatch else watch.say
    track_report(trackers, report, options, watch.say, warn)
    return report


def _record_end(recorder: ProgressRecorder, report: Report, words: Sequence[str]) -> None:
    next_command = None
    if recorder.is_recording:
        with contextlib.suppress(ZeloError, OSError):  # no reason for a run to fail at its end
            next_command = report.next_step(words)
    line = next_line(next_command) if next_command else ""
    recorder.end(report.status, line, is_news=not report.is_up_to_date)
