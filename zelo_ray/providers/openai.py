"""OpenAI, and every server that speaks its Chat Completions: vLLM, SGLang, llama.cpp, gateways."""

from collections.abc import Mapping
from typing import Any

from zelo_ray.providers import Provider, Settings
from zelo_ray.providers.outcome import Fault, attempt, resolved, server_delay
from zelo_ray.records import Answer, Request, Status, Usage, verdict_schema

KEY_VARIABLES = ("OPENAI_API_KEY",)
MODELS = (
    "gpt-6-luna",
)  # November 2026: $0.10 in, $0.50 out a million tokens, the cheapest of GPT-6
CLOSED = False
OPTIONS: Mapping[str, Any] = {
    "max_output_tokens": 2048,  # hidden reasoning counts against it
    "temperature": None,  # GPT-6 takes one only with reasoning_effort "none"
    "reasoning_effort": None,
    "response_format": "json_schema",  # compatible servers: or "json_object", or "none"
    "token_limit_field": "max_completion_tokens",  # older compatible servers: "max_tokens"
    "extra_body": {},  # more fields of the request, for compatible servers
}
CONCURRENCY = 32
BASE_URL = "https://api.openai.com/v1"

_STATUS: Mapping[str, Status] = {"length": "truncated", "content_filter": "filtered"}


def connect(settings: Settings) -> Provider:
    """A provider for OpenAI, or for a compatible server at the base URL, where any key may do."""
    return _OpenAI(resolved(settings, "openai", KEY_VARIABLES, BASE_URL, "OPENAI_BASE_URL"))


def body(request: Request) -> dict[str, Any]:
    """The request as Chat Completions take it, alone or as a line of a batch."""
    options = request.judge.options
    fields: dict[str, Any] = {
        "model": request.judge.model,
        "messages": [
            {"role": "system", "content": request.system},
            {"role": "user", "content": request.user},
        ],
        options["token_limit_field"]: options["max_output_tokens"],
    }
    if options["response_format"] == "json_schema":
        schema = verdict_schema(request.verdict)
        named = {"name": request.verdict.__name__, "strict": True, "schema": schema}
        fields["response_format"] = {"type": "json_schema", "json_schema": named}
    elif options["response_format"] == "json_object":
        fields["response_format"] = {"type": "json_object"}
    for name in ("temperature", "reasoning_effort"):
        if options[name] is not None:
            fields[name] = options[name]
    return {**fields, **options["extra_body"]}


def read(completion: Any) -> Answer:
    """The answer that a completion's JSON holds; raises what it stumbles over."""
    choice = completion["choices"][0]
    message, finish = choice["message"], choice.get("finish_reason") or "stop"
    counts = completion.get("usage") or {}
    taken = counts.get("prompt_tokens_details") or {}
    given = counts.get("completion_tokens_details") or {}
    usage = Usage(
        input_tokens=counts.get("prompt_tokens") or 0,
        output_tokens=counts.get("completion_tokens") or 0,
        cached_tokens=taken.get("cached_tokens") or 0,
        cache_write_tokens=taken.get("cache_write_tokens") or 0,
        thinking_tokens=given.get("reasoning_tokens") or 0,
    )
    text, model = message.get("content") or "", completion.get("model") or ""
    if not isinstance(text, str):
        raise TypeError("content must be text")
    if refusal := message.get("refusal"):
        return Answer("refused", text, usage, model, f"refusal: {refusal[:200]}")
    status = _STATUS.get(finish, "ok")
    return Answer(status, text, usage, model, "" if status == "ok" else f"finish_reason: {finish}")


class _OpenAI:
    def __init__(self, settings: Settings) -> None:
        import httpx2  # noqa: PLC0415 - a second of import, paid where it is used
        import openai  # noqa: PLC0415

        self._sdk, self._settings, self._response = openai, settings, httpx2.Response
        self._client = openai.AsyncOpenAI(
            api_key=settings.key or "none",  # never empty: the SDK would look for another
            base_url=settings.base_url,
            timeout=settings.timeout,
            max_retries=0,
            http_client=openai.DefaultAioHttpClient(),
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
        response = await self._client.post("/chat/completions", cast_to=self._response, body=fields)
        return str(response.text)

    def _fault(self, error: Exception) -> Fault | None:
        if isinstance(error, self._sdk.APIStatusError):
            said = error.body.get("message") if isinstance(error.body, dict) else error.body
            return Fault(
                status=error.status_code,
                message=str(said or ""),
                codes=(error.code or "", error.type or ""),
                delay=server_delay(error.response.headers),
            )
        if isinstance(error, self._sdk.APIConnectionError):
            return Fault(0, codes=(type(error.__cause__ or error).__name__,))
        return None
