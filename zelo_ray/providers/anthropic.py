"""Anthropic: its Messages API, and Message Batches."""

from collections.abc import AsyncIterator, Iterable, Iterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import replace
from functools import cache, partial
from itertools import pairwise
from pathlib import Path
from typing import Any

from pydantic import BaseModel

from zelo_ray.providers import Batch, BatchLimits, Outcome, Provider, Refused, Retry
from zelo_ray.providers.batches import Batches, parse_time
from zelo_ray.providers.dialect import (
    BatchDialect,
    Dialect,
    DialectConnection,
    StainlessClient,
    merge_fields,
)
from zelo_ray.providers.extra_body import tier_of
from zelo_ray.providers.faults import Fault, read_fault
from zelo_ray.providers.outcome import GONE, Caller, classify_fault, find_status, read_response
from zelo_ray.providers.reading import NO_TEXT, classify_ending, limit_in
from zelo_ray.records import (
    Answer,
    Request,
    Status,
    Usage,
    nested_object,
    parse_count,
    response_schema,
)

_PREFIX = "anthropic-ratelimit"
_LIMITS = {"rpm": "requests", "itpm": "input-tokens", "otpm": "output-tokens"}
_BATCHES = "/v1/messages/batches"


def build_body(request: Request) -> dict[str, Any]:
    """Build the request's body for the Messages API, alone or as the params of a batch."""
    options = request.judge.options
    output: dict[str, Any] = {}
    if schema := _schema(request.response_model):
        output["format"] = {"type": "json_schema", "schema": schema}
    if options["effort"] is not None:
        output["effort"] = options["effort"]
    fields = {"output_config": output} if output else {}
    return {
        "model": request.judge.model,
        "max_tokens": request.output_limit,
        "system": _cached_block(request.system) if 0 in request.prefix_ends else request.system,
        "messages": [{"role": "user", "content": _content(request)}],
        **merge_fields(fields, options["extra_body"]),
    }


def _content(request: Request) -> str | list[dict[str, Any]]:
    """Return the user's prompt, in blocks if beginnings of it are to be cached."""
    edges = (0, *(at for at in request.prefix_ends if at))
    parts = [block for at, end in pairwise(edges) for block in _cached_block(request.user[at:end])]
    tail = request.user[edges[-1] :]
    return [*parts, {"type": "text", "text": tail}] if parts else tail


def _cached_block(text: str) -> list[dict[str, Any]]:
    """Return a text block with a cache breakpoint at its end."""
    return [{"type": "text", "text": text, "cache_control": {"type": "ephemeral"}}]


@cache
def _schema(verdict: type[BaseModel]) -> dict[str, Any] | None:
    """Return the schema of the verdict as Anthropic enforces it; ranges become descriptions."""
    import anthropic  # noqa: PLC0415 - paid where it is used

    schema = response_schema(verdict)
    return anthropic.transform_schema(_ranges_in_words(schema)) if schema else None


def _ranges_in_words(schema: Any) -> Any:
    """Move ranges of numbers into descriptions, as Anthropic's schemas cannot hold them."""
    if isinstance(schema, list):
        return [_ranges_in_words(part) for part in schema]
    if not isinstance(schema, dict):
        return schema
    fields = {name: _ranges_in_words(value) for name, value in schema.items()}
    if {"minimum", "maximum"} <= fields.keys():
        minimum, maximum = fields.pop("minimum"), fields.pop("maximum")
        note = f"never below {minimum} or above {maximum}"
        fields["description"] = "; ".join(filter(None, (fields.get("description"), note)))
    return fields


def read_answer(message: Any, _request: Request | None = None) -> Answer | Fault:
    """Read the answer in a message's JSON; raise an error if it has another form."""
    usage, stop = read_usage(message), message.get("stop_reason")
    ending, blocks = classify_ending(stop), message["content"] or ()
    if not (blocks or message.get("usage")):
        raise ValueError("neither text nor counts")
    category = nested_object(message, "stop_details").get("category")
    reason = f"stop_reason: {stop}" + (f", {category}" if category else "")
    if ending == "failed":
        return Fault(0, reason)
    text = "".join(block["text"] for block in blocks if block["type"] == "text")
    status: Status = ending or "ok"
    if not text.strip() and ending == "ok" and any(block["type"] == "tool_use" for block in blocks):
        status, reason = "invalid", NO_TEXT
    reason = "" if status == "ok" == ending else reason
    return Answer(status, text, usage, message["model"], reason, has_unknown_ending=ending is None)


def read_usage(message: Any) -> Usage:
    """Read the usage in a message's JSON."""
    counts = nested_object(message, "usage")
    details = nested_object(counts, "output_tokens_details")
    cached = parse_count(counts.get("cache_read_input_tokens"))
    written = parse_count(counts.get("cache_creation_input_tokens"))
    tiers = counts.get("service_tier"), counts.get("speed")  # either may not be the usual one
    return Usage(
        input_tokens=parse_count(counts.get("input_tokens")) + cached + written,
        output_tokens=counts.get("output_tokens") or 0,
        cached_tokens=cached,
        cache_write_tokens=written,
        thinking_tokens=details.get("thinking_tokens") or 0,
        tier=tier_of(*tiers) or str(tiers[0] or ""),
    )


