"""The fakes' batches, files and books: each SDK at its strictest, behind one face."""

import asyncio
import http.client
import io
import json
import signal
import subprocess
import sys
import urllib.error
import urllib.request
from collections import Counter
from contextlib import asynccontextmanager, suppress

import aiohttp
import anthropic
import httpx2
import openai
import psutil
import pytest
from google import genai

from tests.fakes import Fakes, Fault, Lengths
from tests.fakes.asking import PAIR, SCHEMA, chat, post

pytestmark = pytest.mark.fakes

ROOT = __file__.rpartition("/tests/")[0]


@pytest.fixture
def fakes():
    with Fakes(thinking=2, cached=0.3) as fakes:
        yield fakes


class _OpenAI:
    name, model, error = "openai", "m", openai.APIError
    ends = ("completed", "failed", "expired", "cancelled")

    def __init__(self, fakes):
        self.fakes = fakes
        self.sdk = openai.AsyncOpenAI(
            api_key=fakes.key,
            base_url=fakes.urls["openai"],
            max_retries=0,
            http_client=openai.DefaultAioHttpClient(),
            _strict_response_validation=True,
        )

    def online(self, text):
        _, _, said = post(self.fakes, text)
        return said["choices"][0]["message"]["content"] if "choices" in said else said["error"]

    def line(self, key, text):
        where = {"method": "POST", "url": "/v1/chat/completions"}
        return {"custom_id": key, **where, "body": chat(text)}

    async def upload(self, *lines):
        data = "\n".join(x if isinstance(x, str) else json.dumps(x) for x in lines).encode()
        file = await self.sdk.files.create(file=("in.jsonl", data), purpose="batch")
        return file.id

    async def create(self, file, **more):
        return await self.sdk.batches.create(
            input_file_id=file, endpoint="/v1/chat/completions", completion_window="24h", **more
        )

    async def submit(self, texts, mark="a mark"):
        file = await self.upload(*(self.line(key, text) for key, text in texts.items()))
        return (await self.create(file, metadata={"zelo_ray": mark})).id

    async def look(self, batch):
        return (await self.sdk.batches.retrieve(batch)).status

    async def results(self, batch):
        shown, said = await self.sdk.batches.retrieve(batch), {}
        for file in filter(None, (shown.output_file_id, shown.error_file_id)):
            async with self.sdk.files.with_streaming_response.content(file) as response:
                async for line in response.iter_lines():
                    result = json.loads(line)
                    said[result["custom_id"]] = self._said(result)
        return said

    def _said(self, result):
        if result["response"] is None:
            return result["error"]["code"]
        status, body = result["response"]["status_code"], result["response"]["body"]
        return body["choices"][0]["message"]["content"] if status == 200 else status

    async def all(self, limit):
        return [batch.id async for batch in self.sdk.batches.list(limit=limit)]

    async def cancel(self, batch):
        await self.sdk.batches.cancel(batch)

    async def close(self):
        await self.sdk.close()


class _Anthropic:
    name, model, error = "anthropic", "m", anthropic.APIError
    ends = ("ended",)

    def __init__(self, fakes):
        self.fakes = fakes
        self.sdk = anthropic.AsyncAnthropic(
            api_key=fakes.key,
            base_url=fakes.urls["anthropic"],
            max_retries=0,
            http_client=anthropic.DefaultAioHttpClient(),
            _strict_response_validation=True,
        )

    def body(self, text):
        messages = [{"role": "user", "content": text}]
        output = {"format": {"type": "json_schema", "schema": SCHEMA}}
        return {"model": "m", "max_tokens": 99, "messages": messages, "output_config": output}

    def online(self, text):
        _, _, said = post(self.fakes, path="/anthropic/v1/messages", body=self.body(text))
        return said["content"][0]["text"]

    async def create(self, *requests):
        return await self.sdk.messages.batches.create(requests=requests)

    async def submit(self, texts, mark=""):
        lines = [{"custom_id": key, "params": self.body(text)} for key, text in texts.items()]
        return (await self.create(*lines)).id

    async def look(self, batch):
        return (await self.sdk.messages.batches.retrieve(batch)).processing_status

    async def results(self, batch):
        return {
            line.custom_id: self._said(line.result)
            async for line in await self.sdk.messages.batches.results(batch)
        }

    def _said(self, result):
        if result.type == "succeeded":
            return result.message.content[0].text
        return result.error.error.type if result.type == "errored" else result.type

    async def all(self, limit):
        return [batch.id async for batch in self.sdk.messages.batches.list(limit=limit)]

    async def cancel(self, batch):
        await self.sdk.messages.batches.cancel(batch)

    async def close(self):
        await self.sdk.close()


