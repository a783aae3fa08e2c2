"""Options that would be taken and mean nothing, or something else: each is an error in one line."""

import json

import pytest

from tests.crash import bare_environment
from zelo_ray import cli
from zelo_ray.errors import OptionError, PanelError
from zelo_ray.options import COMMANDS, load_options
from zelo_ray.options.strict_yaml import read_yaml
from zelo_ray.protocols import load_annotate
from zelo_ray.providers import build_panel

NAN, INF = float("nan"), float("inf")
LUNA = "openai:gpt-6-luna"
GIVEN = {"inputs": ["a.jsonl"], "out": "out"}


@pytest.mark.parametrize(
    ("judge", "options", "says"),
    [
        *((LUNA, {"max_output_tokens": v}, "max_output_tokens: must be a whole number")
          for v in ("1e12", 1e12, "abc", True, [1], 2048.0)),
        *((LUNA, {"max_output_tokens": v}, "max_output_tokens: must be at least")
          for v in (-1, 0)),
        (LUNA, {"max_output_tokens": 10**12}, "max_output_tokens: must be at most"),
        *((LUNA, {"temperature": v}, "temperature: must be") for v in (NAN, INF, -1, "0")),
        (LUNA, {"reasoning_effort": 3}, "reasoning_effort: must be a text"),
        (LUNA, {"response_format": "yaml"}, "response_format: must be 'json_schema'"),
        (LUNA, {"token_limit_field": "messages"}, "token_limit_field: must match"),
        (LUNA, {"extra_body": {"top_p": NAN}}, "extra_body.top_p.float: must be a finite"),
        (LUNA, {"extra_body": {"a": [{"b": INF}]}}, "extra_body.a.* a finite number"),
        (LUNA, {"extra_body": {1: 2}}, "extra_body"),
        ("anthropic:claude-haiku-5-5", {"effort": 2}, "effort: must be a text"),
        ("gemini:gemini-3.8-flash", {"thinking_level": 2}, "thinking_level: must be a"),
    ],
)  # fmt: skip
def test_an_option_of_a_judge_that_cannot_be_names_judge_and_option(judge, options, says):
    with pytest.raises(PanelError, match=f"^{judge}: judge_options: {says}") as caught:
        build_panel((judge,), {judge: options}, {})
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    "options",
    [
        {"max_output_tokens": None, "temperature": 0, "reasoning_effort": "none"},
        {"max_output_tokens": 1, "temperature": 2.0, "response_format": "none"},
        {"token_limit_field": "max_tokens", "extra_body": {"top_p": 0.5, "stop": ["x", None]}},
    ],
)
def test_what_an_option_can_be_stays_as_it_was_given(options):
    (judge,) = build_panel((LUNA,), {LUNA: options}, {})
    assert options.items() <= dict(judge.options).items()


@pytest.mark.parametrize(
    ("name", "values"),
    [
        ("max_usd", ("inf", "nan", "-1", "0", INF, True)),
        ("timeout", ("nan", "inf", "0", True)),
        ("patience", ("nan", "inf", "-3")),
        ("batch_poll", ("nan", "inf")),
        ("min_coverage", ("nan", "2", "inf")),
        ("prior_sd", ("nan", "inf")),
        ("seed", (2**63, -(2**63) - 1, 2**64, "9" * 30, True, 1.5)),
        ("attempts", (10**30, True)),
        ("document_limit", (10**30,)),
        ("limits", tuple({"j": {"rpm": v}} for v in (-5, 0, NAN, INF, "abc", True))),
        ("limits", ({"j": {"concurrency": 2**64}}, {"j": {"enqueued_tokens": 2**64}})),
        ("prices", tuple({"j": {"input": v, "output": 1}} for v in (-1, NAN, INF, "abc", True))),
        ("prices", ({"j": {"search": NAN}}, {"j": {"input": 1, "output": 1, "batch": INF}})),
    ],
)
def test_a_number_that_means_nothing_names_its_option(name, values):
    for value in values:
        with pytest.raises(OptionError, match=f"^{name}[.:]") as caught:
            load_annotate({**GIVEN, name: value})
        assert "\n" not in str(caught.value)


@pytest.mark.parametrize("seed", [2**63 - 1, -(2**63), -7])
def test_a_seed_of_64_bits_is_one(seed):
    assert load_annotate({**GIVEN, "seed": seed}).seed == seed


