"""Responses that say that all is well, and hold no answer: what becomes of them, and what is told.

Through the real clients, against a server on loopback that says what servers of the world say.
"""

from itertools import product

import pytest

from tests.fakes.scripted import Scripted
from tests.helpers.builders import ask, pool_of
from tests.helpers.provider_calls import (
    SECRET,
    VERDICT,
    candidate,
    canned,
    completion,
    lines_of,
    message_of,
    one,
    openai_batch,
)
from zelo_ray.providers import Fatal, Refused, Retry, RetryKind
from zelo_ray.providers.reading import classify_ending
from zelo_ray.records import Answer, Usage

FAILED = ["error", "ERROR", "failed", "network_error", "abort", "insufficient_system_resource"]
ENDINGS = {
    **dict.fromkeys(FAILED, "failed"),
    **dict.fromkeys(("cancelled", "Error", "server-error", "timeout"), "failed"),
    **dict.fromkeys(("MAX_TOKENS", "max_tokens", "max_output_tokens", "length"), "truncated"),
    **dict.fromkeys(("model_length", "MaxTokens", "FinishReason.MAX_TOKENS"), "truncated"),
    **dict.fromkeys(("SAFETY", "safety", "recitation", "sensitive", "content_filter"), "filtered"),
    **dict.fromkeys(("PROHIBITED_CONTENT", "content-filter", "guardrail_intervened"), "filtered"),
    **dict.fromkeys(("stop", "STOP", "eos", "eos_token", "end_turn", "COMPLETE", "", None), "ok"),
    **dict.fromkeys(("stop_sequence", "<|endoftext|>", "FINISH_REASON_STOP"), "ok"),
    **dict.fromkeys(("a_new_word", "null", "?"), None),
}


@pytest.mark.parametrize("word", ENDINGS)
def test_each_word_for_an_end_is_a_known_one_or_none(word):
    assert classify_ending(word) == (ENDINGS[word] if word != "?" else "ok")


@pytest.mark.parametrize("finish", FAILED)
@pytest.mark.parametrize("content", ["", None, VERDICT, VERDICT[:20]])
def test_what_broke_off_upstream_is_asked_again_and_no_vote(finish, content):
    error = one("openai", completion(finish, content))
    assert isinstance(error, Retry)
    assert f"no answer (finish_reason: {finish})" in str(error)
    assert (error.billed, error.unsettled) == (Usage(90, 7), False)
    error = one("openai", completion(finish, content, usage=None))
    assert (error.billed, error.unsettled) == (None, True)


@pytest.mark.parametrize(
    ("error", "kind", "words"),
    [
        ({"code": 502, "message": "Upstream idle timeout"}, Retry, "502: Upstream idle timeout"),
        ({"code": "429", "message": "rate limited"}, Retry, "429: rate limited"),
        ({"code": 402, "message": "Insufficient credits"}, Fatal, "spending limit is used up"),
        ("connection lost", Retry, "no answer (connection lost)"),
        ({"message": "boom", "type": "overloaded_error"}, Retry, "overloaded_error: boom"),
    ],
)
def test_an_error_in_a_choice_is_the_fault_that_it_names(error, kind, words):
    outcome = one("openai", completion("stop", VERDICT, error=error))
    assert type(outcome) is kind
    assert words in str(outcome)


@pytest.mark.parametrize("error", [None, {}, "", {"code": 0, "message": ""}, False])
def test_an_error_that_is_none_costs_no_answer(error):
    assert one("openai", completion("stop", VERDICT, error=error)).status == "ok"
    assert one("openai", completion() | {"error": error}).status == "ok"


@pytest.mark.parametrize(
    ("provider", "said", "status", "reason"),
    [
        ("openai", completion("MAX_TOKENS", VERDICT[:9]), "truncated", "finish_reason: MAX_TOKENS"),
        ("openai", completion("sensitive", ""), "filtered", "finish_reason: sensitive"),
        ("openai", completion("a_new_word"), "ok", "finish_reason: a_new_word"),
        (
            "openai",
            completion("a_new_word", f"```\n{VERDICT}\n```"),
            "ok",
            "read without its fence",
        ),
        ("openai", completion(None), "ok", ""),
        ("openai", completion("", native_finish_reason="MAX_TOKENS"), "truncated", "MAX_TOKENS"),
        ("anthropic", message_of("MAX_TOKENS", VERDICT[:9]), "truncated", "stop_reason"),
        ("anthropic", message_of("refusal", ""), "refused", "stop_reason: refusal"),
        ("anthropic", message_of("pause_turn", ""), "truncated", "stop_reason: pause_turn"),
        ("anthropic", message_of("a_new_word"), "ok", "stop_reason: a_new_word"),
        ("anthropic", message_of(None), "ok", ""),
        ("gemini", candidate("max_tokens", VERDICT[:9]), "truncated", "finishReason"),
        ("gemini", candidate("SPII", ""), "filtered", "finishReason: SPII"),
        ("gemini", candidate("A_NEW_WORD"), "ok", "finishReason: A_NEW_WORD"),
    ],
)
def test_ends_in_other_words_are_what_they_mean(provider, said, status, reason):
    answer = one(provider, said)
    assert answer.status == status
    assert reason in answer.reason
    assert bool(answer.reason) == bool(reason)


