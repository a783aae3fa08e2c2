"""Parse the command line to options."""

import argparse
import os
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, Literal, NoReturn, get_args, get_origin

from pydantic.fields import FieldInfo

from zelo_ray.cli.output import JSON, PROGRESS, PROGRESS_FORMS
from zelo_ray.commands import COMMANDS, load, options_of
from zelo_ray.errors import OptionError
from zelo_ray.names import did_you_mean
from zelo_ray.options.base import OTHERS, CommandOptions, group_of, has_flag, is_collection_of
from zelo_ray.options.files import OPTIONS_OF_FORMAT
from zelo_ray.options.places import read_text


def parse_command(
    words: Sequence[str], warn: Callable[[str], None] = lambda _: None
) -> tuple[str, CommandOptions]:
    """Parse the command that the words name, and its options, and take the keys of ``.env``.

    Args:
        words: the command line.
        warn: called with each line on what of ``.env`` is not used.

    Raises:
        OptionError: a command or an option is unknown, or a value is invalid.
    """
    name = words[0] if words else ""
    if name not in COMMANDS:
        what = (
            f"no such command {name!r}{did_you_mean(name, COMMANDS)}" if name else "give a command"
        )
        raise OptionError(f"{what}; zelo-ray --help shows all")
    kind = options_with_flags(name, words)
    only = _flags_of_format(words) if name == "convert" else ()
    choices = listed_values(name, installed=not {"--help", "-h"}.isdisjoint(words))
    flags = _parse_flags(name, kind, words[1:], choices, only)
    config = flags.pop("config", None)
    try:
        text = read_text(config) if config else ""
    except ValueError as error:
        raise OptionError(str(error)) from None
    options: CommandOptions = load(name, flags, text)
    from zelo_ray.providers.dotenv import take_keys

    for line in take_keys(options, os.environ):
        if name != "doctor":  # which reports it itself
            warn(f".env: {line}")
    return name, options


def options_with_flags(name: str, words: Sequence[str] = ()) -> type[CommandOptions]:
    """Return the options of a command, with those of all protocols if it takes them."""
    kind: type[CommandOptions] = options_of(name)
    if not COMMANDS[name].protocols:
        return kind
    from zelo_ray.protocols import is_own_protocol, options_with_all_protocols

    named, within = list[str](), False
    for word in words:
        flag, _, value = word.partition("=")
        if word.startswith("--"):
            within = flag in ("--protocol", "--protocols", "--try-protocols")
            named += [value] if within and value else []
        elif within:
            named.append(word)
    return options_with_all_protocols(kind, filter(is_own_protocol, named))


def _flags_of_format(words: Sequence[str]) -> Collection[str]:
    """Return the options that a format of `convert` takes, to list in its help."""
    formats = [word for word in words[1:2] if word in OPTIONS_OF_FORMAT]
    if not formats or {"--help", "-h"}.isdisjoint(words):
        return ()
    return ("what", "out", "columns", *OPTIONS_OF_FORMAT[formats[0]])


def listed_values(command: str, *, installed: bool = False) -> Mapping[str, Collection[str]]:
    """Return by option the values that help lists, with those of ``installed`` packages or not."""
    if not COMMANDS[command].protocols:
        return {}
    from zelo_ray.protocols import PROTOCOLS, protocol_names

    names = protocol_names() if installed else PROTOCOLS
    return dict.fromkeys(("protocol", "protocols", "try_protocols"), names)


