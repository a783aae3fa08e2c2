"""Join a Ray cluster, or start a private Ray, without its noise on the terminal."""

import contextlib
import fcntl
import logging
import os
import shutil
import signal
import stat
import tempfile
import threading
from collections.abc import Iterable, Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

import psutil  # which Ray brings along
import ray
from ray._private import worker as ray_worker
from ray._raylet import Config  # type: ignore[attr-defined]
from ray.exceptions import NodeDiedError, RayError, TaskUnschedulableError, WorkerCrashedError
from ray.job_config import JobConfig
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

import zelo_ray
from zelo_ray.errors import LedgerError
from zelo_ray.options import AskingOptions
from zelo_ray.ray.placement import nodes_alive
from zelo_ray.ray.ray_errors import (
    check_cluster_answers,
    explain_failed_start,
    explain_missing_package,
    explain_no_cluster,
    explain_ray_errors,
)

_PREFIX = "zelo-"
_LOCK = "lock"
_OF_RAY = "r"  # one letter: Ray makes sockets below it, and the path of a socket has to be short


@contextlib.contextmanager
def folder_for_ray() -> Iterator[str]:
    """Yield a folder for Ray inside a private one, as Ray opens its own to all users.

    A run holds a lock in its folder, which the system releases however the process ends. So the
    next run can tell which folders killed runs left behind, and removes them.

    Raises:
        OSError: it cannot be made.
    """
    for leftover in Path(tempfile.gettempdir()).glob(f"{_PREFIX}*"):
        _remove_if_left(leftover)
    folder, lock = _locked_folder()
    try:
        yield str(folder / _OF_RAY)
    finally:
        _remove(folder)
        os.close(lock)


def _locked_folder() -> tuple[Path, int]:
    while True:
        folder = Path(tempfile.mkdtemp(prefix=_PREFIX))
        lock = os.open(folder / _LOCK, os.O_RDWR | os.O_CREAT, 0o600)
        fcntl.flock(lock, fcntl.LOCK_EX)
        if os.fstat(lock).st_nlink:
            return folder, lock
        os.close(lock)  # between these two calls another run took the folder for one left behind


def _remove_if_left(folder: Path) -> None:
    """Remove a folder of this user's, if it is certain that its run has ended."""
    with contextlib.suppress(OSError):  # locked, being made, or somebody else is removing it
        status = folder.lstat()
        if not stat.S_ISDIR(status.st_mode) or status.st_uid != os.geteuid():
            return
        lock = os.open(folder / _LOCK, os.O_RDWR | os.O_NOFOLLOW)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            _remove(folder)
        finally:
            os.close(lock)


def _remove(folder: Path) -> None:
    """Remove the lock last, so that a removal that is cut off is taken up by the next run."""
    shutil.rmtree(folder / _OF_RAY, ignore_errors=True)
    shutil.rmtree(folder, ignore_errors=True)


_OBJECT_STORE_BYTES = 512 * 2**20
# Where Ray waits 30 s. Its raylet is waited for so long at once: a client of servers that failed
# would end this process a minute after a second try had begun.
_PATIENCE = {"RAY_raylet_start_wait_time_s": "75", "RAY_agent_register_timeout_ms": "75000"}
_MORE_PATIENCE = {"RAY_gcs_server_port_wait_time_s": "75"}
_GONE = (NodeDiedError, TaskUnschedulableError, WorkerCrashedError)
"""errors of a task that Ray sent to a node that had died"""


@contextlib.contextmanager
def ray_session(options: AskingOptions) -> Iterator[None]:
    """Join the cluster that ``RAY_ADDRESS`` names, else start a private one on this machine.

    Where this process is on Ray already, it stays there.

    Raises:
        RayUnavailable: it cannot be joined or started, its nodes lack this package, or something of
            it died.
        LedgerError: not every node sees the results.
    """
    with contextlib.ExitStack() as ending:
        ending.enter_context(explain_ray_errors(verbose=options.verbose))
        if not ray.is_initialized():
            if address := os.environ.get("RAY_ADDRESS"):
                ending.callback(ray.shutdown)
                _join(address, options)
            else:
                ending.enter_context(_private(options))
        _refuse_unlike_nodes(options)
        yield


def _join(address: str, options: AskingOptions) -> None:
    check_cluster_answers(address)
    # Ray would hope for 13 minutes that a server which is no Ray becomes one; let it try once.
    os.environ.setdefault("RAY_gcs_server_port_wait_time_s", "1")
    try:
        _init(options)
    except Exception as error:
        raise explain_no_cluster(address, error) from error


