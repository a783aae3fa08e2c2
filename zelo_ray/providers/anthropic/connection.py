"""Anthropic's client, and the form of its requests and responses, single or in a batch."""

from collections.abc import Mapping
from dataclasses import replace
from functools import cache
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from pydantic import BaseModel

from zelo_ray.providers import Settings
from zelo_ray.providers.endings import classify_ending
from zelo_ray.providers.extra_body import tier_of
from zelo_ray.providers.faults import Fault, read_fault
from zelo_ray.providers.no_response import CONNECT_SECONDS
from zelo_ray.providers.outcome import Reading, merge_fields
from zelo_ray.records import (
    Answer,
    Request,
    Status,
    Usage,
    nested_object,
    parse_count,
    response_schema,
)

if TYPE_CHECKING:
    import anthropic

KEY_VARIABLES = ("ANTHROPIC_API_KEY",)
BASE_URL = "https://api.anthropic.com"
URL_VARIABLE = "ANTHROPIC_BASE_URL"
_TOOL_CALL = "a tool call and no text: leave tools out of extra_body"
FIELDS: Mapping[str, str] = {
    "max_tokens": "set a smaller max_output_tokens in judge_options",
    "output_config": "leave effort out of judge_options, or choose a model that keeps to a schema",
}
"""Fields that a model may not accept, each with advice."""
# Failures that have a message but no code of their own.
_UNCODED = {
    "credit balance is too low": "billing",
    "content filtering policy": "content_filter",
    "prompt is too long": "prompt_too_long",
}


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


def read_answer(message: Any) -> Answer | Fault:
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
        status, reason = "invalid", _TOOL_CALL
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


READING = Reading(read_answer, read_usage)


def open_client(settings: Settings, timeout: float) -> "anthropic.AsyncAnthropic":
    """Open the SDK's client, without its retries. ``timeout``: seconds without any byte."""
    import anthropic  # noqa: PLC0415 - two seconds of import, paid where it is used
    import httpx2  # noqa: PLC0415 - paid where it is used

    return anthropic.AsyncAnthropic(
        api_key=settings.key or "none",  # never None: the SDK would look for other credentials
        base_url=settings.base_url,
        timeout=httpx2.Timeout(timeout, connect=CONNECT_SECONDS),
        max_retries=0,
        http_client=anthropic.DefaultAioHttpClient(follow_redirects=False),
    )


def find_fault(error: Exception) -> Fault | None:
    """Turn the SDK's exception about a response's status into a `Fault`; None for others."""
    import anthropic  # noqa: PLC0415 - paid where it is used

    if isinstance(error, anthropic.APIStatusError):
        return add_codes(read_fault(error.body, error.status_code, error.response.headers))
    return None


def add_codes(fault: Fault) -> Fault:
    """Add codes for failures that only an error's message reveals."""
    more = (code for words, code in _UNCODED.items() if words in fault.message)
    return replace(fault, codes=(*fault.codes, *more))


@cache
def _schema(verdict: type[BaseModel]) -> dict[str, Any] | None:
    """Return the schema of the verdict as Anthropic enforces it; ranges become descriptions."""
    import anthropic  # noqa: PLC0415 - paid where it is used

    schema = response_schema(verdict)
    return anthropic.transform_schema(_in_words(schema)) if schema else None


def _in_words(schema: Any) -> Any:
    """Move ranges of numbers into descriptions, as Anthropic's schemas cannot hold them."""
    if isinstance(schema, list):
        return [_in_words(part) for part in schema]
    if not isinstance(schema, dict):
        return schema
    fields = {name: _in_words(value) for name, value in schema.items()}
    if {"minimum", "maximum"} <= fields.keys():
        minimum, maximum = fields.pop("minimum"), fields.pop("maximum")
        note = f"never below {minimum} or above {maximum}"
        fields["description"] = "; ".join(filter(None, (fields.get("description"), note)))
    return fields
