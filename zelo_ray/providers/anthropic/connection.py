"""Anthropic's client, and what it sends and receives, alone or in a batch."""

from collections.abc import Mapping
from functools import cache
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from pydantic import BaseModel

from zelo_ray.providers import Settings
from zelo_ray.providers.added import tier_of
from zelo_ray.providers.headers import server_delay
from zelo_ray.providers.outcome import Fault, Reading, merged
from zelo_ray.providers.silence import CONNECT_SECONDS
from zelo_ray.records import Answer, Request, Status, Usage, response_schema

if TYPE_CHECKING:
    import anthropic

KEY_VARIABLES = ("ANTHROPIC_API_KEY",)
BASE_URL = "https://api.anthropic.com"
URL_VARIABLE = "ANTHROPIC_BASE_URL"
_STATUS: Mapping[str, Status] = {
    "refusal": "refused",
    "max_tokens": "truncated",
    "model_context_window_exceeded": "truncated",
    "pause_turn": "truncated",
}
# Failures that have a message but no code of their own.
_UNCODED = {
    "credit balance is too low": "billing",
    "content filtering policy": "content_filter",
    "prompt is too long": "prompt_too_long",
}


def body(request: Request) -> dict[str, Any]:
    """The request as Messages take it, alone or as the params of a batch."""
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
        "system": _kept(request.system) if 0 in request.starts else request.system,
        "messages": [{"role": "user", "content": _content(request)}],
        **merged(fields, options["extra_body"]),
    }


def _content(request: Request) -> str | list[dict[str, Any]]:
    """The user's prompt, in blocks where beginnings of it are to be kept in the cache."""
    edges = (0, *(at for at in request.starts if at))
    parts = [block for at, end in pairwise(edges) for block in _kept(request.user[at:end])]
    rest = request.user[edges[-1] :]
    return [*parts, {"type": "text", "text": rest}] if parts else rest


def _kept(text: str) -> list[dict[str, Any]]:
    """A text at whose end the cache is to keep all up to there."""
    return [{"type": "text", "text": text, "cache_control": {"type": "ephemeral"}}]


def read(message: Any) -> Answer:
    """The answer that a message's JSON holds; raises what it stumbles over."""
    usage, stop = used(message), message["stop_reason"]
    text = "".join(block["text"] for block in message["content"] if block["type"] == "text")
    status = _STATUS.get(stop, "ok")
    category = (message.get("stop_details") or {}).get("category")
    reason = f"stop_reason: {stop}" + (f", {category}" if category else "")
    return Answer(status, text, usage, message["model"], "" if status == "ok" else reason)


def used(message: Any) -> Usage:
    """What a message's JSON says that it used; raises what it stumbles over."""
    counts = message["usage"]
    details = counts.get("output_tokens_details") or {}
    cached = counts.get("cache_read_input_tokens") or 0
    written = counts.get("cache_creation_input_tokens") or 0
    told = counts.get("service_tier"), counts.get("speed")  # either may not be the usual one
    return Usage(
        input_tokens=counts["input_tokens"] + cached + written,
        output_tokens=counts["output_tokens"],
        cached_tokens=cached,
        cache_write_tokens=written,
        thinking_tokens=details.get("thinking_tokens") or 0,
        tier=tier_of(*told) or str(told[0] or ""),
    )


READING = Reading(read, used)


def open_client(settings: Settings, timeout: float) -> "anthropic.AsyncAnthropic":
    """The SDK's client, which retries nothing itself. ``timeout``: seconds without any byte."""
    import anthropic  # noqa: PLC0415 - two seconds of import, paid where it is used
    import httpx2  # noqa: PLC0415 - paid where it is used

    return anthropic.AsyncAnthropic(
        api_key=settings.key or "none",  # never None: the SDK would look for other credentials
        base_url=settings.base_url,
        timeout=httpx2.Timeout(timeout, connect=CONNECT_SECONDS),
        max_retries=0,
        http_client=anthropic.DefaultAioHttpClient(),
    )


def fault(error: Exception) -> Fault | None:
    """An exception of the SDK about a response's status, in no SDK's words."""
    import anthropic  # noqa: PLC0415 - paid where it is used

    if isinstance(error, anthropic.APIStatusError):
        said = error.body.get("error") if isinstance(error.body, dict) else error.body
        message = str((said.get("message") if isinstance(said, dict) else said) or "")
        return Fault(
            status=error.status_code,
            message=message,
            codes=(error.type or "", error.error_code or "", *uncoded(message)),
            delay=server_delay(error.response.headers),
        )
    return None


def uncoded(message: str) -> list[str]:
    """Codes for what only the message of an error tells."""
    return [code for words, code in _UNCODED.items() if words in message]


@cache
def _schema(verdict: type[BaseModel]) -> dict[str, Any] | None:
    """The part of the verdict's schema that Anthropic enforces; ranges become descriptions."""
    import anthropic  # noqa: PLC0415 - paid where it is used

    schema = response_schema(verdict)
    return anthropic.transform_schema(_in_words(schema)) if schema else None


def _in_words(schema: Any) -> Any:
    """The same with ranges of numbers told in descriptions, as no schema of theirs holds them."""
    if isinstance(schema, list):
        return [_in_words(each) for each in schema]
    if not isinstance(schema, dict):
        return schema
    found = {name: _in_words(value) for name, value in schema.items()}
    if {"minimum", "maximum"} <= found.keys():
        least, most = found.pop("minimum"), found.pop("maximum")
        told = f"never below {least} or above {most}"
        found["description"] = "; ".join(filter(None, (found.get("description"), told)))
    return found
