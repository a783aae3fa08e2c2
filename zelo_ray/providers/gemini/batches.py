"""Gemini's batches: upload a file of requests, download a file of results.

Inline requests are not used: their results come with every status and may lack their keys.
"""

import tempfile
from collections.abc import AsyncIterator, Awaitable
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any, TypeVar

from pydantic import BaseModel

from zelo_ray.providers import Batch, Outcome, Retry, Settings
from zelo_ray.providers.batch_files import (
    GONE,
    TRANSFER,
    FileTexts,
    cancel_batch,
    failure_reason,
    list_batches,
    parse_time,
    read_json,
    read_results,
    write_line,
)
from zelo_ray.providers.faults import read_fault
from zelo_ray.providers.gemini.connection import (
    FIELDS,
    KEY_VARIABLES,
    PROXIES,
    READING,
    Client,
    add_codes,
    build_body,
    find_fault,
)
from zelo_ray.providers.outcome import (
    Caller,
    classify_fault,
    guard_call,
    read_response,
)
from zelo_ray.records import Request, nested_object, parse_count, response_schema

T = TypeVar("T")
_ENDED = {"SUCCEEDED", "PARTIALLY_SUCCEEDED", "FAILED", "CANCELLED", "EXPIRED"}
_PAGE = 50
_IN_MEMORY = 2**20
_STATUSES = dict(  # gRPC's codes, from 1 on, as statuses of HTTP; a line's error has either
    enumerate((499, 500, 400, 504, 404, 409, 403, 429, 400, 409, 400, 501, 500, 503, 500, 401), 1)
)


