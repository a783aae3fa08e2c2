"""Run `watch`: look again and again until the run ends."""

import contextlib
import math
import time
from collections.abc import Iterator
from typing import Any

from rich.console import Console, Group
from rich.live import Live
from rich.text import Text

from zelo_ray.command_options import WatchOptions
from zelo_ray.commands.watch.look import Onlooker, Phase, RunView
from zelo_ray.commands.watch.screen import describe_in_a_line, describe_run
from zelo_ray.engine.job import Watch
from zelo_ray.files.wording import printable
from zelo_ray.report.progress.figures import progress_figures
from zelo_ray.report.results import Results
from zelo_ray.report.terminal import make_console

_LOCAL_SECONDS, _URL_SECONDS = 1.0, 5.0  # between two looks
_SECONDS_BETWEEN_LINES = 10.0
_GRACE_SECONDS = 10.0  # in which a run whose process is gone may be started again


def run(options: WatchOptions, _watch: Watch) -> Results:
    """Show a run until it ends, or once."""
    with contextlib.suppress(KeyboardInterrupt):  # by which an onlooker leaves
        lines, figures = watch_run(options, make_console())
        return Results(figures, out=options.run, lines=lines)
    return Results({}, out=options.run)


def watch_run(options: WatchOptions, console: Console) -> tuple[list[str | Group], dict[str, Any]]:
    """Show how a run stands until it ends; return how it ended, or with ``once`` how it stands.

    It is returned as lines, and as figures.

    On a terminal one view is kept up to date; elsewhere a line is printed every ten seconds, and at
    once where the run begins, falls silent or goes on.

    Args:
        options: of the command.
        console: where it is shown.

    Raises:
        InputError: the storage cannot be reached.
    """
    width = console.width
    if options.once:
        view = next(view for view in looks(options.run) if view.is_settled)
    elif not console.is_terminal:
        view = _print_lines(options.run, console)
    else:
        view = _show_live(options.run, console)
    return describe_run(view, options.run, width), run_figures(view)


def run_figures(view: RunView) -> dict[str, Any]:
    """Return how a run stands as numbers and texts for JSON."""
    snapshot = view.snapshot
    return {
        "phase": view.phase,
        "seconds_since_written": view.quiet,
        "exit_status": snapshot.status if snapshot else None,
        "message": snapshot.message if snapshot else "",
        "progress": {
            part.name: progress_figures(part.progress, snapshot.written_at)
            for part in snapshot.parts
        }
        if snapshot
        else {},
    }


def _show_live(out: str, console: Console) -> RunView:
    """Keep one view up to date until the run ends; return the last view."""
    with Live(console=console, auto_refresh=False, transient=True) as live:
        for view in looks(out):
            shown = describe_run(view, out, *console.size)
            hint = Text("Ctrl-C leaves; the run goes on.", style="dim")
            live.update(Group(*map(_printable, shown), hint), refresh=True)
    return view


def looks(out: str) -> Iterator[RunView]:
    """Yield how a run stands, again and again; the last view is of its end."""
    onlooker, gone_at = Onlooker(out), math.inf
    while True:
        now = time.monotonic()
        view = onlooker.look(now, time.time())
        yield view
        gone_at = min(gone_at, now) if view.phase is Phase.GONE else math.inf
        if view.phase is Phase.ENDED or now - gone_at >= _GRACE_SECONDS:
            return
        time.sleep(_LOCAL_SECONDS if onlooker.is_local else _URL_SECONDS)


def _print_lines(out: str, console: Console) -> RunView:
    """Print a line now and then; return the last view."""
    phase, due = None, 0.0
    for view in looks(out):
        now = time.monotonic()
        if view.phase is not Phase.ENDED and (view.phase is not phase or now >= due):
            line = printable(describe_in_a_line(view, out))
            console.print(line, soft_wrap=True, markup=False, emoji=False)
            phase, due = view.phase, now + _SECONDS_BETWEEN_LINES
    return view


def _printable(part: str | Group) -> Text | Group:
    return Text(printable(part)) if isinstance(part, str) else part
