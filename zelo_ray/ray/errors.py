"""Explain Ray's errors in one line each that says what to do."""

import contextlib
import re
import socket
import tempfile
from collections.abc import Iterator

from ray.exceptions import (
    ObjectStoreFullError,
    OutOfDiskError,
    OutOfMemoryError,
    RayActorError,
    RayError,
    WorkerCrashedError,
)

from zelo_ray.errors import RayUnavailable

_CONNECT_SECONDS = 10.0
_MOST = 300  # characters of what Ray says
_NAMED = re.compile(r"^([A-Za-z_][\w.]*(?:Error|Exception|Stopped))(?:: (.*))?$", re.MULTILINE)
_RESUME = "nothing paid for is lost; run the same command again to resume"


@contextlib.contextmanager
def explain_ray_errors(*, verbose: bool) -> Iterator[None]:
    """Replace errors of Ray in this context by one line that says what to do.

    Raises:
        RayUnavailable: instead of what Ray raises, but for an error that is ours, where verbose.
    """
    try:
        yield
    except RayError as error:
        named = _NAMED.search(str(error))
        if named and named[1].startswith("zelo_ray.") and named[2]:  # it was written for the user
            raise RayUnavailable(named[2]) from error
        if message := _explain_death(error, is_ours=bool(named)):
            raise RayUnavailable(f"{message}; {_RESUME}") from error
        if verbose:
            raise
        more = "verbose: true in --config shows more"
        raise RayUnavailable(f"{_root_message(error)}; {more}") from error


def _explain_death(error: RayError, *, is_ours: bool) -> str:
    """Explain what to do about a worker that died; empty for any other error."""
    larger = "use a larger machine, or fewer --actors"
    match error:
        case OutOfDiskError():
            return f"{tempfile.gettempdir()} is full; make room, or set TMPDIR"
        case ObjectStoreFullError() | OutOfMemoryError():
            return f"Ray ran out of memory; {larger}"
        case RayActorError() | WorkerCrashedError() if not is_ours:
            died = "a process of Ray died or was killed, usually because memory ran out"
            return f"{died}; if it happens again, {larger}"
    return ""


def _root_message(error: BaseException) -> str:
    """Describe the exception that matters, in one line."""
    if isinstance(error, RayError) and (match := _NAMED.search(str(error))):
        return match[0][:_MOST]
    return f"{type(error).__name__}: {' '.join(str(error).split())}"[:_MOST]


def check_cluster_answers(address: str) -> None:
    """Raise where nobody listens at a cluster's address: Ray itself would try for 13 minutes."""
    host, colon, port = address.rpartition(":")
    if "://" in host or not colon or not port.isdecimal():
        return  # Ray knows what it is
    try:
        socket.create_connection((host.strip("[]"), int(port)), _CONNECT_SECONDS).close()
    except (OSError, OverflowError, UnicodeError) as error:
        raise explain_no_cluster(address, error) from error


def explain_no_cluster(address: str, error: Exception) -> RayUnavailable:
    """Explain why a cluster cannot be joined, and what to do."""
    return RayUnavailable(
        f"RAY_ADDRESS={address}: no Ray can be joined there ({_root_message(error)}); correct it; "
        "set RAY_AUTH_MODE=token and RAY_AUTH_TOKEN if the cluster wants a token; or unset it for "
        "a Ray on this machine alone"
    )


def explain_failed_start(error: Exception) -> RayUnavailable:
    """Explain why a private Ray does not start, and what to do."""
    return RayUnavailable(
        f"Ray does not start on this machine ({_root_message(error)}); it needs memory, a "
        f"processor that is not too busy, room and a short path in {tempfile.tempdir or 'TMPDIR'} "
        "(set TMPDIR), and a HOME that can be written to"
    )
