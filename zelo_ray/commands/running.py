"""Run any command: record its progress in its output, and log its results to trackers."""

import warnings
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from zelo_ray.commands import COMMANDS, import_name
from zelo_ray.errors import format_error
from zelo_ray.files.wording import without_passwords
from zelo_ray.report import tracking
from zelo_ray.report.results import Results
from zelo_ray.report.watches import ProgressRecorder, SilentWatch

if TYPE_CHECKING:
    from zelo_ray.engine.job import Watch
    from zelo_ray.options import CommandOptions


def run_command(name: str, options: "CommandOptions", watch: "Watch") -> Results:
    """Run a command by its name; see `run_recorded`."""
    return run_recorded(import_name(f"commands.{COMMANDS[name].run}:run"), options, watch)


def run_recorded(
    run: "Callable[[Any, Watch], Results]", options: "CommandOptions", watch: "Watch"
) -> Results:
    """Run a command, record its progress in its output, and its results at trackers."""
    trackers: Sequence[str] = getattr(options, "track", ())
    tracking.check_trackers(trackers)
    recorder = ProgressRecorder(watch)
    try:
        results = run(options, recorder)
    except BaseException as error:
        recorder.fail(error)
        raise
    step = next_line(results)
    recorder.end(results.status, step, is_news=not results.is_current)
    warn = warnings.warn if type(watch) is SilentWatch else watch.say
    for tracker in trackers:
        try:
            watch.say(f"--track {tracker}: logged to {tracking.log_run(tracker, results, options)}")
        except Exception as error:  # noqa: BLE001 - each tracker has its own errors
            why = without_passwords(format_error(error))
            warn(
                f"--track {tracker}: the run could not be logged ({why}); its results are complete "
                "without it, and the same command logs them again"
            )
    return results


def next_line(results: Results) -> str:
    """Return the last line that the terminal shows, without passwords of URLs; perhaps none."""
    step = results.next_command
    return f"Next step: {without_passwords(step)}" if step else ""
