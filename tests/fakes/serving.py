"""One request: what is asked, what goes wrong with it, and how that is sent."""

import asyncio
import hashlib
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import replace
from types import ModuleType
from typing import Any

import orjson
from aiohttp import web

from tests.fakes import anthropic, anthropic_batches, gemini, gemini_batches, openai, openai_batches
from tests.fakes.batches import Call, Out
from tests.fakes.parts import ANSWER_FAULTS, WIRE_FAULTS, Fault, Invalid, draw, question_sha

PROVIDERS: dict[str, ModuleType] = {
    "openai": openai,
    "anthropic": anthropic,
    "gemini": gemini,
}
BATCHES: dict[str, ModuleType] = {
    "openai": openai_batches,
    "anthropic": anthropic_batches,
    "gemini": gemini_batches,
}
JSON = "application/json"
_PAGE = b"<html><body>%b</body></html>"


async def respond(fakes: Any, name: str, endpoint: str, request: web.Request) -> web.StreamResponse:
    """Answer a call that asks a model."""
    provider = PROVIDERS[name]
    arrived = time.time()
    body = await request.read()
    path = request.match_info
    sha, parsed = sha_of(provider, path, body)
    entry = fakes.entry(name, endpoint, sha)
    entry |= {"attempt": request.headers.get("x-stainless-retry-count"), "arrived": arrived}
    if fakes.bodies:
        entry["body"] = body.decode(errors="replace")
    key = provider.key_of(request)
    if fakes.key is not None and key != fakes.key:
        return _error(fakes, entry, Fault("wrong_key"), f"Incorrect API key provided: {key}.")
    try:
        asked = provider.read(path, parsed)
    except (Invalid, ValueError, LookupError, TypeError, AttributeError) as error:
        fault = Fault(getattr(error, "name", None) or "bad_request")
        return _error(fakes, entry, fault, str(error))
    entry["model"] = asked.model
    size = fakes.lengths.of_input(asked)
    came = time.monotonic()
    fakes.traffic.came(key, name, asked.model, came)
    read = provider.read_from_cache(int(size * fakes.cached))
    texts = (asked.system, asked.user)
    kept = fakes.caches and fakes.caches.look(name, asked.model, texts, parsed)
    if wait := fakes.limits.wait(name, asked.model, size, read):
        fakes.traffic.throttled(key, name, asked.model, came, wait)
        return _error(fakes, entry, Fault("429", retry_after=wait), "", outcome="throttled")
    fault = fakes.strike({*ANSWER_FAULTS, *WIRE_FAULTS, *provider.ERRORS}, entry)
    if fakes.latency:
        share = 2 * draw(fakes.seed, "latency", sha, entry["seen"]) - 1
        await asyncio.sleep(fakes.latency * (1 + fakes.jitter * share))
    await fakes.may_answer.wait()
    if fault is not None and fault.name in provider.ERRORS:
        if provider.ERRORS[fault.name][0] == 429:
            now = time.monotonic()
            fakes.traffic.throttled(key, name, asked.model, now, fault.retry_after)
        return _error(fakes, entry, fault, fault.message or f"This is the fault {fault.name}.")
    fakes.traffic.accepted(name, asked.model, arrived)
    if fault is not None and fault.name in WIRE_FAULTS and not fault.name.endswith("_billed"):
        return await _break(fakes, entry, fault, request)
    kind = fault.name if fault and fault.name in ANSWER_FAULTS else "ok"
    said = fakes.answer(name, asked, entry["id"], kind)
    if kept is not None:
        fakes.caches.note(name, asked.model, texts, parsed)
        said = replace(said, cached_tokens=kept[0], cache_write_tokens=kept[1])
    fakes.limits.answered(name, asked.model, said.output_tokens)
    fakes.bill(entry, said)
    if fault is not None and fault.name == "timeout_billed":
        return await _break(fakes, entry, fault, request)
    answer = provider.answer(asked, said)
    if fault is not None and fault.name == "malformed_billed":
        del answer[provider.CONTENT]
    return _send(fakes, entry, fault.name if fault else said.kind, answer)


