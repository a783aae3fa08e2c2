"""Explain Ray's errors in one line each that says what to do."""

import contextlib
import errno
import re
import socket
import tempfile
from collections.abc import Iterator
from pathlib import Path

from ray.exceptions import (
    ObjectStoreFullError,
    OutOfDiskError,
    OutOfMemoryError,
    RayActorError,
    RayError,
    WorkerCrashedError,
)

from zelo_ray.errors import RayUnavailable

_KNOCK_SECONDS = 10.0
_MOST = 300  # characters of what Ray says
_NAMED = re.compile(r"^([A-Za-z_][\w.]*(?:Error|Exception|Stopped))(?:: (.*))?$", re.MULTILINE)
_NO_TOKEN = re.compile("authenticat", re.IGNORECASE)
_GO_ON = "nothing paid for is lost; run the same command again to resume"


@contextlib.contextmanager
def explain_ray_errors(*, verbose: bool) -> Iterator[None]:
    """Replace errors of Ray in this context by one line that says what to do.

    Args:
        verbose: leave its traceback to an error that is ours.

    Raises:
        RayUnavailable: instead of what Ray raises.
    """
    try:
        yield
    except RayError as error:
        message = _explain_death(error) or _own_message(error)
        if verbose and not message:
            raise
        raise RayUnavailable(
            message or f"{_root_message(error)}; verbose: true in --config shows more"
        ) from error


def _explain_death(error: RayError) -> str:
    """Explain what to do about a worker that died; empty for any other error."""
    if isinstance(error, OutOfDiskError):
        return f"{tempfile.gettempdir()} is full; make room, or set TMPDIR; {_GO_ON}"
    if isinstance(error, ObjectStoreFullError | OutOfMemoryError):
        return f"Ray ran out of memory; use a larger machine, or fewer --actors; {_GO_ON}"
    if isinstance(error, RayActorError | WorkerCrashedError) and not _NAMED.search(str(error)):
        return (
            "a process of Ray died or was killed, usually because memory ran out; if it happens "
            f"again, use a larger machine, or fewer --actors; {_GO_ON}"
        )
    return ""


def _own_message(error: RayError) -> str:
    """Return the message of our own exception, raised inside a worker; empty for any other."""
    match = _NAMED.search(str(error))
    ours = match and match[1].startswith("zelo_ray.") and match[2]
    return ours or ""


def _root_message(error: BaseException) -> str:
    """Describe the exception that matters, in one line."""
    if isinstance(error, RayError) and (match := _NAMED.search(str(error))):
        return match[0][:_MOST]
    return f"{type(error).__name__}: {' '.join(str(error).split())}"[:_MOST]


def check_cluster_answers(address: str) -> None:
    """Check that something listens at a cluster's address: Ray itself would try for 13 minutes.

    Raises:
        RayUnavailable: nobody listens there.
    """
    host, colon, port = address.rpartition(":")
    if "://" in host or not colon or not port.isdecimal():
        return  # Ray knows what it is
    try:
        socket.create_connection((host.strip("[]"), int(port)), _KNOCK_SECONDS).close()
    except (OSError, OverflowError, UnicodeError) as error:
        raise explain_no_cluster(address, error) from error


def explain_no_cluster(address: str, error: Exception) -> RayUnavailable:
    """Explain why a cluster cannot be joined, and what to do."""
    # Ray raises the same types for all of these: only its words tell one from another.
    if "Version mismatch" in str(error):
        words = " ".join(str(error).split())[:_MOST]
        return RayUnavailable(f"RAY_ADDRESS={address}: {words} Use the cluster's versions here")
    if _NO_TOKEN.search(str(error)):
        return RayUnavailable(
            f"RAY_ADDRESS={address}: the cluster wants a token; set RAY_AUTH_MODE=token, and "
            "RAY_AUTH_TOKEN to the cluster's (or put it into ~/.ray/auth_token)"
        )
    reason = (
        error.strerror if isinstance(error, OSError) and error.strerror else _root_message(error)
    )
    if "Failed to connect" in reason:  # something listens there, as was checked before
        reason += (
            ": it is not a Ray cluster, or it requires RAY_AUTH_TOKEN, with RAY_AUTH_MODE=token"
        )
    return RayUnavailable(
        f"RAY_ADDRESS={address}: no Ray can be joined there ({reason}); correct it, or unset it "
        "for a Ray on this machine alone"
    )


def explain_missing_package(node: str, installed: str, version: str) -> RayUnavailable:
    """Explain that a node cannot work on a run, and what to do.

    Args:
        node: its address.
        installed: the version of zelo_ray that it has; empty: none.
        version: of this process.
    """
    has = f"has zelo_ray {installed}" if installed else "has no zelo_ray"
    return RayUnavailable(
        f"node {node} of the cluster {has}, and this process is {version}; install the same on "
        "every node, or submit the job with --working-dir"
    )


def explain_failed_start(error: Exception) -> RayUnavailable:
    """Explain why a private Ray does not start, and what to do."""
    message = f"Ray does not start on this machine ({_root_message(error)})"
    if not isinstance(error, OSError | ValueError | RayError):
        message += "; is it too busy, or short of memory? Try again when less runs here"
    if not isinstance(error, OSError):
        return RayUnavailable(message)
    place, where = tempfile.tempdir or "TMPDIR", str(error.filename or "")
    if "AF_UNIX" in str(error):
        message = f"{place}: too long a path for Ray; set TMPDIR to a shorter one"
    elif _is_token(where):
        message = (
            f"{where}: {error.strerror}; Ray keeps its token there, so set HOME to a directory "
            "that can be written to, or RAY_AUTH_TOKEN to a secret"
        )
    elif error.errno in (errno.ENOSPC, errno.EDQUOT):
        message = f"{place} is full, and Ray starts there; make room, or set TMPDIR"
    elif Path(where or "/").is_relative_to(place) or "temporary directory" in str(error):
        message = (
            f"{place}: {error.strerror}; Ray needs a temporary directory, so set TMPDIR to one "
            "that can be written to"
        )
    return RayUnavailable(message)


def _is_token(path: str) -> bool:
    token = Path.home() / ".ray" / "auth_token"
    return bool(path) and token.is_relative_to(path)
