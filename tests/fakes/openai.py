"""OpenAI's wire format: Chat Completions."""

import math
import time
from collections.abc import Mapping
from typing import Any

from tests.fakes.parts import Asked, Invalid, Said
from tests.fakes.rates import Rates

BASE = "/openai/v1"
ROUTES = {"/chat/completions": "answer"}
REQUEST_ID = "x-request-id"
CONTENT = "choices"
ERRORS: dict[str, tuple[int, str, str | None]] = {  # status, type, code
    "bad_request": (400, "invalid_request_error", "invalid_value"),
    "unsupported": (400, "invalid_request_error", "unsupported_parameter"),
    "filtered_prompt": (400, "invalid_request_error", "content_filter"),
    "too_long": (400, "invalid_request_error", "context_length_exceeded"),
    "wrong_key": (401, "invalid_request_error", "invalid_api_key"),
    "unpaid": (402, "billing_error", None),
    "forbidden": (403, "invalid_request_error", "unsupported_country_region_territory"),
    "no_model": (404, "invalid_request_error", "model_not_found"),
    "not_found": (404, "invalid_request_error", None),
    "408": (408, "timeout", None),
    "409": (409, "conflict", None),
    "413": (413, "invalid_request_error", None),
    "422": (422, "invalid_request_error", None),
    "429": (429, "requests", "rate_limit_exceeded"),
    "no_quota": (429, "insufficient_quota", "insufficient_quota"),
    "500": (500, "server_error", None),
    "502": (502, "server_error", None),
    "503": (503, "server_error", "slow_down"),
    "504": (504, "server_error", None),
    "529": (529, "server_error", None),
}
_FINISH = {"filtered": "content_filter", "truncated": "length"}


def key_of(request: Any) -> str:
    """The key that came with the request."""
    return request.headers.get("Authorization", "").removeprefix("Bearer ")


def read(_: Mapping[str, str], body: dict[str, Any]) -> Asked:
    """What is asked; raises what it stumbles over."""
    if body["model"].startswith("gpt-6"):
        if "max_tokens" in body:
            raise Invalid("'max_tokens' is not supported with this model.", "unsupported")
        if body.get("logprobs") and body.get("reasoning_effort") != "none":
            said = "You are not allowed to request logprobs from this model."
            raise Invalid(said, "forbidden")
        if "temperature" in body and body.get("reasoning_effort") != "none":
            raise Invalid("'temperature' is not supported with this model.", "unsupported")
    shape = body.get("response_format") or {}
    schema = {}
    if shape.get("type") == "json_schema":
        schema = shape["json_schema"]["schema"]
        if shape["json_schema"].get("strict"):
            _check_strict(schema)
    texts = {"system": "", "user": ""}
    for message in body["messages"]:
        texts["user" if message["role"] == "user" else "system"] += message["content"]
    limit = body.get("max_completion_tokens", body.get("max_tokens"))
    if not body.get("logprobs") and "top_logprobs" in body:
        raise Invalid("'top_logprobs' requires 'logprobs' to be set to true.")
    top = body.get("top_logprobs", 0) if body.get("logprobs") else 0
    return Asked(body["model"], texts["system"], texts["user"], schema, limit, top)


def _check_strict(schema: dict[str, Any]) -> None:
    if schema.get("type") == "object":
        if schema.get("additionalProperties") is not False:
            raise Invalid("'additionalProperties' is required to be supplied and to be false.")
        if set(schema.get("required", ())) != set(schema["properties"]):
            raise Invalid("'required' is required to be an array of every key in properties.")
    nested = [*schema.get("properties", {}).values(), *schema.get("$defs", {}).values()]
    for inner in [*nested, *([schema["items"]] if "items" in schema else [])]:
        _check_strict(inner)


def answer(asked: Asked, said: Said) -> dict[str, Any]:
    """A completion."""
    refused = said.kind == "refusal"
    message = {
        "role": "assistant",
        "content": None if refused else said.text,
        "refusal": said.text if refused else None,
    }
    finish = _FINISH.get(said.kind, "length" if asked.max_tokens == 1 else "stop")
    log = _logprobs(said.letters, asked.top_logprobs) if said.letters else None
    return {
        "id": f"chatcmpl-{said.id}",
        "object": "chat.completion",
        "created": int(time.time()),
        "model": asked.model,
        "choices": [{"index": 0, "finish_reason": finish, "logprobs": log, "message": message}],
        "usage": {
            "prompt_tokens": said.input_tokens,
            "completion_tokens": said.output_tokens,
            "total_tokens": said.input_tokens + said.output_tokens,
            "prompt_tokens_details": {"cached_tokens": said.cached_tokens},
            "completion_tokens_details": {"reasoning_tokens": said.thinking_tokens},
        },
    }


def _logprobs(letters: Mapping[str, float], most: int) -> dict[str, Any] | None:
    """The log-probabilities of the first token: each letter in three forms, and another word."""
    if not most:
        return None
    forms = (("{}", 0.9), (" {}", 0.08), ("{lower}", 0.02))
    chances = {
        form.format(letter, lower=letter.lower()): share * chance
        for letter, chance in letters.items()
        for form, share in forms
    }
    chances["Document"] = max(0.0, 1 - sum(letters.values()))
    rows = [
        {"token": token, "bytes": [*token.encode()], "logprob": math.log(chance)}
        for token, chance in sorted(chances.items(), key=lambda item: -item[1])
        if chance > 0
    ][:most]
    return {"content": [{**rows[0], "top_logprobs": rows}], "refusal": None} if rows else None


def canonical(_: Mapping[str, str], body: dict[str, Any]) -> dict[str, Any]:
    """What a body asks, in one form."""
    return body


def read_from_cache(cached_tokens: int) -> int:
    """How many of the tokens that a cache is about were read from it."""
    return cached_tokens


def billed(said: Said) -> dict[str, int]:
    """What an answer costs, in inclusive totals."""
    return {
        "input": said.input_tokens,
        "cached": said.cached_tokens,
        "cache_write": 0,
        "output": said.output_tokens,
        "thinking": said.thinking_tokens,
    }


def error(
    name: str, message: str, retry_after: float | None, _: str
) -> tuple[int, dict[str, Any], dict[str, str]]:
    """Status, body and headers of an error."""
    status, kind, code = ERRORS[name]
    headers = {}
    if retry_after is not None:
        headers = {
            "retry-after": str(math.ceil(retry_after)),
            "retry-after-ms": str(math.ceil(retry_after * 1000)),
        }
    said = {"message": message or "Slow down.", "type": kind, "param": None, "code": code}
    return status, {"error": said}, headers


def rate_headers(rates: Rates) -> dict[str, str]:
    """What is left of the limits."""
    headers = {}
    for what, limit in rates.limits.items():
        headers[f"x-ratelimit-limit-{what}"] = str(int(limit))
        headers[f"x-ratelimit-remaining-{what}"] = str(rates.remaining[what])
        headers[f"x-ratelimit-reset-{what}"] = f"{math.ceil(rates.resets[what] * 1000)}ms"
    return headers
