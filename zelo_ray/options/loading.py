"""How options are loaded: from a YAML file, environment variables, and flags or keywords."""

from collections.abc import Iterable, Mapping
from typing import Any, TypeVar, get_args

import yaml
from pydantic import ValidationError

from zelo_ray.errors import OptionError
from zelo_ray.options.agree import AgreeOptions
from zelo_ray.options.annotate import AnnotateOptions
from zelo_ray.options.bakeoff import BakeoffOptions
from zelo_ray.options.command import CommandOptions, holds, meant
from zelo_ray.options.compare_labels import CompareLabelsOptions
from zelo_ray.options.compare_protocols import CompareProtocolsOptions
from zelo_ray.options.convert import ConvertOptions
from zelo_ray.options.results import BatchesOptions, ExplainOptions, ReportOptions
from zelo_ray.records import first_error

COMMANDS: Mapping[str, type[CommandOptions]] = {
    "annotate": AnnotateOptions,
    "bakeoff": BakeoffOptions,
    "compare-protocols": CompareProtocolsOptions,
    "agree": AgreeOptions,
    "compare-labels": CompareLabelsOptions,
    "convert": ConvertOptions,
    "explain": ExplainOptions,
    "report": ReportOptions,
    "batches": BatchesOptions,
}
_PREFIX = "ZELO_RAY_"
Kind = TypeVar("Kind", bound=CommandOptions)


def load_options(
    kind: type[Kind], given: Mapping[str, Any], environ: Mapping[str, str], config: str = ""
) -> Kind:
    """Merge a YAML file, environment variables and what was given into a command's options.

    Args:
        kind: the options of the command.
        given: flags or keywords; they override variables, which override the file.
        environ: where variables are found: ``ZELO_RAY_`` and the name of an option.
        config: the text of a YAML file.

    Raises:
        OptionError: the text is no YAML, or an option is unknown or out of range.
    """
    try:
        merged = yaml.safe_load(config) or {}
    except yaml.YAMLError as error:
        raise OptionError(f"the config file is no YAML: {' '.join(str(error).split())}") from None
    if not isinstance(merged, dict):
        raise OptionError("the config file must hold lines of option: value")
    _refuse_unknown_variables((*COMMANDS.values(), kind), environ)
    for name in kind.takes({**merged, **given}):
        if text := environ.get(f"{_PREFIX}{name.upper()}"):
            merged[name] = _from_variable(kind, name, text)
    merged |= given
    try:
        return kind.model_validate(merged)
    except ValidationError as error:
        what = _unknown(kind, error) or first_error(error)
        raise OptionError(f"{what}; zelo-ray {kind.usage}, or --help") from None


def _refuse_unknown_variables(
    kinds: Iterable[type[CommandOptions]], environ: Mapping[str, str]
) -> None:
    """A variable that no command knows is a typo; that of another command is none."""
    known = {f"{_PREFIX}{name.upper()}" for kind in kinds for name in kind.model_fields}
    for name, text in environ.items():
        if name.startswith(_PREFIX) and text and name not in known:
            raise OptionError(f"{name}: no option of any command{meant(name, known)}")


def _from_variable(kind: type[CommandOptions], name: str, text: str) -> Any:
    """A mapping or a bracketed list is read as YAML; pydantic reads everything else."""
    annotation = kind.model_fields[name].annotation
    if holds(annotation, dict) or (holds(annotation, tuple) and text.lstrip().startswith("[")):
        try:
            return yaml.safe_load(text)
        except yaml.YAMLError as error:
            why = " ".join(str(error).split())
            raise OptionError(f"{_PREFIX}{name.upper()} is no YAML: {why}") from None
    return text


def _unknown(kind: type[CommandOptions], error: ValidationError) -> str:
    """Which name nobody knows, and which it may have been meant to be; empty if that is not it."""
    first = error.errors(include_input=False, include_url=False)[0]
    if first["type"] != "extra_forbidden":
        return ""
    *path, name = map(str, first["loc"])
    model: Any = kind
    if path:  # such as limits.JUDGE.rmp, where limits is a mapping to models
        _, model = get_args(kind.model_fields[path[0]].annotation)
    return f"{'.'.join([*path, name])}: no such option{meant(name, model.model_fields)}"
