"""Anthropic's Messages."""

from collections.abc import Mapping
from typing import Any

from zelo_ray.providers import BatchLimits, Provider, Settings
from zelo_ray.providers.anthropic.batches import AnthropicBatches
from zelo_ray.providers.anthropic.connection import (
    BASE_URL,
    FIELDS,
    KEY_VARIABLES,
    READING,
    URL_VARIABLE,
    build_body,
    find_fault,
    open_client,
)
from zelo_ray.providers.headers import limit_in
from zelo_ray.providers.outcome import Caller, advise_fields, attempt_call, resolve_settings
from zelo_ray.records import Answer, Request, Usage

_PREFIX = "anthropic-ratelimit"
_LIMITS = {"rpm": "requests", "itpm": "input-tokens", "otpm": "output-tokens"}


def _limit_tokens(usage: Usage) -> Mapping[str, float]:
    """Count input and output apart, and leave out what was read from a cache."""
    return {
        "itpm": max(0, usage.input_tokens - usage.cached_tokens),
        "otpm": usage.output_tokens,
        "tpm": usage.input_tokens + usage.output_tokens,
    }


def _least_cached_tokens(model: str) -> int:
    """Return the highest minimum documented for any Sonnet (4.6), or any other model (Haiku 4.5).

    Some models also cache shorter beginnings; no request is sent ahead to warm them.
    """
    return 2048 if "sonnet" in model else 4096


def rates(headers: Mapping[str, str]) -> Mapping[str, float]:
    """Return the account's limits a minute, as far as a response's headers give them."""
    limits = {name: limit_in(headers, f"{_PREFIX}-{what}-limit") for name, what in _LIMITS.items()}
    if not (limits["itpm"] or limits["otpm"]):
        limits["tpm"] = limit_in(headers, f"{_PREFIX}-tokens-limit")
    return {name: limit for name, limit in limits.items() if limit}


class _Anthropic:
    def __init__(self, settings: Settings) -> None:
        import httpx2  # noqa: PLC0415 - paid where it is used

        self._settings, self._response = settings, httpx2.Response
        self._client = open_client(settings, settings.timeout)

    async def send(self, request: Request) -> Answer:
        sent = build_body(request)
        caller = Caller(
            *(request.judge.name, self._settings, KEY_VARIABLES, find_fault),
            prompts=(request.system, request.user),
            fields=advise_fields(sent, FIELDS),
        )
        return await attempt_call(self._post(sent), caller, READING, rates)

    async def aclose(self) -> None:
        await self._client.close()

    async def _post(self, fields: dict[str, Any]) -> tuple[str, Mapping[str, str]]:
        # The typed method walks every message by its annotations, for a third of a call's CPU.
        response = await self._client.post("/v1/messages", cast_to=self._response, body=fields)
        return response.text, response.headers


def _resolved(settings: Settings) -> Settings:
    return resolve_settings(settings, "anthropic", KEY_VARIABLES, BASE_URL, URL_VARIABLE)


PROVIDER = Provider(
    build_body=build_body,
    connect=lambda settings: _Anthropic(_resolved(settings)),
    models=("claude-haiku-5-5",),  # November 2026, a million tokens: $0.10 in, $0.50 out
    key_variables=KEY_VARIABLES,
    url_variable=URL_VARIABLE,
    options={
        "max_output_tokens": 1024,
        "effort": None,  # there are no sampling parameters any more, not even temperature 0
        "extra_body": {},  # more fields of the request: thinking, service_tier ...
    },
    transport={"max_output_tokens": 1024},
    concurrency=128,  # the pace follows from rates; this only caps calls in flight
    # The limit of the smallest paying accounts; every response then reports the account's own.
    rates={"rpm": 50},
    limit_tokens=_limit_tokens,
    least_cached_tokens=_least_cached_tokens,
    # A batch may have 256 MB. A fifth of that uploads in reasonable time and risks less.
    batch=BatchLimits(requests=100_000, bytes=50_000_000),
    connect_batches=lambda settings: AnthropicBatches(_resolved(settings)),
)
"""Anthropic, or a gateway at the base URL, which ends before ``/v1``."""
