"""OpenAI, and every server that speaks its Chat Completions: vLLM, SGLang, llama.cpp, gateways."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from zelo_ray.providers import Batches, BatchLimits, Provider, Settings
from zelo_ray.providers.headers import duration, limit_in, server_delay
from zelo_ray.providers.outcome import Caller, Fault, Reading, attempt, resolved
from zelo_ray.providers.silence import CONNECT_SECONDS
from zelo_ray.records import Answer, Request, Status, Usage, verdict_schema

if TYPE_CHECKING:
    import openai

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
TRANSPORT: Mapping[str, Any] = {
    "max_output_tokens": 2048,
    "token_limit_field": "max_completion_tokens",
}
CONCURRENCY = 256  # rates hold the pace; this only caps what is in flight
# What the smallest paying accounts have; every response then tells the account's own.
RATES: Mapping[str, float] = {"rpm": 500}
# A batch may have 200 MB. A quarter of that goes up in reasonable time, and is less to lose.
BATCH = BatchLimits(requests=50_000, bytes=50_000_000)
BASE_URL = "https://api.openai.com/v1"

_STATUS: Mapping[str, Status] = {"length": "truncated", "content_filter": "filtered"}
_LONGEST_MINUTE = 300.0  # seconds: a window that is longer is none of a minute


def connect(settings: Settings) -> Provider:
    """A provider for OpenAI, or for a compatible server at the base URL, where any key may do."""
    return _OpenAI(_resolved(settings))


def connect_batches(settings: Settings) -> Batches:
    """The batch API of OpenAI, or of a gateway at the base URL."""
    from zelo_ray.providers.openai.batches import OpenAIBatches  # noqa: PLC0415 - paid where it is used

    return OpenAIBatches(_resolved(settings))


def counted(usage: Usage) -> Mapping[str, float]:
    """Tokens a minute are of input and output together."""
    return {"tpm": usage.input_tokens + usage.output_tokens}


def rates(headers: Mapping[str, str]) -> Mapping[str, float]:
    """The account's limits a minute, as far as a response's headers tell them.

    Small accounts have a limit of requests a *day* in the same header; it is left out.
    """
    told = {
        "rpm": _requests_a_minute(headers),
        "tpm": limit_in(headers, "x-ratelimit-limit-tokens"),
    }
    return {name: limit for name, limit in told.items() if limit}


def _requests_a_minute(headers: Mapping[str, str]) -> float | None:
    """The limit of requests, if what the headers say of its reset fits a minute."""
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
    schema = verdict_schema(request.verdict)
    if schema and options["response_format"] == "json_schema":
        named = {"name": request.verdict.__name__, "strict": True, "schema": schema}
        fields["response_format"] = {"type": "json_schema", "json_schema": named}
    elif schema and options["response_format"] == "json_object":
        fields["response_format"] = {"type": "json_object"}
    for name in ("temperature", "reasoning_effort"):
        if options[name] is not None:
            fields[name] = options[name]
    return {**fields, **options["extra_body"]}


def read(completion: Any) -> Answer:
    """The answer that a completion's JSON holds; raises what it stumbles over."""
    choice, usage = completion["choices"][0], used(completion)
    message, finish = choice["message"], choice.get("finish_reason") or "stop"
    text, model = message.get("content") or "", completion.get("model") or ""
    if not isinstance(text, str):
        raise TypeError("content must be text")
    if refusal := message.get("refusal"):
        return Answer("refused", text, usage, model, f"refusal: {refusal[:200]}")
    status = _STATUS.get(finish, "ok")
    return Answer(status, text, usage, model, "" if status == "ok" else f"finish_reason: {finish}")


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


class _OpenAI:
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
        response = await self._client.post("/chat/completions", cast_to=self._response, body=fields)
        return response.text, response.headers


def _resolved(settings: Settings) -> Settings:
    return resolved(settings, "openai", KEY_VARIABLES, BASE_URL, "OPENAI_BASE_URL")