class _Gemini:
    name, model, error = "gemini", "m", genai.errors.APIError
    ends = tuple(f"JOB_STATE_{end}" for end in ("SUCCEEDED", "FAILED", "CANCELLED", "EXPIRED"))
    inline = True

    def __init__(self, fakes):
        self.fakes = fakes
        options = genai.types.HttpOptions(
            base_url=fakes.urls["gemini"],
            timeout=5000,
            retry_options=genai.types.HttpRetryOptions(attempts=1),
        )
        self.sdk = genai.Client(api_key=fakes.key, http_options=options)

    def body(self, text):
        config = {"responseMimeType": "application/json", "responseJsonSchema": SCHEMA}
        return {
            "contents": [{"parts": [{"text": text}], "role": "user"}],
            "generationConfig": config,
        }

    def online(self, text):
        path = "/gemini/v1/models/m:generateContent"
        _, _, said = post(self.fakes, path=path, body=self.body(text))
        return said["candidates"][0]["content"]["parts"][0]["text"]

    async def submit(self, texts, mark="a mark"):
        source = await self.source(texts)
        created = await self.sdk.aio.batches.create(
            model="m", src=source, config={"display_name": mark}
        )
        return created.name

    async def source(self, texts):
        config = {"response_mime_type": "application/json", "response_json_schema": SCHEMA}
        return [
            {"contents": text, "config": config, "metadata": {"key": key}}
            for key, text in texts.items()
        ]

    async def look(self, batch):
        return (await self.sdk.aio.batches.get(name=batch)).state.value

    async def results(self, batch):
        shown = await self.sdk.aio.batches.get(name=batch)
        if shown.dest is None:
            return {}
        return {
            line.metadata["key"]: line.error.code if line.error else line.response.text
            for line in shown.dest.inlined_responses
        }

    async def all(self, limit):
        pages = await self.sdk.aio.batches.list(config={"page_size": limit})
        return [batch.name async for batch in pages]

    async def cancel(self, batch):
        await self.sdk.aio.batches.cancel(name=batch)

    async def close(self):
        await self.sdk.aio.aclose()
        self.sdk.close()


class _GeminiFiles(_Gemini):
    inline = False

    async def source(self, texts):
        lines = [{"key": key, "request": self.body(text)} for key, text in texts.items()]
        data = io.BytesIO("\n".join(map(json.dumps, lines)).encode())
        config = {"mime_type": "application/jsonl", "display_name": "in"}
        return (await self.sdk.aio.files.upload(file=data, config=config)).name

    async def results(self, batch):
        shown = await self.sdk.aio.batches.get(name=batch)
        if shown.dest is None:
            return {}
        data = await self.sdk.aio.files.download(file=shown.dest.file_name)
        return {line["key"]: self._said(line) for line in map(json.loads, data.splitlines())}

    def _said(self, line):
        if "response" not in line:
            return line.get("error", line.get("status"))["code"]
        return line["response"]["candidates"][0]["content"]["parts"][0]["text"]


CLIENTS = [_OpenAI, _Anthropic, _Gemini, _GeminiFiles]
each_client = pytest.mark.parametrize("kind", CLIENTS, ids=lambda kind: kind.__name__[1:])
calm = pytest.mark.filterwarnings(
    "ignore:Inheritance class AiohttpClientSession:DeprecationWarning",
    "ignore:Sending a large body directly:ResourceWarning",  # so the SDK sends parts of a file
)
LOST = (openai.APIError, anthropic.APIError, aiohttp.ClientError, httpx2.TransportError)
TEXTS = {f"k{i}": f"A: one [[grade=0]] B: two [[grade={i}]]" for i in range(6)}


@asynccontextmanager
async def connected(kind, fakes):
    client = kind(fakes)
    try:
        yield client
    finally:
        await client.close()


