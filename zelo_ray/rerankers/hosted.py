"""Rerankers behind HTTP: one POST sends a query and documents, and returns scores by index.

`SHAPES` holds the differences between servers. No SDK is used, so there are no hidden retries.
"""

import json
import math
import time
from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

from zelo_ray.providers import Provider, Settings
from zelo_ray.providers.dialect import resolve_settings
from zelo_ray.providers.faults import Fault, read_fault
from zelo_ray.providers.no_response import CONNECT_SECONDS
from zelo_ray.providers.outcome import Caller, attempt_call
from zelo_ray.records import Answer, CallTiming, Judge, Request, Usage, nested_object, parse_count
from zelo_ray.rerankers.answers import answer_of

if TYPE_CHECKING:
    import aiohttp

_KEYLESS = "none"  # the key of a server that needs none
_SEARCH = 100  # documents that Cohere counts as one search


class Shape(NamedTuple):
    """What differs between servers; ``options`` are sent as fields of their names, if not None.

    Rows stand in ``results``, in ``data``, or are the whole response, with ``relevance_score`` or
    ``score``. Tokens or searches are read from where any of the servers reports them.
    """

    base_url: str = ""
    path: str = "/rerank"
    keys: tuple[str, ...] = ()
    url_variable: str = ""
    models: tuple[str, ...] = ()
    rates: Mapping[str, float] = {}
    options: Mapping[str, Any] = {}
    transport: Mapping[str, Any] = {}
    fields: Mapping[str, Any] = {}
    """that all requests have"""
    count_field: str = "top_n"
    """how many documents are to be returned: all"""


SHAPES = {
    "zeroentropy": Shape(
        base_url="https://api.zeroentropy.dev/v1",
        path="/models/rerank",
        keys=("ZEROENTROPY_API_KEY",),
        url_variable="ZEROENTROPY_BASE_URL",
        models=("zerank-2",),
        rates={"rpm": 1000},
        options={"latency": None},  # "fast" or "slow", which have limits of their own
        transport={"latency": None},
    ),
    "cohere": Shape(  # it charges for search units: a query with up to 100 documents
        base_url="https://api.cohere.com",
        path="/v2/rerank",
        keys=("CO_API_KEY", "COHERE_API_KEY"),
        url_variable="CO_API_URL",
        models=("rerank-v5.0-pro",),
        rates={"rpm": 1000},
        options={"max_tokens_per_doc": None},  # longer ones are cut; None: the server's 4,096
    ),
    "voyage": Shape(
        base_url="https://api.voyageai.com/v1",
        keys=("VOYAGE_API_KEY",),
        url_variable="VOYAGE_BASE_URL",
        models=("rerank-3",),
        rates={"rpm": 2000, "tpm": 2_000_000},
        options={"truncation": False},  # true: the server silently cuts long texts
        count_field="top_k",
    ),
    "jina": Shape(
        base_url="https://api.jina.ai/v1",
        keys=("JINA_API_KEY",),
        url_variable="JINA_BASE_URL",
        models=("jina-reranker-v3",),
        rates={"rpm": 100},
        fields={"return_documents": False},
    ),
    # any server with the usual endpoint, as of vLLM: rerank:MODEL@http://host:8000/v1
    "rerank": Shape(options={"documents_field": "documents", "extra_body": {}}),
}


class Hosted:
    """A connection to one server."""

    def __init__(self, settings: Settings, name: str) -> None:
        """Raise `Fatal` if there is no key, or the key is malformed."""
        self._shape = shape = SHAPES[name]
        at = (name, shape.keys, shape.base_url, shape.url_variable)
        self._settings = resolve_settings(settings, *at)
        self._session: aiohttp.ClientSession | None = None

    async def send(self, request: Request) -> Answer:
        """Score the documents of a request, sending exactly what its key was hashed from."""
        payload = json.loads(request.user)
        query, documents = payload["query"], payload["documents"]
        about = (request.judge.name, self._settings, self._shape.keys, _fault)
        caller = Caller(*about, prompts=(query, *documents))
        read = partial(_read, len(documents))
        session, begun = self._open_session(), time.perf_counter()  # the first imports aiohttp
        posting = self._post(session, self._body(request.judge, query, documents))
        answer = await attempt_call(posting, caller, read, _read_usage)
        return replace(answer, timing=CallTiming(time.perf_counter() - begun))

    async def aclose(self) -> None:
        """Close the sockets."""
        if self._session is not None:
            await self._session.close()

    def _body(self, judge: Judge, query: str, documents: list[str]) -> dict[str, Any]:
        options = {name: judge.options[name] for name in self._shape.options}
        texts, more = options.pop("documents_field", "documents"), options.pop("extra_body", {})
        body = {"model": judge.model, "query": query, texts: documents, **self._shape.fields}
        body[self._shape.count_field] = len(documents)
        return {**body, **{k: v for k, v in options.items() if v is not None}, **more}

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
        self, session: "aiohttp.ClientSession", body: Mapping[str, Any]
    ) -> tuple[str, Mapping[str, str]]:
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


class _Unsuccessful(Exception):  # noqa: N818 - it goes no further than to `_fault`
    def __init__(self, status: int, text: str, headers: Mapping[str, str]) -> None:
        super().__init__(status)
        self.status, self.text, self.headers = status, text, headers


def _fault(error: Exception) -> Fault | None:
    if isinstance(error, _Unsuccessful):
        return read_fault(error.text, error.status, error.headers)
    return None


def _read_usage(body: Any) -> Usage:
    """Return the units that Cohere and gateways to it bill, or else the tokens."""
    billed = nested_object(body, "meta", "billed_units")
    units = billed.get("search_units")  # in Cohere's schema a decimal number
    searches = math.ceil(units) if isinstance(units, float) and math.isfinite(units) else units
    tokens, searches = parse_count(billed.get("input_tokens")), parse_count(searches)
    if not (tokens or searches):
        where = nested_object(body, "usage") or nested_object(body)
        tokens = parse_count(where.get("total_tokens"))
    return Usage(input_tokens=tokens, searches=searches)


def _read(count: int, body: Any) -> Answer:
    """Read the answer from a response's JSON, raising errors in its form.

    A response without usage counts as the searches that Cohere would bill.
    """
    usage, model = _read_usage(body), ""
    if usage == Usage():
        usage = Usage(searches=math.ceil(count / _SEARCH))
    rows = body
    if isinstance(body, dict):
        rows = body["results"] if "results" in body else body["data"]
        model = body["model"] if isinstance(body.get("model"), str) else ""
    scores: dict[int, Any] = {}  # by the place of the document, since servers sort them
    for row in rows:
        index = row["index"]
        if type(index) is not int or not 0 <= index < count:
            why = f"a score for document {index!r} of {count}"
            return Answer("invalid", "", usage, model, why)
        if index in scores:
            return Answer("invalid", "", usage, model, f"two scores for document {index}")
        scores[index] = row["relevance_score"] if "relevance_score" in row else row["score"]
    return answer_of([scores.get(index) for index in range(count)], count, usage, model)


PROVIDERS = {
    name: Provider(
        connect=partial(Hosted, name=name),
        models=shape.models,
        key_variables=shape.keys,
        url_variable=shape.url_variable,
        options={"documents": 1000, **shape.options},  # documents in one request
        transport=shape.transport,
        concurrency=32,
        rates=shape.rates,
    )
    for name, shape in SHAPES.items()
}
