"""Set up a job before Ray starts: absolute places, the lock on the output, run id, watcher."""

import contextlib
import os
import time
import uuid
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Protocol, TypeVar, runtime_checkable

from zelo_ray.engine.ledger import drop_reserves, update_index
from zelo_ray.engine.lock import claim_folder
from zelo_ray.engine.request_plans import FOLDER as PLANS
from zelo_ray.engine.tally import Tally
from zelo_ray.errors import LedgerError
from zelo_ray.options import AskingOptions

Asking = TypeVar("Asking", bound=AskingOptions)
POOLS_AT_ONCE = 32


class Watch(Protocol):
    """Watcher of a run, who is told how it goes."""

    def say(self, line: str) -> None:
        """Print a line for the user."""

    def budget(self, cap: float, spent: float) -> None:
        """Take the cap on US dollars, and what earlier runs spent of it."""

    def show(self, tallies: Mapping[str, Tally], planned: Mapping[str, int]) -> None:
        """Show figures by judge, about twice a second while judges are asked."""


@runtime_checkable
class OutputFollower(Protocol):
    """Watcher that records the progress of a run in its output."""

    def follow(self, out: str, command: str) -> None:
        """Record in this output, which has been locked, what the command does."""


def with_absolute_places(options: Asking) -> Asking:
    """Return the options with absolute places; see `absolute_place`."""
    places = {"out": absolute_place(options.out), "ledger": absolute_place(options.ledger_dir)}
    return options.model_copy(update=places)


@contextlib.contextmanager
def claim_output(options: AskingOptions, watch: Watch, kind: str) -> Iterator[None]:
    """Lock the output directory and the ledger while the context lasts.

    Raises:
        LockError: another run holds it, or another command than ``kind`` left its results there.
    """
    with contextlib.ExitStack() as claims:
        human = getattr(options, "human", None)
        claims.enter_context(claim_folder(options.out, watch.say, kind, human))
        if options.ledger_dir != options.out:
            claims.enter_context(claim_folder(options.ledger_dir, watch.say, None))
        _tidy_ledgers(options.ledger_dir)
        if isinstance(watch, OutputFollower):
            watch.follow(options.out, kind)
        yield
        _tidy_ledgers(options.ledger_dir)


def _tidy_ledgers(ledger_dir: str) -> None:
    for place in (ledger_dir, f"{ledger_dir.rstrip('/')}/{PLANS}"):
        drop_reserves(place)
        update_index(place)


def absolute_place(out: str) -> str:
    """Return the place of ``out`` in a form that is the same for every process.

    Raises:
        LedgerError: on a cluster, where a relative path means another place on each node.
    """
    if "://" in out or Path(out).is_absolute():
        return out
    if os.environ.get("RAY_ADDRESS"):
        raise LedgerError(f"--out {out}: on a cluster give a URL, or an absolute path")
    return str(Path(out).resolve())


def new_run_id() -> str:
    """Return a new name for a run: its start time, and a part that no other run has."""
    return time.strftime("%Y%m%dT%H%M%SZ", time.gmtime()) + f"-{uuid.uuid4().hex[:6]}"


class Timer:
    """Timer that counts seconds by the name of what took them."""

    def __init__(self) -> None:
        self.laps: dict[str, float] = {}
        self._last = time.monotonic()

    def lap(self, name: str) -> None:
        """Count the time since the last lap under a name."""
        now = time.monotonic()
        self.laps[name] = round(self.laps.get(name, 0.0) + now - self._last, 3)
        self._last = now
