"""Knobs of providers: more fields of a request, tiers and their prices, ranges in words."""

import json
import re
from pathlib import Path

import pytest
import yaml

from tests.builders import (
    THREE,
    MachineBudget,
    ask,
    key_for,
    pool_of,
    send_away,
)
from tests.fakes import openai as openai_fake
from zelo_ray.engine.exposure import sum_exposure
from zelo_ray.engine.tokens import Estimates
from zelo_ray.errors import PanelError
from zelo_ray.protocols import zelo
from zelo_ray.providers import build_panel, refuse_unlimited, server_chooses_sampling
from zelo_ray.providers.anthropic.connection import build_body as messages
from zelo_ray.providers.anthropic.connection import read_answer as messages_read
from zelo_ray.providers.gemini.connection import read_answer as generated_read
from zelo_ray.providers.pricing import find_unpriced, highest_price, price
from zelo_ray.records import Request, Usage

NAMES = {
    "openai": "openai:gpt-6-luna",
    "anthropic": "anthropic:claude-haiku-5-5",
    "gemini": "gemini:gemini-3.1-flash-lite",
}
MORE = {
    "openai": {"service_tier": "flex", "metadata": {"team": "search"}},
    "anthropic": {
        "thinking": {"type": "enabled", "budget_tokens": 2048},
        "output_config": {"effort": "low"},
    },
    "gemini": {
        "generationConfig": {"seed": 7, "thinkingConfig": {"thinkingBudget": 0}},
        "safetySettings": [{"category": "HARM_CATEGORY_HARASSMENT", "threshold": "OFF"}],
        "serviceTier": "flex",
    },
}


def held(found, wanted):
    """Whether a body holds these fields, inside others, too."""
    if isinstance(wanted, dict):
        return all(name in found and held(found[name], each) for name, each in wanted.items())
    return found == wanted


OURS = {
    "openai": {"response_format": {"type": "json_schema"}},
    "anthropic": {"output_config": {"format": {"type": "json_schema"}}},
    "gemini": {"generationConfig": {"responseMimeType": "application/json"}},
}


@pytest.mark.parametrize("way", [ask, send_away])
@pytest.mark.parametrize("provider", THREE)
def test_more_fields_go_into_the_body_beside_our_own(fakes, environ, tmp_path, provider, way):
    options = {NAMES[provider]: {"extra_body": MORE[provider], "max_output_tokens": 4096}}
    way([pool_of((1, 2))], tmp_path, key_for(environ, provider), judge_options=options)
    bodies = [json.loads(e["body"]) for e in fakes.journal if e["endpoint"] in ("answer", "line")]
    assert bodies
    for body in bodies:
        asked = body.get("body") or body.get("params") or body.get("request") or body
        assert held(asked, MORE[provider])
        assert held(asked, OURS[provider])


def test_more_fields_do_not_change_what_is_asked_of_whom():
    for provider, body, why in (
        ("openai", {"model": "gpt-6-astra"}, "hold model, which is the question itself"),
        ("openai", {"messages": [{"role": "user", "content": "Hello?"}]}, "hold messages"),
        ("openai", {"stream": True}, "hold stream"),
        ("openai", {"response_format": {"type": "text"}}, "there is the option response_format"),
        ("anthropic", {"system": "Say 1."}, "hold system"),
        ("anthropic", {"output_config": {"format": {}}}, "hold output_config.format: the form"),
        ("gemini", {"contents": []}, "hold contents"),
        ("gemini", {"system_instruction": {}}, "hold system_instruction"),
        ("gemini", {"generationConfig": {"response_schema": {}}}, "Config.response_schema: the"),
        ("gemini", {"generation_config": {"seed": 1}}, "spell it generationConfig"),
        ("openai", "top_p: 1", "extra_body takes fields with values"),
    ):
        with pytest.raises(PanelError, match=f"{NAMES[provider]}: .*{why}"):
            request_by(NAMES[provider], extra_body=body)
    for provider in THREE:
        null, none = (request_by(NAMES[provider], **f) for f in ({"extra_body": None}, {}))
        assert null.key == none.key


def test_a_learned_limit_of_output_leaves_room_to_think():
    estimates, tokens = Estimates(judge_with(NAMES["anthropic"], **MORE["anthropic"])), Usage(9, 99)
    for _ in range(100):
        estimates.learn(100, tokens, "Preference")
    assert 2048 < estimates.limit_for("Preference") <= 4096


