"""Check a server that is given by URL: reachable, has the model, clock is right."""

import http.client
import json
import queue
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from email.message import Message
from email.utils import parsedate_to_datetime
from typing import Any

from zelo_ray.commands.doctor.finding import Finding
from zelo_ray.commands.doctor.secrets import is_sendable
from zelo_ray.options import did_you_mean
from zelo_ray.records import Judge

_SECONDS = 5.0  # for the whole exchange
_MOST = 2**16  # bytes that are read of an answer
_SKEW = 60.0  # seconds that a clock may be off
_NAMED, _NAME = 5, 80  # models that are named, and characters of a name
_START = "start the server, or correct its URL; is the port open from here?"
_Answer = tuple[int, Message, bytes]


class _Stay(urllib.request.HTTPRedirectHandler):
    """Does not follow redirections, which would pass the key on."""

    def redirect_request(self, *_: Any, **__: Any) -> None:
        return None


def check_server(judge: Judge, key: str, variable: str) -> Iterator[Finding]:
    """Check whether a server given by URL is reachable, and has the model.

    Args:
        judge: with the URL.
        key: to send.
        variable: the variable that the key is from.
    """
    what = f"server of {judge.name}"
    if not is_sendable(key):
        problem = (
            "not asked: the key has a character that cannot be sent in a header (a line break?)"
        )
        yield Finding(what, "wrong", problem, f"set {variable} to the key alone")
        return
    try:
        status, headers, body = _fetch_in_time(
            f"{(judge.base_url or '').rstrip('/')}/models", key.strip()
        )
    except TimeoutError:
        yield Finding(what, "wrong", f"no complete answer within {_SECONDS:g} seconds", _START)
    except http.client.IncompleteRead:
        yield Finding(what, "wrong", "its answer was cut off", "look at its log")
    except ConnectionError as error:
        yield Finding(what, "wrong", f"not reached: {error.strerror or 'it hung up'}", _START)
    except OSError as error:
        why = getattr(error, "reason", error)
        yield Finding(what, "wrong", f"not reached: {why}", _START)
    except (http.client.HTTPException, ValueError) as error:  # whose text may hold the key
        problem = f"no HTTP server answers there ({type(error).__name__})"
        do = "correct the URL; does another program listen on this port?"
        yield Finding(what, "wrong", problem, do)
    else:
        yield _check_answer(judge, what, status, body)
        yield from _check_clock(headers.get("Date", ""))


def _fetch_in_time(url: str, key: str) -> _Answer:
    """Return the answer of a server, within a time limit for the whole exchange.

    Raises:
        OSError, HTTPException, ValueError: it fails; TimeoutError if it takes too long.
    """
    came = queue.SimpleQueue[_Answer | Exception]()
    until = time.monotonic() + _SECONDS

    def work() -> None:
        try:
            came.put(_fetch(url, key, until))
        except Exception as error:  # noqa: BLE001 - raised again where it is waited for
            came.put(error)

    threading.Thread(target=work, daemon=True).start()
    try:
        answer = came.get(timeout=_SECONDS)
    except queue.Empty:
        raise TimeoutError from None
    if isinstance(answer, urllib.error.URLError) and isinstance(answer.reason, TimeoutError):
        raise answer.reason
    if isinstance(answer, Exception):
        raise answer
    return answer


def _fetch(url: str, key: str, until: float) -> _Answer:
    asking = urllib.request.Request(url, headers={"Authorization": f"Bearer {key}"})  # noqa: S310 - the scheme was checked with the judge
    opener = urllib.request.build_opener(_Stay)
    try:
        with opener.open(asking, timeout=_SECONDS) as response:
            return response.status, response.headers, _body(response, until)
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.headers, b""


def _body(response: http.client.HTTPResponse, until: float) -> bytes:
    """Read the answer in pieces, so that a slow server cannot block the thread."""
    body = b""
    while len(body) < _MOST:
        if time.monotonic() > until:
            raise TimeoutError
        piece = response.read1(_MOST - len(body))
        body += piece
        if not piece and response.length:
            raise http.client.IncompleteRead(body, response.length)
        if not piece:
            break
    return body


def _check_answer(judge: Judge, what: str, status: int, body: bytes) -> Finding:
    if status in (401, 403):
        do = "name the variable with this server's key: api_key_env in a --config file"
        return Finding(what, "wrong", f"it requires a key, or another one ({status})", do)
    if len(body) >= _MOST:
        return Finding(what, "ok", f"reached ({status}); its list of models is too long to check")
    try:
        models = [str(model["id"]) for model in json.loads(body)["data"]]
    except (ValueError, TypeError, KeyError):
        return Finding(what, "ok", f"reached ({status}); it lists no models")
    if models and judge.model not in models:
        few = ", ".join(name[:_NAME] for name in models[:_NAMED])
        problem = f"reached, but has no model {judge.model!r}{did_you_mean(judge.model, models)}"
        more = " …" if len(models) > _NAMED else ""
        return Finding(what, "wrong", problem, f"name one that it has: {few}{more}")
    return Finding(what, "ok", "reached, and has the model")


def _check_clock(date: str) -> Iterator[Finding]:
    try:
        off = time.time() - parsedate_to_datetime(date).timestamp()
    except (ValueError, TypeError):
        return
    if abs(off) > _SKEW:
        do = "set the clock (NTP): certificates, batches and limits depend on it"
        yield Finding("clock", "wrong", f"{off:+,.0f} s from the server's", do)
    else:
        yield Finding("clock", "ok", "within a minute of the server's")
