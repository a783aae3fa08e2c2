"""What would go wrong with a run, told before it begins; and no key is ever told."""

import contextlib
import json
import socket
import threading
import time

import pytest

from tests.fakes import Fakes, Fault
from tests.fakes.scripted import Scripted
from tests.helpers.provider_calls import completion
from zelo_ray import cli, doctor
from zelo_ray.commands import doctor as doctor_module

KEY, BROKEN = "a-key-for-tests-only", "sk-prob-verysecret\nline2"
LUNA, DEAD = "openai:gpt-6-luna", "openai:m@http://127.0.0.1:9/v1"


@pytest.fixture
def found(monkeypatch, tmp_path):
    """What is found by check: state, words, and what to do."""
    monkeypatch.chdir(tmp_path)

    def look(*judges, **options):
        told = [*doctor(judges=list(judges), progress=None, **options).findings]
        assert KEY not in str(told)
        return {row["check"]: (row["state"], row["finding"], row["advice"]) for row in told}

    return look


def raw(*pieces, wait=0.0):
    """A judge at a server that sends these bytes, each after a wait, and hangs up."""
    listening = socket.create_server(("127.0.0.1", 0))

    def serve():
        with contextlib.suppress(OSError):
            with listening:  # closed before the first call ends: a second try is refused
                connection, _ = listening.accept()
            with connection:
                connection.recv(2**16)
                for piece in pieces:
                    connection.sendall(piece)
                    time.sleep(wait)

    threading.Thread(target=serve, daemon=True).start()
    return f"openai:m@http://127.0.0.1:{listening.getsockname()[1]}/v1"


def test_all_is_well_with_judges_that_need_nothing(found, tmp_path):
    told = found("offline", ask=True)
    assert {told[name][0] for name in ("offline:bm25", "call to offline:bm25")} == {"ok"}
    assert "wrong" not in {state for state, *_ in told.values()}
    assert list(tmp_path.iterdir()) == []


