"""Google's Gemini, through the Gemini Developer API; Vertex AI is another provider."""

from collections.abc import Mapping, Sequence
from typing import Any

from zelo_ray.providers import BatchLimits, Provider, Settings
from zelo_ray.providers.gemini.batches import GeminiBatches
from zelo_ray.providers.gemini.connection import (
    BASE_URL,
    FIELDS,
    KEY_VARIABLES,
    PROXIES,
    READING,
    URL_VARIABLE,
    Client,
    build_body,
    find_fault,
    generation_config,
)
from zelo_ray.providers.outcome import Caller, advise_fields, attempt_call, resolve_settings
from zelo_ray.records import Answer, Request, response_schema


class GenerateContent:
    """A connection that asks by ``generateContent``, one call at a time.

    Args:
        settings: the key and the base URL, for errors, and the timeout.
        client: the client for them.
        variables: the environment variables that may hold the key.
    """

    def __init__(self, settings: Settings, client: Client, variables: Sequence[str]) -> None:
        from google.genai import types  # noqa: PLC0415 - paid where it is used

        self._types, self._settings = types, settings
        self._connection, self._variables = client, variables

    async def send(self, request: Request) -> Answer:
        """Ask a judge."""
        caller = Caller(
            *(request.judge.name, self._settings, self._variables, find_fault),
            prompts=(request.system, request.user),
            fields={**advise_fields(request.judge.options["extra_body"], FIELDS), **FIELDS},
            proxies=PROXIES,
        )
        return await attempt_call(self._post(request), caller, READING)

    async def aclose(self) -> None:
        """Close the sockets."""
        await self._connection.aclose()

    def _options(self, request: Request) -> Any:
        """Return the SDK's options with the user's additional fields; None if there are none."""
        more = request.judge.options["extra_body"]
        return self._types.HttpOptions(extra_body=dict(more)) if more else None

    async def _post(self, request: Request) -> tuple[str, Mapping[str, str]]:
        fields: dict[str, Any] = {
            **generation_config(request),
            **_schema(request),
            "systemInstruction": request.system,
        }
        response = await self._connection.client.aio.models.generate_content(
            model=request.judge.model,
            contents=request.user,
            config=self._types.GenerateContentConfig(
                **fields,
                automatic_continuation=False,  # one call is one request
                http_options=self._options(request),
                should_return_http_response=True,
            ),
        )
        raw = response.sdk_http_response
        return (raw.body if raw else None) or "", {}  # no header reports limits


def _schema(request: Request) -> dict[str, Any]:
    schema = response_schema(request.response_model)
    return {"responseJsonSchema": schema} if schema else {}


def _connect(settings: Settings) -> GenerateContent:
    settings = _resolved(settings)
    return GenerateContent(settings, Client(settings, settings.timeout), KEY_VARIABLES)


def _body(request: Request) -> dict[str, Any]:
    return build_body(request, _schema(request))


def _resolved(settings: Settings) -> Settings:
    return resolve_settings(settings, "gemini", KEY_VARIABLES, BASE_URL, URL_VARIABLE)


PROVIDER = Provider(
    build_body=_body,
    connect=_connect,
    # November 2026, a million tokens: $0.25 in, $1.50 out, and still in January, when 3.8-flash
    # goes from $0.75 and $3.75 to twice that; 3.5-flash-lite, $0.30 and $2.50, lies between.
    models=("gemini-3.1-flash-lite",),
    key_variables=KEY_VARIABLES,
    url_variable=URL_VARIABLE,
    options={
        "max_output_tokens": 2048,  # thinking counts against it
        "temperature": None,
        "thinking_level": None,
        "extra_body": {},  # more fields: {generationConfig: {seed: 1}, safetySettings: [...]}
    },
    transport={"max_output_tokens": 2048},
    concurrency=128,  # the pace follows from rates; this only caps calls in flight
    # The limit of projects that pay little. No header reports a project's own limit, so this holds
    # until the user gives another or 429s arrive.
    rates={"rpm": 300},
    limit_tokens=lambda usage: {"tpm": usage.input_tokens},
    least_cached_tokens=lambda model: (
        2048 if "2.5" in model else 4096
    ),  # its documentation, October 2026
    # A file may have 2 GB, and no number of requests is documented. This much uploads in reasonable
    # time and risks less: a batch that expires has no results at all.
    batch=BatchLimits(requests=50_000, bytes=50_000_000),
    connect_batches=lambda settings: GeminiBatches(_resolved(settings)),
)
"""Gemini, or a gateway at the base URL, which ends before the version."""
