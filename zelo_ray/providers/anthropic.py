"""Anthropic's Messages."""

from collections.abc import Mapping
from functools import cache
from typing import Any

from pydantic import BaseModel

from zelo_ray.providers import Provider, Settings
from zelo_ray.providers.outcome import Fault, attempt, resolved, server_delay
from zelo_ray.records import Answer, Request, Status, Usage, verdict_schema

KEY_VARIABLES = ("ANTHROPIC_API_KEY",)
MODELS = ("claude-haiku-5-5",)  # November 2026: $0.10 in, $0.50 out a million tokens, the cheapest
CLOSED = False
OPTIONS: Mapping[str, Any] = {
    "max_output_tokens": 1024,
    "effort": None,  # there are no sampling parameters any more, not even temperature 0
}
CONCURRENCY = 16
BASE_URL = "https://api.anthropic.com"

_STATUS: Mapping[str, Status] = {
    "refusal": "refused",
    "max_tokens": "truncated",
    "model_context_window_exceeded": "truncated",
    "pause_turn": "truncated",
}
# Two failures that have a message but no code of their own.
_UNCODED = {
    "credit balance is too low": "billing",
    "content filtering policy": "content_filter",
}


def connect(settings: Settings) -> Provider:
    """A provider for Anthropic, or for a gateway at the base URL (which ends before ``/v1``)."""
    return _Anthropic(
        resolved(settings, "anthropic", KEY_VARIABLES, BASE_URL, "ANTHROPIC_BASE_URL")
    )


def body(request: Request) -> dict[str, Any]:
    """The request as Messages take it, alone or as the params of a batch."""
    options = request.judge.options
    output: dict[str, Any] = {
        "format": {"type": "json_schema", "schema": _schema(request.verdict)},
    }
    if options["effort"] is not None:
        output["effort"] = options["effort"]
    return {
        "model": request.judge.model,
        "max_tokens": options["max_output_tokens"],
        "system": request.system,
        "messages": [{"role": "user", "content": request.user}],
        "output_config": output,
    }


def read(message: Any) -> Answer:
    """The answer that a message's JSON holds; raises what it stumbles over."""
    counts, stop = message["usage"], message["stop_reason"]
    details = counts.get("output_tokens_details") or {}
    cached = counts.get("cache_read_input_tokens") or 0
    written = counts.get("cache_creation_input_tokens") or 0
    usage = Usage(
        input_tokens=counts["input_tokens"] + cached + written,
        output_tokens=counts["output_tokens"],
        cached_tokens=cached,
        cache_write_tokens=written,
        thinking_tokens=details.get("thinking_tokens") or 0,
    )
    text = "".join(block["text"] for block in message["content"] if block["type"] == "text")
    status = _STATUS.get(stop, "ok")
    category = (message.get("stop_details") or {}).get("category")
    reason = f"stop_reason: {stop}" + (f", {category}" if category else "")
    return Answer(status, text, usage, message["model"], "" if status == "ok" else reason)


@cache
def _schema(verdict: type[BaseModel]) -> dict[str, Any]:
    """The part of the verdict's schema that Anthropic enforces; ranges become descriptions."""
    import anthropic  # noqa: PLC0415 - two seconds of import, paid where it is used

    return anthropic.transform_schema(verdict_schema(verdict))


class _Anthropic:
    def __init__(self, settings: Settings) -> None:
        import anthropic  # noqa: PLC0415
        import httpx2  # noqa: PLC0415

        self._sdk, self._settings, self._response = anthropic, settings, httpx2.Response
        self._client = anthropic.AsyncAnthropic(
            api_key=settings.key or "none",  # never None: the SDK would look for other credentials
            base_url=settings.base_url,
            timeout=settings.timeout,
            max_retries=0,
            http_client=anthropic.DefaultAioHttpClient(),
        )

    async def send(self, request: Request) -> Answer:
        call = self._post(body(request))
        return await attempt(
            call, request, self._settings, KEY_VARIABLES, read=read, fault=self._fault
        )

    async def aclose(self) -> None:
        await self._client.close()

    async def _post(self, fields: dict[str, Any]) -> str:
        # The typed method walks every message by its annotations, for a third of a call's CPU.
        response = await self._client.post("/v1/messages", cast_to=self._response, body=fields)
        return str(response.text)

    def _fault(self, error: Exception) -> Fault | None:
        if isinstance(error, self._sdk.APIStatusError):
            said = error.body.get("error") if isinstance(error.body, dict) else error.body
            message = str((said.get("message") if isinstance(said, dict) else said) or "")
            uncoded = [code for words, code in _UNCODED.items() if words in message]
            return Fault(
                status=error.status_code,
                message=message,
                codes=(error.type or "", error.error_code or "", *uncoded),
                delay=server_delay(error.response.headers),
            )
        if isinstance(error, self._sdk.APIConnectionError):
            return Fault(0, codes=(type(error.__cause__ or error).__name__,))
        return None
