"""Servers as people have them, through the real clients: what they do is called what it is."""

import json
from collections import Counter
from dataclasses import asdict
from itertools import count

import pytest

from tests.fakes import Fault, openai_batches
from tests.fakes.scripted import Scripted
from tests.helpers.builders import (
    THREE,
    ask,
    key_for,
    line_of,
    options_of,
    pool_of,
    send_away,
    set_in_file,
)
from tests.helpers.crash import bare_environment
from tests.helpers.jobs import run_job
from tests.helpers.provider_calls import (
    VERDICT,
    Canned,
    candidate,
    completion,
    message_of,
    one,
    run,
)
from zelo_ray.commands.annotate.judges import list_models
from zelo_ray.commands.annotate.warnings import warn_of_asking
from zelo_ray.engine.replies import check_answer, statuses_to_retry
from zelo_ray.engine.write_results import Summary
from zelo_ray.protocols.server_figures import ServerFigures
from zelo_ray.protocols.zelo import Preference
from zelo_ray.providers import Fatal, Refused, Retry
from zelo_ray.providers.batches import Batches
from zelo_ray.reasons import StopReason
from zelo_ray.records import Answer, Document, Pool, Usage

CUT = {  # an answer that was cut off at its limit
    "openai": lambda text: completion("length", text),
    "anthropic": lambda text: message_of("max_tokens", text),
    "gemini": lambda text: candidate("MAX_TOKENS", text),
}
OPEN = VERDICT[:-1]
IN_A_STRING = '{"reasoning": "because'