def drive(kind, fakes, steps):
    """Run a coroutine function on a client."""

    async def run():
        async with connected(kind, fakes) as client:
            return await steps(client)

    return asyncio.run(run())


async def ended(client, batch):
    """All that looks say until the end."""
    said = [await client.look(batch)]
    while said[-1] not in client.ends:
        await asyncio.sleep(0.01)
        said.append(await client.look(batch))
    return said


async def through(client, texts=TEXTS):
    """The last state and the results of a batch."""
    batch = await client.submit(texts)
    states = await ended(client, batch)
    return states[-1], await client.results(batch)


@each_client
@calm
def test_a_batch_answers_as_calls_do(fakes, kind):
    async def steps(client):
        batch = await client.submit(TEXTS)
        return await ended(client, batch), await client.results(batch)

    states, results = drive(kind, fakes, steps)
    assert len(states) == 2
    client = kind(fakes)
    assert results == {key: client.online(text) for key, text in TEXTS.items()}
    asyncio.run(client.close())
    books = fakes.books()
    assert books[client.name, "m", True] == books[client.name, "m", False]
    assert books[client.name, "m", True]["responses"] == len(TEXTS)
    lines = [entry for entry in fakes.journal if entry["endpoint"] == "line"]
    calls = [entry for entry in fakes.journal if entry["endpoint"] == "answer"]
    assert [entry["custom_id"] for entry in lines] != list(TEXTS)  # they come in any order
    assert {entry["sha"] for entry in lines} == {entry["sha"] for entry in calls}
    assert all(entry["usage"]["batch"] for entry in lines)
    with urllib.request.urlopen(f"{fakes.url}/books", timeout=5) as response:
        rows = json.load(response)
    assert {(row.pop("provider"), row.pop("model"), row.pop("batch")): row for row in rows} == books


@calm
def test_what_batches_say_of_themselves():
    with Fakes(cached=0.5, thinking=3, batch_steps=3) as fakes:

        async def steps(client):
            batch = await client.submit(TEXTS, "the mark")
            new = await client.sdk.batches.retrieve(batch)
            await ended(client, batch)
            old = await client.sdk.batches.retrieve(batch)
            file = await client.sdk.files.retrieve(old.output_file_id)
            await client.sdk.files.delete(file.id)
            with pytest.raises(openai.NotFoundError):
                await client.sdk.files.content(file.id)
            return new, old, file

        new, old, file = drive(_OpenAI, fakes, steps)
        assert new.output_file_id is new.completed_at is None
        assert old.metadata == {"zelo_ray": "the mark"}
        assert old.error_file_id is old.errors is None
        assert (old.request_counts.total, old.request_counts.completed) == (6, 6)
        sums = fakes.books()["openai", "m", True]
        assert (old.usage.input_tokens, old.usage.output_tokens) == (sums["input"], sums["output"])
        assert file.purpose == "batch_output"

        async def steps(client):
            batch = await client.submit(TEXTS)
            new = await client.sdk.messages.batches.retrieve(batch)
            with pytest.raises(anthropic.AnthropicError):
                await client.sdk.messages.batches.results(batch)
            with pytest.raises(anthropic.BadRequestError):
                await client.sdk.messages.batches.delete(batch)
            await ended(client, batch)
            old = await client.sdk.messages.batches.retrieve(batch)
            await client.sdk.messages.batches.delete(batch)
            return new, old, await client.all(5)

        new, old, left = drive(_Anthropic, fakes, steps)
        assert (new.request_counts.processing, new.request_counts.succeeded) == (6, 0)
        assert (old.request_counts.processing, old.request_counts.succeeded) == (0, 6)
        assert new.results_url is None
        assert old.results_url.startswith(fakes.urls["anthropic"] + "/v1/messages/batches/")
        assert left == []
        sums = fakes.books()["anthropic", "m", True]
        assert 0 < sums["cache_write"] <= sums["cached"] < sums["input"]
        assert sums["thinking"] == 18

        async def steps(client):
            batch = await client.submit(TEXTS, "the mark")
            await ended(client, batch)
            old = await client.sdk.aio.batches.get(name=batch)
            await client.sdk.aio.batches.delete(name=batch)
            return old, await client.all(5)

        old, left = drive(_Gemini, fakes, steps)
        assert (old.display_name, old.model) == ("the mark", "models/m")
        assert [line.metadata["key"] for line in old.dest.inlined_responses] == list(TEXTS)
        assert left == []


