"""Google's Gemini, through the Gemini Developer API (not Vertex AI)."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from zelo_ray.providers import Provider, Settings
from zelo_ray.providers.outcome import Fault, attempt, resolved, server_delay
from zelo_ray.records import Answer, Request, Status, Usage, verdict_schema

if TYPE_CHECKING:
    from google import genai

KEY_VARIABLES = ("GOOGLE_API_KEY", "GEMINI_API_KEY")  # the first that is set, as in the SDK
# November 2026, a million tokens: $0.25 in, $1.50 out, and still in January, when 3.8-flash goes
# from $0.75 and $3.75 to twice that; 3.5-flash-lite, $0.30 and $2.50, lies between.
MODELS = ("gemini-3.1-flash-lite",)
CLOSED = False
OPTIONS: Mapping[str, Any] = {
    "max_output_tokens": 2048,  # thinking counts against it
    "temperature": None,
    "thinking_level": None,
}
CONCURRENCY = 16
BASE_URL = "https://generativelanguage.googleapis.com/"

_STATUS: Mapping[str, Status] = {
    "STOP": "ok",
    "MAX_TOKENS": "truncated",
    "CONTINUATION": "truncated",
}


def connect(settings: Settings) -> Provider:
    """A provider for Gemini, or for a gateway at the base URL (which ends before the version)."""
    return _Gemini(resolved(settings, "gemini", KEY_VARIABLES, BASE_URL, "GOOGLE_GEMINI_BASE_URL"))


def config(request: Request) -> dict[str, Any]:
    """The request's config as the SDK takes it."""
    options = request.judge.options
    fields: dict[str, Any] = {
        "system_instruction": request.system,
        "max_output_tokens": options["max_output_tokens"],
        "response_mime_type": "application/json",
        "response_json_schema": verdict_schema(request.verdict),
    }
    if options["temperature"] is not None:
        fields["temperature"] = options["temperature"]
    if options["thinking_level"] is not None:
        fields["thinking_config"] = {"thinking_level": options["thinking_level"]}
    return fields


def read(response: Any) -> Answer:
    """The answer that a response's JSON holds; raises what it stumbles over."""
    counts = response.get("usageMetadata") or {}
    thoughts = counts.get("thoughtsTokenCount") or 0
    usage = Usage(
        input_tokens=counts.get("promptTokenCount") or 0,
        output_tokens=(counts.get("candidatesTokenCount") or 0) + thoughts,
        cached_tokens=counts.get("cachedContentTokenCount") or 0,
        thinking_tokens=thoughts,
    )
    model = response.get("modelVersion") or ""
    if not response.get("candidates"):
        blocked = response["promptFeedback"]["blockReason"]
        return Answer("filtered", "", usage, model, f"blockReason: {blocked}")
    candidate = response["candidates"][0]
    finish = candidate["finishReason"]
    parts = (candidate.get("content") or {}).get("parts") or []
    text = "".join(part.get("text") or "" for part in parts if not part.get("thought"))
    status = _STATUS.get(finish, "filtered")
    return Answer(status, text, usage, model, "" if status == "ok" else f"finishReason: {finish}")


class _Gemini:
    def __init__(self, settings: Settings) -> None:
        import aiohttp  # noqa: PLC0415
        from google import genai  # noqa: PLC0415 - a second of import, paid where it is used

        self._sdk, self._aiohttp, self._settings = genai, aiohttp, settings
        self._session: aiohttp.ClientSession | None = None
        self._client: genai.Client | None = None

    def _open(self) -> "genai.Client":
        """A client with a session of ours: the SDK's own is of a class that aiohttp warns about."""
        self._session = self._aiohttp.ClientSession(
            connector=self._aiohttp.TCPConnector(limit=0), trust_env=True
        )
        options = self._sdk.types.HttpOptions(
            base_url=self._settings.base_url,  # its version, v1, follows GOOGLE_GENAI_API_VERSION
            timeout=int(self._settings.timeout * 1000),
            retry_options=self._sdk.types.HttpRetryOptions(attempts=1),
            aiohttp_client=self._session,
        )
        # Never Vertex AI and its credentials, whatever the environment says.
        return self._sdk.Client(
            api_key=self._settings.key or "none", vertexai=False, http_options=options
        )

    async def send(self, request: Request) -> Answer:
        return await attempt(
            self._post(request),
            *(request, self._settings, KEY_VARIABLES),
            read=read,
            fault=self._fault,
        )

    async def aclose(self) -> None:
        if self._client and self._session:
            await self._client.aio.aclose()
            self._client.close()
            await self._session.close()

    async def _post(self, request: Request) -> str:
        self._client = client = self._client or self._open()  # a session belongs to a running loop
        response = await client.aio.models.generate_content(
            model=request.judge.model,
            contents=request.user,
            config=self._sdk.types.GenerateContentConfig(
                **config(request),
                automatic_continuation=False,  # one call is one request
                should_return_http_response=True,
            ),
        )
        raw = response.sdk_http_response
        return (raw.body if raw else None) or ""

    def _fault(self, error: Exception) -> Fault | None:
        if isinstance(error, self._sdk.errors.APIError):
            details, message = _details(error.details), str(error.message or "")
            return Fault(
                status=error.code,
                message=message,
                codes=(error.status or "", *_codes(details, message)),
                delay=_delay(details, error.response.headers),
            )
        if isinstance(error, self._aiohttp.ClientError):
            return Fault(0, codes=(type(error).__name__,))
        return None


def _details(said: Any) -> list[Any]:
    error = said.get("error") if isinstance(said, dict) else None
    details = error.get("details") if isinstance(error, dict) else None
    return [detail for detail in details or () if isinstance(detail, dict)]


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
