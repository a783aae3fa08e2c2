"""Serve the page where people judge, to this machine only.

Other users of this machine cannot use it, because its address contains a key. Nor can other pages
in the same browser: requests that name another host (DNS rebinding) or lack the key are refused.
"""

import hashlib
import os
import secrets
from collections.abc import Callable
from dataclasses import asdict
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import orjson

from zelo_ray.commands.label.desk import LabelDesk
from zelo_ray.errors import InputError, OptionError

HOST = "127.0.0.1"
_KEY = ".key"
_LONGEST = 2**16  # bytes of a request
_NAME = 60  # characters
_SAFE = {
    "Cache-Control": "no-store",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
}

MakePage = Callable[[str], tuple[str, str]]
"""Returns, for a token, the page and its Content-Security-Policy."""


class _RefusedError(Exception):
    """A request is refused, with a status and a reason."""

    def __init__(self, status: HTTPStatus, why: str) -> None:
        super().__init__(why)
        self.status = status


class Server(ThreadingHTTPServer):
    """Serves a desk on a local port, from `serve_forever` until `shutdown`.

    Args:
        desk: assigns documents or pairs, and saves answers.
        make_page: renders the page.
        out: directory of the labels. It determines the key, and the port if that is free, so that
            an open page finds the next server.
        port: the only one to use, unless it is 0.

    Raises:
        OptionError: the port is not available.
    """

    daemon_threads = True

    def __init__(self, desk: LabelDesk, make_page: MakePage, out: str, port: int = 0) -> None:
        self.desk, self.token = desk, _key_of(Path(out))
        self.page, self.policy = make_page(self.token)
        usual = 49152 + int.from_bytes(_digest(str(Path(out).resolve()))[:2]) % 16000
        for number in (port,) if port else (usual, 0):
            try:
                super().__init__((HOST, number), _Requests)
            except OSError as error:
                why = error.strerror or str(error)
            else:
                return
        raise OptionError(f"port: {port or usual} on {HOST} is not available ({why})")

    @property
    def url(self) -> str:
        """Return the address of the page."""
        return f"http://{HOST}:{self.server_port}/?key={self.token}"

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Ignore browsers that close the connection."""


class _Requests(BaseHTTPRequestHandler):
    """One request: for the page, or from it."""

    server: Server
    protocol_version = "HTTP/1.1"
    timeout = 60

    def do_GET(self) -> None:
        """Send the page, and nothing else."""
        if not self._names_this_host():
            self._send(HTTPStatus.MISDIRECTED_REQUEST, b"wrong host name", "text/plain")
        elif urlsplit(self.path).path != "/":
            self._send(HTTPStatus.NOT_FOUND, b"nothing here", "text/plain")
        elif not self._has_key(parse_qs(urlsplit(self.path).query).get("key", [""])[0]):
            why = b"open the full address that zelo-ray label printed, including its key"
            self._send(HTTPStatus.FORBIDDEN, why, "text/plain")
        else:
            self._send(HTTPStatus.OK, self.server.page.encode(), "text/html; charset=utf-8")

    def do_POST(self) -> None:
        """Answer a JSON request of the page."""
        try:
            status, reply = HTTPStatus.OK, self._answer(self._read_message())
        except _RefusedError as refused:
            status, reply = refused.status, {"error": str(refused)}
        except InputError as error:
            status, reply = HTTPStatus.BAD_REQUEST, {"error": str(error)}
        except OSError as error:
            why = error.strerror or str(error)
            status, reply = HTTPStatus.INSUFFICIENT_STORAGE, {"error": f"not saved: {why}"}
        self._send(status, orjson.dumps(reply), "application/json")

    def _read_message(self) -> dict[str, Any]:
        length = self.headers.get("Content-Length", "")
        if not length.isdecimal() or int(length) > _LONGEST:
            self.close_connection = True
            raise _RefusedError(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, "request too long")
        body = self.rfile.read(int(length))
        if not self._names_this_host():
            raise _RefusedError(HTTPStatus.MISDIRECTED_REQUEST, "wrong host name")
        origin = self.headers.get("Origin", "")
        if origin and origin not in self._origins():
            raise _RefusedError(HTTPStatus.FORBIDDEN, "request from another page")
        if not self._has_key(self.headers.get("X-Token", "")):
            raise _RefusedError(
                HTTPStatus.FORBIDDEN,
                "this page is outdated: open the address that zelo-ray label printed",
            )
        try:
            message = orjson.loads(body)
        except orjson.JSONDecodeError:
            message = None
        if not isinstance(message, dict):
            raise _RefusedError(HTTPStatus.BAD_REQUEST, "expected a JSON object")
        return message

    def _answer(self, question: dict[str, Any]) -> dict[str, Any]:
        desk, person, key = self.server.desk, _name(question.get("person")), question.get("key", "")
        if self.path == "/take":
            return desk.assign_next(person)
        if self.path == "/progress":
            return {"progress": asdict(desk.progress(person))}
        if self.path == "/undo":
            return desk.undo(person, str(key))
        if self.path == "/answer":
            if "value" not in question:
                raise _RefusedError(HTTPStatus.FORBIDDEN, "this page is outdated: load it again")
            value, note = question["value"], question.get("note", "")
            if isinstance(value, bool) or not isinstance(value, int | None):
                raise _RefusedError(
                    HTTPStatus.BAD_REQUEST, "an answer must be a whole number or null"
                )
            if not isinstance(note, str):
                raise _RefusedError(HTTPStatus.BAD_REQUEST, "a reason must be a text")
            value = None if value is None else float(value)
            return desk.save_answer(person, str(key), value, " ".join(note.split()))
        raise _RefusedError(HTTPStatus.NOT_FOUND, "nothing here")

    def _has_key(self, key: str) -> bool:
        return secrets.compare_digest(key.encode(), self.server.token.encode())

    def _names_this_host(self) -> bool:
        hosts = {origin.removeprefix("http://") for origin in self._origins()}
        return self.headers.get("Host", "") in hosts

    def _origins(self) -> set[str]:
        port = self.server.server_port
        return {f"http://{HOST}:{port}", f"http://localhost:{port}"}

    def _send(self, status: HTTPStatus, body: bytes, kind: str) -> None:
        self.send_response(status)
        policy = {"Content-Security-Policy": self.server.policy, "Content-Type": kind}
        for name, value in (*_SAFE.items(), *policy.items()):
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the name is the parent's
        """Do not log requests."""


def _name(given: object) -> str:
    name = " ".join(given.split()) if isinstance(given, str) else ""
    if not name or len(name) > _NAME or not name.isprintable():
        raise _RefusedError(
            HTTPStatus.BAD_REQUEST, f"a name must have 1 to {_NAME} printable characters"
        )
    return name


def _key_of(out: Path) -> str:
    """Return the key of a directory of labels, kept in a file that only its owner can read."""
    path = out / _KEY
    if path.exists() and (key := path.read_text().strip()):
        return key
    path.unlink(missing_ok=True)  # a killed process may leave an empty one
    key = secrets.token_urlsafe(24)
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
        file.write(key)
    return key


def _digest(text: str) -> bytes:
    return hashlib.sha256(text.encode()).digest()
