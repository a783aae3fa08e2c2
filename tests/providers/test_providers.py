"""The three providers, through their real SDKs, against fakes of their servers on loopback."""

import asyncio
import os

import orjson
import pytest

from tests.fakes import Fakes, Fault
from tests.fakes.scripted import Scripted
from tests.helpers.builders import THREE, runs
from tests.helpers.provider_calls import (
    KEY,
    SECRET,
    Verdict,
    check_discreet,
    one,
    request_for,
    send,
)
from zelo_ray.protocols import grading as sheets
from zelo_ray.providers import (
    Fatal,
    Refused,
    Retry,
    RetryKind,
    Settings,
    anthropic,
    faults,
    gemini,
    load_provider,
    openai,
)
from zelo_ray.providers.outcome import Caller, attempt_call
from zelo_ray.providers.reading import server_delay
from zelo_ray.records import Answer, Judge, Request, Usage

VARIABLES = ("OPENAI_", "ANTHROPIC_", "GEMINI_", "GOOGLE_")
PROXIES = ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY")


@pytest.fixture(autouse=True)
def _bare_environment(monkeypatch):
    for name in os.environ:
        if name.upper().startswith(VARIABLES) or name.upper() in PROXIES:
            monkeypatch.delenv(name)


@pytest.fixture(scope="module")
def server():
    with Fakes(key=KEY, cached=0.5, thinking=3, bodies=True) as fakes:
        yield fakes


@pytest.fixture
def fakes(server):
    server.faults = ()
    server.journal.clear()
    return server


def ask(fakes, provider, *faults, timeout=30.0, key=KEY):
    fakes.faults = faults
    result = send(request_for(provider), Settings(key, fakes.urls[provider], timeout))
    assert len(fakes.journal) == 1
    return result


@pytest.mark.parametrize("provider", THREE)
@pytest.mark.parametrize("grade", [0, 2, 3])
def test_a_document_is_graded_in_the_form_that_was_asked_for(fakes, provider, grade):
    known = load_provider(provider)
    judge = Judge(provider, known.models[0], options=dict(known.options))
    text = f"{SECRET} [[worth={grade}]]"
    request = Request(judge, "You grade.", text, sheets.Grading, query="", documents=())
    answer = send(request, Settings(KEY, fakes.urls[provider], 5.0))
    assert answer.status == "ok"
    verdict = sheets.Grading.model_validate_json(answer.text)
    assert verdict.grade == grade
    assert verdict.facets_covered
    (sent,) = fakes.journal
    places = [sent["body"].index(f'"{name}"') for name in sheets.Grading.model_fields]
    assert places == sorted(places)  # reasons before the grade, also in the schema that is sent


# What each fault becomes: an answer's status, or an error with the words or the status it has.
EVERYWHERE = {
    "prose": "ok",
    "out_of_range": "ok",
    "missing_field": "ok",
    "truncated": "truncated",
    "drop": (Retry, "connection closed"),
    "malformed": (Retry, "without an answer"),
    "not_json": (Retry, "without an answer"),
    "gateway": (Retry, "502"),
    "408": (Retry, "408"),
    "409": (Retry, "409"),
    "429": (Retry, "429"),
    "500": (Retry, "500"),
    "502": (Retry, "502"),
    "503": (Retry, "503"),
    "504": (Retry, "504"),
    "529": (Retry, "529"),
    "bad_request": (Refused, "failed"),
    "too_long": (Refused, "failed"),
    "413": (Refused, "failed"),
    "422": (Refused, "failed"),
    "wrong_key": (Fatal, "set"),
    "unpaid": (Fatal, "spending limit"),
    "forbidden": (Fatal, "grant"),
    "no_model": (Fatal, "no such model"),
    "no_quota": (Fatal, "raise it"),
}
TABLE = [
    *((name, fault, expected) for fault, expected in EVERYWHERE.items() for name in THREE),
    ("openai", "refusal", "refused"),
    ("openai", "filtered", "filtered"),
    ("openai", "filtered_prompt", (Refused, "filtered")),
    ("openai", "unsupported", (Fatal, "judge_options")),
    ("anthropic", "refusal", "refused"),
    ("anthropic", "filtered", (Refused, "filtered")),
    ("anthropic", "spend_limit", (Fatal, "spending limit")),
    ("anthropic", "ramp_limit", (Retry, "429")),
    ("gemini", "refusal", "filtered"),
    ("gemini", "filtered", "filtered"),
    ("gemini", "per_day", (Fatal, "tomorrow")),
]


