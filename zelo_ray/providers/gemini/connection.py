"""Gemini's client, and what it sends and receives, alone or in a batch."""

import os
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from zelo_ray.providers import Settings
from zelo_ray.providers.headers import server_delay
from zelo_ray.providers.outcome import Fault, Reading
from zelo_ray.records import Answer, Request, Status, Usage, response_schema

if TYPE_CHECKING:
    import aiohttp
    from google import genai

KEY_VARIABLES = ("GOOGLE_API_KEY", "GEMINI_API_KEY")  # the first that is set, as in the SDK
BASE_URL = "https://generativelanguage.googleapis.com/"
URL_VARIABLE = "GOOGLE_GEMINI_BASE_URL"
_STATUS: Mapping[str, Status] = {
    "STOP": "ok",
    "MAX_TOKENS": "truncated",
    "CONTINUATION": "truncated",
}


def generation(request: Request) -> dict[str, Any]:
    """The request's generation config as the API spells it, but for the verdict's schema."""
    options = request.judge.options
    fields: dict[str, Any] = {"maxOutputTokens": request.output_limit}
    if response_schema(request.response_model):
        fields["responseMimeType"] = "application/json"
    if options["temperature"] is not None:
        fields["temperature"] = options["temperature"]
    if options["thinking_level"] is not None:
        fields["thinkingConfig"] = {"thinkingLevel": str(options["thinking_level"]).upper()}
    return fields


def read(response: Any) -> Answer:
    """The answer that a response's JSON holds; raises what it stumbles over."""
    usage, model = used(response), response.get("modelVersion") or ""
    if not response.get("candidates"):
        blocked = response["promptFeedback"]["blockReason"]
        return Answer("filtered", "", usage, model, f"blockReason: {blocked}")
    candidate = response["candidates"][0]
    finish = candidate["finishReason"]
    parts = (candidate.get("content") or {}).get("parts") or []
    text = "".join(part.get("text") or "" for part in parts if not part.get("thought"))
    status = _STATUS.get(finish, "filtered")
    return Answer(status, text, usage, model, "" if status == "ok" else f"finishReason: {finish}")


def used(response: Any) -> Usage:
    """What a response's JSON says that it used, nothing if it does not say."""
    counts = response.get("usageMetadata") or {}
    thoughts = counts.get("thoughtsTokenCount") or 0
    return Usage(
        input_tokens=counts.get("promptTokenCount") or 0,
        output_tokens=(counts.get("candidatesTokenCount") or 0) + thoughts,
        cached_tokens=counts.get("cachedContentTokenCount") or 0,
        thinking_tokens=thoughts,
        tier=str(counts.get("serviceTier") or ""),
    )


READING = Reading(read, used)


class Client:
    """The SDK's client with a session of ours: the SDK's own is of a class that aiohttp warns of.

    Args:
        settings: The base URL and the key.
        timeout: Seconds that one HTTP request may take.
    """

    def __init__(self, settings: Settings, timeout: float) -> None:
        import aiohttp  # noqa: PLC0415 - paid where it is used
        from google import genai  # noqa: PLC0415 - a second of import, paid where it is used

        self._aiohttp, self._sdk = aiohttp, genai
        self._settings, self._timeout = settings, timeout
        self._session: aiohttp.ClientSession | None = None
        self._client: genai.Client | None = None
        self.version = os.environ.get("GOOGLE_GENAI_API_VERSION") or "v1"

    @property
    def session(self) -> "aiohttp.ClientSession":
        """The session; it belongs to the loop that runs when it is first asked for."""
        if self._session is None:
            connector = self._aiohttp.TCPConnector(limit=0)
            timeout = self._aiohttp.ClientTimeout(total=self._timeout)
            self._session = self._aiohttp.ClientSession(
                connector=connector, timeout=timeout, trust_env=True
            )
        return self._session

    @property
    def client(self) -> "genai.Client":
        """The client."""
        if self._client is None:
            options = self._sdk.types.HttpOptions(
                base_url=self._settings.base_url,
                api_version=self.version,
                timeout=int(self._timeout * 1000),
                retry_options=self._sdk.types.HttpRetryOptions(attempts=1),
                aiohttp_client=self.session,
            )
            # Never Vertex AI and its credentials, whatever the environment says.
            self._client = self._sdk.Client(
                api_key=self._settings.key or "none", vertexai=False, http_options=options
            )
        return self._client

    async def aclose(self) -> None:
        """Let go of sockets."""
        if self._client is not None:
            await self._client.aio.aclose()
            self._client.close()
        if self._session is not None:
            await self._session.close()


def fault(error: Exception) -> Fault | None:
    """An exception of the SDK about a response's status, in no SDK's words."""
    from google.genai import errors  # noqa: PLC0415 - paid where it is used

    if isinstance(error, errors.APIError):
        details, message = _details(error.details), str(error.message or "")
        return Fault(
            status=error.code,
            message=message,
            codes=(error.status or "", *_codes(details, message)),
            delay=_delay(details, error.response.headers),
        )
    return None


def _details(said: Any) -> list[Any]:
    error = said.get("error") if isinstance(said, dict) else None
    details = error.get("details") if isinstance(error, dict) else None
    return [detail for detail in details or () if isinstance(detail, dict)]


def error_codes(said: Any) -> tuple[str, ...]:
    """The machine-readable words of an ``error`` object."""
    details, message = _details({"error": said}), str(said.get("message") or "")
    return (str(said.get("status") or ""), *_codes(details, message))


def _codes(details: list[Any], message: str) -> list[str]:
    """Reasons and exceeded quotas; ``zero_quota`` where waiting will not help."""
    exceeded = [quota for detail in details for quota in detail.get("violations") or ()]
    never = any(str(quota.get("quotaValue")) == "0" for quota in exceeded) or "limit: 0," in message
    return [
        *(detail.get("reason") or "" for detail in details),
        *(quota.get("quotaId") or "" for quota in exceeded),
        *(["zero_quota"] if never else []),
    ]


def _delay(details: list[Any], headers: Mapping[str, str]) -> float | None:
    """The body's ``retryDelay``, such as ``39s`` or ``1.5s``, else the header's."""
    wishes = [str(detail["retryDelay"]) for detail in details if "retryDelay" in detail]
    return server_delay({"retry-after": wishes[0].removesuffix("s")} if wishes else headers)
