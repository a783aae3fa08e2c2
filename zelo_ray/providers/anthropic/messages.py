"""Anthropic's Messages."""

from collections.abc import Mapping
from functools import cache
from typing import TYPE_CHECKING, Any

from pydantic import BaseModel

from zelo_ray.providers import Batches, BatchLimits, Provider, Settings
from zelo_ray.providers.headers import limit_in, server_delay
from zelo_ray.providers.outcome import Caller, Fault, Reading, attempt, resolved
from zelo_ray.providers.silence import CONNECT_SECONDS
from zelo_ray.records import Answer, Request, Status, Usage, verdict_schema

if TYPE_CHECKING:
    import anthropic

KEY_VARIABLES = ("ANTHROPIC_API_KEY",)
MODELS = ("claude-haiku-5-5",)  # November 2026: $0.10 in, $0.50 out a million tokens, the cheapest
CLOSED = False
OPTIONS: Mapping[str, Any] = {
    "max_output_tokens": 1024,
    "effort": None,  # there are no sampling parameters any more, not even temperature 0
}
TRANSPORT: Mapping[str, Any] = {"max_output_tokens": 1024}
CONCURRENCY = 128  # rates hold the pace; this only caps what is in flight
# What the smallest paying accounts have; every response then tells the account's own.
RATES: Mapping[str, float] = {"rpm": 50}
# A batch may have 256 MB. A fifth of that goes up in reasonable time, and is less to lose.
BATCH = BatchLimits(requests=100_000, bytes=50_000_000)
BASE_URL = "https://api.anthropic.com"

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
_PREFIX = "anthropic-ratelimit"
_LIMITS = {"rpm": "requests", "itpm": "input-tokens", "otpm": "output-tokens"}


def connect(settings: Settings) -> Provider:
    """A provider for Anthropic, or for a gateway at the base URL (which ends before ``/v1``)."""
    return _Anthropic(_resolved(settings))


def connect_batches(settings: Settings) -> Batches:
    """The batch API of Anthropic, or of a gateway at the base URL."""
    from zelo_ray.providers.anthropic.batches import AnthropicBatches  # noqa: PLC0415 - paid where it is used

    return AnthropicBatches(_resolved(settings))


def counted(usage: Usage) -> Mapping[str, float]:
    """Input and output are counted apart; what was read from a cache is not."""
    return {
        "itpm": max(0, usage.input_tokens - usage.cached_tokens),
        "otpm": usage.output_tokens,
        "tpm": usage.input_tokens + usage.output_tokens,
    }


def rates(headers: Mapping[str, str]) -> Mapping[str, float]:
    """The account's limits a minute, as far as a response's headers tell them."""
    told = {name: limit_in(headers, f"{_PREFIX}-{what}-limit") for name, what in _LIMITS.items()}
    if not (told["itpm"] or told["otpm"]):
        told["tpm"] = limit_in(headers, f"{_PREFIX}-tokens-limit")
    return {name: limit for name, limit in told.items() if limit}


def body(request: Request) -> dict[str, Any]:
    """The request as Messages take it, alone or as the params of a batch."""
    options = request.judge.options
    output: dict[str, Any] = {}
    if schema := _schema(request.verdict):
        output["format"] = {"type": "json_schema", "schema": schema}
    if options["effort"] is not None:
        output["effort"] = options["effort"]
    fields = {"output_config": output} if output else {}
    return {
        "model": request.judge.model,
        "max_tokens": request.output_limit,
        "system": request.system,
        "messages": [{"role": "user", "content": request.user}],
        **fields,
    }


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
    return Usage(
        input_tokens=counts["input_tokens"] + cached + written,
        output_tokens=counts["output_tokens"],
        cached_tokens=cached,
        cache_write_tokens=written,
        thinking_tokens=details.get("thinking_tokens") or 0,
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

    schema = verdict_schema(verdict)
    return anthropic.transform_schema(schema) if schema else None


class _Anthropic:
    def __init__(self, settings: Settings) -> None:
        import httpx2  # noqa: PLC0415 - paid where it is used

        self._settings, self._response = settings, httpx2.Response
        self._client = open_client(settings, settings.timeout)

    async def send(self, request: Request) -> Answer:
        texts = (request.system, request.user)
        caller = Caller(request.judge.name, self._settings, KEY_VARIABLES, fault, texts)
        return await attempt(self._post(body(request)), caller, READING, rates)

    async def aclose(self) -> None:
        await self._client.close()

    async def _post(self, fields: dict[str, Any]) -> tuple[str, Mapping[str, str]]:
        # The typed method walks every message by its annotations, for a third of a call's CPU.
        response = await self._client.post("/v1/messages", cast_to=self._response, body=fields)
        return response.text, response.headers


def _resolved(settings: Settings) -> Settings:
    return resolved(settings, "anthropic", KEY_VARIABLES, BASE_URL, "ANTHROPIC_BASE_URL")