@each_client
@calm
def test_lines_are_struck_as_calls_are(kind):
    faults = [Fault("500", rate=0.4), Fault("truncated", rate=0.3), Fault("drop", rate=0.0)]
    texts = {f"k{i}": f"{PAIR} {i}" for i in range(20)}
    with Fakes(faults=faults, seed=3) as fakes:
        _, results = drive(kind, fakes, lambda client: through(client, texts))
        lines = {e["sha"]: e["outcome"] for e in fakes.journal if e["endpoint"] == "line"}
    with Fakes(faults=faults, seed=3) as fakes:
        client = kind(fakes)
        for text in texts.values():
            with suppress(KeyError, TypeError):
                client.online(text)
        asyncio.run(client.close())
        assert {entry["sha"]: entry["outcome"] for entry in fakes.journal} == lines
    assert set(lines.values()) == {"ok", "truncated", "500"}
    errors = {500, 13, "api_error"}
    assert sum(said in errors for said in results.values()) == Counter(lines.values())["500"]


@each_client
@pytest.mark.parametrize("fault", ["batch_expired", "batch_cancelled"])
@calm
def test_batches_that_are_cut_short(fakes, kind, fault):
    fakes.faults = [Fault(fault, total=1)]
    state, results = drive(kind, fakes, through)
    if kind in (_Gemini, _GeminiFiles):
        assert state == f"JOB_STATE_{fault.removeprefix('batch_').upper()}"
        assert (results, fakes.books()) == ({}, {})
        return
    assert state == ("ended" if kind is _Anthropic else fault.removeprefix("batch_"))
    kinds = ("expired", "canceled") if kind is _Anthropic else ("batch_expired", "batch_cancelled")
    left = [said for said in results.values() if said in kinds]
    assert left == [kinds[fault == "batch_cancelled"]] * 3
    assert fakes.books()[kind.name, "m", True]["responses"] == len(results) - 3 == 3
    assert drive(kind, fakes, through)[0] == ("ended" if kind is _Anthropic else "completed")


@each_client
@calm
def test_batches_that_fail(fakes, kind):
    fakes.faults = [Fault("batch_failed", code="a_code", message="The reason.", provider=kind.name)]

    async def steps(client):
        batch = await client.submit(TEXTS)
        return batch, await ended(client, batch), await client.results(batch)

    batch, states, results = drive(kind, fakes, steps)
    assert fakes.books() == {}
    if kind is _Anthropic:
        assert set(results.values()) == {"api_error"}
        return
    assert states[-1] == ("failed" if kind is _OpenAI else "JOB_STATE_FAILED")
    assert results == {}
    path = f"/openai/v1/batches/{batch}" if kind is _OpenAI else f"/gemini/v1/{batch}"
    shown = get(fakes, path)
    if kind is _OpenAI:
        error = {"code": "a_code", "message": "The reason.", "line": None, "param": None}
        assert shown["errors"]["data"] == [error]
    else:
        assert shown["error"]["message"] == "The reason."


def get(fakes, path):
    headers = {"Authorization": f"Bearer {fakes.key}", "x-goog-api-key": fakes.key}
    request = urllib.request.Request(fakes.url + path, headers=headers)
    with urllib.request.urlopen(request, timeout=5) as response:
        return json.load(response)


@each_client
@calm
def test_cancel(kind):
    with Fakes(batch_seconds=60) as fakes:

        async def steps(client):
            batch = await client.submit(TEXTS)
            assert await client.look(batch) not in client.ends
            assert await client.look(batch) not in client.ends
            await client.cancel(batch)
            states = await ended(client, batch)
            with pytest.raises(client.error):
                await client.cancel(batch)
            return states[-1], await client.results(batch)

        state, results = drive(kind, fakes, steps)
        assert fakes.books() == {}
    assert state in ("cancelled", "ended", "JOB_STATE_CANCELLED")
    assert set(results.values()) <= {"batch_cancelled", "canceled"}
    assert len(results) == (0 if "Gemini" in kind.__name__ else 6)


