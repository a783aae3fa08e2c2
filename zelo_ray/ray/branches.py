"""Build the branches of both jobs that ask, and watch them while they run."""

import contextlib
import os
import signal
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import ray
from ray.exceptions import RayError

from zelo_ray.engine.job import POOLS_AT_ONCE, Watch
from zelo_ray.engine.tally import Tally
from zelo_ray.ray.actors import OnlineActor
from zelo_ray.ray.coordinator import CoordinatorClient, RunCoordinator
from zelo_ray.ray.dataset import Job, lines_dataset
from zelo_ray.ray.placement import asking_actor_options
from zelo_ray.reasons import Disabled
from zelo_ray.records import Judge

_BLOCKS_AT_ONCE = 4
_CLOSING_SECONDS = 60.0


def online_branch(
    job: Job,
    shards: Sequence[str],
    coordinator: CoordinatorClient,
    judges: Sequence[Judge],
    num_gpus: float = 0,
) -> Any:
    """Return the branch of judges that share an actor pool, and are asked online.

    Ray Data spreads the actors of a pool over the nodes of a cluster.
    """
    from ray.data import ActorPoolStrategy  # noqa: PLC0415 - two seconds, paid where it is used

    return lines_dataset(job, shards).map_batches(
        OnlineActor,
        fn_constructor_args=(job, judges, coordinator),
        batch_size=POOLS_AT_ONCE,
        batch_format="pyarrow",
        num_gpus=num_gpus,
        **asking_actor_options(),
        compute=ActorPoolStrategy(
            size=job.options.actors,
            max_concurrent_calls_per_actor=_BLOCKS_AT_ONCE,
            enable_true_multi_threading=True,
        ),
    )


@dataclass(frozen=True, slots=True)
class Branches:
    """Branches that ask, side by side."""

    online: list[Any] = field(default_factory=list)
    """datasets whose execution asks"""
    waiting: list[Any] = field(default_factory=list)
    """what actors will return"""
    actors: list[Any] = field(default_factory=list)
    """those of them that are to be closed; all live while they are held"""


def run_branches(
    begin: Callable[[], Branches],
    coordinator: RunCoordinator,
    planned: Mapping[str, int],
    watch: Watch,
    *,
    batches: bool = False,
) -> tuple[dict[str, Tally], str, dict[str, Disabled]]:
    """Run branches that ask, side by side, to their end.

    Args:
        begin: makes them; actors may ask before it returns, so signals are handled before.
        coordinator: client of the coordinator, to which they report.
        planned: requests by judge.
        watch: who is told.
        batches: whether some wait for batches.

    Returns:
        Figures by judge, why all were stopped if they were, and the judges that are asked nothing
        more, with the reason.
    """
    with _watching(coordinator, planned, watch, batches=batches):
        branches = begin()
        online, waiting = branches.online, branches.waiting
        if online:
            dataset = online[0].union(*online[1:]) if len(online) > 1 else online[0]
            for _ in dataset.iter_batches(batch_size=None, batch_format="pyarrow"):
                pass
        while waiting:
            ended, waiting = ray.wait(waiting, timeout=0.5)
            ray.get(ended)
        if closing := [actor.close.remote() for actor in branches.actors]:
            ray.wait(closing, num_returns=len(closing), timeout=_CLOSING_SECONDS)
    tallies, reason, disabled = coordinator.read_figures(planned)
    watch.show(tallies, planned)
    return tallies, reason, disabled


@contextlib.contextmanager
def _watching(
    coordinator: RunCoordinator, planned: Mapping[str, int], watch: Watch, *, batches: bool
) -> Iterator[None]:
    """Show progress; turn an interrupt into a stop that still waits for calls in flight."""
    ended, interrupted = threading.Event(), threading.Event()
    on_terminal = [stream for stream in (1, 2) if os.isatty(stream)]

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

    def look() -> None:
        while not ended.wait(0.5):
            with contextlib.suppress(RayError, OSError):  # a terminal that was closed is no file
                if interrupted.is_set():
                    coordinator.stop("interrupted; run the same command again to resume")
                watch.show(coordinator.read_figures(planned)[0], planned)

    main = threading.current_thread() is threading.main_thread()
    signals = [signal.SIGINT, signal.SIGTERM, signal.SIGHUP] if main else []
    if signal.getsignal(signal.SIGHUP) == signal.SIG_IGN:  # as under nohup: the run goes on
        signals = signals[:2]
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


def _leave_terminal(streams: Sequence[int]) -> None:
    """Discard all output from now on: the terminal was closed."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    for stream in streams:
        os.dup2(nowhere, stream)
    os.close(nowhere)
