"""Servers that do not answer, by the real clients: what is said, and what it may have cost."""

import asyncio
import contextlib
import datetime
import re
import socket
import ssl
import threading
from functools import partial

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

from tests.fakes import Fakes, Fault
from tests.helpers.builders import judge_of, options_of, pool_of, request_of
from zelo_ray.protocols import find_protocol
from zelo_ray.providers import Retry, RetryKind, Settings, load_provider, no_response

CLIENTS = ("openai", "anthropic", "gemini", "cohere")
KEY = "sk-only-for-tests-0123456789"
HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n"


def send(client, url, seconds=5.0):
    """What one call of a client raises."""
    known = load_provider(client)
    judge = judge_of(f"{client}:m", **known.options)
    request = request_of(judge=judge)
    if client == "cohere":
        (request,) = next(find_protocol("rerank").rounds(pool_of(), (judge,), options_of()))

    async def run():
        provider = known.connect(Settings(KEY, url, seconds))
        try:
            await provider.send(request)
        finally:
            await provider.aclose()

    with pytest.raises(Retry) as caught:
        asyncio.run(run())
    return caught.value


@contextlib.contextmanager
def server(handle):
    """Hand every connection to a function, in a thread; the server's port."""
    with socket.create_server(("127.0.0.1", 0)) as listening:

        def accept():
            while True:
                try:
                    connection, _ = listening.accept()
                except OSError:
                    return
                with connection, contextlib.suppress(OSError):
                    handle(connection)

        threading.Thread(target=accept, daemon=True).start()
        yield listening.getsockname()[1]
        listening.shutdown(socket.SHUT_RDWR)


def close(connection):
    """At once."""


def reset(connection):
    connection.recv(1)
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")


def hang(connection):
    while connection.recv(65536):
        pass


def say(words, connection):
    connection.recv(65536)
    connection.sendall(words)


WIRE = {
    "closed after accept": (close, "connection (reset|closed before the answer was complete)"),
    "reset": (reset, "connection reset"),
    "hangs": (hang, r"no answer within 0\.5 s"),
    "garbage": (partial(say, b"\0\1what is this\r\n\r\n"), "an answer that is not HTTP"),
    "half": (
        partial(say, HEAD + b'Content-Length: 100\r\n\r\n{"a":'),
        "connection closed before the answer was complete",
    ),
}


@pytest.mark.parametrize("client", CLIENTS)
@pytest.mark.parametrize("trouble", WIRE)
def test_a_connection_that_breaks_may_have_cost_something(client, trouble):
    handle, words = WIRE[trouble]
    with server(handle) as port:
        error = send(client, f"http://127.0.0.1:{port}", 0.5 if trouble == "hangs" else 5.0)
    check(error, client, words, unreached=False, unsettled=True)


def check(error, client, words, *, unreached, unsettled):
    assert re.fullmatch(f"{client}:m: {words}", str(error))
    assert error.kind is (RetryKind.UNREACHED if unreached else RetryKind.OTHER)
    assert error.unsettled == unsettled


@pytest.mark.parametrize("client", CLIENTS)
def test_nobody_listens(client):
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        error = send(client, f"http://127.0.0.1:{bound.getsockname()[1]}")
    check(error, client, "connection refused", unreached=True, unsettled=False)


@pytest.mark.parametrize("client", CLIENTS)
def test_a_host_that_is_none(client):
    error = send(client, "http://nobody.invalid:1")
    check(error, client, "host name not known", unreached=True, unsettled=False)


@pytest.mark.parametrize("client", ["openai", "anthropic", "cohere"])
def test_a_host_that_takes_no_connection(client, monkeypatch):
    """Its queue of connections is full, which looks as a firewall does that drops them."""
    place = "rerankers.hosted" if client == "cohere" else "providers.dialect"
    monkeypatch.setattr(f"zelo_ray.{place}.CONNECT_SECONDS", 0.2)
    with socket.create_server(("127.0.0.1", 0), backlog=0) as full, contextlib.ExitStack() as stack:
        for _ in range(3):
            waiting = stack.enter_context(socket.socket())
            waiting.setblocking(False)
            waiting.connect_ex(full.getsockname())
        error = send(client, f"http://127.0.0.1:{full.getsockname()[1]}")
    seconds = f"{no_response.CONNECT_SECONDS:g}"
    check(error, client, f"no connection within {seconds} s", unreached=True, unsettled=False)


@pytest.fixture(scope="module")
def tls(tmp_path_factory):
    """A context with a certificate that only its own key has signed."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "localhost")])
    now = datetime.datetime.now(datetime.UTC)
    builder = x509.CertificateBuilder(name, name, key.public_key(), x509.random_serial_number())
    builder = builder.not_valid_before(now).not_valid_after(now + datetime.timedelta(days=1))
    certificate = builder.sign(key, hashes.SHA256())
    pem, how = serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8
    path = tmp_path_factory.mktemp("tls") / "both.pem"
    plain = serialization.NoEncryption()
    path.write_bytes(key.private_bytes(pem, how, plain) + certificate.public_bytes(pem))
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(path)
    return context


@pytest.mark.parametrize("client", CLIENTS)
def test_a_certificate_that_nobody_vouches_for(client, tls):
    def handle(connection):
        tls.wrap_socket(connection, server_side=True).close()

    with server(handle) as port:
        error = send(client, f"https://localhost:{port}")
    words = r"certificate not valid \(self-signed certificate\)"
    check(error, client, words, unreached=True, unsettled=False)


@pytest.mark.parametrize("client", CLIENTS)
def test_a_server_without_tls(client):
    with server(partial(say, b"HTTP/1.1 400 Bad Request\r\n\r\n")) as port:
        error = send(client, f"https://127.0.0.1:{port}")
    check(error, client, r"no TLS connection \(.+\)", unreached=True, unsettled=False)


@pytest.mark.parametrize("client", CLIENTS[:3])
def test_only_a_success_that_tells_no_usage_is_unsettled(client):
    """An error's status says that nothing was billed; a response that counts is settled by that."""
    found = {}
    for fault in ("malformed", "not_json", "malformed_billed", "429", "503", "504"):
        with Fakes([client], key=KEY, faults=[Fault(fault)]) as fakes:
            error = send(client, fakes.urls[client])
        assert error.kind is not RetryKind.UNREACHED
        found[fault] = error.unsettled
    unsettled = {"malformed", "not_json"}
    assert found == {fault: fault in unsettled for fault in found}
