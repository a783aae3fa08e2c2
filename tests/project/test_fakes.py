"""The fakes say what the real servers would; the judges of that are the SDKs at their strictest."""

import asyncio
import json
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress

import anthropic
import openai
import psutil
import pytest
from google import genai

from tests.fakes import Fakes, Fault

ROOT = __file__.rpartition("/tests/")[0]
SCHEMA = {
    "type": "object",
    "additionalProperties": False,
    "required": ["reasoning", "preference"],
    "properties": {"reasoning": {"type": "string"}, "preference": {"type": "number"}},
}
NAMED = {"name": "verdict", "strict": True, "schema": SCHEMA}
PAIR = "A: one [[grade=0]] B: two [[grade=3]]"


def chat(text=PAIR, **more):
    shape = {"type": "json_schema", "json_schema": NAMED}
    messages = [{"role": "user", "content": text}]
    return {"model": "m", "messages": messages, "response_format": shape, **more}


def post(fakes, text=PAIR, *, key=None, path="/openai/v1/chat/completions", body=None):
    """Status, headers and JSON of one call without any SDK."""
    key = fakes.key if key is None else key
    data = json.dumps(body or chat(text)).encode()
    headers = {"Authorization": f"Bearer {key}", "x-goog-api-key": key}
    request = urllib.request.Request(fakes.url + path, data, headers)
    try:
        with urllib.request.urlopen(request, timeout=5) as response:
            return response.status, response.headers, json.load(response)
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.headers, json.load(error)


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
            output = {"format": {"type": "json_schema", "schema": SCHEMA}}
            return await client.messages.create(
                model="m", max_tokens=99, messages=messages, output_config=output
            )

    message = asyncio.run(run())
    assert message.usage.cache_read_input_tokens > 0
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
            return await client.aio.models.generate_content(model="m", contents=PAIR, config=config)
        finally:
            await client.aio.aclose()
            client.close()

    response = asyncio.run(run())
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


def test_what_came_while_a_server_was_stopped_is_no_burst():
    """SIGSTOP, or a machine that is busy elsewhere: the server finds it all at once then."""
    with Fakes(rpm=600, burst=1) as fakes, ThreadPoolExecutor(60) as threads:
        assert post(fakes)[0] == 200
        fakes._loop.call_soon_threadsafe(time.sleep, 3.0)
        time.sleep(0.2)
        meanwhile = [*threads.map(lambda n: post(fakes, str(n))[0], range(30))]
        assert meanwhile == [200] * 30
        at_once = [*threads.map(lambda n: post(fakes, str(n))[0], range(100, 160))]
        assert 429 in at_once


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


def test_the_killer_waits_for_its_moment(tmp_path):
    script = "import subprocess, sys, time; p = subprocess.Popen(['sleep', '99']); print(p.pid)"
    command = [sys.executable, "-u", "-c", f"{script}; time.sleep(99)"]
    pid = tmp_path / "pid"
    fakes = [sys.executable, "-m", "tests.fakes", "--kill", f"created:2:{pid}", "--key", "k"]
    params = {"model": "m", "max_tokens": 99, "messages": [{"role": "user", "content": PAIR}]}
    batch = {"requests": [{"custom_id": "one", "params": params}]}
    with (
        subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as victim,
        subprocess.Popen(fakes, stdout=subprocess.PIPE, text=True, cwd=ROOT) as process,
    ):
        child = psutil.Process(int(victim.stdout.readline()))
        pid.write_text(str(victim.pid))
        there = Fakes(key="k")
        there.url = json.loads(process.stdout.readline())["url"]
        assert post(there, path="/anthropic/v1/messages/batches", body=batch)[0] == 200
        assert victim.poll() is None
        assert post(there, path="/anthropic/v1/messages/batches", body=batch)[0] == 200
        assert victim.wait(5) == -signal.SIGKILL
        with suppress(psutil.NoSuchProcess):
            assert child.status() == psutil.STATUS_ZOMBIE
        process.send_signal(signal.SIGTERM)
        assert process.wait(5) == 0
