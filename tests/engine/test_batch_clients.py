"""The providers' batch APIs, through their real SDKs, against fakes on loopback."""

import asyncio
import json
import time
from dataclasses import replace
from itertools import product

import pytest

from tests.fakes import Fakes, Fault
from tests.helpers.builders import THREE
from tests.helpers.provider_calls import (
    KEY,
    SECRET,
    canned,
    lines_of,
    openai_batch,
    request_for,
    results,
    run,
    send,
)
from zelo_ray.providers import Fatal, Refused, Retry, RetryKind, Settings, load_provider
from zelo_ray.records import Answer, Usage

MODELS = {name: load_provider(name).models[0] for name in THREE}
STARTS = {"openai": "batch_", "anthropic": "msgbatch_", "gemini": "batches/"}


def serving(**options):
    return Fakes(**{"key": KEY, "bodies": True, "cached": 0.5, "thinking": 3, **options})


@pytest.fixture(scope="module")
def server():
    with serving() as fakes:
        yield fakes


@pytest.fixture
def fakes(server):
    server.faults = ()
    server.journal.clear()
    server.store.batches.clear()
    server.store.files.clear()
    return server


def requests_for(provider, count=6):
    return [request_for(provider, f"{SECRET} {number}") for number in range(count)]


async def submit(client, requests, folder, mark="a-mark"):
    lines = folder / "lines.jsonl"
    lines.write_bytes(b"".join(map(client.line, requests)))
    judge = requests[0].judge
    batch = await client.create(lines, judge.model, mark)
    assert batch.id.startswith(STARTS[judge.provider])
    assert not batch.ended
    assert batch.mark == ("" if judge.provider == "anthropic" else mark)
    return batch


async def end(client, batch_id):
    for _ in range(200):
        batch = await client.look(batch_id)
        assert batch.id == batch_id
        if batch.ended:
            return batch
        await asyncio.sleep(0.02)
    raise TimeoutError(batch)


def through(provider, fakes, folder, requests):
    """A batch that has ended, and its results."""

    async def work(client):
        batch = await end(client, (await submit(client, requests, folder)).id)
        return batch, await results(client, batch.id)

    return run(provider, fakes, work)


@pytest.mark.parametrize("provider", THREE)
def test_answers_are_those_of_calls(fakes, provider, tmp_path):
    requests = requests_for(provider, 12)
    batch, found = through(provider, fakes, tmp_path, requests)
    assert (batch.requests, batch.done) == (12, 12)
    assert not batch.reason
    assert not batch.full
    assert abs(batch.created_at - time.time()) < 60
    assert sorted(found) == sorted(request.key for request in requests)
    for request in requests:
        online = send(request, Settings(KEY, fakes.urls[provider]))
        answer = found[request.key]
        if provider == "gemini":  # the schema is written in another form
            online, answer = (replace(each, usage=Usage()) for each in (online, answer))
        assert answer == online


@pytest.mark.parametrize("provider", ["openai", "anthropic"])
def test_a_line_holds_what_a_call_sends(fakes, provider, tmp_path):
    requests = requests_for(provider, 1)
    through(provider, fakes, tmp_path, requests)
    send(requests[0], Settings(KEY, fakes.urls[provider]))
    bodies = {e["endpoint"]: json.loads(e["body"]) for e in fakes.journal if "body" in e}
    assert bodies["line"] == bodies["answer"]


def test_a_gemini_line_holds_what_a_call_sends_but_for_the_schema(fakes, tmp_path):
    request = request_for("gemini", temperature=0.5, thinking_level="low")
    through("gemini", fakes, tmp_path, [request])
    send(request, Settings(KEY, fakes.urls["gemini"]))
    text = {e["endpoint"]: e["body"] for e in fakes.journal if "body" in e}
    line = json.loads(text["line"])
    answer = json.loads(text["answer"].replace("thinking_level", "thinkingLevel"))
    schema = line["generationConfig"].pop("responseSchema")
    full = answer["generationConfig"].pop("responseJsonSchema")
    assert line == answer
    assert schema["propertyOrdering"] == list(full["properties"]) == ["reasoning", "preference"]
    assert schema["required"] == full["required"]
    preference = schema["properties"]["preference"]
    assert (preference["type"], preference["minimum"], preference["maximum"]) == ("NUMBER", -1, 1)
    assert "additionalProperties" not in schema


