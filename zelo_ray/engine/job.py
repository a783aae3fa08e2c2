"""Define a job, and set it up: absolute places, the lock on the output, run id, watcher."""

import contextlib
import os
import time
import uuid
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields
from itertools import islice
from pathlib import Path
from typing import Any, Protocol, TypeVar

from zelo_ray.engine.ledger import drop_reserves, update_index
from zelo_ray.engine.lock import claim_folder
from zelo_ray.engine.request_plans import FOLDER as PLANS
from zelo_ray.engine.tally import Tally
from zelo_ray.errors import LedgerError
from zelo_ray.files.pools import Line, LineLimits, read_lines
from zelo_ray.options import AnnotateOptions, AskingOptions
from zelo_ray.plugins import PluginFolders
from zelo_ray.protocols import load_protocol
from zelo_ray.reasons import Disabled
from zelo_ray.records import Judge, Pool

Asking = TypeVar("Asking", bound=AskingOptions)
POOLS_AT_ONCE = 32


@dataclass(frozen=True, slots=True)
class Job:
    """Job as it is sent to workers. It holds no key."""

    options: AnnotateOptions
    panel: tuple[Judge, ...]
    run_id: str
    repeated: frozenset[tuple[str, int]]
    only: frozenset[tuple[str, int]] | None = None
    """the lines to take, such as a pilot's; None: all"""
    label: str = ""
    """the name of its one judge where figures are shown, if not its own"""
    disabled: Mapping[str, Disabled] = field(default_factory=dict)
    """judges of the panel that are asked nothing more"""
    sweep: int = 1
    """how often this run has gone over all pools, this time included"""

    def __reduce__(self) -> tuple[Any, ...]:
        """Send options as values: no other process has the class of a user's own protocol."""
        values = {field.name: getattr(self, field.name) for field in fields(self)}
        plain = type(self.options) is AnnotateOptions  # as of what orders a pool
        protocol = "" if plain else self.options.protocol
        values["options"] = (protocol, dict(self.options), self.options.model_fields_set)
        return _rebuild, (PluginFolders(), values)

    def display_name(self, judge: str) -> str:
        """Return the name of a judge where figures are shown."""
        return self.label or judge

    def includes(self, line: Line) -> bool:
        """Return whether a line is to be judged."""
        place = (line.file, line.number)
        chosen = self.only is None or place in self.only
        return line.pool is not None and place not in self.repeated and chosen


def _rebuild(_folders: None, fields: dict[str, Any]) -> Job:
    """Build the job in another process, which loads the protocol itself."""
    protocol, values, fields_set = fields["options"]
    kind = load_protocol(protocol).options if protocol else AnnotateOptions
    return Job(**{**fields, "options": kind.model_construct(fields_set, **values)})


@dataclass(frozen=True, slots=True)
class JobLines:
    """The lines of a job's input: those that are held, where they are few, or else their files."""

    shards: Sequence[str]
    held: Sequence[Line] | None = None

    def chosen(self, job: Job) -> Iterator[Line]:
        """Yield the lines that a job is to judge."""
        read = (line for shard in self.shards for line in read_lines(shard, LineLimits()))
        return filter(job.includes, read if self.held is None else self.held)

    def pools(self, job: Job) -> Iterator[Pool]:
        """Yield their pools."""
        return (line.pool for line in self.chosen(job) if line.pool)

    def blocks(self, job: Job) -> Iterator[list[Line]]:
        """Yield the lines in the blocks that workers take."""
        lines = self.chosen(job)
        while block := list(islice(lines, POOLS_AT_ONCE)):
            yield block


class Watch(Protocol):
    """Watcher of a run, who is told how it goes."""

    def say(self, line: str) -> None:
        """Print a line for the user."""

    def budget(self, cap: float, spent: float) -> None:
        """Take the cap on US dollars, and what earlier runs spent of it."""

    def show(self, tallies: Mapping[str, Tally], planned: Mapping[str, int]) -> None:
        """Show figures by judge, about twice a second while judges are asked."""

    def follow(self, out: str, command: str) -> None:
        """Take note of this output, which has been locked, and of what the command does."""


def with_absolute_places(options: Asking) -> Asking:
    """Return the options with absolute places; see `absolute_place`."""
    places = {"out": absolute_place(options.out), "ledger": absolute_place(options.ledger_dir)}
    return options.model_copy(update=places)


@contextlib.contextmanager
def claim_output(options: AskingOptions, watch: Watch, kind: str) -> Iterator[None]:
    """Lock the output directory, for this kind of command, and the ledger."""
    with contextlib.ExitStack() as claims:
        human = getattr(options, "human", None)
        claims.enter_context(claim_folder(options.out, watch.say, kind, human))
        if options.ledger_dir != options.out:
            claims.enter_context(claim_folder(options.ledger_dir, watch.say, None))
        _tidy_ledgers(options.ledger_dir)
        watch.follow(options.out, kind)
        yield
        _tidy_ledgers(options.ledger_dir)


def _tidy_ledgers(ledger_dir: str) -> None:
    for place in (ledger_dir, f"{ledger_dir.rstrip('/')}/{PLANS}"):
        drop_reserves(place)
        update_index(place)


def absolute_place(out: str) -> str:
    """Return the place of ``out`` for every process; on a cluster a relative path is an error."""
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