@pytest.mark.parametrize(
    ("provider", "said", "words", "status"),
    [
        ("openai", completion("a_new_word", ""), "finish_reason: a_new_word; ", "failed"),
        ("openai", completion("a_new_word", VERDICT[:20]), "finish_reason: a_new", "failed"),
        ("anthropic", message_of("a_new_word", ""), "stop_reason: a_new_word; ", "failed"),
        ("anthropic", message_of("error", VERDICT), "no answer (stop_reason: error)", "failed"),
        ("gemini", candidate("OTHER", VERDICT), "no answer (finishReason: OTHER)", "failed"),
        ("gemini", candidate("MALFORMED_FUNCTION_CALL", ""), "MALFORMED_FUNCTION", "failed"),
        ("gemini", candidate("STOP", ""), "finishReason: STOP, and no text", "refused"),
        ("gemini", candidate("STOP", " \n"), "finishReason: STOP, and no text", "refused"),
        ("gemini", candidate(None, ""), "finishReason: none, and no text", "refused"),
    ],
)
def test_what_is_no_answer_is_asked_again_and_was_billed(provider, said, words, status):
    error = one(provider, said)
    assert isinstance(error, Retry)
    assert words in str(error)
    assert error.billed == Usage(90, 7)
    assert error.status == status


def call_of_a_tool(provider):
    call = {"id": "1", "type": "function", "function": {"name": "f", "arguments": VERDICT}}
    block = {"type": "tool_use", "id": "1", "name": "f", "input": {}}
    tools = {"role": "assistant", "content": None, "tool_calls": [call]}
    return {
        "openai": completion("tool_calls", message=tools),
        "anthropic": message_of("tool_use", "") | {"content": [block]},
        "gemini": candidate(content={"parts": [{"functionCall": {"name": "f", "args": {}}}]}),
    }[provider]


@pytest.mark.parametrize("provider", ["openai", "anthropic", "gemini"])
def test_a_call_of_a_tool_is_called_that(provider):
    answer = one(provider, call_of_a_tool(provider))
    assert answer.status == "invalid"
    assert "a tool call" in answer.reason


# A fault in a 200 is what it would be in a status of its own.

FAULTS = {
    "402 of OpenRouter": (
        {"error": {"code": 402, "message": "Insufficient credits. Add more"}, "user_id": "u"},
        *(Fatal, "quota or spending limit is used up; raise it, then run again (402: Insufficient"),
    ),
    "402 as text": ({"error": {"code": "402", "message": "No"}}, Fatal, "spending limit"),
    "a word": ({"error": {"code": "insufficient_quota", "message": "x"}}, Fatal, "spending limit"),
    "a sentence alone": ({"error": "Insufficient credits"}, Fatal, "spending limit is used up"),
    "429": ({"error": {"code": 429, "message": "Slow down"}}, Retry, "429: Slow down"),
    "a rate in words": (
        {"error": {"type": "rate_limit_error", "message": "Slow"}, "type": "error"},
        *(Retry, "no answer (rate_limit_error: Slow)"),
    ),
    "vLLM before 0.9": (
        {
            "object": "error",
            "type": "BadRequestError",
            "param": None,
            "code": 400,
            "message": "This model's maximum context length is 4096 tokens. However, you requested",
        },
        *(Refused, "400 BadRequestError: This model's maximum context length is 4096 tokens"),
    ),
    "context, no code": ({"error": "prompt exceeds context window of 4096"}, Refused, "4096"),
    "a status in words": (
        [{"error": {"status": "UNAUTHENTICATED", "message": "no"}}],
        *(Fatal, "the key was refused"),
    ),
    "detail": ({"detail": "Model is loading"}, Retry, "without an answer in it: Model is loading"),
    "detail in a list": ({"detail": [{"msg": "overloaded"}]}, Retry, "in it: overloaded"),
    "errors": ({"errors": [{"message": "Too many requests"}]}, Retry, "Too many requests"),
    "MiniMax": (
        {"choices": None, "base_resp": {"status_code": 1008, "status_msg": "insufficient balance"}},
        *(Fatal, "spending limit"),
    ),
    "a gateway's raw words": (
        {
            "error": {
                "code": 400,
                "message": "Provider returned error",
                "metadata": {"raw": '{"error": {"message": "context length is 8192"}}'},
            }
        },
        *(Refused, "400: context length is 8192"),
    ),
    "an overload": ({"error": {"message": "engine overloaded"}}, Retry, "engine overloaded"),
    "nothing known": ({"error": {"message": "Oh no"}}, Retry, "no answer (Oh no)"),
    "a page": ("<html><title>Sign in</title></html>", Retry, "in it: an HTML page and not the API"),
    "plain text": ("upstream connect error", Retry, "in it: upstream connect error"),
    "the prompt": ({"error": f"cannot read: {SECRET}"}, Retry, "no answer"),
}


