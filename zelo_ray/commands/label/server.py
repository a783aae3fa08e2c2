"""Serve the page where people judge, to this machine only.

Other users of this machine cannot use it, because its address contains a key. Nor can other pages
in the same browser: requests that name another host (DNS rebinding) or lack the key are refused.
"""

import asyncio
import contextlib
import hashlib
import os
import secrets
import threading
from collections.abc import Awaitable, Callable, Coroutine, Iterator
from pathlib import Path
from typing import Any

import orjson
from aiohttp import web

from zelo_ray.commands.label.page import render_page
from zelo_ray.commands.label.queue import LabelQueue
from zelo_ray.errors import InputError, OptionError

_HOST = "127.0.0.1"
_KEY = ".key"
_LONGEST = 2**16  # bytes of a request
_NAME = 60  # characters
_HEADERS = {
    "Cache-Control": "no-store",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
}
_Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


@contextlib.contextmanager
def serve_page(queue: LabelQueue, again: str, then: str, port: int = 0) -> Iterator[str]:
    """Serve the page from a thread while the context lasts; yield its address.

    The directory of the labels determines the key, and the port if that is free, so that an open
    page finds the next server.
    """
    token = _read_token(Path(queue.out))
    runner = web.AppRunner(
        _application(queue, *render_page(queue, again, then, token), token),
        access_log=None,
        shutdown_timeout=1,
    )
    digest = hashlib.sha256(str(Path(queue.out).resolve()).encode()).digest()
    usual = 49152 + int.from_bytes(digest[:2]) % 16000
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever, daemon=True)
    thread.start()

    def wait_for(work: Coroutine[Any, Any, None]) -> None:
        asyncio.run_coroutine_threadsafe(work, loop).result()

    try:
        wait_for(runner.setup())
        wait_for(_listen(runner, (port,) if port else (usual, 0)))
        yield f"http://{_HOST}:{runner.addresses[0][1]}/?key={token}"
    finally:
        wait_for(runner.cleanup())
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()


async def _listen(runner: web.AppRunner, ports: tuple[int, ...]) -> None:
    """Listen on the first port that is free."""
    for port in ports:
        try:
            return await web.TCPSite(runner, _HOST, port).start()
        except OSError as error:
            why = error.strerror or str(error)
    raise OptionError(f"port: {ports[0]} on {_HOST} is not available ({why})")


def _application(queue: LabelQueue, page: str, policy: str, token: str) -> web.Application:
    async def show(_: web.Request) -> web.Response:
        return web.Response(text=page, content_type="text/html")

    async def reply(request: web.Request) -> web.Response:
        return web.json_response(_reply(queue, request.path, await request.read()))

    @web.middleware
    async def guard(request: web.Request, handler: _Handler) -> web.StreamResponse:
        """Refuse other pages, hosts and users; say of errors what they are."""
        status, why = 200, ""
        try:
            _check(request, token)
            response = await handler(request)
        except web.HTTPException as error:
            status, why = error.status, error.text or error.reason
        except InputError as error:
            status, why = 400, str(error)
        except OSError as error:
            status, why = 507, f"not saved: {error.strerror or error}"
        if why:
            response = web.json_response({"error": why}, status=status)
        response.headers.update({**_HEADERS, "Content-Security-Policy": policy})
        return response

    application = web.Application(client_max_size=_LONGEST, middlewares=[guard])
    application.router.add_get("/", show)
    for path in ("/take", "/progress", "/answer", "/undo"):
        application.router.add_post(path, reply)
    return application


def _check(request: web.Request, token: str) -> None:
    """Refuse a request for another host, from another page, or without the key."""
    port = request.transport.get_extra_info("sockname")[1] if request.transport else 0
    hosts = (f"{_HOST}:{port}", f"localhost:{port}")
    if request.headers.get("Host") not in hosts:
        raise web.HTTPMisdirectedRequest(text="wrong host name")
    if request.headers.get("Origin") not in (None, *(f"http://{host}" for host in hosts)):
        raise web.HTTPForbidden(text="request from another page")
    is_page = request.method == "GET"
    offered = request.query.get("key", "") if is_page else request.headers.get("X-Token", "")
    if not secrets.compare_digest(offered.encode(errors="replace"), token.encode()):
        why = "open the full address that zelo-ray label printed, including its key"
        raise web.HTTPForbidden(text=why)
    if (size := request.content_length or 0) > _LONGEST:  # else its end would be waited for
        raise web.HTTPRequestEntityTooLarge(max_size=_LONGEST, actual_size=size)


def _reply(queue: LabelQueue, path: str, body: bytes) -> dict[str, Any]:
    """Answer a request of the page."""
    try:
        message = orjson.loads(body)
    except orjson.JSONDecodeError:
        message = None
    if not isinstance(message, dict):
        raise InputError("expected a JSON object")
    name = message.get("person")
    person = " ".join(name.split()) if isinstance(name, str) else ""
    if not 0 < len(person) <= _NAME or not person.isprintable():
        raise InputError(f"a name must have 1 to {_NAME} printable characters")
    if path == "/take":
        return queue.next(person)
    if path == "/progress":
        return {"progress": queue.progress(person)}
    key = str(message.get("key"))
    if path == "/undo":
        return queue.undo(person, key)
    value, note = message.get("value", ""), message.get("note", "")
    if isinstance(value, bool) or not isinstance(value, int | None) or not isinstance(note, str):
        raise InputError("an answer must be a whole number or null, and a reason a text")
    number = None if value is None else float(value)
    return queue.answer(person, key, number, " ".join(note.split()))


def _read_token(out: Path) -> str:
    """Return the key of a directory of labels, kept in a file that only its owner can read."""
    path = out / _KEY
    if path.exists() and (key := path.read_text().strip()):
        return key
    path.unlink(missing_ok=True)  # a killed process may leave an empty one
    key = secrets.token_urlsafe(24)
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
        file.write(key)
    return key
