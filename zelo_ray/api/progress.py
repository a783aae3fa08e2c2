"""Run a command with its progress shown on the terminal, to a caller's object, or not at all."""

import logging
import warnings
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING, Self, TypeVar

from zelo_ray.engine.tally import Tally
from zelo_ray.reports.parts import Report
from zelo_ray.reports.progress.display import Display

warnings.filterwarnings("ignore", "IProgress not found")  # a notebook shows no widget of Ray's
logging.getLogger("ray.widgets.util").setLevel(logging.WARNING)

if TYPE_CHECKING:
    from zelo_ray.engine.job import Watch


Options = TypeVar("Options")


class SilentWatch:
    """Watch that shows nothing."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def say(self, line: str) -> None:
        """Do nothing."""

    def budget(self, cap: float, spent: float) -> None:
        """Do nothing."""

    def show(self, tallies: Mapping[str, Tally], planned: Mapping[str, int]) -> None:
        """Do nothing."""


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
    """Run a command with a watch for ``progress``, which is shown the ``notes`` first."""
    with watch_for(progress) as watch:
        for note in notes:
            watch.say(note)
        return run(options, watch)
