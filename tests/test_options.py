"""Options: two sources, one definition; what means nothing is an error of one line."""

import json

import pytest
import yaml
from pydantic import ValidationError

from tests.crash import bare_environment
from tests.jobs import annotate
from zelo_ray import cli
from zelo_ray.cli import parse_command
from zelo_ray.command_options import FitOptions
from zelo_ray.commands import COMMANDS, options_of
from zelo_ray.commands import load as load_command
from zelo_ray.errors import OptionError, PanelError
from zelo_ray.options import AnnotateOptions, read_yaml
from zelo_ray.protocols import PROTOCOLS, options_with_all_protocols
from zelo_ray.protocols import load_protocol as protocol_of
from zelo_ray.providers import build_panel

NAN, INF = float("nan"), float("inf")
LUNA = "openai:gpt-6-luna"
FLAGS = {"inputs": ["a.jsonl"], "out": "out"}


def load(config="", **flags):
    return load_command("annotate", {**FLAGS, **flags}, config)


def refused(function, *given, says, error=OptionError, **more):
    """What is refused in one line that holds these words."""
    with pytest.raises(error, match=says) as caught:
        function(*given, **more)
    assert "\n" not in str(caught.value)


def test_the_flag_wins_over_the_file():
    options = load("seed: 1\nattempts: 1\nverbose: true\n", attempts="3")
    assert (options.seed, options.attempts, options.verbose) == (1, 3, True)
    assert options.reasks == AnnotateOptions.model_fields["reasks"].default


def test_mappings_are_read_from_the_file():
    options = load(f"""
judges: [{LUNA}, offline]
limits: {{"{LUNA}": {{concurrency: 8}}}}
judge_options: {{"{LUNA}": {{temperature: 0, reasoning_effort: none}}}}
""")
    assert options.judges == (LUNA, "offline")
    assert options.limits[LUNA].concurrency == 8
    assert options.judge_options[LUNA]["reasoning_effort"] == "none"


def test_what_is_shared_is_read_and_may_be_replaced():
    text = "shared: &all {rpm: 1, tpm: 5}\nlimits: {a: {<<: *all, rpm: 2}, b: *all}\n"
    a, b = read_yaml(text, "it is")[0]["limits"].values()
    assert (a, b) == ({"rpm": 2, "tpm": 5}, {"rpm": 1, "tpm": 5})


FILES = {
    "sead: 1": r"^sead: no such option \(did you mean 'seed'\?\); ",
    "max-usd: 1": r"^max-usd: .*did you mean 'max_usd'\?\); ",
    "of_no_meaning: 1": "^of_no_meaning: no such option; ",
    "1: 2": "1.*",
    "cycles: 0": "cycles: .*at least 1",
    "cycles: 1.5": "cycles: .*whole number",
    "document_limit: 1": "document_limit: .*at least",
    "limits: {j: {concurrency: 0}}": "limits.j.concurrency: ",
    "limits: {j: {rmp: 5}}": r"^limits.j.rmp: .*did you mean 'rpm'\?\); ",
    "prices: {j: {inputs: 1}}": r"prices.j.inputs: .*did you mean 'input'",
    "limits: 7": "limits: ",
    "judges: {a: b}": "judges: ",
    "judges: [7]": r"judges\[0\]: must be a text",
    "- a list": "option: value",
    "just text": "option: value",
    "a: [": "is not valid YAML",
    "a: !!python/object:os.system x": "is not valid YAML",
    "a: 2026-13-45": "is not valid YAML: month must be in 1..12",
    "[" * 100_000: "is not valid YAML: it is nested too deeply",
    "seed: 1\n---\nseed: 2\n": "must hold lines of option: value",
    "max_usd: 1\nseed: 3\nmax_usd: 100\n": "line 3: 'max_usd' is given twice",
    f"limits:\n  {LUNA!r}:\n    rpm: 1\n    rpm: 9\n": "line 4: 'rpm' is given twice",
    "prices: {a: {input: 1, output: 1}, 'a': {input: 0}}": "line 1: 'a' is given twice",
    '{"max_usd": 1, "out": "o", "max_usd": 100}': "line 1: 'max_usd' is given twice",
}


def test_a_file_that_makes_no_sense_is_refused():
    for config, says in FILES.items():
        refused(load, config, says=says)


def test_what_must_be_given_is_asked_for():
    refused(load_command, "annotate", {"out": "x"}, says="inputs: is missing")
    refused(load_command, "annotate", {"inputs": ["x"]}, says="out: is missing")
    refused(load, inputs=[], says="inputs: ")


def test_a_margin_goes_with_a_baseline():
    given = {"truth": "t", "runs": "a.run", "out": "o", "margin": 0.05}
    refused(load_command, "bakeoff", given, says="margin: needs baseline")
    assert load_command("bakeoff", given | {"baseline": "a"}).margin == 0.05