@contextlib.contextmanager
def _private(options: AskingOptions) -> Iterator[None]:
    """Start a Ray on this machine alone; where that takes too long, try a second time."""
    with contextlib.ExitStack() as ending:
        for name, value in _PATIENCE.items():
            os.environ.setdefault(name, value)
        Config.initialize("")  # this process has read them at import
        try:
            _start(ending, options)
            again = False
        except RayError as error:  # waiting longer does not help
            raise explain_failed_start(error) from error
        except RuntimeError:  # the first server named no port in time: nothing has called it yet
            again = True
        except Exception as error:
            raise explain_failed_start(error) from error
        if again:
            os.environ.update(_MORE_PATIENCE)
            Config.initialize("")
            try:
                _start(ending, options)
            except Exception as error:
                raise explain_failed_start(error) from error
        yield


def _start(ending: contextlib.ExitStack, options: AskingOptions) -> None:
    """Start Ray in a folder of its own; nothing is left where it does not start.

    Args:
        ending: ends it.
        options: of the run.
    """
    with contextlib.ExitStack() as failing:
        folder = failing.enter_context(folder_for_ray())
        failing.callback(_end_processes, folder)
        failing.callback(ray.shutdown)
        with _ignore_hangups():
            _init(
                options,
                address="local",
                num_cpus=max(2, os.cpu_count() or 2),  # a read task and a writer must fit at once
                include_dashboard=False,
                object_store_memory=_OBJECT_STORE_BYTES,
                _temp_dir=folder,
            )
        ending.push(failing.pop_all())


@contextlib.contextmanager
def _ignore_hangups() -> Iterator[None]:
    """Let processes that are started here ignore hang-ups, which a closing terminal sends to all.

    This process decides what it means; without them, calls in flight would be lost.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        yield
    finally:
        signal.signal(signal.SIGHUP, before)


def _end_processes(folder: str) -> None:
    """End what this process started in a folder, and what that started; Ray leaves it running."""
    processes: list[psutil.Process] = []
    for child in psutil.Process().children():
        with contextlib.suppress(psutil.Error):
            if any(folder in word for word in child.cmdline()):
                processes += [child, *child.children(recursive=True)]
    for process in processes:
        with contextlib.suppress(psutil.Error):
            process.kill()
    psutil.wait_procs(processes, timeout=10)


def _init(options: AskingOptions, **where: Any) -> None:
    job = JobConfig()
    job._py_driver_sys_path = _NoFolders()
    with _hide_working_directory():
        if options.verbose:
            ray.init(**where, job_config=job)
            return
        with _silence_ray_core():
            ray.init(**where, job_config=job, log_to_driver=False, logging_level=logging.ERROR)
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
    away = {Path.cwd()} - {Path(zelo_ray.__file__).resolve().parents[1]}
    os.environ["PYTHONPATH"] = os.pathsep.join(
        place for place in places if place and Path(place).resolve() not in away
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
    """Keep what Ray's C++ core says while it starts from the user's terminal."""
    stderr = os.dup(2)
    with Path(os.devnull).open("wb") as nowhere:
        os.dup2(nowhere.fileno(), 2)
    try:
        yield
    finally:
        os.dup2(stderr, 2)
        os.close(stderr)


def _refuse_unlike_nodes(options: AskingOptions) -> None:
    """Refuse a cluster whose nodes lack something, before anything is asked.

    Raises:
        RayUnavailable: some node has no zelo_ray, or another version of it.
        LedgerError: some node does not see the output directory, or the ledger's: a path on one
            node's disk is no place for a cluster's ledger.
    """
    nodes = nodes_alive()
    places = [place for place in {options.out, options.ledger_dir} if "://" not in place]
    if len(nodes) == 1:
        return

    @ray.remote(num_cpus=0)
    def look(paths: list[str]) -> tuple[str, list[bool]]:
        try:
            version = import_module("zelo_ray").__version__
        except ImportError:
            version = ""
        return version, [Path(path).exists() for path in paths]

    paths = [str(Path(place).resolve() / ".run.lock") for place in places]
    looks = []
    for node in nodes:
        there_only = NodeAffinitySchedulingStrategy(node["NodeID"], soft=False)
        look_there = look.options(scheduling_strategy=there_only).remote(paths)
        looks.append((node["NodeManagerAddress"], look_there))
    for address, found_there in looks:
        try:
            node_version, visibility = ray.get(found_there)
        except _GONE:
            continue  # a node that is dead lacks nothing
        if node_version != zelo_ray.__version__:
            raise explain_missing_package(address, node_version, zelo_ray.__version__)
        for place, is_there in zip(places, visibility, strict=True):
            if not is_there:
                raise LedgerError(
                    f"{place}: not every node sees it (not {address}); use shared storage or a URL"
                )
