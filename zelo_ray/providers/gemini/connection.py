"""Gemini's client, and the form of its requests and responses, single or in a batch."""

import os
from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from zelo_ray.providers import Settings
from zelo_ray.providers.endings import classify_ending
from zelo_ray.providers.faults import Fault, read_fault
from zelo_ray.providers.headers import server_delay
from zelo_ray.providers.outcome import Reading, merge_fields
from zelo_ray.records import Answer, Request, Usage, nested_object, parse_count, response_schema

if TYPE_CHECKING:
    import aiohttp
    from google import genai

KEY_VARIABLES = ("GOOGLE_API_KEY", "GEMINI_API_KEY")  # the first that is set, as in the SDK
BASE_URL = "https://generativelanguage.googleapis.com/"
URL_VARIABLE = "GOOGLE_GEMINI_BASE_URL"
PROXIES = ("http_proxy", "https_proxy")
"""Environment variables of a proxy that aiohttp uses."""
_TOOL_CALL = "a function call and no text: leave tools out of extra_body"
_MODEL = "choose a model that accepts it"
FIELDS: Mapping[str, str] = {
    "maxOutputTokens": "set a smaller max_output_tokens in judge_options",
    "temperature": "leave temperature out of judge_options",
    "thinkingConfig": "leave thinking_level out of judge_options",
    "thinkingLevel": "set another thinking_level in judge_options, or leave it out",
    "responseMimeType": _MODEL,
    "responseSchema": _MODEL,
    "responseJsonSchema": _MODEL,
    "systemInstruction": _MODEL,
}
"""Fields that a model may not accept, each with advice."""


def generation_config(request: Request) -> dict[str, Any]:
    """Build the request's generation config as the API spells it, without the verdict's schema."""
    options = request.judge.options
    fields: dict[str, Any] = {"maxOutputTokens": request.output_limit}
    if response_schema(request.response_model):
        fields["responseMimeType"] = "application/json"
    if options["temperature"] is not None:
        fields["temperature"] = options["temperature"]
    if options["thinking_level"] is not None:
        fields["thinkingConfig"] = {"thinkingLevel": str(options["thinking_level"]).upper()}
    return fields


def build_body(request: Request, schema: Mapping[str, Any]) -> dict[str, Any]:
    """Build the body of a request as the API spells it; ``schema`` is the field of the verdict."""
    fields = {
        "contents": [{"role": "user", "parts": [{"text": request.user}]}],
        "systemInstruction": {"role": "user", "parts": [{"text": request.system}]},
        "generationConfig": {**generation_config(request), **schema},
    }
    return merge_fields(fields, request.judge.options["extra_body"])


def read_answer(response: Any) -> Answer | Fault:
    """Read the answer in a response's JSON; raise an error if it has another form."""
    usage, model = read_usage(response), response.get("modelVersion") or ""
    if not response.get("candidates"):
        blocked = response["promptFeedback"]["blockReason"]
        return Answer("filtered", "", usage, model, f"blockReason: {blocked}")
    candidate = response["candidates"][0]
    finish = candidate.get("finishReason")
    ending, why = classify_ending(finish), f"finishReason: {finish or 'none'}"
    parts = nested_object(candidate, "content").get("parts") or []
    text = "".join(part.get("text") or "" for part in parts if not part.get("thought"))
    if ending == "failed":
        return Fault(0, why)
    if ending == "ok" and not text.strip():
        if any("functionCall" in part for part in parts):
            return Answer("invalid", "", usage, model, f"{why}; {_TOOL_CALL}")
        return Fault(0, f"{why}, and no text", ends="refused")
    reason = "" if ending == "ok" else why
    return Answer(ending or "ok", text, usage, model, reason, has_unknown_ending=ending is None)


def read_usage(response: Any) -> Usage:
    """Read the usage in a response's JSON, zero if it gives none."""
    counts = nested_object(response, "usageMetadata")
    thoughts = parse_count(counts.get("thoughtsTokenCount"))
    return Usage(
        input_tokens=counts.get("promptTokenCount") or 0,
        output_tokens=parse_count(counts.get("candidatesTokenCount")) + thoughts,
        cached_tokens=counts.get("cachedContentTokenCount") or 0,
        thinking_tokens=thoughts,
        tier=str(counts.get("serviceTier") or ""),
    )


READING = Reading(read_answer, read_usage)


