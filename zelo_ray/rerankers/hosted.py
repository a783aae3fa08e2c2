"""Rerankers behind HTTP: one POST sends a query and documents, and returns scores by index.

A `Shape` holds the differences between servers. No SDK is used, so there are no hidden retries.
"""

import json
import math
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any

from zelo_ray.providers import Provider, Settings
from zelo_ray.providers.faults import Fault, read_fault
from zelo_ray.providers.no_response import CONNECT_SECONDS
from zelo_ray.providers.outcome import Caller, Reading, attempt_call, resolve_settings
from zelo_ray.records import (
    Answer,
    CallTiming,
    Judge,
    Request,
    Usage,
    nested_object,
    parse_count,
)
from zelo_ray.rerankers.answers import answer_of, order_scores

if TYPE_CHECKING:
    import aiohttp

_KEYLESS = "none"  # the key of a server that needs none
_PASSING = (424,)  # text-embeddings-inference: the model failed, try again
_FILTERED = (498,)  # Cohere: a text contains a blocked word
_SEARCH = 100  # documents that Cohere counts as one search


def result_rows(body: Any) -> Any:
    """Return the rows from where most servers put them."""
    return body["results"]


def total_tokens(body: Any) -> Usage:
    """Return the tokens from where most servers report them; rerankers write none."""
    return Usage(input_tokens=parse_count(nested_object(body, "usage").get("total_tokens")))


@dataclass(frozen=True, slots=True)
class Shape:
    """The parts that differ between servers: address, request and response."""

    provider: str
    keys: tuple[str, ...]
    """environment variables that hold its key"""
    base_url: str
    url_variable: str
    """the environment variable that holds another base URL"""
    build_body: Callable[[Judge, str, list[str]], dict[str, Any]]
    """returns the fields of a request for a query and its documents"""
    path: str = "/rerank"
    read_rows: Callable[[Any], Any] = result_rows
    """returns the part of a response that has a row for each document"""
    score: str = "relevance_score"
    """the name of the score in a row"""
    read_usage: Callable[[Any], Usage] = total_tokens
    """returns the usage that a response reports"""


class Hosted:
    """A connection to one server.

    Args:
        settings: its key and base URL.
        shape: its request and response format.

    Raises:
        Fatal: there is no key, or the key is malformed.
    """

    def __init__(self, settings: Settings, shape: Shape) -> None:
        at = (shape.provider, shape.keys, shape.base_url, shape.url_variable)
        self._settings, self._shape = resolve_settings(settings, *at), shape
        self._session: aiohttp.ClientSession | None = None

    async def send(self, request: Request) -> Answer:
        """Score the documents of a request, sending exactly what its key was hashed from."""
        payload = json.loads(request.user)
        query, documents = payload["query"], payload["documents"]
        texts = (query, *documents)
        shape = self._shape
        caller = Caller(
            *(request.judge.name, self._settings, shape.keys, _fault, texts),
            retry_statuses=_PASSING,
            filter_statuses=_FILTERED,
            proxies=(),
        )
        reading = Reading(partial(_read, shape, len(documents)), shape.read_usage)
        session, begun = self._open_session(), time.perf_counter()  # the first imports aiohttp
        posting = self._post(session, request.judge, query, documents)
        answer = await attempt_call(posting, caller, reading)
        return replace(answer, timing=CallTiming(time.perf_counter() - begun))

    async def aclose(self) -> None:
        """Close the sockets."""
        if self._session is not None:
            await self._session.close()

    def _open_session(self) -> "aiohttp.ClientSession":
        """Return the session, which the first call opens."""
        import aiohttp  # noqa: PLC0415 - paid where it is used

        if self._session is None:
            key = self._settings.key
            self._session = aiohttp.ClientSession(
                headers={} if key == _KEYLESS else {"Authorization": f"Bearer {key}"},
                # the caller limits the time of the whole call
                timeout=aiohttp.ClientTimeout(sock_connect=CONNECT_SECONDS),
                connector=aiohttp.TCPConnector(limit=0),
            )
        return self._session

    async def _post(
        self, session: "aiohttp.ClientSession", judge: Judge, query: str, documents: list[str]
    ) -> tuple[str, Mapping[str, str]]:
        body = self._shape.build_body(judge, query, documents)
        async with session.post(
            f"{(self._settings.base_url or '').rstrip('/')}{self._shape.path}",
            data=json.dumps(body, ensure_ascii=False).encode(),
            headers={"Content-Type": "application/json"},
            allow_redirects=False,  # the key must not reach another server
        ) as response:
            text = await response.text(errors="replace")
            if response.status // 100 != 2:
                raise _Unsuccessful(response.status, text, response.headers)
            return text, response.headers


def billed_units(body: Any) -> Usage:
    """Return the units that Cohere bills; its schema has search units as a decimal number."""
    billed = nested_object(body, "meta", "billed_units")
    units = billed.get("search_units")
    searches = math.ceil(units) if isinstance(units, float) and math.isfinite(units) else units
    return Usage(
        input_tokens=parse_count(billed.get("input_tokens")), searches=parse_count(searches)
    )


def build_hosted_provider(shape: Shape, options: Mapping[str, Any] = {}, **fields: Any) -> Provider:
    """Build the provider of a server; ``fields`` are more of those of `Provider`."""
    return Provider(
        connect=partial(Hosted, shape=shape),
        key_variables=shape.keys,
        url_variable=shape.url_variable,
        options={"documents": 1000, **options},  # documents in one request
        concurrency=32,
        **fields,
    )


class _Unsuccessful(Exception):  # noqa: N818 - it goes no further than to `_fault`
    def __init__(self, status: int, text: str, headers: Mapping[str, str]) -> None:
        super().__init__(status)
        self.status, self.text, self.headers = status, text, headers


def _fault(error: Exception) -> Fault | None:
    """Return the fault in an unsuccessful response."""
    if isinstance(error, _Unsuccessful):
        return read_fault(error.text, error.status, error.headers)
    return None


def _read(shape: Shape, count: int, body: Any) -> Answer:
    """Read the answer from a response's JSON, raising errors in its form.

    A response without usage counts as the searches that Cohere would bill.
    """
    usage = shape.read_usage(body)
    if usage == Usage():
        usage = replace(usage, searches=math.ceil(count / _SEARCH))
    model = body.get("model") if isinstance(body, dict) else ""
    name = model if isinstance(model, str) else ""
    scores = order_scores(shape.read_rows(body), shape.score, count)
    if isinstance(scores, str):
        return Answer("invalid", "", usage, name, scores)
    return answer_of(scores, count, usage, name)