@pytest.mark.parametrize(
    ("command", "given"),
    [
        ("bakeoff", {"truth": "t", "out": "o", "margin": "inf"}),
        ("bakeoff", {"truth": "t", "out": "o", "num_gpus": {"a": NAN}}),
        ("agree", {"sources": ["a"], "seed": 2**64}),
        ("compare-labels", {"old": "a", "new": "b", "seed": 2**64}),
        ("drift", {"old": "a", "new": "b", "seed": -(2**64)}),
        ("label", {"out": "o", "seed": 2**64}),
        ("convert", {"what": "qrels", "source": "a", "out": "b", "seed": 2**64}),
        ("fit", {"source": "a", "prior_sd": "nan"}),
        ("doctor", {"prices": {"j": {"input": NAN, "output": 1}}}),
    ],
)
def test_so_it_is_in_every_command(command, given):
    with pytest.raises(OptionError, match=f"^{list(given)[-1]}"):
        load_options(COMMANDS[command], given)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("max_usd: 1\nseed: 3\nmax_usd: 100\n", "line 3: 'max_usd' is given twice"),
        (f"limits:\n  {LUNA!r}:\n    rpm: 1\n    rpm: 9\n", "line 4: 'rpm' is given twice"),
        ("prices: {a: {input: 1, output: 1}, 'a': {input: 0, output: 0}}", "line 1: 'a' is given"),
        ('{"max_usd": 1, "out": "o", "max_usd": 100}', "line 1: 'max_usd' is given twice"),
        ("[" * 100_000, "is not valid YAML: it is nested too deeply"),
        ("a: 2026-13-45", "is not valid YAML: month must be in 1..12"),
        ("seed: 1\n---\nseed: 2\n", "must hold lines of option: value"),
    ],
    ids=range(7),
)
def test_a_config_file_that_would_lose_something_is_one_line_that_says_where(
    tmp_path, capsys, text, says
):
    (tmp_path / "job.yaml").write_text(text)
    words = ["annotate", "in", "--out", f"{tmp_path}/out", "--config", f"{tmp_path}/job.yaml"]
    assert cli.main(words) == 2
    err = capsys.readouterr().err
    assert err.count("\n") == 1
    assert "zelo-ray: the config file" in err
    assert says in err


def test_what_is_shared_is_read_and_may_be_replaced():
    text = "shared: &all {rpm: 1, tpm: 5}\nlimits: {a: {<<: *all, rpm: 2}, b: *all}\n"
    a, b = read_yaml(text, "it")[0]["limits"].values()
    assert (a, b) == ({"rpm": 2, "tpm": 5}, {"rpm": 1, "tpm": 5})


@pytest.mark.parametrize(
    "words",
    [
        ("--max-usd", "1", "--max-usd", "100"),
        ("--judges", "offline:bm25", "--judges", "offline:chargram"),
        ("--seed=1", "--seed", "2"),
    ],
)
def test_a_flag_that_stands_twice_is_an_error(capsys, words):
    assert cli.main(["annotate", "in", "--out", "o", *words]) == 2
    flag = words[0].partition("=")[0]
    assert capsys.readouterr().err.startswith(f"zelo-ray: annotate: {flag} is given twice; ")


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


def refused(capsys, *words):
    """What is said in one line of a command that is refused as wrong."""
    assert cli.main([*words]) == 2
    *_, line = capsys.readouterr().err.splitlines()
    return line


@pytest.mark.parametrize("more", [(), ("--dry-run",)])
@pytest.mark.parametrize(
    ("file", "name", "says"),
    [
        ("pools.jsonl", "brnd", "fields are brand (did you mean 'brand'?)"),
        ("rows.csv", "prise", "they have no field but their text (a column of a table counts"),
    ],
)
def test_metadata_that_no_document_has_cannot_be_shown(pools, capsys, file, name, says, more):
    words = ("annotate", file, "--out", "o", "--judges", "offline", "--show-metadata", name)
    said = refused(capsys, *words, *more)
    assert f"no document has the field '{name}' of --show-metadata; " in said
    assert says in said


@pytest.mark.parametrize("option", ["--corpus c.tsv", "--queries q.tsv"])
def test_what_says_how_pools_are_read_is_refused_where_none_are(pools, capsys, option):
    words = ("bakeoff", "--truth", "labels.qrels", "--runs", "mine.run", "--out", "o")
    name = option.split()[0]
    assert refused(capsys, *words, *option.split()) == (
        f"zelo-ray: {name} needs --pools; name some, or leave it out"
    )


def test_a_column_that_no_file_has_is_refused(pools, capsys):
    words = ("bakeoff", "--truth", "labels.qrels", "--runs", "mine.run", "--out", "o")
    said = refused(capsys, *words, "--columns", "content=text")
    assert said == "zelo-ray: columns: no file has a column 'text' (content): they have none"


@pytest.mark.parametrize("mode", ["online", "batch"])
def test_a_cap_below_the_price_of_one_call_says_so(pools, capsys, monkeypatch, mode):
    monkeypatch.setenv("OPENAI_API_KEY", "a-key-for-tests-only")
    monkeypatch.setenv("OPENAI_BASE_URL", "http://127.0.0.1:9")
    words = ("annotate", "pools.jsonl", "--out", "o", "--judges", "openai", "--mode", mode)
    said = refused(capsys, *words, "--max-usd", "0.0001")
    assert said.startswith("zelo-ray: --max-usd 0.0001 ")
    assert " less than one call may cost ($0.00" in said
    assert said.endswith(" lower max_output_tokens")


@pytest.mark.ray
def test_a_cap_that_some_judge_keeps_to_is_none_of_these(pools, one_ray, tmp_path):
    judged = (tmp_path / "pools.jsonl", tmp_path / "o", bare_environment())
    flags = ("--judges", "offline:bm25", "--max-usd", "0.0001")
    status, printed = one_ray.annotate(*judged, *flags)
    assert status == 0, printed
