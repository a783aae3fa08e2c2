"""Who judges: names, options, keys."""

import pytest

from tests.helpers.builders import UNHURRIED
from zelo_ray.errors import PanelError
from zelo_ray.options import AnnotateOptions
from zelo_ray.providers import (
    Settings,
    build_panel,
    find_key,
    load_provider,
    panel_of,
)
from zelo_ray.records import Judge

KEYS = {"OPENAI_API_KEY": "o", "ANTHROPIC_API_KEY": "a", "GEMINI_API_KEY": "g"}


def names(*asked, options=None, environ=None):
    return [judge.name for judge in build_panel(asked, options or {}, environ or {})]


def test_offline_is_the_whole_offline_panel():
    assert names("offline") == ["offline:bm25", "offline:chargram", "offline:likelihood"]


def test_without_names_every_provider_with_a_key_judges():
    defaults = [f"{p}:{load_provider(p).models[0]}" for p in ("openai", "anthropic", "gemini")]
    assert names(environ=KEYS) == defaults
    assert names(environ={"GEMINI_API_KEY": "g", "OPENAI_API_KEY": ""}) == defaults[2:]
    assert names(environ={"GOOGLE_API_KEY": "g"}) == defaults[2:]


def test_without_any_key_the_error_shows_the_way():
    with pytest.raises(PanelError, match="--judges offline") as caught:
        names()
    assert all(name in str(caught.value) for name in KEYS)


def test_a_judge_has_every_option_with_its_default():
    options = {"openai:a": {"temperature": 0.5}}
    one, other = build_panel(("openai:a", "openai:b"), options)
    defaults = load_provider("openai").options
    assert one.options == {**defaults, "temperature": 0.5}
    assert other.options == defaults


@pytest.mark.parametrize(
    ("asked", "options", "says"),
    [
        (("mistral:large",), {}, "'mistral'; there are openai, anthropic"),
        (("",), {}, "unknown provider ''"),
        (("xy:m",), {}, "openai:MODEL@URL for a server"),
        (("openai:m@localhost:8000/v1",), {}, "write provider:model@http://host:port/path"),
        (("openai:m@gpu-7:8000",), {}, "write provider:model@http://host:port/path"),
        (("offline:bm25@http://h:1",), {}, "offline:bm25: takes no URL"),
        (("openai:m@http://h/v1/chat/completions",), {}, "ends before /chat/completions"),
        (("anthropic:m@http://h/v1/messages/",), {}, "a base URL ends before /messages"),
        (("openai:d@https://r.openai.azure.com/d?api-version=1",), {}, "Azure's, without api-ver"),
        (("data.jsonl",), {}, "unknown provider 'data.jsonl'"),
        (("openai:a", "openai:a"), {}, "openai:a is named twice"),
        (("offline", "offline:bm25"), {}, "offline:bm25 is named twice"),
        (("offline:tfidf",), {}, "offline:tfidf; there are bm25, chargram"),
        (
            ("openai:a",),
            {"openai:a": {"temprature": 0}},
            "'temprature' \\(did you mean 'temperature'.*known: ",
        ),
        (("offline:bm25",), {"offline:bm25": {"k1": 2}}, "unknown option 'k1'; known: none"),
        (
            ("openai:a", "offline:bm25"),
            {"offline:bm52": {}},
            r"^judge_options: .*'offline:bm52' .*'offline:bm25'\?\)$",
        ),
        (
            ("offline",),
            {"offline": {}},
            "'offline'; there are offline:bm25, offline:chargram, ",
        ),
    ],
)
def test_a_panel_that_cannot_be_is_one_line_that_says_what_is_wrong(asked, options, says):
    with pytest.raises(PanelError, match=says) as caught:
        build_panel(asked, options, KEYS)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("keys", [True, False], ids=["to ask", "to estimate"])
@pytest.mark.parametrize(
    ("option", "value"),
    [("prices", {"input": 1, "output": 1}), ("limits", {"rpm": UNHURRIED}), ("api_key_env", "X")],
)
def test_what_is_given_for_a_mistyped_judge_is_an_error_that_names_the_nearest(option, value, keys):
    fields = {"inputs": "in", "out": "out", "judges": ("offline", "openai:gpt-6-luna")}
    right = AnnotateOptions(**fields, **{option: {"openai:gpt-6-luna": value}})
    assert len(panel_of(right, {**KEYS, "X": "x"}, keys=keys)) == 4
    wrong = AnnotateOptions(**fields, **{option: {"openai:gpt-6-lunna": value}})
    with pytest.raises(PanelError) as caught:
        panel_of(wrong, {**KEYS, "X": "x"}, keys=keys)
    says = str(caught.value)
    assert says.startswith(f"{option}: ")
    assert "'openai:gpt-6-lunna'" in says
    assert says.endswith("(did you mean 'openai:gpt-6-luna'?)")


def test_a_key_is_found_where_the_sdk_looks():
    for provider in ("openai", "anthropic", "gemini"):
        judge = Judge(provider, "m")
        for variable in load_provider(provider).key_variables:
            assert find_key(judge, {}, {variable: "the key"}) == "the key"
        with pytest.raises(
            PanelError, match=f"{judge.name}: set {load_provider(provider).key_variables[0]}"
        ):
            find_key(judge, {}, {})
    assert find_key(Judge("offline", "bm25"), {}, {}) == "none"


def test_a_judge_may_have_a_key_of_its_own():
    judge, other = Judge("openai", "m", "http://h/v1"), Judge("openai", "m")
    variables = {judge.name: "MINE"}
    environ = {**KEYS, "MINE": "mine"}
    assert find_key(judge, variables, environ) == "mine"
    assert find_key(other, variables, environ) == "o"
    with pytest.raises(PanelError, match="set MINE"):
        find_key(judge, variables, KEYS)


def test_a_server_named_by_its_url_is_never_sent_a_providers_key():
    assert find_key(Judge("openai", "m", "http://h/v1"), {}, KEYS) == "none"


def test_a_key_is_in_no_repr():
    assert "secret" not in repr(Settings("secret", "http://h"))


def test_a_model_may_have_an_at_in_its_name():
    (judge,) = build_panel(("openai:claude-3@20240620",), {}, {})
    assert (judge.model, judge.base_url) == ("claude-3@20240620", None)
