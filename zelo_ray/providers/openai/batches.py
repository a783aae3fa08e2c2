"""OpenAI's batches: upload a file of Chat Completions, download two files of results."""

from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from typing import Any

from zelo_ray.providers import Batch, Outcome, Retry, Settings
from zelo_ray.providers.batch_files import (
    GONE,
    TRANSFER,
    FileTexts,
    cancel_batch,
    download_lines,
    failure_reason,
    list_batches,
    read_json,
    read_results,
    write_line,
)
from zelo_ray.providers.faults import read_fault
from zelo_ray.providers.openai.connection import (
    BASE_URL,
    FIELDS,
    KEY_VARIABLES,
    READING,
    build_body,
    find_fault,
    open_client,
)
from zelo_ray.providers.outcome import Caller, classify_fault, read_response
from zelo_ray.records import Request, nested_object, parse_count

_ENDPOINT = "/v1/chat/completions"
_MARK = "zelo_ray"
_ENDED = {"completed", "failed", "expired", "cancelled"}
_FULL = "token_limit_exceeded"
_PAGE = 100


class OpenAIBatches:
    """The batch API of one key."""

    KEEPS_MARKS = True

    def __init__(self, settings: Settings) -> None:
        import httpx2  # noqa: PLC0415 - paid where it is used

        self._transfer = max(TRANSFER, settings.timeout)
        self._settings, self._response = settings, httpx2.Response
        self._client = open_client(settings, self._transfer)
        # For results: without the prompts it is unknown whether a message quotes one.
        self._caller = Caller("openai", settings, KEY_VARIABLES, find_fault, None, fields=FIELDS)
        self._asking = replace(self._caller, is_existing_batch=True)

    def line(self, request: Request) -> bytes:
        """Return the request as one line of a batch file, with its key as the ID."""
        fields = {"custom_id": request.key, "method": "POST", "url": _ENDPOINT}
        sent = build_body(request, cached=self._settings.base_url == BASE_URL)
        return write_line({**fields, "body": sent}, request.judge.name)

    async def create(self, lines: Path, model: str, mark: str) -> Batch:
        """Upload the file and submit it."""
        caller = replace(self._caller, name=f"openai:{model}", prompts=FileTexts(lines))
        file = await read_json(
            self._upload(lines), lambda file: str(file["id"]), caller, self._transfer
        )
        fields = {
            "input_file_id": file,
            "endpoint": _ENDPOINT,
            "completion_window": "24h",
            "metadata": {_MARK: mark},
        }
        return await read_json(self._post("/batches", fields), self._read, caller)

    async def find(self, since: float) -> list[Batch]:
        """Return all batches created since then."""

        async def page(after: str) -> tuple[list[Batch], str]:
            place = {"after": after} if after else {}
            call = self._get("/batches", limit=_PAGE, **place)
            return await read_json(call, self._read_page, self._asking)

        return await list_batches(page, since)

    async def look(self, batch_id: str) -> Batch:
        """Return a batch's current state."""
        return await read_json(self._get(f"/batches/{batch_id}"), self._read, self._asking)

    async def results(self, batch_id: str) -> AsyncIterator[tuple[str, Outcome]]:
        """Yield each result of both files, either of which may be missing."""
        batch, files = await read_json(
            self._get(f"/batches/{batch_id}"), self._read_files, self._asking
        )
        if not batch.ended:
            raise Retry(f"the batch has not ended ({batch.state})", name="openai")
        gone = dict.fromkeys((404, 410), GONE)
        caller = replace(self._asking, gone_messages=gone)
        if batch.state == "completed" and batch.requests and not files:
            raise Retry("the results of the batch are not available yet", name="openai")
        for file in files:
            opening = self._client.files.with_streaming_response.content(file)
            async for lines in download_lines(opening, caller):
                for result in read_results(lines, self._read_line):
                    yield result

    async def cancel(self, batch_id: str) -> None:
        """Ask to stop a batch."""
        cancelling = self._post(f"/batches/{batch_id}/cancel", {})
        await cancel_batch(cancelling, lambda: self.look(batch_id), self._asking)

    async def aclose(self) -> None:
        """Close the sockets."""
        await self._client.close()

    async def _upload(self, lines: Path) -> str:
        with lines.open("rb") as file:  # a handle is read piece by piece, a path at once
            upload = ("batch.jsonl", file, "application/jsonl")
            raw = await self._client.files.with_raw_response.create(file=upload, purpose="batch")
        return raw.text

    async def _get(self, path: str, **query: object) -> str:
        response = await self._client.get(path, cast_to=self._response, options={"params": query})
        return response.text

    async def _post(self, path: str, fields: dict[str, Any]) -> str:
        response = await self._client.post(path, cast_to=self._response, body=fields)
        return response.text

    def _read(self, batch: Any) -> Batch:
        counts = batch.get("request_counts") or {}
        errors = (batch.get("errors") or {}).get("data") or []
        first = errors[0] if errors else {}
        return Batch(
            id=batch["id"],
            state=batch["status"],
            ended=batch["status"] in _ENDED,
            mark=(batch.get("metadata") or {}).get(_MARK) or "",
            requests=counts.get("total") or 0,
            done=(counts.get("completed") or 0) + (counts.get("failed") or 0),
            created_at=float(batch["created_at"]),
            reason=failure_reason(first.get("code"), first.get("message"), self._settings.key),
            cancelled=batch["status"] == "cancelled",
            full=any(error.get("code") == _FULL for error in errors),
        )

    def _read_page(self, page: Any) -> tuple[list[Batch], str]:
        batches = [self._read(batch) for batch in page["data"]]
        return batches, batches[-1].id if batches and page.get("has_more") else ""

    def _read_files(self, batch: Any) -> tuple[Batch, list[str]]:
        files = [batch.get("output_file_id"), batch.get("error_file_id")]  # null, or empty
        return self._read(batch), [file for file in files if file]

    def _read_line(self, line: Any) -> tuple[str, Outcome]:
        """Read a line of either file."""
        response = nested_object(line, "response")
        status, content = parse_count(response.get("status_code")), response.get("body")
        if status == 200:
            return line["custom_id"], read_response(content, self._caller, READING)
        return line["custom_id"], classify_fault(
            read_fault(line.get("error") or content, status), self._caller
        )
