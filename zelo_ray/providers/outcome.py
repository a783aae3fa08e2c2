"""What the providers share: one call becomes an answer or one of the three errors.

An SDK's exception holds the key and the prompt, and some cannot be pickled. So it ends here: what
leaves is a new error with one line of text, raised where no other exception is being handled.
"""

import asyncio
import json
import math
import os
import time
import traceback
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from email.utils import parsedate_to_datetime
from pathlib import Path
from typing import Any

from zelo_ray.providers import Fatal, Refused, Retry, Settings
from zelo_ray.records import Answer, Request

_KEY = "the key was refused; set {variables} to a valid one"
_UNPAID = "the account's quota or spending limit is used up; raise it, then run again"
_OPTION = "the model does not take an option of this judge; change its judge_options"

_STATUS_ADVICE = {
    401: _KEY,
    402: _UNPAID,
    403: "the key may not do this; grant it access, or choose another model",
    404: "no such model or address; check the judge's name and base URL",
}
_RETRY = {408, 409, 429, 499}  # and all from 500 on; 499 is Gemini's CANCELLED
_REFUSED = {400, 413, 422}

# What some errors say in their codes: these pass neither by waiting nor with other prompts. Codes
# only: Gemini's messages speak of quota and billing in every 429.
_CODE_ADVICE = {
    "insufficient_quota": _UNPAID,
    "spend_limit_reached": _UNPAID,
    "billing": _UNPAID,
    "perday": "the quota of the day is used up; raise it, or run again tomorrow",
    "zero_quota": "the account has no quota for this model; raise it, or choose another model",
    "api_key_invalid": _KEY,
    "unsupported_parameter": _OPTION,
    "unsupported_value": _OPTION,
    "unknown_parameter": _OPTION,
}
_FILTERED = ("content_filter", "content_policy", "invalid_prompt")
_MESSAGE_LENGTH = 200
_ECHO_LENGTH = 16


@dataclass(frozen=True, slots=True)
class Fault:
    """An unsuccessful call, in no SDK's words. Status 0: there was no HTTP response.

    ``codes`` are the error's machine-readable words, most telling first; ``delay`` is the server's
    wish in seconds.
    """

    status: int
    message: str = ""
    codes: Sequence[str] = ()
    delay: float | None = None


def resolved(
    settings: Settings, provider: str, variables: Sequence[str], base_url: str, variable: str
) -> Settings:
    """Complete the settings: a base URL, and a key that can be sent.

    The base URL is their own, else that of ``variable``, which the SDK reads, else the provider's.

    Raises:
        Fatal: there is no key and the base URL is the provider's own, or no key looks like this.
    """
    key = settings.key.strip()
    url = settings.base_url or os.environ.get(variable) or base_url
    named = " or ".join(variables)
    if not key and url == base_url:
        raise Fatal(f"{provider}: no key; set {named}")
    if not (key.isascii() and key.isprintable() and " " not in key):
        raise Fatal(f"{provider}: the key holds characters that no key has; check {named}")
    return replace(settings, key=key, base_url=url)


async def attempt(
    call: Awaitable[str],
    request: Request,
    settings: Settings,
    variables: Sequence[str],
    *,
    read: Callable[[Any], Answer],
    fault: Callable[[Exception], Fault | None],
) -> Answer:
    """Await one call's response body and read it.

    Args:
        call: The SDK's call; its result is the raw JSON text.
        request: What is being asked; its texts are kept out of the errors.
        settings: Where it is being asked; the key is kept out of the errors.
        variables: The environment variables that may hold the key, for the errors.
        read: Turns the decoded JSON into an answer; what it stumbles over is a malformed response.
        fault: Turns an SDK's exception into a `Fault`; None where it is not one of the SDK's.

    Raises:
        Retry: the call may succeed later.
        Refused: this request will not succeed, others may.
        Fatal: a person has to act.
    """
    name = request.judge.name
    failure: Retry | Refused | Fatal
    try:
        async with asyncio.timeout(settings.timeout):
            text = await call
    except UnicodeEncodeError:
        failure = Refused(f"{name}: the prompt holds characters that cannot be sent")
    except (TimeoutError, OSError, json.JSONDecodeError, UnicodeDecodeError) as error:
        failure = Retry(f"{name}: no answer ({type(error).__name__})")
    except Exception as error:  # noqa: BLE001 - an SDK may raise anything, and nothing of it may leave
        failure = _failure(error, fault, request, settings.key, variables)
    else:
        try:
            return read(json.loads(text))
        except (ValueError, LookupError, TypeError, AttributeError):
            failure = Retry(f"{name}: a response without an answer in it")
    raise failure


def server_delay(headers: Mapping[str, str], now: Callable[[], float] = time.time) -> float | None:
    """Seconds that a response asks to wait; None where it asks for nothing understandable.

    That is ``retry-after-ms``, else ``retry-after`` as a number or as an HTTP date.
    """
    for field, unit in (("retry-after-ms", 1000.0), ("retry-after", 1.0)):
        value = headers.get(field, "")
        try:
            delay = float(value) / unit
        except ValueError:
            try:
                delay = parsedate_to_datetime(value).timestamp() - now()
            except ValueError:
                continue
        if math.isfinite(delay):
            return max(0.0, delay)
    return None


def _failure(
    error: Exception,
    fault: Callable[[Exception], Fault | None],
    request: Request,
    key: str,
    variables: Sequence[str],
) -> Retry | Refused | Fatal:
    try:
        if found := fault(error):
            return _judged(found, request, key, variables)
    except Exception as another:  # noqa: BLE001 - an error in a form that no server should give it
        error = another
    at = traceback.extract_tb(error.__traceback__)[-1]
    place = f"{Path(at.filename).name}:{at.lineno}"
    return Refused(f"{request.judge.name}: unexpected {type(error).__name__} at {place}")


def _judged(
    fault: Fault, request: Request, key: str, variables: Sequence[str]
) -> Retry | Refused | Fatal:
    said = _sayable(fault.message, request, key)
    codes = " ".join(dict.fromkeys(str(code) for code in fault.codes if code))
    status = fault.status
    words = (str(status or ""), _sayable(codes, request, key))
    detail = " ".join(word for word in words if word)
    detail = f"{detail}: {said}" if said else detail
    name = request.judge.name
    marks = codes.lower()
    known = (advice for code, advice in _CODE_ADVICE.items() if code in marks and status < 500)
    if advice := next(known, _STATUS_ADVICE.get(status)):
        return Fatal(f"{name}: {advice.format(variables=' or '.join(variables))} ({detail})")
    if status == 0:
        return Retry(f"{name}: no answer ({detail})", fault.delay)
    if status in _RETRY or status >= 500:
        return Retry(f"{name}: {detail}", fault.delay, throttled=status == 429)
    if status in _REFUSED:
        filtered = any(code in marks for code in _FILTERED)
        return Refused(f"{name}: {detail}", "filtered" if filtered else "failed")
    return Fatal(f"{name}: a response that no such server gives; check the base URL ({detail})")


def _sayable(message: str, request: Request, key: str) -> str:
    """A server's message in one short line: nothing of the key, the prompt, or a page of HTML."""
    if len(key) < _ECHO_LENGTH // 2:  # a word for servers that need none
        key = "\0"
    line = " ".join(message.replace(key, "[key]").split())[:_MESSAGE_LENGTH]
    windows = range(max(1, len(line) - _ECHO_LENGTH + 1))
    prompt = f"{request.system}\n{request.user}"
    if line.startswith("<") or any(line[i : i + _ECHO_LENGTH] in prompt for i in windows):
        return ""
    return line
