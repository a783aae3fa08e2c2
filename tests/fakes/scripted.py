"""A server that says what a test tells it to, whatever it is asked."""

import json
import sys
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any


class _Server(ThreadingHTTPServer):
    def handle_error(self, request: Any, client_address: Any) -> None:
        """Say nothing of a client that was killed: a command of this process would seem to."""
        if not isinstance(sys.exc_info()[1], ConnectionError):
            super().handle_error(request, client_address)


class Scripted:
    """A context manager that answers each request with what ``script`` makes of its body.

    Args:
        script: takes the decoded body and returns a status, headers and a body: text, bytes, or
            what is written as JSON; or just such a body, which comes with status 200.
    """

    def __init__(self, script: Callable[[Any], Any] | Any) -> None:
        self.script = script if callable(script) else lambda _: script
        self.bodies: list[Any] = []

    def answer(self, path: str, asked: Any) -> Any:
        """What is said to a request."""
        del path
        return self.script(asked)

    @property
    def url(self) -> str:
        """Where it listens; every path is its own."""
        return f"http://127.0.0.1:{self._server.server_port}"

    def __enter__(self) -> "Scripted":
        this = self

        class Answering(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self) -> None:
                size = int(self.headers["Content-Length"] or 0)
                asked = json.loads(self.rfile.read(size) or "null")
                this.bodies.append(asked)
                told = this.answer(self.path, asked)
                status, headers, body = told if isinstance(told, tuple) else (200, {}, told)
                if not isinstance(body, bytes):
                    body = (body if isinstance(body, str) else json.dumps(body)).encode()
                kind = "text/html" if body.startswith(b"<") else "application/json"
                self.send_response(status)
                for name, value in {"Content-Type": kind, **headers}.items():
                    self.send_header(name, value)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            do_GET = do_POST  # noqa: N815 - as http.server calls it

            def log_message(self, *_: Any) -> None:
                pass

        self._server = _Server(("127.0.0.1", 0), Answering)
        self._server.daemon_threads = True
        Thread(target=self._server.serve_forever, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()
