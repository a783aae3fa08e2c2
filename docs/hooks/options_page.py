"""The options of every command as Markdown, from what the command line is made of."""

import argparse
from collections.abc import Iterator

from zelo_ray.cli.arguments import add_options, help_values
from zelo_ray.options import COMMANDS, CommandOptions
from zelo_ray.options.command import has_flag
from zelo_ray.protocols import options_with_all_protocols

_OF_PROTOCOLS = ("annotate", "compare-protocols", "tune")


def options_page() -> str:
    """A section for each command: what it is for, how it is called, and its options in tables."""
    return "\n".join(line for name in COMMANDS for line in _command(name, COMMANDS[name]))


def _command(name: str, kind: type[CommandOptions]) -> Iterator[str]:
    kind = options_with_all_protocols(kind) if name in _OF_PROTOCOLS else kind
    yield from (f"## {name}", "", f"{kind.does[0].upper()}{kind.does[1:]}.", "")
    yield from ("```text", f"zelo-ray {kind.usage}", "```", "")
    parser = argparse.ArgumentParser(add_help=False, prog=f"zelo-ray {name}")
    add_options(parser, kind, choices=help_values(name))
    for group in parser._action_groups:
        if group._group_actions:
            title = "what it takes" if group.title == "positional arguments" else group.title
            yield from ("", f"**{title}**", "", "| option | what it is |", "|---|---|")
            yield from (_row(action) for action in group._group_actions)
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
    return text.replace("|", "\\|").replace("<", "&lt;").replace("*", "\\*")
