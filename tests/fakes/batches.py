"""Files and batches of any provider, and the calls that ask for them.

How all that is written on the wire is in a module for each provider, with ``ROUTES``.
"""

import asyncio
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import orjson
from aiohttp import web

from tests.fakes.parts import Asked, Fault, Invalid

Error = tuple[str, str, int | None]
"""Why a batch failed: code, message, and the number of the line where it is one's fault."""
BREATH = 100
"""Lines between two moments for the other requests."""


@dataclass
class File:
    """What was uploaded, or the results of a batch."""

    id: str
    name: str
    data: bytes | bytearray
    created: float
    batch: "Batch | None" = None
    about: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Line:
    """One request of a batch; ``body`` is JSON, as a call of its own would send it."""

    custom_id: str
    body: bytes
    model: str
    input_tokens: int


@dataclass(frozen=True)
class Outcome:
    """What came of a line.

    ``kind`` is "succeeded", "errored", "canceled" or "expired"; ``body`` an answer or an error,
    empty for the last two. ``input_tokens`` and so on are what was billed.
    """

    kind: str
    status: int = 0
    body: dict[str, Any] = field(default_factory=dict)
    request_id: str = ""
    usage: Mapping[str, int] = field(default_factory=dict)


@dataclass
class Batch:
    """A batch on its way, or ended; ``end`` is then "completed", "failed", "expired", "cancelled".

    ``about`` holds what only one provider knows of.
    """

    id: str
    provider: str
    model: str
    created: float
    lines: list[Line]
    sha: str
    about: dict[str, Any]
    fault: Fault | None = None
    errors: list[Error] = field(default_factory=list)
    total: int = 0
    tokens: int = 0
    looks: int = 0
    begun: bool = False
    cancelled: float | None = None
    settled: float | None = None
    ended: bool = False
    end: str = ""
    results: list[tuple[int, str, bytes]] = field(default_factory=list)
    """Place in the input, kind, line of JSON; in the order in which they were answered."""
    counts: Counter[str] = field(default_factory=Counter)
    usage: Counter[str] = field(default_factory=Counter)
    output: bytes | None = None
    downloads: int = 0
    stop: asyncio.Event = field(default_factory=asyncio.Event)
    task: "asyncio.Task[None] | None" = None


@dataclass(frozen=True)
class Out:
    """What an endpoint answers: JSON, or the results of a batch; ``details`` for the journal."""

    body: Any
    headers: dict[str, str] = field(default_factory=dict)
    details: dict[str, Any] = field(default_factory=dict)
    results_of: Batch | None = None
    shape: str = "application/x-ndjson"


class Call:
    """A request to an endpoint of files and batches."""

    def __init__(self, fakes: Any, provider: str, request: web.Request) -> None:
        self.fakes, self.provider, self.request = fakes, provider, request
        self.store = fakes.store
        self.body = b""
        self.form: dict[str, str] = {}
        self.file = bytearray()

    async def receive(self) -> None:
        """Read the body; a form's file goes into memory once, and is no part of ``body``."""
        if not self.request.content_type.startswith("multipart/"):
            self.body = await self.request.read()
            return
        async for part in await self.request.multipart():
            if part.filename is None:
                self.form[part.name] = await part.text()
                continue
            self.form["filename"] = part.filename
            while chunk := await part.read_chunk(2**18):
                self.file += chunk
        self.body = orjson.dumps([self.form, len(self.file)])

    def json(self) -> dict[str, Any]:
        """The body."""
        parsed = orjson.loads(self.body)
        if not isinstance(parsed, dict):
            raise Invalid("The body is no object.")
        return parsed

    def number(self, name: str, default: int) -> int:
        """A whole number of the query."""
        return int(self.request.query.get(name, default))

    def size(self, asked: Asked) -> int:
        """Input tokens of what is asked."""
        return int(self.fakes.lengths.of_input(asked))

    @property
    def batch(self) -> Batch:
        """The batch that the path names."""
        batch = self.store.batches.get(self.request.match_info["batch"])
        if batch is None or batch.provider != self.provider:
            raise Invalid("There is no such batch.", "not_found")
        return batch

    @property
    def found(self) -> File:
        """The file that the path names."""
        file = self.store.files.get(self.request.match_info["file"])
        if file is None:
            raise Invalid("There is no such file.", "not_found")
        return file

    def emit(self, event: str, **details: Any) -> None:
        """Tell of an event."""
        self.fakes.emit(self.provider, event, **details)


def lines_in(data: bytes | bytearray) -> Iterator[bytes | bytearray]:
    """The lines of a file, one at a time: a second copy of a large file is dear."""
    start = 0
    while start < len(data):
        end = data.find(b"\n", start)
        end = len(data) if end < 0 else end
        yield data[start:end]
        start = end + 1


async def in_breaths(items: Iterable[Any]) -> Any:
    """Go through many items, and let the other requests have their turn."""
    for number, item in enumerate(items):
        if number % BREATH == BREATH - 1:
            await asyncio.sleep(0)
        yield number, item


def results_of(batch: Batch, *kinds: str) -> bytes:
    """The lines of these kinds as a file of JSON lines."""
    return b"".join(data + b"\n" for _, kind, data in batch.results if kind in kinds)


def stamp(moment: float) -> str:
    """A moment as Anthropic and Gemini write it."""
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(moment))
