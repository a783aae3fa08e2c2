"""Options from keywords: the same as the command line's, by the same names.

A keyword overrides a variable ``ZELO_RAY_...``, which overrides the YAML file ``config``.
"""

import os
from collections.abc import Mapping
from typing import Any, TypeGuard

from dotenv import find_dotenv, load_dotenv

from zelo_ray.errors import OptionError
from zelo_ray.options import AnnotateOptions, CompareProtocolsOptions, Kind, load_options
from zelo_ray.options.places import check_url, read_text
from zelo_ray.protocols import load_annotate, load_compare

Place = str | os.PathLike[str]


def options_of(kind: type[Kind], given: Mapping[str, Any], config: Place | None = None) -> Kind:
    """The options of a command.

    Args:
        kind: its model.
        given: keywords; one that is None is not given.
        config: a YAML file of options, if there is one.

    Raises:
        OptionError: one is unknown or makes no sense, or a file cannot be read.
    """
    flags, text = _plain(given), config_text(config)
    return load_options(kind, flags, os.environ, text)


def annotate_options(given: Mapping[str, Any], config: Place | None) -> AnnotateOptions:
    """The same of annotate, with those of its protocol."""
    return load_annotate(_plain(given), os.environ, config_text(config))


def compare_options(given: Mapping[str, Any], config: Place | None) -> CompareProtocolsOptions:
    """The same of compare-protocols, with those of all protocols."""
    return load_compare(_plain(given), os.environ, config_text(config))


def config_text(config: Place | None) -> str:
    """What a YAML file of options holds, after keys were read from ``.env``.

    Raises:
        OptionError: one of them cannot be read.
    """
    try:
        load_dotenv(find_dotenv(usecwd=True))
    except (OSError, ValueError) as error:
        raise OptionError(f".env: cannot be read ({error})") from None
    try:
        return read_text(os.fspath(config)) if config else ""
    except ValueError as error:
        raise OptionError(str(error)) from None


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


def _plain(given: Mapping[str, Any]) -> dict[str, Any]:
    """What was given, with paths as text."""
    return {name: _text(value) for name, value in given.items() if value is not None}


def _text(value: Any) -> Any:
    if isinstance(value, os.PathLike):
        return os.fspath(value)
    return [_text(each) for each in value] if isinstance(value, list | tuple) else value
