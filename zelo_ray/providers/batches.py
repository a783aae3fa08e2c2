"""One class for the batch APIs of all providers: files of lines go up, lines of results come down.

What differs is a `BatchDialect`.
"""

import contextlib
import json
import re
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator
from contextlib import AbstractAsyncContextManager, AsyncExitStack
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import Any, TypeVar

from zelo_ray.providers.dialect import Client, Dialect
from zelo_ray.providers.faults import fault_in
from zelo_ray.providers.outcome import MALFORMED, Caller, classify_fault, guard_call
from zelo_ray.providers.provider import Batch, Fatal, Outcome, Refused, Retry, Settings
from zelo_ray.records import Request

T = TypeVar("T")
TRANSFER = 600.0
"""Timeout of an upload, in seconds: 50 MB at less than a megabit a second."""
_PAGE = 50  # batches in a page of their list
# JSON may contain these unescaped, but a reader that splits text at every kind of line end would
# split the line.
_LINE_ENDS = (("\u2028", "\\u2028"), ("\u2029", "\\u2029"), ("\x85", "\\u0085"))
_QUOTED = re.compile(r"(?<!\w)'[^']*'(?!\w)|\"[^\"]*\"|`[^`]*`")
_REASON_LENGTH = 200


class Batches:
    """The batch API of one key. All methods may raise Retry, Refused or Fatal, and nothing else."""

    def __init__(self, dialect: Dialect, settings: Settings) -> None:
        assert dialect.batch is not None  # noqa: S101 - who has none gives no way to come here
        self._batch, self._settings = dialect.batch, settings
        self._transfer = max(TRANSFER, settings.timeout)
        self._client: Client = dialect.open(settings, self._transfer)
        # For results: without the prompts it is unknown whether a message quotes one.
        self._caller = Caller(
            *(dialect.name, settings, dialect.key_variables, self._client.find_fault),
            prompts=None,
        )
        self._asking = replace(self._caller, is_existing_batch=True)
        self.KEEPS_MARKS = dialect.batch.keeps_marks

    def line(self, request: Request) -> bytes:
        """Return the request as one line of a batch file, with its key as the ID."""
        fields = self._batch.line(request, self._settings)
        text = json.dumps(fields, ensure_ascii=False, separators=(",", ":"))
        for end, escaped in _LINE_ENDS:
            text = text.replace(end, escaped)
        with contextlib.suppress(UnicodeEncodeError):
            return f"{text}\n".encode()
        raise Refused("the prompt holds characters that cannot be sent", name=request.judge.name)

    async def create(self, lines: Path, model: str, mark: str) -> Batch:
        """Submit a file of such lines for one model."""
        name = f"{self._caller.name}:{model}"
        caller, file = replace(self._caller, name=name, prompts=_FileTexts(lines)), ""
        if self._batch.upload:
            file = await _read_json(
                *(self._batch.upload(self._client, lines), self._batch.read_upload),
                *(caller, self._transfer),
            )
        submitting = self._batch.submit(self._client, lines, file, model, mark)
        return await _read_json(submitting, self._read, caller, self._transfer)

    async def find(self, since: float) -> list[Batch]:
        """Return all batches of the account created since then, in seconds since 1970."""
        found, place, places = list[Batch](), "", set[str]()
        since = float(int(since))  # providers may report whole seconds
        while place not in places:
            places.add(place)
            query = {self._batch.list_size: str(_PAGE)}
            query |= {self._batch.list_after: place} if place else {}
            call = self._client.get(self._batch.list_path, query)
            batches, place = await _read_json(call, self._read_list, self._asking)
            found += [batch for batch in batches if batch.created_at >= since]
            if not place or (batches and all(batch.created_at < since for batch in batches)):
                break
        return found

    async def look(self, batch_id: str) -> Batch:
        """Return a batch's current state."""
        return await _read_json(self._get(batch_id), self._read, self._asking)

    async def results(self, batch_id: str) -> AsyncIterator[tuple[str, Outcome]]:
        """Yield each result of an ended batch, by key, good and bad, in any order."""
        batch, body = await _read_json(
            self._get(batch_id), lambda body: (self._read(body), body), self._asking
        )
        name = self._caller.name
        if not batch.ended:
            raise Retry(f"the batch has not ended ({batch.state})", name=name)
        caller = replace(self._asking, gone_statuses=self._batch.gone_statuses)
        for place in self._batch.find_results(body, batch):
            if not isinstance(place, str):
                for result in self._read_lines([place]):
                    yield result
                continue
            async for lines in _download(self._batch.download(self._client, place), caller):
                for result in self._read_lines(lines):
                    yield result

    async def cancel(self, batch_id: str) -> None:
        """Ask the provider to stop a batch; one that has ended meanwhile is not an error."""
        trouble = None
        path = self._batch.place.format(batch_id) + self._batch.cancel
        try:
            await guard_call(self._client.post(path, {}), self._asking)
        except (Retry, Refused, Fatal) as error:
            trouble = error
        if trouble is not None and not (await self.look(batch_id)).ended:
            raise trouble

    async def aclose(self) -> None:
        """Close the sockets."""
        await self._client.aclose()

    def _get(self, batch_id: str) -> Awaitable[str]:
        return self._client.get(self._batch.place.format(batch_id), {})

    def _read(self, body: Any) -> Batch:
        return self._batch.read(body, self._settings.key)

    def _read_list(self, page: Any) -> tuple[list[Batch], str]:
        rows, place = self._batch.read_list(page)
        return [self._read(row) for row in rows], place

    def _read_lines(self, lines: Iterable[Any]) -> Iterator[tuple[str, Outcome]]:
        """Yield the results in lines, of JSON or decoded; skip those that cannot be read."""
        for line in lines:
            with contextlib.suppress(*MALFORMED):
                fields = json.loads(line) if isinstance(line, bytes) else line
                key, outcome = self._batch.read_line(fields, self._caller)
                if isinstance(key, str):
                    yield key, outcome


class _FileTexts:
    """The lines of a file, read again each time, as texts that errors must not quote."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def __iter__(self) -> Iterator[str]:
        with self._path.open(encoding="utf-8") as file:
            yield from file


async def _download(
    opening: AbstractAsyncContextManager[AsyncIterator[bytes]], caller: Caller
) -> AsyncIterator[list[bytes]]:
    """Yield the lines of a file as it is downloaded, some at a time, without line ends.

    The SDK's and httpx's line iterators are not used: they also split at characters that JSON may
    contain.
    """
    stack, fragment = AsyncExitStack(), b""
    pieces = await guard_call(stack.enter_async_context(opening), caller)
    try:
        while (piece := await guard_call(anext(pieces, None), caller)) is not None:
            *lines, fragment = (fragment + piece).split(b"\n")
            yield lines
        yield [fragment]
    finally:
        with contextlib.suppress(Exception):  # it may have broken off already
            await stack.aclose()


async def _read_json(
    call: Awaitable[str], read: Callable[[Any], T], caller: Caller, seconds: float | None = None
) -> T:
    """Return the result of ``read`` for the JSON that a call returns."""
    text = await guard_call(call, caller, seconds)
    fault = None
    with contextlib.suppress(*MALFORMED):
        body = json.loads(text)
        fault = fault_in(body)  # a batch that failed has an error, too
        return read(body)
    if fault:
        raise classify_fault(fault, caller)
    raise Retry("a response without the documented form", name=caller.name)


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
