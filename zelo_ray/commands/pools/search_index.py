"""Ask a search index for the documents of queries: OpenSearch or Elasticsearch, by ``_search``."""

import asyncio
import json
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import aiohttp

from zelo_ray.errors import InputError, format_error
from zelo_ray.formats.wording import shorten_end
from zelo_ray.records import Document

QUERY_PLACE = "{{query}}"
"""What stands for the text of the query in a body of a user's own."""
_AT_ONCE = 8
"""Requests in flight; a first stage is no load test."""
_TRIES, _WAIT, _SECONDS = 4, 0.5, 60
_PASSING = (429, 502, 503, 504)
_TITLE = "title"


@dataclass(frozen=True, slots=True)
class IndexAddress:
    """Address of an index, and the field of its documents that holds their text.

    ``headers`` authorize requests, and are in no message.
    """

    url: str
    index: str
    fields: tuple[str, ...]
    headers: Mapping[str, str]

    @property
    def place(self) -> str:
        """Return the index as messages name it."""
        return f"{self.url.rstrip('/')}/{self.index}"


@dataclass(frozen=True, slots=True)
class Hit:
    """A document that the index returned, and its score."""

    document: Document
    score: float


def match_body(fields: Sequence[str]) -> dict[str, Any]:
    """Return the usual query: any word of it in any of the fields, scored by BM25."""
    return {"query": {"multi_match": {"query": QUERY_PLACE, "fields": [*fields]}}}


def fill_query(body: Any, query: str) -> Any:
    """Return a body with the text of the query wherever its place stands."""
    if isinstance(body, Mapping):
        return {name: fill_query(value, query) for name, value in body.items()}
    if isinstance(body, list):
        return [fill_query(value, query) for value in body]
    return body.replace(QUERY_PLACE, query) if isinstance(body, str) else body


async def search_queries(
    address: IndexAddress, body: Mapping[str, Any], queries: Mapping[str, str], size: int
) -> dict[str, list[Hit]]:
    """Return the hits of each query, best first.

    Args:
        address: of the index.
        body: of a search, in which ``{{query}}`` stands for the query.
        queries: texts by id.
        size: how many documents of each query.

    Raises:
        InputError: the index cannot be reached, or refuses a search.
    """
    async with _open_session(address) as session:
        free = asyncio.Semaphore(_AT_ONCE)

        async def search(query: str) -> list[Hit]:
            wanted = {**fill_query(body, query), "size": size, "_source": [*address.fields, _TITLE]}
            async with free:
                found = await _post(session, address, "_search", wanted)
            return [_hit(address, row) for row in found["hits"]["hits"]]

        hits = await asyncio.gather(*map(search, queries.values()))
    return dict(zip(queries, hits, strict=True))


async def fetch_documents(address: IndexAddress, doc_ids: Sequence[str]) -> list[Document]:
    """Return those of the documents that the index has, by ``_mget``.

    Raises:
        InputError: the index cannot be reached, or refuses.
    """
    documents: list[Document] = []
    async with _open_session(address) as session:
        for start in range(0, len(doc_ids), 500):
            body = {"ids": [*doc_ids[start : start + 500]]}
            found = await _post(session, address, "_mget", body)
            documents += [_hit(address, row).document for row in found["docs"] if row.get("found")]
    return documents


@asynccontextmanager
async def _open_session(address: IndexAddress) -> AsyncIterator[aiohttp.ClientSession]:
    timeout = aiohttp.ClientTimeout(total=_SECONDS)
    async with aiohttp.ClientSession(headers=address.headers, timeout=timeout) as session:
        yield session


async def _post(
    session: aiohttp.ClientSession, address: IndexAddress, what: str, body: Mapping[str, Any]
) -> Any:
    """Post a body, again where the server is busy; return what it answered."""
    for attempt in range(1, _TRIES + 1):
        try:
            async with session.post(
                f"{address.place}/{what}", json=body, allow_redirects=False
            ) as response:
                text = await response.text(errors="replace")
                if response.status == 200:
                    return json.loads(text)
                if response.status not in _PASSING or attempt == _TRIES:
                    raise InputError(_describe_refusal(address, response.status, text))
        except (aiohttp.ClientError, TimeoutError, json.JSONDecodeError) as error:
            if attempt == _TRIES:
                raise InputError(
                    f"{address.url}: cannot be searched ({format_error(error)})"
                ) from None
        await asyncio.sleep(_WAIT * 2**attempt)
    raise AssertionError("the last attempt returns or raises")


def _describe_refusal(address: IndexAddress, status: int, text: str) -> str:
    if status in (401, 403):
        return (
            f"{address.url}: refuses the user ({status}); set SEARCH_API_KEY, or SEARCH_USERNAME "
            "and SEARCH_PASSWORD, in the environment or in .env"
        )
    try:
        reason = json.loads(text)["error"]
        reason = reason["root_cause"][0]["reason"] if isinstance(reason, dict) else str(reason)
    except (ValueError, LookupError, TypeError):
        reason = text
    return f"{address.place}: answers {status}: {shorten_end(' '.join(reason.split()), 200)}"


def _hit(address: IndexAddress, row: Mapping[str, Any]) -> Hit:
    """Return a hit; its text is that of the fields, a line each, after the title."""
    source = row.get("_source") or {}
    title, *_ = [*_texts(source, _TITLE), ""]
    lines = [text for name in address.fields if name != _TITLE for text in _texts(source, name)]
    if title and not (lines and lines[0].startswith(title)):
        lines = [title, *lines]
    document = Document(str(row["_id"]), "\n".join(lines), {"title": title} if title else {})
    return Hit(document, float(row.get("_score") or 0.0))


def _texts(source: Any, name: str) -> list[str]:
    """Return the texts of a field, whose name may be a path such as ``meta.summary``."""
    value = source.get(name) if isinstance(source, Mapping) else None
    if value is None and "." in name and isinstance(source, Mapping):
        first, _, rest = name.partition(".")
        return _texts(source.get(first), rest)
    values = value if isinstance(value, list) else [value]
    return [text for text in values if isinstance(text, str) and text.strip()]
