"""Google's Gemini, through the Gemini Developer API; Vertex AI is another provider."""

import json
import os
import time
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pydantic import BaseModel

from zelo_ray.providers import Batch, BatchLimits, Outcome, Provider, Retry, Settings
from zelo_ray.providers.batches import Batches, failure_reason, parse_time
from zelo_ray.providers.dialect import BatchDialect, Dialect, DialectConnection, merge_fields
from zelo_ray.providers.faults import Fault, read_fault
from zelo_ray.providers.outcome import Caller, classify_fault, read_response
from zelo_ray.providers.reading import NO_TEXT, classify_ending
from zelo_ray.records import Answer, Request, Usage, nested_object, parse_count, response_schema

if TYPE_CHECKING:
    import aiohttp
    from google import genai

_ENDED = {"SUCCEEDED", "PARTIALLY_SUCCEEDED", "FAILED", "CANCELLED", "EXPIRED"}
_STATUSES = dict(  # gRPC's codes, from 1 on, as statuses of HTTP; a line's error has either
    enumerate((499, 500, 400, 504, 404, 409, 403, 429, 400, 409, 400, 501, 500, 503, 500, 401), 1)
)


def build_body(request: Request) -> dict[str, Any]:
    """Build the body of a single request as the API spells it."""
    schema = response_schema(request.response_model)
    return _build_body(request, {"responseJsonSchema": schema} if schema else {})


def _build_body(request: Request, schema: Mapping[str, Any]) -> dict[str, Any]:
    options = request.judge.options
    config: dict[str, Any] = {"maxOutputTokens": request.output_limit}
    if response_schema(request.response_model):
        config["responseMimeType"] = "application/json"
    if options["temperature"] is not None:
        config["temperature"] = options["temperature"]
    if options["thinking_level"] is not None:
        config["thinkingConfig"] = {"thinkingLevel": str(options["thinking_level"]).upper()}
    fields = {
        "contents": [{"role": "user", "parts": [{"text": request.user}]}],
        "systemInstruction": {"role": "user", "parts": [{"text": request.system}]},
        "generationConfig": {**config, **schema},
    }
    return merge_fields(fields, options["extra_body"])


def read_answer(response: Any, _request: Request | None = None) -> Answer | Fault:
    """Read the answer in a response's JSON; raise an error if it has another form."""
    usage, model = read_usage(response), response.get("modelVersion") or ""
    if not response.get("candidates"):
        blocked = response["promptFeedback"]["blockReason"]
        return Answer("filtered", "", usage, model, f"blockReason: {blocked}")
    candidate = response["candidates"][0]
    finish = candidate.get("finishReason")
    ending, why = classify_ending(finish), f"finishReason: {finish or 'none'}"
    parts = nested_object(candidate, "content").get("parts") or []
    text = "".join(part.get("text") or "" for part in parts if not part.get("thought"))
    if ending == "failed":
        return Fault(0, why)
    if ending == "ok" and not text.strip():
        if any("functionCall" in part for part in parts):
            return Answer("invalid", "", usage, model, f"{why}; {NO_TEXT}")
        return Fault(0, f"{why}, and no text", ends="refused")
    reason = "" if ending == "ok" else why
    return Answer(ending or "ok", text, usage, model, reason, has_unknown_ending=ending is None)


def read_usage(response: Any) -> Usage:
    """Read the usage in a response's JSON, zero if it gives none."""
    counts = nested_object(response, "usageMetadata")
    thoughts = parse_count(counts.get("thoughtsTokenCount"))
    return Usage(
        input_tokens=counts.get("promptTokenCount") or 0,
        output_tokens=parse_count(counts.get("candidatesTokenCount")) + thoughts,
        cached_tokens=counts.get("cachedContentTokenCount") or 0,
        thinking_tokens=thoughts,
        tier=str(counts.get("serviceTier") or ""),
    )


class _Unsuccessful(Exception):  # noqa: N818 - it goes no further than to `find_fault`
    def __init__(self, status: int, text: str, headers: Mapping[str, str]) -> None:
        super().__init__(status)
        self.status, self.text, self.headers = status, text, headers


