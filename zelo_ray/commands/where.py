"""Choose where a job runs: in this process, or on Ray; the only place that imports the pipeline."""

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import NamedTuple

from zelo_ray.engine.coordinator import CoordinatedRun
from zelo_ray.engine.executor import Executor, LocalExecutor
from zelo_ray.engine.job import JobLines, Watch
from zelo_ray.files.wording import counted
from zelo_ray.options import AskingOptions

MOST_REQUESTS = 200_000
"""Missing requests up to which a job runs in this process, if nothing else speaks for Ray."""
MOST_BYTES = 256 * 2**20


class JobSize(NamedTuple):
    """What a job has to do: requests that are not recorded yet, and bytes of its lines.

    ``gpus`` are those that its rerankers are to have.
    """

    missing: int
    bytes: int
    gpus: float = 0.0


@contextmanager
def executor_of(
    options: AskingOptions, run: CoordinatedRun, lines: JobLines, size: JobSize, watch: Watch
) -> Iterator[Executor]:
    """Say where the job runs, and why; yield its executor."""
    why = _reason_for_ray(options, size)
    if why is None:
        aside = f", although RAY_ADDRESS is {address}" if (address := _address()) else ""
        todo = f"{counted(size.missing, 'request')} to make" if size.missing else "nothing to ask"
        watch.say(f"Running in this process{aside}: {todo}.")
        yield LocalExecutor(run, lines, os.environ)
        return
    watch.say(f"Running on Ray: {why}.")
    from zelo_ray.ray.pipeline import RayExecutor  # noqa: PLC0415 - a second, paid where it is used
    from zelo_ray.ray.session import ray_session, warn_of_missing_gpus  # noqa: PLC0415 - the same

    with ray_session(options):
        if says := warn_of_missing_gpus(size.gpus):
            watch.say(says)
        yield RayExecutor(run, lines)


@contextmanager
def on_one_ray(options: AskingOptions) -> Iterator[None]:
    """Let several jobs share the Ray that options or environment call for, if they do."""
    if _reason_for_ray(options, JobSize(0, 0)) is None:
        yield
        return
    from zelo_ray.ray.session import ray_session  # noqa: PLC0415 - a second, paid where it is used

    with ray_session(options):
        yield


def _address() -> str:
    return os.environ.get("RAY_ADDRESS", "")


def _reason_for_ray(options: AskingOptions, size: JobSize) -> str | None:
    """Return why a job runs on Ray; None: it runs in this process."""
    if options.executor == "local":
        return None
    if address := _address():
        return f"RAY_ADDRESS is {address}"
    if "ray" in sys.modules and sys.modules["ray"].is_initialized():
        return "this process is on it already"
    reasons = {
        "executor is ray": options.executor == "ray",
        "rerankers need GPUs (num_gpus)": size.gpus > 0,
        f"actors is {options.actors}": options.actors > 1,
        f"{size.missing:,} requests are missing": size.missing > MOST_REQUESTS,
        f"the input has {size.bytes / 2**20:,.0f} MB": size.bytes > MOST_BYTES,
    }
    return next((reason for reason, holds in reasons.items() if holds), None)
