"""What both jobs are made of: a branch that asks, and the watch over all branches."""

import contextlib
import os
import signal
import threading
import time
import uuid
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol, TypeVar

import ray
import ray.data
from ray.exceptions import RayError

from zelo_ray.engine.bookkeeping import Tally
from zelo_ray.engine.ledger import drop_reserves, keep_index
from zelo_ray.engine.lock import claim
from zelo_ray.errors import LedgerError
from zelo_ray.on_ray.actors import Ask
from zelo_ray.on_ray.dataset import Job, dataset_of
from zelo_ray.options import AskingOptions
from zelo_ray.records import Judge

Asking = TypeVar("Asking", bound=AskingOptions)
POOLS_AT_ONCE = 32
_BLOCKS_AT_ONCE = 4


class Watch(Protocol):
    """Who is told how the run goes."""

    def say(self, line: str) -> None:
        """One line for the user."""

    def budget(self, cap: float, spent: float) -> None:
        """The cap on dollars, and what earlier runs spent of it."""

    def show(self, tallies: Mapping[str, Tally], planned: Mapping[str, int]) -> None:
        """Figures by judge, about twice a second while judges are asked."""


def asking(
    job: Job, shards: Sequence[str], desk: Any, judges: Sequence[Judge], num_gpus: float = 0
) -> Any:
    """The branch of judges that share an actor pool, and are asked online."""
    return dataset_of(job, shards).map_batches(
        Ask,
        fn_constructor_args=(job, judges, desk),
        batch_size=POOLS_AT_ONCE,
        batch_format="pyarrow",
        num_cpus=0,
        num_gpus=num_gpus,
        compute=ray.data.ActorPoolStrategy(
            size=job.options.actors,
            max_concurrent_calls_per_actor=_BLOCKS_AT_ONCE,
            enable_true_multi_threading=True,
        ),
    )


def ask_all(
    online: Sequence[Any],
    sent: Sequence[Any],
    desk: Any,
    planned: Mapping[str, int],
    watch: Watch,
) -> tuple[dict[str, Tally], str, dict[str, str]]:
    """Run branches that ask, side by side, to their end.

    Args:
        online: datasets whose execution asks.
        sent: what actors that wait for batches will return.
        desk: where they report.
        planned: requests by judge.
        watch: who is told.

    Returns:
        Figures by judge, why all were stopped if they were, and the judges that are asked nothing
        more, with the reason.
    """
    waiting = list(sent)
    with _watching(desk, planned, watch, batches=bool(sent)):
        if online:
            dataset = online[0].union(*online[1:]) if len(online) > 1 else online[0]
            for _ in dataset.iter_batches(batch_size=None, batch_format="pyarrow"):
                pass
        while waiting:
            ended, waiting = ray.wait(waiting, timeout=0.5)
            ray.get(ended)
    tallies: dict[str, Tally]
    lost: dict[str, str]
    tallies, reason, lost = ray.get(desk.look.remote())
    watch.show(tallies, planned)
    return tallies, reason, lost


@contextlib.contextmanager
def _watching(
    desk: Any, planned: Mapping[str, int], watch: Watch, *, batches: bool
) -> Iterator[None]:
    """Show how it goes; turn an interrupt into a stop that lets calls in flight come home."""
    ended, interrupted = threading.Event(), threading.Event()

    def on_signal(number: int, _frame: object) -> None:
        if interrupted.is_set():
            raise KeyboardInterrupt
        interrupted.set()
        name = signal.Signals(number).name
        watch.say(f"{name}: waiting for the calls in flight; once more to abandon them")
        if batches:  # what lies there is not in flight
            watch.say(
                "batches stay at their providers: the same command collects them, and zelo-ray "
                "batches DIR lists them, or cancels them with --cancel"
            )

    def look() -> None:
        while not ended.wait(0.5):
            if interrupted.is_set():
                desk.stop.remote("interrupted; the same command goes on from here")
            with contextlib.suppress(RayError):
                watch.show(ray.get(desk.look.remote())[0], planned)

    main = threading.current_thread() is threading.main_thread()
    signals = (signal.SIGINT, signal.SIGTERM) if main else ()
    before = {number: signal.signal(number, on_signal) for number in signals}
    looking = threading.Thread(target=look, daemon=True)
    looking.start()
    try:
        yield
    finally:
        ended.set()
        looking.join()
        for number, handler in before.items():
            signal.signal(number, handler)


def placed(options: Asking) -> Asking:
    """The options with absolute places; see `absolute`."""
    places = {"out": absolute(options.out), "ledger": absolute(options.books)}
    return options.model_copy(update=places)


@contextlib.contextmanager
def claimed(options: AskingOptions, watch: Watch, kind: str) -> Iterator[None]:
    """Hold the only right to write results, and replies to the ledger.

    Raises:
        LockError: another run holds it, or another command than ``kind`` left its results there.
    """
    with contextlib.ExitStack() as claims:
        claims.enter_context(claim(options.out, watch.say, kind))
        if options.books != options.out:
            claims.enter_context(claim(options.books, watch.say, None))
        drop_reserves(options.books)
        keep_index(options.books)
        yield
        drop_reserves(options.books)
        keep_index(options.books)


def absolute(out: str) -> str:
    """The one place that every process means by ``out``, wherever it runs.

    Raises:
        LedgerError: on a cluster, where a relative path means another place on each node.
    """
    if "://" in out or Path(out).is_absolute():
        return out
    if os.environ.get("RAY_ADDRESS"):
        raise LedgerError(f"--out {out}: on a cluster give a URL, or an absolute path")
    return str(Path(out).resolve())


def new_run_id() -> str:
    """A name for a run: when it began, and something that no other has."""
    return time.strftime("%Y%m%dT%H%M%SZ", time.gmtime()) + f"-{uuid.uuid4().hex[:6]}"


class Timer:
    """Seconds by the name of what took them."""

    def __init__(self) -> None:
        self.laps: dict[str, float] = {}
        self._last = time.monotonic()

    def lap(self, name: str) -> None:
        """Count the time since the last lap under a name."""
        now = time.monotonic()
        self.laps[name] = round(self.laps.get(name, 0.0) + now - self._last, 3)
        self._last = now
