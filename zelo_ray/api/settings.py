"""Options from keywords: the same as the command line's, by the same names.

A keyword overrides a variable ``ZELO_RAY_...``, which overrides the YAML file ``config``. This is
the one place that knows how each command takes its options.
"""

import argparse
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TypeGuard, TypeVar

import fsspec
from dotenv import find_dotenv, load_dotenv

from zelo_ray.formats import check_url
from zelo_ray.options import Asking, OptionError, Options, load_options, meant
from zelo_ray.protocols import anchors, refuse_unknown

Place = str | os.PathLike[str]
Kind = TypeVar("Kind", bound=Asking)
Judging = TypeVar("Judging", bound=Options)


def options_of(kind: type[Kind], given: Mapping[str, Any], config: Place | None) -> Kind:
    """The options of a command.

    Args:
        kind: its model.
        given: keywords; one that is None is not given.
        config: a YAML file of options, if there is one.

    Raises:
        OptionError: one is unknown or makes no sense, or a file cannot be read.
    """
    try:
        load_dotenv(find_dotenv(usecwd=True))
    except (OSError, ValueError) as error:
        raise OptionError(f".env: cannot be read ({error})") from None
    try:
        text = Path(config).read_text(encoding="utf-8") if config else ""
    except (OSError, UnicodeDecodeError) as error:
        raise OptionError(f"{config}: cannot be read ({error})") from None
    flags = {name: _plain(value) for name, value in given.items() if value is not None}
    options = load_options(kind, flags, os.environ, text)
    for name in ("out", "truth", "human", "pools", "runs"):
        value = getattr(options, name, None) or ()
        for place in (value,) if isinstance(value, str) else value:
            known_place(place)
    return options


def judging(options: Judging) -> Judging:
    """The same with the worked examples of a file of the user's, if they are in one.

    Raises:
        OptionError: they cannot be read, or make no sense.
        UnknownProtocol: there is no such protocol.
    """
    refuse_unknown(options.protocol)
    given = options.anchors
    try:
        if "://" in given or ("\n" not in given and Path(given).is_file()):
            with fsspec.open(known_place(given), "r", encoding="utf-8") as file:
                options = options.model_copy(update={"anchors": file.read()})
        anchors.load(options.anchors)
    except (OSError, UnicodeDecodeError) as error:
        raise OptionError(f"anchors: {given}: cannot be read ({error})") from None
    except anchors.AnchorError as error:
        raise OptionError(f"anchors: {error}") from None
    return options


def flags_of(
    add: Callable[[argparse.ArgumentParser], None], given: Mapping[str, Any]
) -> dict[str, Any]:
    """The flags of a command without a model of its options, with their defaults.

    Args:
        add: adds them to a parser.
        given: keywords; one that is None is not given.

    Raises:
        OptionError: one is unknown.
    """
    parser = argparse.ArgumentParser(add_help=False)
    add(parser)
    actions = {each.dest: each for each in parser._actions}
    for name in given:
        if name not in actions:
            raise OptionError(f"{name}: no such option{meant(name, actions)}")
    flags = {name: each.default for name, each in actions.items()}
    for name, value in given.items():
        if value is not None:
            plain = _plain(value)
            many = actions[name].nargs in ("+", "*")
            flags[name] = [plain] if many and isinstance(plain, str | int) else plain
    return flags


def is_place(value: object) -> TypeGuard[Place]:
    """Whether it is a path or URL."""
    return isinstance(value, str | os.PathLike)


def known_place(url: str) -> str:
    """The path or URL itself, if there is a file system for it.

    Raises:
        OptionError: there is none.
    """
    try:
        return check_url(url)
    except ValueError as error:
        raise OptionError(str(error)) from None


def _plain(value: Any) -> Any:
    """Paths as text, also in lists."""
    if isinstance(value, os.PathLike):
        return os.fspath(value)
    return [_plain(each) for each in value] if isinstance(value, list | tuple) else value
