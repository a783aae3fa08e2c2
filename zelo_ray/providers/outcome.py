"""Turn one call of a provider into an answer or one of the three errors.

An SDK's exception may contain the key and the prompt, and some cannot be pickled. So none leaves
this module: a new error with one line of text is raised, outside of any exception handler.
"""

import asyncio
import contextlib
import json
import re
import traceback
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypeVar

from zelo_ray.providers.faults import Fault, fault_in, find_status, is_context_error, read_fault
from zelo_ray.providers.no_response import PROXIES, explain_no_response, proxy_note
from zelo_ray.providers.provider import Fatal, Outcome, Refused, Retry, RetryKind, Settings
from zelo_ray.providers.reading import server_delay
from zelo_ray.records import Answer, Usage

T = TypeVar("T")
MALFORMED = (ValueError, LookupError, TypeError, AttributeError)
"""Errors of reading a response that does not have the documented form."""
GONE = "its results are gone; the provider keeps them for some time only"

_KEY = "the key was refused; set {variables} to a valid one"
_NO_KEY = (
    "the server requires a key, and none was sent; name the variable that holds it: api_key_env"
)
_UNPAID = "the account's quota or spending limit is used up; raise it, then run again"
_STREAMED = (
    "the answer came as a stream of pieces, for which it was not asked; turn streaming off at the "
    "server, or leave stream out of extra_body"
)
_OPTION = "the model does not accept an option of this judge; change its judge_options"
# Errors that neither waiting nor another prompt resolves, by a word in their codes. Messages are
# not searched: Gemini's mention quota and billing in every 429.
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
_STATUS_ADVICE = {
    401: _KEY,
    402: _UNPAID,
    403: "the key may not do this; grant it access, or choose another model",
    404: "no such model or address; check the judge's name and base URL",
}
_BATCH_ADVICE = _STATUS_ADVICE | {
    404: "no such batch; it was deleted, or sent with a key of another account, or to another "
    "base URL"
}
_PAGE_ADVICE = (
    "a firewall or a login page answered, and not the API; let this machine through, or check the "
    "base URL and the proxy"
)
_PROXY_LOGIN = 407
# Fields that older servers do not take, with the option that helps: the request is refused all the
# same, and the judge stops when all of its first ones are.
_FIELD_HINTS = {
    field: f"; in judge_options, {hint}"
    for field, hint in {
        "max_completion_tokens": "set token_limit_field: max_tokens",
        "max_tokens": "set a smaller max_output_tokens",
        "response_format": "set response_format: json_object, or none",
        "temperature": "leave temperature out",
        "reasoning_effort": "leave reasoning_effort out",
        "logprobs": "set reasoning_effort: none; or ask with --answer reasoned",
    }.items()
}
_HINTED = {400, 403, 422}
_RETRY = {0, 408, 409, 429, 499}  # and all from 500 on; 499 is Gemini's CANCELLED
_KINDS = {
    429: RetryKind.THROTTLED,
    502: RetryKind.UNAVAILABLE,
    503: RetryKind.UNAVAILABLE,
    529: RetryKind.UNAVAILABLE,
}
"""Statuses that say why to retry; a 500 or a 504 may also be caused by the request."""
_REFUSED = {400, 413, 422}
_FILTERED = ("content_filter", "content_policy", "invalid_prompt")
_CODE = re.compile(r"[\w.\-\[\]]{1,100}")
_MESSAGE_LENGTH = 200
_ECHO_LENGTH = 16
_KEY_START = 6  # first characters of a key that servers may show
_STARRED = re.compile(r"\S*\*{3,}\S*")  # another way in which servers show a key
_EVENTS = ("data:", "event:", "id:", "retry:")  # how a stream of server-sent events begins
_PIECE_FIELDS = frozenset({"choices", "candidates", "object", "type"})


@dataclass(frozen=True, slots=True)
class Caller:
    """The caller of a provider, with what its errors may and must not contain."""

    name: str
    """the beginning of its errors"""
    settings: Settings
    """with the URL, and the key, which must not be in errors"""
    variables: Sequence[str]
    """the environment variables that may hold the key"""
    fault: Callable[[Exception], Fault | None]
    """turns an SDK's exception into a `Fault`; None where it is about no response's status"""
    prompts: Iterable[str] | None = ()
    """texts that errors must not quote; None if they are unknown, so that all messages of the
    server are left out"""
    is_existing_batch: bool = False
    """whether the call is about existing batches, so that no error means a refused request"""
    gone_statuses: Collection[int] = ()
    """statuses that mean that the results no longer exist"""
    retry_statuses: Collection[int] = ()
    """further statuses after which to retry, for this kind of server"""
    filter_statuses: Collection[int] = ()
    """statuses that mean that a content filter refused the text"""
    proxies: Collection[str] = PROXIES
    """environment variables of a proxy that its HTTP library uses"""