def _parse_flags(
    name: str,
    kind: type[CommandOptions],
    words: Sequence[str],
    choices: Mapping[str, Collection[str]],
    only: Collection[str],
) -> dict[str, Any]:
    """Parse the arguments of a command: values by option, and ``config``.

    Raises:
        OptionError: an option is unknown, has no value, or is given twice.
    """
    purpose = COMMANDS[name].purpose
    parser = _Parser(
        prog=f"zelo-ray {name}",
        usage=f"zelo-ray {kind.usage} ...",
        description=f"{purpose[0].upper()}{purpose[1:]}.",
        allow_abbrev=False,
    )
    parser.add_argument("--config", metavar="FILE", help="YAML file of options; flags override it")
    parser.add_argument(JSON, action="store_true", help="print the result as one JSON document")
    parser.add_argument(
        PROGRESS,
        choices=PROGRESS_FORMS,
        metavar=f"{{{','.join(PROGRESS_FORMS)}}}",
        help="show progress as text (default), as one JSON object a line, or not at all",
    )
    add_options(parser, kind, choices, only)
    namespace, unknown = parser.parse_known_args(words)
    if unknown:
        parser.error(_describe_unknown(unknown, kind))
    flags = [word.partition("=")[0] for word in words if word.startswith("--") and word != "--"]
    if twice := [flag for flag in flags if flags.count(flag) > 1]:
        parser.error(f"{twice[0]} is given twice; give it once, followed by all its values")
    values = {n: v for n, v in vars(namespace).items() if n not in ("json", "progress")}
    may_be_empty = (*kind.positional, "config")  # argparse gives missing positionals a value
    return {n: v for n, v in values.items() if v or n not in may_be_empty}


def add_options(
    parser: argparse.ArgumentParser,
    kind: type[CommandOptions],
    choices: Mapping[str, Collection[str]],
    only: Collection[str] = (),
) -> None:
    """Add a flag for each option that has one, in groups; pydantic checks the values.

    Args:
        parser: of a command.
        kind: its options.
        choices: by option, the values that its help lists.
        only: the options to add; all if empty.
    """
    groups: dict[str, Any] = {OTHERS.title: parser}
    head = [name for name in kind.model_fields if name in kind.__annotations__]  # those come first
    names = dict.fromkeys([*kind.positional, *head, *kind.model_fields])
    marks = {name: group_of(kind.model_fields[name]) or OTHERS for name in names}
    for name in sorted(names, key=lambda name: marks[name].last):
        field, title = kind.model_fields[name], marks[name].title
        if (only and name not in only) or not has_flag(field):
            continue
        if title not in groups:
            groups[title] = parser.add_argument_group(title)
        positional = name in kind.positional
        flag = name if positional else f"--{name.replace('_', '-')}"
        values = f": {', '.join(choices[name])}" if name in choices else ""
        silent = field.is_required() or field.default in (None, (), "", False)
        default = "" if silent else f" (default {field.default})"
        groups[title].add_argument(
            flag,
            default=argparse.SUPPRESS,
            help=f"{field.description or ''}{values}{default}".replace("%", "%%"),
            **_shape(name, field, positional=positional),
        )


def _shape(name: str, field: FieldInfo, *, positional: bool) -> dict[str, Any]:
    """Return argparse's arguments for the number of values and their placeholder."""
    plain = {field.annotation, *get_args(field.annotation)}
    if field.annotation is bool:
        return {"action": "store_true"}
    is_list = is_collection_of(field.annotation, tuple)
    if get_origin(field.annotation) is Literal:
        metavar = f"{{{','.join(get_args(field.annotation))}}}"
    elif not is_list and plain & {int, float}:
        metavar = "N" if int in plain else "X"
    else:
        metavar = name.rpartition("_")[2].upper()
        metavar = metavar.removesuffix("S") if is_list else metavar
    if positional:
        return {"metavar": metavar, "nargs": "*" if is_list else "?"}
    some = {"nargs": "*" if field.default is None else "+"}
    return {"metavar": metavar, **some} if is_list else {"metavar": metavar}


def _describe_unknown(words: Sequence[str], kind: type[CommandOptions]) -> str:
    """Name the first unknown argument, and suggest a flag."""
    flag = next((word.partition("=")[0] for word in words if word.startswith("-")), "")
    if not flag:
        return f"unexpected {words[0]!r}"
    if flag[2:].replace("-", "_") in kind.model_fields:
        name = flag[2:].replace("-", "_")
        return f"{name} has no flag: write it into a file (YAML), and name that by --config"
    flags = [f"--{n.replace('_', '-')}" for n, f in kind.model_fields.items() if has_flag(f)]
    return f"no such option {flag}{did_you_mean(flag, flags)}"


class _Parser(argparse.ArgumentParser):
    """A parser that raises OptionError with a message of one line."""

    def error(self, message: str) -> NoReturn:
        complaint = message.removeprefix("argument ")
        raise OptionError(f"{self.prog.partition(' ')[2]}: {complaint}; {self.prog} --help")