# What each fault of a line becomes: an answer's status, or an error with words that it has.
EVERYWHERE = {
    "refusal": "refused",
    "filtered": "filtered",
    "truncated": "truncated",
    "prose": "ok",
    "bad_request": (Refused, "400"),
    "429": (Retry, "429"),
    "500": (Retry, "500"),
    "forbidden": (Fatal, "grant"),
    "no_model": (Fatal, "no such model"),
}
TABLE = [
    *((name, fault, expected) for fault, expected in EVERYWHERE.items() for name in THREE),
    ("openai", "wrong_key", (Fatal, "OPENAI_API_KEY")),
    ("openai", "unpaid", (Fatal, "spending limit")),
    ("openai", "unsupported", (Fatal, "judge_options")),
    ("openai", "filtered_prompt", (Refused, "400")),
    ("openai", "too_long", (Refused, "context_length_exceeded")),
    ("anthropic", "wrong_key", (Fatal, "ANTHROPIC_API_KEY")),
    ("anthropic", "unpaid", (Fatal, "spending limit")),
    ("anthropic", "529", (Retry, "529 overloaded_error")),
]


@pytest.mark.parametrize(("provider", "fault", "expected"), TABLE)
def test_a_line_that_fails(fakes, provider, fault, expected, tmp_path):
    if (provider, fault) == ("gemini", "refusal"):
        expected = "filtered"  # a prompt that was blocked
    if (provider, fault) == ("anthropic", "filtered"):
        expected = (Refused, "400")
    said = f"read '{SECRET}' with {KEY}" if fault not in ("filtered", "unpaid") else ""
    fakes.faults = [Fault(fault, total=1, endpoint="line", message=said)]
    _, found = through(provider, fakes, tmp_path, requests_for(provider))
    (struck,) = [e for e in fakes.journal if e["endpoint"] == "line" and e["outcome"] == fault]
    outcome = found.pop(struck["custom_id"])
    assert {each.status for each in found.values()} == {"ok"}
    assert len(found) == 5
    if isinstance(expected, str):
        assert outcome.status == expected
        assert outcome.usage.input_tokens > 0
        return
    kind, words = expected
    assert type(outcome) is kind
    assert words in str(outcome)
    assert str(outcome).startswith(provider)
    if kind is Retry:
        assert (outcome.kind is RetryKind.THROTTLED) == (fault == "429")
    if kind is Refused:
        assert outcome.status == ("filtered" if fault.startswith("filtered") else "failed")


@pytest.mark.parametrize("provider", THREE)
@pytest.mark.parametrize("fault", ["batch_expired", "batch_cancelled"])
def test_a_batch_that_is_cut_short(fakes, provider, fault, tmp_path):
    fakes.faults = [Fault(fault)]
    batch, found = through(provider, fakes, tmp_path, requests_for(provider))
    word = fault.removeprefix("batch_")
    assert word in batch.state.lower() or provider == "anthropic"
    assert not batch.full
    answers = [each for each in found.values() if isinstance(each, Answer)]
    if provider == "gemini":
        assert not found
        return
    assert len(answers) == 3
    assert len(found) == 6
    left = [each for each in found.values() if not isinstance(each, Answer)]
    for each in left:
        assert type(each) is Retry
        assert each.kind is not RetryKind.THROTTLED
        assert each.billed is None
        assert word[:6] in str(each)  # canceled, cancelled


def test_an_openai_batch_that_fails(fakes, tmp_path):
    said = f"Line with '{SECRET}' and {KEY} cannot\nbe read."
    fakes.faults = [Fault("batch_failed", code="invalid_json_line", message=said)]
    batch, found = through("openai", fakes, tmp_path, requests_for("openai"))
    assert (batch.state, batch.full, found) == ("failed", False, {})
    assert batch.reason == "invalid_json_line: Line with ... and [key] cannot be read."


# Creating