async def serve(
    fakes: Any, name: str, endpoint: str, request: web.Request, ask: Callable[[Call], Any]
) -> web.StreamResponse:
    """Answer a call to an endpoint of files and batches, whose function is ``ask``."""
    provider = PROVIDERS[name]
    arrived = time.time()
    call = Call(fakes, name, request)
    await call.receive()
    place = f"{request.method} {request.path_qs}\n".encode()
    entry = fakes.entry(name, endpoint, hashlib.sha256(place + call.body).hexdigest())
    entry |= {"arrived": arrived, "path": request.path}
    key = provider.key_of(request)
    if fakes.key is not None and key != fakes.key and not BATCHES[name].knows(call):
        return _error(fakes, entry, Fault("wrong_key"), f"Incorrect API key provided: {key}.")
    if endpoint == "create":
        fakes.emit(name, "create_received", bytes=len(call.body))
    fault = fakes.strike({*WIRE_FAULTS, *provider.ERRORS, "create_500", "create_lost"}, entry)
    if fault is not None and fault.name in provider.ERRORS:
        return _error(fakes, entry, fault, fault.message or f"This is the fault {fault.name}.")
    if fault is not None and fault.name == "create_500":
        return _error(fakes, entry, Fault("500"), "This is the fault create_500.", fault.name)
    if fault is not None and fault.name in WIRE_FAULTS:
        return await _break(fakes, entry, fault, request)
    try:
        out: Out = await ask(call)
    except (Invalid, ValueError, LookupError, TypeError, AttributeError) as error:
        refusal = Fault(getattr(error, "name", None) or "bad_request")
        return _error(fakes, entry, refusal, str(error))
    entry |= out.details
    if fault is not None:  # create_lost
        return await _break(fakes, entry, fault, request)
    if out.results_of is None:
        shape = out.shape if isinstance(out.body, bytes) else JSON
        return _send(fakes, entry, endpoint, out.body, headers=out.headers, shape=shape)
    return await _stream(fakes, entry, out, request)


def _send(
    fakes: Any,
    entry: dict[str, Any],
    outcome: str,
    body: Any,
    status: int = 200,
    headers: dict[str, str] | None = None,
    shape: str = JSON,
) -> web.Response:
    fakes.record(entry, outcome, status)
    data = body if isinstance(body, bytes) else orjson.dumps(body)
    provider = PROVIDERS[entry["provider"]]
    rates = provider.rate_headers(fakes.limits.rates(entry["provider"], entry["model"]))
    sent = {provider.REQUEST_ID: entry["id"], **rates, **(headers or {})}
    return web.Response(status=status, body=data, content_type=shape, headers=sent)


def _error(
    fakes: Any, entry: dict[str, Any], fault: Fault, message: str, outcome: str = ""
) -> web.Response:
    error = PROVIDERS[entry["provider"]].error
    status, body, headers = error(fault.name, message, fault.retry_after, entry["id"])
    return _send(fakes, entry, outcome or fault.name, body, status, {**headers, **fault.headers})


async def _break(
    fakes: Any, entry: dict[str, Any], fault: Fault, request: web.Request
) -> web.StreamResponse:
    if fault.name.startswith("malformed"):
        return _send(fakes, entry, fault.name, {"object": None, "choices": None})
    if fault.name == "not_json":
        return _send(fakes, entry, "not_json", _PAGE % b"Welcome", shape="text/html")
    if fault.name == "gateway":
        return _send(fakes, entry, "gateway", _PAGE % b"Bad Gateway", 502, shape="text/html")
    fakes.record(entry, fault.name, 0)
    while fault.name.startswith("timeout") and request.transport is not None:
        await asyncio.sleep(0.02)
    if request.transport is not None:
        request.transport.abort()
    return web.Response()


async def _stream(
    fakes: Any, entry: dict[str, Any], out: Out, request: web.Request
) -> web.StreamResponse:
    """Send results in two halves, or the first alone."""
    batch, name, data = out.results_of, entry["provider"], memoryview(out.body)
    struck = {"provider": name, "endpoint": "results", "sha": batch.sha}
    struck["seen"] = batch.downloads
    batch.downloads += 1
    fault = fakes.strike({"results_cut"}, struck)
    fakes.record(entry, fault.name if fault else entry["endpoint"], 200)
    details = {"batch": batch.id, "bytes": len(data)}
    response = web.StreamResponse(headers={PROVIDERS[name].REQUEST_ID: entry["id"]})
    response.content_type = out.shape
    response.content_length = len(data)
    half = len(data) // 2
    with suppress(ConnectionError):  # whoever is killed halfway reads no more
        await response.prepare(request)
        await response.write(data[:half])
        fakes.emit(name, "results_half", **details)
        if fault is not None:
            if request.transport is not None:
                request.transport.close()  # what was written goes out before
            return response
        await response.write(data[half:])
        await response.write_eof()
    return response


def sha_of(provider: ModuleType, path: Mapping[str, str], body: bytes) -> tuple[str, Any]:
    """What a body asks as a hash, and the parsed body (None: no JSON)."""
    try:
        parsed = orjson.loads(body)
    except ValueError:
        return hashlib.sha256(body).hexdigest(), None
    return question_sha(provider, path, parsed), parsed
