"""A field that a server does not take is in every request: one line names it, and the option."""

import json
from dataclasses import replace

import pytest

from tests.builders import ask, pool_of
from tests.fakes.scripted import Scripted
from tests.provider_calls import (
    KEY,
    SECRET,
    canned,
    check_discreet,
    lines_of,
    openai_batch,
    request_for,
    send,
)
from zelo_ray.providers import Fatal, Refused, Retry, Settings
from zelo_ray.providers.openai import connection
from zelo_ray.providers.openai.batches import OpenAIBatches

EXTRA = {"type": "extra_forbidden", "msg": "Extra inputs are not permitted", "input": 7}


def loc(*path, **more):
    """What FastAPI says of a field, as vLLM, TGI, Ray Serve and LiteLLM send it."""
    return {"detail": [{**EXTRA, "loc": ["body", *path], **more}]}


OPTIONS = {
    "max_completion_tokens": "token_limit_field: max_tokens",
    "response_format": "response_format: json_object",
    "temperature": "leave temperature out",
    "reasoning_effort": "leave reasoning_effort out",
    "top_k": "leave it out of extra_body",
}
GIVEN = {"temperature": 0.0, "reasoning_effort": "low", "extra_body": {"top_k": 3}}
FORMS = {
    "FastAPI": (422, loc),
    "FastAPI, nested": (422, lambda name: loc(name, "x", type="list", msg="unexpected value")),
    "pydantic 1": (422, lambda name: loc(name, type="value_error.extra", msg="not permitted")),
    "without body": (422, lambda name: {"detail": [{**EXTRA, "loc": [name]}]}),
    "detail as text": (400, lambda name: {"detail": f"{name}: Extra inputs are not permitted"}),
    "plain text": (400, lambda name: f"Unrecognized request argument supplied: {name}"),
    "OpenAI": (
        400,
        lambda name: {
            "error": {
                "message": f"Unsupported parameter: '{name}' is not supported with this model.",
                "type": "invalid_request_error",
                "param": name,
                "code": "unsupported_parameter",
            }
        },
    ),
    "errors": (422, lambda name: {"errors": [{"message": f"{name} is not supported"}]}),
    "message": (400, lambda name: {"object": "error", "message": f"unknown field `{name}`"}),
    "error as text": (400, lambda name: {"error": f'json: unknown field "{name}"'}),
    "Mistral": (
        422,
        lambda name: {"object": "error", "message": loc(name), "type": "invalid_request_error"},
    ),
    "Django": (400, lambda name: {name: ["This field is not allowed."]}),
    "through a gateway": (
        400,
        lambda name: {
            "error": {
                "message": "Provider returned error",
                "code": 400,
                "metadata": {"raw": json.dumps(loc(name)), "provider_name": "p"},
            }
        },
    ),
    "in a 200": (200, lambda name: {"error": {"code": 400, "message": f"{name} not supported"}}),
}


def refusal(provider, status, body, **options):
    with Scripted((status, {}, body)) as server:
        settings = Settings(KEY, server.url, 5.0)
        error = send(request_for(provider, **options), settings)
    check_discreet(error)
    return error


@pytest.mark.parametrize(
    ("form", "field"),
    [*((form, next(iter(OPTIONS))) for form in FORMS), *(("OpenAI", field) for field in OPTIONS)],
)
def test_a_field_that_is_not_taken_is_named_with_the_option(form, field):
    status, body = FORMS[form]
    error = refusal("openai", status, body(field), **GIVEN)
    assert type(error) is Fatal
    assert f"the server does not accept the field {field}; " in str(error)
    assert OPTIONS[field] in str(error)


def test_of_two_names_in_a_message_the_one_that_was_sent_is_meant():
    said = "Unsupported parameter: 'max_tokens' is not supported. Use 'max_completion_tokens'."
    error = refusal("openai", 400, {"message": said}, token_limit_field="max_tokens")
    assert "the field max_tokens; set token_limit_field: max_completion_tokens" in str(error)
    said = "Use max_tokens, for max_completion_tokens is not supported"
    error = refusal("openai", 400, {"message": said})
    assert "the field max_completion_tokens; set token_limit_field: max_tokens" in str(error)


