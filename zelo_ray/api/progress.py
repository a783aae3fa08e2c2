"""Who is told how a run goes: the terminal, somebody of the caller's, or nobody."""

import logging
import warnings
from collections.abc import Mapping
from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING, Self

from zelo_ray.engine.bookkeeping import Tally
from zelo_ray.present.terminal.display import Display

warnings.filterwarnings("ignore", "IProgress not found")  # a notebook shows no widget of Ray's
logging.getLogger("ray.widgets.util").setLevel(logging.WARNING)

if TYPE_CHECKING:
    from zelo_ray.on_ray.begin import Watch


class Silence:
    """Tells nobody anything."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def say(self, line: str) -> None:
        """Nothing."""

    def budget(self, cap: float, spent: float) -> None:
        """Nothing."""

    def show(self, tallies: Mapping[str, Tally], planned: Mapping[str, int]) -> None:
        """Nothing."""


def watching(progress: "Watch | bool | None") -> "AbstractContextManager[Watch]":
    """The watch over a run that a caller wants."""
    if progress is None or progress is False:
        return Silence()
    return Display() if progress is True else nullcontext(progress)
