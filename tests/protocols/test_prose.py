"""Verdicts in prose through the real SDKs: no schema is sent, and a text is held to its form."""

from collections import Counter

import orjson
import pytest

from tests.fakes import Fault
from tests.helpers.builders import THREE, ask, pool_of, send_away
from zelo_ray.engine.ledger import Ledger
from zelo_ray.protocols import (
    advance,
    load_protocol,
)

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
def test_only_what_is_to_be_json_has_a_schema(fakes, environ, tmp_path, provider, way):
    """A debate asks for both: three texts and one object a round."""
    for protocol, schemas in (
        ("baseline-strong", {False: 1}),
        ("baseline-weak", {True: 1}),
        ("samre", {True: 2, False: 6}),
    ):
        fakes.journal.clear()
        steps, rows = run(way, tmp_path / protocol, environ, provider, protocol=protocol)
        assert {(row.status, row.final) for row in rows} == {("ok", True)}
        assert not any(step.failures for step in steps)
        assert {one.winner for step in steps for one in step.judgments} == {"model_b"}
        found = Counter(bool(shapes(body)) for body in asked(fakes))
        assert found == {shaped: count * len(POOLS) for shaped, count in schemas.items()}
        assert len(rows) == found.total()


@pytest.mark.parametrize("way", WAYS)
def test_a_text_of_another_form_is_asked_for_again_once(fakes, environ, tmp_path, way):
    for name, fault, end in (
        ("once", Fault("prose", times=1), ("ok", True, 2)),
        ("always", Fault("prose"), ("invalid", True, 2)),
    ):
        fakes.faults = [fault]
        steps, rows = run(way, tmp_path / name, environ, "openai", protocol="baseline-strong")
        found = Counter((row.status, row.final, row.attempts) for row in rows)
        assert found == {("invalid", False, 1): len(POOLS), end: len(POOLS)}
        assert all(row.output_tokens and row.dollars for row in rows)
        failures = [failure for step in steps for failure in step.failures]
        judgments = [one for step in steps for one in step.judgments]
        counts = (len(POOLS), 0) if name == "once" else (0, len(POOLS))
        assert (len(judgments), len(failures)) == counts
        assert all(failure.status == "invalid" for failure in failures)
        assert not any("Having read both" in failure.reason for failure in failures)


@pytest.mark.parametrize("provider", THREE)
def test_what_is_no_answer_is_none_in_prose_either(fakes, environ, tmp_path, provider):
    for fault, statuses in (("refusal", {"refused", "filtered"}), ("truncated", {"truncated"})):
        fakes.faults = [Fault(fault)]
        steps, rows = run("online", tmp_path / fault, environ, provider, protocol="samre")
        (status,) = {row.status for row in rows}
        assert status in statuses
        assert len(rows) == 2 * len(POOLS)  # nobody goes on after two defences that are none
        assert not any(step.judgments or step.missing for step in steps)
