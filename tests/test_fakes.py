"""The fakes say what the real servers would; the judges of that are the SDKs at their strictest."""

import asyncio
import http.client
import json
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections import Counter
from concurrent.futures import ThreadPoolExecutor

import anthropic
import openai
import pytest
from google import genai

from tests import crash
from tests.fakes import Fakes, Fault, Lengths
from tests.fakes.asking import NAMED, PAIR, SCHEMA, chat, post
from tests.fakes.knowing import judge

pytestmark = pytest.mark.fakes

ROOT = __file__.rpartition("/tests/")[0]


@pytest.fixture
def fakes():
    with Fakes(thinking=2, cached=0.3) as fakes:
        yield fakes


@pytest.mark.parametrize("fault", [None, "refusal", "filtered", "truncated", "prose"])
def test_openai_under_strict_validation(fakes, fault):
    fakes.faults = [Fault(fault)] if fault else []

    async def run():
        async with openai.AsyncOpenAI(
            api_key=fakes.key,
            base_url=fakes.urls["openai"],
            max_retries=0,
            http_client=openai.DefaultAioHttpClient(),
            _strict_response_validation=True,
        ) as client:
            return await client.chat.completions.create(**chat())

    completion = asyncio.run(run())
    choice = completion.choices[0]
    assert completion.usage.completion_tokens_details.reasoning_tokens == 2
    finish = {"filtered": "content_filter", "truncated": "length"}.get(fault, "stop")
    assert choice.finish_reason == finish
    assert bool(choice.message.refusal) == (fault == "refusal")
    if fault is None:
        assert json.loads(choice.message.content)["preference"] == pytest.approx(0.9951)


@pytest.mark.parametrize("fault", [None, "refusal", "truncated", "prose"])
def test_anthropic_under_strict_validation(fakes, fault):
    fakes.faults = [Fault(fault)] if fault else []
    messages = [{"role": "user", "content": PAIR}]

    async def run():
        async with anthropic.AsyncAnthropic(
            api_key=fakes.key,
            base_url=fakes.urls["anthropic"],
            max_retries=0,
            http_client=anthropic.DefaultAioHttpClient(),
            _strict_response_validation=True,
        ) as client:
            counted = await client.messages.count_tokens(model="m", messages=messages)
            output = {"format": {"type": "json_schema", "schema": SCHEMA}}
            return counted, await client.messages.create(
                model="m", max_tokens=99, messages=messages, output_config=output
            )

    counted, message = asyncio.run(run())
    usage = message.usage
    total = usage.input_tokens + usage.cache_creation_input_tokens + usage.cache_read_input_tokens
    assert 0 < counted.input_tokens < total  # the schema counts
    stop = {"refusal": "refusal", "truncated": "max_tokens"}.get(fault, "end_turn")
    assert message.stop_reason == stop


@pytest.mark.parametrize("fault", [None, "refusal", "filtered", "truncated"])
@pytest.mark.filterwarnings("ignore:Inheritance class AiohttpClientSession:DeprecationWarning")
def test_gemini_as_its_sdk_reads_it(fakes, fault):
    fakes.faults = [Fault(fault)] if fault else []

    async def run():
        options = genai.types.HttpOptions(base_url=fakes.urls["gemini"], timeout=5000)
        client = genai.Client(api_key=fakes.key, http_options=options)
        config = {"response_mime_type": "application/json", "response_json_schema": SCHEMA}
        try:
            counted = await client.aio.models.count_tokens(model="m", contents=PAIR)
            response = await client.aio.models.generate_content(
                model="m", contents=PAIR, config=config
            )
        finally:
            await client.aio.aclose()
            client.close()
        return counted, response

    counted, response = asyncio.run(run())
    assert counted.total_tokens > 0
    assert response.usage_metadata.prompt_token_count > 0
    if fault == "refusal":
        assert response.prompt_feedback.block_reason == "PROHIBITED_CONTENT"
        return
    finish = {"filtered": "SAFETY", "truncated": "MAX_TOKENS"}.get(fault, "STOP")
    assert response.candidates[0].finish_reason == finish


