"""Gemini's wire format: generateContent, in any version of the API."""

from collections.abc import Mapping
from typing import Any

from tests.fakes.parts import Asked, Invalid, Said
from tests.fakes.rates import Rates

BASE = "/gemini"
ROUTES = {"/{version}/models/{model}:generateContent": "answer"}
REQUEST_ID = "x-request-id"
CONTENT = "candidates"
ERRORS: dict[str, tuple[int, str]] = {  # status of HTTP and of gRPC
    "bad_request": (400, "INVALID_ARGUMENT"),
    "too_long": (400, "INVALID_ARGUMENT"),
    "wrong_key": (400, "INVALID_ARGUMENT"),  # really 400, and a reason in the details
    "unpaid": (402, "FAILED_PRECONDITION"),
    "forbidden": (403, "PERMISSION_DENIED"),
    "no_model": (404, "NOT_FOUND"),
    "not_found": (404, "NOT_FOUND"),
    "408": (408, "DEADLINE_EXCEEDED"),
    "409": (409, "ABORTED"),
    "413": (413, "INVALID_ARGUMENT"),
    "422": (422, "INVALID_ARGUMENT"),
    "429": (429, "RESOURCE_EXHAUSTED"),
    "no_quota": (429, "RESOURCE_EXHAUSTED"),
    "per_day": (429, "RESOURCE_EXHAUSTED"),
    "enqueued": (429, "RESOURCE_EXHAUSTED"),
    "500": (500, "INTERNAL"),
    "502": (502, "UNAVAILABLE"),
    "503": (503, "UNAVAILABLE"),
    "504": (504, "DEADLINE_EXCEEDED"),
    "529": (529, "UNAVAILABLE"),
}
_QUOTAS = {  # quotaId, quotaValue
    "429": ("GenerateRequestsPerMinutePerProjectPerModel", "1000"),
    "no_quota": ("GenerateRequestsPerMinutePerProjectPerModel-FreeTier", "0"),
    "per_day": ("GenerateRequestsPerDayPerProjectPerModel", "10000"),
    "enqueued": ("BatchEnqueuedTokensPerProjectPerModel", "3000000"),
}
_EXCEEDED = (
    "You exceeded your current quota, please check your plan and billing details. "
    "* Quota exceeded for metric: generativelanguage.googleapis.com/requests, limit: {limit}, "
    "model: a-model"
)
_TYPE = "type.googleapis.com/google.rpc."
_UNASKED = {"additionalProperties", "propertyOrdering", "property_ordering", "$defs"}
_FINISH = {"filtered": "SAFETY", "truncated": "MAX_TOKENS"}


def key_of(request: Any) -> str:
    """The key that came with the request."""
    return request.headers.get("x-goog-api-key") or request.query.get("key", "")


def read(path: Mapping[str, str], body: dict[str, Any]) -> Asked:
    """What is asked; raises what it stumbles over."""
    config = body.get("generationConfig") or {}
    if config.get("responseJsonSchema") and config.get("responseSchema"):
        raise Invalid("only one of response_schema and response_json_schema can be set")
    schema = _schema(config)
    if schema and config.get("responseMimeType") != "application/json":
        raise Invalid("a response schema needs the mime type application/json")
    user = "".join(_text(content) for content in body["contents"])
    system = _text(body.get("systemInstruction") or {"parts": []})
    return Asked(path["model"], system, user, schema, config.get("maxOutputTokens"))


def _schema(config: dict[str, Any]) -> dict[str, Any]:
    """The schema, in whichever of the API's two forms it came: they ask, and cost, the same."""
    given = config.get("responseJsonSchema") or config.get("responseSchema") or {}
    return _plain(given, given.get("$defs", {}))


