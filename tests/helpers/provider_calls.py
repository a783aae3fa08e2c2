"""Calls of providers through their real clients, and what servers of the world answer."""

import asyncio
import json
import pickle

from pydantic import BaseModel, ConfigDict, Field

from tests.fakes.scripted import Scripted
from tests.helpers.builders import judge_of, options_of, pool_of, verdict
from zelo_ray.engine.replies import check_answer
from zelo_ray.protocols import find_protocol
from zelo_ray.protocols.zelo import Preference
from zelo_ray.providers import Fatal, Refused, Retry, Settings, load_provider
from zelo_ray.records import Answer, Judge, Request

KEY = "sk-only-for-tests-0123456789"
SECRET = "a prompt that must not be seen anywhere else"


class Verdict(BaseModel):
    model_config = ConfigDict(extra="forbid")

    reasoning: str
    preference: float = Field(ge=-1, le=1)


def request_for(provider, user=SECRET, **options):
    known = load_provider(provider)
    judge = Judge(provider, known.models[0], options={**known.options, **options})
    text = f"{user} [[worth=2]] [[worth=1]]"
    return Request(judge, "You compare.", text, Verdict, query="", documents=())


def send(request, settings):
    """One call of a provider; what it raises must hold nothing that is nobody's business."""

    async def run():
        provider = load_provider(request.judge.provider).connect(settings)
        try:
            return await provider.send(request)
        finally:
            await provider.aclose()

    try:
        return asyncio.run(run())
    except (Retry, Refused, Fatal) as error:
        check_discreet(error)
        return error


def check_discreet(error):
    assert error.__cause__ is None
    assert error.__context__ is None
    seen = f"{error} {error!r} {error.args} {vars(error)} {pickle.dumps(error)!r}"
    assert KEY not in seen
    assert SECRET[:16] not in seen
    assert "\n" not in str(error)
    assert "<" not in str(error)
    assert len(str(error)) < 450
    assert type(pickle.loads(pickle.dumps(error))) is type(error)


def run(provider, fakes, work, key=KEY, timeout=10.0):
    """What ``work`` makes of a client; an error is checked and comes back instead."""

    async def connected():
        url = fakes if isinstance(fakes, str) else fakes.urls[provider]
        client = load_provider(provider).connect_batches(Settings(key, url, timeout))
        try:
            return await work(client)
        finally:
            await client.aclose()

    try:
        return asyncio.run(connected())
    except (Retry, Refused, Fatal) as error:
        check_discreet(error)
        return error


async def results(client, batch_id):
    found = {}
    async for key, outcome in client.results(batch_id):
        assert key not in found
        found[key] = outcome
        if not isinstance(outcome, Answer):
            check_discreet(outcome)
    return found


class Canned(Scripted):
    """A server of fixed answers by path; HERE in one is its own address."""

    def __init__(self, answers):
        super().__init__(None)
        self.answers = answers

    def answer(self, path, asked):
        said = self.answers.get(path.partition("?")[0], (404, {}, "{}"))
        if isinstance(said, tuple):
            return said
        data = said if isinstance(said, bytes) else json.dumps(said).encode()
        return data.replace(b"HERE", self.url.encode())


def canned(provider, answers, batch_id="batches/b"):
    with Canned(answers) as server:

        async def work(client):
            return await client.look(batch_id), await results(client, batch_id)

        return run(provider, server.url, work)


def lines_of(*lines):
    texts = (line if isinstance(line, bytes) else json.dumps(line).encode() for line in lines)
    return b"\n".join(texts)


def openai_batch(**fields):
    batch = {"id": "batches/b", "status": "completed", "created_at": 5, **fields}
    return {"/batches/batches/b": batch}


# What servers answer


VERDICT = verdict(-0.5)
USED = {"prompt_tokens": 90, "completion_tokens": 7, "total_tokens": 97}


def completion(finish="stop", content=VERDICT, usage=USED, **choice):
    """What a compatible server answers."""
    message = {"role": "assistant", "content": content}
    choices = [{"index": 0, "finish_reason": finish, "message": message, **choice}]
    counts = {"usage": usage} if usage else {}
    return {"id": "1", "object": "chat.completion", "model": "m", "choices": choices, **counts}


def message_of(stop="end_turn", text=VERDICT):
    """What Anthropic answers."""
    content = [{"type": "text", "text": text}] if text else []
    usage = {"input_tokens": 90, "output_tokens": 7}
    return {
        "id": "1",
        "type": "message",
        "role": "assistant",
        "model": "m",
        "content": content,
        "stop_reason": stop,
        "usage": usage,
    }


def candidate(finish="STOP", text=VERDICT, **more):
    """What Gemini answers."""
    content = {"content": {"role": "model", "parts": [{"text": text}]}} if text else {}
    counts = {"promptTokenCount": 90, "candidatesTokenCount": 7}
    found = {"finishReason": finish, "index": 0, **content, **more}
    return {"candidates": [found], "usageMetadata": counts, "modelVersion": "m"}


def one(provider, said):
    """What one call makes of what a server says: an answer that was checked, or an error."""
    with Scripted(said) as server:
        url = server.url + ("/v1" if provider == "openai" else "")
        outcome = send(request_for(provider), Settings(KEY, url, 30.0))
    if not isinstance(outcome, Answer):
        return outcome
    try:
        return check_answer(Preference, outcome, "").answer
    except Retry as trouble:
        return trouble


def rerank_outcome(said):
    known = load_provider("cohere")
    judge = judge_of("cohere:m", **known.options)
    (request,) = next(find_protocol("rerank").rounds(pool_of(), (judge,), options_of()))
    with Scripted(said) as server:
        return send(request, Settings(KEY, server.url, 30.0))
