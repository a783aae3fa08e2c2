"""The fakes say what the real servers would; the judges of that are the SDKs at their strictest."""

import asyncio
import json
import urllib.error
import urllib.request

import anthropic
import openai
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
