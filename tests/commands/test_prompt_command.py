"""The command that shows the requests to judges, and that they are those that are sent."""

import json

import pytest

from tests.fakes.core import Fakes
from tests.helpers.builders import (
    fill,
    line_of,
    options_of,
    pool_of,
    reply_to,
)
from tests.helpers.provider_calls import KEY, send
from tests.protocols.test_prompts import first_round
from zelo_ray import cli
from zelo_ray.commands import load as load_command
from zelo_ray.commands.running import run_command
from zelo_ray.protocols import find_protocol
from zelo_ray.providers import Settings, build_panel
from zelo_ray.report.watches import SilentWatch

JUDGES = ("openai:gpt-6-luna", "anthropic:claude-haiku-5-5", "gemini:gemini-3.1-flash-lite")
POOLS = [pool_of(), pool_of((3, 2, 1), "tick-removal", "how to remove a tick")]


@pytest.fixture
def pools(tmp_path):
    path = tmp_path / "pools.jsonl"
    path.write_bytes(b"\n".join(map(line_of, POOLS)))
    return str(path)


def find(*pools, **given):
    options = load_command("prompt", {"inputs": pools, "judges": list(JUDGES), **given})
    return run_command("prompt", options, SilentWatch())


def test_one_request_of_each_judge_is_shown_of_the_first_query(pools):
    found = find(pools)
    assert found.query_id == "q1"
    assert [request["judge"] for request in found.requests] == list(JUDGES)
    assert {request["round"] for request in found.requests} == {1}
    assert "example" in found.notes[0]
    assert {request["schema"]["title"] for request in found.requests} == {"Preference"}


def test_the_key_of_openais_cache_goes_to_openai_alone(pools, monkeypatch):
    for judge, variable, has_key in (
        ("openai:m", "", True),
        ("openai:m@https://api.openai.com/v1", "", True),
        ("openai:m", "https://api.openai.com/v1", True),
        ("openai:m", "http://127.0.0.1:9/v1", False),
        ("openai:m@http://127.0.0.1:9/v1", "", False),
    ):
        monkeypatch.setenv("OPENAI_BASE_URL", variable)
        (request,) = find(pools, judges=[judge]).requests
        assert ("prompt_cache_key" in request["body"]) == has_key


def test_the_requests_about_documents_are_those_that_show_them(pools):
    assert {r["doc_ids"].count("d1") for r in find(pools, doc="d1").requests} == {1}
    both = find(pools, doc=["d1", "d2"]).requests
    assert {frozenset(request["doc_ids"]) for request in both} == {frozenset(["d1", "d2"])}
    assert len(both) == len(JUDGES)
    graded = find(pools, doc="d1", protocol="graded").requests
    assert [request["doc_ids"] for request in graded] == [["d1"]] * 3


@pytest.mark.parametrize("protocol", ["zelo", "graded", "best-of", "baseline-weak"])
def test_the_body_is_what_the_sdk_sends(pools, monkeypatch, protocol):
    with Fakes(key=KEY, bodies=True) as server:
        monkeypatch.setenv("OPENAI_BASE_URL", server.urls["openai"])
        for judge in JUDGES:
            (shown,) = find(pools, protocol=protocol, judges=[judge]).requests
            panel, options = build_panel((judge,), {}, {}), options_of(protocol=protocol)
            (request, *_) = first_round(find_protocol(protocol).rounds(POOLS[0], panel, options))
            url = server.urls[judge.partition(":")[0]]
            send(request.with_codes(""), Settings(KEY, url, 10.0))
            assert json.loads(server.journal[-1]["body"]) == json.loads(json.dumps(shown["body"]))
            assert shown["key"] == request.key


def test_later_rounds_are_shown_as_far_as_a_run_has_replies(pools, tmp_path):
    out = str(tmp_path / "out")
    given = {"protocol": "best-of", "judges": ["openai:gpt-6-luna"], "out": out}
    (first,) = find(pools, **given).requests
    choice = {"reasoning": "r", "verdict": "v", "winner": "1", "confidence": 0.9}
    fill(out, reply_to(first["key"], json.dumps(choice), judge="openai:gpt-6-luna"))
    first, second = find(pools, **given).requests
    assert (first["round"], second["round"]) == (1, 2)
    king = first["doc_ids"][0]
    assert king in second["doc_ids"]
    assert first["user"].splitlines()[0] == second["user"].splitlines()[0]  # one salt, one code


def test_nothing_is_written_and_bodies_are_lines_of_json(pools, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    before = {*tmp_path.rglob("*")}
    words = ["prompt", pools, "--judges", *JUDGES, "--body", "--doc", "d1"]
    assert cli.main([*words, "--out", str(tmp_path / "no")]) == 0
    assert {*tmp_path.rglob("*")} == before
    bodies = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert len(bodies) == len(find(pools, doc="d1").requests) == 9
    assert {"messages", "contents"} <= {name for body in bodies for name in body}
