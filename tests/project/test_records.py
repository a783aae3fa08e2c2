"""The nouns: names of judges, and what makes a request what it is (keys: see the ledger)."""

import pytest
from pydantic import (
    BaseModel,
    ConfigDict,
    ValidationError,
)

from tests.helpers.builders import request_of
from zelo_ray.providers import parse_judge
from zelo_ray.records import Document, Judge, first_error


@pytest.mark.parametrize(
    ("name", "judge"),
    [
        ("openai:gpt-6-luna", Judge("openai", "gpt-6-luna")),
        ("openai", Judge("openai", "")),
        ("offline:bm25", Judge("offline", "bm25")),
        ("openai:qwen3@http://host:8000/v1", Judge("openai", "qwen3", "http://host:8000/v1")),
        ("openai:org/m:8b@https://h/v1", Judge("openai", "org/m:8b", "https://h/v1")),
        (
            "openai:model@2026-01@http://[::1]:80",
            Judge("openai", "model@2026-01", "http://[::1]:80"),
        ),
        ("gemini:a@b", Judge("gemini", "a@b")),
        ("custom:mine:Class", Judge("custom", "mine:Class")),
        ("mine", Judge("mine", "")),
        ("mine:PROVIDER", Judge("mine:PROVIDER", "")),
        ("of.mine:PROVIDER:m:8b", Judge("of.mine:PROVIDER", "m:8b")),
        ("a/mine.py:ONE:m@http://h/v1", Judge("a/mine.py:ONE", "m", "http://h/v1")),
    ],
)
def test_a_judge_is_read_as_it_is_written(name, judge):
    assert parse_judge(name) == judge
    assert parse_judge(judge.name) == judge
    assert judge.name.rstrip(":") == name


def test_a_request_does_not_show_its_documents_in_logs():
    request = request_of(query="a secret query", documents=(Document("a", "a secret text"),))
    assert "secret" not in repr(request)


class Strict(BaseModel):
    model_config = ConfigDict(strict=True, extra="forbid")

    names: list[str]


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ('{"names": ["a", 7]}', "names[1]: must be a valid string"),
        ('{"names": [7, 8, 9]}', "names[0]: must be a valid string"),
        ("{}", "names: is missing"),
        ('{"names": [], "a.b": 1}', "a.b: is unknown"),
        ("[]", "must be an object"),
    ],
)
def test_what_is_wrong_is_told_in_one_line_with_its_place(text, says):
    with pytest.raises(ValidationError) as caught:
        Strict.model_validate_json(text)
    assert first_error(caught.value) == says