@pytest.mark.parametrize(("provider", "fault", "expected"), TABLE)
def test_every_fault(fakes, provider, fault, expected):
    result = ask(fakes, provider, Fault(fault))
    if isinstance(expected, str):
        assert isinstance(result, Answer)
        assert result.status == expected
        assert bool(result.reason) == (expected != "ok")
        assert result.usage.input_tokens > 0
        return
    kind, word = expected
    assert type(result) is kind
    assert (result.status if kind is Refused else str(result)).find(word) >= 0
    if kind is Retry:
        assert result.delay is None
        assert (result.kind is RetryKind.THROTTLED) == (word == "429")
    if fault not in ("drop", "malformed", "not_json"):
        assert provider in str(result)


SPENT = {"type": "rate_limit_error", "details": {"error_code": "enforced_spend_limit_reached"}}
RETRY_INFO = {"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": "39.5s"}
PER_DAY = {"violations": [{"quotaId": "GenerateRequestsPerDayPerProject"}]}
NEVER = {"violations": [{"quotaId": "Requests", "quotaValue": "0"}]}
THROTTLED = {  # status, headers, body; the wait that is asked for, or words of a fatal error
    "plain": (429, {}, {"error": {"message": "slow down"}}, None),
    "a page": (429, {"retry-after": "2"}, "<html><title>Too many</title></html>", 2),
    "seconds": (429, {"retry-after": "7"}, {"error": {"code": "rate_limit_exceeded"}}, 7),
    "milliseconds": (429, {"retry-after-ms": "250", "retry-after": "1"}, {"error": {}}, 0.25),
    "in details": (429, {}, {"error": {"code": 429, "details": [RETRY_INFO]}}, 39.5),
    "in a 200": (200, {"retry-after": "4"}, {"error": {"code": 429, "message": "x"}}, 4),
    "unpaid": (429, {}, {"error": {"code": "insufficient_quota"}}, "spending limit"),
    "spent": (429, {"retry-after": "3"}, {"error": SPENT}, "spending limit"),
    "per day": (429, {}, {"error": {"code": 429, "details": [PER_DAY, RETRY_INFO]}}, "tomorrow"),
    "never": (429, {}, {"error": {"code": 429, "details": [NEVER]}}, "no quota"),
}


@pytest.mark.parametrize("provider", THREE)
@pytest.mark.parametrize("kind", THROTTLED)
def test_throttled_calls_wait_as_told_or_stop_where_waiting_does_not_help(provider, kind):
    *said, expected = THROTTLED[kind]
    error = one(provider, tuple(said))
    if isinstance(expected, str):
        assert isinstance(error, Fatal)
        assert expected in str(error)
    else:
        assert isinstance(error, Retry)
        assert error.kind is RetryKind.THROTTLED
        assert error.delay == expected


@pytest.mark.parametrize("provider", THREE)
def test_an_answer(fakes, provider):
    answer = ask(fakes, provider)
    assert answer.status == "ok"
    assert Verdict.model_validate_json(answer.text).preference == pytest.approx(-0.7616)
    assert answer.model == load_provider(provider).models[0]
    entry = fakes.journal[0]
    counted = (answer.usage.input_tokens, answer.usage.output_tokens)
    assert counted == (entry["input_tokens"], entry["output_tokens"])
    cached = answer.usage.cached_tokens + answer.usage.cache_write_tokens
    assert cached == entry["input_tokens"] // 2
    assert answer.usage.thinking_tokens == 3


