"""Log finished runs to trackers of experiments: each a module with a function ``log_run``.

To add one, write such a module, and name it in `TRACKERS`.
"""

import os
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from functools import partial
from importlib import import_module
from importlib.util import find_spec

from zelo_ray.errors import OptionError, format_error
from zelo_ray.formats.wording import without_passwords
from zelo_ray.options import CommandOptions, did_you_mean
from zelo_ray.reports.parts import Report


@dataclass(frozen=True, slots=True)
class Tracker:
    """A tracker of experiments.

    Attributes:
        package: its library, and the name of the extra that brings it.
        variables: one of these has to be set, since the environment says where to log.
        example: a value of the first of them.
        folder_variable: has to be set as well where that value is a folder; empty if none.
    """

    package: str
    variables: Sequence[str]
    example: str
    folder_variable: str = ""


TRACKERS = {
    "mlflow": Tracker(
        "mlflow", ("MLFLOW_TRACKING_URI",), "http://localhost:5000", "MLFLOW_ALLOW_FILE_STORE"
    ),
    "wandb": Tracker("wandb", ("WANDB_MODE", "WANDB_API_KEY"), "offline"),
}
"""By the name of a module here."""


def check_trackers(names: Collection[str]) -> None:
    """Check that these trackers can be used, before a run begins.

    Raises:
        OptionError: one is unknown, its package is missing, or the environment does not name it.
    """
    for name in names:
        if name not in TRACKERS:
            known = ", ".join(TRACKERS)
            raise OptionError(
                f"track: no such tracker {name!r}{did_you_mean(name, TRACKERS)}; there are {known}"
            )
        tracker = TRACKERS[name]
        if find_spec(tracker.package) is None:
            extra = f"pip install 'zelo-ray[{tracker.package}]'"
            raise OptionError(f"--track {name} needs the extra: {extra}")
        if not any(os.environ.get(variable) for variable in tracker.variables):
            first, *others = tracker.variables
            more = f", or {' or '.join(others)}" if others else ""
            raise OptionError(
                f"--track {name}: set {first}, such as {first}={tracker.example}{more}"
            )
        place, also = os.environ.get(tracker.variables[0], ""), tracker.folder_variable
        is_folder = "://" not in place.removeprefix("file://")
        if also and is_folder and not os.environ.get(also):
            raise OptionError(f"--track {name}: for the folder {place} set {also}=true as well")


def track_report(
    names: Collection[str],
    report: Report,
    options: CommandOptions,
    say: Callable[[str], None],
    warn: Callable[[str], None],
) -> None:
    """Log a report with its results to each of these trackers.

    A tracker that fails is told in a line: results are there, and depend on no tracker.

    Args:
        names: of the trackers.
        report: of a command that has written its results.
        options: of the command.
        say: is told where the run was logged.
        warn: is told why it was not.
    """
    from zelo_ray.reports.page import write_page  # noqa: PLC0415 - paid where it is used
    from zelo_ray.reports.trackers.tracked_run import collect_files, tracked_run  # noqa: PLC0415

    if not names:
        return
    try:
        write_page(report)
        run = tracked_run(report, options)
        with collect_files(report) as files:
            for name in names:
                module = import_module(f"{__name__}.{name}")
                _log_safely(name, partial(module.log_run, run, files), say, warn)
    except Exception as error:  # noqa: BLE001 - the results are there, whatever happens here
        warn(f"--track {' '.join(names)}: {_describe_failure(error)}")


def _log_safely(
    name: str, log: Callable[[], str], say: Callable[[str], None], warn: Callable[[str], None]
) -> None:
    try:
        say(f"--track {name}: logged to {log()}")
    except Exception as error:  # noqa: BLE001 - each tracker has its own errors
        warn(f"--track {name}: {_describe_failure(error)}")


def _describe_failure(error: Exception) -> str:
    why = without_passwords(format_error(error))
    return (
        f"the run could not be logged ({why}); its results are complete without it, and the same "
        "command logs them again"
    )