class GeminiClient:
    """The SDK's client with a session of ours: the SDK's own is of a class that aiohttp warns of.

    The SDK carries single calls and uploads. About batches the session is asked: the SDK drops
    their errors and counts, and fails on an inline result with an error's details, which would hide
    all batches of the account. ``project`` is a project and a location of Vertex AI.
    """

    def __init__(
        self, settings: Settings, seconds: float, project: tuple[str, str] | None = None
    ) -> None:
        from google import genai  # noqa: PLC0415 - a second of import, paid where it is used

        self._sdk, self._settings, self._seconds, self._project = genai, settings, seconds, project
        self._session: aiohttp.ClientSession | None = None
        self._client: genai.Client | None = None
        usual = "v1beta1" if project else "v1"  # as in the SDK
        self._version = os.environ.get("GOOGLE_GENAI_API_VERSION") or usual

    async def ask(self, model: str, body: dict[str, Any]) -> tuple[str, Mapping[str, str]]:
        """Post a request to a model; return the response's text and headers."""
        types = self._sdk.types
        response = await self.client.aio.models.generate_content(
            model=model,
            contents="",  # all that is sent is in the body
            config=types.GenerateContentConfig(
                automatic_continuation=False,  # one call is one request
                http_options=types.HttpOptions(extra_body=body),
                should_return_http_response=True,
            ),
        )
        raw = response.sdk_http_response or types.HttpResponse()
        headers = {name.lower(): value for name, value in (raw.headers or {}).items()}
        return raw.body or "", headers

    async def get(self, path: str, query: Mapping[str, Any]) -> str:
        """Return the text of a response."""
        async with self._request("GET", path, params=query) as response:
            return await response.text()

    async def post(self, path: str, body: dict[str, Any]) -> str:
        """Post JSON; return the response's text."""
        async with self._request("POST", path, json=body) as response:
            return await response.text()

    @asynccontextmanager
    async def stream(self, path: str) -> AsyncIterator[AsyncIterator[bytes]]:
        """Open the stream of a response's bytes."""
        async with self._request("GET", path, params={"alt": "media"}) as response:
            yield aiter(response.content.iter_any())

    @asynccontextmanager
    async def _request(
        self, method: str, path: str, **more: Any
    ) -> AsyncIterator["aiohttp.ClientResponse"]:
        url = f"{(self._settings.base_url or '').rstrip('/')}/{self._version}/{path}"
        headers = {"x-goog-api-key": self._settings.key or "none"}
        async with self._open_session().request(method, url, headers=headers, **more) as response:
            yield response

    def _open_session(self) -> "aiohttp.ClientSession":
        """Return the session, opened in the event loop that runs at the first call."""
        import aiohttp  # noqa: PLC0415 - paid where it is used

        async def check(_session: object, _context: object, params: Any) -> None:
            """Raise an error before a redirect gets the key, and the SDK reads what is no JSON."""
            got = params.response
            if got.status >= 300:
                raise _Unsuccessful(got.status, await got.text(errors="replace"), got.headers)

        if self._session is None:
            trace = aiohttp.TraceConfig()
            trace.on_request_redirect.append(check)
            trace.on_request_end.append(check)
            self._session = aiohttp.ClientSession(
                connector=aiohttp.TCPConnector(limit=0),
                timeout=aiohttp.ClientTimeout(total=self._seconds),
                trust_env=True,
                trace_configs=[trace],
            )
        return self._session

    @property
    def client(self) -> "genai.Client":
        """Return the SDK's client, opened at the first call."""
        if self._client is None:
            who: dict[str, Any] = {"vertexai": bool(self._project)}  # whatever the environment says
            if self._project:
                who["project"], who["location"] = self._project
            else:
                who["api_key"] = self._settings.key or "none"
            options = self._sdk.types.HttpOptions(
                base_url=self._settings.base_url,
                api_version=self._version,
                timeout=int(self._seconds * 1000),
                retry_options=self._sdk.types.HttpRetryOptions(attempts=1),
                aiohttp_client=self._open_session(),
            )
            self._client = self._sdk.Client(**who, http_options=options)
        return self._client

    def find_fault(self, error: Exception) -> Fault | None:
        """Turn an exception about a response's status into a `Fault`; None for others."""
        from google.auth import exceptions  # noqa: PLC0415 - paid where it is used

        if isinstance(error, exceptions.GoogleAuthError):  # of Vertex AI's credentials
            passes = error.retryable or isinstance(error, exceptions.TransportError)
            return Fault(503 if passes else 401, codes=(type(error).__name__,))
        if not isinstance(error, _Unsuccessful):
            return None
        return read_fault(error.text, error.status, error.headers)

    async def aclose(self) -> None:
        """Close the sockets."""
        if self._client is not None:
            await self._client.aio.aclose()
            self._client.close()
        if self._session is not None:
            await self._session.close()


# --- batches: a file of requests goes up, a file of results comes down ----------------------------
# Inline requests are not used: their results come with every status and may lack their keys.


def _build_line(request: Request, _: Settings) -> Mapping[str, Any]:
    return {
        "key": request.key,
        "request": _build_body(request, _batch_schema(request.response_model)),
    }


@cache
def _batch_schema(verdict: type[BaseModel]) -> dict[str, Any]:
    """Return the field with the verdict's schema in the API's older form; none for prose.

    In batches the JSON schema of single calls is reported to give answers of another form. The
    order of the fields is set as well, so that reasons come before the conclusion.
    """
    from google.genai import types  # noqa: PLC0415 - paid where it is used

    if (definition := response_schema(verdict)) is None:
        return {}
    json_schema = types.JSONSchema.model_validate(definition)
    schema = types.Schema.from_json_schema(json_schema=json_schema)
    fields = schema.model_dump(mode="json", by_alias=True, exclude_none=True)
    return {"responseSchema": _in_order(fields)}


def _in_order(schema: dict[str, Any]) -> dict[str, Any]:
    """Return the schema with the order of the fields of every object in it."""
    if "items" in schema:
        schema["items"] = _in_order(schema["items"])
    if "properties" not in schema:
        return schema
    fields = {name: _in_order(field) for name, field in schema["properties"].items()}
    return {**schema, "properties": fields, "propertyOrdering": list(fields)}


