"""Reasons are values: no code reads a sentence back to decide what to do."""

import ast
import re
from pathlib import Path

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
    ("providers/faults.py", "limit: 0,"),  # Google's, of a quota that no field tells
    ("cli.py", "argument "),  # argparse puts it before a flag's name
    ("records.py", "Value error, "),  # pydantic puts it before a validator's own words
}


def sentences_read(source):
    """Yield the sentences that code looks for in a text: a blank and letters are in them."""
    for node in ast.walk(ast.parse(source)):
        match node:
            case ast.Call(func=ast.Attribute(attr=name), args=[first, *_]) if name in READS:
                looked_for = first
            case ast.Compare(left=left, ops=[ast.In() | ast.NotIn()]):
                looked_for = left
            case _:
                continue
        for part in ast.walk(looked_for):
            text = part.value if isinstance(part, ast.Constant) else ""
            if isinstance(text, str) and " " in text and re.search("[A-Za-z]{2}", text):
                yield text


def test_no_code_reads_a_sentence_of_ours():
    read = {
        (str(path.relative_to(HOME)), text)
        for path in HOME.rglob("*.py")
        for text in sentences_read(path.read_text())
    }
    assert sorted(read) == sorted(FOREIGN)
    for source in ('why.startswith(("one of ", "x"))', '"not asked: " in why', 'f"it {n}" in why'):
        assert [*sentences_read(source)]


def test_each_reason_is_said_once_of_its_judges():
    key, over = Disabled(StopReason.FATAL, "a wrong key"), Disabled(StopReason.BUDGET, "no money")
    disabled = {"a": key, "b": over, "c": key}
    assert judges_by_reason(disabled) == {key: ["a", "c"], over: ["b"]}
    assert [*describe_disabled(disabled)] == ["a, c: a wrong key", "no money"]


def test_every_reason_for_no_scores_has_its_sentence():
    numbers = {"held": 1, "takes": 2, "judged": 3, "asked": 12, "parts": 2, "names": "a; b"}
    for code in set(UnscoredReason) - {UnscoredReason.OTHER}:
        assert Unscored.because(code, **numbers).message