@pytest.mark.parametrize(
    ("headers", "delay"),
    [
        ({}, None),
        ({"retry-after": "soon"}, None),
        ({"retry-after": "inf"}, None),
        ({"retry-after": "2.5"}, 2.5),
        ({"retry-after": "-3"}, 0.0),
        ({"retry-after": "2", "retry-after-ms": "1250"}, 1.25),
        ({"retry-after": "Thu, 01 Jan 1970 00:01:40 GMT"}, 90.0),
        ({"retry-after": "Thu, 01 Jan 1970 00:00:01 GMT"}, 0.0),
    ],
)
def test_server_delay(headers, delay):
    assert server_delay(headers, now=lambda: 10.0) == delay


def openai_headers(limit, remaining, reset, tokens=None):
    told = {"limit": limit, "remaining": remaining, "reset": reset}
    headers = {f"x-ratelimit-{name}-requests": text for name, text in told.items() if text}
    return headers | ({"x-ratelimit-limit-tokens": tokens} if tokens else {})


@pytest.mark.parametrize(
    ("headers", "told"),
    [
        (openai_headers("5000", "4999", "12ms", "2000000"), {"rpm": 5000, "tpm": 2e6}),
        (openai_headers("5000", "1000", "48s"), {"rpm": 5000}),
        (openai_headers("500000", "499999", "1ms"), {"rpm": 500000}),  # rounded up
        (openai_headers("60", "60", "0s"), {"rpm": 60}),
        (openai_headers("200", "199", "7m12s", "40000"), {"tpm": 40000}),  # a day's
        (openai_headers("10000", "9999", "8.64s"), {}),
        (openai_headers("5000", "", "12ms"), {}),
        (openai_headers("5000", "4999", "soon"), {}),
        (openai_headers("many", "4999", "12ms", "inf"), {}),
        ({}, {}),
    ],
)
def test_limits_in_openais_headers(headers, told):
    assert openai.rates(headers) == told


def test_limits_in_anthropics_headers():
    rates, start = anthropic.rates, "anthropic-ratelimit"
    every = {
        f"{start}-requests-limit": "4000",
        f"{start}-tokens-limit": "480000",
        f"{start}-input-tokens-limit": "400000",
        f"{start}-output-tokens-limit": "80000",
    }
    assert rates(every) == {"rpm": 4000, "itpm": 400000, "otpm": 80000}
    assert rates({f"{start}-tokens-limit": "480000"}) == {"tpm": 480000}
    assert rates({f"{start}-requests-limit": "?", f"{start}-input-tokens-limit": "nan"}) == {}


def test_an_answer_tells_the_limits():
    limits = {"rpm": 6000, "tpm": {"openai": 900000}, "itpm": 80000, "otpm": 40000}
    expected = {
        "openai": {"rpm": 6000, "tpm": 900000},
        "anthropic": {"rpm": 6000, "itpm": 80000, "otpm": 40000},
        "gemini": {},
    }
    with Fakes(key=KEY, **limits) as fakes:
        for provider, rates in expected.items():
            assert ask(fakes, provider).rates == rates
            fakes.journal.clear()


@pytest.mark.parametrize("provider", THREE)
def test_what_a_response_without_an_answer_was_billed(fakes, provider):
    error = ask(fakes, provider, Fault("malformed_billed"))
    assert isinstance(error, Retry)
    entry = fakes.journal[0]["usage"]
    assert error.billed == Usage(
        input_tokens=entry["input"],
        output_tokens=entry["output"],
        cached_tokens=entry["cached"],
        cache_write_tokens=entry["cache_write"],
        thinking_tokens=entry["thinking"],
    )
    assert error.billed.input_tokens > 0
    for unbilled in ("malformed", "not_json", "drop", "429"):
        fakes.journal.clear()
        assert ask(fakes, provider, Fault(unbilled)).billed is None


