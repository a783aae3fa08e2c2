"""What the servers hold of files and batches, when batches end, how their lines are answered."""

import asyncio
import hashlib
import random
import time
from collections.abc import Iterable, Mapping
from contextlib import suppress
from types import ModuleType
from typing import Any

import orjson
from aiohttp import web

from tests.fakes.batches import BREATH, Batch, Error, File, Line, Outcome
from tests.fakes.parts import ANSWER_FAULTS, BATCH_FAULTS, Fault, Invalid, question_sha
from tests.fakes.rates import Limit, limit_of

STEPS = 1
"""Looks that find a batch still on its way, however quick it is."""
PATIENCE = 5.0
"""Seconds after which a batch that is done has ended, though too few looks were taken at it."""


class Store:
    """The files and batches of all providers; `Fakes` explains the arguments."""

    def __init__(
        self,
        fakes: Any,
        providers: Mapping[str, ModuleType],
        wires: Mapping[str, ModuleType],
        *,
        seconds: float,
        enqueued: Limit,
    ) -> None:
        self.files: dict[str, File] = {}
        self.uploads: dict[str, dict[str, Any]] = {}
        self.batches: dict[str, Batch] = {}
        self.seconds = seconds
        self._fakes, self._providers, self._wires = fakes, providers, wires
        self._enqueued = enqueued
        self._count = 0

    # Files

    def add_file(self, name: str, data: bytes | bytearray, pattern: str, **more: Any) -> File:
        """Keep a file; ``pattern`` makes its id out of a number."""
        self._count += 1
        file = File(pattern.format(self._count), name, data, time.time(), **more)
        self.files[file.id] = file
        return file

    # Batches

    def create(
        self,
        provider: str,
        pattern: str,
        model: str,
        lines: list[Line],
        *,
        errors: Iterable[Error] = (),
        about: dict[str, Any],
    ) -> Batch:
        """Begin a batch."""
        self._count += 1
        ids = "\n".join(sorted(line.custom_id for line in lines))
        batch = Batch(
            id=pattern.format(self._count),
            provider=provider,
            model=model,
            created=time.time(),
            lines=lines,
            sha=hashlib.sha256(ids.encode()).hexdigest(),
            about=about,
            errors=list(errors),
            total=len(lines),
            tokens=sum(line.input_tokens for line in lines),
        )
        self.batches[batch.id] = batch
        struck = {"provider": provider, "endpoint": "create", "sha": batch.sha, "seen": 0}
        batch.fault = self._fakes.strike(set(BATCH_FAULTS), struck)
        self._fakes.emit(provider, "created", batch=batch.id, requests=len(lines))
        batch.task = asyncio.create_task(self._run(batch))
        return batch

    def room(self, provider: str, model: str, tokens: int) -> bool:
        """Whether a batch of so many input tokens may be enqueued."""
        limit = limit_of(self._enqueued, provider)
        if limit is None:
            return True
        held = sum(
            batch.tokens
            for batch in self.batches.values()
            if (batch.provider, batch.model) == (provider, model)
            and not (batch.errors or self.refresh(batch))
        )
        return held + tokens <= limit

    def enqueued_limit(self, provider: str) -> int:
        """That limit, where there is one."""
        return int(limit_of(self._enqueued, provider) or 0)

    def page(self, provider: str, after: str | None, limit: int) -> tuple[list[Batch], bool]:
        """The newest batches first, from behind one of them on; whether there are more."""
        newest = [b for b in reversed(self.batches.values()) if b.provider == provider]
        if after:
            ids = [batch.id for batch in newest]
            if after not in ids:
                raise Invalid("There is no such batch.", "not_found")
            newest = newest[ids.index(after) + 1 :]
        for batch in newest[:limit]:
            self.refresh(batch)
        return newest[:limit], len(newest) > limit

    async def look(self, batch: Batch) -> None:
        """One more look at a batch; it waits a moment for one that is about to end."""
        batch.looks += 1
        due = batch.created + self.seconds
        if batch.task and (time.time() >= due or batch.cancelled) and batch.looks > STEPS:
            await asyncio.wait({batch.task}, timeout=1)
        if batch.task and batch.task.done():
            batch.task.result()  # a judge's error is an error of the server
        self.refresh(batch)

    def refresh(self, batch: Batch) -> bool:
        """Whether it has ended by now, as far as the world can see."""
        if batch.settled is not None and not batch.ended:
            late = time.time() > batch.created + self.seconds + PATIENCE
            batch.ended = batch.looks > STEPS or late or bool(batch.errors)
        return batch.ended

    def cancel(self, batch: Batch) -> None:
        """Ask a batch to end; what is answered is answered."""
        if batch.cancelled is None:
            batch.cancelled = time.time()
        if batch.settled is not None and self._wires[batch.provider].KEEPS_PARTS:
            batch.end = "cancelled"
        batch.stop.set()

    async def close(self, _: web.Application) -> None:
        """End what is still running."""
        tasks = [batch.task for batch in self.batches.values() if batch.task]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    # Lines

    async def _run(self, batch: Batch) -> None:
        """Answer what is to be answered, when it is time."""
        wire = self._wires[batch.provider]
        if self.seconds and not batch.errors:
            with suppress(TimeoutError):
                await asyncio.wait_for(batch.stop.wait(), self.seconds)
        done, rest = self._plan(batch, wire)
        failed = batch.end == "failed" and wire.FAILS_WHOLE
        order = [] if failed else list(range(len(batch.lines)))
        random.Random(f"{self._fakes.seed}:{batch.id}").shuffle(order)
        batch.begun = True
        for number, place in enumerate(order):
            late = batch.cancelled and batch.end != "cancelled"
            if late and wire.KEEPS_PARTS and number < done:
                done, rest, batch.end = number, "canceled", "cancelled"
            line = batch.lines[place]
            outcome = self._answer(batch, line) if number < done else self._left(batch, rest)
            batch.counts[outcome.kind] += 1
            batch.usage.update(outcome.usage)
            data = orjson.dumps(wire.result(batch, line, outcome))
            batch.results.append((place, outcome.kind, data))
            if number % BREATH == BREATH - 1:
                await asyncio.sleep(0)
        wire.close(self, batch)
        batch.results, batch.lines = [], []
        batch.settled = time.time()

    def _plan(self, batch: Batch, wire: ModuleType) -> tuple[int, str]:
        """How many lines are answered, and what becomes of the others."""
        total, name = len(batch.lines), batch.fault.name if batch.fault else ""
        if batch.fault and name == "batch_failed" and not batch.errors:
            said = batch.fault.message or "The batch could not be processed."
            batch.errors.append((batch.fault.code or "server_error", said, None))
        if batch.errors:
            batch.end = "failed"
            return 0, "errored"
        if batch.cancelled is not None:
            batch.end = "cancelled"
            share = (batch.cancelled - batch.created) / self.seconds if self.seconds else 0.0
            return int(total * min(1.0, share)) if wire.KEEPS_PARTS else 0, "canceled"
        if name in ("batch_expired", "batch_cancelled"):
            batch.end = name.removeprefix("batch_")
            rest = "expired" if batch.end == "expired" else "canceled"
            return total // 2 if wire.KEEPS_PARTS else 0, rest
        batch.end = "completed"
        return total, ""

    def _answer(self, batch: Batch, line: Line) -> Outcome:
        """Answer a line as a call of its own would have been, but for what happens on the wire."""
        fakes, provider = self._fakes, self._providers[batch.provider]
        body = orjson.loads(line.body)
        path = {"model": line.model}
        entry = fakes.entry(batch.provider, "line", question_sha(provider, path, body))
        entry |= {"model": line.model, "custom_id": line.custom_id, "batch": batch.id}
        entry["arrived"] = batch.created
        if fakes.bodies:
            entry["body"] = line.body.decode()
        try:
            asked = provider.read(path, body)
            fault = fakes.strike({*ANSWER_FAULTS, *provider.ERRORS}, entry)
        except (Invalid, ValueError, LookupError, TypeError, AttributeError) as error:
            fault = Fault(getattr(error, "name", None) or "bad_request", message=str(error))
        if fault is not None and fault.name in provider.ERRORS:
            message = fault.message or f"This is the fault {fault.name}."
            status, said, _ = provider.error(fault.name, message, None, entry["id"])
            fakes.record(entry, fault.name, status)
            return Outcome("errored", status, said, entry["id"])
        kind = fault.name if fault else "ok"
        said = fakes.answer(batch.provider, asked, entry["id"], kind)
        fakes.bill(entry, said, batch=True)
        fakes.record(entry, fault.name if fault else said.kind, 200)
        usage = _totals(entry["usage"])
        return Outcome("succeeded", 200, provider.answer(asked, said), entry["id"], usage)

    def _left(self, batch: Batch, kind: str) -> Outcome:
        """The outcome of a line that nobody came to."""
        if kind != "errored":
            return Outcome(kind)
        error = self._providers[batch.provider].error
        status, said, _ = error("500", batch.errors[0][1], None, batch.id)
        return Outcome(kind, status, said, batch.id)


def _totals(usage: Mapping[str, Any]) -> dict[str, int]:
    return {name: amount for name, amount in usage.items() if name != "batch"}
