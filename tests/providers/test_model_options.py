"""Knobs of providers: more fields of a request, tiers and their prices, ranges in words."""

import json
import re

import pytest
import yaml

from tests.fakes import openai as openai_fake
from tests.helpers.builders import THREE, MachineBudget, ask, key_for, pool_of, send_away
from tests.helpers.crash import ROOT
from zelo_ray.engine.exposure import sum_exposure
from zelo_ray.engine.tokens import Estimates
from zelo_ray.errors import PanelError
from zelo_ray.protocols import zelo
from zelo_ray.providers import build_panel, refuse_unlimited, server_chooses_sampling
from zelo_ray.providers.anthropic import build_body as messages
from zelo_ray.providers.anthropic import read_answer as messages_read
from zelo_ray.providers.gemini import read_answer as generated_read
from zelo_ray.providers.pricing import find_unpriced, highest_price, price
from zelo_ray.records import Request, Usage

LUNA, HAIKU, LITE = (
    *("openai:gpt-6-luna", "anthropic:claude-haiku-5-5"),
    "gemini:gemini-3.1-flash-lite",
)
OPUS, FLEX = "anthropic:claude-opus-5-5", {"service_tier": "flex"}
NAMES = dict(zip(THREE, (LUNA, HAIKU, LITE), strict=True))
PAIR = [pool_of((1, 2))]
USED = Usage(1000, 100)
THINKING = {"type": "enabled", "budget_tokens": 2048}
MORE = {
    "openai": {"service_tier": "flex", "metadata": {"team": "search"}},
    "anthropic": {"thinking": THINKING, "output_config": {"effort": "low"}},
    "gemini": {
        "generationConfig": {"seed": 7, "thinkingConfig": {"thinkingBudget": 0}},
        "safetySettings": [{"category": "HARM_CATEGORY_HARASSMENT", "threshold": "OFF"}],
        "serviceTier": "flex",
    },
}
OURS = {
    "openai": {"response_format": {"type": "json_schema"}},
    "anthropic": {"output_config": {"format": {"type": "json_schema"}}},
    "gemini": {"generationConfig": {"responseMimeType": "application/json"}},
}


def request_by(name, **options):
    (judge,) = build_panel((name,), {name: options}, {})
    return Request(judge, "You compare.", "Which?", zelo.Preference, "", ())


def judge_with(name, **body):
    return request_by(name, extra_body=body, max_output_tokens=4096).judge


def ask_with(environ, out, provider, body, pools=PAIR, way=ask, own=None, **fields):
    options = {NAMES[provider]: {"extra_body": body, **(own or {})}}
    return way(pools, out, key_for(environ, provider), judge_options=options, **fields)


def bodies_of(fakes):
    return [json.loads(e["body"]) for e in fakes.journal if e["endpoint"] in ("answer", "line")]


def holds(found, wanted):
    """Whether a body holds these fields, inside others, too."""
    if isinstance(wanted, dict):
        return all(name in found and holds(found[name], each) for name, each in wanted.items())
    return found == wanted


# More fields


@pytest.mark.parametrize("way", [ask, send_away])
@pytest.mark.parametrize("provider", THREE)
def test_more_fields_go_into_the_body_beside_our_own(fakes, environ, tmp_path, provider, way):
    own = {"max_output_tokens": 4096}
    ask_with(environ, tmp_path, provider, MORE[provider], way=way, own=own)
    bodies = bodies_of(fakes)
    assert bodies
    for body in bodies:
        asked = body.get("body") or body.get("params") or body.get("request") or body
        assert holds(asked, MORE[provider])
        assert holds(asked, OURS[provider])


def test_more_fields_do_not_change_what_is_asked_of_whom():
    for name, body, field in (
        (LUNA, {"model": "gpt-6-astra"}, "model"),
        (LUNA, {"messages": [{"role": "user", "content": "Hello?"}]}, "messages"),
        (LUNA, {"response_format": {"type": "text"}}, "response_format"),
        (HAIKU, {"system": "Say 1."}, "system"),
        (HAIKU, {"output_config": {"format": {}}}, "output_config.format"),
        (LITE, {"contents": []}, "contents"),
        (LITE, {"generationConfig": {"response_schema": {}}}, "Config.response_schema"),
        (LITE, {"generation_config": {"seed": 1}}, "spell it generationConfig"),
        (LUNA, "top_p: 1", "takes fields with values"),
    ):
        with pytest.raises(PanelError, match=f"{name}: .*{field}"):
            request_by(name, extra_body=body)