@pytest.mark.parametrize(
    ("provider", "fault"),
    [
        *(("openai", fault) for fault in FAULTS),
        *product(
            ("anthropic", "gemini"), ("402 of OpenRouter", "429", "context, no code", "a page")
        ),
    ],
)
def test_a_fault_in_a_200_is_the_fault_that_it_names(provider, fault):
    body, kind, words = FAULTS[fault]
    error = one(provider, body)
    assert type(error) is kind
    assert words in str(error)
    if kind is Retry:
        assert (error.kind is RetryKind.THROTTLED) == (
            fault in ("429", "a rate in words", "errors")
        )


@pytest.mark.parametrize(
    ("headers", "more"),
    [
        ({"Retry-After": "7"}, {}),
        ({}, {"retry_after": 7}),
        ({}, {"metadata": {"retry_after_seconds": "7"}}),
        ({}, {"metadata": {"headers": {"Retry-After": "7"}}}),
        ({}, {"details": [{"retryDelay": "7s"}]}),
    ],
)
def test_the_wish_to_wait_in_a_200_is_heard(headers, more):
    said = (200, headers, {"error": {"code": 429, "message": "Slow down", **more}})
    error = one("openai", said)
    assert (error.kind, error.delay, error.unsettled) == (RetryKind.THROTTLED, 7.0, False)


def test_lines_of_batches_say_so_too():
    bodies = {
        "error": completion("error", VERDICT),
        "length": completion("MAX_TOKENS", ""),
        "sensitive": completion("sensitive", ""),
        "new": completion("a_new_word"),
        "unpaid": {"error": {"code": "402", "message": "no"}},
        "words": {"error": "rate_limit_exceeded"},
        "object": {"object": "error", "code": 400, "message": "no"},
    }
    lines = lines_of(
        *(
            {"custom_id": name, "response": {"status_code": 200, "body": body}, "error": None}
            for name, body in bodies.items()
        ),
        {"custom_id": "text", "response": {"status_code": 503, "body": "gone"}},
    )
    answers = openai_batch(output_file_id="out") | {"/files/out/content": lines}
    _, outcomes = canned("openai", answers)
    kinds = {name: type(outcome) for name, outcome in outcomes.items()}
    assert kinds == {
        **dict.fromkeys(("error", "words", "text"), Retry),
        **dict.fromkeys(("length", "sensitive", "new"), Answer),
        "unpaid": Fatal,
        "object": Refused,
    }
    assert outcomes["error"].billed == Usage(90, 7)
    assert [outcomes[n].status for n in ("length", "sensitive")] == ["truncated", "filtered"]


@pytest.mark.parametrize("provider", ["openai", "anthropic", "gemini"])
@pytest.mark.parametrize(
    ("error", "kind", "words"),
    [
        ({"code": 402, "message": "Insufficient credits"}, Fatal, "spending limit is used up"),
        ({"code": 429, "message": "slow"}, Retry, "429"),
        ({"message": "oh no"}, Retry, "no answer"),
    ],
)
def test_batches_themselves_say_so_too(provider, error, kind, words):
    path = {
        "openai": "/batches/b",
        "anthropic": "/v1/messages/batches/b",
        "gemini": "/v1/batches/b",
    }[provider]
    name = "batches/b" if provider == "gemini" else "b"
    outcome = canned(provider, {path: {"error": error}}, name)
    assert type(outcome) is kind
    assert words in str(outcome)


# What a run makes of them.


def run(tmp_path, script, **fields):
    with Scripted(script) as server:
        name = f"openai:m@{server.url}/v1"
        given = {"judges": (name,), "keep_asking": True, **fields}  # all prompts have 90 tokens
        asker = ask([pool_of()], tmp_path / "out", {}, **given)
        return asker, server.bodies
