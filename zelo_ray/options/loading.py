"""Load options from a YAML file, and flags or keywords."""

from collections.abc import Callable, Mapping
from typing import Any, TypeVar, get_args

from pydantic import ValidationError

from zelo_ray.errors import OptionError, UnknownOption
from zelo_ray.options.agree import AgreeOptions
from zelo_ray.options.annotate import AnnotateOptions
from zelo_ray.options.bakeoff import BakeoffOptions
from zelo_ray.options.command import CommandOptions, did_you_mean
from zelo_ray.options.compare_labels import CompareLabelsOptions
from zelo_ray.options.compare_protocols import CompareProtocolsOptions
from zelo_ray.options.convert import ConvertOptions
from zelo_ray.options.doctor import DoctorOptions
from zelo_ray.options.drift import DriftOptions
from zelo_ray.options.fit import FitOptions
from zelo_ray.options.label import LabelOptions
from zelo_ray.options.places import FROM_USER
from zelo_ray.options.probe import ProbeOptions
from zelo_ray.options.prompt import PromptOptions
from zelo_ray.options.results import (
    BatchesOptions,
    ExplainOptions,
    ReportOptions,
    WatchOptions,
)
from zelo_ray.options.sample import SampleOptions
from zelo_ray.options.tune import TuneOptions
from zelo_ray.records import first_error

COMMANDS: Mapping[str, type[CommandOptions]] = {
    "annotate": AnnotateOptions,
    "bakeoff": BakeoffOptions,
    "compare-protocols": CompareProtocolsOptions,
    "tune": TuneOptions,
    "agree": AgreeOptions,
    "compare-labels": CompareLabelsOptions,
    "label": LabelOptions,
    "drift": DriftOptions,
    "probe": ProbeOptions,
    "fit": FitOptions,
    "convert": ConvertOptions,
    "prompt": PromptOptions,
    "explain": ExplainOptions,
    "report": ReportOptions,
    "watch": WatchOptions,
    "doctor": DoctorOptions,
    "batches": BatchesOptions,
    "sample": SampleOptions,
}
Kind = TypeVar("Kind", bound=CommandOptions)


def load_options(
    kind: type[Kind],
    values: Mapping[str, Any],
    config: str = "",
    *,
    refined: Callable[[Mapping[str, Any]], type[Kind]] | None = None,
) -> Kind:
    """Merge a YAML file and given values into a command's options.

    Args:
        kind: the options of the command.
        values: flags or keywords; they override the file.
        config: the text of a YAML file.
        refined: returns the final options, such as those of a protocol, for the merged values.

    Raises:
        UnknownOption: there is no such option.
        OptionError: the text is not YAML, or an option is unknown or out of range.
    """
    merged = {**(_read_config(config) if config else {}), **values}
    if refined:
        kind = refined(merged)
    try:
        return kind.model_validate(merged, context=FROM_USER)
    except ValidationError as error:
        how = f"zelo-ray {kind.usage}, or --help"
        if unknown := _unknown(kind, error):
            raise UnknownOption(f"{unknown[0]}; {how}", unknown[1]) from None
        raise OptionError(f"{first_error(error)}; {how}") from None


def _read_config(text: str) -> dict[str, Any]:
    from zelo_ray.options.strict_yaml import read_yaml  # noqa: PLC0415 - most commands read none

    try:
        documents = read_yaml(text, "the config file")
    except ValueError as error:
        raise OptionError(str(error)) from None
    options = documents[0] if documents else {}
    if len(documents) > 1 or not isinstance(options, dict):
        raise OptionError("the config file must hold lines of option: value")
    return options


def _unknown(kind: type[CommandOptions], error: ValidationError) -> tuple[str, str] | None:
    """Return the message about an unknown name, and the name; None for any other error."""
    first = error.errors(include_input=False, include_url=False)[0]
    if first["type"] != "extra_forbidden":
        return None
    *path, name = map(str, first["loc"])
    model: Any = kind
    if path:  # such as limits.JUDGE.rmp, where limits is a mapping to models
        _, model = get_args(kind.model_fields[path[0]].annotation)
    what = f"{'.'.join([*path, name])}: no such option{did_you_mean(name, model.model_fields)}"
    return what, name