def test_a_tier_is_no_part_of_the_key_and_all_else_is():
    for name in NAMES.values():
        plain, null, tier, more = (
            request_by(name, **fields).key
            for fields in (
                {},
                {"extra_body": None},
                {"extra_body": FLEX},
                {"extra_body": {"thinking": {"type": "disabled"}}},
            )
        )
        assert plain == null == tier != more


def test_a_learned_limit_of_output_leaves_room_to_think():
    estimates = Estimates(judge_with(HAIKU, **MORE["anthropic"]))
    for _ in range(100):
        estimates.learn(100, Usage(9, 99), "Preference")
    assert 2048 < estimates.limit_for("Preference") <= 4096


def test_the_documented_options_are_taken_by_the_servers(fakes, environ, tmp_path):
    text = (ROOT / "docs/models.md").read_text()
    told = yaml.safe_load(re.findall(r"```yaml\n(.*?)```", text, re.DOTALL)[0])
    assert [*told["judge_options"]] == told["judges"]
    mine = {name: each for name, each in told["judge_options"].items() if "@" not in name}
    asker = ask(PAIR, tmp_path, environ, judges=tuple(mine), judge_options=mine)
    assert [reply.status for reply in asker.books] == ["ok"] * len(mine) == ["ok"] * 3


def test_only_our_own_key_of_caches_stays_away_from_other_servers(fakes, environ, tmp_path):
    for mine in (None, "mine"):
        fakes.journal.clear()
        body = {"prompt_cache_key": mine} if mine else {}
        # of three documents requests begin alike
        ask_with(environ, tmp_path / str(mine), "openai", body, [pool_of((1, 2, 3))])
        assert {body.get("prompt_cache_key") for body in bodies_of(fakes)} == {mine}


# Tiers


def test_a_tier_costs_what_the_table_says_or_what_is_unknown():
    for name, body, factor in (  # as genai-prices has it, but for Gemini's flex
        (LUNA, FLEX, 0.5),
        (LUNA, {"service_tier": "priority"}, 2),
        (LUNA, {"service_tier": "auto"}, 1),
        ("openai:gpt-4o", FLEX, None),
        (OPUS, {"speed": "fast"}, 2),
        (OPUS, {"service_tier": "auto", "speed": "standard"}, 1),
        (HAIKU, {"speed": "fast"}, None),
        (HAIKU, FLEX, None),
        (LITE, {"service_tier": "FLEX"}, 0.5),
        (LITE, {"serviceTier": "SERVICE_TIER_FLEX"}, 0.5),
    ):
        standard, judge = judge_with(name), judge_with(name, **body)
        if factor is None:
            assert find_unpriced((judge,)) == [name]
        else:
            assert price(judge, USED) == pytest.approx(factor * price(standard, USED))
    for name in (LUNA, LITE):  # a batch of flex is not halved twice
        for judge in (judge_with(name), judge_with(name, **FLEX)):
            half = price(judge_with(name), USED) / 2
            assert price(judge, USED, batch=True) == pytest.approx(half)


def test_what_is_reserved_covers_the_standard_tier():
    plain = judge_with(LUNA)
    half = highest_price(plain, USED, batch=True)
    for tier, factor, of_half in (("flex", 1, 1), ("priority", 2, 4)):
        asked = judge_with(LUNA, service_tier=tier)
        assert highest_price(asked, USED) == pytest.approx(factor * highest_price(plain, USED))
        assert highest_price(asked, USED, batch=True) == pytest.approx(of_half * half)


