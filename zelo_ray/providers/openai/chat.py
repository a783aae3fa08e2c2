"""OpenAI, and every server that speaks its Chat Completions: vLLM, SGLang, llama.cpp, gateways."""

import os
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from zelo_ray.providers import BatchLimits, Provider, Settings
from zelo_ray.providers.headers import duration, limit_in
from zelo_ray.providers.openai.batches import OpenAIBatches
from zelo_ray.providers.openai.connection import (
    BASE_URL,
    FIELDS,
    KEY_VARIABLES,
    URL_VARIABLE,
    build_body,
    find_fault,
    open_client,
    reading_of,
)
from zelo_ray.providers.outcome import Caller, advise_fields, attempt_call, resolve_settings
from zelo_ray.records import Answer, Request

if TYPE_CHECKING:
    import openai

OPTIONS: Mapping[str, Any] = {
    "max_output_tokens": 2048,  # hidden reasoning counts against it
    "temperature": None,  # GPT-6 takes one only with reasoning_effort "none"
    "reasoning_effort": None,
    "response_format": "json_schema",  # compatible servers: or "json_object", or "none"
    "token_limit_field": "max_completion_tokens",  # older compatible servers: "max_tokens"
    "extra_body": {},  # more fields of the request, for compatible servers
}
"""The options of judges, with their defaults."""
TRANSPORT = {name: OPTIONS[name] for name in ("max_output_tokens", "token_limit_field")}
"""The options that do not change the content of an answer."""
_LONGEST_MINUTE = 300.0  # seconds; a longer window is not a limit per minute


def rates(headers: Mapping[str, str]) -> Mapping[str, float]:
    """Return the account's limits a minute, as far as a response's headers give them.

    Small accounts have a limit of requests a *day* in the same header; it is left out.
    """
    limits = {
        "rpm": _requests_a_minute(headers),
        "tpm": limit_in(headers, "x-ratelimit-limit-tokens"),
    }
    return {name: limit for name, limit in limits.items() if limit}


def _requests_a_minute(headers: Mapping[str, str]) -> float | None:
    """Return the limit of requests, if its reset time fits a limit per minute."""
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


class ChatCompletions:
    """A connection that asks by Chat Completions, one call at a time.

    Args:
        settings: the key and the base URL, for errors, and the timeout.
        client: the SDK's client for them.
        variables: the environment variables that may hold the key.
    """

    def __init__(
        self, settings: Settings, client: "openai.AsyncOpenAI", variables: Sequence[str]
    ) -> None:
        import httpx2  # noqa: PLC0415 - paid where it is used

        self._settings, self._response = settings, httpx2.Response
        self._client, self._variables = client, variables

    async def send(self, request: Request) -> Answer:
        """Ask a judge."""
        sent = build_body(request, cached=self._settings.base_url == BASE_URL)
        caller = Caller(
            *(request.judge.name, self._settings, self._variables, find_fault),
            prompts=(request.system, request.user),
            fields=advise_fields(sent, FIELDS),
        )
        return await attempt_call(self._post(sent), caller, reading_of(request), rates)

    async def aclose(self) -> None:
        """Close the sockets."""
        await self._client.close()

    async def _post(self, fields: dict[str, Any]) -> tuple[str, Mapping[str, str]]:
        # The typed method walks every message by its annotations, for a third of a call's CPU.
        response = await self._client.post("/chat/completions", cast_to=self._response, body=fields)
        return response.text, response.headers


def _connect(settings: Settings) -> ChatCompletions:
    settings = _resolved(settings)
    return ChatCompletions(settings, open_client(settings, settings.timeout), KEY_VARIABLES)


def _resolved(settings: Settings) -> Settings:
    return resolve_settings(settings, "openai", KEY_VARIABLES, BASE_URL, URL_VARIABLE)


def _body_as_sent(request: Request) -> dict[str, Any]:
    """Build the body that goes to the server which the judge or the environment names."""
    key = os.environ.get(KEY_VARIABLES[0]) or "none"  # it tells which file's URL counts
    url = _resolved(Settings(key, request.judge.base_url)).base_url
    return build_body(request, cached=url == BASE_URL)


PROVIDER = Provider(
    build_body=_body_as_sent,
    connect=_connect,
    models=("gpt-6-luna",),  # November 2026, a million tokens: $0.10 in, $0.50 out, the cheapest
    key_variables=KEY_VARIABLES,
    url_variable=URL_VARIABLE,
    options=OPTIONS,
    transport=TRANSPORT,
    concurrency=256,  # the pace follows from rates; this only caps calls in flight
    # The limit of the smallest paying accounts; every response then reports the account's own.
    rates={"rpm": 500},
    least_cached_tokens=lambda _: 1024,
    gives_probabilities=True,
    # A batch may have 200 MB. A quarter of that uploads in reasonable time and risks less.
    batch=BatchLimits(requests=50_000, bytes=50_000_000),
    connect_batches=lambda settings: OpenAIBatches(_resolved(settings)),
)
"""OpenAI, or a compatible server at the base URL, where any key may do."""
