"""The cause of a failure is told as it is: a firewall, a server that counts nothing."""

import asyncio

import pytest

from tests.fakes.scripted import Scripted
from tests.helpers.builders import MachineBudget, ask, judge_of, pool_of
from tests.helpers.provider_calls import (
    VERDICT,
    candidate,
    completion,
    message_of,
    one,
    request_for,
    rerank_outcome,
)
from zelo_ray.command_options import DoctorOptions
from zelo_ray.commands.doctor import ask_judge
from zelo_ray.engine.exposure import sum_exposure
from zelo_ray.engine.replies import describe_uncounted
from zelo_ray.providers import Fatal, Refused, Retry, RetryKind, Settings
from zelo_ray.providers.faults import read_fault
from zelo_ray.providers.outcome import Caller, classify_fault
from zelo_ray.records import Usage

NAMES = ("openai", "anthropic", "gemini")
PAGE = "<!DOCTYPE html><html><head><title>{}</title></head><body>no</body></html>"


# An HTML page is not the API's.


@pytest.mark.parametrize("provider", [*NAMES, "cohere"])
@pytest.mark.parametrize("status", [401, 403])
def test_a_page_is_of_a_firewall_and_says_nothing_of_the_key(provider, status):
    said = (status, {}, PAGE.format("Just a moment..."))
    error = rerank_outcome(said) if provider == "cohere" else one(provider, said)
    assert type(error) is Fatal
    assert "a firewall or a login page" in str(error)
    assert f"({status}" in str(error)
    assert "an HTML page" in str(error)
    assert ", Just a moment...)" in str(error)
    assert "key" not in str(error).partition("machine")[0]


@pytest.mark.parametrize("provider", NAMES)
@pytest.mark.parametrize(("status", "title"), [(503, "Attention Required!"), (502, ""), (429, "?")])
def test_a_page_that_may_pass_is_asked_again(provider, status, title):
    error = one(provider, (status, {"Retry-After": "3"}, PAGE.format(title)))
    assert type(error) is Retry
    assert "an HTML page and not the API's answer" in str(error)
    assert title in str(error)
    assert (error.kind is RetryKind.THROTTLED, error.delay) == (status == 429, 3.0)


# Counts.


@pytest.mark.parametrize("form", [str, float, lambda count: f"{count}.0"])
def test_counts_of_all_providers_are_read(form):
    counts = {"prompt_tokens": form(90), "completion_tokens": form(7)}
    assert one("openai", completion(usage=counts)).usage == Usage(90, 7)
    counts = {"input_tokens": form(40), "cache_read_input_tokens": form(50)}
    message = message_of() | {"usage": counts | {"output_tokens": form(7)}}
    assert one("anthropic", message).usage == Usage(90, 7, 50)
    counts = {"promptTokenCount": form(90), "candidatesTokenCount": form(5)}
    counts |= {"thoughtsTokenCount": form(2)}
    read = one("gemini", candidate() | {"usageMetadata": counts}).usage
    assert read == Usage(90, 7, thinking_tokens=2)
    rows = [{"index": i, "relevance_score": 0.5} for i in range(4)]
    units = {"meta": {"billed_units": {"search_units": form(1)}}, "results": rows}
    assert rerank_outcome(units).usage.searches == 1


@pytest.mark.parametrize("counts", ["none", [], 7, None, {"prompt_tokens": {}}, True])
def test_counts_of_no_form_cost_no_answer(counts):
    assert one("openai", completion() | {"usage": counts}).text == VERDICT
    assert one("anthropic", message_of() | {"usage": counts}).text == VERDICT
    assert one("gemini", candidate() | {"usageMetadata": counts}).text == VERDICT


def run_uncounted(tmp_path, **fields):
    with Scripted(completion(usage=None)) as server:
        name = f"openai:m@{server.url}/v1"
        prices = {name: {"input": 1, "output": 2}}
        asker = ask([pool_of()], tmp_path, {}, judges=(name,), prices=prices, **fields)
        return name, asker


@pytest.mark.parametrize("cap", [None, 5.0])
def test_a_server_that_reports_no_tokens_is_named(tmp_path, cap):
    budget = MachineBudget(cap) if cap else None
    name, asker = run_uncounted(tmp_path, budget=budget, max_usd=cap)
    assert asker.tallies[name].uncounted == len(asker.books) == 6
    assert (sum_exposure(str(tmp_path)) > 0) == bool(cap)
    [said] = describe_uncounted(asker.tallies)
    assert name in said


def test_doctor_says_it_before_a_run_does():

    with Scripted(completion(usage=None)) as server:
        judge = judge_of(f"openai:m@{server.url}/v1", **request_for("openai").judge.options)
        finding = asyncio.run(ask_judge(judge, "none", DoctorOptions()))
    assert finding.state == "ok"
    assert "reports no tokens: under --max-usd" in str(finding)
    assert "at its limit" in str(finding)


def test_doctor_outlives_an_end_that_nobody_knows():

    with Scripted(completion("a_new_word", "no")) as server:
        judge = judge_of(f"openai:m@{server.url}/v1", **request_for("openai").judge.options)
        finding = asyncio.run(ask_judge(judge, "none", DoctorOptions()))
    assert finding.state == "wrong"
    assert "finish_reason: a_new_word" in str(finding)


def test_no_text_of_a_prompt_says_what_an_error_means():
    """Such as a document on billing, or on limits, that a server quotes."""
    for words in ("billing", "api key", "per day", "limit: 0,", "content policy"):
        error = one("openai", (400, {}, {"error": {"message": f"cannot read '{words}'"}}))
        assert type(error) is Refused
        assert error.status == "failed"


@pytest.mark.parametrize(
    ("status", "body"),
    [
        (429, {"error": {"message": "slow down", "code": "api_key_rate_limit_exceeded"}}),
        (408, {"error": {"message": "timed out", "code": "authentication_timeout"}}),
        (503, {"error": {"message": "the queue is too large, try again later"}}),
        (0, {"error": "temporary failure: billing service upstream timeout"}),
        (0, {"error": {"message": "the newspaper day index failed upstream"}}),
    ],
)
def test_what_passes_by_itself_is_tried_again(status, body):
    caller = Caller("j", Settings("a-key"), ("KEY",), lambda _: None, ("system", "document"))
    assert isinstance(classify_fault(read_fault(body, status), caller), Retry)


def test_a_document_that_is_echoed_stops_no_judge():
    document = "My credit balance is too low, says the bank."
    caller = Caller("j", Settings("a-key"), ("KEY",), lambda _: None, (document,))
    body = {"error": {"message": f"cannot read: {document}", "type": "invalid_request_error"}}
    assert isinstance(classify_fault(read_fault(body, 400), caller), Refused)
