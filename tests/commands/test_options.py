"""Options: flags, keywords and a file mean the same; what means nothing is an error of one line."""

import json

import pytest
import yaml

from tests.helpers.crash import bare_environment
from tests.helpers.jobs import annotate
from zelo_ray import cli
from zelo_ray.cli import parse_command
from zelo_ray.commands import COMMANDS, load, options_of
from zelo_ray.errors import OptionError, PanelError
from zelo_ray.options import AnnotateOptions, read_config, read_yaml
from zelo_ray.protocols import PROTOCOLS, load_protocol, options_with_all_protocols
from zelo_ray.providers import build_panel

NAN, INF = float("nan"), float("inf")
LUNA = "openai:gpt-6-luna"
FLAGS = {"inputs": ["a.jsonl"], "out": "out"}


def load_annotate(**flags):
    return load("annotate", {**FLAGS, **flags})


def refused(function, *given, says, error=OptionError, **more):
    """What is refused in one line that holds these words."""
    with pytest.raises(error, match=says) as caught:
        function(*given, **more)
    assert "\n" not in str(caught.value)


LEAST = {
    "annotate": FLAGS,
    "bakeoff": {"truth": "qrels.txt", "out": "out"},
    "compare": {**FLAGS, "human": "votes.jsonl"},
    "agree": {"sources": ["graded"]},
    "label": {"out": "labels"},
    "probe": FLAGS,
    "fit": {"source": "votes.parquet"},
    "convert": {"what": "qrels", "source": "graded", "out": "qrels.txt"},
    "prompt": {"inputs": ["pools.jsonl"]},
    "explain": {"run": "out", "query": "q1"},
    "report": {"runs": "out"},
    "watch": {"run": "out"},
    "batches": {"run": "out"},
    "sample": {"out": "data"},
    "doctor": {"judges": ["offline"]},
}


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_takes_keywords_and_a_file_alike(command, tmp_path, monkeypatch):
    """And no environment variable sets an option."""
    monkeypatch.chdir(tmp_path)
    kind, least = options_of(command), LEAST[command]
    loaded = load(command, least)
    for name in ("INDEX", "POOLS", "OUT", "SCALE", "SEED", "JUDGES", "RUN", "QUERY"):
        monkeypatch.setenv(f"ZELO_RAY_{name}", "elsewhere")
    (tmp_path / "job.yaml").write_text(yaml.safe_dump(least))
    assert parse_command([command, "--config", "job.yaml"])[1].model_dump() == loaded.model_dump()
    says = f"^xyzzy: no such option; zelo-ray {command} "
    refused(load, command, {**least, "xyzzy": 1}, says=says)
    if any(field.is_required() for field in kind.model_fields.values()):
        refused(load, command, {}, says=f"is missing.*; zelo-ray {command} ")
    if "seed" in kind.model_fields:
        refused(load, command, {**least, "seed": 2**64}, says="^seed")


def test_a_flag_wins_over_the_file_which_also_holds_mappings(tmp_path):
    text = f"seed: 1\nattempts: 4\njudges: [{LUNA}, offline]\nlimits: {{'{LUNA}': {{rpm: 2}}}}\n"
    (tmp_path / "job.yaml").write_text(text)
    words = ["annotate", "in", "--out", "o", "--seed", "7", "--config", f"{tmp_path}/job.yaml"]
    options = parse_command(words)[1]
    assert (options.seed, options.attempts, options.judges) == (7, 4, (LUNA, "offline"))
    assert options.limits[LUNA].rates == {"rpm": 2}
    assert options.reasks == AnnotateOptions.model_fields["reasks"].default
    with pytest.raises(ValueError, match="frozen"):
        options.seed = 8
    assert load("annotate", options.model_dump(mode="json")) == options, "as a record has them"
    shared = "all: &all {rpm: 1, tpm: 5}\nlimits: {a: {<<: *all, rpm: 2}, b: *all}\n"
    a, b = read_yaml(shared, "it is")[0]["limits"].values()
    assert (a, b) == ({"rpm": 2, "tpm": 5}, {"rpm": 1, "tpm": 5})