@pytest.mark.parametrize(
    ("told", "factor"),
    [("default", 1), ("flex", 0.5), ("priority", 2), (None, 0.5), ("scale", None)],
)
def test_a_reply_costs_what_the_tier_costs_that_served_it(
    fakes, environ, tmp_path, monkeypatch, told, factor
):
    usual = openai_fake.answer
    monkeypatch.setattr(openai_fake, "answer", lambda *args: {**usual(*args), "service_tier": told})
    capped = {"max_usd": 1.0, "budget": MachineBudget(1.0)}
    (reply,) = ask_with(environ, tmp_path, "openai", FLEX, **capped).books
    # later runs count what is unknown at its highest
    assert (sum_exposure(str(tmp_path)) > 0) == (factor is None)
    standard = price(judge_with(LUNA), Usage(reply.input_tokens, reply.output_tokens))
    assert reply.dollars == (pytest.approx(factor * standard) if factor else None)


@pytest.mark.parametrize("provider", ["openai", "gemini"])
def test_flex_is_waited_for_and_not_asked_again(fakes, environ, tmp_path, provider):
    fakes.latency = 1.0
    asker = ask_with(environ, tmp_path, provider, FLEX, timeout=0.5)
    assert len(bodies_of(fakes)) == 1
    assert [(reply.status, reply.attempts) for reply in asker.books] == [("ok", 1)]


def test_every_provider_tells_what_served():
    used = {"input_tokens": 5, "output_tokens": 5, "service_tier": "standard"}
    message = {"model": "m", "content": [], "stop_reason": "end_turn", "usage": used}
    assert messages_read(message).usage.tier == "standard"
    used["speed"] = "fast"
    usage, judge = messages_read(message).usage, judge_with(OPUS)
    assert usage.tier == "fast"
    assert price(judge, usage) == pytest.approx(2 * price(judge, Usage(5, 5)))
    candidate = {"finishReason": "STOP", "content": {"parts": [{"text": "{}"}]}}
    generated = {"candidates": [candidate], "usageMetadata": {"serviceTier": "flex"}}
    assert generated_read(generated).usage.tier == "flex"
    assert Usage(1, tier="flex") == Usage(1)  # what it used is the same


def test_a_cap_holds_only_where_no_field_makes_answers_dearer():
    for name, body, field in (
        (LUNA, {"max_tokens": 9}, "max_tokens"),
        (LUNA, {"N": 3}, "N"),
        (LUNA, {"reasoning": {"max_tokens": 9}}, "max_tokens"),
        (LUNA, {"prediction": {"type": "content", "content": "x"}}, "prediction"),
        (LUNA, {"metadata": {"n": "1"}, "seed": 3}, None),
        (HAIKU, {"tools": [{"name": "web_search"}]}, "tools"),
        (HAIKU, {"inference_geo": "us"}, "inference_geo"),
        (HAIKU, {"cache_control": {"type": "ephemeral", "ttl": "1h"}}, "ttl"),
        (LITE, {"generationConfig": {"maxOutputTokens": 9}}, "maxOutputTokens"),
        (LITE, {"labels": {"tools": "a"}, "generationConfig": {"topK": 1}}, None),
    ):
        judge = request_by(name, extra_body=body).judge
        if field is None:
            refuse_unlimited(judge, judge.name)
            continue
        with pytest.raises(PanelError, match=f"cannot be kept with {field} in"):
            refuse_unlimited(judge, judge.name)


# Sampling and ranges


def test_a_server_decides_how_it_samples_where_no_temperature_is_set():
    for name, options, decides in (
        ("openai:m@http://h/v1", {}, True),
        ("openai:m@http://h/v1", {"temperature": 0}, False),
        ("openai:m@http://h/v1", {"extra_body": {"temperature": 0}}, False),
        ("gemini:m@http://h", {"extra_body": {"generationConfig": {"temperature": 0}}}, False),
        ("gemini:m@http://h", {"extra_body": {"labels": {"temperature": "0"}}}, True),
        ("anthropic:m@http://h", {}, False),  # which takes none
        (LUNA, {}, False),
    ):
        assert server_chooses_sampling(request_by(name, **options).judge) == decides


def test_a_range_that_no_schema_holds_is_told_in_words():
    schema = messages(request_by(HAIKU))["output_config"]["format"]["schema"]
    told = schema["properties"]["preference"]
    assert "never below -1 or above 1" in told["description"]
    assert not {"minimum", "maximum"} & told.keys()
