"""One server for the three providers' fakes; what differs between them is in their own modules.

Batches and files are more routes of the same server, over the same `Fakes.answer`.
"""

import asyncio
import threading
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterable
from math import inf
from pathlib import Path
from typing import Any

import orjson
from aiohttp import web

from tests.fakes import knowing
from tests.fakes.batches import Call
from tests.fakes.caches import Caches
from tests.fakes.lengths import Lengths
from tests.fakes.parts import (
    ANSWER_FAULTS,
    BATCH_FAULTS,
    BATCH_WIRE_FAULTS,
    ENDPOINTS,
    WIRE_FAULTS,
    Asked,
    Fault,
    Journal,
    LedgerWriter,
    Said,
    spoil,
)
from tests.fakes.rates import Limit, Limits, Traffic
from tests.fakes.serving import BATCHES, JSON, PROVIDERS, respond, serve
from tests.fakes.store import Store

OnEvent = Callable[[str, str, dict[str, Any]], Any]
"""Takes provider, event and details; see `Fakes`."""
Judge = Callable[[str, str, dict[str, Any], str], Any]
"""Takes system text, user text, schema and model; returns a verdict to be sent as JSON, or text."""


class Fakes:
    """The fakes, on one port of 127.0.0.1; a context manager runs them in a thread.

    Args:
        providers: Which to serve.
        judge: Answers the requests.
        key: The key that is accepted; None accepts any.
        faults: What goes wrong; the first that strikes wins. May be set anew at any time.
        seed: Every random draw follows from it and from the request's body.
        latency: Seconds an answer takes, give or take the share ``jitter`` of it.
        rpm: Requests a minute, of each model; this and the other limits are one figure, or one
            for each provider that is named.
        tpm: Tokens a minute, of each model: input on arrival, output (not Gemini's) when answered.
        itpm: Input tokens a minute, without those from a cache; Anthropic's alone.
        otpm: Output tokens a minute; Anthropic's alone.
        burst: Seconds of the limits that a rested account can spend at once.
        cached: Share of the input that counts as read from a cache.
        caches: What is kept of prompts, where their cache is not a share but at work.
        logprobs: Whether log-probabilities are given where they are asked for.
        thinking: Hidden tokens of every answer.
        lengths: How many tokens texts have.
        journal: File to append a line a request to.
        keep: Whether entries are kept in memory, too.
        bodies: Whether the journal holds the whole body.
        batch_seconds: How long a batch takes; its lines are answered at the end of that.
        enqueued_tokens: Input tokens that a model's open batches may have together.
        on_event: Called at once, and to its end, with each step in a batch's life: "file_received",
            "create_received" (there is no batch yet), "created" (nothing is answered yet),
            "listed", "results_half", "cancelled".
    """

    def __init__(
        self,
        providers: Iterable[str] = tuple(PROVIDERS),
        *,
        judge: Judge = knowing.judge,
        key: str | None = "a-key-for-tests-only",
        faults: Iterable[Fault] = (),
        seed: int = 0,
        latency: float = 0.0,
        jitter: float = 0.0,
        rpm: Limit = None,
        tpm: Limit = None,
        itpm: Limit = None,
        otpm: Limit = None,
        burst: float = 10.0,
        cached: float = 0.0,
        caches: Caches | None = None,
        thinking: int = 0,
        logprobs: bool = True,
        lengths: Lengths | None = None,
        journal: str | Path | None = None,
        keep: bool = True,
        bodies: bool = False,
        batch_seconds: float = 0.0,
        enqueued_tokens: Limit = None,
        on_event: OnEvent | None = None,
        port: int = 0,
    ) -> None:
        self.providers = tuple(providers)
        self.judge, self.key, self.seed = judge, key, seed
        self.faults = tuple(faults)
        self.latency, self.jitter = latency, jitter
        self.cached, self.thinking, self.bodies = cached, thinking, bodies
        self.caches, self.logprobs = caches, logprobs
        self.lengths = lengths or Lengths()
        self.url = ""
        self.outcomes: Counter[str] = Counter()
        self.in_flight = self.peak_in_flight = 0
        self.on_event = on_event
        self.traffic = Traffic()
        self.store = Store(
            self,
            PROVIDERS,
            BATCHES,
            seconds=batch_seconds,
            enqueued=enqueued_tokens,
        )
        self._books = LedgerWriter()
        self._journal = Journal(journal, keep=keep)
        self._seen: Counter[str] = Counter()
        self.limits = Limits(rpm, tpm, itpm, otpm, burst)
        self._count = 0
        self._port = port
        self.may_answer = asyncio.Event()
        self.may_answer.set()
        self._left = inf
        """answers until they are held back"""

    @property
    def journal(self) -> list[dict[str, Any]]:
        """One entry for each request that came to an end, in that order."""
        return self._journal.entries

    @property
    def faults(self) -> tuple[Fault, ...]:
        return self._faults

    @faults.setter
    def faults(self, faults: Iterable[Fault]) -> None:
        self._faults = tuple(faults)
        self._struck: Counter[int] = Counter()  # by place: each new list is counted anew
        known = {*ANSWER_FAULTS, *WIRE_FAULTS, *BATCH_FAULTS, *BATCH_WIRE_FAULTS}
        known |= set().union(*(p.ERRORS for p in PROVIDERS.values()))
        if unknown := [fault.name for fault in self._faults if fault.name not in known]:
            raise ValueError(f"unknown fault {unknown[0]!r}; known: {', '.join(sorted(known))}")
        if unknown := [f.endpoint for f in self._faults if f.endpoint not in (None, *ENDPOINTS)]:
            raise ValueError(f"unknown endpoint {unknown[0]!r}; known: {', '.join(ENDPOINTS)}")

    @property
    def urls(self) -> dict[str, str]:
        """The base URL that each provider's SDK takes."""
        return {name: self.url + PROVIDERS[name].BASE for name in self.providers}

    def books(self) -> dict[tuple[str, str, bool], dict[str, int]]:
        """What was billed, by provider, model, and whether in a batch: see `Books`."""
        return {account: dict(sums) for account, sums in list(self._books.sums.items())}

    def emit(self, provider: str, event: str, **details: Any) -> None:
        """Tell ``on_event``, and go on when it returns."""
        if self.on_event is not None:
            self.on_event(provider, event, details)

    # Serving

    async def start(self) -> web.AppRunner:
        """Serve on the running loop, until the runner's ``cleanup``."""
        app = web.Application(client_max_size=256 * 2**20)
        for name in self.providers:
            for path, endpoint in PROVIDERS[name].ROUTES.items():
                app.router.add_post(PROVIDERS[name].BASE + path, self._handler(name, endpoint))
            for method, path, endpoint, ask in BATCHES[name].ROUTES:
                handler = self._handler(name, endpoint, ask)
                app.router.add_route(method, PROVIDERS[name].BASE + path, handler)
        app.router.add_get("/stats", self._stats)
        app.router.add_get("/books", self._show_books)
        app.router.add_get("/{what:hold|release}", self._hold)
        app.on_cleanup.append(self.store.close)
        app.cleanup_ctx.append(self._watch_stops)
        runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1)
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", self._port, backlog=4096).start()
        host, port = runner.addresses[0][:2]
        self.url = f"http://{host}:{port}"
        return runner

    async def _watch_stops(self, _: web.Application) -> AsyncIterator[None]:
        watching = asyncio.create_task(self.limits.stops.watch())
        yield
        watching.cancel()

    def __enter__(self) -> "Fakes":
        started = threading.Event()
        self._loop = asyncio.new_event_loop()

        def run() -> None:
            asyncio.set_event_loop(self._loop)
            self._runner = self._loop.run_until_complete(self.start())
            started.set()
            self._loop.run_forever()
            self._loop.run_until_complete(self._runner.cleanup())
            self._loop.close()

        self._thread = threading.Thread(target=run, name="fakes", daemon=True)
        self._thread.start()
        if not started.wait(10):
            raise RuntimeError("the fakes did not start")
        return self

    def __exit__(self, *_: object) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(10)
        self._journal.close()

    async def _stats(self, _: web.Request) -> web.Response:
        models = {":".join(model): figures for model, figures in self.traffic.models.items()}
        stats = {
            "outcomes": self.outcomes,
            "in_flight": self.in_flight,
            "peak_in_flight": self.peak_in_flight,
            "open_batches": sum(not batch.settled for batch in self.store.batches.values()),
            "models": models,
        }
        return web.Response(body=orjson.dumps(stats), content_type=JSON)

    async def _show_books(self, _: web.Request) -> web.Response:
        rows = [
            {"provider": provider, "model": model, "batch": batch, **sums}
            for (provider, model, batch), sums in self.books().items()
        ]
        return web.Response(body=orjson.dumps(rows), content_type=JSON)

    async def _hold(self, request: web.Request) -> web.Response:
        """Hold back all answers of models, perhaps after some more, until they are released."""
        held, after = request.match_info["what"] == "hold", int(request.query.get("after", 0))
        self._left = after if held else inf
        (self.may_answer.clear if held and not after else self.may_answer.set)()
        return web.Response(body=orjson.dumps(held), content_type=JSON)

    # One request

    def _handler(
        self, name: str, endpoint: str, ask: Callable[[Call], Any] | None = None
    ) -> Callable[[web.Request], Any]:
        async def handle(request: web.Request) -> web.StreamResponse:
            self.in_flight += 1
            self.peak_in_flight = max(self.peak_in_flight, self.in_flight)
            try:
                if ask is None:
                    return await respond(self, name, endpoint, request)
                return await serve(self, name, endpoint, request, ask)
            finally:
                self.in_flight -= 1

        return handle

    def entry(self, name: str, endpoint: str, sha: str) -> dict[str, Any]:
        """The beginning of an entry in the journal; counts the requests, and those of each sha."""
        seen, self._seen[sha] = self._seen[sha], self._seen[sha] + 1
        self._count += 1
        return {
            "id": f"req_{self._count:08}",
            "provider": name,
            "endpoint": endpoint,
            "model": "",
            "sha": sha,
            "seen": seen,
            "arrived": time.time(),
        }

    def bill(self, entry: dict[str, Any], said: Said, *, batch: bool = False) -> None:
        """Put what an answer costs into its entry and the books."""
        usage = {**PROVIDERS[entry["provider"]].billed(said), "batch": batch}
        entry |= {"input_tokens": said.input_tokens, "output_tokens": said.output_tokens}
        entry["usage"] = usage
        self._books.bill(entry["provider"], entry["model"], usage)

    def answer(self, name: str, asked: Asked, request_id: str, kind: str) -> Said:
        """What the judge says, spoilt by a fault of that name ("ok": by none)."""
        verdict = self.judge(asked.system, asked.user, asked.schema, asked.model)
        letters = {} if asked.schema or not isinstance(verdict, dict) else verdict
        text = spoil(kind, max(letters, key=letters.__getitem__) if letters else verdict)
        if kind in ("refusal", "filtered"):
            text = "I cannot help with that."
        size = self.lengths.of_input(asked)
        about = int(size * self.cached)
        read = PROVIDERS[name].read_from_cache(about)
        said = Said(
            id=request_id,
            kind=kind if kind in ("refusal", "filtered", "truncated") else "ok",
            text=text,
            input_tokens=size,
            output_tokens=self.thinking,
            cached_tokens=read,
            thinking_tokens=self.thinking,
            cache_write_tokens=about - read,
            letters=letters if kind == "ok" and self.logprobs else {},
        )
        return self.lengths.spoken(asked, said, self.seed)

    def strike(self, possible: set[str], entry: dict[str, Any]) -> Fault | None:
        """The first fault of these names that strikes what the entry is about."""
        provider, endpoint = entry["provider"], entry["endpoint"]
        for place, fault in enumerate(self._faults):
            if fault.name not in possible:
                continue
            if not fault.strikes(provider, endpoint, self.seed, entry["sha"], entry["seen"]):
                continue
            if fault.total is not None and self._struck[place] >= fault.total:
                continue
            self._struck[place] += 1
            return fault
        return None

    def record(self, entry: dict[str, Any], outcome: str, status: int) -> None:
        """Close an entry and write it."""
        self.outcomes[outcome] += 1
        self._left -= 1
        if self._left <= 0:
            self.may_answer.clear()
        entry |= {"outcome": outcome, "status": status, "finished": time.time()}
        self._journal.write(entry)
