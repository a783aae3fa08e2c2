"""Explain why a call got no response, in plain words, for every HTTP library and SDK.

They wrap the system's errors in classes of their own, some of which are misleading: in one SDK a
refused connection is a timeout. So the whole chain of causes is searched.
"""

import errno
import os
import socket
import ssl
from collections.abc import Collection, Iterator
from typing import NamedTuple
from urllib.parse import urlsplit
from urllib.request import proxy_bypass

from zelo_ray.providers.addresses import is_local

CONNECT_SECONDS = 10.0
"""Timeout of making a connection. The call's own timeout begins afterwards."""

PROXIES = ("http_proxy", "https_proxy", "all_proxy")
"""Environment variables that name a proxy, in lower or upper case."""

_BY_NUMBER = {
    errno.ECONNREFUSED: "connection refused",
    errno.ECONNRESET: "connection reset",
    errno.ETIMEDOUT: "no connection in time",
    errno.EHOSTUNREACH: "no route to the host",
    errno.ENETUNREACH: "no route to the network",
}


class MissingResponse(NamedTuple):
    """The reason for a missing response; ``unreached`` if no connection was made."""

    reason: str
    unreached: bool


def proxy_of(url: str, variables: Collection[str] = PROXIES) -> str:
    """Return the proxy that a call goes through, and the variable that sets it; empty for none."""
    place = urlsplit(url)
    if not place.hostname or proxy_bypass(place.netloc.rpartition("@")[2]):
        return ""
    for name in (f"{place.scheme}_proxy", "all_proxy"):
        for variable in (name, name.upper()):
            if name in variables and (proxy := os.environ.get(variable)):
                address = urlsplit(proxy if "//" in proxy else f"//{proxy}")
                shown = address.netloc.rpartition("@")[2]  # without a password
                return f"{address.scheme or 'http'}://{shown} ({variable})"
    return ""


def proxy_note(url: str, variables: Collection[str], *, always: bool = False) -> str:
    """Return a note on the proxy that a call goes through; by default only for a local server."""
    local, proxy = is_local(url), proxy_of(url, variables)
    if not proxy or not (local or always):
        return ""
    route = f", through the proxy {proxy}"
    return f"{route}; set no_proxy={urlsplit(url).hostname}" if local else route


def explain_no_response(error: BaseException, seconds: float) -> MissingResponse | None:
    """Return why a call, with this timeout, got no response; None if the error is about others."""
    import aiohttp  # noqa: PLC0415 - paid where it is used
    import httpx2  # noqa: PLC0415 - paid where it is used

    chain = list(_causes(error))
    unmade = (
        aiohttp.ClientConnectorError,
        aiohttp.ConnectionTimeoutError,
        aiohttp.ServerFingerprintMismatch,
        aiohttp.InvalidURL,
        socket.gaierror,
    )
    unreached = any(isinstance(link, unmade) for link in chain)
    for cause in reversed(chain):  # the system's own error is the innermost
        if reason := _reason(cause):
            return MissingResponse(reason, unreached)
    if any(isinstance(link, TimeoutError) for link in chain):
        return MissingResponse(f"no answer within {seconds:g} s", unreached)
    if any(isinstance(link, OSError | aiohttp.ClientError | httpx2.HTTPError) for link in chain):
        return MissingResponse(f"no answer ({type(chain[-1]).__name__})", unreached)
    return None


def _causes(error: BaseException | None) -> Iterator[BaseException]:
    ids = set[int]()
    while error is not None and id(error) not in ids:
        ids.add(id(error))
        yield error
        error = error.__cause__


def _reason(error: BaseException) -> str:
    """Return the reason that one error of the chain gives; empty if it has no plain wording."""
    import aiohttp  # noqa: PLC0415 - paid where it is used

    reason = ""
    match error:
        case socket.gaierror():
            reason = "host name not known"
        case ssl.SSLCertVerificationError():
            reason = f"certificate not valid ({error.verify_message})"
        case ssl.SSLError():
            reason = f"no TLS connection ({(error.reason or '?').replace('_', ' ').lower()})"
        case aiohttp.ServerFingerprintMismatch():
            reason = "certificate not valid"
        case aiohttp.ConnectionTimeoutError():
            reason = f"no connection within {CONNECT_SECONDS:g} s"
        case aiohttp.ServerDisconnectedError() | aiohttp.ClientPayloadError():
            reason = "connection closed before the answer was complete"
        case aiohttp.ClientResponseError():
            reason = "an answer that is not HTTP"
        case ConnectionResetError() | BrokenPipeError():
            reason = "connection reset"
        case OSError() if error.errno:
            reason = _BY_NUMBER.get(error.errno) or os.strerror(error.errno).lower()
    return reason