@pytest.mark.parametrize("provider", THREE)
@runs
async def test_cancellation_passes(fakes, provider):
    fakes.faults = [Fault("timeout")]
    client = load_provider(provider).connect(Settings(KEY, fakes.urls[provider], 5))
    call = asyncio.create_task(client.send(request_for(provider)))
    await asyncio.sleep(0.2)
    call.cancel()
    with pytest.raises(asyncio.CancelledError):
        await call
    await client.aclose()


@pytest.mark.parametrize("provider", THREE)
@pytest.mark.parametrize("fault", ["bad_request", "422", "500", "429", "forbidden"])
def test_echoes_of_key_and_prompt_are_dropped(fakes, provider, fault):
    said = ask(fakes, provider, Fault(fault, message=f"the key was {KEY}"))
    assert "[key]" in str(said) or (provider, fault) == ("gemini", "429")
    fakes.journal.clear()
    ask(fakes, provider, Fault(fault, message=f"could not read: '{SECRET}' [[worth"))
    fakes.journal.clear()
    said = ask(fakes, provider, Fault(fault, message="two\nlines, " + "and more " * 100))
    assert "two lines" in str(said) or (provider, fault) == ("gemini", "429")


@pytest.mark.parametrize("provider", THREE)
@pytest.mark.parametrize("key", ["", "  ", f"{KEY}\nand more", f"{KEY}é", f"{KEY} twice"])
def test_keys_that_cannot_be(provider, key):
    with pytest.raises(Fatal, match=load_provider(provider).key_variables[0]) as caught:
        load_provider(provider).connect(Settings(key))
    assert KEY not in repr(caught.value)


@pytest.mark.parametrize("provider", THREE)
def test_other_credentials_are_left_alone(fakes, provider, monkeypatch, tmp_path):
    elsewhere = "http://127.0.0.1:9"
    for name in ("OPENAI_API_KEY", "OPENAI_ADMIN_KEY", "ANTHROPIC_API_KEY", "GEMINI_API_KEY"):
        monkeypatch.setenv(name, "another")
    for name in ("OPENAI_BASE_URL", "ANTHROPIC_BASE_URL", "GOOGLE_GEMINI_BASE_URL"):
        monkeypatch.setenv(name, elsewhere)
    monkeypatch.setenv("ANTHROPIC_AUTH_TOKEN", "another")
    monkeypatch.setenv("ANTHROPIC_PROFILE", "another")
    monkeypatch.setenv("ANTHROPIC_CONFIG_DIR", str(tmp_path))
    monkeypatch.setenv("GOOGLE_GENAI_USE_VERTEXAI", "true")
    monkeypatch.setenv("GOOGLE_CLOUD_PROJECT", "another")
    assert ask(fakes, provider).status == "ok"


def test_a_compatible_server_needs_no_key():
    with Fakes(["openai"], key=None) as fakes:
        assert send(request_for("openai"), Settings("", fakes.urls["openai"])).status == "ok"


@pytest.mark.parametrize("provider", ["openai", "anthropic"])
def test_text_that_is_no_unicode(fakes, provider):
    result = send(request_for(provider, "half a character: \ud800"), Settings(KEY, fakes.url))
    assert isinstance(result, Refused)
    assert "characters" in str(result)


@pytest.mark.parametrize(
    ("fault", "words"),
    [
        (lambda _: None, r"unexpected RuntimeError at test_providers\.py:\d+"),
        (lambda error: error.details, r"unexpected AttributeError at test_providers\.py:\d+"),
        (lambda error: faults.Fault(400, str(error), [KEY, SECRET]), "400"),
    ],
)
def test_an_unexpected_error_is_refused_without_its_text(fault, words):
    async def call():
        raise RuntimeError(KEY + SECRET)

    async def run():
        caller = Caller("openai:m", Settings(KEY), ("K",), fault, (SECRET,))
        await attempt_call(call(), caller, dict, dict)

    with pytest.raises(Refused, match=words) as caught:
        asyncio.run(run())
    check_discreet(caught.value)


