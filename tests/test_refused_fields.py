"""A field that a server does not take is in every request: one line names it, and the option."""

import json
from dataclasses import replace

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


def unsupported(name):
    said = f"Unsupported parameter: '{name}' is not supported with this model."
    told = {"message": said, "type": "invalid_request_error", "param": name}
    return told | {"code": "unsupported_parameter"}


def passed_on(raw):
    told = {"message": "Provider returned error", "code": 400}
    return told | {"metadata": {"raw": raw, "provider_name": "p"}}


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
    "OpenAI": (400, lambda name: {"error": unsupported(name)}),
    "errors": (422, lambda name: {"errors": [{"message": f"{name} is not supported"}]}),
    "message": (400, lambda name: {"object": "error", "message": f"unknown field `{name}`"}),
    "error as text": (400, lambda name: {"error": f'json: unknown field "{name}"'}),
    "Mistral": (422, lambda name: {"object": "error", "message": loc(name)}),
    "Django": (400, lambda name: {name: ["This field is not allowed."]}),
    "through a gateway": (400, lambda name: {"error": passed_on(json.dumps(loc(name)))}),
    "in a 200": (200, lambda name: {"error": {"code": 400, "message": f"{name} not supported"}}),
}


def refusal(provider, status, body, **options):
    with Scripted((status, {}, body)) as server:
        settings = Settings(KEY, server.url, 5.0)
        error = send(request_for(provider, **options), settings)
    check_discreet(error)
    return error


def test_a_field_that_is_not_taken_is_named_with_the_option():
    field = "max_completion_tokens"
    for form, name in [*((form, field) for form in FORMS), *(("OpenAI", name) for name in OPTIONS)]:
        status, body = FORMS[form]
        error = refusal("openai", status, body(name), **GIVEN)
        assert type(error) is Fatal, form
        assert f"the server does not accept the field {name}; " in str(error)
        assert OPTIONS[name] in str(error)


def test_of_two_names_the_one_that_was_sent_is_meant():
    said = "Unsupported parameter: 'max_tokens' is not supported. Use 'max_completion_tokens'."
    error = refusal("openai", 400, {"message": said}, token_limit_field="max_tokens")
    assert "the field max_tokens; set token_limit_field: max_completion_tokens" in str(error)
    said = "Use max_tokens, for max_completion_tokens is not supported"
    error = refusal("openai", 400, {"message": said})
    assert "the field max_completion_tokens; set token_limit_field: max_tokens" in str(error)


def test_other_providers_name_their_fields():
    most = "max_tokens: 9000 > 4096, which is the maximum allowed number of output tokens"
    low = {"thinking_level": "low"}
    for provider, options, said, field in (
        ("anthropic", {}, "output_config.format: Extra inputs are not permitted", "output_config"),
        ("anthropic", {}, most, "max_tokens"),
        ("gemini", low, "Unknown name \"thinkingConfig\" at 'g': no", "thinkingConfig"),
        ("gemini", {}, "Unknown name 'response_json_schema' at 'g'", "responseJsonSchema"),
        ("openai", {}, "response_format.type must be text", "response_format"),
    ):
        error = refusal(provider, 400, {"error": {"message": said}}, **options)
        assert type(error) is Fatal
        assert f"the field {field}; " in str(error)


def test_what_one_prompt_is_refused_for_is_its_own():
    context = "maximum context length is 4096 tokens, max_tokens is 2048"
    small = {"error": {"message": "the request exceeds the available context size (4096)"}}
    for status, body in (
        (422, loc("messages", 1, "content", type="string_too_long")),
        (400, {"error": {"message": context}}),
        (400, {"error": {"message": "input length and `max_tokens` exceed context limit: 9"}}),
        (400, {"error": {"message": "max_completion_tokens must be at least 1, got -7"}}),
        (422, "`inputs` tokens + `max_new_tokens` must be at most 4096"),
        (400, {"error": {"message": "the text is not allowed", "code": "content_filter"}}),
        (400, f"temperature is not supported: {SECRET}"),
        (500, small),
    ):
        assert type(refusal("openai", status, body, **GIVEN)) is Refused, body
    assert type(refusal("openai", 500, {"error": {"message": "no"}})) is Retry


def test_a_field_that_a_server_misses_is_of_another_api():
    error = refusal("openai", 422, loc("prompt", type="missing", msg="Field required"))
    assert type(error) is Fatal
    assert "requires the field prompt, " in str(error)


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