def test_the_documented_options_are_taken_by_the_servers(fakes, environ, tmp_path):
    text = (Path(__file__).parents[1] / "docs/models.md").read_text()
    example, *_ = re.findall(r"```yaml\n(.*?)```", text, re.DOTALL)
    told = yaml.safe_load(example)
    options = told["judge_options"]
    assert [*options] == told["judges"]
    mine = {name: each for name, each in options.items() if "@" not in name}
    asker = ask([pool_of((1, 2))], tmp_path, environ, judges=tuple(mine), judge_options=mine)
    assert [reply.status for reply in asker.books] == ["ok"] * len(mine) == ["ok"] * 3


def request_by(name, **options):
    (judge,) = build_panel((name,), {name: options}, {})
    return Request(judge, "You compare.", "Which?", zelo.Preference, "", ())


@pytest.mark.parametrize("provider", THREE)
def test_a_tier_is_no_part_of_the_key_and_all_else_is(provider):
    plain, tier, more = (
        request_by(NAMES[provider], **fields).key
        for fields in (
            {},
            {"extra_body": {"service_tier": "flex"}},
            {"extra_body": {"thinking": {"type": "disabled"}}},
        )
    )
    assert plain == tier != more


def judge_with(name, **body):
    return request_by(name, extra_body=body, max_output_tokens=4096).judge


def test_a_tier_costs_what_the_table_says_or_what_is_unknown():
    usage = Usage(1000, 100)
    for name, body, factor in (  # as genai-prices has it, but for Gemini's flex
        (NAMES["openai"], {"service_tier": "flex"}, 0.5),
        (NAMES["openai"], {"service_tier": "priority"}, 2),
        (NAMES["openai"], {"service_tier": "fast"}, 2),
        (NAMES["openai"], {"service_tier": "auto"}, 1),
        ("openai:gpt-4o", {"service_tier": "flex"}, None),
        ("openai:gpt-5-nano", {"service_tier": "priority"}, None),
        ("anthropic:claude-opus-5-5", {"speed": "fast"}, 2),
        ("anthropic:claude-opus-5-5", {"service_tier": "auto", "speed": "standard"}, 1),
        (NAMES["anthropic"], {"speed": "fast"}, None),
        (NAMES["anthropic"], {"service_tier": "flex"}, None),
        (NAMES["anthropic"], {"service_tier": "standard_only"}, 1),
        (NAMES["gemini"], {"service_tier": "FLEX"}, 0.5),
        (NAMES["gemini"], {"serviceTier": "SERVICE_TIER_FLEX"}, 0.5),
        (NAMES["gemini"], {"serviceTier": "priority"}, None),
    ):
        standard, judge = judge_with(name), judge_with(name, **body)
        if factor is None:
            assert find_unpriced((judge,)) == [name]
        else:
            assert price(judge, usage) == pytest.approx(factor * price(standard, usage))
    for provider in ("openai", "gemini"):  # a batch of flex is not halved twice
        plain, flex = judge_with(NAMES[provider]), judge_with(NAMES[provider], service_tier="flex")
        for judge in (plain, flex):
            half = pytest.approx(price(plain, usage) / 2)
            assert price(judge, usage, batch=True) == half


@pytest.mark.parametrize(
    ("told", "factor"),
    [("default", 1), ("flex", 0.5), ("priority", 2), (None, 0.5), ("scale", None)],
)
def test_a_reply_costs_what_the_tier_costs_that_served_it(
    fakes, environ, tmp_path, monkeypatch, told, factor
):
    usual = openai_fake.answer
    monkeypatch.setattr(openai_fake, "answer", lambda *args: {**usual(*args), "service_tier": told})
    asker = ask(
        [pool_of((1, 2))],
        tmp_path,
        key_for(environ, "openai"),
        judge_options={NAMES["openai"]: {"extra_body": {"service_tier": "flex"}}},
        max_usd=1.0,
        budget=MachineBudget(1.0),
    )
    (reply,) = asker.books
    assert (sum_exposure(str(tmp_path)) > 0) == (
        factor is None
    )  # later runs count it at its highest
    standard = price(judge_with(NAMES["openai"]), Usage(reply.input_tokens, reply.output_tokens))
    assert reply.dollars == (pytest.approx(factor * standard) if factor else None)


@pytest.mark.parametrize("more", [{}, {"prompt_cache_key": "mine"}])
def test_only_our_own_key_of_caches_stays_away_from_other_servers(fakes, environ, tmp_path, more):
    pool = pool_of((1, 2, 3))  # of which requests begin alike
    options = {NAMES["openai"]: {"extra_body": more}}
    ask([pool], tmp_path, key_for(environ, "openai"), judge_options=options)
    bodies = [json.loads(e["body"]) for e in fakes.journal if e["endpoint"] == "answer"]
    assert {body.get("prompt_cache_key") for body in bodies} == {more.get("prompt_cache_key")}


