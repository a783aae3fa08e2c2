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

from zelo_ray.providers.faults import Fault, fault_in, read_fault
from zelo_ray.providers.no_response import explain_no_response
from zelo_ray.providers.provider import Fatal, Outcome, Refused, Retry, RetryKind, Settings
from zelo_ray.providers.reading import server_delay
from zelo_ray.records import Answer, Usage

T = TypeVar("T")
MALFORMED = (ValueError, LookupError, TypeError, AttributeError)
"""Errors of reading a response that does not have the documented form."""
GONE = "its results are gone; the provider keeps them for some time only"

# --- what errors mean -----------------------------------------------------------------------------

_DAY, _NO_QUOTA, _OPTION, _FILTERED = 4290, 4291, 4000, 498
"""Meanings without a status of their own, but for the 498 of Cohere's filter."""
_WORDS = {
    402: "insufficientquota insufficientcredit insufficientbalance insufficientfunds "
    "billingerror billinghardlimit billingnotactive "
    "paymentrequired spendlimit morecredits creditbalance exceededyourcurrentquota "
    "exceededcurrentquota arrearage",
    _DAY: "perday",
    _NO_QUOTA: "zeroquota",
    _OPTION: "unsupportedparameter unsupportedvalue unknownparameter",
    _FILTERED: "contentfilter contentpolicy invalidprompt",
    429: "ratelimit toomanyrequests resourceexhausted throttl requestlimit quotaexceeded",
    413: "contextlength contextwindow contextsize contextlimit maximumcontext toomanytokens "
    "prompttoolong promptistoolong inputistoolong exceedscontext stringtoolong toolarge",
    401: "apikey authentication unauthorized unauthenticated",
    403: "permission forbidden accessdenied",
    404: "notfound nosuchmodel unknownmodel doesnotexist",
    400: "invalidrequest badrequest invalidargument invalidparameter unsupported unrecognized "
    "unprocessable validation datainspection",
    529: "overloaded unavailable",
    500: "conflict timeout timedout deadline servererror internalerror apierror upstream",
}
"""Words that tell a meaning, without case and punctuation; the first that fits counts."""
_OF_TEXTS = tuple(meaning for meaning in _WORDS if meaning < 1000)
"""Meanings that the text of an error may tell: its words may be of anything."""
_PHRASES = {"credit balance is too low": 402, "content filtering policy": _FILTERED}
"""Sentences of Anthropic's errors that have no code of their own."""
_OVERRULING = (402, _DAY, _NO_QUOTA, _OPTION, _FILTERED, 401)
"""Meanings whose words in a code count more than a status below 500."""
_NO_KEY = (
    "the server requires a key, and none was sent; name the variable that holds it: api_key_env"
)
_NO_BATCH = (
    "no such batch; it was deleted, or sent with a key of another account, or to another base URL"
)
_ADVICE = {
    401: "the key was refused; set {variables} to a valid one",
    402: "the account's quota or spending limit is used up; raise it, then run again",
    403: "the key may not do this; grant it access, or choose another model",
    404: "no such model or address; check the judge's name and base URL",
    _DAY: "the quota of the day is used up; raise it, or run again tomorrow",
    _NO_QUOTA: "the account has no quota for this model; raise it, or choose another model",
    _OPTION: "the model does not accept an option of this judge; change its judge_options",
}
"""What a person has to do, as neither waiting nor another prompt helps."""
# 499 is Gemini's CANCELLED, 424 says of text-embeddings-inference that the model failed.
_RETRY = {0, 408, 409, 424, 429, 499}  # and all from 500 on
_KINDS = {429: RetryKind.THROTTLED} | dict.fromkeys((502, 503, 529), RetryKind.UNAVAILABLE)
"""Statuses that say why to retry; a 500 or a 504 may also be caused by the request."""
_REFUSED = {400, 413, 422, _FILTERED}


def find_status(phrases: Iterable[str], among: Iterable[int] = tuple(_WORDS)) -> int:
    """Return the status, or the meaning above, that some words tell; 0 if none."""
    text = " ".join(re.sub(r"[^a-z]", "", phrase.lower()) for phrase in phrases)
    return next((m for m in among if any(word in text for word in _WORDS[m].split())), 0)


def _find_meaning(fault: Fault, text: str, message: str) -> int:
    """Return what a fault means: a status of HTTP, or one of the meanings above; 0: unknown.

    ``text`` is its message without what may be of a prompt, as no document may say what it means.
    """
    status, words = fault.http_status, [code for code in fault.codes if _CODE.fullmatch(code)]
    if not status:
        return find_status(fault.codes) or find_status([text], _OF_TEXTS)
    known = [m for phrase, m in _PHRASES.items() if phrase in message]
    if status == 400 and known:
        return known[0]
    if status < 500:
        among = _OVERRULING if status in (400, 403) else _OVERRULING[:-1]
        status = find_status(words, among) or status
    is_long = (status == 400 or status >= 500) and find_status([*fault.codes, text], (413,))
    return 413 if is_long and status not in _KINDS else status


# --- calls ----------------------------------------------------------------------------------------

_STREAMED = (
    "the answer came as a stream of pieces, for which it was not asked; turn streaming off at the "
    "server, or leave stream out of extra_body"
)
_PAGE_ADVICE = (
    "a firewall or a login page answered, and not the API; let this machine through, or check the "
    "base URL and the proxy"
)
_PROXY_LOGIN = 407
_CODE = re.compile(r"[\w.\-\[\]]{1,100}")
_MESSAGE_LENGTH = 200
_ECHO_LENGTH = 16
_KEY_START = 6  # first characters of a key that servers may show
_STARRED = re.compile(r"\S*\*{3,}\S*")  # another way in which servers show a key
_STREAM = re.compile(r"\ufeff?\s*(?::.*\n\s*)*(data:|event:|id:|retry:|\{.*\}\s*\n\s*\{)")
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

    def redact(self, text: str) -> str:
        """Return a text without keys; empty if it quotes a prompt."""
        return redact(text, self.prompts or (), (self.settings.key,))


