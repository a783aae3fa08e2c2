"""Names that docstrings refer to exist."""

import ast
import re

from tests.crash import ROOT


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