CREATIONS = [
    *((name, "429", "create", (Retry, "429")) for name in THREE),
    *((name, "create_500", None, (Retry, "500")) for name in THREE),
    *((name, "bad_request", "create", (Refused, "400")) for name in THREE),
    *((name, "wrong_key", "create", (Fatal, "_API_KEY")) for name in THREE),
    *((name, "no_model", "create", (Fatal, "no such model")) for name in THREE),
    *((name, "not_json", "create", (Retry, "")) for name in THREE),
    *((name, "timeout", "create", (Retry, "no answer within")) for name in THREE),
    ("openai", "500", "files", (Retry, "500")),
    ("openai", "drop", "files", (Retry, "connection closed")),
    ("gemini", "drop", "upload", (Retry, "connection closed")),
]


@pytest.mark.parametrize(("provider", "fault", "endpoint", "expected"), CREATIONS)
def test_a_batch_that_cannot_be_created(
    fakes, provider, fault, endpoint, expected, tmp_path, monkeypatch
):
    monkeypatch.setattr("zelo_ray.providers.batches.TRANSFER", 1.0)
    message = "" if fault == "timeout" else f"{KEY} {SECRET}"
    fakes.faults = [Fault(fault, endpoint=endpoint, message=message)]
    if fault == "429":
        fakes.faults = [Fault(fault, endpoint=endpoint, retry_after=3)]

    async def work(client):
        try:
            await submit(client, requests_for(provider), tmp_path)
        except (Retry, Refused, Fatal) as error:
            assert await client.find(0.0) == []
            raise error from None

    error = run(provider, fakes, work, timeout=1.0 if fault == "timeout" else 10.0)
    assert type(error) is expected[0]
    assert expected[1] in str(error)
    assert str(error).startswith(f"{provider}:{MODELS[provider]}: ")
    if fault == "429":
        assert (error.kind, error.delay) == (RetryKind.THROTTLED, 3)


# Finding, looking, cancelling


@pytest.mark.parametrize("provider", THREE)
def test_finding_goes_from_page_to_page(fakes, provider, tmp_path, monkeypatch):
    monkeypatch.setattr("zelo_ray.providers.batches._PAGE", 2)

    async def work(client):
        names = [f"mark-{number}" for number in range(7)]
        created = [await submit(client, requests_for(provider, 1), tmp_path, n) for n in names]
        assert await client.find(time.time() + 100) == []
        for age, batch in enumerate(created):  # as if each were a day older than the next
            fakes.store.batches[batch.id].created -= (6 - age) * 86400
        fakes.journal.clear()
        found = await client.find(time.time() - 2.5 * 86400)
        pages = len([entry for entry in fakes.journal if entry["endpoint"] == "list"])
        return [b.id for b in created], [b.id for b in found], await client.find(0.0), pages

    created, found, every, pages = run(provider, fakes, work)
    assert found == created[:3:-1]
    assert [batch.id for batch in every] == created[::-1]
    assert pages == 3  # of four; the third is all older
    marks = ["" if provider == "anthropic" else f"mark-{6 - number}" for number in range(7)]
    assert [batch.mark for batch in every] == marks


@pytest.mark.parametrize("provider", THREE)
def test_a_batch_on_its_way(provider, tmp_path):
    with serving(batch_seconds=60) as fakes:

        async def work(client):
            batch = await submit(client, requests_for(provider), tmp_path)
            looked = await client.look(batch.id)
            assert (looked.id, looked.ended, looked.requests) == (batch.id, False, 6)
            assert looked.done == 0
            with pytest.raises(Retry, match="not ended"):
                await results(client, batch.id)
            await client.cancel(batch.id)
            ended = await end(client, batch.id)
            return ended, await results(client, batch.id)

        batch, found = run(provider, fakes, work)
    assert "cancel" in batch.state.lower() or provider == "anthropic"
    assert len(found) == (0 if provider == "gemini" else 6)
    assert {type(outcome) for outcome in found.values()} <= {Retry}


TROUBLES = {
    "429": (Retry, "429"),
    "500": (Retry, "500"),
    "drop": (Retry, "connection closed"),
    "malformed": (Retry, "form"),
    "timeout": (Retry, "no answer within"),
    "bad_request": (Fatal, "400"),  # a batch that is paid for is not given up
    "forbidden": (Fatal, "grant"),
}


