"""Names say what they hold, and docstrings what is done: neither gets worse."""

import ast
import re

from benchmarks.words import count_words
from tests.crash import ROOT

RESPONSE_MODELS = ("Choice", "Feedback", "Traits")
"""Their docstrings are a part of what judges are sent, and of the keys of replies."""


def test_few_names_are_without_a_subject_and_docstrings_begin_with_no_question():
    count = count_words(ROOT / "zelo_ray")
    assert count.vague_share < 0.006, count.vague
    asking = [place for place in count.questions if not place.endswith(RESPONSE_MODELS)]
    assert not asking


def test_words_are_counted(tmp_path):
    (tmp_path / "code.py").write_text('def f(found, row):\n    """What it is."""\n    told = row\n')
    count = count_words(tmp_path)
    assert (count.bindings, count.vague) == (3, {"found": 1, "told": 1})
    assert (count.docstrings, len(count.questions)) == (1, 1)


def names_in(tree):
    """All identifiers of a module's code, with those in plain strings, such as columns."""
    for node in ast.walk(tree):
        match node:
            case ast.FunctionDef(name) | ast.AsyncFunctionDef(name) | ast.ClassDef(name):
                yield name
            case ast.Name(name) | ast.arg(name) | ast.Attribute(attr=name) | ast.keyword(name):
                yield name or ""
            case ast.alias(name):
                yield from name.split(".")
            case ast.Constant(str(text)) if text.isidentifier():
                yield text


def test_names_that_docstrings_refer_to_exist():
    texts = {path: path.read_text() for path in (ROOT / "zelo_ray").rglob("*.py")}
    known = {name for text in texts.values() for name in names_in(ast.parse(text))}
    known |= {part for path in texts for part in path.with_suffix("").parts} | {"typing"}
    named = re.compile(r"(?<!`)`(?:\w+\.)*([A-Za-z_]\w*)(?:\([^`]*\))?`(?!`)")
    gone = {(path.name, name) for path in texts for name in named.findall(texts[path])}
    assert {(path, name) for path, name in gone if name not in known} == set()
