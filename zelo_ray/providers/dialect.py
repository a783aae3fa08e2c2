"""Ask judges by HTTP: one class of connections for all providers, each of which has a dialect.

A provider's own SDK carries the calls. It is imported when a judge of that provider is first asked;
its retries are off, and its typed methods are not used, as these walk every message by its
annotations for a third of a call's CPU.
"""

import os
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, replace
from functools import cached_property
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Protocol

from zelo_ray.providers.addresses import find_url_error, url_for
from zelo_ray.providers.faults import Fault, read_fault
from zelo_ray.providers.no_response import CONNECT_SECONDS
from zelo_ray.providers.outcome import Caller, attempt_call
from zelo_ray.providers.provider import Batch, Fatal, Outcome, Settings
from zelo_ray.records import Answer, Request, Usage


class Client(Protocol):
    """An SDK's client, without its retries, that returns raw responses and follows no redirect."""

    async def ask(self, model: str, body: dict[str, Any]) -> tuple[str, Mapping[str, str]]:
        """Post a request to a model; return the response's text and headers."""

    async def get(self, path: str, query: Mapping[str, Any]) -> str:
        """Return the text of a response."""

    async def post(self, path: str, body: dict[str, Any]) -> str:
        """Post JSON; return the response's text."""

    def find_fault(self, error: Exception) -> Fault | None:
        """Turn the SDK's exception about a response's status into a `Fault`; None for others."""

    async def aclose(self) -> None:
        """Close the sockets."""


def _read_list(page: Any) -> tuple[list[Any], str]:
    rows = page["data"]
    return rows, rows[-1]["id"] if rows and page.get("has_more") else ""


@dataclass(slots=True, kw_only=True)
class BatchDialect:
    """What sets a provider's batch API apart.

    A file of lines (``line``) goes up (``upload``, None where the requests go along with the
    creation); ``submit`` creates a batch of it for a model, with a mark, which ``keeps_marks``.
    ``list_path`` has the batches, newest first, in pages of ``list_size`` from ``list_after`` on;
    ``place`` is the path of one, with braces for its id. ``read`` gets the key, which must not be
    in a reason. ``find_results`` yields places for ``download``, or results given at once; it
    raises Retry if there are none yet, and Refused if they are gone, as ``gone_statuses`` say.
    """

    keeps_marks: bool
    line: Callable[[Request, Settings], Mapping[str, Any]]
    upload: Callable[[Any, Path], Awaitable[str]] | None = None
    read_upload: Callable[[Any], str] = lambda file: str(file["id"])
    submit: Callable[[Any, Path, str, str, str], Awaitable[str]]
    read: Callable[[Any, str], Batch]
    list_path: str
    list_size: str = "limit"
    list_after: str
    read_list: Callable[[Any], tuple[list[Any], str]] = _read_list
    place: str
    cancel: str = "/cancel"
    find_results: Callable[[Any, Batch], Iterable[str | Mapping[str, Any]]]
    download: Callable[[Any, str], AbstractAsyncContextManager[AsyncIterator[bytes]]]
    gone_statuses: tuple[int, ...] = (404, 410)
    read_line: Callable[[Any, Caller], tuple[str, Outcome]]


@dataclass(slots=True, kw_only=True)
class Dialect:
    """What sets a provider's protocol apart.

    ``read_answer`` reads the answer, or a fault, in a response's JSON, and ``read_usage`` the
    tokens; both raise one of `MALFORMED` on what they cannot read. ``rates`` reads the account's
    limits a minute in headers.
    """

    name: str
    key_variables: tuple[str, ...]
    base_url: str
    url_variable: str
    open: Callable[[Settings, float], Client]
    body: Callable[[Request, Settings], dict[str, Any]]
    read_answer: Callable[[Any, Request | None], Answer | Fault]
    read_usage: Callable[[Any], Usage]
    rates: Callable[[Mapping[str, str]], Mapping[str, float]] | None = None
    batch: BatchDialect | None = None

    def resolve(self, settings: Settings) -> Settings:
        """Complete the settings; see `resolve_settings`."""
        words = (self.name, self.key_variables, self.base_url, self.url_variable)
        return resolve_settings(settings, *words)


