"""OpenAI's client, and what it sends and receives, alone or in a batch."""

from collections.abc import Mapping
from hashlib import sha256
from typing import TYPE_CHECKING, Any

from zelo_ray.providers import Settings
from zelo_ray.providers.headers import server_delay
from zelo_ray.providers.outcome import Fault, Reading, merged
from zelo_ray.providers.silence import CONNECT_SECONDS
from zelo_ray.records import Answer, Request, Status, Usage, response_schema

if TYPE_CHECKING:
    import openai

KEY_VARIABLES = ("OPENAI_API_KEY",)
BASE_URL = "https://api.openai.com/v1"
URL_VARIABLE = "OPENAI_BASE_URL"
_NO_ANSWER = (
    "thoughts and no content: raise max_output_tokens, turn thinking off, or mend the server's "
    "reasoning parser"
)
_STATUS: Mapping[str, Status] = {"length": "truncated", "content_filter": "filtered"}


def body(request: Request) -> dict[str, Any]:
    """The request as Chat Completions take it, alone or as a line of a batch."""
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
        named = {"name": request.response_model.__name__, "strict": True, "schema": schema}
        fields["response_format"] = {"type": "json_schema", "json_schema": named}
    elif schema and options["response_format"] == "json_object":
        fields["response_format"] = {"type": "json_object"}
    for name in ("temperature", "reasoning_effort"):
        if options[name] is not None:
            fields[name] = options[name]
    if request.starts:  # what begins alike is to come to the machine that has it in its cache
        begin = f"{request.judge.model}\0{request.user[: request.starts[-1]]}"
        fields["prompt_cache_key"] = sha256(begin.encode(errors="replace")).hexdigest()[:32]
    return merged(fields, options["extra_body"])


def read(completion: Any) -> Answer:
    """The answer that a completion's JSON holds; raises what it stumbles over."""
    choice, usage = completion["choices"][0], used(completion)
    message, finish = choice["message"], choice.get("finish_reason") or "stop"
    text, model = _text(message.get("content")), completion.get("model") or ""
    if refusal := message.get("refusal"):
        return Answer("refused", text, usage, model, f"refusal: {refusal[:200]}")
    status = _STATUS.get(finish, "ok")
    why = [] if status == "ok" else [f"finish_reason: {finish}"]
    if not text.strip() and (message.get("reasoning_content") or message.get("reasoning")):
        status = "invalid" if status == "ok" else status
        why.append(_NO_ANSWER)
    return Answer(status, text, usage, model, "; ".join(why))


def _text(content: Any) -> str:
    """What a message says: text, or parts, of which some are thoughts."""
    if isinstance(content, list):
        content = "".join(part.get("text") for part in content if part.get("type") == "text")
    if not isinstance(content or "", str):
        raise TypeError("content must be text")
    return content or ""


def used(completion: Any) -> Usage:
    """What a completion's JSON says that it used, nothing if it does not say."""
    counts = completion.get("usage") or {}
    taken = counts.get("prompt_tokens_details") or {}
    given = counts.get("completion_tokens_details") or {}
    return Usage(
        input_tokens=counts.get("prompt_tokens") or 0,
        output_tokens=counts.get("completion_tokens") or 0,
        cached_tokens=taken.get("cached_tokens") or 0,
        cache_write_tokens=taken.get("cache_write_tokens") or 0,
        thinking_tokens=given.get("reasoning_tokens") or 0,
        tier=str(completion.get("service_tier") or ""),
    )


READING = Reading(read, used)


def open_client(settings: Settings, timeout: float) -> "openai.AsyncOpenAI":
    """The SDK's client, which retries nothing itself. ``timeout``: seconds without any byte."""
    import httpx2  # noqa: PLC0415 - paid where it is used
    import openai  # noqa: PLC0415 - a second of import, paid where it is used

    return openai.AsyncOpenAI(
        api_key=settings.key or "none",  # never empty: the SDK would look for another
        base_url=settings.base_url,
        timeout=httpx2.Timeout(timeout, connect=CONNECT_SECONDS),
        max_retries=0,
        http_client=openai.DefaultAioHttpClient(),
    )


def fault(error: Exception) -> Fault | None:
    """An exception of the SDK about a response's status, in no SDK's words."""
    import openai  # noqa: PLC0415 - paid where it is used

    if isinstance(error, openai.APIStatusError):
        said = error.body.get("message") if isinstance(error.body, dict) else error.body
        return Fault(
            status=error.status_code,
            message=str(said or ""),
            codes=(error.code or "", error.type or ""),
            delay=server_delay(error.response.headers),
        )
    return None