class GeminiBatches:
    """The batch API of one key."""

    KEEPS_MARKS = True

    def __init__(self, settings: Settings) -> None:
        from google.genai import errors  # noqa: PLC0415 - paid where it is used

        self._transfer = max(TRANSFER, settings.timeout)
        self._settings, self._error = settings, errors.APIError
        self._connection = Client(settings, self._transfer)
        # For results: without the prompts it is unknown whether a message quotes one.
        about = ("gemini", settings, KEY_VARIABLES, find_fault)
        self._caller = Caller(*about, prompts=None, fields=FIELDS, proxies=PROXIES)
        self._asking = replace(self._caller, is_existing_batch=True)

    def line(self, request: Request) -> bytes:
        """Return the request as one line of a batch file, with its key as the ID."""
        fields = build_body(request, _schema(request.response_model))
        return write_line({"key": request.key, "request": fields}, request.judge.name)

    async def create(self, lines: Path, model: str, mark: str) -> Batch:
        """Upload the file and submit it."""
        caller = replace(self._caller, name=f"gemini:{model}", prompts=FileTexts(lines))
        file = await guard_call(_raise_unreadable(self._upload(lines)), caller, self._transfer)
        job = await guard_call(_raise_unreadable(self._submit(file, model, mark)), caller)
        return Batch(id=job, state="BATCH_STATE_PENDING", ended=False, mark=mark)

    async def find(self, since: float) -> list[Batch]:
        """Return all batches created since then."""

        async def page(token: str) -> tuple[list[Batch], str]:
            place = {"pageToken": token} if token else {}
            call = self._get("batches", pageSize=str(_PAGE), **place)
            return await read_json(call, self._read_page, self._asking)

        return await list_batches(page, since)

    async def look(self, batch_id: str) -> Batch:
        """Return a batch's current state."""
        return await read_json(self._get(batch_id), self._read, self._asking)

    async def results(self, batch_id: str) -> AsyncIterator[tuple[str, Outcome]]:
        """Yield each result; a batch that did not succeed has none, and costs nothing."""
        batch, file, inlined = await read_json(self._get(batch_id), self._read_place, self._asking)
        if not batch.ended:
            raise Retry(f"the batch has not ended ({batch.state})", name="gemini")
        if file:
            with tempfile.SpooledTemporaryFile(_IN_MEMORY) as lines:
                await self._download(file, lines)
                lines.seek(0)
                for result in read_results(lines, self._read_line):
                    yield result
        elif (
            inlined
        ):  # reported to happen for small batches, although they were submitted as a file
            for result in read_results(inlined, self._read_inlined):
                yield result
        elif batch.state.endswith("SUCCEEDED"):  # observed for a moment after the end
            raise Retry("the results of the batch are not available yet", name="gemini")

    async def cancel(self, batch_id: str) -> None:
        """Ask to stop a batch."""
        cancelling = self._connection.client.aio.batches.cancel(name=batch_id)
        await cancel_batch(cancelling, lambda: self.look(batch_id), self._asking)

    async def aclose(self) -> None:
        """Close the sockets."""
        await self._connection.aclose()

    async def _upload(self, lines: Path) -> str:
        with lines.open("rb") as file:  # a handle is read piece by piece
            uploaded = await self._connection.client.aio.files.upload(
                file=file, config={"mime_type": "application/jsonl"}
            )
        return _named(uploaded.name)

    async def _submit(self, file: str, model: str, mark: str) -> str:
        job = await self._connection.client.aio.batches.create(
            model=model, src=file, config={"display_name": mark}
        )
        return _named(job.name)

    async def _download(self, file: str, into: Any) -> None:
        gone = dict.fromkeys((403, 404, 410), GONE)  # 403: "or it may not exist"
        caller = replace(self._asking, gone_messages=gone)
        files = self._connection.client.aio.files
        await guard_call(files.download(file=file, destination=into), caller, self._transfer)

    async def _get(self, path: str, **query: str) -> str:
        # Not through the SDK: its batches have neither an error nor counts, and it fails on an
        # inline result with an error's details, which would hide all batches of the account.
        base = (self._settings.base_url or "").rstrip("/")
        async with self._connection.session.get(
            f"{base}/{self._connection.version}/{path}",
            headers={"x-goog-api-key": self._settings.key or "none"},
            params=query,
            allow_redirects=False,  # the key is for this host
        ) as response:
            await self._error.raise_for_async_response(response)
            return await response.text()

    def _read(self, operation: Any) -> Batch:
        about, error = operation.get("metadata") or {}, operation.get("error") or {}
        stats = about.get("batchStats") or {}
        counts = {name: int(count) for name, count in stats.items()}  # they come as texts
        state = about.get("state") or ""
        return Batch(
            id=operation["name"],
            state=state,
            ended=state.removeprefix("BATCH_STATE_").removeprefix("JOB_STATE_") in _ENDED,
            mark=about.get("displayName") or "",
            requests=counts.get("requestCount", 0),
            done=counts.get("successfulRequestCount", 0) + counts.get("failedRequestCount", 0),
            created_at=parse_time(about["createTime"]),
            reason=failure_reason(error.get("code"), error.get("message"), self._settings.key),
            cancelled=state.endswith("CANCELLED"),
            full=state.endswith("FAILED") and error.get("code") in (8, 429),
        )

    def _read_page(self, page: Any) -> tuple[list[Batch], str]:
        batches = [self._read(operation) for operation in page.get("operations") or ()]
        return batches, page.get("nextPageToken") or ""

    def _read_place(self, operation: Any) -> tuple[Batch, str, list[Any]]:
        output = (operation.get("metadata") or {}).get("output") or operation.get("response") or {}
        inlined = (output.get("inlinedResponses") or {}).get("inlinedResponses") or []
        return self._read(operation), output.get("responsesFile") or "", list(inlined)

    def _read_inlined(self, item: Any) -> tuple[str, Outcome]:
        return self._read_line({**item, "key": item["metadata"]["key"]})

    def _read_line(self, line: Any) -> tuple[str, Outcome]:
        """Read a line of the results."""
        if line.get("response"):
            return line["key"], read_response(line["response"], self._caller, READING)
        errors = [nested_object(line, "error"), nested_object(line, "status")]
        error = next(filter(None, errors), {})
        code = parse_count(error.get("code"))
        return line["key"], classify_fault(
            add_codes(read_fault(error, _STATUSES.get(code, code)), error), self._caller
        )


async def _raise_unreadable(call: Awaitable[T]) -> T:
    """Await a call; raise ConnectionError where the SDK cannot read the response."""
    try:
        return await call
    except (ValueError, LookupError, AttributeError):
        raise ConnectionError from None


def _named(name: str | None) -> str:
    if not name:
        raise ValueError("a response without a name in it")
    return name


@cache
def _schema(verdict: type[BaseModel]) -> dict[str, Any]:
    """Return the field with the verdict's schema in the API's older form; none for prose.

    In batches the JSON schema of single calls is reported to give answers of another form. The
    order of the fields is set as well, so that reasons come before the conclusion.
    """
    from google.genai import types  # noqa: PLC0415 - paid where it is used

    if (definition := response_schema(verdict)) is None:
        return {}
    json_schema = types.JSONSchema.model_validate(definition)
    schema = types.Schema.from_json_schema(json_schema=json_schema)
    return {
        "responseSchema": _ordered(schema.model_dump(mode="json", by_alias=True, exclude_none=True))
    }


def _ordered(schema: dict[str, Any]) -> dict[str, Any]:
    """Return the schema with the order of the fields of every object in it."""
    if "items" in schema:
        schema["items"] = _ordered(schema["items"])
    if "properties" not in schema:
        return schema
    fields = {name: _ordered(field) for name, field in schema["properties"].items()}
    return {**schema, "properties": fields, "propertyOrdering": list(fields)}
