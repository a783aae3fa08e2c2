"""What README.md, AGENTS.md and docs/ tell a reader to type, taken apart."""

import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from tests.helpers.crash import ROOT

PAGES = [ROOT / "README.md", ROOT / "AGENTS.md", *sorted((ROOT / "docs").glob("*.md"))]
_FENCE = re.compile(
    r"^(?P<fence>```+)(?P<lang>\S*)[^\n]*\n(?P<body>.*?)^(?P=fence) *$", re.S | re.M
)
_HEREDOC = re.compile(r"<<-?\s*'?(\w+)'?")
_OPTIONAL = re.compile(r"[\[\]…|]|\.\.\.")


@dataclass
class Command:
    """What a reader types at one go, and what the page says that it prints."""

    page: str
    line: int
    text: str
    kind: str = "sh"
    """``sh``, ``python``, or ``synopsis``: a line that shows how commands are called"""
    printed: list[str] = field(default_factory=list)

    @property
    def words(self) -> list[str]:
        """As a shell parts it, without comments; ``zelo-ray`` stands for the one in .venv."""
        words = shlex.split(self.text, comments=True)
        return [word.replace(".venv/bin/", "") for word in words]

    @property
    def is_ours(self) -> bool:
        """Whether it calls ``zelo-ray`` and nothing else."""
        return self.kind == "sh" and "<<" not in self.text and self.words[:1] == ["zelo-ray"]

    def __str__(self) -> str:
        return f"{self.page}:{self.line}: {self.text}"


def commands(page: Path) -> list[Command]:
    """All commands and programs of a page, in their order."""
    text, found = page.read_text(), list[Command]()
    for block in _FENCE.finditer(text):
        line, lang, body = text[: block.start()].count("\n") + 2, block["lang"], block["body"]
        if lang == "python":
            found.append(Command(page.name, line, body, "python"))
        elif lang == "text" and found and found[-1].kind == "python" and not found[-1].printed:
            between = text[: block.start()].rstrip()
            found[-1].printed = body.splitlines() if between.endswith("```") else []
        elif lang in ("sh", "bash"):
            found += _shell(page.name, line, body)
        elif lang == "console":
            found += _console(page.name, line, body)
        elif lang == "":
            found += _unmarked(page.name, line, body)
    return found


def _shell(page: str, start: int, body: str) -> Iterator[Command]:
    """Statements: lines with their continuations and here-documents, parted at ``&&``."""
    lines = iter(enumerate(body.splitlines(), start))
    for number, line in lines:
        text = line
        while text.endswith("\\"):
            text = text[:-1] + next(lines)[1]
        if heredoc := _HEREDOC.search(text):
            for _, more in lines:
                text += "\n" + more
                if more.strip() == heredoc[1]:
                    break
            yield Command(page, number, text)
        elif text.strip() and not text.lstrip().startswith("#"):
            yield from (Command(page, number, each.strip()) for each in text.split(" && "))


def _console(page: str, start: int, body: str) -> Iterator[Command]:
    """Lines after a prompt, each with what it prints."""
    last: Command | None = None
    for number, line in enumerate(body.splitlines(), start):
        if line.startswith("$ "):
            if last:
                yield last
            last = Command(page, number, line[2:])
        elif last and last.text.endswith("\\"):
            last.text = last.text[:-1] + line
        elif last and "<<" in last.text and line.startswith(">") and not last.printed:
            last.text += "\n" + line[1:].removeprefix(" ")
        elif last:
            last.printed.append(line)
    if last:
        yield last


def _unmarked(page: str, start: int, body: str) -> Iterator[Command]:
    """Lines with a command of ours, where a block is of no language."""
    for number, line in enumerate(body.splitlines(), start):
        if line.startswith("zelo-ray "):
            yield Command(page, number, line, "synopsis" if _OPTIONAL.search(line) else "sh")


def flags(text: str) -> list[str]:
    """The flags that a line names."""
    return re.findall(r"(?<![\w-])--[a-z][a-z-]*", text)


def inline(page: Path) -> list[Command]:
    """Commands of ours in running text and tables; ``synopsis`` where they are not whole."""
    text = re.sub(
        r"^```.*?^```",
        lambda block: "\n" * block[0].count("\n"),
        page.read_text(),
        flags=re.S | re.M,
    )
    return [
        Command(
            page.name,
            text[: found.start()].count("\n") + 1,
            " ".join(found[1].split()),
            "synopsis" if _OPTIONAL.search(found[1]) or "COMMAND" in found[1] else "sh",
        )
        for found in re.finditer(r"`(zelo-ray [^`]+)`", text)
    ]
