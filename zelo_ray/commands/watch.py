"""Show how a run stands while it is at work elsewhere: ``zelo-ray watch DIR``."""

import contextlib
import time
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Literal

import fsspec
from rich.console import Console, Group
from rich.live import Live
from rich.text import Text

from zelo_ray.command_options import WatchOptions
from zelo_ray.engine.job import Watch
from zelo_ray.errors import InputError
from zelo_ray.files.run_record import last_record
from zelo_ray.files.storage import exists, read_json_object
from zelo_ray.files.wording import printable
from zelo_ray.report.progress import duration, progress_line, progress_table
from zelo_ray.report.results import Results
from zelo_ray.report.terminal import Line, make_console
from zelo_ray.report.watches import PROGRESS

_LOCAL_SECONDS, _URL_SECONDS = 1.0, 5.0  # between two looks
_SECONDS_BETWEEN_LINES = 10.0
_OVER = ("ended", "failed")
_SILENT_SECONDS, _SILENT_WRITES = 30.0, 4  # the longer one without a write is silence


@dataclass(frozen=True, slots=True)
class RunState:
    """State of a run, as its ``.progress.json`` tells it."""

    state: Literal["nothing", "running", "silent", "ended", "failed"] = "nothing"
    seconds_since_written: float = 0.0
    record: Mapping[str, Any] = field(default_factory=dict)
    """the content of that file; empty if there is none"""

    @property
    def parts(self) -> Mapping[str, Any]:
        """Return the figures of each part, such as each way of `compare`; the last is at work."""
        parts: Mapping[str, Any] = self.record.get("parts", {})
        return parts


def run(options: WatchOptions, _watch: Watch) -> Results:
    """Show a run until it ends, or once."""
    out, console = options.run, make_console()
    with contextlib.suppress(KeyboardInterrupt):  # by which an onlooker leaves
        try:
            state = next(poll(out)) if options.once else _follow(out, console)
            lines = _describe(state, out, console.width)
        except (KeyError, TypeError, ValueError, AttributeError):
            raise InputError(f"{out}/{PROGRESS}: of another version, or damaged") from None
        return Results(asdict(state), out=out, lines=lines)
    return Results({}, out=out)


def poll(out: str) -> Iterator[RunState]:
    """Yield the state of a run again and again, until it has ended.

    Clocks of machines differ, so only the first age of the record is by the time in it.
    """
    is_local = "file" in fsspec.url_to_fs(out)[0].protocol
    record, changed_at = dict[str, Any](), 0.0
    url, is_first = f"{out.rstrip('/')}/{PROGRESS}", True
    while True:
        now, before = time.monotonic(), record
        try:
            record = read_json_object(url) if exists(url) else {}
        except InputError:
            if is_first:
                raise
        if record != before:
            changed_at = now
            if is_first:
                changed_at -= max(0.0, time.time() - record["written_at"])
        is_first = False
        age = now - changed_at
        if not record:
            state = RunState("ended" if last_record(out) else "nothing")
        elif record["state"] == "running":
            is_silent = age >= max(_SILENT_SECONDS, _SILENT_WRITES * record["every"])
            state = RunState("silent" if is_silent else "running", age, record)
        else:
            state = RunState(record["state"], age, record)
        yield state
        if state.state in _OVER:
            return
        time.sleep(_LOCAL_SECONDS if is_local else _URL_SECONDS)


def _follow(out: str, console: Console) -> RunState:
    """Keep a view up to date, or print a line now and then; return the last state."""
    state, printed, due = RunState(), "", 0.0
    with contextlib.ExitStack() as stack:
        live = None
        if console.is_terminal:
            live = stack.enter_context(Live(console=console, auto_refresh=False, transient=True))
        for state in poll(out):
            now = time.monotonic()
            if live:
                shown = _describe(state, out, *console.size)
                parts = [Text(printable(p)) if isinstance(p, str) else p for p in shown]
                hint = Text("Ctrl-C leaves; the run goes on.", style="dim")
                live.update(Group(*parts, hint), refresh=True)
            elif state.state not in _OVER and (state.state != printed or now >= due):
                figures = map(progress_line, [*state.parts.values()][-1:])
                line = printable(" · ".join([_describe_state(state, out), *figures]))
                console.print(line, soft_wrap=True, markup=False, emoji=False)
                printed, due = state.state, now + _SECONDS_BETWEEN_LINES
    return state


def _describe(state: RunState, out: str, width: int, height: int | None = None) -> list[Line]:
    """Return lines, and the table of the part at work, for a terminal of this size."""
    lines: list[Line] = [_describe_state(state, out)]
    for name, part in [*state.parts.items()][-1:]:
        lines += [f"{name}:"] if name else []
        lines.append(progress_table(part, width, height and height - len(lines) - 3))
    return [*lines, *filter(None, [state.record.get("next_line")])]


def _describe_state(state: RunState, out: str) -> str:
    """Return a sentence on how a run stands."""
    record, age = state.record, duration(state.seconds_since_written)
    if not record and state.state in _OVER:
        return f"{out} holds finished results, and no record of their progress"
    if not record:
        return f"no run has recorded its progress in {out} yet"
    what = f"{record['command']} in {out}"
    span = duration(max(0.0, record["written_at"] - record["began_at"]))
    if state.state == "running":
        return f"{what}: at work for {span}; last wrote {age} ago"
    if state.state == "silent":
        process = f"process {record['process']} on {record['host']}"
        return (
            f"{what}: silent for {age}; if {process} is gone, run the same command again, which "
            "pays for nothing twice"
        )
    date = time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime(record["written_at"]))
    why = f": {record['message']}" if record["message"] else ""
    return f"{what} {state.state} at {date} after {span}, exit status {record['exit_status']}{why}"
