"""Join a Ray cluster, or start a private Ray, without its noise on the terminal."""

import atexit
import contextlib
import logging
import os
import shutil
import signal
import tempfile
import threading
import time
from collections.abc import Iterable, Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

import ray
from ray._private import worker as ray_worker
from ray.exceptions import NodeDiedError, TaskUnschedulableError, WorkerCrashedError
from ray.job_config import JobConfig
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

import zelo_ray
from zelo_ray.errors import LedgerError, OptionError, RayUnavailable
from zelo_ray.options import AskingOptions
from zelo_ray.ray.errors import (
    check_cluster_answers,
    explain_failed_start,
    explain_no_cluster,
    explain_ray_errors,
)

_OF_RAY = "r"  # one letter: Ray makes sockets below it, and the path of a socket has to be short
_OBJECT_STORE_BYTES = 512 * 2**20
_GONE = (NodeDiedError, TaskUnschedulableError, WorkerCrashedError)
"""Errors of a task that Ray sent to a node that had died."""


@contextlib.contextmanager
def ray_session(options: AskingOptions) -> Iterator[None]:
    """Join the cluster that ``RAY_ADDRESS`` names, else start a private one on this machine.

    Where this process is on Ray already, it stays there.

    Raises:
        RayUnavailable: it cannot be joined or started, or something of it died.
        LedgerError, RayUnavailable: not every node sees the results, or has this package.
    """
    with contextlib.ExitStack() as ending:
        ending.enter_context(explain_ray_errors(verbose=options.verbose))
        if not ray.is_initialized():
            if address := os.environ.get("RAY_ADDRESS"):
                _join(address, options, ending)
            else:
                _start(options, ending)
        _refuse_unlike_nodes(options)
        yield


def _join(address: str, options: AskingOptions, ending: contextlib.ExitStack) -> None:
    check_cluster_answers(address)
    # Ray would hope for 13 minutes that a server which is no Ray becomes one; let it try once.
    os.environ.setdefault("RAY_gcs_server_port_wait_time_s", "1")
    ending.callback(ray.shutdown)
    try:
        _init(options)
    except Exception as error:
        raise explain_no_cluster(address, error) from error


def _start(options: AskingOptions, ending: contextlib.ExitStack) -> None:
    """Start a Ray on this machine alone, in a folder of its own.

    Ray opens its folder to all users, so it lies inside one that is open to this user only. Its
    processes ignore hang-ups, which a closing terminal sends to all: what they mean this process
    decides, and without them calls in flight would be lost.
    """
    try:
        folder = tempfile.mkdtemp(prefix="zelo-")
        # What a start that failed has begun writes there until Ray ends it, at the exit of this
        # process: after that, since it is registered first, the folder is removed once more.
        atexit.register(ending.callback(_remove_folder, folder), folder)
        ending.callback(ray.shutdown)
        os.environ.setdefault("RAY_gcs_server_port_wait_time_s", "75")  # by default 30
        with contextlib.ExitStack() as starting:
            if threading.current_thread() is threading.main_thread():
                before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
                starting.callback(signal.signal, signal.SIGHUP, before)
            _init(
                options,
                address="local",
                num_cpus=max(2, os.cpu_count() or 2),  # a read task and a writer at once
                include_dashboard=False,
                object_store_memory=_OBJECT_STORE_BYTES,
                _temp_dir=f"{folder}/{_OF_RAY}",
            )
    except Exception as error:
        raise explain_failed_start(error) from error


def _remove_folder(folder: str) -> None:
    """Remove a folder: again, for some seconds, where a process that is ending writes there."""
    for _ in range(50):
        shutil.rmtree(folder, ignore_errors=True)
        if not Path(folder).exists():
            break
        time.sleep(0.1)


def _init(options: AskingOptions, **where: Any) -> None:
    job, verbose = JobConfig(), options.verbose
    job._py_driver_sys_path = _NoFolders()
    level = logging.INFO if verbose else logging.ERROR
    with _hide_working_directory(), contextlib.nullcontext() if verbose else _silence_ray_core():
        ray.init(**where, job_config=job, log_to_driver=verbose, logging_level=level)
    if not verbose:
        # What the raylet says of dead processes comes in spite of log_to_driver; Ray's own debugger
        # silences it so. Where there is no such flag any more, this does nothing.
        ray_worker._worker_logs_enabled = False


