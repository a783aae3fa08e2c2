"""Write, upload and read the JSONL files of batches, as all providers' batch APIs need it."""

import contextlib
import json
import re
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator, Mapping
from contextlib import AbstractAsyncContextManager
from datetime import datetime
from pathlib import Path
from typing import Any, Protocol, TypeVar

from zelo_ray.providers import Batch, Fatal, Outcome, Refused, Retry
from zelo_ray.providers.faults import fault_in
from zelo_ray.providers.outcome import MALFORMED, Caller, classify_fault, guard_call

T = TypeVar("T")
TRANSFER = 600.0
"""Timeout of an upload, in seconds: 50 MB at less than a megabit a second."""
GONE = "its results are gone; the provider keeps them for some time only"

# JSON may contain these unescaped, but a reader that splits text at every kind of line end would
# split the line.
_LINE_ENDS = (("\u2028", "\\u2028"), ("\u2029", "\\u2029"), ("\x85", "\\u0085"))
_QUOTED = re.compile(r"(?<!\w)'[^']*'(?!\w)|\"[^\"]*\"|`[^`]*`")
_REASON_LENGTH = 200


class Download(Protocol):
    """A response whose body is still to come."""

    def iter_bytes(self) -> AsyncIterator[bytes]:
        """Return an iterator over the body's pieces."""

    async def close(self) -> None:
        """Close the connection."""


def write_line(fields: Mapping[str, Any], name: str) -> bytes:
    """Return a line of a batch file, with its end of line.

    Raises:
        Refused: the prompt holds characters that cannot be sent.
    """
    text = json.dumps(fields, ensure_ascii=False, separators=(",", ":"))
    for end, escaped in _LINE_ENDS:
        text = text.replace(end, escaped)
    with contextlib.suppress(UnicodeEncodeError):
        return f"{text}\n".encode()
    raise Refused("the prompt holds characters that cannot be sent", name=name)


class FileTexts:
    """The lines of a file, read again each time, as texts that errors must not quote."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def __iter__(self) -> Iterator[str]:
        with self._path.open(encoding="utf-8") as file:
            yield from file


def read_results(
    lines: Iterable[Any], read: Callable[[Any], tuple[str, Outcome]]
) -> Iterator[tuple[str, Outcome]]:
    """Yield what ``read`` returns for each line, of JSON or decoded; skip lines it cannot read.

    The request of a skipped line counts as missing from the results.
    """
    for line in lines:
        try:
            key, outcome = read(json.loads(line) if isinstance(line, bytes) else line)
        except MALFORMED:
            continue
        if isinstance(key, str):
            yield key, outcome


async def download_lines(
    opening: AbstractAsyncContextManager[Download], caller: Caller
) -> AsyncIterator[list[bytes]]:
    """Yield the lines of a file as it is downloaded, some at a time, without line ends.

    The SDK's and httpx's line iterators are not used: they also split at characters that JSON may
    contain.

    Raises:
        Retry, Refused, Fatal: as `guard_call`, also in the middle of the file.
    """
    response = await guard_call(opening.__aenter__(), caller)
    try:
        pieces, fragment = aiter(response.iter_bytes()), b""
        while (piece := await guard_call(anext(pieces, None), caller)) is not None:
            *lines, fragment = (fragment + piece).split(b"\n")
            yield lines
        yield [fragment]
    finally:
        with contextlib.suppress(Exception):  # it may have broken off already
            await response.close()


async def read_json(
    call: Awaitable[str], read: Callable[[Any], T], caller: Caller, seconds: float | None = None
) -> T:
    """Return the result of ``read`` for the JSON that a call returns.

    Raises:
        Retry, Refused, Fatal: as `guard_call`, also if the response is an error; Retry also if
            ``read`` fails.
    """
    text = await guard_call(call, caller, seconds)
    fault = None
    with contextlib.suppress(*MALFORMED):
        body = json.loads(text)
        fault = fault_in(body)  # a batch that failed has an error, too
        return read(body)
    if fault:
        raise classify_fault(fault, caller)
    raise Retry("a response without the documented form", name=caller.name)


async def cancel_batch(
    cancelling: Awaitable[Any], look: Callable[[], Awaitable[Batch]], caller: Caller
) -> None:
    """Cancel a batch; one that has ended meanwhile is not an error.

    Raises:
        Retry, Refused, Fatal: as `guard_call`.
    """
    trouble = None
    try:
        await guard_call(cancelling, caller)
    except (Retry, Refused, Fatal) as error:
        trouble = error
    if trouble is not None and not (await look()).ended:
        raise trouble


async def list_batches(
    page: Callable[[str], Awaitable[tuple[list[Batch], str]]], since: float
) -> list[Batch]:
    """Return batches created since then, from a list that comes in pages, newest first.

    Args:
        page: returns the batches from a place in the list ("" for its start), and the place of the
            next page ("" for none).
        since: in seconds since 1970, rounded down, as providers may report whole seconds.
    """
    recent_batches: list[Batch] = []
    place, places, since = "", set[str](), float(int(since))
    while place not in places:
        places.add(place)
        batches, place = await page(place)
        recent_batches += [batch for batch in batches if batch.created_at >= since]
        if not place or (batches and all(batch.created_at < since for batch in batches)):
            break
    return recent_batches


def parse_time(time: str) -> float:
    """Return an RFC 3339 time in seconds since 1970."""
    return datetime.fromisoformat(time).timestamp()


def failure_reason(code: object, message: object, key: str) -> str:
    """Return a provider's reason why a batch failed, in one short line.

    Quoted words may be from a prompt, so they are left out, and so is the key.
    """
    words = f"{code or ''}: {message or ''}"
    reason = _QUOTED.sub("...", words.replace(key, "[key]") if key else words)
    return " ".join(reason.split())[:_REASON_LENGTH].strip(": ")