def test_options_do_not_change_and_come_back():
    options = load(judges=["offline"], limits={"offline:bm25": {"concurrency": 3}})
    with pytest.raises(ValueError, match="frozen"):
        options.seed = 7
    record = yaml.safe_dump(options.model_dump(mode="json"))
    assert load_command("annotate", {}, record) == options


def test_an_option_of_other_protocols_is_refused():
    says = r"^--cycles .* --protocol zelo, zelo\+graded, best-of, .* not of graded; "
    refused(load, protocol="graded", cycles=3, says=says)


def test_protocols_that_share_an_option_mean_the_same_by_it():
    """Else the help of a command could not tell it once."""
    for name, field in options_with_all_protocols(AnnotateOptions).model_fields.items():
        assert field.description, name
    found = {}
    for name in PROTOCOLS:
        for option, field in protocol_of(name).options.model_fields.items():
            told = (field.description, field.default, str(field.annotation))
            if option not in AnnotateOptions.model_fields:
                assert found.setdefault(option, told) == told, option


def test_rounds_are_a_number_or_as_many_as_a_debate_took():
    for given, rounds in (("3", 3), (1, 1), ("samre", "samre"), (None, None)):
        assert load(protocol="samre", rounds=given).rounds == rounds
    for given in ("0", "-1", "1.5", "many", True):
        refused(load, protocol="samre", rounds=given, says=r"^rounds: a number from 1 on, or samre")


def test_ratings_do_not_replace_what_they_were_made_of():
    with pytest.raises(ValidationError, match="would overwrite the input"):
        FitOptions(source="ratings.csv", out="ratings.csv")


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
    kind, least = options_of(command), LEAST[command]
    loaded = load_command(command, least).model_dump()
    assert load_command(command, {}, yaml.safe_dump(least)).model_dump() == loaded
    says = f"no such option; zelo-ray {command} "
    refused(load_command, command, {**least, "xyzzy": 1}, says=says)
    if any(field.is_required() for field in kind.model_fields.values()):
        refused(load_command, command, {}, says=f"is missing.*; zelo-ray {command} ")
    if "seed" in kind.model_fields:
        refused(load_command, command, {**least, "seed": 2**64}, says="^seed")


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_line_takes_a_file(command, tmp_path, monkeypatch):
    """And no environment variable sets an option."""
    monkeypatch.chdir(tmp_path)
    for name in ("INDEX", "POOLS", "OUT", "SCALE", "SEED", "JUDGES", "DIR", "QUERY"):
        monkeypatch.setenv(f"ZELO_RAY_{name}", "elsewhere")
    (tmp_path / "job.yaml").write_text(yaml.safe_dump(LEAST[command]))
    _, found = parse_command([command, "--config", "job.yaml"])
    assert found.model_dump() == load_command(command, LEAST[command]).model_dump()
    assert "elsewhere" not in str(found)


def test_a_conversion_takes_what_goes_with_it():
    unjudged = {"what": "unjudged", "runs": "a.run", "out": "o"}
    says = "depth: is not an option of convert qrels"
    refused(load_command, "convert", {**LEAST["convert"], "depth": 3}, says=says)
    refused(load_command, "convert", unjudged, says="truth: is required by convert unjudged")


# Numbers that mean nothing

JUDGE_OPTIONS = [
    *((LUNA, {"max_output_tokens": v}, "max_output_tokens: must be a whole number")
      for v in ("1e12", 1e12, True, 2048.0)),
    (LUNA, {"max_output_tokens": 0}, "max_output_tokens: must be at least"),
    (LUNA, {"max_output_tokens": 10**12}, "max_output_tokens: must be at most"),
    *((LUNA, {"temperature": v}, "temperature: must be") for v in (NAN, INF, -1, "0")),
    (LUNA, {"reasoning_effort": 3}, "reasoning_effort: must be a text"),
    (LUNA, {"response_format": "yaml"}, "response_format: must be 'json_schema'"),
    (LUNA, {"token_limit_field": "messages"}, "token_limit_field: must match"),
    (LUNA, {"extra_body": {"a": [{"b": INF}]}}, "extra_body.a.* a finite number"),
    (LUNA, {"extra_body": {1: 2}}, "extra_body"),
    ("anthropic:claude-haiku-5-5", {"effort": 2}, "effort: must be a text"),
    ("gemini:gemini-3.8-flash", {"thinking_level": 2}, "thinking_level: must be a"),
]  # fmt: skip


def test_an_option_of_a_judge_that_cannot_be():
    for judge, options, says in JUDGE_OPTIONS:
        whole = f"^{judge}: judge_options: {says}"
        refused(build_panel, (judge,), {judge: options}, {}, says=whole, error=PanelError)


