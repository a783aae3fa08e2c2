"""Parse the command line to options."""

import argparse
import os
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, NoReturn, get_args, get_origin

from pydantic.fields import FieldInfo

from zelo_ray.cli.output import JSON, PROGRESS, PROGRESS_FORMS
from zelo_ray.errors import OptionError
from zelo_ray.options import COMMANDS, load_options
from zelo_ray.options.command import (
    OTHERS,
    CommandOptions,
    OptionGroup,
    did_you_mean,
    group_of,
    has_flag,
    is_collection_of,
)
from zelo_ray.options.convert import OPTIONS_OF_FORMAT
from zelo_ray.options.places import read_text

if TYPE_CHECKING:
    from zelo_ray.providers.dotenv import DotenvFile

_LOADERS = {
    "annotate": "load_annotate",
    "prompt": "load_prompt_options",
    "compare-protocols": "load_compare",
    "tune": "load_tune",
}
"""Functions that load the options of commands which include those of protocols."""


def parse_command(
    words: Sequence[str], warn: Callable[[str], None] = lambda _: None
) -> tuple[str, CommandOptions]:
    """Parse the command that the words name, and its options.

    Args:
        words: the command line.
        warn: called with each line of a file ``.env`` that is not used.

    Raises:
        OptionError: a command or an option is unknown, or a value is invalid.
    """
    asks_help = not {"--help", "-h"}.isdisjoint(words)
    keys = None if asks_help else _take_keys()  # before modules of the user's are imported
    name = _choose_command(words, "zelo-ray", [*COMMANDS])
    words = words[1:]
    kind, prog, subcommand = COMMANDS[name], f"zelo-ray {name}", dict[str, str]()
    if name == "convert" and words[:1] not in (["--help"], ["-h"]):
        what = _choose_command(words, prog, [*OPTIONS_OF_FORMAT])
        subcommand, prog, words = {"what": what}, f"{prog} {what}", words[1:]
    only = (
        {*kind.applicable_options(subcommand)} - {*subcommand} if subcommand else kind.model_fields
    )
    if name in _LOADERS:
        from zelo_ray.protocols import options_with_all_protocols

        kind = options_with_all_protocols(kind, _own_protocols(words))
        only = kind.model_fields
    choices = help_values(name, installed=asks_help)
    flags = subcommand | parse_flags(kind, prog, words, choices, only)
    dotenv = keys or _take_keys()
    config = flags.pop("config", None)
    try:
        text = read_text(config) if config else ""
    except ValueError as error:
        raise OptionError(str(error)) from None
    if name in _LOADERS:
        from zelo_ray import protocols

        options: CommandOptions = getattr(protocols, _LOADERS[name])(flags, text)
    else:
        options = load_options(kind, flags, text)
    dotenv.take_named(options)
    for line in dotenv.describe_skipped() if name != "doctor" else ():  # doctor reports it itself
        warn(f".env: {line}")
    return name, options


def _take_keys() -> "DotenvFile":
    from zelo_ray.providers.dotenv import DotenvFile

    dotenv = DotenvFile(os.environ)
    dotenv.take_all()
    return dotenv


def _own_protocols(words: Sequence[str]) -> list[str]:
    """Return the plug-ins among the words that are protocols: their options are flags as well."""
    from zelo_ray.protocols import is_own_protocol

    protocols, within = list[str](), False
    for word in words:
        flag, _, value = word.partition("=")
        if word.startswith("--"):
            within = flag in ("--protocol", "--protocols", "--try-protocols")
            protocols += [value] if within and value else []
        elif within:
            protocols.append(word)
    return [name for name in protocols if is_own_protocol(name)]


def _choose_command(words: Sequence[str], prog: str, commands: Sequence[str]) -> str:
    word = words[0] if words else ""
    if word in commands:
        return word
    if word:
        raise OptionError(
            f"no such command {word!r}{did_you_mean(word, commands)}; {prog} --help shows all"
        )
    raise OptionError(f"give a command, such as {prog} {commands[0]}; {prog} --help shows all")


def help_values(command: str, *, installed: bool = False) -> Mapping[str, Collection[str]]:
    """Return the values of options that help lists, by option.

    Args:
        command: whose options these are.
        installed: whether to list those of installed packages as well, which takes a moment.
    """
    if command in _LOADERS:
        from zelo_ray.protocols import PROTOCOLS, protocol_names

        names = protocol_names() if installed else PROTOCOLS
        return dict.fromkeys(("protocol", "protocols", "try_protocols"), names)
    return {}