class DialectConnection:
    """A connection that opens its SDK at the first call; its settings are complete."""

    def __init__(self, dialect: Dialect, settings: Settings) -> None:
        self._dialect, self._settings = dialect, settings

    @cached_property
    def _client(self) -> Client:
        return self._dialect.open(self._settings, self._settings.timeout)

    async def send(self, request: Request) -> Answer:
        """Ask a judge."""
        dialect = self._dialect
        caller = Caller(
            *(request.judge.name, self._settings, dialect.key_variables, self._client.find_fault),
            prompts=(request.system, request.user),
        )
        return await attempt_call(
            self._client.ask(request.judge.model, dialect.body(request, self._settings)),
            caller,
            lambda body: dialect.read_answer(body, request),
            dialect.read_usage,
            dialect.rates,
        )

    async def aclose(self) -> None:
        """Close the sockets."""
        if "_client" in self.__dict__:
            await self._client.aclose()


class StainlessClient:
    """The client of OpenAI's or of Anthropic's SDK, by its name: one generator makes both."""

    def __init__(self, name: str, path: str, settings: Settings, seconds: float) -> None:
        import httpx2  # noqa: PLC0415 - paid where it is used

        # The SDK takes an httpx that another thread is just importing for a whole one.
        if find_spec("httpx"):
            import_module("httpx")
        module: Any = import_module(name)
        kind = module.AsyncOpenAI if name == "openai" else module.AsyncAnthropic
        self.sdk: Any = kind(
            api_key=settings.key or "none",  # never empty: the SDK would look for another
            base_url=settings.base_url,
            timeout=httpx2.Timeout(seconds, connect=CONNECT_SECONDS),
            max_retries=0,
            http_client=module.DefaultAioHttpClient(follow_redirects=False),
        )
        self.response, self._error, self._path = httpx2.Response, module.APIStatusError, path

    async def ask(self, model: str, body: dict[str, Any]) -> tuple[str, Mapping[str, str]]:
        """Post a request, whose body names the model."""
        del model
        response = await self.sdk.post(self._path, cast_to=self.response, body=body)
        return response.text, response.headers

    async def get(self, path: str, query: Mapping[str, Any]) -> str:
        """Return the text of a response."""
        response = await self.sdk.get(path, cast_to=self.response, options={"params": query})
        return str(response.text)

    async def post(self, path: str, body: dict[str, Any]) -> str:
        """Post JSON; return the response's text."""
        return str((await self.sdk.post(path, cast_to=self.response, body=body)).text)

    def find_fault(self, error: Exception) -> Fault | None:
        """Turn the SDK's exception about a response's status into a `Fault`; None for others."""
        if not isinstance(error, self._error):
            return None
        return read_fault(error.body, error.status_code, error.response.headers)

    async def aclose(self) -> None:
        """Close the sockets."""
        await self.sdk.close()


def resolve_settings(
    settings: Settings, provider: str, variables: tuple[str, ...], base_url: str, variable: str
) -> Settings:
    """Complete the settings: a base URL, and a key that can be sent.

    The base URL is that of the settings, else that of ``variable``, which the SDK reads, or of the
    file ``.env`` that the key is from, else the provider's.
    """
    key = settings.key.strip()
    url = settings.base_url or url_for(variable, key, os.environ) or base_url
    names = settings.variable or " or ".join(variables)
    if wrong := find_url_error(url):
        raise Fatal(f"{variable}: {wrong}", name=provider)
    if not key and url == base_url:
        raise Fatal(f"no key; set {names}", name=provider)
    if not (key.isascii() and key.isprintable() and " " not in key):
        what = f"the key contains characters that no key has; check {names}"
        raise Fatal(what, name=provider)
    return replace(settings, key=key, base_url=url)


def merge_fields(fields: Mapping[str, Any], more: Mapping[str, Any]) -> dict[str, Any]:
    """Merge more fields into those of a request, nested fields included."""
    body = dict(fields)
    for name, value in more.items():
        current = body.get(name)
        nested = isinstance(current, Mapping) and isinstance(value, Mapping)
        body[name] = merge_fields(current, value) if nested else value  # type: ignore[arg-type] # they are
    return body
