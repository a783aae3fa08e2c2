"""Verdicts in prose through the real SDKs: no schema is sent, and a text is held to its form."""

from collections import Counter

import orjson
import pytest

from tests.builders import THREE, ask, pool_of, send_away
from tests.fakes import Fault
from tests.fakes.asking import post
from zelo_ray.engine.ledger import Ledger
from zelo_ray.protocols import (
    advance,
    baseline_strong,
    load_protocol,
)
from zelo_ray.records import read_response

POOLS = [pool_of((0, 2), query_id=f"q{i}", query=f"question {i}?") for i in range(4)]
WAYS = {"online": ask, "batch": send_away}
SCHEMAS = ("response_format", "format", "responseJsonSchema", "responseSchema", "responseMimeType")
"""Fields of a body, at any depth, that ask for JSON."""


def run(way, out, environ, provider, **fields):
    """Ask one provider's judge; what every pool comes to, and the rows of the ledger."""
    mine = {name: key for name, key in environ.items() if name.startswith(provider.upper())}
    found = WAYS[way](POOLS, out, mine, **fields)
    filled = found if way == "online" else found[provider]
    assert filled.stopped == ""
    panel, options = filled.job
    rounds = [load_protocol(options.protocol).rounds(pool, panel, options) for pool in POOLS]
    return [advance(each, Ledger(str(out))) for each in rounds], filled.books


def asked(fakes):
    """The bodies of all calls and lines."""
    entries = [e for e in fakes.journal if e["endpoint"] in ("answer", "line")]
    return [orjson.loads(entry["body"]) for entry in entries]


def shapes(body):
    """The fields of a body that ask for JSON."""
    if isinstance(body, list):
        return [name for each in body for name in shapes(each)]
    if not isinstance(body, dict):
        return []
    return [name for name in body if name in SCHEMAS] + shapes(list(body.values()))


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("provider", THREE)
@pytest.mark.parametrize(
    ("protocol", "verdict"),
    [
        ("baseline-strong", baseline_strong.Tagged),
    ],
)
def test_a_text_of_the_right_form_is_kept(
    fakes, environ, tmp_path, provider, way, protocol, verdict
):
    steps, rows = run(way, tmp_path, environ, provider, protocol=protocol)
    assert [(row.status, row.final) for row in rows] == [("ok", True)] * len(POOLS)
    assert all(isinstance(read_response(verdict, row.text), verdict) for row in rows)
    assert not any(step.failures for step in steps)
    assert {one.winner for step in steps for one in step.judgments} == {"model_b"}
    assert [shapes(body) for body in asked(fakes)] == [[]] * len(POOLS)


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("provider", THREE)
def test_only_what_is_to_be_json_has_a_schema(fakes, environ, tmp_path, provider, way):
    """A debate asks for both: three texts and one object a round."""
    steps, rows = run(way, tmp_path, environ, provider, protocol="samre")
    assert {row.status for row in rows} == {"ok"}
    verdicts = [one for step in steps for one in step.judgments]
    assert [(one.winner, one.rounds) for one in verdicts] == [("model_b", 2)] * len(POOLS)
    assert len(rows) == 8 * len(POOLS)
    found = [("one JSON object" in str(body), bool(shapes(body))) for body in asked(fakes)]
    assert Counter(found) == {(True, True): 2 * len(POOLS), (False, False): 6 * len(POOLS)}


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("provider", THREE)
def test_lists_of_scores_are_asked_for_by_a_schema(fakes, environ, tmp_path, provider, way):
    steps, rows = run(way, tmp_path, environ, provider, protocol="baseline-weak")
    assert [(row.status, row.final) for row in rows] == [("ok", True)] * len(POOLS)
    assert not any(step.failures for step in steps)
    assert {one.winner for step in steps for one in step.judgments} == {"model_b"}
    assert all(shapes(body) for body in asked(fakes))


@pytest.mark.parametrize("provider", ["anthropic", "gemini"])
@pytest.mark.parametrize("way", WAYS)
def test_how_hard_to_think_is_said_without_a_schema(fakes, environ, tmp_path, provider, way):
    name, option, place = {
        "anthropic": ("anthropic:claude-haiku-5-5", "effort", "output_config"),
        "gemini": ("gemini:gemini-3.1-flash-lite", "thinking_level", "generationConfig"),
    }[provider]
    fields = {"judge_options": {name: {option: "low"}}, "protocol": "baseline-strong"}
    run(way, tmp_path, environ, provider, **fields)
    for body in asked(fakes):
        assert "low" in str(body[place]).lower()
        assert not shapes(body)


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("provider", THREE)
@pytest.mark.parametrize("protocol", ["baseline-strong"])
def test_a_text_of_another_form_is_asked_for_again_once(
    fakes, environ, tmp_path, provider, way, protocol
):
    fakes.faults = [Fault("prose", times=1)]
    steps, rows = run(way, tmp_path / "once", environ, provider, protocol=protocol)
    found = Counter((row.status, row.final, row.attempts) for row in rows)
    assert found == {("invalid", False, 1): len(POOLS), ("ok", True, 2): len(POOLS)}
    assert all(step.judgments and not step.failures for step in steps)
    assert all(row.output_tokens and row.dollars for row in rows)

    fakes.faults = [Fault("prose")]
    steps, rows = run(way, tmp_path / "always", environ, provider, protocol=protocol)
    found = Counter((row.status, row.final, row.attempts) for row in rows)
    assert found == {("invalid", False, 1): len(POOLS), ("invalid", True, 2): len(POOLS)}
    assert not any(step.judgments for step in steps)
    failures = [failure for step in steps for failure in step.failures]
    assert len(failures) == len(POOLS)
    why = {"baseline-strong": "<relevance>"}[protocol]
    assert all(failure.status == "invalid" and why in failure.reason for failure in failures)
    assert not any("Having read both" in failure.reason for failure in failures)


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("provider", THREE)
@pytest.mark.parametrize("fault", ["refusal", "truncated"])
def test_what_is_no_answer_is_none_in_prose_either(fakes, environ, tmp_path, provider, way, fault):
    fakes.faults = [Fault(fault)]
    steps, rows = run(way, tmp_path, environ, provider, protocol="samre")
    (status,) = {row.status for row in rows}
    assert status == "truncated" if fault == "truncated" else status in ("refused", "filtered")
    assert len(rows) == 2 * len(POOLS)  # nobody goes on after two defences that are none
    assert not any(step.judgments or step.missing for step in steps)


def test_a_range_that_anthropic_does_not_enforce_is_refused_at_any_depth(fakes):
    inner = {"type": "object", "properties": {"answer_1": {"type": "integer", "minimum": 1}}}
    for schema in (
        {"properties": {"relevance": inner}},
        {"properties": {"relevance": {"$ref": "#/$defs/Points"}}, "$defs": {"Points": inner}},
    ):
        output = {"format": {"type": "json_schema", "schema": {"type": "object", **schema}}}
        body = {"model": "m", "max_tokens": 9, "messages": [], "output_config": output}
        assert post(fakes, path="/anthropic/v1/messages", body=body)[0] == 400