@pytest.mark.parametrize("provider", THREE)
@pytest.mark.parametrize(
    ("endpoint", "fault"),
    [*(("look", fault) for fault in TROUBLES), *product(["list"], ("500", "timeout"))],
)
def test_asking_about_batches_fails(fakes, provider, endpoint, fault):
    message = "" if fault in ("drop", "timeout") else f"{KEY} and more"
    fakes.faults = [Fault(fault, endpoint=endpoint, message=message)]

    async def work(client):
        return await (
            client.find(0.0) if endpoint == "list" else client.look(f"{STARTS[provider]}none")
        )

    error = run(provider, fakes, work, timeout=0.3 if fault == "timeout" else 10.0)
    kind, words = TROUBLES[fault]
    assert type(error) is kind
    assert words in str(error)


# Results


@pytest.mark.parametrize("provider", THREE)
def test_results_that_are_gone(fakes, provider, tmp_path):
    async def work(client):
        batch = await end(client, (await submit(client, requests_for(provider), tmp_path)).id)
        fakes.store.files.clear()
        fakes.store.batches[batch.id].output = None
        return await results(client, batch.id)

    error = run(provider, fakes, work)
    assert isinstance(error, Refused)
    assert "gone" in str(error)


# Forms that the fakes do not give


COMPLETION = {"choices": [{"message": {"content": "{}"}}], "model": "m"}


def test_odd_lines_of_openai():
    used = {"usage": {"prompt_tokens": 7, "completion_tokens": 5}}
    lines = lines_of(
        {"custom_id": "a", "response": {"status_code": 200, "body": COMPLETION}, "error": None},
        {"custom_id": "b", "response": {"status_code": 200, "body": {"choices": [], **used}}},
        {"custom_id": "c", "response": {"status_code": 200, "body": None}},
        b"<html>no JSON",
        b'{"custom_id": "cut", "resp',
        b"",
        b"7",
        b'{"custom_id": 7}',
        b'{"response": {"status_code": 200}}',
        '{"custom_id": "\u2028\x85 ends"}'.encode(),
        {"custom_id": "d", "response": {"status_code": 0, "request_id": "", "body": {}}},
        {"custom_id": "e", "response": None, "error": {"code": "batch_expired", "message": KEY}},
        {"custom_id": "f", "response": {"status_code": 418, "body": {"error": None}}},
        {"custom_id": "g", "response": {"status_code": 400, "body": {"error": {"code": SECRET}}}},
        {"custom_id": "h", "response": {"status_code": 400, "body": {"error": {"param": "top_k"}}}},
    )
    answers = openai_batch(output_file_id="out", error_file_id="")
    batch, found = canned("openai", answers | {"/files/out/content": lines})
    assert batch.created_at == 5
    assert set(found) == {*"abcdefgh", "\u2028\x85 ends"}
    assert found["a"] == Answer("ok", "{}", Usage(), "m")
    assert found["b"].billed == Usage(7, 5)
    assert found["c"].billed is None
    kinds = {key: type(found[key]) for key in "bcdefgh"}
    assert kinds == dict.fromkeys("bcde", Retry) | {"f": Fatal, "g": Refused, "h": Refused}
    assert "batch_expired" in str(found["e"])
    assert str(found["d"]) == "openai: no answer (an error without a code)"
    assert str(found["g"]) == "openai: 400"
    assert str(found["h"]) == "openai: 400 top_k"


def anthropic_batch(**fields):
    counts = {"processing": 0, "succeeded": 3, "errored": 0, "canceled": 0, "expired": 0}
    batch = {
        "id": "msgbatch_b",
        "processing_status": "ended",
        "request_counts": counts,
        "created_at": "2026-11-21T05:00:00.123456789Z",
        "results_url": "HERE/v1/messages/batches/msgbatch_b/results",
    }
    return {"/v1/messages/batches/msgbatch_b": {**batch, **fields}}