@pytest.mark.parametrize(
    ("path", "body", "words"),
    [
        ("/anthropic/v1/messages", {"temperature": 0, "max_tokens": 9}, "temperature"),
        ("/anthropic/v1/messages", {}, "max_tokens"),
        ("/openai/v1/chat/completions", {"model": "gpt-6-luna", "max_tokens": 9}, "max_tokens"),
        ("/openai/v1/chat/completions", {"model": "gpt-6-luna", "temperature": 0}, "temperature"),
        ("/gemini/v1/models/m:generateContent", {}, "contents"),
    ],
)
def test_bodies_that_the_servers_refuse(fakes, path, body, words):
    messages = [] if "gemini" in path else [{"role": "user", "content": PAIR}]
    status, _, said = post(fakes, path=path, body={"model": "m", "messages": messages, **body})
    assert status == 400
    assert words in said["error"]["message"]


def test_both_forms_of_geminis_schema_ask_the_same(fakes):
    fields = {"grade": {"type": "integer", "minimum": 0, "maximum": 3}}
    schema = {"type": "object", "properties": fields, "additionalProperties": False}
    of_old = {"grade": {"type": "INTEGER", "minimum": 0.0, "maximum": 3.0}}
    old = {"type": "OBJECT", "properties": of_old, "propertyOrdering": ["grade"]}
    texts = []
    for forms in ({"responseJsonSchema": schema}, {"responseSchema": old}):
        config = {"responseMimeType": "application/json", **forms}
        contents = [{"parts": [{"text": PAIR}]}]
        body = {"contents": contents, "generationConfig": config}
        _, _, said = post(fakes, path="/gemini/v1/models/m:generateContent", body=body)
        texts.append(said["candidates"][0]["content"]["parts"][0]["text"])
    assert texts == ['{"grade":0}'] * 2
    first, second = fakes.journal
    assert (first["sha"], first["usage"]) == (second["sha"], second["usage"])
    config |= {"responseJsonSchema": schema}
    body = {"contents": contents, "generationConfig": config}
    assert post(fakes, path="/gemini/v1/models/m:generateContent", body=body)[0] == 400


def test_schemas_that_the_servers_refuse(fakes):
    loose = {**SCHEMA, "required": ["reasoning"]}
    shape = {"type": "json_schema", "json_schema": {**NAMED, "schema": loose}}
    assert post(fakes, body=chat(response_format=shape))[0] == 400
    ranged = {**SCHEMA, "properties": {"preference": {"type": "number", "minimum": 0}}}
    body = {"model": "m", "max_tokens": 9, "messages": []}
    body["output_config"] = {"format": {"type": "json_schema", "schema": ranged}}
    assert post(fakes, path="/anthropic/v1/messages", body=body)[0] == 400


def test_faults_follow_from_seed_body_and_attempt_alone():
    texts = [f"{PAIR} {number}" for number in range(40)]
    orders = [texts, texts[::-1], texts]
    outcomes = []
    for order, seed in zip(orders, (1, 1, 2), strict=True):
        with Fakes(faults=[Fault("429", rate=0.3), Fault("500", rate=0.2)], seed=seed) as fakes:
            for text in order * 2:
                post(fakes, text)
            outcomes.append({(e["sha"], e["seen"]): e["outcome"] for e in fakes.journal})
    assert outcomes[0] == outcomes[1] != outcomes[2]
    assert set(Counter(outcomes[0].values())) == {"ok", "429", "500"}


def test_faults_by_count(fakes):
    fakes.faults = [Fault("503", times=2), Fault.parse("429:total=3,provider=openai")]
    statuses = [post(fakes, text)[0] for text in ("x", "x", "x", "y", "x", "y", "y", "y")]
    assert statuses == [503, 503, 429, 503, 429, 503, 429, 200]
    with pytest.raises(ValueError, match="unknown fault 'earthquake'"):
        fakes.faults = [Fault("earthquake")]
    with pytest.raises(ValueError, match="unknown colour"):
        Fault.parse("429:colour=red")


