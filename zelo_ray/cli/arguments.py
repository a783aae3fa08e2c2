"""Parse the words of a command line."""

import os
from collections.abc import Callable, Collection, Mapping, Sequence

from zelo_ray.errors import OptionError
from zelo_ray.options import COMMANDS, CommandOptions, load_options, meant
from zelo_ray.options.convert import TAKES
from zelo_ray.options.flags import parse_flags
from zelo_ray.options.places import read_text
from zelo_ray.own import is_own
from zelo_ray.providers.dotenv import DotenvFile

_ALIASES = {"protocols": "compare-protocols"}
_LOAD = {"annotate": "load_annotate", "compare-protocols": "load_compare"}
"""The commands whose options are those of protocols, too, and what loads them."""


def parse(
    words: Sequence[str], warn: Callable[[str], None] = lambda _: None
) -> tuple[str, CommandOptions]:
    """Parse the command that the words name, and its options.

    Args:
        words: the command line.
        warn: told what a file ``.env`` holds that is not taken.

    Raises:
        OptionError: a command or an option is unknown, or its value makes no sense.
    """
    dotenv = DotenvFile(os.environ)
    dotenv.take()
    name = _chosen(words, "zelo-ray", [*COMMANDS, *_ALIASES])
    name, words = _ALIASES.get(name, name), words[1:]
    kind, prog, subcommand = COMMANDS[name], f"zelo-ray {name}", dict[str, str]()
    if name == "convert" and words[:1] not in (["--help"], ["-h"]):
        subcommand = {"what": _chosen(words, prog, [*TAKES])}
        prog, words = f"{prog} {words[0]}", words[1:]
    only = {*kind.takes(subcommand)} - {*subcommand} if subcommand else kind.model_fields
    if name in _LOAD:
        from zelo_ray.protocols import united

        kind = united(kind, _own_protocols(words))
        only = kind.model_fields
    flags = subcommand | parse_flags(kind, prog, words, known_values(name), only)
    config = flags.pop("config", None)
    try:
        text = read_text(config) if config else ""
    except ValueError as error:
        raise OptionError(str(error)) from None
    if name in _LOAD:
        from zelo_ray import protocols

        options: CommandOptions = getattr(protocols, _LOAD[name])(flags, os.environ, text)
    else:
        options = load_options(kind, flags, os.environ, text)
    dotenv.take_named(options)
    for line in dotenv.left_out() if name != "doctor" else ():  # which has a line for it
        warn(f".env: {line}")
    return name, options


def _own_protocols(words: Sequence[str]) -> list[str]:
    """Return the user's own protocols among the words; their options are flags as well."""
    protocols, within = list[str](), False
    for word in words:
        flag, _, value = word.partition("=")
        if word.startswith("--"):
            within = flag in ("--protocol", "--protocols")
            protocols += [value] if within and value else []
        elif within:
            protocols.append(word)
    return [name for name in protocols if is_own(name)]


def _chosen(words: Sequence[str], prog: str, commands: Sequence[str]) -> str:
    word = words[0] if words else ""
    if word in commands:
        return word
    if word:
        raise OptionError(
            f"no such command {word!r}{meant(word, commands)}; {prog} --help shows all"
        )
    raise OptionError(f"give a command, such as {prog} {commands[0]}; {prog} --help shows all")


def known_values(command: str) -> Mapping[str, Collection[str]]:
    """Return, by option, the values that its help lists."""
    if command in ("annotate", "compare-protocols"):
        from zelo_ray.protocols import PROTOCOLS

        return {"protocol": PROTOCOLS, "protocols": PROTOCOLS}
    if command == "agree":
        from zelo_ray.evaluation.agreement import COEFFICIENTS

        return {"coefficients": COEFFICIENTS}
    return {}
