"""The options of every command as Markdown, from what the command line is made of."""

import argparse
from collections.abc import Iterator

from zelo_ray.cli import make_parser
from zelo_ray.commands import COMMANDS
from zelo_ray.options import has_flag

_EVERYWHERE = {"help", "config", "json", "progress"}
"""Flags of every command."""


def options_page() -> str:
    """A section for each command: what it is for, how it is called, and its options in tables."""
    return "\n".join(line for name in COMMANDS for line in _command(name))


def _command(name: str) -> Iterator[str]:
    parser, kind = make_parser(name)
    purpose = COMMANDS[name].purpose
    yield from (f"## {name}", "", f"{purpose[0].upper()}{purpose[1:]}.", "")
    yield from ("```text", f"zelo-ray {kind.usage}", "```", "")
    for group in parser._action_groups:
        actions = [each for each in group._group_actions if each.dest not in _EVERYWHERE]
        if actions:
            title = "what it takes" if group.title == "positional arguments" else group.title
            yield from ("", f"**{title}**", "", "| option | what it is |", "|---|---|")
            yield from (_row(action) for action in actions)
    others = {n: f for n, f in kind.model_fields.items() if not has_flag(f)}
    if others:
        yield from (
            "",
            "**in the file or from Python only**",
            "",
            "| key | what it is |",
            "|---|---|",
        )
        yield from (f"| `{n}` | {_cell(f.description or '')} |" for n, f in others.items())
    yield ""


def _row(action: argparse.Action) -> str:
    """A row of the table of options."""
    flag = action.option_strings[0] if action.option_strings else action.dest.upper()
    value = "" if action.nargs == 0 or not action.option_strings else f" {action.metavar}"
    many = "..." if value and action.nargs in ("+", "*") else ""
    return f"| `{flag}{value}{many}` | {_cell(action.help or '')} |"


def _cell(text: str) -> str:
    """A text that may stand in a table; braces and pipes as they are."""
    return text.replace("%%", "%").replace("|", "\\|").replace("<", "&lt;").replace("*", "\\*")