@each_client
@calm
def test_what_is_cancelled_midway_gives_all_that_it_bills(kind):
    texts = {f"k{i}": f"{PAIR} {i}" for i in range(1000)}
    with Fakes(keep=False) as fakes:

        async def steps(client):
            batch = await client.submit(texts)
            await client.cancel(batch)
            await ended(client, batch)
            return await client.results(batch)

        results = drive(kind, fakes, steps)
        billed = sum(sums["responses"] for sums in fakes.books().values())
    answered = [said for said in results.values() if said not in ("batch_cancelled", "canceled")]
    assert len(answered) == billed
    assert len(results) == 1000 or (billed == 0 and kind.name == "gemini")


@each_client
@calm
def test_lists_come_in_pages(fakes, kind):
    async def steps(client):
        batches = [await client.submit({"k": PAIR}) for _ in range(5)]
        return batches, await client.all(2), await client.all(5), await client.all(50)

    batches, *lists = drive(kind, fakes, steps)
    assert lists == [batches[::-1]] * 3
    looks = Counter(entry["endpoint"] for entry in fakes.journal)
    assert looks["list"] == 5


@each_client
@calm
def test_a_download_that_breaks_off(fakes, kind):
    fakes.faults = [Fault("results_cut")]

    async def steps(client):
        batch = await client.submit(TEXTS)
        if client.name == "gemini" and client.inline:
            await client.look(batch)
        else:
            await ended(client, batch)
        with pytest.raises(LOST):
            await client.results(batch)
        return await client.results(batch)

    assert len(drive(kind, fakes, steps)) == len(TEXTS)
    assert fakes.books()[kind.name, "m", True]["responses"] == len(TEXTS)


def test_a_download_breaks_off_halfway(fakes):
    async def steps(client):
        batch = await client.submit(TEXTS)
        await ended(client, batch)
        return (await client.sdk.batches.retrieve(batch)).output_file_id

    fakes.faults = [Fault("results_cut")]
    request = urllib.request.Request(
        f"{fakes.urls['openai']}/files/{drive(_OpenAI, fakes, steps)}/content",
        headers={"Authorization": f"Bearer {fakes.key}"},
    )
    with urllib.request.urlopen(request, timeout=5) as response:
        with pytest.raises(http.client.IncompleteRead) as cut:
            response.read()
        assert len(cut.value.partial) == int(response.headers["content-length"]) // 2
    with urllib.request.urlopen(request, timeout=5) as response:
        assert len(response.read().splitlines()) == len(TEXTS)


@each_client
@calm
def test_a_batch_whose_creation_is_not_heard_of(fakes, kind):
    async def steps(client):
        with pytest.raises(LOST if fault == "create_lost" else client.error):
            await client.submit(TEXTS)
        found = await client.all(5)
        for batch in found:
            await ended(client, batch)
        return found

    for fault, count in (("create_500", 0), ("create_lost", 1)):
        fakes.faults = [Fault(fault, total=1)]
        assert len(drive(kind, fakes, steps)) == count
    assert fakes.books()[kind.name, "m", True]["responses"] == len(TEXTS)


@pytest.mark.parametrize("kind", [_OpenAI, _Gemini, _GeminiFiles])
@calm
def test_only_so_many_tokens_are_enqueued(kind):
    with Fakes(enqueued_tokens={kind.name: 400}) as fakes:

        async def steps(client):
            first = await client.submit(TEXTS)  # over 200 tokens
            states, refused = [], None
            try:
                second = await client.submit(TEXTS)
                states = await ended(client, second)
            except client.error as error:
                refused = error
            await ended(client, first)
            third = await client.submit(TEXTS)
            assert (await ended(client, third))[-1] in ("completed", "JOB_STATE_SUCCEEDED")
            if kind is not _OpenAI:
                return refused
            assert states == ["failed"]
            return (await client.sdk.batches.retrieve(second)).errors.data[0]

        error = drive(kind, fakes, steps)
        if kind is _OpenAI:
            assert error.code == "token_limit_exceeded"
            assert error.message.startswith("Enqueued token limit reached for m in organization ")
            assert " Limit: 400 enqueued tokens. Please try again once" in error.message
        else:
            assert (error.code, error.status) == (429, "RESOURCE_EXHAUSTED")


