"""Load options from keywords, which have the names of the command line's flags.

A keyword overrides the YAML file ``config``.
"""

import os
import warnings
from collections.abc import Callable, Mapping
from typing import Any, TypeGuard, TypeVar

from zelo_ray.errors import OptionError
from zelo_ray.options import (
    AnnotateOptions,
    CommandOptions,
    CompareProtocolsOptions,
    Kind,
    PromptOptions,
    TuneOptions,
    load_options,
)
from zelo_ray.options.places import check_url, read_text
from zelo_ray.protocols import load_annotate, load_compare, load_prompt_options, load_tune
from zelo_ray.providers.dotenv import DotenvFile

Place = str | os.PathLike[str]
Loaded = TypeVar("Loaded", bound=CommandOptions)


def options_of(kind: type[Kind], given: Mapping[str, Any], config: Place | None = None) -> Kind:
    """Load the options of a command.

    Args:
        kind: its model.
        given: keywords; those that are None do not count.
        config: a YAML file of options, if there is one.

    Raises:
        OptionError: one is unknown or invalid, or a file cannot be read.
    """
    return _loaded(lambda *all_given: load_options(kind, *all_given), given, config)


def annotate_options(given: Mapping[str, Any], config: Place | None) -> AnnotateOptions:
    """Load the options of annotate, with those of its protocol."""
    return _loaded(load_annotate, given, config)


def prompt_options(given: Mapping[str, Any], config: Place | None) -> PromptOptions:
    """Load the options of prompt, with those of the protocol."""
    return _loaded(load_prompt_options, given, config)


def compare_options(given: Mapping[str, Any], config: Place | None) -> CompareProtocolsOptions:
    """Load the options of compare-protocols, with those of all protocols."""
    return _loaded(load_compare, given, config)


def tune_options(given: Mapping[str, Any], config: Place | None) -> TuneOptions:
    """Load the options of tune, with those of all protocols."""
    return _loaded(load_tune, given, config)


def _loaded(
    load: Callable[[Mapping[str, Any], str], Loaded],
    values: Mapping[str, Any],
    config: Place | None,
) -> Loaded:
    """Load options, and keys from ``.env``; warn of anything else in that file."""
    dotenv = DotenvFile(os.environ)
    dotenv.take_all()
    try:
        text = read_text(os.fspath(config)) if config else ""
    except ValueError as error:
        raise OptionError(str(error)) from None
    options = load(_plain(values), text)
    dotenv.take_named(options)
    for line in dotenv.describe_skipped():
        warnings.warn(f".env: {line}", stacklevel=4)
    return options


def is_place(value: object) -> TypeGuard[Place]:
    """Return whether a value is a path or URL."""
    return isinstance(value, str | os.PathLike)


def check_place(url: str) -> str:
    """Return a path or URL unchanged if there is a file system for it.

    Raises:
        OptionError: there is none.
    """
    try:
        return check_url(url)
    except ValueError as error:
        raise OptionError(str(error)) from None


def _plain(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return the options that are not None, with paths as text."""
    return {name: _text(value) for name, value in values.items() if value is not None}


def _text(value: Any) -> Any:
    if isinstance(value, os.PathLike):
        return os.fspath(value)
    return [_text(item) for item in value] if isinstance(value, list | tuple) else value