def test_odd_lines_of_anthropic():
    message = {"model": "m", "content": [], "stop_reason": "end_turn"}
    used = {"usage": {"input_tokens": 7, "output_tokens": 5}}

    def errored(kind, **more):
        error = {"type": "error", "error": {"type": kind, "message": KEY + SECRET, **more}}
        return {"type": "errored", "error": error}

    results = {
        "a": {"type": "succeeded", "message": {**message, **used}},
        "b": {"type": "succeeded", "message": used},
        "c": {"type": "succeeded", "message": message},
        "d": errored("billing_error"),
        "e": errored("overloaded_error"),
        "f": errored("a_new_error"),
        "g": errored("invalid_request_error", details={"error_code": "body_too_deep"}),
        "h": errored("rate_limit_error", details={"error_code": "enforced_spend_limit_reached"}),
        "i": {"type": "errored", "error": {"type": "invalid_request_error", "message": "no"}},
        "j": {"type": "vanished"},
    }
    lines = [{"custom_id": key, "result": result} for key, result in results.items()]
    odd = [{"custom_id": "k"}, b"{", b"", {"custom_id": "l", "result": None}]
    answers = {"/v1/messages/batches/msgbatch_b/results": lines_of(*lines, *odd)}
    batch, found = canned("anthropic", anthropic_batch() | answers, "msgbatch_b")
    assert (batch.requests, batch.done) == (3, 3)
    assert batch.created_at == pytest.approx(1795237200.123456)
    kinds = {key: type(outcome) for key, outcome in found.items()}
    expected = {"a": Answer, "d": Fatal, "g": Refused, "h": Fatal, "i": Refused}
    assert kinds == {**dict.fromkeys("bcefj", Retry), **expected}
    assert found["b"].billed == Usage(7, 5)
    assert found["c"].billed is None
    assert str(found["f"]) == "anthropic: no answer (a_new_error)"
    assert str(found["g"]) == "anthropic: 400 invalid_request_error body_too_deep"


def gemini_batch(**fields):
    about = {"state": "BATCH_STATE_SUCCEEDED", "createTime": "2026-11-21T05:00:00Z"}
    return {"name": "batches/b", "metadata": about, **fields}


RESPONSE = {"candidates": [{"content": {"parts": [{"text": "{}"}]}, "finishReason": "STOP"}]}
USED = {"usageMetadata": {"promptTokenCount": 7, "candidatesTokenCount": 5}}
DETAILS = [{"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": "3s"}]


def test_odd_lines_of_gemini():
    quota = {"violations": [{"quotaId": "RequestsPerDay"}]}
    lines = lines_of(
        {"key": "a", "response": RESPONSE},
        {"key": "b", "response": USED},
        {"key": "c", "response": {}},
        {"key": "d", "error": {"code": 8, "message": KEY + SECRET, "details": DETAILS}},
        {"key": "e", "status": {"code": 3, "message": SECRET}},
        {"key": "f", "error": {"code": 429, "status": "RESOURCE_EXHAUSTED"}},
        {"key": "g", "error": {"code": 429, "details": [quota]}},
        {"key": "h", "error": {"code": 503}},
        {"key": "i"},
        b"{",
        {"response": RESPONSE},
    )
    answers = {
        "/v1/batches/b": gemini_batch(response={"responsesFile": "files/f"}),
        "/v1/files/f:download": lines,
    }
    _, found = canned("gemini", answers)
    kinds = {key: type(outcome) for key, outcome in found.items()}
    expected = {"a": Answer, "e": Refused, "g": Fatal}
    assert kinds == {**dict.fromkeys("bcdfhi", Retry), **expected}
    assert found["b"].billed == Usage(7, 5)
    assert [found[key].kind is RetryKind.THROTTLED for key in "dfh"] == [True, True, False]


# Lines


@pytest.mark.parametrize("provider", THREE)
def test_a_line_is_one_line_however_it_is_split(fakes, provider):
    text = "zwölf \u2028 \u2029 \x85 \n \r \x0b 漢字 🥊 \x00"

    async def work(client):
        return client.line(request_for(provider, text))

    line = run(provider, fakes, work)
    assert line.endswith(b"\n")
    assert len(line.decode().splitlines()) == 1
    assert json.dumps(text)[1:-1] in json.dumps(json.loads(line))


# Memory