def test_files_that_openai_refuses():
    def line(key="a", body=None, **more):
        where = {"method": "POST", "url": "/v1/chat/completions"}
        return {"custom_id": key, **where, "body": chat() if body is None else body, **more}

    files = {
        "invalid_json_line": [line(), "{"],
        "duplicate_custom_id": [line(), line()],
        "mismatched_model": [line("a"), line("b", {**chat(), "model": "n"})],
        "missing_required_parameter": [line(), {"custom_id": "b"}],
        "invalid_url": [line(), line("b", url="/v1/responses")],
        "too_many_tasks": [line(key) for key in "abc"],
        "empty_file": [],
    }
    with Fakes(batch_requests=2) as fakes:

        async def steps(client):
            codes = []
            for lines in files.values():
                batch = (await client.create(await client.upload(*lines))).id
                assert await client.look(batch) == "failed"
                shown = await client.sdk.batches.retrieve(batch)
                codes.append((shown.errors.data[0].code, shown.errors.data[0].line))
            with pytest.raises(openai.NotFoundError):
                await client.create("file-nowhere")
            with pytest.raises(openai.BadRequestError):
                await client.create(await client.upload(line()), metadata={"a": "b" * 513})
            return codes

        codes = drive(_OpenAI, fakes, steps)
    assert [code for code, _ in codes] == list(files)
    assert [number for _, number in codes] == [2, 2, 2, 2, 2, None, None]
    with Fakes(batch_bytes=10) as fakes:
        assert drive(_OpenAI, fakes, through)[0] == "failed"


def test_batches_that_anthropic_refuses():
    with Fakes(batch_requests=2) as fakes:

        async def steps(client):
            params = client.body(PAIR)
            for ids in (["a", "a"], ["a b"], ["a" * 65], [""], ["a", "b", "c"], []):
                with pytest.raises(anthropic.BadRequestError):
                    await client.create(*({"custom_id": i, "params": params} for i in ids))
            wrong = {"custom_id": "b", "params": {**params, "temperature": 0}}
            batch = await client.create({"custom_id": "a" * 64, "params": params}, wrong)
            await ended(client, batch.id)
            return await client.results(batch.id)

        assert drive(_Anthropic, fakes, steps)["b"] == "invalid_request_error"


@calm
def test_gemini_takes_large_batches_as_files_alone():
    text = PAIR + " " * (9 * 2**20)  # two parts of an upload
    with Fakes(batch_bytes=10_000_000) as fakes:
        assert drive(_GeminiFiles, fakes, lambda c: through(c, {"k": text}))[1].keys() == {"k"}
        endpoints = Counter(entry["endpoint"] for entry in fakes.journal)
        assert (endpoints["files"], endpoints["upload"]) == (1, 2)
        with pytest.raises(genai.errors.ClientError, match="payload size"):
            drive(_Gemini, fakes, lambda client: through(client, {"k": text, "l": text}))


@each_client
@calm
def test_faults_of_one_endpoint(fakes, kind):
    places = ("create", "look", "list", "results", "cancel", "files")
    fakes.faults = [Fault("503", endpoint=place, total=1) for place in places]

    async def steps(client):
        failed = []
        for _ in range(10):
            with suppress(client.error):
                batch = await client.submit(TEXTS)
                break
            failed.append("submit")
        for step in (client.look, client.all, client.cancel, client.results):
            try:
                await step(5 if step == client.all else batch)
            except client.error:
                failed.append(step.__name__)
            if step == client.cancel:
                await ended(client, batch)
        return failed

    failed = drive(kind, fakes, steps)
    uploads = kind in (_OpenAI, _GeminiFiles)
    # Gemini's inline results come with a look, and its file of a cancelled batch is not there
    expected = ["submit"] * (1 + uploads) + ["look", "all", "cancel"]
    assert failed == expected + ["results"] * (
        kind in (_OpenAI, _Anthropic) or kind is _GeminiFiles
    )
    assert post(fakes)[0] == 200
    with pytest.raises(ValueError, match="unknown endpoint 'kitchen'"):
        fakes.faults = [Fault("500", endpoint="kitchen")]