def test_rates(fakes):
    with Fakes(rpm=60, tpm=60_000, burst=2) as fakes:
        first, second, third = (post(fakes, text) for text in "abc")
        assert (first[0], second[0], third[0]) == (200, 200, 429)
        assert first[1]["x-ratelimit-limit-requests"] == "60"
        assert first[1]["x-ratelimit-remaining-requests"] == "1"
        assert 0 < int(third[1]["retry-after-ms"]) <= 1000 * int(third[1]["retry-after"]) <= 1000
        assert fakes.journal[-1]["outcome"] == "throttled"
    with Fakes(tpm=600, burst=10) as fakes:  # 10 a second, 100 at once
        statuses = [post(fakes, text * 300)[0] for text in "abc"]  # over 75 tokens each
        assert statuses == [200, 429, 429]


def test_the_key_is_asked_for_and_never_written(tmp_path):
    journal = tmp_path / "journal.jsonl"
    with Fakes(key="the-right-key", journal=journal, bodies=True) as fakes:
        assert post(fakes, key="a-wrong-key")[0] == 401
        assert post(fakes)[0] == 200
        messages = [{"role": "user", "content": PAIR}]
        body = {"model": "m", "max_tokens": 99, "messages": messages}
        assert post(fakes, path="/anthropic/v1/messages", body=body)[0] == 200
        entries = fakes.journal
    text = journal.read_text()
    assert "-key" not in text
    assert [json.loads(line) for line in text.splitlines()] == entries
    assert [entry["outcome"] for entry in entries] == ["wrong_key", "ok", "ok"]
    assert PAIR in entries[1]["body"]


def test_an_abandoned_call_is_still_billed():
    with Fakes(latency=0.2) as fakes:
        body = json.dumps(chat()).encode()
        head = f"Authorization: Bearer {fakes.key}\r\nContent-Length: {len(body)}\r\n"
        address = fakes.url.removeprefix("http://").split(":")
        with socket.create_connection((address[0], int(address[1]))) as client:
            line = "POST /openai/v1/chat/completions HTTP/1.1\r\nHost: x\r\n"
            client.sendall(f"{line}{head}\r\n".encode() + body)
        post(fakes, "another")
        assert sorted(entry["outcome"] for entry in fakes.journal) == ["ok", "ok"]


def test_answers_end_at_the_output_limit(fakes):
    _, _, said = post(fakes, body=chat(max_completion_tokens=5))
    assert said["choices"][0]["finish_reason"] == "length"
    assert said["usage"]["completion_tokens"] == 5


def test_the_judge_knows():
    def vote(first, second, model="m", **options):
        user = f"[[worth={first}]] and [[worth={second}]]"
        return judge("", user, SCHEMA, model, **options)["preference"]

    assert vote(1, 1) == 0
    assert vote(2, 1.5) < 0 < vote(-1, 1.37)
    assert vote(0, 1, scale=10) < vote(0, 1)
    assert vote(1, 1, noise=1) == vote(1, 1, noise=1) != vote(1, 1, noise=1, seed=3)
    assert vote(1, 1, noise=1, model="n") != vote(1, 1, noise=1)
    assert vote(1, 1, bias=0.5) > 0
    assert -1 <= vote(0, 100) <= 1
    fields = {
        "rationale": {"type": "string"},
        "grade": {"type": "integer", "minimum": 0, "maximum": 3},
        "facets": {"type": "array", "items": {"type": "string"}},
        "winner": {"$ref": "#/$defs/Side"},
    }
    schema = {"properties": fields, "$defs": {"Side": {"enum": ["A", "B"], "type": "string"}}}
    verdict = judge("", "[[grade=2]] [[grade=3]]", schema, "m")
    assert verdict["grade"] == 2
    assert verdict["facets"] == []
    assert verdict["winner"] == "B"


