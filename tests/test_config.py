"""AnnotateOptions: one definition, two sources, one line for what is wrong."""

import pytest
import yaml

from zelo_ray.errors import OptionError
from zelo_ray.options import COMMANDS, AnnotateOptions, load_options
from zelo_ray.protocols import PROTOCOLS, load_annotate, options_with_all_protocols
from zelo_ray.protocols import load_protocol as protocol_of

FLAGS = {"inputs": ["a.jsonl"], "out": "out"}


def load(config="", **flags):
    return load_annotate({**FLAGS, **flags}, config)


def test_the_flag_wins_over_the_file():
    options = load("seed: 1\nattempts: 1\n", attempts="3")
    assert (options.seed, options.attempts) == (1, 3)
    assert options.reasks == AnnotateOptions.model_fields["reasks"].default


def test_mappings_are_read_from_the_file():
    options = load(
        config="""
judges: [openai:gpt-6-luna, offline]
limits: {"openai:gpt-6-luna": {concurrency: 8}}
judge_options: {"openai:gpt-6-luna": {temperature: 0, reasoning_effort: none}}
api_key_env: {"openai:gpt-6-luna": MY_KEY}
"""
    )
    assert options.judges == ("openai:gpt-6-luna", "offline")
    assert options.limits["openai:gpt-6-luna"].concurrency == 8
    assert options.judge_options["openai:gpt-6-luna"]["reasoning_effort"] == "none"


@pytest.mark.parametrize(
    ("config", "says"),
    [
        ("sead: 1", r"^sead: no such option \(did you mean 'seed'\?\); "),
        ("max-usd: 1", r"^max-usd: .*did you mean 'max_usd'\?\); "),
        ("of_no_meaning: 1", "^of_no_meaning: no such option; "),
        ("1: 2", "1.*"),
        ("cycles: 0", "cycles: .*at least 1"),
        ("cycles: many", "cycles: .*whole number"),
        ("cycles: 1.5", "cycles: .*whole number"),
        ("document_limit: 1", "document_limit: .*at least"),
        ("document_tokens: 3", "document_tokens: "),
        ("timeout: 0", "timeout: "),
        ("prior_sd: -1", "prior_sd: "),
        ("limits: {j: {concurrency: 0}}", "limits.j.concurrency: "),
        (
            "limits: {j: {rmp: 5}}",
            r"^limits.j.rmp: .*did you mean 'rpm'\?\); ",
        ),
        ("prices: {j: {inputs: 1}}", r"prices.j.inputs: .*did you mean 'input'"),
        ("limits: 7", "limits: "),
        ("judges: {a: b}", "judges: "),
        ("judges: [7]", r"judges\[0\]: must be a text"),
        ("- a list", "option: value"),
        ("just text", "option: value"),
        ("a: [", "is not valid YAML"),
        ("a: !!python/object:os.system x", "is not valid YAML"),
    ],
)
def test_a_file_that_makes_no_sense_is_one_line_that_says_where(config, says):
    with pytest.raises(OptionError, match=says) as caught:
        load(config=config)
    assert "\n" not in str(caught.value)


def test_what_must_be_given_is_asked_for():
    with pytest.raises(OptionError, match="inputs: is missing"):
        load_options(AnnotateOptions, {"out": "x"})
    with pytest.raises(OptionError, match="out: is missing"):
        load_options(AnnotateOptions, {"inputs": ["x"]})
    with pytest.raises(OptionError, match="inputs: "):
        load(inputs=[])


def test_a_margin_goes_with_a_baseline():
    given = {"truth": "t", "runs": "a.run", "out": "o"}
    kind = COMMANDS["bakeoff"]
    options = load_options(kind, given)
    assert kind(**options.model_dump()) == options
    with pytest.raises(OptionError, match="margin: needs baseline"):
        load_options(kind, given | {"margin": 0.05})
    assert load_options(kind, given | {"margin": 0.05, "baseline": "a"}).margin == 0.05


def test_options_do_not_change_and_come_back_from_their_record():
    options = load(judges=["offline"], limits={"offline:bm25": {"concurrency": 3}})
    with pytest.raises(ValueError, match="frozen"):
        options.seed = 7
    record = yaml.safe_dump(options.model_dump(mode="json"))
    assert load_annotate({}, record) == options


def test_every_option_says_what_it_is():
    for name, field in options_with_all_protocols(AnnotateOptions).model_fields.items():
        assert field.description, name


def test_an_option_of_other_protocols_is_refused_with_their_names():
    with pytest.raises(OptionError, match=r"^--cycles .* not of graded; ") as caught:
        load(protocol="graded", cycles=3)
    assert " --protocol zelo, zelo+graded, best-of, " in str(caught.value)


def test_protocols_that_share_an_option_mean_the_same_by_it():
    """Else the help of a command could not tell it once."""
    found = {}
    for name in PROTOCOLS:
        for option, field in protocol_of(name).options.model_fields.items():
            told = (field.description, field.default, str(field.annotation))
            if option not in AnnotateOptions.model_fields:
                assert found.setdefault(option, told) == told, option


@pytest.mark.parametrize(("given", "is_"), [("3", 3), (1, 1), ("samre", "samre"), (None, None)])
def test_rounds_are_a_number_or_as_many_as_a_debate_took(given, is_):
    assert load(protocol="samre", rounds=given).rounds == is_


@pytest.mark.parametrize("given", ["0", "-1", "1.5", "many", True])
def test_other_rounds_are_refused_in_words(given):
    with pytest.raises(OptionError, match=r"^rounds: a number from 1 on, or samre; "):
        load(protocol="samre", rounds=given)


LEAST = {
    "annotate": FLAGS,
    "bakeoff": {"truth": "qrels.txt", "out": "out"},
    "compare-protocols": {**FLAGS, "human": "votes.jsonl"},
    "tune": {**FLAGS, "human": "votes.jsonl"},
    "agree": {"sources": ["graded"]},
    "compare-labels": {"old": "a.qrels", "new": "b.qrels"},
    "label": {"out": "labels"},
    "drift": {"old": "then", "new": "now"},
    "probe": FLAGS,
    "fit": {"source": "votes.parquet"},
    "convert": {"what": "qrels", "source": "graded", "out": "qrels.txt"},
    "prompt": {"inputs": ["pools.jsonl"]},
    "explain": {"dir": "out", "query": "q1"},
    "report": {"dir": "out"},
    "watch": {"dir": "out"},
    "batches": {"dir": "out"},
    "sample": {"dir": "data"},
    "doctor": {"judges": ["offline"]},
}


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_takes_keywords_and_a_file_alike(command):
    kind, least = COMMANDS[command], LEAST[command]
    by_keyword = load_options(kind, least)
    assert load_options(kind, {}, yaml.safe_dump(least)) == by_keyword
    with pytest.raises(OptionError, match=f"no such option; zelo-ray {command} "):
        load_options(kind, {**least, "xyzzy": 1})
    if any(field.is_required() for field in kind.model_fields.values()):
        with pytest.raises(OptionError, match=f"is missing.*; zelo-ray {command} "):
            load_options(kind, {})


def test_a_conversion_takes_what_goes_with_it():
    with pytest.raises(OptionError, match="depth: is not an option of convert qrels"):
        load_options(COMMANDS["convert"], {**LEAST["convert"], "depth": 3})
    with pytest.raises(OptionError, match="truth: is required by convert unjudged"):
        load_options(COMMANDS["convert"], {"what": "unjudged", "runs": "a.run", "out": "o"})