def test_what_an_option_can_be_stays_as_it_was_given():
    for options in (
        {"max_output_tokens": None, "temperature": 0, "reasoning_effort": "none"},
        {"max_output_tokens": 1, "temperature": 2.0, "response_format": "none"},
        {"token_limit_field": "max_tokens", "extra_body": {"top_p": 0.5, "stop": ["x", None]}},
    ):
        (judge,) = build_panel((LUNA,), {LUNA: options}, {})
        assert options.items() <= dict(judge.options).items()


NUMBERS = {
    "max_usd": ("inf", "nan", "-1", "0", INF, True),
    "timeout": ("nan", "inf", "0", True),
    "patience": ("nan", "inf", "-3"),
    "batch_poll": ("nan", "inf"),
    "min_coverage": ("nan", "2", "inf"),
    "prior_sd": ("nan", "inf", "-1"),
    "seed": (2**63, -(2**63) - 1, "9" * 30, True, 1.5),
    "attempts": (10**30, True),
    "document_limit": (10**30,),
    "limits": (
        *({"j": {"rpm": v}} for v in (-5, 0, NAN, INF, "abc", True)),
        *({"j": {name: 2**64}} for name in ("concurrency", "enqueued_tokens")),
    ),
    "prices": (
        *({"j": {"input": v, "output": 1}} for v in (-1, NAN, INF, "abc", True)),
        *({"j": {"search": NAN}}, {"j": {"input": 1, "output": 1, "batch": INF}}),
    ),
}


def test_a_number_that_means_nothing_names_its_option():
    for name, values in NUMBERS.items():
        for value in values:
            refused(load, says=f"^{name}[.:]", **{name: value})
    for seed in (2**63 - 1, -(2**63), -7):
        assert load(seed=seed).seed == seed
    for command, given in (
        ("bakeoff", {"margin": "inf"}),
        ("bakeoff", {"num_gpus": {"a": NAN}}),
        ("fit", {"prior_sd": "nan"}),
        ("doctor", {"prices": {"j": {"input": NAN, "output": 1}}}),
    ):
        refused(load_command, command, LEAST[command] | given, says=f"^{next(iter(given))}")


# What only the input, the prices or other options show to mean nothing

LINE = {
    "query": {"id": "q1", "query": "tick"},
    "documents": [
        {"id": "a", "content": "A tick.", "metadata": {"brand": "x"}},
        {"id": "b", "content": "A clock."},
    ],
}


@pytest.fixture
def pools(tmp_path, monkeypatch):
    """Pools as JSON lines, and as rows, in the working directory."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "pools.jsonl").write_text(json.dumps(LINE) + "\n")
    rows = "query_id,query,doc_id,content,price\nq1,tick,a,A tick.,3\nq1,tick,b,A clock.,4\n"
    (tmp_path / "rows.csv").write_text(rows)
    (tmp_path / "labels.qrels").write_text("q1 0 a 1\nq1 0 b 0\n")
    (tmp_path / "mine.run").write_text("q1 Q0 a 1 2.0 mine\nq1 Q0 b 2 1.0 mine\n")
    monkeypatch.setenv("OPENAI_API_KEY", "a-key-for-tests-only")
    monkeypatch.setenv("OPENAI_BASE_URL", "http://127.0.0.1:9")


BAKEOFF = "bakeoff --truth labels.qrels --runs mine.run --out o"
COMMAND_LINES = {
    "annotate pools.jsonl --out o --judges offline --show-metadata brnd": "did you mean 'brand'?",
    "annotate rows.csv --out o --judges offline --show-metadata prise": "they have none but",
    "annotate rows.csv --out o --judges offline --show-metadata prise --dry-run": "--show-metadata",
    f"{BAKEOFF} --corpus c.tsv": "--corpus needs --pools",
    f"{BAKEOFF} --queries q.tsv": "--queries needs --pools",
    f"{BAKEOFF} --columns content=text": "columns: no file has a column 'text' (content)",
    "annotate in --out o --max-usd 1 --max-usd 100": "annotate: --max-usd is given twice; ",
    "annotate in --out o --judges a:b --judges c:d": "annotate: --judges is given twice; ",
    "annotate in --out o --seed=1 --seed 2": "annotate: --seed is given twice; ",
    "annotate pools.jsonl --out o --judges openai --max-usd 0.0001": "less than one call may cost",
    "annotate pools.jsonl --out o --judges openai --mode batch --max-usd 0.0001": "less than one c",
}


@pytest.mark.parametrize("words", COMMAND_LINES)
def test_what_cannot_be_meant_is_refused(pools, capsys, words):
    assert cli.main(words.split()) == 2
    *_, line = capsys.readouterr().err.splitlines()
    assert COMMAND_LINES[words] in line


def test_a_cap_that_some_judge_keeps_to_is_none_of_these(pools, tmp_path):
    judged = (tmp_path / "pools.jsonl", tmp_path / "o", bare_environment())
    flags = ("--judges", "offline:bm25", "--max-usd", "0.0001")
    status, printed = annotate(*judged, *flags)
    assert status == 0, printed