async def guard_call(call: Awaitable[T], caller: Caller, seconds: float | None = None) -> T:
    """Await an SDK's call, and turn whatever it raises into one of the three errors.

    The timeout is by default that of the settings.

    Raises:
        Retry, Refused, Fatal: and nothing else.
    """
    failure: Retry | Refused | Fatal
    seconds = seconds or caller.settings.timeout
    try:
        async with asyncio.timeout(seconds):
            return await call
    except UnicodeEncodeError:
        failure = Refused("the prompt holds characters that cannot be sent", name=caller.name)
    except (json.JSONDecodeError, UnicodeDecodeError):
        failure = Retry("an answer that cannot be read", name=caller.name, unsettled=True)
    except Exception as error:  # noqa: BLE001 - an SDK may raise anything, and nothing of it may leave
        failure = _failure(error, caller, seconds)
    raise failure


async def attempt_call(
    call: Awaitable[tuple[str, Mapping[str, str]]],
    caller: Caller,
    read_answer: Callable[[Any], Answer | Fault],
    read_usage: Callable[[Any], Usage],
    rates: Callable[[Mapping[str, str]], Mapping[str, float]] | None = None,
) -> Answer:
    """Await one call's response, as text and headers, and read the answer in it.

    Raises:
        Retry, Refused, Fatal: as `guard_call`; Retry also if the response has no answer.
    """
    text, headers = await guard_call(call, caller)
    outcome = read_response(text, caller, read_answer, read_usage, headers)
    if not isinstance(outcome, Answer):
        raise outcome
    limits = rates(headers) if rates else None
    return replace(outcome, rates=limits) if limits else outcome


def read_response(
    response: Any,
    caller: Caller,
    read_answer: Callable[[Any], Answer | Fault],
    read_usage: Callable[[Any], Usage],
    headers: Mapping[str, str] | None = None,
) -> Outcome:
    """Read the answer in a successful response, as JSON text or decoded, or the error in it."""
    body, usage = response, Usage()
    with contextlib.suppress(ValueError):
        body = json.loads(response) if isinstance(response, str) else response
    with contextlib.suppress(*MALFORMED):
        usage = read_usage(body)
    if pieces := _pieces_of_stream(body):
        if fault := next(filter(None, map(fault_in, pieces)), None):
            return classify_fault(fault, caller)
        return Answer("invalid", "", usage, reason=_STREAMED, judge_fault=_STREAMED)
    refused = fault_in(body)
    read: Answer | Fault | None = refused
    if refused is None:
        with contextlib.suppress(*MALFORMED):
            read = read_answer(body)
    if isinstance(read, Answer):
        return read
    fault = read or read_fault(body)
    if fault.delay is None:
        fault = replace(fault, delay=server_delay(headers or {}))
    outcome = classify_fault(fault, caller, lacking=read is None)
    if isinstance(outcome, Retry):
        outcome.billed = None if usage == Usage() else usage
        # A refused request is not billed.
        throttled = outcome.kind is RetryKind.THROTTLED
        outcome.unsettled = not (refused or outcome.billed or throttled)
    elif isinstance(outcome, Refused) and usage != Usage():
        return Answer(outcome.status, "", usage, reason=str(outcome))
    return outcome


def _pieces_of_stream(body: Any) -> list[Any]:
    """Return the pieces of a body that came as events, as lines of JSON or as a list; else none."""
    if isinstance(body, list):  # rerankers answer by a list, too
        are_pieces = all(isinstance(piece, dict) and _PIECE_FIELDS & piece.keys() for piece in body)
        return body if are_pieces and fault_in(body) is None else []
    if not isinstance(body, str):
        return []
    lines = [line for line in map(str.strip, body.removeprefix("\ufeff").splitlines()) if line]
    lines = [line for line in lines if not line.startswith(":")]  # a comment of a stream
    if lines and lines[0].startswith(_EVENTS):
        lines = [line.removeprefix("data:").strip() for line in lines if line.startswith("data:")]
    elif len(lines) < 2 or not all(line.startswith("{") for line in lines):
        return []
    pieces = list[Any]()
    for line in lines:
        with contextlib.suppress(ValueError):  # such as [DONE]
            pieces.append(json.loads(line))
    return pieces


