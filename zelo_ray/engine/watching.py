"""Watch a run that asks: show how it goes, and turn signals into a stop that loses nothing."""

import contextlib
import os
import signal
import threading
from collections.abc import Callable, Mapping, Sequence
from typing import Protocol

from zelo_ray.engine.coordinator import RunFigures
from zelo_ray.engine.job import Watch

_SHOW_SECONDS = 0.5


class RunControl(Protocol):
    """The coordinator of a run, as its driver sees it."""

    def request_stop(self, reason: str) -> None:
        """Let every worker finish what is in flight and start nothing new."""

    def read_figures(self) -> RunFigures:
        """Return figures by judge, why to stop, and which judges are disabled."""


def run_watched(
    control: RunControl,
    planned: Mapping[str, int],
    watch: Watch,
    ask: Callable[[], None],
    *,
    batches: bool,
) -> RunFigures:
    """Ask; show progress, and turn an interrupt into a stop that still waits for calls in flight.

    Planned are requests by judge, in the order in which figures are shown.
    """
    ended, interrupted = threading.Event(), threading.Event()
    on_terminal = [stream for stream in (1, 2) if os.isatty(stream)]

    def show() -> RunFigures:
        tallies, stopped, disabled = control.read_figures()
        ordered = {name: tallies[name] for name in planned if name in tallies} | tallies
        watch.show(ordered, planned)
        return ordered, stopped, disabled

    def keep_showing() -> None:
        while not ended.wait(_SHOW_SECONDS):
            # A terminal that was closed is no file, and a coordinator may be away for a moment.
            with contextlib.suppress(Exception):
                if interrupted.is_set():
                    control.request_stop("interrupted; run the same command again to resume")
                show()

    def on_signal(number: int, _frame: object) -> None:
        if number == signal.SIGHUP:
            _leave_terminal(on_terminal)
        if interrupted.is_set():
            if number == signal.SIGHUP:  # a shell passes on what its terminal has sent to all
                return
            raise KeyboardInterrupt
        interrupted.set()
        name = signal.Signals(number).name
        watch.say(f"{name}: waiting for calls in flight; press again to abandon them")
        if batches:  # what lies in batches is not in flight
            watch.say(
                "batches stay at their providers: the same command collects them, and zelo-ray "
                "batches DIR lists them, or cancels them with --cancel"
            )

    main = threading.current_thread() is threading.main_thread()
    signals = [signal.SIGINT, signal.SIGTERM, signal.SIGHUP] if main else []
    if signal.getsignal(signal.SIGHUP) == signal.SIG_IGN:  # as under nohup: the run goes on
        signals = signals[:2]
    before = {number: signal.signal(number, on_signal) for number in signals}
    showing = threading.Thread(target=keep_showing, daemon=True)
    showing.start()
    try:
        ask()
    finally:
        ended.set()
        showing.join()
        for number, handler in before.items():
            signal.signal(number, handler)
    return show()


def _leave_terminal(streams: Sequence[int]) -> None:
    """Discard all output from now on: the terminal was closed."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    for stream in streams:
        os.dup2(nowhere, stream)
    os.close(nowhere)
