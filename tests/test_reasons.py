"""Reasons are values: no code reads a sentence back to decide what to do."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

import zelo_ray
from zelo_ray.reasons import (
    Disabled,
    StopReason,
    Unscored,
    UnscoredReason,
    describe_disabled,
    judges_by_reason,
)

HOME = Path(zelo_ray.__file__).parent
READS = {"startswith", "endswith", "removeprefix", "removesuffix", "partition", "rpartition"}
READS |= {"find", "index", "count", "split"}
FOREIGN = {
    ("ray/ray_errors.py", "Version mismatch"),  # Ray's own exceptions, which are of one type
    ("ray/ray_errors.py", "Failed to connect"),
    ("ray/ray_errors.py", "temporary directory"),
    ("providers/gemini/connection.py", "limit: 0,"),  # Google's, of a quota that no field tells
    ("cli/arguments.py", "argument "),  # argparse puts it before a flag's name
    ("protocols/prompt_files.py", "=== user ===\n"),  # marks in files of prompts
    ("protocols/prompt_files.py", "=== then ===\n"),
    ("commands/annotate/report/raters.py", "the people"),  # the name of a rater among others
    ("records.py", "Value error, "),  # pydantic puts it before a validator's own words
}


def texts(node: ast.expr, constants: dict[str, ast.expr]) -> Iterator[str]:
    """Yield the literal texts of an expression, also by the name of a constant of its module."""
    match node:
        case ast.Name(id=name) if name in constants:
            yield from texts(constants[name], {})
        case ast.Constant(value=str(text)):
            yield text
        case ast.JoinedStr(values=parts):
            yield "".join(part.value for part in parts if isinstance(part, ast.Constant))
        case ast.Tuple(elts=parts) | ast.List(elts=parts) | ast.Set(elts=parts):
            for part in parts:
                yield from texts(part, constants)


def sentences_read(source: str) -> Iterator[str]:
    """Yield the sentences that code looks for in a text: a blank and letters are in them."""
    tree = ast.parse(source)
    constants = {
        target.id: statement.value
        for statement in tree.body
        if isinstance(statement, ast.Assign)
        for target in statement.targets
        if isinstance(target, ast.Name)
    }
    for node in ast.walk(tree):
        looked_for: list[ast.expr] = []
        match node:
            case ast.Call(func=ast.Attribute(attr=name), args=[first, *_]) if name in READS:
                looked_for = [first]
            case ast.Compare(left=left, ops=[ast.In() | ast.NotIn()]):
                looked_for = [left]
        for expression in looked_for:
            for text in texts(expression, constants):
                if " " in text and re.search("[A-Za-z]{2}", text):
                    yield text


def test_no_code_reads_a_sentence_of_ours():
    read = {
        (str(path.relative_to(HOME)), text)
        for path in HOME.rglob("*.py")
        for text in sentences_read(path.read_text())
    }
    assert sorted(read) == sorted(FOREIGN)


@pytest.mark.parametrize(
    "source",
    [
        'why.startswith("the budget of ")',
        '_OVER = "the budget of "\nwhy.startswith(_OVER)',
        'why.removeprefix(("one of ", "two of "))',
        '"not asked: " in why',
        'f"it holds {number}" not in why',
        'line.partition("; pools written")',
    ],
)
def test_such_code_is_seen(source):
    assert [*sentences_read(source)]


def test_each_reason_is_said_once_after_the_judges_that_it_is_of():
    key, over = Disabled(StopReason.FATAL, "a wrong key"), Disabled(StopReason.BUDGET, "no money")
    disabled = {"a": key, "b": over, "c": key}
    assert judges_by_reason(disabled) == {key: ["a", "c"], over: ["b"]}
    assert [*describe_disabled(disabled)] == ["a, c: a wrong key", "no money"]


def test_every_reason_for_no_scores_has_its_sentence():
    numbers = {"held": 1, "takes": 2, "judged": 3, "asked": 12, "parts": 2, "names": "a; b"}
    for code in set(UnscoredReason) - {UnscoredReason.OTHER}:
        assert Unscored.because(code, **numbers).message