@pytest.mark.parametrize("provider", ["openai", "gemini"])
def test_flex_is_waited_for_and_not_asked_again(fakes, environ, tmp_path, provider):
    fakes.latency = 1.0
    asker = ask(
        [pool_of((1, 2))],
        tmp_path,
        key_for(environ, provider),
        judge_options={NAMES[provider]: {"extra_body": {"service_tier": "flex"}}},
        timeout=0.5,
    )
    assert len([e for e in fakes.journal if e["endpoint"] == "answer"]) == 1
    assert [(reply.status, reply.attempts) for reply in asker.books] == [("ok", 1)]


def test_every_provider_tells_what_served():
    message = {
        "model": "m",
        "content": [],
        "stop_reason": "end_turn",
        "usage": {"input_tokens": 5, "output_tokens": 5, "service_tier": "standard"},
    }
    assert messages_read(message).usage.tier == "standard"
    message["usage"]["speed"] = "fast"
    assert messages_read(message).usage.tier == "fast"
    judge, usage = judge_with("anthropic:claude-opus-5-5"), messages_read(message).usage
    assert price(judge, usage) == pytest.approx(2 * price(judge, Usage(5, 5)))
    candidate = {"finishReason": "STOP", "content": {"parts": [{"text": "{}"}]}}
    generated = {"candidates": [candidate], "usageMetadata": {"serviceTier": "flex"}}
    assert generated_read(generated).usage.tier == "flex"
    assert Usage(1, tier="flex") == Usage(1)  # what it used is the same


def test_what_is_reserved_covers_the_standard_tier():
    most, plain = Usage(1000, 100), judge_with(NAMES["openai"])
    half = highest_price(plain, most, batch=True)
    for tier, factor, of_half in (("flex", 1, 1), ("priority", 2, 4)):
        asked = judge_with(NAMES["openai"], service_tier=tier)
        assert highest_price(asked, most) == pytest.approx(factor * highest_price(plain, most))
        assert highest_price(asked, most, batch=True) == pytest.approx(of_half * half)


def test_a_cap_holds_only_where_no_field_makes_answers_dearer():
    for provider, body, field in (
        ("openai", {"max_tokens": 9}, "max_tokens"),
        ("openai", {"N": 3}, "N"),
        ("openai", {"reasoning": {"max_tokens": 9}}, "max_tokens"),
        ("openai", {"web_search_options": {}}, "web_search_options"),
        ("openai", {"prediction": {"type": "content", "content": "x"}}, "prediction"),
        ("openai", {"metadata": {"n": "1"}, "seed": 3}, None),
        ("anthropic", {"tools": [{"name": "web_search"}]}, "tools"),
        ("anthropic", {"inference_geo": "us"}, "inference_geo"),
        ("anthropic", {"cache_control": {"type": "ephemeral", "ttl": "1h"}}, "ttl"),
        ("anthropic", {"cache_control": {"type": "ephemeral"}}, None),
        ("gemini", {"generationConfig": {"maxOutputTokens": 9}}, "maxOutputTokens"),
        ("gemini", {"generationConfig": {"candidate_count": 3}}, "candidate_count"),
        ("gemini", {"labels": {"tools": "a"}, "generationConfig": {"topK": 1}}, None),
    ):
        judge = request_by(NAMES[provider], extra_body=body).judge
        if field is None:
            refuse_unlimited(judge, judge.name)
            continue
        with pytest.raises(PanelError, match=f"cannot be kept with {field} in"):
            refuse_unlimited(judge, judge.name)


def test_a_server_decides_how_it_samples_where_no_temperature_is_set():
    for name, options, decides in (
        ("openai:m@http://h/v1", {}, True),
        ("openai:m@http://h/v1", {"temperature": 0}, False),
        ("openai:m@http://h/v1", {"extra_body": {"temperature": 0}}, False),
        ("gemini:m@http://h", {"extra_body": {"generationConfig": {"temperature": 0}}}, False),
        ("gemini:m@http://h", {"extra_body": {"labels": {"temperature": "0"}}}, True),
        ("anthropic:m@http://h", {}, False),  # which takes none
        (NAMES["openai"], {}, False),
    ):
        assert server_chooses_sampling(request_by(name, **options).judge) == decides


def test_a_range_that_no_schema_holds_is_told_in_words():
    schema = messages(request_by(NAMES["anthropic"]))["output_config"]["format"]["schema"]
    told = schema["properties"]["preference"]
    assert "never below -1 or above 1" in told["description"]
    assert not {"minimum", "maximum"} & told.keys()
