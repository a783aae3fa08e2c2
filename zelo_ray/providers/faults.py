"""Read an error from a server's response, in any form and with any status, even 200.

Servers that speak one protocol differ in their errors. They give an HTTP status, a code, or a
sentence, in ``error``, ``detail``, ``errors``, ``message``, or as plain text; and gateways wrap the
errors of the servers behind them.
"""

import contextlib
import html
import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from zelo_ray.providers.addresses import public_address
from zelo_ray.providers.reading import server_delay
from zelo_ray.records import Status

_DEEPEST, _MOST = 6, 10  # levels, and items of a list
_INSIDE = (
    *("error", "errors", "detail", "details", "violations", "message", "metadata", "raw"),
    "base_resp",
)
_MESSAGES = ("message", "msg", "raw", "detail", "error", "error_description", "title", "status_msg")
_CODES = ("code", "error_code", "error_type", "type", "status", "status_code", "param")
_CODES_OF_GOOGLE = ("reason", "quotaId")
_DELAYS = ("retry_after", "retryAfter", "retry_after_seconds", "retryDelay")
_NO_CODES = {"error", "0", "200", "ok", "success", "none", "null", "false"}
_TITLE = re.compile(r"<title[^>]*>(.*?)</title>", re.IGNORECASE | re.DOTALL)
_HTTP = range(300, 600)
_REDIRECTS = range(300, 400)


@dataclass(frozen=True, slots=True)
class Fault:
    """An unsuccessful call, independent of any SDK. Status 0: unknown.

    ``codes`` are the error's machine-readable words; ``delay`` is the wait that the server asks
    for, in seconds. ``page`` tells that the response is an HTML page, whose title is the message.
    ``ends`` is how the request ends if no further attempt helps. ``redirects_to`` is the address
    that a redirect names, without its query.
    """

    http_status: int
    message: str = ""
    codes: tuple[str, ...] = ()
    delay: float | None = None
    page: bool = False
    ends: Status = "failed"
    redirects_to: str = ""


def read_fault(body: Any, status: int = 0, headers: Mapping[str, str] | None = None) -> Fault:
    """Read an error's body, as JSON, decoded, or as plain text; status 0: the one in it counts."""
    headers = headers or {}
    if isinstance(body, str) and body.lstrip().startswith('"'):
        with contextlib.suppress(ValueError):
            body = json.loads(body)
    levels = list(_levels(body))
    texts = [text for level in levels for text in _texts(level)]
    codes = list(dict.fromkeys(code for level in levels for code in _codes(level)))
    if not (texts or codes) and body and (status or isinstance(body, str)):
        texts = [body if isinstance(body, str) else json.dumps(body)]
    message = texts[-1] if texts else ""
    page = message.lstrip().startswith("<")
    if page:
        title = _TITLE.search(message)
        message = html.unescape(title.group(1)) if title else ""
    plain = (int(code) for code in codes if code.isascii() and code.isdecimal())
    status = status or next((code for code in plain if code in _HTTP), 0)
    delays = (delay for level in levels if (delay := _delay(level)) is not None)
    return Fault(
        http_status=status,
        message=message,
        codes=tuple(code for code in codes if code != str(status)),
        delay=next(delays, server_delay(headers)),
        page=page,
        redirects_to=public_address(headers.get("location", "")) if status in _REDIRECTS else "",
    )


def fault_in(body: Any) -> Fault | None:
    """Read the fault in the body of a successful response; None if there is none."""
    if isinstance(body, list) and body:
        body = body[0]
    if not isinstance(body, dict):
        return None
    error, kinds = body.get("error"), (str(body.get(name)).lower() for name in ("object", "type"))
    if isinstance(error, dict):
        is_none = error.get("code") is not None and str(error["code"]).lower() in _NO_CODES
        is_error = not is_none and any(error.get(name) for name in (*_CODES, *_MESSAGES))
    else:
        is_error = bool(error) and str(error).lower() not in _NO_CODES
    return read_fault(body) if is_error or "error" in kinds else None


def _levels(body: Any, depth: int = 0) -> Iterator[dict[str, Any]]:
    """Yield an error's object and the objects inside it, the outermost first."""
    if isinstance(body, str):
        try:
            body = json.loads(body) if body.lstrip()[:1] in ("{", "[") else None
        except (ValueError, RecursionError):
            body = None
    if depth >= _DEEPEST:
        return
    if isinstance(body, list):
        for item in body[:_MOST]:
            yield from _levels(item, depth + 1) if isinstance(item, dict) else ()
    if isinstance(body, dict):
        yield body
        for name in _INSIDE:
            yield from _levels(body.get(name), depth + 1)


def _texts(level: Mapping[str, Any]) -> Iterator[str]:
    """Yield the message of one level, unless it is JSON, which is a level of its own."""
    for name in _MESSAGES:
        text = level.get(name)
        if isinstance(text, str) and text.strip() and not list(_levels(text)):
            yield text
            return


def _codes(level: Mapping[str, Any]) -> Iterator[str]:
    for name in (*_CODES, *_CODES_OF_GOOGLE):
        code = level.get(name)
        is_code = isinstance(code, str | int) and code and str(code).lower() not in _NO_CODES
        if is_code and (name in _CODES or re.fullmatch(r"[\w.-]+", str(code))):  # not a sentence
            yield str(code)
    if level.get("flagged_input"):  # OpenRouter's moderation, with the status of a wrong key
        yield "content_filter"
    is_spent = level.get("status") == "RESOURCE_EXHAUSTED" and "limit: 0," in str(
        level.get("message")
    )
    if is_spent or str(level.get("quotaValue")) == "0":
        yield "zero_quota"  # Google's; waiting does not help


def _delay(level: Mapping[str, Any]) -> float | None:
    """Read the requested delay, in seconds, from a number, a duration, or a header's copy."""
    wish = next((level[name] for name in _DELAYS if level.get(name) is not None), None)
    if wish is not None:
        return server_delay({"retry-after": str(wish).removesuffix("s")})
    copied = level.get("headers")
    if not isinstance(copied, dict):
        return None
    return server_delay({str(name).lower(): str(value) for name, value in copied.items()})
