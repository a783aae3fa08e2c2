"""A search index on loopback that speaks as OpenSearch and Elasticsearch do: _search and _mget."""

import asyncio
import threading
from collections.abc import Mapping
from typing import Any

from aiohttp import web

NAMES = "docs"


class SearchServer:
    """An index of documents, which are ranked by how many words of the query they have.

    Attributes:
        documents: what it holds, ``_source`` by ``_id``.
        authorization: the header that it wants; empty: none.
        faults: statuses of its next answers, one after another.
        requests: what it was asked: the path's end and the body.
    """

    def __init__(self, documents: Mapping[str, Mapping[str, Any]]) -> None:
        self.documents, self.authorization = documents, ""
        self.faults: list[int] = []
        self.requests: list[tuple[str, Any]] = []

    def __enter__(self) -> "SearchServer":
        started = threading.Event()
        self._loop = asyncio.new_event_loop()

        def run() -> None:
            asyncio.set_event_loop(self._loop)
            runner = self._loop.run_until_complete(self._start())
            started.set()
            self._loop.run_forever()
            self._loop.run_until_complete(runner.cleanup())
            self._loop.close()

        self._thread = threading.Thread(target=run, daemon=True)
        self._thread.start()
        assert started.wait(10)
        return self

    def __exit__(self, *_: object) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(10)

    async def _start(self) -> web.AppRunner:
        app = web.Application()
        app.router.add_post("/{index}/{what}", self._answer)
        runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1)
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        self.url = f"http://127.0.0.1:{runner.addresses[0][1]}"
        return runner

    async def _answer(self, request: web.Request) -> web.Response:
        body, what = await request.json(), request.match_info["what"]
        self.requests.append((what, body))
        if self.authorization != request.headers.get("Authorization", ""):
            return _error(401, "missing authentication credentials for REST request")
        if self.faults:
            return _error(self.faults.pop(0), "rejected execution of search")
        if request.match_info["index"] != NAMES:
            return _error(404, f"no such index [{request.match_info['index']}]")
        return web.json_response(self._get(body) if what == "_mget" else self._search(body))

    def _get(self, body: Any) -> Any:
        return {
            "docs": [
                {"_id": doc_id, "found": True, "_source": self.documents[doc_id]}
                if doc_id in self.documents
                else {"_id": doc_id, "found": False}
                for doc_id in body["ids"]
            ]
        }

    def _search(self, body: Any) -> Any:
        query, fields = _words(body["query"])
        hits = []
        for doc_id, source in self.documents.items():
            text = " ".join(_value(source, field) for field in fields)
            if score := len({*query} & {*text.casefold().split()}):
                tops = {field.partition(".")[0] for field in body["_source"]}
                row = {name: value for name, value in source.items() if name in tops}
                hits.append({"_id": doc_id, "_score": float(score), "_source": row})
        hits.sort(key=lambda hit: -hit["_score"])
        return {"hits": {"total": {"value": len(hits)}, "hits": hits[: body["size"]]}}


def _value(source: Any, field: str) -> str:
    """The text of a field, whose name may be a path and whose value a list."""
    for name in field.split("."):
        source = source.get(name, "") if isinstance(source, Mapping) else ""
    return " ".join(source) if isinstance(source, list) else str(source)


def _words(query: Any) -> tuple[list[str], list[str]]:
    """The words and fields of a ``match`` or a ``multi_match``."""
    (kind, about), *_ = query.items()
    if kind == "multi_match":
        return about["query"].casefold().split(), about["fields"]
    ((field, text),) = about.items()
    return text.casefold().split(), [field]


def _error(status: int, reason: str) -> web.Response:
    error = {"root_cause": [{"type": "an_exception", "reason": reason}], "reason": reason}
    return web.json_response({"error": error, "status": status}, status=status)
