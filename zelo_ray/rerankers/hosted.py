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
from zelo_ray.rerankers.answers import answer_of

if TYPE_CHECKING:
    import aiohttp

_KEYLESS = "none"  # the key of a server that needs none
_PASSING = (424,)  # text-embeddings-inference: the model failed, try again
_FILTERED = (498,)  # Cohere: a text contains a blocked word
_SEARCH = 100  # documents that Cohere counts as one search


def _fields(judge: Judge, documents: list[str]) -> dict[str, Any]:  # noqa: ARG001 - others have options
    return {"documents": documents, "top_n": len(documents)}


def _rows(body: Any) -> Any:
    return body["results"]


def _tokens(fields: Mapping[str, Any]) -> Usage:
    return Usage(input_tokens=parse_count(fields.get("total_tokens")))


def _total_tokens(body: Any) -> Usage:
    """Return the tokens from where most servers report them; rerankers write none."""
    return _tokens(nested_object(body, "usage"))


def _billed_units(body: Any) -> Usage:
    """Return the units that Cohere bills; its schema has search units as a decimal number."""
    billed = nested_object(body, "meta", "billed_units")
    units = billed.get("search_units")
    searches = math.ceil(units) if isinstance(units, float) and math.isfinite(units) else units
    return Usage(
        input_tokens=parse_count(billed.get("input_tokens")), searches=parse_count(searches)
    )


@dataclass(frozen=True, slots=True)
class Shape:
    """The parts that differ between servers: address, request and response."""

    provider: str
    keys: tuple[str, ...]
    """environment variables that hold its key"""
    base_url: str
    url_variable: str
    """the environment variable that holds another base URL"""
    fields: Callable[[Judge, list[str]], dict[str, Any]] = _fields
    """returns the fields of a request for some documents, beside the model and the query"""
    path: str = "/rerank"
    read_rows: Callable[[Any], Any] = _rows
    """returns the part of a response that has a row for each document"""
    score: str = "relevance_score"
    """the name of the score in a row"""
    read_usage: Callable[[Any], Usage] = _total_tokens


class Hosted:
    """A connection to one server."""

    def __init__(self, settings: Settings, shape: Shape) -> None:
        """Raise `Fatal` if there is no key, or the key is malformed."""
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
        shape = self._shape
        body = {"model": judge.model, "query": query, **shape.fields(judge, documents)}
        async with session.post(
            f"{(self._settings.base_url or '').rstrip('/')}{shape.path}",
            data=json.dumps(body, ensure_ascii=False).encode(),
            headers={"Content-Type": "application/json"},
            allow_redirects=False,  # the key must not reach another server
        ) as response:
            text = await response.text(errors="replace")
            if response.status // 100 != 2:
                raise _Unsuccessful(response.status, text, response.headers)
            return text, response.headers


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
    scores: dict[int, Any] = {}  # by the place of the document, since servers sort them
    for row in shape.read_rows(body):
        index = row["index"]
        if type(index) is not int or not 0 <= index < count:
            why = f"a score for document {index!r} of {count}"
            return Answer("invalid", "", usage, name, why)
        if index in scores:
            return Answer("invalid", "", usage, name, f"two scores for document {index}")
        scores[index] = row[shape.score]
    return answer_of([scores.get(index) for index in range(count)], count, usage, name)


def _rows_of_any(body: Any) -> Any:
    """Return the rows, from a list or from ``results``, with their scores under one name."""
    rows = body if isinstance(body, list) else body["results"]
    return [{"score": row.get("relevance_score", row.get("score")), **row} for row in rows]


def _usage_of_any(body: Any) -> Usage:
    """Return the usage that most servers report, or the one that gateways to Cohere report."""
    usage = _billed_units(body)
    return usage if usage != Usage() else _total_tokens(body)


def _given(judge: Judge, option: str) -> dict[str, Any]:
    value = judge.options[option]
    return {option: value} if value else {}


_SHAPES = (
    Shape(
        provider="zeroentropy",
        keys=("ZEROENTROPY_API_KEY",),
        base_url="https://api.zeroentropy.dev/v1",
        url_variable="ZEROENTROPY_BASE_URL",
        path="/models/rerank",
        fields=lambda judge, texts: {**_fields(judge, texts), **_given(judge, "latency")},
        read_usage=lambda body: _tokens(nested_object(body)),
    ),
    Shape(  # it charges for search units: a query with up to 100 documents
        provider="cohere",
        keys=("CO_API_KEY", "COHERE_API_KEY"),
        base_url="https://api.cohere.com",
        url_variable="CO_API_URL",
        path="/v2/rerank",
        fields=lambda judge, texts: {
            **_fields(judge, texts),
            **_given(judge, "max_tokens_per_doc"),
        },
        read_usage=_billed_units,
    ),
    Shape(
        provider="voyage",
        keys=("VOYAGE_API_KEY",),
        base_url="https://api.voyageai.com/v1",
        url_variable="VOYAGE_BASE_URL",
        fields=lambda judge, texts: {
            "documents": texts,
            "top_k": len(texts),
            "truncation": judge.options["truncation"],
        },
        read_rows=lambda body: body["data"],
    ),
    Shape(
        provider="jina",
        keys=("JINA_API_KEY",),
        base_url="https://api.jina.ai/v1",
        url_variable="JINA_BASE_URL",
        fields=lambda judge, texts: {**_fields(judge, texts), "return_documents": False},
    ),
    Shape(
        provider="rerank",
        keys=(),
        base_url="",
        url_variable="",
        fields=lambda judge, texts: {
            judge.options["documents_field"]: texts,
            "top_n": len(texts),
            **judge.options["extra_body"],
        },
        read_rows=_rows_of_any,
        score="score",
        read_usage=_usage_of_any,
    ),
)
_FIELDS: dict[str, dict[str, Any]] = {
    "zeroentropy": {
        "models": ("zerank-2",),
        "options": {"latency": None},  # "fast" or "slow", which have limits of their own
        "transport": {"latency": None},
        "rates": {"rpm": 1000},
    },
    "cohere": {
        "models": ("rerank-v5.0-pro",),
        "options": {"max_tokens_per_doc": None},  # longer ones are cut; None: the server's 4,096
        "rates": {"rpm": 1000},
    },
    "voyage": {
        "models": ("rerank-3",),
        "options": {"truncation": False},  # true: the server silently cuts long texts
        "rates": {"rpm": 2000, "tpm": 2_000_000},
    },
    "jina": {"models": ("jina-reranker-v3",), "rates": {"rpm": 100}},
    # extra_body: more fields of the request, such as raw_scores or truncate
    "rerank": {"options": {"documents_field": "documents", "extra_body": {}}},
}
PROVIDERS = {
    shape.provider: build_hosted_provider(shape, **_FIELDS[shape.provider]) for shape in _SHAPES
}
"""The providers of hosted rerankers. ``rerank`` is any server with the usual endpoint, as of vLLM:
``rerank:MODEL@http://host:8000/v1`` posts to ``http://host:8000/v1/rerank``. For
text-embeddings-inference set ``{documents_field: texts, documents: 32}``: its field has another
name, and by default it accepts 32 documents at once."""