async def guard_call(call: Awaitable[T], caller: Caller, seconds: float | None = None) -> T:
    """Await an SDK's call, and turn whatever it raises into one of the three errors."""
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


def _failure(error: Exception, caller: Caller, seconds: float) -> Retry | Refused | Fatal:
    try:
        if fault := caller.fault(error):
            return classify_fault(fault, caller)
        if why := explain_no_response(error, seconds):
            kind = RetryKind.UNREACHED if why.unreached else RetryKind.OTHER
            return Retry(why.reason, name=caller.name, kind=kind, unsettled=not why.unreached)
    except Exception as another:  # noqa: BLE001 - an error in a form that no server should give it
        error = another
    at = traceback.extract_tb(error.__traceback__)[-1]
    detail = f"unexpected {type(error).__name__} at {Path(at.filename).name}:{at.lineno}"
    return (Fatal if caller.is_existing_batch else Refused)(detail, name=caller.name)


async def attempt_call(
    call: Awaitable[tuple[str, Mapping[str, str]]],
    caller: Caller,
    read_answer: Callable[[Any], Answer | Fault],
    read_usage: Callable[[Any], Usage],
    rates: Callable[[Mapping[str, str]], Mapping[str, float]] | None = None,
) -> Answer:
    """Await one call's response, as text and headers, and read the answer in it."""
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
    refused = fault_in(body) or _fault_in_stream(body)
    read: Answer | Fault | None = refused
    if refused is None and _is_stream(body):
        return Answer("invalid", "", usage, reason=_STREAMED, judge_fault=_STREAMED)
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


def _is_stream(body: Any) -> bool:
    """Return whether an answer came in pieces: as events, as lines of JSON, or as a list."""
    if isinstance(body, list):  # rerankers answer by a list, too
        pieces = (isinstance(piece, dict) and _PIECE_FIELDS & piece.keys() for piece in body)
        return bool(body) and all(pieces)
    return isinstance(body, str) and bool(_STREAM.match(body))


def _fault_in_stream(body: Any) -> Fault | None:
    for line in body.splitlines() if isinstance(body, str) and _is_stream(body) else ():
        with contextlib.suppress(ValueError):  # such as [DONE]
            if fault := fault_in(json.loads(line.strip().removeprefix("data:"))):
                return fault
    return None


def classify_fault(
    fault: Fault, caller: Caller, *, lacking: bool = False
) -> Retry | Refused | Fatal:
    """Decide whether to retry after a fault, to give up the request, or to stop the judge.

    The error is not raised. ``lacking``: the response was successful, but had no answer.
    """
    # The message may quote a prompt that is not known here.
    text = "" if caller.prompts is None else caller.redact(fault.message)
    message = fault.message if caller.prompts is None else text
    name, meaning = caller.name, _find_meaning(fault, text, message)
    detail = _describe(fault, "" if meaning == 401 and not fault.page else text, caller)
    if lacking:
        detail = ": ".join(filter(None, ("a response without an answer in it", detail)))
    if meaning in caller.gone_statuses:
        return Refused(f"{GONE} ({detail})", name=name)
    if advice := _find_advice(fault, meaning, caller):
        return Fatal(f"{advice} ({detail})", name=name)
    if meaning in _RETRY or 500 <= meaning < 1000:
        if not (fault.http_status or lacking):
            detail = f"no answer ({detail})" if detail else "no answer"
        kind = _KINDS.get(meaning, RetryKind.OTHER)
        return Retry(detail, fault.delay, name=name, kind=kind, status=fault.ends)
    if meaning not in _REFUSED:
        detail = f"this does not look like a response of the API; check the base URL ({detail})"
    if meaning not in _REFUSED or caller.is_existing_batch:
        return Fatal(detail, name=name)
    return Refused(detail, "filtered" if meaning == _FILTERED else "failed", name=name)


def _describe(fault: Fault, text: str, caller: Caller) -> str:
    """Return the details of a fault: status, codes, and a sentence or the title of a page."""
    status, words = fault.http_status, dict.fromkeys(filter(_CODE.fullmatch, fault.codes))
    start = f"{status or ''} {caller.redact(' '.join(words))}".strip()
    if fault.page:
        text = f"an HTML page and not the API's answer{text and ', '}{text}"
    detail = ": ".join(filter(None, (start, text)))
    return detail or ("an error without a code" if caller.prompts is None else "")


def _find_advice(fault: Fault, meaning: int, caller: Caller) -> str:
    """Return what a person has to do about a fault; empty if nothing."""
    if fault.redirects_to:
        place = caller.redact(fault.redirects_to)
        return (
            f"the server redirects to {place}, where no key or prompt is sent; check the base URL"
        )
    if fault.http_status == _PROXY_LOGIN or (fault.page and fault.http_status in (401, 403)):
        return _PAGE_ADVICE
    if meaning == 404 and caller.is_existing_batch:
        return _NO_BATCH
    if meaning == 401 and not caller.settings.key:
        return _NO_KEY
    variables = caller.settings.variable or " or ".join(caller.variables)
    return _ADVICE.get(meaning, "").format(variables=variables)


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