def test_the_command_ends_with_1_where_something_is_wrong(capsys, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    for judge, status in (("nope", 1), ("offline", 0)):
        assert cli.main(["doctor", "--judges", judge]) == status
    assert "Next step: zelo-ray doctor --judges offline --ask" in capsys.readouterr().out


def test_a_judge_that_cannot_be_asked_says_why(found):
    for judge, says in (
        ("opnai:x", "did you mean 'openai'"),
        ("offline:bm52", "there are bm25"),
        (LUNA, "set OPENAI_API_KEY"),
        ("cohere:rerank-v4.0-pro", "is a reranker"),
    ):
        told = found(judge, "offline:bm25", ask=True)
        assert (told[judge][0], says in told[judge][1]) == ("wrong", True)
        assert told["call to offline:bm25"][0] == "ok"
    names, own = ("openai:gpt-6", LUNA), {"temperature": 0.1}
    assert "judge_options" not in found(*names, judge_options={LUNA: own})
    state, told, _ = found("offline:bm25", judge_options={"offline:bm52": {}})["judge_options"]
    assert (state, "did you mean 'offline:bm25'" in told) == ("warn", True)


def test_a_call_is_made_where_it_is_asked_for(found, fakes, monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    assert found("openai:no-such-model-7")["openai:no-such-model-7"][0] == "warn", "no price"
    found("openai", "anthropic:claude-haiku-5-5")
    assert fakes.journal == []
    state, told, _ = found("openai", ask=True)[f"call to {LUNA}"]
    assert (state, "$0.0" in told, len(fakes.journal)) == ("ok", True, 1)


# Servers


def test_a_server_that_cuts_prompts_is_wrong(found):
    for most, state in ((2050, "wrong"), (32_000, "ok")):

        def script(body, most=most):
            characters = sum(len(message["content"]) for message in body["messages"])
            used = {"prompt_tokens": min(characters // 5, most), "completion_tokens": 9}
            return completion(usage=used)

        with Scripted(script) as scripted:
            judge = f"openai:m@{scripted.url}/v1"
            assert found(judge, ask=True)[f"call to {judge}"][0] == state


def test_a_server_that_fails_speaks_no_http_or_breaks_off_is_wrong(found, monkeypatch):
    ok = b"HTTP/1.1 200 OK\r\n"
    for said, why in (
        (b"SSH-2.0-OpenSSH_9\r\n\r\n", "not reached"),
        (ok + b"Transfer-Encoding: chunked\r\n\r\n5\r\nab", "broken off"),
        (ok + b"Content-Length: 9\r\n\r\nab", "broken off"),
        (b"", "Connection refused"),  # at the second try
    ):
        judge = raw(said)
        state, told, _ = found(judge)[f"server of {judge}"]
        assert (state, why in told) == ("wrong", True)
    assert found(DEAD)[f"server of {DEAD}"][0] == "wrong"
    with Fakes(faults=[Fault("500", rate=1.0)]) as failing:
        monkeypatch.setenv("OPENAI_BASE_URL", failing.urls["openai"])
        monkeypatch.setenv("OPENAI_API_KEY", KEY)
        assert found("openai", ask=True)[f"call to {LUNA}"][0] == "wrong"


def test_no_server_holds_the_doctor(found, monkeypatch):
    """One drips, one ends no line, one lists models without end."""
    monkeypatch.setattr(doctor_module, "_SERVER_SECONDS", 0.5)
    drops, late = [b"x"] * 20, "no complete answer within 0.5 seconds"
    for head, pieces, wait, says in (
        (b"Content-Length: 99999\r\n\r\n", drops, 0.2, late),
        (b"A: ", drops, 0.2, late),
        (b"\r\n", [b"[" * 2**16] * 4, 0.0, "cannot be read"),
    ):
        judge = raw(b"HTTP/1.1 200 OK\r\n" + head, *pieces, wait=wait)
        assert says in found(judge)[f"server of {judge}"][1]


# Keys


def test_a_key_is_told_by_where_it_is_and_never_itself(found, monkeypatch, tmp_path):
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    monkeypatch.setenv("ANTHROPIC_API_KEY", KEY)
    monkeypatch.delenv("PYTHON_DOTENV_DISABLED")
    (tmp_path / ".env").write_text(f"ANTHROPIC_API_KEY={KEY}\n")
    told = found("openai")
    for provider, place in (
        ("openai", "from the environment"),
        ("anthropic", f"from {tmp_path}/.env"),
        ("gemini", "not set"),
    ):
        assert told[f"key of {provider}"][1].endswith(place)


def test_a_wrong_key_is_told_without_itself(found, fakes, monkeypatch):
    for variable, named in (("OPENAI_API_KEY", {}), ("MYKEY", {LUNA: "MYKEY"})):
        monkeypatch.setenv(variable, "sk-another-key")
        told = found("openai", api_key_env=named, ask=True)
        state, why, _ = told[f"call to {LUNA}"]
        assert (state, f"set {variable} to a valid one (401" in why) == ("wrong", True)
        assert "sk-another-key" not in str(told)


def test_a_part_of_a_key_that_a_server_shows_is_not_told(found, monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", "sk-prob-verysecret")
    for status, message in (
        (401, "Incorrect API key provided: sk-prob********cret"),
        (401, "No key ending in cret"),
        (403, "No access with sk-prob-v...cret or pk***cret here"),
    ):
        error = {"message": message, "type": "invalid_request_error", "code": "wrong_key"}
        body = json.dumps({"error": error}).encode()
        head = f"HTTP/1.1 {status} No\r\nContent-Type: application/json\r\nContent-Length: "
        url = raw(f"{head}{len(body)}\r\n\r\n".encode() + body).partition("@")[2]
        monkeypatch.setenv("OPENAI_BASE_URL", url)
        state, told, _ = found("openai", ask=True)[f"call to {LUNA}"]
        assert (state, str(status) in told) == ("wrong", True)
        assert ("set OPENAI_API_KEY" in told) == (status == 401)
        assert not [part for part in ("sk-prob", "cret", "ending") if part in told]


def test_a_key_that_no_header_can_carry_is_neither_sent_nor_told(found, monkeypatch):
    for key in (BROKEN, "sk-prob-verysecret\rmore"):
        judge = raw()
        monkeypatch.setenv("MYKEY", key)
        told = found(judge, api_key_env={judge: "MYKEY"})
        state, why, remedy = told[f"server of {judge}"]
        assert (state, why[:9], "MYKEY" in remedy) == ("wrong", "not asked", True)
        assert not [part for part in key.split() if part in str(told)]


def test_no_key_of_a_provider_goes_to_a_server_named_by_its_url(found, monkeypatch):
    sent = []

    async def fetch(_, key):
        sent.append(key)
        raise OSError("stopped here")

    monkeypatch.setattr(doctor_module, "_fetch", fetch)
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    found(DEAD)
    assert sent == ["none"]


def test_a_server_that_lists_its_key_as_a_model_does_not_show_it(found, monkeypatch):
    body = json.dumps({"data": [{"id": KEY}, {"id": "n"}]}).encode()
    judge = raw(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s" % (len(body), body))
    monkeypatch.setenv("MYKEY", KEY)
    state, why, remedy = found(judge, api_key_env={judge: "MYKEY"})[f"server of {judge}"]
    assert (state, "no model 'm'" in why, "n" in remedy) == ("wrong", True, True)