def sent(fakes, provider, **options):
    """The body that reaches the server."""
    request = request_for(provider, **options)
    send(request, Settings(KEY, fakes.urls[provider]))
    body = orjson.loads(fakes.journal[-1]["body"])
    assert "null" not in fakes.journal[-1]["body"]
    return body


def test_openai_options(fakes):
    body = sent(fakes, "openai")
    assert sorted(body) == ["max_completion_tokens", "messages", "model", "response_format"]
    assert body["response_format"]["json_schema"]["strict"] is True
    assert body["max_completion_tokens"] == 2048
    body = sent(fakes, "openai", temperature=0.5, reasoning_effort="none", max_output_tokens=9)
    assert (body["temperature"], body["reasoning_effort"]) == (0.5, "none")
    assert fakes.journal[-1]["outcome"] == "truncated"
    body = sent(fakes, "openai", response_format="json_object", token_limit_field="max_tokens")
    assert body["response_format"] == {"type": "json_object"}
    assert body["max_tokens"] == 2048
    assert "max_completion_tokens" not in body
    body = sent(fakes, "openai", response_format="none", extra_body={"top_k": 3, "model": "m"})
    assert (body["top_k"], body["model"]) == (3, "m")
    assert "response_format" not in body


def test_anthropic_options(fakes):
    body = sent(fakes, "anthropic")
    assert sorted(body) == ["max_tokens", "messages", "model", "output_config", "system"]
    assert sorted(body["output_config"]) == ["format"]
    assert sent(fakes, "anthropic", effort="low")["output_config"]["effort"] == "low"
    assert {entry["outcome"] for entry in fakes.journal} == {"ok"}


def test_gemini_options(fakes):
    body = sent(fakes, "gemini")
    config = body["generationConfig"]
    assert sorted(body) == ["contents", "generationConfig", "systemInstruction"]
    assert sorted(config) == ["maxOutputTokens", "responseJsonSchema", "responseMimeType"]
    config = sent(fakes, "gemini", temperature=0.0, thinking_level="low")["generationConfig"]
    assert config["temperature"] == 0.0
    assert "low" in str(config["thinkingConfig"]).lower()


def test_readings_that_the_fakes_do_not_give():
    def read_openai(message, **more):
        return openai.read_answer({"choices": [{"message": message}], **more})

    assert read_openai({"content": "{}"}) == Answer("ok", "{}", Usage())  # many compatible servers
    assert read_openai({"content": None}).text == ""
    with pytest.raises(TypeError):
        read_openai({"content": [{"type": "text"}]})
    parts = [{"text": "hm", "thought": True}, {"text": "{"}, {"text": "}"}]
    answer = gemini.read_answer(
        {
            "candidates": [{"content": {"parts": parts}, "finishReason": "STOP"}],
            "usageMetadata": {"promptTokenCount": 7, "thoughtsTokenCount": 5},
        }
    )
    assert answer == Answer("ok", "{}", Usage(7, 5, thinking_tokens=5))
    usage = {"input_tokens": 1, "cache_read_input_tokens": 10, "output_tokens": 3}
    usage["cache_creation_input_tokens"] = 100
    blocks = [{"type": "thinking", "thinking": "hm"}, {"type": "text", "text": "{}"}]
    full = "model_context_window_exceeded"
    answer = anthropic.read_answer(
        {"model": "m", "content": blocks, "stop_reason": full, "usage": usage}
    )
    assert answer == Answer("truncated", "{}", Usage(111, 3, 10, 100), "m", f"stop_reason: {full}")


def test_a_server_that_wants_a_key_and_got_none_is_told_where_to_name_one():
    with Scripted((401, {}, {"error": {"message": "no"}})) as server:
        error = send(request_for("openai"), Settings("", server.url))
    assert "none was sent" in str(error)
    assert "api_key_env" in str(error)
