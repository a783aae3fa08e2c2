"""A loopback server that speaks as the hosted rerankers do, and what asks one arm of a bake-off."""

import asyncio
import re
import threading
import time
from dataclasses import dataclass

from aiohttp import web

from tests.helpers.builders import HURRIED, OwnCoordination
from zelo_ray.command_options import BakeoffOptions
from zelo_ray.engine.ledger import Ledger, read_rows
from zelo_ray.engine.online import OnlineClient
from zelo_ray.protocols import advance, find_protocol
from zelo_ray.records import Document, Pool
from zelo_ray.rerankers import asking_options, build_rankers

_WORTH = re.compile(r"\[\[worth=(-?[\d.]+)\]\]")
_PATHS = {
    "/zeroentropy/v1/models/rerank": "zeroentropy",
    "/cohere/v2/rerank": "cohere",
    "/voyage/v1/rerank": "voyage",
    "/jina/v1/rerank": "jina",
    "/vllm/v1/rerank": "vllm",
    "/tei/rerank": "tei",
}
_VARIABLES = {
    "ZEROENTROPY_BASE_URL": "/zeroentropy/v1",
    "CO_API_URL": "/cohere",
    "VOYAGE_BASE_URL": "/voyage/v1",
    "JINA_BASE_URL": "/jina/v1",
}
_KEYLESS = ("vllm", "tei")


def worth(text):
    """What a document says that it is worth; the fakes' score."""
    found = _WORTH.search(text)
    return float(found[1]) if found else 0.0


