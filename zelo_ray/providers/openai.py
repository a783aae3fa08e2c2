"""OpenAI, and every server that speaks its Chat Completions: vLLM, SGLang, Ollama, gateways."""

import math
import os
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import replace
from functools import partial
from hashlib import sha256
from pathlib import Path
from typing import Any

from zelo_ray.providers import Batch, BatchLimits, Outcome, Provider, Retry, Settings
from zelo_ray.providers.batches import Batches, failure_reason
from zelo_ray.providers.dialect import (
    BatchDialect,
    Dialect,
    DialectConnection,
    StainlessClient,
    merge_fields,
)
from zelo_ray.providers.faults import Fault, fault_in, read_fault
from zelo_ray.providers.outcome import Caller, classify_fault, read_response
from zelo_ray.providers.reading import (
    NO_PROBABILITIES,
    NO_TEXT,
    TOP_TOKENS,
    classify_ending,
    duration,
    letter_probabilities,
    limit_in,
)
from zelo_ray.records import (
    Answer,
    Request,
    Status,
    Usage,
    nested_object,
    parse_count,
    response_schema,
)

_REASON_LENGTH = 200
_LONGEST_MINUTE = 300.0  # seconds; a longer window is not a limit per minute
_ENDPOINT = "/chat/completions"
_MARK = "zelo_ray"
_ENDED = {"completed", "failed", "expired", "cancelled"}
_FULL = "token_limit_exceeded"


def build_body(request: Request, *, cached: bool = False) -> dict[str, Any]:
    """Build a request's body; ``cached``: for OpenAI's own server, with its prompt cache."""
    options = request.judge.options
    fields: dict[str, Any] = {
        "model": request.judge.model,
        "messages": [
            {"role": "system", "content": request.system},
            {"role": "user", "content": request.user},
        ],
        options["token_limit_field"]: request.output_limit,
    }
    schema = response_schema(request.response_model)
    if schema and options["response_format"] == "json_schema":
        json_schema = {"name": request.response_model.__name__, "strict": True, "schema": schema}
        fields["response_format"] = {"type": "json_schema", "json_schema": json_schema}
    elif schema and options["response_format"] == "json_object":
        fields["response_format"] = {"type": "json_object"}
    for name in ("temperature", "reasoning_effort"):
        if options[name] is not None:
            fields[name] = options[name]
    if request.choices:
        fields |= {"logprobs": True, "top_logprobs": TOP_TOKENS}
    if cached and request.prefix_ends:  # routes equal beginnings to the machine that has them
        begin = f"{request.judge.model}\0{request.user[: request.prefix_ends[-1]]}"
        fields["prompt_cache_key"] = sha256(begin.encode(errors="replace")).hexdigest()[:32]
    return merge_fields(fields, options["extra_body"])


def read_answer(completion: Any, request: Request | None = None) -> Answer | Fault:
    """Read the answer in a completion's JSON; raise an error if it has another form.

    A request with choices is answered by the probabilities of these letters. Its answer is complete
    though it breaks off after one token. One without log-probabilities shows that the server gives
    none, whatever it is asked, unless it has given some before.
    """
    answer = _read_text(completion)
    if isinstance(answer, Fault) or not (request and request.choices):
        return answer
    if answer.status in ("refused", "filtered"):
        return answer
    tokens = (completion["choices"][0].get("logprobs") or {}).get("content")
    if not tokens or not tokens[0].get("top_logprobs"):
        reason = "the answer has no log-probabilities"
        return replace(answer, status="invalid", reason=reason, judge_fault=NO_PROBABILITIES)
    rows = [(str(row["token"]), float(row["logprob"])) for row in tokens[0]["top_logprobs"]]
    text = letter_probabilities(rows, request.choices)
    return replace(answer, status="ok", text=text, reason="", has_unknown_ending=False)