@pytest.mark.parametrize(
    ("provider", "options", "said", "field", "advice"),
    [
        (
            *("anthropic", {}, "output_config.format: Extra inputs are not permitted"),
            *("output_config", "choose a model that keeps to a schema"),
        ),
        (
            *("anthropic", {}, "max_tokens: 9000 > 4096, which is the maximum allowed number of "),
            *("max_tokens", "a smaller max_output_tokens"),
        ),
        (
            *("gemini", {"thinking_level": "low"}, "Unknown name \"thinkingConfig\" at 'g': no"),
            *("thinkingConfig", "leave thinking_level out"),
        ),
        (
            *("gemini", {}, "Unknown name 'response_json_schema' at 'generation_config'"),
            *("responseJsonSchema", "choose a model that accepts it"),
        ),
        ("openai", {}, "response_format.type must be text", "response_format", "json_object"),
    ],
)
def test_other_providers_name_their_fields(provider, options, said, field, advice):
    if provider == "anthropic" and "9000" in said:
        said += "output tokens"
    error = refusal(provider, 400, {"error": {"message": said}}, **options)
    assert type(error) is Fatal
    assert f"the field {field}; " in str(error)
    assert advice in str(error)


@pytest.mark.parametrize(
    ("status", "body"),
    [
        (422, loc("messages", 1, "content", type="string_too_long")),
        (400, {"error": {"message": "maximum context length is 4096 tokens, max_tokens is 2048"}}),
        (*(400, {"error": {"message": "input length and `max_tokens` exceed context limit: 9"}}),),
        (400, {"error": {"message": "max_completion_tokens must be at least 1, got -7"}}),
        (422, "`inputs` tokens + `max_new_tokens` must be at most 4096"),
        (400, {"error": {"message": "the text is not allowed", "code": "content_filter"}}),
        (400, f"temperature is not supported: {SECRET}"),
    ],
)
def test_what_one_prompt_is_refused_for_is_its_own(status, body):
    assert type(refusal("openai", status, body, **GIVEN)) is Refused


def test_a_field_that_a_server_misses_is_of_another_api():
    error = refusal("openai", 422, loc("prompt", type="missing", msg="Field required"))
    assert type(error) is Fatal
    assert "requires the field prompt, " in str(error)
    assert "another API" in str(error)


def test_a_context_that_is_too_small_is_no_outage():
    said = {"error": {"message": "the request exceeds the available context size (4096)"}}
    assert type(refusal("openai", 500, said)) is Refused
    assert type(refusal("openai", 500, {"error": {"message": "no"}})) is Retry


def test_one_call_tells_it(tmp_path):
    with Scripted((422, {}, loc("max_completion_tokens"))) as server:
        name = f"openai:m@{server.url}/v1"
        asker = ask([pool_of()], tmp_path / "out", {}, judges=(name,))
    assert len(server.bodies) == 1
    assert "\n" not in asker.stopped
    assert "max_completion_tokens; set token_limit_field: max_tokens in judge_o" in asker.stopped
    assert not asker.books


def test_a_line_of_a_batch_tells_it():
    errors = {
        "a": loc("response_format"),
        "b": {"error": {"code": "unsupported_parameter", "param": "temperature", "message": KEY}},
    }
    lines = lines_of(
        *(
            {"custom_id": key, "response": {"status_code": 400, "body": body}}
            for key, body in errors.items()
        )
    )
    answers = openai_batch(error_file_id="err") | {"/files/err/content": lines}
    _, outcomes = canned("openai", answers)
    assert "the field response_format; set response_format: json_object" in str(outcomes["a"])
    assert "the field temperature; leave temperature" in str(outcomes["b"])
    assert "out of judge_options" in str(outcomes["b"])
    assert {type(outcome) for outcome in outcomes.values()} == {Fatal}


def test_lines_of_batches_hold_no_key_of_a_cache_that_others_do_not_have():
    request = replace(request_for("openai"), prefix_ends=(4,))
    for url, there in ((connection.BASE_URL, True), ("http://127.0.0.1:9/v1", False)):
        line = OpenAIBatches(Settings(KEY, url)).line(request)
        assert ("prompt_cache_key" in json.loads(line)["body"]) == there