WRONG = {
    "sead: 1": r"^sead: no such option \(did you mean 'seed'\?\); ",
    "max-usd: 1": r"^max-usd: .*did you mean 'max_usd'\?\); ",
    "1: 2": "1.*",
    "cycles: 0": "cycles: .*equal to 1",
    "document_limit: 1": "document_limit: .*equal to",
    "limits: {j: {rmp: 5}}": r"^limits.j.rmp: .*did you mean 'rpm'\?\); ",
    "limits: 7": "limits: ",
    "judges: {a: b}": "judges: ",
    "judges: [7]": r"judges\[0\]: must be a",
    "protocol: graded\ncycles: 3": r"^--cycles .* --protocol zelo, .* not of graded; ",
    "protocol: samre\nrounds: 1.5": r"^rounds: a number from 1 on, or samre",
    "- a list": "option: value",
    "a: [": "job.yaml is not valid YAML",
    "a: !!python/object:os.system x": "is not valid YAML",
    "a: 2026-13-45": "is not valid YAML: month must be in 1..12",
    "[" * 100_000: "is not valid YAML: it is nested too deeply",
    "seed: 1\n---\nseed: 2\n": "job.yaml: must hold lines of option: value",
    "max_usd: 1\nseed: 3\nmax_usd: 100\n": "line 3: 'max_usd' is given twice",
    f"limits:\n  {LUNA!r}:\n    rpm: 1\n    rpm: 9\n": "line 4: 'rpm' is given twice",
}


def test_a_file_that_makes_no_sense_is_refused(tmp_path):
    place = tmp_path / "job.yaml"
    for text, says in WRONG.items():
        place.write_text(text)
        refused(lambda: load("annotate", {**FLAGS, **read_config(str(place))}), says=says)


def test_options_that_do_not_go_together_are_refused():
    gate = {"truth": "t", "runs": "a.run", "out": "o", "margin": 0.05}
    assert load("bakeoff", gate | {"baseline": "a"}).margin == 0.05
    unjudged = {"what": "unjudged", "runs": "a.run", "out": "o"}
    for command, given, says in (
        ("bakeoff", gate, "margin: needs baseline"),
        ("fit", {"source": "r.csv", "out": "r.csv"}, "would overwrite the input"),
        ("fit", {"source": "r.csv", "out": "r.xml"}, "must end in .csv"),
        ("convert", {**LEAST["convert"], "depth": 3}, "depth: is not an option of convert qrels"),
        ("convert", unjudged, "truth: is required by convert unjudged"),
        ("agree", {"sources": ["a"], "people": "x*"}, "people: needs human"),
        ("explain", {"run": "out", "doc": "d"}, "doc: needs query"),
    ):
        refused(load, command, given, says=says)


def test_protocols_that_share_an_option_mean_the_same_by_it():
    """Else the help of a command could not tell it once."""
    found = {}
    assert all(
        f.description for f in options_with_all_protocols(AnnotateOptions).model_fields.values()
    )
    for name in PROTOCOLS:
        for option, field in load_protocol(name).options.model_fields.items():
            told = (field.description, field.default, str(field.annotation))
            if option not in AnnotateOptions.model_fields:
                assert found.setdefault(option, told) == told, option


# Numbers that mean nothing