class Rerankers:
    """Serves between ``with`` and its end.

    ``faults`` are struck by one request each, in their order: a status, a pair of status and
    headers or text, "drop", or text to answer with. ``spoil`` gets the rows of each response,
    sorted by score as servers sort them, and returns others. ``said`` is the message of each
    error. A text has a token for so many ``token_bytes``. What else a response has beside its rows,
    its usage above all, ``told`` takes and returns. An answer takes ``delay`` seconds; how long it
    took in fact stands in its entry of the journal.
    """

    def __init__(self):
        self.key, self.faults, self.journal = "a-key-for-tests-only", [], []
        self.spoil, self.said = lambda rows: rows, "something is wrong"
        self.token_bytes, self.told = 4, lambda fields: fields
        self.delay = 0.0

    def point(self, monkeypatch):
        """Let the hosted rerankers be found here; return an environment with keys."""
        for variable, path in _VARIABLES.items():
            monkeypatch.setenv(variable, self.url + path)
        names = ("ZEROENTROPY_API_KEY", "CO_API_KEY", "VOYAGE_API_KEY", "JINA_API_KEY")
        return dict.fromkeys(names, self.key)

    def __enter__(self):
        started = threading.Event()
        self._loop = asyncio.new_event_loop()

        async def start():
            app = web.Application(client_max_size=2**28)
            for path in _PATHS:
                app.router.add_post(path, self._answer)
            runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1)
            await runner.setup()
            await web.TCPSite(runner, "127.0.0.1", 0).start()
            host, port = runner.addresses[0][:2]
            self.url = f"http://{host}:{port}"
            return runner

        def run():
            asyncio.set_event_loop(self._loop)
            runner = self._loop.run_until_complete(start())
            started.set()
            self._loop.run_forever()
            self._loop.run_until_complete(runner.cleanup())
            self._loop.close()

        self._thread = threading.Thread(target=run, name="rerankers", daemon=True)
        self._thread.start()
        assert started.wait(10)
        return self

    def __exit__(self, *_):
        self.stop()

    def stop(self):
        """Be gone, as a server that was killed."""
        if self._thread.is_alive():
            self._loop.call_soon_threadsafe(self._loop.stop)
            self._thread.join(10)

    async def _answer(self, request):
        begun = time.perf_counter()
        body = await request.json()
        entry = {"name": _PATHS[request.path], "body": body}
        response = self._respond(request, entry)
        await asyncio.sleep(self.delay)
        entry["seconds"] = time.perf_counter() - begun
        return response

    def _respond(self, request, entry):
        name, body = entry["name"], entry["body"]
        key = entry["key"] = request.headers.get("Authorization", "").removeprefix("Bearer ")
        self.journal.append(entry)
        if name not in _KEYLESS and key != self.key:
            return _error(401, f"invalid api key {key}")
        fault = self.faults.pop(0) if self.faults else None
        if fault == "drop":
            request.transport.abort()
            return web.Response()
        if isinstance(fault, str):
            return web.Response(text=fault, content_type="application/json")
        if fault is not None:
            status, headers = fault if isinstance(fault, tuple) else (fault, {})
            if isinstance(headers, str):
                return web.Response(status=status, text=headers, content_type="application/json")
            return _error(status, self.said, headers)
        texts = body["texts" if name == "tei" else "documents"]
        if name == "tei" and len(texts) > 32:
            return _error(413, "batch size > maximum allowed batch size 32")
        score = "score" if name == "tei" else "relevance_score"
        rows = [{"index": i, score: worth(text)} for i, text in enumerate(texts)]
        rows.sort(key=lambda row: -row[score])
        return web.json_response(self._shaped(name, self.spoil(rows), body, texts))

    def _shaped(self, name, rows, body, texts):
        """Rows as each server sends them, and its way to say what it used, as each counts it."""
        query = self._tokens(body["query"])
        tokens = sum(query + self._tokens(text) for text in texts)
        room = 500 - min(query, 250)
        units = -(-sum(max(1, -(-self._tokens(text) // room)) for text in texts) // 100)
        usage = {"usage": {"total_tokens": tokens}, "model": body.get("model")}
        key, told = {
            "zeroentropy": ("results", {"total_tokens": tokens}),
            "cohere": ("results", {"meta": {"billed_units": {"search_units": units}}}),
            "voyage": ("data", {"object": "list", **usage}),
            "jina": ("results", usage),
            "vllm": ("results", {"id": "rerank-1", **usage}),
            "tei": ("", {}),
        }[name]
        return {key: rows, **self.told(told)} if key else rows

    def _tokens(self, text):
        return -(-len(text.encode()) // self.token_bytes)


def _error(status, message, headers=None):
    return web.json_response({"message": message}, status=status, headers=headers)


def pool(worths=(0.5, 3.0, 1.25, -2.0), query_id="q1"):
    """A pool whose documents say what they are worth."""
    documents = (Document(f"d{i}", f"Text {i} [[worth={w}]]") for i, w in enumerate(worths))
    return Pool(query_id, f"what is asked in {query_id}?", tuple(documents))


@dataclass
class Ranking:
    """What came of asking one arm: scores by query and document, failures by query, the rest."""

    scores: dict
    failures: dict
    asker: OnlineClient
    books: list


def rank(pools, out, environ, reranker, *, run_id="run", budget=None, **fields):
    """Ask one arm about pools, side by side, and read what the ledger then holds."""
    name = reranker.partition("=")[0]
    fields = {"limits": {name: {"rpm": 1e6}}, "truth": "none", "out": str(out), **fields}
    options = BakeoffOptions(rerankers=(reranker,), **fields)
    (arm,) = build_rankers(options, environ, run_id=run_id)
    asked, panel = asking_options(arm, options), (arm.judge,)

    async def run():
        ledger = Ledger(asked.out, run_id, ("failed",))
        given = {
            "ledger": ledger,
            "environ": environ,
            "run_id": run_id,
            "coordinator": OwnCoordination(HURRIED, budget),
        }
        asker = OnlineClient(asked, panel, panel, clock=HURRIED, **given)
        try:
            await asyncio.gather(*(asker.ask_about(each) for each in pools))
        finally:
            await asker.aclose()
            ledger.close()
        return asker

    ranking = Ranking({}, {}, asyncio.run(run()), list(read_rows(asked.out)))
    for each in pools:
        rounds = find_protocol(arm.protocol).rounds(each, panel, asked)
        step = advance(rounds, Ledger(asked.out), ranking.asker.disabled)
        for failure in step.failures:
            ranking.failures[each.query_id] = failure
        for ranked in step.judgments:
            ranking.scores.setdefault(ranked.query_id, {})[ranked.doc_id] = ranked.score
    return ranking