def rates(headers: Mapping[str, str]) -> Mapping[str, float]:
    """Return the account's limits a minute, as far as a response's headers give them."""
    limits = {name: limit_in(headers, f"{_PREFIX}-{what}-limit") for name, what in _LIMITS.items()}
    if not (limits["itpm"] or limits["otpm"]):
        limits["tpm"] = limit_in(headers, f"{_PREFIX}-tokens-limit")
    return {name: limit for name, limit in limits.items() if limit}


# --- batches: all requests in one call, the results as a stream of lines --------------------------


async def _submit(client: StainlessClient, lines: Path, _: str, _model: str, _mark: str) -> str:
    # Piece by piece: the typed method would hold nearly four times the body in memory.
    with lines.open("rb") as file:
        length = sum(map(len, _body_of_lines(file)))
        file.seek(0)

        async def stream() -> AsyncIterator[bytes]:
            for piece in _body_of_lines(file):
                yield piece

        headers = {"headers": {"Content-Length": str(length)}}
        response = await client.sdk.post(
            _BATCHES, cast_to=client.response, content=stream(), options=headers
        )
    return str(response.text)


def _body_of_lines(lines: Iterable[bytes]) -> Iterator[bytes]:
    """Yield the pieces of a request body that holds these lines."""
    yield b'{"requests":['
    for number, line in enumerate(lines):
        yield (b"," if number else b"") + line.rstrip(b"\n")
    yield b"]}"


def _read_batch(batch: Any, _key: str) -> Batch:
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


def _find_results(body: Any, batch: Batch) -> Iterator[str]:
    if not body.get("results_url"):
        raise Refused(GONE, name="anthropic")
    yield batch.id


@asynccontextmanager
async def _download(client: StainlessClient, batch_id: str) -> AsyncIterator[AsyncIterator[bytes]]:
    async with client.sdk.messages.batches.with_streaming_response.results(batch_id) as response:
        yield aiter(response.iter_bytes())


def _read_line(line: Any, caller: Caller) -> tuple[str, Outcome]:
    key, result = line["custom_id"], line["result"]
    if result["type"] == "succeeded":
        return key, read_response(result["message"], caller, read_answer, read_usage)
    if result["type"] != "errored":
        return key, Retry(f"{result['type']} before it was processed", name="anthropic")
    fault = read_fault(result["error"])  # which has the type of the error alone
    return key, classify_fault(replace(fault, http_status=find_status(fault.codes)), caller)


# --- the provider ---------------------------------------------------------------------------------


def _limit_tokens(usage: Usage) -> Mapping[str, float]:
    """Count input and output apart, and leave out what was read from a cache."""
    return {
        "itpm": max(0, usage.input_tokens - usage.cached_tokens),
        "otpm": usage.output_tokens,
        "tpm": usage.input_tokens + usage.output_tokens,
    }


def _least_cached_tokens(model: str) -> int:
    """Return the highest minimum documented for any Sonnet (4.6), or any other model (Haiku 4.5).

    Some models also cache shorter beginnings; no request is sent ahead to warm them.
    """
    return 2048 if "sonnet" in model else 4096


DIALECT = Dialect(
    name="anthropic",
    key_variables=("ANTHROPIC_API_KEY",),
    base_url="https://api.anthropic.com",
    url_variable="ANTHROPIC_BASE_URL",
    open=partial(StainlessClient, "anthropic", "/v1/messages"),
    body=lambda request, _: build_body(request),
    read_answer=read_answer,
    read_usage=read_usage,
    rates=rates,
    batch=BatchDialect(
        keeps_marks=False,
        line=lambda request, _: {"custom_id": request.key, "params": build_body(request)},
        submit=_submit,
        read=_read_batch,
        list_path=_BATCHES,
        list_after="after_id",
        place=f"{_BATCHES}/{{}}",
        find_results=_find_results,
        download=_download,
        read_line=_read_line,
    ),
)
PROVIDER = Provider(
    build_body=build_body,
    connect=lambda settings: DialectConnection(DIALECT, DIALECT.resolve(settings)),
    models=("claude-haiku-5-5",),  # November 2026, a million tokens: $0.10 in, $0.50 out
    key_variables=DIALECT.key_variables,
    url_variable=DIALECT.url_variable,
    options={
        "max_output_tokens": 1024,
        "effort": None,  # there are no sampling parameters any more, not even temperature 0
        "extra_body": {},  # more fields of the request: thinking, service_tier ...
    },
    transport={"max_output_tokens": 1024},
    concurrency=128,  # the pace follows from rates; this only caps calls in flight
    # The limit of the smallest paying accounts; every response then reports the account's own.
    rates={"rpm": 50},
    limit_tokens=_limit_tokens,
    least_cached_tokens=_least_cached_tokens,
    # A batch may have 256 MB. A fifth of that uploads in reasonable time and risks less.
    batch=BatchLimits(requests=100_000, bytes=50_000_000),
    connect_batches=lambda settings: Batches(DIALECT, DIALECT.resolve(settings)),
)
"""Anthropic, or a gateway at the base URL, which ends before ``/v1``."""