def _read_text(completion: Any) -> Answer | Fault:
    choice, usage = completion["choices"][0], read_usage(completion)
    finish = choice.get("finish_reason") or choice.get("native_finish_reason") or "stop"
    ending, why = classify_ending(finish), f"finish_reason: {finish}"[:_REASON_LENGTH]
    if fault := fault_in({"error": choice.get("error")}):
        return fault
    if ending == "failed":
        return Fault(0, why)
    message, model = choice["message"], completion.get("model") or ""
    text = _content(message.get("content"))
    if refusal := message.get("refusal"):
        return Answer("refused", text, usage, model, f"refusal: {refusal[:_REASON_LENGTH]}")
    status: Status = ending or "ok"
    reasons = [] if ending == "ok" else [why]
    instead = ("tool_calls", "function_call", "reasoning_content", "reasoning")
    if not text.strip() and any(message.get(name) for name in instead):
        status = "invalid" if ending == "ok" else status
        reasons.append(NO_TEXT)
    reason = "; ".join(reasons)
    return Answer(status, text, usage, model, reason, has_unknown_ending=ending is None)


def _content(content: Any) -> str:
    """Return a message's text, from a string or from parts; leave thoughts out."""
    if isinstance(content, list):
        content = "".join(part.get("text") for part in content if part.get("type") == "text")
    if not isinstance(content or "", str):
        raise TypeError("content must be text")
    return content or ""


def read_usage(completion: Any) -> Usage:
    """Read the usage in a completion's JSON, zero if it gives none."""
    counts = nested_object(completion, "usage")
    input_details = nested_object(counts, "prompt_tokens_details")
    cost: Any = counts.get("cost")  # in dollars, as OpenRouter reports it
    is_number = isinstance(cost, int | float) and not isinstance(cost, bool)
    return Usage(
        input_tokens=counts.get("prompt_tokens") or 0,
        output_tokens=counts.get("completion_tokens") or 0,
        cached_tokens=input_details.get("cached_tokens") or 0,
        cache_write_tokens=input_details.get("cache_write_tokens") or 0,
        thinking_tokens=nested_object(counts, "completion_tokens_details").get("reasoning_tokens")
        or 0,
        tier=str(nested_object(completion).get("service_tier") or ""),
        reported_dollars=float(cost) if is_number and 0 <= cost < math.inf else None,
    )


def rates(headers: Mapping[str, str]) -> Mapping[str, float]:
    """Return the account's limits a minute in headers; the limit of a *day* there is left out."""
    limits = {
        "rpm": _requests_a_minute(headers),
        "tpm": limit_in(headers, "x-ratelimit-limit-tokens"),
    }
    return {name: limit for name, limit in limits.items() if limit}


def _requests_a_minute(headers: Mapping[str, str]) -> float | None:
    """Return the limit of requests, if its reset time fits a limit per minute."""
    limit = limit_in(headers, "x-ratelimit-limit-requests")
    reset = duration(headers.get("x-ratelimit-reset-requests") or "")
    try:
        remaining = int(headers.get("x-ratelimit-remaining-requests") or "")
    except ValueError:
        return None
    if limit is None or reset is None:
        return None
    used = limit - remaining
    reset -= 0.001  # it may be rounded up, which at a high limit would be a long window
    return None if used > 0 and reset * limit / used > _LONGEST_MINUTE else limit


# --- batches: a file of completions goes up, two files of results come down ----------------------


def _build_line(request: Request, settings: Settings) -> Mapping[str, Any]:
    url = f"/v1{_ENDPOINT}"
    return {"custom_id": request.key, "method": "POST", "url": url} | {
        "body": _body(request, settings)
    }


async def _upload(client: StainlessClient, lines: Path) -> str:
    with lines.open("rb") as file:  # a handle is read piece by piece, a path at once
        upload: Any = ("batch.jsonl", file, "application/jsonl")
        response = await client.sdk.files.with_raw_response.create(file=upload, purpose="batch")
    return str(response.text)


async def _submit(client: StainlessClient, _: Path, file: str, _model: str, mark: str) -> str:
    fields = {
        "input_file_id": file,
        "endpoint": f"/v1{_ENDPOINT}",
        "completion_window": "24h",
        "metadata": {_MARK: mark},
    }
    return await client.post("/batches", fields)


