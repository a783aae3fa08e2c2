"""Count what makes code hard to read aloud: names without a subject, and docstrings without a verb.

python -m benchmarks.words [FOLDER...]     # by default this package, and two that are installed
"""

import ast
import sys
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path

_VAGUE = """
found each one told known said there kept whole own both heard rest mine here named asked other met
most least way beside things thing stuff much many left brought taken given seen
"""
WITHOUT_SUBJECT = frozenset(_VAGUE.split())
"""Names that say nothing of what they hold."""
_FIRST = "What Whether Why How Who Which Where Whose Whom When"
QUESTIONS = frozenset(_FIRST.split())
"""First words of docstrings that name a thing and do not say what is done."""
PEERS = ("httpx", "ir_measures")


@dataclass
class Count:
    """Figures of the code in a folder."""

    lines: int = 0
    files: int = 0
    bindings: int = 0
    docstrings: int = 0
    vague: Counter[str] = field(default_factory=Counter)
    questions: list[str] = field(default_factory=list)

    @property
    def vague_share(self) -> float:
        """Return the share of bindings whose name has no subject."""
        return self.vague.total() / max(self.bindings, 1)

    def __str__(self) -> str:
        names = ", ".join(f"{name} {times}" for name, times in self.vague.most_common(8))
        vague = f"{self.vague.total()} of {self.bindings:,} ({self.vague_share:.2%})"
        return (
            f"{self.lines:,} lines in {self.files} files; names without a subject {vague}: "
            f"{names or 'none'}; docstrings that begin with What, How ...: "
            f"{len(self.questions)} of {self.docstrings:,}"
        )


def count_words(folder: Path) -> Count:
    """Count names and docstrings in the Python files of a folder."""
    count = Count()
    for path in sorted(folder.rglob("*.py")):
        text = path.read_text(encoding="utf-8")
        tree = ast.parse(text)
        count.files, count.lines = count.files + 1, count.lines + text.count("\n")
        for name in bound_names(tree):
            count.bindings += 1
            count.vague[name] += name in WITHOUT_SUBJECT
        for node, docstring in docstrings_in(tree):
            count.docstrings += 1
            if docstring.split()[0].strip(",:") in QUESTIONS:
                count.questions.append(f"{path}:{node}")
    count.vague = +count.vague
    return count


def bound_names(tree: ast.AST) -> Iterator[str]:
    """Yield the name of each variable and argument where it is bound."""
    for node in ast.walk(tree):
        if isinstance(node, ast.arg):
            yield node.arg
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            yield node.id


def docstrings_in(tree: ast.AST) -> Iterator[tuple[str, str]]:
    """Yield the docstrings of functions and classes, each behind its name."""
    for node in ast.walk(tree):
        if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            continue
        if docstring := ast.get_docstring(node):
            yield node.name, docstring


def main() -> None:
    """Print the figures of each folder."""
    folders = [Path(folder) for folder in sys.argv[1:]] or [Path("zelo_ray")]
    if not sys.argv[1:]:
        origins = [spec.origin for name in PEERS if (spec := find_spec(name)) and spec.origin]
        folders += [Path(origin).parent for origin in origins]
    for folder in folders:
        print(f"{folder.name}: {count_words(folder)}")


if __name__ == "__main__":
    main()