class Client:
    """The SDK's client with a session of ours: the SDK's own is of a class that aiohttp warns of.

    Args:
        settings: the base URL and the key.
        timeout: of one HTTP request, in seconds.
        place: project and location of Vertex AI; None for the Gemini API.
    """

    def __init__(
        self, settings: Settings, timeout: float, place: tuple[str, str] | None = None
    ) -> None:
        import aiohttp  # noqa: PLC0415 - paid where it is used
        from google import genai  # noqa: PLC0415 - a second of import, paid where it is used

        self._aiohttp, self._sdk = aiohttp, genai
        self._settings, self._timeout, self._place = settings, timeout, place
        self._session: aiohttp.ClientSession | None = None
        self._client: genai.Client | None = None
        usual = "v1beta1" if place else "v1"  # as in the SDK
        self.version = os.environ.get("GOOGLE_GENAI_API_VERSION") or usual

    @property
    def session(self) -> "aiohttp.ClientSession":
        """Return the session, opened in the event loop that runs at the first call."""
        if self._session is None:
            connector = self._aiohttp.TCPConnector(limit=0)
            timeout = self._aiohttp.ClientTimeout(total=self._timeout)
            trace = self._aiohttp.TraceConfig()
            trace.on_request_redirect.append(self._refuse_redirect)
            self._session = self._aiohttp.ClientSession(
                connector=connector, timeout=timeout, trust_env=True, trace_configs=[trace]
            )
        return self._session

    @property
    def client(self) -> "genai.Client":
        """Return the SDK's client, opened at the first call."""
        if self._client is None:
            options = self._sdk.types.HttpOptions(
                base_url=self._settings.base_url,
                api_version=self.version,
                timeout=int(self._timeout * 1000),
                retry_options=self._sdk.types.HttpRetryOptions(attempts=1),
                aiohttp_client=self.session,
            )
            if self._place:
                project, location = self._place
                self._client = self._sdk.Client(
                    vertexai=True, project=project, location=location, http_options=options
                )
            else:  # never Vertex AI and its credentials, whatever the environment says
                self._client = self._sdk.Client(
                    api_key=self._settings.key or "none", vertexai=False, http_options=options
                )
        return self._client

    async def _refuse_redirect(self, _session: object, _context: object, params: Any) -> None:
        """Raise an error in place of a redirect, with which aiohttp would send the key along."""
        response = params.response
        raise self._aiohttp.ClientResponseError(
            response.request_info, (), status=response.status, headers=response.headers
        )

    async def aclose(self) -> None:
        """Close the sockets."""
        if self._client is not None:
            await self._client.aio.aclose()
            self._client.close()
        if self._session is not None:
            await self._session.close()


def find_fault(error: Exception) -> Fault | None:
    """Turn the SDK's exception about a response's status into a `Fault`; None for others."""
    import aiohttp  # noqa: PLC0415 - paid where it is used
    from google.auth import exceptions  # noqa: PLC0415 - paid where it is used
    from google.genai import errors  # noqa: PLC0415 - paid where it is used

    if isinstance(error, aiohttp.ClientResponseError) and 300 <= error.status < 400:
        return read_fault(None, error.status, error.headers)
    if isinstance(error, exceptions.GoogleAuthError):  # of Vertex AI's credentials, with no status
        passes = error.retryable or isinstance(error, exceptions.TransportError)
        return Fault(503 if passes else 401, codes=(type(error).__name__,))
    if isinstance(error, errors.APIError):
        return add_codes(
            read_fault(error.details, error.code, error.response.headers), error.details
        )
    return None


def add_codes(fault: Fault, body: Any) -> Fault:
    """Add the codes that only Gemini's errors have, before the others.

    These are reasons and exceeded quotas, and ``zero_quota`` if waiting will not help.
    """
    error = nested_object(body, "error") or nested_object(body)
    details = [nested_object(detail) for detail in error.get("details") or ()]
    exceeded = [quota for detail in details for quota in detail.get("violations") or ()]
    never = any(str(quota.get("quotaValue")) == "0" for quota in exceeded)
    never = never or "limit: 0," in str(error.get("message"))
    wishes = [str(detail["retryDelay"]) for detail in details if "retryDelay" in detail]
    delay = server_delay({"retry-after": wishes[0].removesuffix("s")}) if wishes else fault.delay
    codes = (
        str(error.get("status") or ""),
        *(str(detail.get("reason") or "") for detail in details),
        *(str(quota.get("quotaId") or "") for quota in exceeded),
        *(["zero_quota"] if never else []),
    )
    return replace(fault, codes=(*codes, *fault.codes), delay=delay)
