"""The nouns: names of judges, and what makes a request what it is (keys: see the ledger)."""

import dataclasses
from typing import Annotated, Literal

import pytest
from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Field,
    ValidationError,
    create_model,
)

from tests.builders import judge_of, request_of
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


def test_records_do_not_change():
    for record in (judge_of(), Document("a", "b"), request_of()):
        with pytest.raises(dataclasses.FrozenInstanceError):
            setattr(record, dataclasses.fields(record)[0].name, "x")


def test_a_request_does_not_show_its_documents_in_logs():
    request = request_of(query="a secret query", documents=(Document("a", "a secret text"),))
    assert "secret" not in repr(request)


class Strict(BaseModel):
    model_config = ConfigDict(strict=True, extra="forbid")

    names: list[str]


NO_TEXT = "must be a text"


def refuse(_):
    raise ValueError("less than a valid number")


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ('{"names": ["a", 7]}', f"names[1]: {NO_TEXT}"),
        ('{"names": [7, 8, 9]}', f"names[0]: {NO_TEXT} (and 2 more)"),
        ("{}", "names: is missing"),
        ('{"names": [], "a.b": 1}', "a.b: is unknown"),
        ("[]", "must be an object"),
    ],
)
def test_what_is_wrong_is_told_in_one_line_with_its_place(text, says):
    with pytest.raises(ValidationError) as caught:
        Strict.model_validate_json(text)
    assert first_error(caught.value) == says


@pytest.mark.parametrize(
    ("kind", "value", "says"),
    [
        (int, "x", "a: must be a whole number"),
        (int, 1.5, "a: must be a whole number"),
        (bool, "x", "a: must be true or false"),
        (Strict, 3, "a: must be an object"),
        (Annotated[int, Field(ge=1)], 0, "a: must be at least 1"),
        (Annotated[list[int], Field(max_length=1)], [1, 2], "a: must have at most 1 item, not 2"),
        # What a model quotes is not put in other words.
        (Literal["greater than", "b"], "x", "a: must be 'greater than' or 'b'"),
        (Annotated[str, Field(pattern="^less than$")], "x", "a: must match pattern '^less than$'"),
        (Annotated[int, AfterValidator(refuse)], 1, "a: less than a valid number"),
    ],
)
def test_errors_are_in_plain_words(kind, value, says):
    with pytest.raises(ValidationError) as caught:
        create_model("Model", a=(kind, ...))(a=value)
    assert first_error(caught.value) == says
