"""Explain why a call got no response, in plain words, for every HTTP library and SDK.

They wrap the system's errors in classes of their own, some of which are misleading: in one SDK a
refused connection is a timeout. So the whole chain of causes is searched.
"""

import os
import ssl
from collections.abc import Iterator
from typing import NamedTuple

CONNECT_SECONDS = 10.0
"""Timeout of making a connection. The call's own timeout begins afterwards."""

_BY_CLASS = {
    "gaierror": "host name not known",
    "ConnectionTimeoutError": f"no connection within {CONNECT_SECONDS:g} s",
    **dict.fromkeys(
        ("ServerDisconnectedError", "ClientPayloadError"),
        "connection closed before the answer was complete",
    ),
    "ClientResponseError": "an answer that is not HTTP",
    **dict.fromkeys(("ConnectionResetError", "BrokenPipeError"), "connection reset"),
}
"""By the name of an error's class, of the system or of aiohttp, what it means."""
_UNMADE = {"gaierror", "ClientConnectorError", "ConnectionTimeoutError", "InvalidURL"}
_UNKNOWN = {"OSError", "ClientError", "HTTPError"}


class MissingResponse(NamedTuple):
    """The reason for a missing response; ``unreached`` if no connection was made."""

    reason: str
    unreached: bool


def explain_no_response(error: BaseException, seconds: float) -> MissingResponse | None:
    """Return why a call, with this timeout, got no response; None if the error is about others."""
    chain = list(_causes(error))
    names = {name for link in chain for name in _classes(link)}
    # the system's own error is the innermost
    reason = next(filter(None, map(_reason, reversed(chain))), "")
    if not reason and "TimeoutError" in names:
        reason = f"no answer within {seconds:g} s"
    if not reason and names & _UNKNOWN:
        reason = f"no answer ({type(chain[-1]).__name__})"
    return MissingResponse(reason, bool(names & _UNMADE)) if reason else None


def _causes(error: BaseException | None) -> Iterator[BaseException]:
    ids = set[int]()
    while error is not None and id(error) not in ids:
        ids.add(id(error))
        yield error
        error = error.__cause__


def _classes(error: BaseException) -> list[str]:
    return [each.__name__ for each in type(error).__mro__]


def _reason(error: BaseException) -> str:
    """Return the reason that one error of the chain gives; empty if it has no plain wording."""
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"certificate not valid ({error.verify_message})"
    if isinstance(error, ssl.SSLError):
        return f"no TLS connection ({(error.reason or '?').replace('_', ' ').lower()})"
    if reason := next((_BY_CLASS[name] for name in _classes(error) if name in _BY_CLASS), ""):
        return reason
    number = error.errno if isinstance(error, OSError) else None
    return os.strerror(number).lower() if number else ""
