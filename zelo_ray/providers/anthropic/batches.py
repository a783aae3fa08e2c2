"""Anthropic's Message Batches: all requests in one call, the results as a stream of lines."""

from collections.abc import AsyncIterator, Iterable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

from zelo_ray.providers import Batch, Outcome, Refused, Retry, Settings
from zelo_ray.providers.anthropic.connection import (
    FIELDS,
    KEY_VARIABLES,
    READING,
    add_codes,
    build_body,
    find_fault,
    open_client,
)
from zelo_ray.providers.batch_files import (
    GONE,
    TRANSFER,
    FileTexts,
    cancel_batch,
    download_lines,
    list_batches,
    parse_time,
    read_json,
    read_results,
    write_line,
)
from zelo_ray.providers.faults import find_status, read_fault
from zelo_ray.providers.outcome import Caller, classify_fault, read_response
from zelo_ray.records import Request

_PATH = "/v1/messages/batches"
_PAGE = 100


class AnthropicBatches:
    """The batch API of one key. Its batches keep no mark."""

    KEEPS_MARKS = False

    def __init__(self, settings: Settings) -> None:
        import httpx2  # noqa: PLC0415 - paid where it is used

        self._transfer = max(TRANSFER, settings.timeout)
        self._settings, self._response = settings, httpx2.Response
        self._client = open_client(settings, self._transfer)
        # For results: without the prompts it is unknown whether a message quotes one.
        self._caller = Caller("anthropic", settings, KEY_VARIABLES, find_fault, None, fields=FIELDS)
        self._asking = replace(self._caller, is_existing_batch=True)

    def line(self, request: Request) -> bytes:
        """Return the request as one line of a batch file, with its key as the ID."""
        return write_line(
            {"custom_id": request.key, "params": build_body(request)}, request.judge.name
        )

    async def create(self, lines: Path, model: str, mark: str) -> Batch:
        """Submit the file's requests."""
        del mark
        caller = replace(self._caller, name=f"anthropic:{model}", prompts=FileTexts(lines))
        return await read_json(self._submit(lines), self._read, caller, self._transfer)

    async def find(self, since: float) -> list[Batch]:
        """Return all batches created since then."""

        async def page(after: str) -> tuple[list[Batch], str]:
            place = {"after_id": after} if after else {}
            call = self._get(_PATH, limit=_PAGE, **place)
            return await read_json(call, self._read_page, self._asking)

        return await list_batches(page, since)

    async def look(self, batch_id: str) -> Batch:
        """Return a batch's current state."""
        return await read_json(self._get(f"{_PATH}/{batch_id}"), self._read, self._asking)

    async def results(self, batch_id: str) -> AsyncIterator[tuple[str, Outcome]]:
        """Yield each result."""
        batch, has_results = await read_json(
            self._get(f"{_PATH}/{batch_id}"), self._read_place, self._asking
        )
        if not batch.ended:
            raise Retry(f"the batch has not ended ({batch.state})", name="anthropic")
        if not has_results:
            raise Refused(GONE, name="anthropic")
        gone = dict.fromkeys((404, 410), GONE)
        caller = replace(self._asking, gone_messages=gone)
        opening = self._client.messages.batches.with_streaming_response.results(batch_id)
        async for lines in download_lines(opening, caller):
            for result in read_results(lines, self._read_line):
                yield result

    async def cancel(self, batch_id: str) -> None:
        """Ask to stop a batch."""
        cancelling = self._client.post(f"{_PATH}/{batch_id}/cancel", cast_to=self._response)
        await cancel_batch(cancelling, lambda: self.look(batch_id), self._asking)

    async def aclose(self) -> None:
        """Close the sockets."""
        await self._client.close()

    async def _submit(self, lines: Path) -> str:
        # Piece by piece: the typed method would hold nearly four times the body in memory.
        with lines.open("rb") as file:
            length = sum(map(len, _body(file)))
            file.seek(0)
            response = await self._client.post(
                _PATH,
                cast_to=self._response,
                content=_stream_body(file),
                options={"headers": {"Content-Length": str(length)}},
            )
        return response.text

    async def _get(self, path: str, **query: object) -> str:
        response = await self._client.get(path, cast_to=self._response, options={"params": query})
        return response.text

    def _read(self, batch: Any) -> Batch:
        counts, state = batch["request_counts"], batch["processing_status"]
        total = sum(counts.values())
        return Batch(
            id=batch["id"],
            state=state,
            ended=state == "ended",
            requests=total,
            done=total - (counts.get("processing") or 0),
            created_at=parse_time(batch["created_at"]),
            cancelled=bool(batch.get("cancel_initiated_at") or counts.get("canceled")),
        )

    def _read_page(self, page: Any) -> tuple[list[Batch], str]:
        batches = [self._read(batch) for batch in page["data"]]
        return batches, batches[-1].id if batches and page.get("has_more") else ""

    def _read_place(self, batch: Any) -> tuple[Batch, bool]:
        return self._read(batch), bool(batch.get("results_url"))

    def _read_line(self, line: Any) -> tuple[str, Outcome]:
        """Read a line of the results."""
        key, result = line["custom_id"], line["result"]
        if result["type"] == "succeeded":
            return key, read_response(result["message"], self._caller, READING)
        if result["type"] != "errored":
            return key, Retry(f"{result['type']} before it was processed", name="anthropic")
        fault = add_codes(read_fault(result["error"]))
        return key, classify_fault(
            replace(fault, http_status=find_status(fault.codes)), self._caller
        )


def _body(lines: Iterable[bytes]) -> Iterator[bytes]:
    """Yield the pieces of a request body that holds these lines."""
    yield b'{"requests":['
    for number, line in enumerate(lines):
        yield (b"," if number else b"") + line.rstrip(b"\n")
    yield b"]}"


async def _stream_body(lines: Iterable[bytes]) -> AsyncIterator[bytes]:
    for piece in _body(lines):
        yield piece
