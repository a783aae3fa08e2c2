"""What is in a request's key and what is not, and what a higher output limit asks anew."""

import json
from collections import Counter

import pytest

from tests.fakes import Fakes
from tests.fakes.lengths import Lengths
from tests.helpers.builders import ask, pool_of
from zelo_ray.engine.ledger import read_rows
from zelo_ray.protocols import zelo
from zelo_ray.providers import build_panel
from zelo_ray.records import Request

LUNA = "openai:gpt-6-luna"
OPENAI = {"OPENAI_API_KEY": "a-key-for-tests-only"}
POOL = pool_of(range(5))


def request_by(name=LUNA, **options):
    (judge,) = build_panel((name,), {name: options}, {})
    return Request(judge, "You compare.", "Which?", zelo.Preference, "", ())


@pytest.mark.parametrize(
    ("name", "options", "key"),
    [
        (LUNA, {}, "d831623435c3d42745254f65615f2c44"),
        (LUNA, {"max_output_tokens": 4096}, "d831623435c3d42745254f65615f2c44"),
        (LUNA, {"token_limit_field": "max_tokens"}, "d831623435c3d42745254f65615f2c44"),
        ("anthropic:claude-haiku-5-5", {}, "93d2341204387e1f30b2015b5f4c297a"),
        ("gemini:gemini-3.1-flash-lite", {}, "87d96a52eb2b6efff41235c214442ee8"),
    ],
)
def test_the_keys_are_what_they_were(name, options, key):
    """Whoever changes them makes every user pay again for what the ledger holds."""
    assert request_by(name, **options).key == key


@pytest.mark.parametrize(
    "options",
    [
        {"max_output_tokens": 4096},
        {"token_limit_field": "max_tokens"},
        {"extra_body": {"service_tier": "flex"}},
    ],
)
def test_how_an_answer_travels_is_no_part_of_the_key(options):
    assert request_by(**options).key == request_by().key


@pytest.fixture
def short(monkeypatch):
    """A server whose answers are of different lengths, around a limit of 100 tokens."""
    with Fakes(["openai"], lengths=Lengths(output=80, sd=0.6)) as fakes:
        monkeypatch.setenv("OPENAI_BASE_URL", fakes.urls["openai"])
        yield fakes


def limited(out, limit, **fields):
    return ask([POOL], out, OPENAI, judge_options={LUNA: {"max_output_tokens": limit}}, **fields)


def limits_asked(fakes):
    return [json.loads(e["body"])["max_completion_tokens"] for e in fakes.journal if "body" in e]


def test_a_higher_limit_asks_only_for_what_was_cut_off(short, tmp_path):
    short.bodies = True
    first = limited(tmp_path, 100)
    statuses = Counter(row.status for row in first.books)
    assert statuses["ok"] > 0
    assert statuses["truncated"] > 0
    assert {row.limit for row in first.books} == {100}
    assert len(limited(tmp_path, 100, run_id="same").books) == len(first.books)
    again = limited(tmp_path, 1000, run_id="higher")
    anew = [row for row in again.books if row.run_id == "higher"]
    assert len(anew) == statuses["truncated"]
    assert {row.status for row in anew} == {"ok"}
    assert limits_asked(short)[-len(anew) :] == [1000] * len(anew)


def test_a_retry_asks_what_was_cut_off_at_twice_the_limit(short, tmp_path):
    short.bodies = True
    first = limited(tmp_path, 60)
    cut = {row.key for row in first.books if row.status == "truncated"}
    again = limited(tmp_path, 60, run_id="again", retry=("truncated",))
    anew = [row for row in again.books if row.run_id == "again"]
    assert {row.key for row in anew} == cut
    assert limits_asked(short)[-len(anew) :] == [120] * len(anew)
    assert {row.limit for row in read_rows(str(tmp_path)) if row.run_id == "again"} == {120}