def _read_batch(batch: Any, key: str) -> Batch:
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
        reason=failure_reason(first.get("code"), first.get("message"), key),
        cancelled=batch["status"] == "cancelled",
        full=any(error.get("code") == _FULL for error in errors),
    )


def _find_results(body: Any, batch: Batch) -> Iterator[str]:
    """Yield the ids of both files, either of which may be missing, null or empty."""
    files = [*filter(None, (body.get("output_file_id"), body.get("error_file_id")))]
    if batch.state == "completed" and batch.requests and not files:
        raise Retry("the results of the batch are not available yet", name="openai")
    yield from files


@asynccontextmanager
async def _download(client: StainlessClient, file: str) -> AsyncIterator[AsyncIterator[bytes]]:
    async with client.sdk.files.with_streaming_response.content(file) as response:
        yield aiter(response.iter_bytes())


def _read_line(line: Any, caller: Caller) -> tuple[str, Outcome]:
    response = nested_object(line, "response")
    status, content = parse_count(response.get("status_code")), response.get("body")
    if status == 200:
        return line["custom_id"], read_response(content, caller, read_answer, read_usage)
    fault = read_fault(line.get("error") or content, status)
    return line["custom_id"], classify_fault(fault, caller)


# --- the provider --------------------------------------------------------------------------------


def _body(request: Request, settings: Settings) -> dict[str, Any]:
    return build_body(request, cached=settings.base_url == DIALECT.base_url)


def _shown_body(request: Request) -> dict[str, Any]:
    """Build the body that goes to the server which the judge or the environment names."""
    key = os.environ.get(DIALECT.key_variables[0]) or "none"  # it tells which file's URL counts
    return _body(request, DIALECT.resolve(Settings(key, request.judge.base_url)))


DIALECT = Dialect(
    name="openai",
    key_variables=("OPENAI_API_KEY",),
    base_url="https://api.openai.com/v1",
    url_variable="OPENAI_BASE_URL",
    open=partial(StainlessClient, "openai", _ENDPOINT),
    body=_body,
    read_answer=read_answer,
    read_usage=read_usage,
    rates=rates,
    batch=BatchDialect(
        keeps_marks=True,
        line=_build_line,
        upload=_upload,
        submit=_submit,
        read=_read_batch,
        list_path="/batches",
        list_after="after",
        place="/batches/{}",
        find_results=_find_results,
        download=_download,
        read_line=_read_line,
    ),
)
OPTIONS: Mapping[str, Any] = {
    "max_output_tokens": 2048,  # hidden reasoning counts against it
    "temperature": None,  # GPT-6 takes one only with reasoning_effort "none"
    "reasoning_effort": None,
    "response_format": "json_schema",  # compatible servers: or "json_object", or "none"
    "token_limit_field": "max_completion_tokens",  # older compatible servers: "max_tokens"
    "extra_body": {},  # more fields of the request, for compatible servers
}
"""The options of judges, with their defaults."""
PROVIDER = Provider(
    build_body=_shown_body,
    connect=lambda settings: DialectConnection(DIALECT, DIALECT.resolve(settings)),
    models=("gpt-6-luna",),  # November 2026, a million tokens: $0.10 in, $0.50 out, the cheapest
    key_variables=DIALECT.key_variables,
    url_variable=DIALECT.url_variable,
    options=OPTIONS,
    # These do not change the content of an answer.
    transport={name: OPTIONS[name] for name in ("max_output_tokens", "token_limit_field")},
    concurrency=256,  # the pace follows from rates; this only caps calls in flight
    # The limit of the smallest paying accounts; every response then reports the account's own.
    rates={"rpm": 500},
    least_cached_tokens=lambda _: 1024,
    gives_probabilities=True,
    # A batch may have 200 MB. A quarter of that uploads in reasonable time and risks less.
    batch=BatchLimits(requests=50_000, bytes=50_000_000),
    connect_batches=lambda settings: Batches(DIALECT, DIALECT.resolve(settings)),
)
"""OpenAI, or a compatible server at the base URL, where any key may do."""