def classify_fault(
    fault: Fault, caller: Caller, *, lacking: bool = False
) -> Retry | Refused | Fatal:
    """Decide whether to retry after a fault, to give up the request, or to stop the judge.

    The error is not raised. ``lacking``: the response was successful, but had no answer.
    """
    name, keys, quoted = caller.name, (caller.settings.key,), caller.prompts or ()
    words = [str(code) for code in fault.codes if code]
    codes = " ".join(dict.fromkeys(word for word in words if _CODE.fullmatch(word)))
    status, text, lower_codes = fault.http_status or find_status(words), "", codes.lower()
    is_key_error = "api_key" in lower_codes or (status == 401 and not fault.page)
    if caller.prompts is not None and not is_key_error:  # it may contain part of the key
        text = redact(fault.message, quoted, keys)
    status = status or find_status([text])
    if status >= 500 and is_context_error([*words, text]):
        status = 400
    if status == 401 and not fault.page:
        text = ""
    detail = _describe(fault, redact(codes, quoted, keys), text, caller)
    if status in _HINTED and not is_context_error([*words, text]):
        detail += next((_FIELD_HINTS[w] for w in re.findall(r"\w+", text) if w in _FIELD_HINTS), "")
    if lacking:
        detail = ": ".join(filter(None, ("a response without an answer in it", detail)))
    if status in caller.gone_statuses:
        return Refused(f"{GONE} ({detail})", name=name)
    filtered = status in caller.filter_statuses or any(code in lower_codes for code in _FILTERED)
    if filtered and status == 403 and not caller.is_existing_batch:
        return Refused(detail, "filtered", name=name)
    if advice := _find_advice(fault, caller, status, lower_codes):
        return Fatal(f"{advice} ({detail})", name=name)
    if status in _RETRY or status in caller.retry_statuses or status >= 500:
        if not (fault.http_status or lacking):
            detail = f"no answer ({detail})" if detail else "no answer"
        kind = _KINDS.get(status, RetryKind.OTHER)
        return Retry(detail, fault.delay, name=name, kind=kind, status=fault.ends)
    refused = status in _REFUSED or status in caller.filter_statuses
    if not refused:
        detail = f"this does not look like a response of the API; check the base URL ({detail})"
    if not refused or caller.is_existing_batch:
        return Fatal(detail, name=name)
    return Refused(detail, "filtered" if filtered else "failed", name=name)


def _describe(fault: Fault, codes: str, text: str, caller: Caller) -> str:
    """Return the details of a fault: status, codes, and a sentence or the title of a page."""
    if fault.page:
        text = f"an HTML page and not the API's answer{text and ', '}{text}"
    start = " ".join(word for word in (str(fault.http_status or ""), codes) if word)
    detail = ": ".join(part for part in (start, text) if part)
    if not detail and caller.prompts is None:  # its message may quote a prompt, and is left out
        detail = "an error without a code"
    by_proxy = fault.page or fault.http_status == _PROXY_LOGIN
    return detail + proxy_note(caller.settings.base_url or "", caller.proxies, always=by_proxy)


def _find_advice(fault: Fault, caller: Caller, status: int, codes: str) -> str:
    """Return what a person has to do about a fault; empty if nothing."""
    if fault.redirects_to:
        place = redact(fault.redirects_to, caller.prompts or (), (caller.settings.key,))
        return (
            f"the server redirects to {place}, where no key or prompt is sent; check the base URL"
        )
    if status == _PROXY_LOGIN or (fault.page and status in (401, 403)):
        return _PAGE_ADVICE
    by_status = (_BATCH_ADVICE if caller.is_existing_batch else _STATUS_ADVICE).get(status, "")
    by_code = (advice for code, advice in _CODE_ADVICE.items() if code in codes and status < 500)
    advice = next(by_code, by_status)
    if advice is _KEY and not caller.settings.key:
        return _NO_KEY
    return advice.format(variables=caller.settings.variable or " or ".join(caller.variables))


def _failure(error: Exception, caller: Caller, seconds: float) -> Retry | Refused | Fatal:
    try:
        if fault := caller.fault(error):
            return classify_fault(fault, caller)
        if why := explain_no_response(error, seconds):
            note = proxy_note(caller.settings.base_url or "", caller.proxies, always=True)
            kind = RetryKind.UNREACHED if why.unreached else RetryKind.OTHER
            unsettled = not why.unreached
            return Retry(f"{why.reason}{note}", name=caller.name, kind=kind, unsettled=unsettled)
    except Exception as another:  # noqa: BLE001 - an error in a form that no server should give it
        error = another
    at = traceback.extract_tb(error.__traceback__)[-1]
    detail = f"unexpected {type(error).__name__} at {Path(at.filename).name}:{at.lineno}"
    return (Fatal if caller.is_existing_batch else Refused)(detail, name=caller.name)


def redact(message: str, prompts: Iterable[str], keys: Iterable[str]) -> str:
    """Return a message as one short line without keys; empty if it quotes a prompt or is HTML."""
    for key in keys:
        if len(key) >= _ECHO_LENGTH // 2:  # a shorter one is a placeholder such as "none"
            message = message.replace(key, "[key]")
            message = re.sub(rf"{re.escape(key[:_KEY_START])}\S*", "[key]", message)
    message = _STARRED.sub("[key]", message)
    line = " ".join(message.split())[:_MESSAGE_LENGTH]
    starts = range(max(1, len(line) - _ECHO_LENGTH + 1))
    windows = [line[start : start + _ECHO_LENGTH] for start in starts] if line else []
    if line.startswith("<") or any(window in prompt for prompt in prompts for window in windows):
        return ""
    return line