def _plain(value: Any, named: dict[str, Any]) -> Any:
    """A part of a schema without titles, and with what it refers to in its place."""
    if isinstance(value, dict) and "$ref" in value:
        return _plain(named[value["$ref"].rpartition("/")[2]], named)
    if isinstance(value, dict):
        kept = {n: _plain(inner, named) for n, inner in value.items() if n not in _UNASKED}
        if isinstance(kept.get("type"), str):
            kept["type"] = kept["type"].lower()
        if isinstance(kept.get("title"), str):
            del kept["title"]
        return kept
    if isinstance(value, list):
        return [_plain(inner, named) for inner in value]
    return int(value) if isinstance(value, float) and value.is_integer() else value


def _text(content: dict[str, Any]) -> str:
    return "".join(part.get("text", "") for part in content["parts"])


def answer(asked: Asked, said: Said) -> dict[str, Any]:
    """A response; a refusal is a prompt that was blocked."""
    blocked = said.kind == "refusal"
    visible = 0 if blocked else said.output_tokens - said.thinking_tokens
    response: dict[str, Any] = {
        "usageMetadata": {
            "promptTokenCount": said.input_tokens,
            "candidatesTokenCount": visible,
            "thoughtsTokenCount": 0 if blocked else said.thinking_tokens,
            "cachedContentTokenCount": said.cached_tokens,
            "totalTokenCount": said.input_tokens + (0 if blocked else said.output_tokens),
        },
        "modelVersion": asked.model,
        "responseId": said.id,
    }
    if blocked:
        return response | {"promptFeedback": {"blockReason": "PROHIBITED_CONTENT"}}
    parts = [] if said.kind == "filtered" else [{"text": said.text}]
    content = {"role": "model", "parts": parts}
    finish = _FINISH.get(said.kind, "STOP")
    return response | {"candidates": [{"content": content, "finishReason": finish, "index": 0}]}


def canonical(path: Mapping[str, str], body: dict[str, Any]) -> dict[str, Any]:
    """What a body asks, in one form: one schema, the model that the path names."""
    config = body.get("generationConfig") or {}
    asked = {**config, "responseJsonSchema": _schema(config)}
    asked.pop("responseSchema", None)
    system = {"parts": (body.get("systemInstruction") or {}).get("parts")}
    more = {"generationConfig": asked, "systemInstruction": system}
    return {**body, **more, "model": path["model"].removeprefix("models/")}


def read_from_cache(cached_tokens: int) -> int:
    """How many of the tokens that a cache is about were read from it."""
    return cached_tokens


def billed(said: Said) -> dict[str, int]:
    """What an answer costs, in inclusive totals; a blocked prompt has no output."""
    blocked = said.kind == "refusal"
    return {
        "input": said.input_tokens,
        "cached": said.cached_tokens,
        "cache_write": 0,
        "output": 0 if blocked else said.output_tokens,
        "thinking": 0 if blocked else said.thinking_tokens,
    }


def error(
    name: str, message: str, retry_after: float | None, _: str
) -> tuple[int, dict[str, Any], dict[str, str]]:
    """Status, body and headers of an error; the wish to wait is in the body."""
    status, kind = ERRORS[name]
    details: list[dict[str, Any]] = []
    if name == "wrong_key":
        message = "API key not valid. Please pass a valid API key."
        details.append({"@type": f"{_TYPE}ErrorInfo", "reason": "API_KEY_INVALID"})
    if name in _QUOTAS:
        quota, limit = _QUOTAS[name]
        message = _EXCEEDED.format(limit=limit)
        violation = {"quotaId": quota, "quotaValue": limit}
        details.append({"@type": f"{_TYPE}QuotaFailure", "violations": [violation]})
    if retry_after is not None:
        details.append({"@type": f"{_TYPE}RetryInfo", "retryDelay": f"{retry_after:g}s"})
    said = {"code": status, "message": message, "status": kind, "details": details}
    return status, {"error": said}, {}


def rate_headers(_: Rates) -> dict[str, str]:
    """Gemini tells nothing."""
    return {}