def honest(said):
    """A server that says always the same, and counts the tokens of its prompts."""

    def script(body):
        characters = sum(len(message["content"]) for message in body["messages"])
        return said | {"usage": {"prompt_tokens": characters // 4, "completion_tokens": 9}}

    return script


def asked(out, script, **fields):
    """A client that has asked a server about a pool, and what it was asked."""
    with Scripted(script) as server:
        name = f"openai:qwen/qwen3-32b@{server.url}/v1"
        return ask([pool_of()], out, {}, judges=(name,), **fields), server.bodies


# White space up to the limit


@pytest.mark.parametrize("provider", THREE)
@pytest.mark.parametrize("blanks", ["\n" * 400, " \t" * 30])
def test_an_object_that_was_whole_before_the_blanks_is_an_answer(provider, blanks):
    answer = one(provider, CUT[provider](VERDICT + blanks))
    assert (answer.status, answer.text) == ("ok", VERDICT)


@pytest.mark.parametrize("provider", THREE)
@pytest.mark.parametrize(
    "text",
    [OPEN + "\n" * 400, IN_A_STRING + r"\n" * 200 + "\\", "{" + " \r\n" * 30, "\n" * 300],
    ids=["open", "in a string", "begun", "nothing else"],
)
def test_one_that_was_not_is_called_what_it_is(provider, text):
    answer = one(provider, CUT[provider](text))
    assert answer.status == "blank"
    assert "white space" in answer.reason


def test_blanks_up_to_a_limit_of_ours_may_go_on_to_an_end():
    answer = Answer("truncated", OPEN + "\n" * 400, Usage(90, 64), reason="length")
    ends = [
        check_answer(Preference, answer, "", limit_is_ours=ours).answer.status
        for ours in (True, False)
    ]
    assert ends == ["truncated", "blank"]


@pytest.mark.parametrize("text", [OPEN, OPEN + "\n" * 20, f"{VERDICT}\nNow I", "no object"])
def test_an_answer_that_was_cut_off_elsewhere_stays_so(text):
    assert one("openai", CUT["openai"](text)).status == "truncated"


def test_a_judge_that_fills_answers_with_blanks_is_told_of_the_option_that_helps(tmp_path):
    pools = [pool_of(range(8), query_id=f"q{number}") for number in range(2)]
    with Scripted(honest(CUT["openai"](OPEN + "\n" * 400))) as server:
        name = f"openai:m@{server.url}/v1"
        asker = ask(pools, tmp_path, {}, judges=(name,))
        assert len(server.bodies) == 20
        assert "response_format" in asker.stopped
        assert "max_output_tokens" not in asker.stopped
        before = len(asker.books)
        retry = statuses_to_retry(options_of(retry_failures=True))
        again = ask(pools, tmp_path, {}, judges=(name,), run_id="again", retry=retry)
        keys = Counter(row.key for row in again.books)
        assert set(keys.values()) == {1}, "what ended in blanks is not asked again"
        assert len(keys) > before


# Prompts that the server cut


def counting(tokens_of):
    """A server whose answers count the tokens of their prompts so; none of it is read."""

    def script(body):
        characters = sum(len(message["content"]) for message in body["messages"])
        usage = {"prompt_tokens": tokens_of(characters), "completion_tokens": 9}
        return completion(content=VERDICT, usage=usage)

    return script


def pools_of(characters, spread=0, word=" a word"):
    """Three pools of six documents of about so many characters, and some more each."""
    words = [(characters + j * spread) // len(word) for j in range(6)]
    return [
        Pool(
            f"q{number}",
            f"question {number}",
            tuple(Document(f"d{j}", f"[[worth={j}]]" + word * words[j]) for j in range(6)),
        )
        for number in range(3)
    ]


NUMBERS = count()
CUTTING = {
    "to a few tokens, texts of one length": (lambda n: min(n // 4, 2050), pools_of(9000)),
    "some of the prompts alone": (lambda n: min(n // 4, 1300), pools_of(1500, 600)),
}


@pytest.mark.parametrize(("tokens_of", "pools"), CUTTING.values(), ids=CUTTING)
def test_a_judge_whose_server_cuts_prompts_is_stopped_among_its_first(tmp_path, tokens_of, pools):
    with Scripted(counting(tokens_of)) as server:
        judges = (f"openai:m@{server.url}/v1",)
        asker = ask(pools, tmp_path, {}, judges=judges, limits={judges[0]: {"concurrency": 4}})
        (why,) = asker.disabled.values()
        assert why.code is StopReason.CUT_PROMPTS
        # Of 20 in flight, the first 4 to end let others go; the fifth shows that prompts are cut.
        assert len(server.bodies) <= 24
        more = ask(pools, tmp_path, {}, judges=judges, run_id="on", keep_asking=True)
        assert not more.disabled
        assert len({row.key for row in more.books}) == 45


@pytest.mark.parametrize(
    ("tokens_of", "pools"),
    [
        (lambda n: n // 4, pools_of(9000, 900)),
        (lambda n: n // 4, pools_of(9000)),
        (lambda _: 0, pools_of(9000)),
        (lambda n: n // 4 if next(NUMBERS) % 4 else 12, pools_of(3000, 100)),
        (lambda n: n // 10, pools_of(9000, 900, " a word" + " " * 30)),
        (lambda _: 7, pools_of(300)),
    ],
    ids=[
        "whole",
        "of one length",
        "uncounted",
        "some of a cache",
        "blanks",
        "7",
    ],
)
def test_one_whose_server_reads_them_whole_is_asked_on(tmp_path, tokens_of, pools):
    with Scripted(counting(tokens_of)) as server:
        asker = ask(pools, tmp_path, {}, judges=(f"openai:m@{server.url}/v1",))
    assert not asker.disabled
    assert len(asker.books) == 45


def test_prompts_of_which_a_cache_was_left_out_tell_nothing():
    figures = ServerFigures()
    for number in range(20):
        figures.take("m", Usage(500, cached_tokens=2000), 9000 + 300 * number)
    assert (figures.prompts, figures.cut_to, figures.models) == (0, 0, {"m": 20})


# Answers by another model

ASKED = "openai:qwen/qwen3-32b@http://host/v1"


@pytest.mark.parametrize(
    ("judge", "models", "named", "warned"),
    [
        (ASKED, {"qwen/qwen3-32b": 9}, False, False),
        (ASKED, {"qwen3-32b-2026-10-01": 9}, True, False),
        (ASKED, {"qwen3-32b": 5, "meta/llama-3.2-1b-fallback": 4}, True, True),
        (ASKED, {"meta/llama-3.2-1b-fallback": 9}, True, True),
        (ASKED, {"qwen3-8b": 9}, True, True),
        ("openai:gpt-6-luna", {"gpt-6-luna-2026-09-30": 9}, True, False),
        ("openai:gpt-6-luna", {"gpt-6-luna-2026-09-30": 5, "gpt-6-luna-2026-11-20": 4}, True, True),
        ("openai:gpt-6-luna", {"gpt-6-luna": 5, "gpt-6-luna-2026-11-20": 4}, True, False),
        ("gemini:gemini-flash-latest", {"gemini-3.5-flash": 9}, True, False),
        ("azure:our-deployment", {"gpt-6-luna": 9}, True, False),
        ("openai:mine@http://host/v1", {"/models/q4.gguf": 9}, True, False),
    ],
)
def test_models_that_answered_are_named_and_others_than_asked_are_warned_of(
    judge, models, named, warned
):
    summary = asdict(Summary("out", servers={judge: ServerFigures(models)}))
    codes = [warning.code for warning in warn_of_asking(summary)]
    assert codes == ["other_model"] * warned
    assert bool(list_models(judge, models)) is named


def test_a_run_says_who_answered_and_that_prompts_were_cut(tmp_path):
    """Also where all answers are recorded: the second time nobody is asked."""
    numbers = count()

    def script(body):
        model = "meta/llama-3.2-1b-fallback" if next(numbers) % 2 else "qwen/qwen3-32b"
        usage = {"prompt_tokens": 2050, "completion_tokens": 9}
        return completion(content=VERDICT, usage=usage) | {"model": model}

    lines = tmp_path / "in.jsonl"
    lines.write_bytes(b"\n".join(map(line_of, pools_of(9000))))
    with Scripted(script) as server:
        judge, out = f"openai:qwen/qwen3-32b@{server.url}/v1", tmp_path / "out"
        words = ["annotate", str(lines), "--judges", judge, "--out", str(out)]
        words += ["--json"]
        assert run_job(bare_environment(), *words)[0] == 1
        # Of 20 in flight, the first 4 to end let others go; the fifth shows that prompts are cut.
        assert len(server.bodies) <= 24
        for more in ({}, {"verbose": True}):
            status, printed = run_job(
                bare_environment(), *words, *set_in_file(keep_asking=True, **more)
            )
            assert status == 0, printed
            told = json.loads(printed.splitlines()[-1])
            codes = {warning["code"] for warning in told["warnings"]}
            assert codes >= {"prompt_cut", "other_model"}, codes
            record = json.loads((out / "run.json").read_text())
            models = record["summary"]["servers"][judge]["models"]
            assert sum(models.values()) == 45
            assert len(models) == 2
            assert "llama-3.2-1b-fallback" in (out / "report.html").read_text()
        assert len(server.bodies) == 45


# A stream that was not asked for, and a redirect

PIECES = [
    {"object": "chat.completion.chunk", "choices": [{"index": 0, "delta": {"content": VERDICT}}]},
    {"object": "chat.completion.chunk", "choices": [{"index": 0, "delta": {}}]},
]
EVENTS = "".join(f"data: {json.dumps(piece)}\n\n" for piece in PIECES)
STREAMS = {
    "events": (200, {"Content-Type": "text/event-stream"}, f"{EVENTS}data: [DONE]\n\n"),
    "a comment first": (200, {}, f": OPENROUTER PROCESSING\n\n{EVENTS}"),
    "lines of JSON": (200, {}, "\n".join(map(json.dumps, PIECES))),
    "a list": (200, {}, json.dumps(PIECES)),
}


@pytest.mark.parametrize("provider", THREE)
@pytest.mark.parametrize("said", STREAMS.values(), ids=STREAMS)
def test_a_stream_is_called_one(provider, said):
    answer = one(provider, said)
    assert answer.status == "invalid"
    assert "stream" in answer.reason
    assert answer.judge_fault


def test_an_error_in_a_stream_is_that_error():
    event = {"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}}
    error = one("anthropic", (200, {}, f"event: error\ndata: {json.dumps(event)}\n\n"))
    assert isinstance(error, Retry)
    assert "overloaded_error" in str(error)


def test_a_server_that_streams_is_asked_once(tmp_path):
    asker, bodies = asked(tmp_path, STREAMS["events"])
    assert len(bodies) == 1
    assert "stream" in asker.stopped


@pytest.mark.parametrize("provider", THREE)
@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
def test_a_redirect_is_named_and_nobody_else_gets_key_or_prompt(provider, status):
    with Scripted({}) as other:
        to = f"{other.url.replace('127.0.0.1', 'localhost')}/v2?key=secret#there"
        error = one(provider, (status, {"Location": to}, "moved"))
        assert not other.bodies
    assert isinstance(error, Fatal)
    assert f"{to.partition('?')[0]}" in str(error)
    assert "secret" not in str(error)


@pytest.mark.parametrize("provider", THREE)
def test_batches_are_not_looked_for_elsewhere(provider):
    with Canned({}) as other, Canned({}) as server:
        moved = 307, {"Location": f"{other.url}/v2?key=secret"}, ""
        paths = ("/batches/b", "/v1/messages/batches/b", "/v1/b")
        server.answers = dict.fromkeys(paths, moved)
        error = run(provider, server.url, lambda client: client.look("b"))
        assert not other.bodies
    assert isinstance(error, Fatal)
    assert f"{other.url}/v2," in str(error)


# Batches


@pytest.mark.parametrize("provider", THREE)
def test_a_batch_that_somebody_cancelled_is_not_bought_anew_at_once(
    fakes, environ, tmp_path, provider
):
    fakes.faults = [Fault("batch_cancelled", total=1)]
    keys = key_for(environ, provider)
    away = send_away([pool_of()], tmp_path, keys)[provider]
    (why,) = away.disabled.values()
    assert why.code is StopReason.NO_BATCH
    assert "cancelled" in why.message
    assert len(fakes.store.batches) == 1
    again = send_away([pool_of()], tmp_path, keys, run_id="again")[provider]
    assert not again.disabled
    assert len({row.key for row in again.books if row.status == "ok"}) == 6
    assert len(fakes.store.batches) == 2


def test_one_that_had_answered_all_before_is_no_reason_to_stop(fakes, environ, tmp_path):
    def cancelled(batch):
        return shown(batch) | {"status": "cancelled" if batch.ended else "in_progress"}

    shown, patch = openai_batches._shown, pytest.MonkeyPatch()
    with patch.context() as patch:
        patch.setattr(openai_batches, "_shown", cancelled)
        away = send_away([pool_of()], tmp_path, key_for(environ, "openai"))["openai"]
    assert not away.disabled
    assert len(away.books) == 6


@pytest.mark.parametrize("error", [Refused, Retry])
def test_answers_that_came_before_results_broke_off_are_kept(
    fakes, environ, tmp_path, monkeypatch, error
):
    whole, fetches = Batches.results, Counter()

    async def results(self, batch_id):
        fetches[batch_id] += 1
        came = 0
        async for result in whole(self, batch_id):
            if came == 4 and len(fetches) == 1 and fetches[batch_id] == 1:
                raise error("the rest is gone", name="openai")
            came += 1
            yield result

    monkeypatch.setattr(Batches, "results", results)
    away = send_away([pool_of()], tmp_path, key_for(environ, "openai"))["openai"]
    assert not away.disabled
    assert len({row.key for row in away.books}) == len(away.books) == 6
    assert sum(row.attempts == 1 for row in away.books) == (4 if error is Refused else 6)