def test_as_a_process(tmp_path):
    journal = tmp_path / "journal.jsonl"
    command = [sys.executable, "-m", "tests.fakes", "--journal", str(journal), "--key", "k"]
    command += ["--judge-options", '{"scale": 1000}', "--fault", "500:times=1", "--latency", "0.01"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=ROOT) as process:
        urls = json.loads(process.stdout.readline())
        assert urls["openai"] == f"{urls['url']}/openai/v1"
        assert urls["url"].startswith("http://127.0.0.1:")
        there = Fakes(key="k")
        there.url = urls["url"]
        assert [post(there)[0], post(there)[0]] == [500, 200]
        with urllib.request.urlopen(f"{there.url}/stats", timeout=5) as response:
            assert json.load(response)["outcomes"] == {"500": 1, "ok": 1}
        process.send_signal(signal.SIGTERM)
        assert process.wait(5) == 0
    lines = [json.loads(line) for line in journal.read_text().splitlines()]
    assert [line["outcome"] for line in lines] == ["500", "ok"]


def test_answers_are_held_back_until_they_are_released(fakes):
    environ = {"OPENAI_BASE_URL": fakes.urls["openai"]}
    with ThreadPoolExecutor() as threads:
        with crash.held(environ):
            asked = threads.submit(post, fakes)
            while not fakes.in_flight:
                time.sleep(0.01)
            assert crash.stats(environ)["outcomes"] == {}
            assert not asked.done()
        assert asked.result()[0] == 200


def test_a_billed_answer_with_nothing_in_it(fakes):
    fakes.faults = [Fault("malformed_billed")]
    status, _, said = post(fakes)
    assert status == 200
    assert "choices" not in said
    assert said["usage"]["prompt_tokens"] == fakes.books()["openai", "m", False]["input"]


def test_limits_of_each_provider():
    body = {"model": "m", "max_tokens": 99, "messages": [{"role": "user", "content": PAIR}]}
    with Fakes(rpm={"openai": 60}, itpm=6000, otpm=600, burst=1, cached=0.5) as fakes:
        assert [post(fakes, text)[0] for text in "ab"] == [200, 429]
        status, headers, _ = post(fakes, path="/anthropic/v1/messages", body=body)
        assert status == 200
        assert headers["anthropic-ratelimit-input-tokens-limit"] == "6000"
        assert headers["anthropic-ratelimit-output-tokens-limit"] == "600"
        assert "anthropic-ratelimit-requests-limit" not in headers
        # 10 output tokens could be spent, and the answer had more: the next one waits
        status, headers, _ = post(fakes, path="/anthropic/v1/messages", body=body)
        assert status == 429
        assert int(headers["retry-after"]) >= 1
        models = {"openai:m": (1, 1), "anthropic:m": (1, 1)}
        with urllib.request.urlopen(f"{fakes.url}/stats", timeout=5) as response:
            stats = json.load(response)["models"]
        counts = {name: (model["accepted"], model["throttled"]) for name, model in stats.items()}
        assert counts == models
        assert 0 < stats["openai:m"]["first"] <= stats["openai:m"]["last"] <= time.time()


def test_whoever_does_not_wait_is_counted(fakes):
    fakes.faults = [Fault("429", retry_after=2, total=1)]
    assert [post(fakes)[0], post(fakes)[0]] == [429, 200]  # the second may have been on its way
    assert fakes.traffic.models["openai", "m"]["early"] == 0
    time.sleep(0.3)
    post(fakes)
    post(fakes, body={**chat(), "model": "n"})
    assert fakes.traffic.models["openai", "m"]["early"] == 1
    assert fakes.traffic.models["openai", "n"]["early"] == 0


_BODIES = {
    "/openai/v1/chat/completions": lambda limit: chat(max_completion_tokens=limit),
    "/anthropic/v1/messages": lambda limit: {
        "model": "m",
        "max_tokens": limit,
        "messages": [{"role": "user", "content": PAIR}],
        "output_config": {"format": {"type": "json_schema", "schema": SCHEMA}},
    },
    "/gemini/v1/models/m:generateContent": lambda limit: {
        "contents": [{"parts": [{"text": PAIR}]}],
        "generationConfig": {
            "maxOutputTokens": limit,
            "responseMimeType": "application/json",
            "responseJsonSchema": SCHEMA,
        },
    },
}