class _NoFolders(list[str]):
    """Folders that Ray puts first on its workers' path: by default the user's; here none.

    A ``numpy.py`` among the data would be run else. `Job` brings these folders along, to be last.
    """

    def extend(self, _: Iterable[str]) -> None:
        """Add nothing."""


@contextlib.contextmanager
def _hide_working_directory() -> Iterator[None]:
    """Keep the working directory from the path of all processes that Ray starts meanwhile.

    It stands there where ``PYTHONPATH`` names it or has an empty entry, and before programs that
    are given by ``-c``, as Ray's own are. A package that is run from there is still found.
    """
    variables = {name: os.environ.get(name) for name in ("PYTHONPATH", "PYTHONSAFEPATH")}
    places = (variables["PYTHONPATH"] or "").split(os.pathsep)
    hidden = {Path.cwd()} - {Path(zelo_ray.__file__).resolve().parents[1]}
    os.environ["PYTHONPATH"] = os.pathsep.join(
        place for place in places if place and Path(place).resolve() not in hidden
    )
    os.environ["PYTHONSAFEPATH"] = "1"
    try:
        yield
    finally:
        for name, value in variables.items():
            os.environ.pop(name, None)
            os.environ.update({} if value is None else {name: value})


@contextlib.contextmanager
def _silence_ray_core() -> Iterator[None]:
    """Keep what Ray's C++ core says while it starts from the user's terminal.

    Whatever ``RAY_BACKEND_LOG_LEVEL`` is set to, it reports that it read that variable.
    """
    stderr = os.dup(2)
    with Path(os.devnull).open("wb") as nowhere:
        os.dup2(nowhere.fileno(), 2)
    try:
        yield
    finally:
        os.dup2(stderr, 2)
        os.close(stderr)


def is_joined() -> bool:
    """Return whether a cluster is named that runs join."""
    return bool(os.environ.get("RAY_ADDRESS"))


def nodes_alive() -> list[dict[str, Any]]:
    """Return what Ray knows of each node that is alive; Ray has no types for it."""
    nodes: list[dict[str, Any]] = ray.nodes()  # type: ignore[no-untyped-call]
    return [node for node in nodes if node["Alive"]]


def warn_of_missing_gpus(wanted: float) -> str:
    """Return a warning if rerankers want more GPUs than there are: Ray would wait without a word.

    It is an error on this machine alone; a cluster may still grow.
    """
    available = ray.cluster_resources().get("GPU", 0)  # type: ignore[no-untyped-call]
    if wanted <= available:
        return ""
    says = f"num_gpus: the rerankers take {wanted:g} GPUs, and there are {available:g}"
    if not is_joined():
        raise OptionError(says)
    return f"{says}; the run waits until the cluster has grown"


def _refuse_unlike_nodes(options: AskingOptions) -> None:
    """Refuse a cluster whose nodes lack this version of the package, or do not see the output.

    A path on one node's disk is no place for a cluster's ledger.
    """
    nodes, own = nodes_alive(), zelo_ray.__version__
    places = [place for place in {options.out, options.ledger_dir} if "://" not in place]
    paths = [str(Path(place).resolve() / ".run.lock") for place in places]
    if len(nodes) == 1:
        return

    @ray.remote(num_cpus=0)
    def look() -> tuple[str, list[bool]]:
        try:
            version = import_module("zelo_ray").__version__
        except ImportError:
            version = ""
        return version, [Path(path).exists() for path in paths]

    answers = []
    for node in nodes:
        there_only = NodeAffinitySchedulingStrategy(node["NodeID"], soft=False)
        answer = look.options(scheduling_strategy=there_only).remote()
        answers.append((node["NodeManagerAddress"], answer))  # which several nodes may share
    for address, answer in answers:
        try:
            version, are_there = ray.get(answer)
        except _GONE:
            continue  # a node that is dead lacks nothing
        if version != own:
            has = f"has zelo_ray {version}" if version else "has no zelo_ray"
            raise RayUnavailable(
                f"node {address} of the cluster {has}, and this process is {own}; install the same "
                "on every node, or submit the job with --working-dir"
            )
        if unseen := [
            place for place, is_there in zip(places, are_there, strict=True) if not is_there
        ]:
            raise LedgerError(
                f"{unseen[0]}: not every node sees it (not {address}); use shared storage or a URL"
            )