@each_client
@calm
def test_events(kind):
    told = []
    with Fakes(on_event=lambda provider, event, details: told.append(event)) as fakes:

        async def steps(client):
            await through(client)
            await client.all(5)
            await client.cancel(await client.submit(TEXTS))

        drive(kind, fakes, steps)
    made = ["create_received", "created"]
    if kind in (_OpenAI, _GeminiFiles):
        made.insert(0, "file_received")
    sent = ["results_begun", "results_half", "results_sent"]
    looks = ["looked", "looked", *(sent if kind is _Gemini else []), "looked", *sent]
    assert told == [*made, *looks, "listed", *made, "cancelled"]


def test_the_key_is_asked_for_everywhere(fakes):
    fakes.key = "another"
    for path in ("/openai/v1/batches", "/anthropic/v1/messages/batches", "/gemini/v1/batches"):
        request = urllib.request.Request(fakes.url + path, headers={"x-api-key": "none"})
        with pytest.raises(urllib.error.HTTPError) as refused:
            urllib.request.urlopen(request, timeout=5)
        refused.value.close()
        assert refused.value.code in (400, 401)


@pytest.mark.parametrize("kind", [_OpenAI, _Anthropic, _Gemini])
def test_books(kind):
    with Fakes(cached=0.5, thinking=2) as fakes:
        client = kind(fakes)
        client.online(PAIR)
        sums = fakes.books()[kind.name, "m", False]
        for fault in ("malformed", "not_json", "500", "malformed_billed"):
            fakes.faults = [Fault(fault, total=1)]
            with suppress(KeyError, TypeError, ValueError):
                client.online(PAIR)
        asyncio.run(client.close())
        assert fakes.books()[kind.name, "m", False] == {name: 2 * n for name, n in sums.items()}
    assert sums["responses"] == 1
    assert sums["thinking"] == 2 < sums["output"]
    assert 0 < sums["cached"] + sums["cache_write"] < sums["input"]
    billed = [entry["outcome"] for entry in fakes.journal if "usage" in entry]
    assert billed == ["ok", "malformed_billed"]


@calm
@pytest.mark.parametrize("kind", [_OpenAI, _Anthropic, _Gemini])
def test_lines_are_as_long_as_calls_would_be(kind):
    with Fakes(lengths=Lengths(output=20, later=90, turn=2, bytes_per_token=1)) as fakes:
        drive(kind, fakes, through)
        (sums,) = fakes.books().values()
        assert sums["output"] == 2 * 20 + (len(TEXTS) - 2) * 90
        client = kind(fakes)
        client.online(TEXTS["k1"])
        asyncio.run(client.close())
    lines = {e["sha"]: e["input_tokens"] for e in fakes.journal if e["endpoint"] == "line"}
    *_, call = fakes.journal
    assert lines[call["sha"]] == call["input_tokens"] > sum(map(len, TEXTS.values())) / 6


def test_the_killer_waits_for_its_moment(tmp_path):
    script = "import subprocess, sys, time; p = subprocess.Popen(['sleep', '99']); print(p.pid)"
    command = [sys.executable, "-u", "-c", f"{script}; time.sleep(99)"]
    pid = tmp_path / "pid"
    flags = ["--kill", f"created:2:{pid}", "--batch-seconds", "0.1", "--rpm", "openai=900"]
    fakes = [sys.executable, "-m", "tests.fakes", *flags]
    with (
        subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as victim,
        subprocess.Popen(fakes, stdout=subprocess.PIPE, text=True, cwd=ROOT) as process,
    ):
        child = psutil.Process(int(victim.stdout.readline()))
        pid.write_text(str(victim.pid))
        there = Fakes()
        there.url = json.loads(process.stdout.readline())["url"]
        drive(_Anthropic, there, lambda client: client.submit(TEXTS))
        assert victim.poll() is None
        drive(_Anthropic, there, lambda client: client.submit(TEXTS))
        assert victim.wait(5) == -signal.SIGKILL
        with suppress(psutil.NoSuchProcess):
            assert child.status() == psutil.STATUS_ZOMBIE
        process.send_signal(signal.SIGTERM)
        assert process.wait(5) == 0
