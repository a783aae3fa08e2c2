"""Anthropic's wire format: Messages."""

import math
import time
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from tests.fakes.parts import Asked, Invalid, Said
from tests.fakes.rates import Rates

BASE = "/anthropic"
ROUTES = {"/v1/messages": "answer"}
REQUEST_ID = "request-id"
CONTENT = "content"
ERRORS: dict[str, tuple[int, str, str | None]] = {  # status, type, details.error_code
    "bad_request": (400, "invalid_request_error", None),
    "filtered": (400, "invalid_request_error", None),  # there is no such stop reason
    "no_quota": (400, "invalid_request_error", None),
    "too_long": (400, "invalid_request_error", None),
    "wrong_key": (401, "authentication_error", None),
    "unpaid": (402, "billing_error", None),
    "forbidden": (403, "permission_error", None),
    "no_model": (404, "not_found_error", None),
    "not_found": (404, "not_found_error", None),
    "408": (408, "timeout_error", None),
    "409": (409, "conflict_error", None),
    "413": (413, "request_too_large", None),
    "422": (422, "invalid_request_error", None),
    "429": (429, "rate_limit_error", None),
    "spend_limit": (429, "rate_limit_error", "enforced_spend_limit_reached"),
    "ramp_limit": (429, "rate_limit_error", "ramp_limit_exceeded"),
    "500": (500, "api_error", None),
    "502": (502, "api_error", None),
    "503": (503, "api_error", None),
    "504": (504, "timeout_error", None),
    "529": (529, "overloaded_error", None),
}
_MESSAGES = {
    "filtered": "Output blocked by content filtering policy",
    "no_quota": "Your credit balance is too low to access the Anthropic API.",
    "too_long": "prompt is too long: 300000 tokens > 200000 maximum",
}
_FIELDS = {"model", "messages", "max_tokens", "system", "output_config", "thinking", "metadata"}
_FIELDS |= {"service_tier", "stop_sequences", "stream", "tools", "tool_choice", "cache_control"}
_UNENFORCED = {"minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"}
_LEAST_BUDGET = 1024
_STOP = {"refusal": "refusal", "truncated": "max_tokens"}


def key_of(request: Any) -> str:
    """The key that came with the request."""
    bearer = request.headers.get("Authorization", "").removeprefix("Bearer ")
    return request.headers.get("x-api-key") or bearer


def read(_: Mapping[str, str], body: dict[str, Any]) -> Asked:
    """What is asked; raises what it stumbles over."""
    if "max_tokens" not in body:
        raise Invalid("max_tokens: Field required")
    if extra := set(body) - _FIELDS:
        raise Invalid(f"{min(extra)}: Extra inputs are not permitted")
    if (thinking := body.get("thinking", {})).get("type") == "enabled":
        if thinking["budget_tokens"] < _LEAST_BUDGET:
            raise Invalid(f"thinking.budget_tokens: should be at least {_LEAST_BUDGET}")
        if thinking["budget_tokens"] >= body["max_tokens"]:
            raise Invalid("`max_tokens` must be greater than `thinking.budget_tokens`")
    schema = body.get("output_config", {}).get("format", {}).get("schema", {})
    _check_enforced(schema)
    user = "".join(_text(m["content"]) for m in body["messages"] if m["role"] == "user")
    return Asked(body["model"], _text(body.get("system", "")), user, schema, body["max_tokens"])


def _check_enforced(schema: dict[str, Any]) -> None:
    for name, inner in {**schema.get("properties", {}), **schema.get("$defs", {})}.items():
        if refused := _UNENFORCED & set(inner):
            raise Invalid(f"{name}: properties {', '.join(refused)} are not supported")
        _check_enforced(inner)


def _text(content: Any) -> str:
    return content if isinstance(content, str) else "".join(block["text"] for block in content)


def answer(asked: Asked, said: Said) -> dict[str, Any]:
    """A message."""
    refused = said.kind == "refusal"
    return {
        "id": f"msg_{said.id}",
        "type": "message",
        "role": "assistant",
        "model": asked.model,
        "content": [] if refused else [{"type": "text", "text": said.text}],
        "stop_reason": _STOP.get(said.kind, "end_turn"),
        "stop_sequence": None,
        "stop_details": {"type": "refusal", "category": "cyber"} if refused else None,
        "usage": {
            "input_tokens": said.input_tokens - said.cached_tokens - said.cache_write_tokens,
            "cache_creation_input_tokens": said.cache_write_tokens,
            "cache_read_input_tokens": said.cached_tokens,
            "output_tokens": said.output_tokens,
            "output_tokens_details": {"thinking_tokens": said.thinking_tokens},
            "service_tier": "standard",
        },
    }


def canonical(_: Mapping[str, str], body: dict[str, Any]) -> dict[str, Any]:
    """What a body asks, in one form."""
    return body


def read_from_cache(cached_tokens: int) -> int:
    """How many of the tokens that a cache is about were read from it: half are written to it."""
    return cached_tokens - cached_tokens // 2


def billed(said: Said) -> dict[str, int]:
    """What an answer costs, in inclusive totals."""
    return {
        "input": said.input_tokens,
        "cached": said.cached_tokens,
        "cache_write": said.cache_write_tokens,
        "output": said.output_tokens,
        "thinking": said.thinking_tokens,
    }


def error(
    name: str, message: str, retry_after: float | None, request_id: str
) -> tuple[int, dict[str, Any], dict[str, str]]:
    """Status, body and headers of an error."""
    status, kind, code = ERRORS[name]
    said: dict[str, Any] = {"type": kind, "message": _MESSAGES.get(name) or message or "Overloaded"}
    if code:
        said["details"] = {"error_code": code}
    headers = {} if retry_after is None else {"retry-after": str(math.ceil(retry_after))}
    return status, {"type": "error", "error": said, "request_id": request_id}, headers


def rate_headers(rates: Rates) -> dict[str, str]:
    """What is left of the limits."""
    headers, now = {}, time.time()
    for what, limit in rates.limits.items():
        full = datetime.fromtimestamp(now + rates.resets[what], UTC)
        alone = what == "tokens" and "input-tokens" not in rates.limits
        for name in ("tokens", "input-tokens") if alone else (what,):
            prefix = f"anthropic-ratelimit-{name}"
            headers[f"{prefix}-limit"] = str(int(limit))
            headers[f"{prefix}-remaining"] = str(rates.remaining[what])
            headers[f"{prefix}-reset"] = full.strftime("%Y-%m-%dT%H:%M:%SZ")
    return headers