async def _upload(client: GeminiClient, lines: Path) -> str:
    with lines.open("rb") as file:  # a handle is read piece by piece
        files = client.client.aio.files
        try:
            uploaded = await files.upload(file=file, config={"mime_type": "application/jsonl"})
        except (ValueError, LookupError, AttributeError):  # the SDK cannot read the response
            return ""
    return json.dumps({"name": uploaded.name}) if uploaded.name else ""


async def _submit(client: GeminiClient, _: Path, file: str, model: str, mark: str) -> str:
    batch = {"displayName": mark, "inputConfig": {"fileName": file}}
    path = model if "/" in model else f"models/{model}"
    return await client.post(f"{path}:batchGenerateContent", {"batch": batch})


def _read_batch(operation: Any, key: str) -> Batch:
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
        # one that has just been created may not say when
        created_at=parse_time(about["createTime"]) if "createTime" in about else time.time(),
        reason=failure_reason(error.get("code"), error.get("message"), key),
        cancelled=state.endswith("CANCELLED"),
        full=state.endswith("FAILED") and error.get("code") in (8, 429),
    )


def _read_list(page: Any) -> tuple[list[Any], str]:
    return page.get("operations") or [], page.get("nextPageToken") or ""


def _find_results(body: Any, batch: Batch) -> Iterator[str | Mapping[str, Any]]:
    """Yield the results; a batch that did not succeed has none, and costs nothing."""
    output = (body.get("metadata") or {}).get("output") or body.get("response") or {}
    # Inline ones are reported for small batches, although they were submitted as a file.
    inlined = (output.get("inlinedResponses") or {}).get("inlinedResponses") or []
    if file := output.get("responsesFile"):
        yield file
    elif inlined:
        yield from (item for item in inlined if isinstance(item, Mapping))
    elif batch.state.endswith("SUCCEEDED"):  # observed for a moment after the end
        raise Retry("the results of the batch are not available yet", name="gemini")


def _read_line(line: Any, caller: Caller) -> tuple[str, Outcome]:
    key = line["key"] if "key" in line else line["metadata"]["key"]
    if line.get("response"):
        return key, read_response(line["response"], caller, read_answer, read_usage)
    error = nested_object(line, "error") or nested_object(line, "status")
    code = parse_count(error.get("code"))
    return key, classify_fault(read_fault(error, _STATUSES.get(code, code)), caller)


# --- the provider ---------------------------------------------------------------------------------

DIALECT = Dialect(
    name="gemini",
    key_variables=("GOOGLE_API_KEY", "GEMINI_API_KEY"),  # the first that is set, as in the SDK
    base_url="https://generativelanguage.googleapis.com/",
    url_variable="GOOGLE_GEMINI_BASE_URL",
    open=GeminiClient,
    body=lambda request, _: build_body(request),
    read_answer=read_answer,
    read_usage=read_usage,
    batch=BatchDialect(
        keeps_marks=True,
        line=_build_line,
        upload=_upload,
        read_upload=lambda file: str(file["name"]),
        submit=_submit,
        read=_read_batch,
        list_path="batches",
        list_size="pageSize",
        list_after="pageToken",
        read_list=_read_list,
        place="{}",
        cancel=":cancel",
        find_results=_find_results,
        download=lambda client, file: client.stream(f"{file}:download"),
        gone_statuses=(403, 404, 410),  # 403: "or it may not exist"
        read_line=_read_line,
    ),
)
PROVIDER = Provider(
    build_body=build_body,
    connect=lambda settings: DialectConnection(DIALECT, DIALECT.resolve(settings)),
    # November 2026, a million tokens: $0.25 in, $1.50 out, and still in January, when 3.8-flash
    # goes from $0.75 and $3.75 to twice that; 3.5-flash-lite, $0.30 and $2.50, lies between.
    models=("gemini-3.1-flash-lite",),
    key_variables=DIALECT.key_variables,
    url_variable=DIALECT.url_variable,
    options={
        "max_output_tokens": 2048,  # thinking counts against it
        "temperature": None,
        "thinking_level": None,
        "extra_body": {},  # more fields: {generationConfig: {seed: 1}, safetySettings: [...]}
    },
    transport={"max_output_tokens": 2048},
    concurrency=128,  # the pace follows from rates; this only caps calls in flight
    # The limit of projects that pay little. No header reports a project's own limit, so this holds
    # until the user gives another or 429s arrive.
    rates={"rpm": 300},
    limit_tokens=lambda usage: {"tpm": usage.input_tokens},
    # its documentation, October 2026
    least_cached_tokens=lambda model: 2048 if "2.5" in model else 4096,
    # A file may have 2 GB, and no number of requests is documented. This much uploads in reasonable
    # time and risks less: a batch that expires has no results at all.
    batch=BatchLimits(requests=50_000, bytes=50_000_000),
    connect_batches=lambda settings: Batches(DIALECT, DIALECT.resolve(settings)),
)
"""Gemini, or a gateway at the base URL, which ends before the version."""