def said_by(path, body):
    """Why an answer ended, and its text."""
    if "choices" in body:
        return body["choices"][0]["finish_reason"], body["choices"][0]["message"]["content"]
    if "content" in body:
        return body["stop_reason"], body["content"][0]["text"]
    (candidate,) = body["candidates"]
    return candidate["finishReason"], candidate["content"]["parts"][0]["text"]


@pytest.mark.parametrize(
    ("path", "ended", "cut"),
    [
        ("/openai/v1/chat/completions", "stop", "length"),
        ("/anthropic/v1/messages", "end_turn", "max_tokens"),
        ("/gemini/v1/models/m:generateContent", "STOP", "MAX_TOKENS"),
    ],
)
def test_answers_of_every_length_and_the_limit_that_was_asked_for(path, ended, cut):
    """Billed is what is said; what goes beyond the limit is no JSON any more."""
    name = path.split("/")[1]
    lengths = Lengths(output=20, later=500, turn=2)
    with Fakes(lengths=lengths, thinking=3) as fakes:
        account, outputs, replies = (name, "m", False), [], []
        for limit in (600, 600, 600, 100):
            replies.append(said_by(path, post(fakes, path=path, body=_BODIES[path](limit))[2]))
            outputs.append(fakes.journal[-1]["output_tokens"])
        fakes.lengths.ignore_limits = True
        replies.append(said_by(path, post(fakes, path=path, body=_BODIES[path](100))[2]))
        assert [*outputs, fakes.journal[-1]["output_tokens"]] == [23, 23, 503, 100, 503]
        assert fakes.books()[account]["output"] == sum(outputs) + 503
    assert [reason for reason, _ in replies] == [ended, ended, ended, cut, ended]
    *whole, spoilt, beyond = [text for _, text in replies]
    assert len({json.dumps(json.loads(text)) for text in (*whole, beyond)}) == 1
    with pytest.raises(ValueError, match="Expecting"):
        json.loads(spoilt)


def test_lengths_that_follow_from_the_question_and_its_kind():
    with Fakes(lengths=Lengths(output=100, sd=0.8, fields={"": 7})) as fakes:
        for text in (*"abcdefgh", "a"):
            post(fakes, text)
        *outputs, again = [entry["output_tokens"] for entry in fakes.journal]
        assert again == outputs[0]
        assert len(set(outputs)) > 5
        assert min(outputs) < 100 < max(outputs)
        fakes.lengths.sd = 0.0
        post(fakes, body={"model": "m", "messages": [{"role": "user", "content": PAIR}]})
        assert fakes.journal[-1]["output_tokens"] == 7


def test_input_is_counted_by_what_it_is_written_in():
    def counted(text, **lengths):
        with Fakes(lengths=Lengths(**lengths)) as fakes:
            body = {"model": "m", "messages": [{"role": "user", "content": text}]}
            post(fakes, body=body)
            return fakes.books()["openai", "m", False]["input"]

    assert counted("a" * 398) == 100  # with two bytes of an empty schema
    assert counted("a" * 398, bytes_per_token=1) == 400
    assert counted("я" * 199) == 100
    assert counted("я" * 199 + "a" * 398, by_text=True) == 398 + 100


@pytest.mark.parametrize("fault", ["timeout_billed", "drop_billed"])
def test_an_answer_that_never_comes_is_billed(fakes, fault):
    fakes.faults = [Fault(fault, total=1)]
    body = json.dumps(chat()).encode()
    head = {"Authorization": f"Bearer {fakes.key}"}
    request = urllib.request.Request(fakes.url + "/openai/v1/chat/completions", body, head)
    with pytest.raises((TimeoutError, http.client.RemoteDisconnected)):
        urllib.request.urlopen(request, timeout=0.3)
    assert post(fakes)[0] == 200
    assert [entry["outcome"] for entry in fakes.journal] == [fault, "ok"]
    assert fakes.books()["openai", "m", False]["responses"] == 2