def parse_flags(
    kind: type[CommandOptions],
    prog: str,
    words: Sequence[str],
    choices: Mapping[str, Collection[str]],
    only: Collection[str],
) -> dict[str, Any]:
    """Parse the arguments of a command: values by option, and ``config``.

    Args:
        kind: the options of the command.
        prog: the command, such as ``zelo-ray annotate``.
        words: the arguments after it.
        choices: by option, the values that its help lists.
        only: the options that have flags.

    Raises:
        OptionError: an option is unknown or has no value.
    """
    does = f"{kind.does[0].upper()}{kind.does[1:]}."
    usage = f"zelo-ray {kind.usage} ..."
    parser = _Parser(prog=prog, usage=usage, description=does, allow_abbrev=False)
    parser.add_argument("--config", metavar="FILE", help="YAML file of options; flags override it")
    parser.add_argument(JSON, action="store_true", help="print the result as one JSON document")
    parser.add_argument(
        PROGRESS,
        choices=PROGRESS_FORMS,
        metavar=f"{{{','.join(PROGRESS_FORMS)}}}",
        help="show progress as text (default), as one JSON object a line, or not at all",
    )
    add_options(parser, kind, choices=choices, only=only)
    namespace, extra = parser.parse_known_args(words)
    if extra:
        raise OptionError(
            f"{prog.partition(' ')[2]}: {_describe_unknown(extra, kind)}; "
            f"zelo-ray {kind.usage}, or --help"
        )
    _refuse_twice(words, prog)
    values = {n: v for n, v in vars(namespace).items() if n not in ("json", "progress")}
    for name in (*kind.positional, "config"):
        if not values.get(name):  # argparse gives missing positionals a value
            values.pop(name, None)
    return values


def _refuse_twice(words: Sequence[str], prog: str) -> None:
    """Refuse a flag that is given twice, of which argparse would take the last."""
    flags = [word.partition("=")[0] for word in words if word.startswith("--") and word != "--"]
    for flag in flags:
        if flags.count(flag) > 1:
            command = prog.partition(" ")[2]
            raise OptionError(
                f"{command}: {flag} is given twice; give it once, followed by all its values"
            )


def add_options(
    parser: argparse.ArgumentParser,
    kind: type[CommandOptions],
    title: str = OTHERS.title,
    *,
    choices: Mapping[str, Collection[str]],
    only: Collection[str] = (),
) -> None:
    """Add a flag for each option that has one, in groups; pydantic checks the values.

    Args:
        parser: of a command.
        kind: its options, or a protocol's own.
        title: of the group of options that declare none.
        choices: by option, the values that its help lists.
        only: the options to add; all if empty.
    """
    groups: dict[str, Any] = {OTHERS.title: parser}
    head = [name for name in kind.model_fields if name in kind.__annotations__]  # those come first
    names = dict.fromkeys([*kind.positional, *head, *kind.model_fields])
    for name in sorted(names, key=lambda name: _stands_last(kind.model_fields[name])):
        field = kind.model_fields[name]
        if (only and name not in only) or not has_flag(field):
            continue
        declared = group_of(field)
        group = declared.title if declared else title
        if group not in groups:
            groups[group] = parser.add_argument_group(group)
        positional = name in kind.positional
        flag = name if positional else f"--{name.replace('_', '-')}"
        shape = _value_arguments(name, field, positional=positional)
        text = (field.description or "") + _describe_values(name, field, choices)
        groups[group].add_argument(flag, default=argparse.SUPPRESS, help=text, **shape)


def _stands_last(field: FieldInfo) -> bool:
    return any(isinstance(mark, OptionGroup) and mark.last for mark in field.metadata)


def _describe_unknown(words: Sequence[str], kind: type[CommandOptions]) -> str:
    """Name the first unknown argument, and suggest a flag."""
    flag = next((word.partition("=")[0] for word in words if word.startswith("-")), "")
    if (name := flag[2:].replace("-", "_")) in kind.model_fields:
        return f"{name} has no flag: write it into a file (YAML), and name that by --config"
    flags = [
        f"--{n.replace('_', '-')}" for n, field in kind.model_fields.items() if has_flag(field)
    ]
    return (
        f"no such option {flag}{did_you_mean(flag, flags)}" if flag else f"unexpected {words[0]!r}"
    )


def _value_arguments(name: str, field: FieldInfo, *, positional: bool) -> dict[str, Any]:
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


def _describe_values(name: str, field: FieldInfo, choices: Mapping[str, Collection[str]]) -> str:
    """Describe the values of an option, and its default."""
    values = f": {', '.join(choices[name])}" if name in choices else ""
    silent = field.is_required() or field.default in (None, (), "", False)
    return values + ("" if silent else f" (default {field.default})")


class _Parser(argparse.ArgumentParser):
    """A parser that raises OptionError with a message of one line."""

    def error(self, message: str) -> NoReturn:
        complaint = message.removeprefix("argument ")
        raise OptionError(f"{self.prog.partition(' ')[2]}: {complaint}; {self.prog} --help")