JUDGE_OPTIONS = [
    *((LUNA, {"max_output_tokens": v}, "max_output_tokens: must be") for v in ("1e12", True, 0)),
    (LUNA, {"max_output_tokens": 10**12}, "max_output_tokens: must be less than"),
    *((LUNA, {"temperature": v}, "temperature: must be") for v in (NAN, INF, -1, "0")),
    (LUNA, {"response_format": "yaml"}, "response_format: must be 'json_schema'"),
    (LUNA, {"token_limit_field": "messages"}, "token_limit_field: must match"),
    (LUNA, {"extra_body": {"a": [{"b": INF}]}}, "extra_body.a.* a finite number"),
    ("anthropic:claude-haiku-5-5", {"effort": 2}, "effort: must be a"),
    ("gemini:gemini-3.8-flash", {"thinking_level": 2}, "thinking_level: must be a"),
]
NUMBERS = {
    "max_usd": ("inf", "nan", "-1", "0", INF, True),
    "timeout": ("nan", "inf", "0", True),
    "min_coverage": ("nan", "2", "inf"),
    "prior_sd": ("nan", "inf", "-1"),
    "seed": (2**63, -(2**63) - 1, "9" * 30, True, 1.5),
    "attempts": (10**30, True),
    "limits": (*({"j": {"rpm": v}} for v in (0, NAN, "abc", True)), {"j": {"concurrency": 2**64}}),
    "prices": (
        *({"j": {"input": v, "output": 1}} for v in (-1, NAN, INF, "abc", True)),
        *({"j": {"search": NAN}}, {"j": {"input": 1}}),
    ),
}


def test_a_number_that_means_nothing_names_its_option():
    for name, values in NUMBERS.items():
        for value in values:
            refused(load_annotate, says=f"^{name}[.:]", **{name: value})
    for seed in (2**63 - 1, -(2**63), -7):
        assert load_annotate(seed=seed).seed == seed
    for judge, options, says in JUDGE_OPTIONS:
        whole = f"^{judge}: judge_options: {says}"
        refused(build_panel, (judge,), {judge: options}, {}, says=whole, error=PanelError)
    (judge,) = build_panel((LUNA,), {LUNA: {"temperature": 0, "extra_body": {"stop": [None]}}}, {})
    assert {"temperature": 0, "extra_body": {"stop": [None]}}.items() <= judge.options.items()


# What only the input, the prices or other options show to mean nothing

LINE = {
    "query": {"id": "q1", "query": "tick"},
    "documents": [
        {"id": "a", "content": "A tick.", "metadata": {"brand": "x"}},
        {"id": "b", "content": "A clock."},
    ],
}
BAKEOFF = "bakeoff --truth labels.qrels --runs mine.run --out o"
COMMAND_LINES = {
    "annotate pools.jsonl --out o --judges offline --show-metadata brnd": "did you mean 'brand'?",
    "annotate rows.csv --out o --judges offline --show-metadata prise": "fields are none",
    f"{BAKEOFF} --corpus c.tsv": "--corpus needs --pools",
    f"{BAKEOFF} --columns content=text": "columns: no file has a column 'text' (content)",
    "annotate in --out o --max-usd 1 --max-usd 100": "annotate: --max-usd is given twice; ",
    "annotate in --out o --seed=1 --seed 2": "annotate: --seed is given twice; ",
}


def test_what_cannot_be_meant_is_refused(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "pools.jsonl").write_text(json.dumps(LINE) + "\n")
    rows = "query_id,query,doc_id,content,price\nq1,tick,a,A tick.,3\nq1,tick,b,A clock.,4\n"
    (tmp_path / "rows.csv").write_text(rows)
    (tmp_path / "labels.qrels").write_text("q1 0 a 1\nq1 0 b 0\n")
    (tmp_path / "mine.run").write_text("q1 Q0 a 1 2.0 mine\nq1 Q0 b 2 1.0 mine\n")
    monkeypatch.setenv("OPENAI_API_KEY", "a-key-for-tests-only")
    monkeypatch.setenv("OPENAI_BASE_URL", "http://127.0.0.1:9")
    for words, says in COMMAND_LINES.items():
        assert cli.main(words.split()) == 2
        assert says in capsys.readouterr().err.splitlines()[-1]
    judged = (tmp_path / "pools.jsonl", tmp_path / "o", bare_environment())
    status, printed = annotate(*judged, "--judges", "offline:bm25", "--max-usd", "0.0001")
    assert status == 0, printed
