"""One server for the three providers' fakes; what differs between them is in their own modules.

Batches and files will be more routes of the same server, over the same `Fakes.answer`.
"""

import asyncio
import hashlib
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable
from pathlib import Path
from types import ModuleType
from typing import Any

import orjson
from aiohttp import web

from tests.fakes import anthropic, gemini, knowing, openai
from tests.fakes.parts import (
    ANSWER_FAULTS,
    WIRE_FAULTS,
    Asked,
    Fault,
    Invalid,
    Journal,
    Limits,
    Said,
    cut_to_limit,
    draw,
    spoil,
    tokens,
)

PROVIDERS: dict[str, ModuleType] = {
    "openai": openai,
    "anthropic": anthropic,
    "gemini": gemini,
}
JSON = "application/json"
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
        rpm: Requests a minute, of each model.
        tpm: Tokens a minute, of each model: input on arrival, output (not Gemini's) when answered.
        burst: Seconds of ``rpm`` and ``tpm`` that a rested account can spend at once.
        cached: Share of the input that counts as read from a cache.
        thinking: Hidden tokens of every answer.
        journal: File to append a line a request to.
        keep: Whether entries are kept in memory, too.
        bodies: Whether the journal holds the whole body.
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
        rpm: float | None = None,
        tpm: float | None = None,
        burst: float = 10.0,
        cached: float = 0.0,
        thinking: int = 0,
        journal: str | Path | None = None,
        keep: bool = True,
        bodies: bool = False,
        port: int = 0,
    ) -> None:
        self.providers = tuple(providers)
        self.judge, self.key, self.seed = judge, key, seed
        self.faults = tuple(faults)
        self.latency, self.jitter = latency, jitter
        self.cached, self.thinking, self.bodies = cached, thinking, bodies
        self.url = ""
        self.outcomes: Counter[str] = Counter()
        self.in_flight = self.peak_in_flight = 0
        self._journal = Journal(journal, keep=keep)
        self._seen: Counter[str] = Counter()
        self._struck: Counter[int] = Counter()
        self._limits = Limits(rpm, tpm, burst)
        self._count = 0
        self._port = port

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
        known = {*ANSWER_FAULTS, *WIRE_FAULTS}.union(*(p.ERRORS for p in PROVIDERS.values()))
        if unknown := [fault.name for fault in self._faults if fault.name not in known]:
            raise ValueError(f"unknown fault {unknown[0]!r}; known: {', '.join(sorted(known))}")

    @property
    def urls(self) -> dict[str, str]:
        """The base URL that each provider's SDK takes."""
        return {name: self.url + PROVIDERS[name].BASE for name in self.providers}

    # Serving

    async def start(self) -> web.AppRunner:
        """Serve on the running loop, until the runner's ``cleanup``."""
        app = web.Application(client_max_size=256 * 2**20)
        for name in self.providers:
            for path, endpoint in PROVIDERS[name].ROUTES.items():
                app.router.add_post(PROVIDERS[name].BASE + path, self._handler(name, endpoint))
        app.router.add_get("/stats", self._stats)
        runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1)
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", self._port, backlog=4096).start()
        host, port = runner.addresses[0][:2]
        self.url = f"http://{host}:{port}"
        return runner

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
        stats = {"outcomes": self.outcomes, "peak_in_flight": self.peak_in_flight}
        return web.Response(body=orjson.dumps(stats), content_type=JSON)

    # One request

    def _handler(self, name: str, endpoint: str) -> Callable[[web.Request], Any]:
        async def handle(request: web.Request) -> web.StreamResponse:
            self.in_flight += 1
            self.peak_in_flight = max(self.peak_in_flight, self.in_flight)
            try:
                return await self._respond(name, endpoint, request)
            finally:
                self.in_flight -= 1

        return handle

    async def _respond(self, name: str, endpoint: str, request: web.Request) -> web.StreamResponse:
        provider = PROVIDERS[name]
        arrived = time.time()
        body = await request.read()
        sha = hashlib.sha256(body).hexdigest()
        seen, self._seen[sha] = self._seen[sha], self._seen[sha] + 1
        self._count += 1
        entry = {
            "id": f"req_{self._count:08}",
            "provider": name,
            "endpoint": endpoint,
            "model": "",
            "sha": sha,
            "seen": seen,
            "attempt": request.headers.get("x-stainless-retry-count"),
            "arrived": arrived,
        }
        if self.bodies:
            entry["body"] = body.decode(errors="replace")
        key = provider.key_of(request)
        if self.key is not None and key != self.key:
            return self._error(entry, Fault("wrong_key"), f"Incorrect API key provided: {key}.")
        try:
            path = {**request.match_info, "endpoint": endpoint}
            asked = provider.read(path, orjson.loads(body))
        except (Invalid, ValueError, LookupError, TypeError, AttributeError) as error:
            fault = Fault(getattr(error, "name", None) or "bad_request")
            return self._error(entry, fault, str(error))
        entry["model"] = asked.model
        if endpoint == "count":
            return self._send(entry, "count", provider.count(asked.input_tokens))
        if wait := self._limits.wait(name, asked.model, asked.input_tokens):
            return self._error(entry, Fault("429", retry_after=wait), "", outcome="throttled")
        fault = self._draw(provider, name, sha, seen)
        if self.latency:
            share = 2 * draw(self.seed, "latency", sha, seen) - 1
            await asyncio.sleep(self.latency * (1 + self.jitter * share))
        if fault is not None and fault.name in provider.ERRORS:
            return self._error(entry, fault, fault.message or f"This is the fault {fault.name}.")
        if fault is not None and fault.name in WIRE_FAULTS:
            return await self._break(entry, fault, request)
        said = self.answer(asked, entry["id"], fault.name if fault else "ok")
        self._limits.answered(name, asked.model, said.output_tokens)
        entry |= {"input_tokens": said.input_tokens, "output_tokens": said.output_tokens}
        return self._send(entry, fault.name if fault else said.kind, provider.answer(asked, said))

    def answer(self, asked: Asked, request_id: str, kind: str) -> Said:
        """What the judge says, spoilt by a fault of that name ("ok": by none)."""
        verdict = self.judge(asked.system, asked.user, asked.schema, asked.model)
        text = spoil(kind, verdict)
        if kind in ("refusal", "filtered"):
            text = "I cannot help with that."
        said = Said(
            id=request_id,
            kind=kind if kind in ("refusal", "filtered", "truncated") else "ok",
            text=text,
            input_tokens=asked.input_tokens,
            output_tokens=tokens(text) + self.thinking,
            cached_tokens=int(asked.input_tokens * self.cached),
            thinking_tokens=self.thinking,
        )
        return cut_to_limit(said, asked.max_tokens)

    def _draw(self, provider: ModuleType, name: str, sha: str, seen: int) -> Fault | None:
        possible = {*ANSWER_FAULTS, *WIRE_FAULTS, *provider.ERRORS}
        for place, fault in enumerate(self._faults):
            if fault.name not in possible or not fault.strikes(name, self.seed, sha, seen):
                continue
            if fault.total is not None and self._struck[place] >= fault.total:
                continue
            self._struck[place] += 1
            return fault
        return None

    # Responses

    def _send(
        self,
        entry: dict[str, Any],
        outcome: str,
        body: Any,
        status: int = 200,
        headers: dict[str, str] | None = None,
    ) -> web.Response:
        self._record(entry, outcome, status)
        data = body if isinstance(body, bytes) else orjson.dumps(body)
        shape = "text/html" if isinstance(body, bytes) else JSON
        provider = PROVIDERS[entry["provider"]]
        rates = provider.rate_headers(self._limits.rates(entry["provider"], entry["model"]))
        sent = {provider.REQUEST_ID: entry["id"], **rates, **(headers or {})}
        return web.Response(status=status, body=data, content_type=shape, headers=sent)

    def _error(
        self, entry: dict[str, Any], fault: Fault, message: str, outcome: str = ""
    ) -> web.Response:
        error = PROVIDERS[entry["provider"]].error
        status, body, headers = error(fault.name, message, fault.retry_after, entry["id"])
        return self._send(entry, outcome or fault.name, body, status, {**headers, **fault.headers})

    async def _break(
        self, entry: dict[str, Any], fault: Fault, request: web.Request
    ) -> web.StreamResponse:
        if fault.name == "malformed":
            return self._send(entry, "malformed", {"object": None, "choices": None})
        if fault.name == "not_json":
            return self._send(entry, "not_json", b"<html><body>Welcome</body></html>")
        if fault.name == "gateway":
            return self._send(entry, "gateway", b"<html><body>Bad Gateway</body></html>", 502)
        self._record(entry, fault.name, 0)
        while fault.name == "timeout" and request.transport is not None:
            await asyncio.sleep(0.02)
        if request.transport is not None:
            request.transport.abort()
        return web.Response()

    def _record(self, entry: dict[str, Any], outcome: str, status: int) -> None:
        self.outcomes[outcome] += 1
        entry |= {"outcome": outcome, "status": status, "finished": time.time()}
        self._journal.write(entry)
