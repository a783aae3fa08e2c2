"""Define what the options of all commands share, and load them from a YAML file and keywords.

A field is the flag ``--field-name``, the YAML key ``field_name`` and the keyword ``field_name``.
Flags and keywords override the file; nothing else sets an option.
"""

import shlex
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, TypeVar, get_args, get_origin

from pydantic import BaseModel, ConfigDict, Field, ValidationError, ValidationInfo, field_validator
from pydantic.fields import FieldInfo

from zelo_ray.errors import OptionError
from zelo_ray.names import did_you_mean
from zelo_ray.records import first_error

FROM_USER = "given"
"""The context of validation of options from a user. Options from a record already have the texts,
which must not be taken for names of files."""


@dataclass(frozen=True, slots=True)
class OptionGroup:
    """The heading under which the help of a command shows an option."""

    title: str
    last: bool = False
    """whether it is shown below the groups of the command itself"""


FILES = OptionGroup("input and output")
JUDGING = OptionGroup("judging")
MEASURING = OptionGroup("measuring")
MONEY = OptionGroup("money and limits")
RUNNING = OptionGroup("running")
OTHERS = OptionGroup("options")
NO_FLAG = "no flag"
"""The mark of an option that few need: it is set in the file of ``--config``, or in Python."""


def group_of(field: FieldInfo) -> OptionGroup | None:
    """Return the group that an option declares."""
    return next((mark for mark in field.metadata if isinstance(mark, OptionGroup)), None)


def has_flag(field: FieldInfo) -> bool:
    """Return whether the command line has a flag for an option: not for mappings and rare ones."""
    return not (NO_FLAG in field.metadata or is_collection_of(field.annotation, dict))


def is_collection_of(annotation: Any, kind: type) -> bool:
    """Return whether the type of an option is ``kind`` (tuple or dict), or a union with it."""
    return kind in {get_origin(annotation), *map(get_origin, get_args(annotation))}


class StrictModel(BaseModel):
    """Frozen options with finite 64-bit numbers, which refuse unknown names."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False, defer_build=True)

    @field_validator("*", mode="before")
    @classmethod
    def _no_switch_for_a_number(cls, value: Any, info: ValidationInfo) -> Any:
        wanted = cls.model_fields[info.field_name or ""].annotation
        kinds = {wanted, *get_args(wanted)}
        if isinstance(value, bool) and {int, float} & kinds and bool not in kinds:
            raise ValueError(f"{str(value).lower()} is not a number")
        return value

    @field_validator("*")
    @classmethod
    def _fits_64_bits(cls, value: Any) -> Any:
        if isinstance(value, int) and not -(2**63) <= value < 2**63:
            raise ValueError("does not fit in 64 bits")
        return value


class CommandOptions(StrictModel):
    """The options of a command."""

    usage: ClassVar[str]
    """the command with its required options, in one line"""
    positional: ClassVar[tuple[str, ...]] = ()
    """options without a flag, in the order of the command line"""

    def command_line(self, *first: str) -> str:
        """Return the command line that gives these options, beginning with the options ``first``.

        Those without a flag are left out.
        """
        fields, given = type(self).model_fields, self.model_fields_set
        words = ["zelo-ray", self.usage.split()[0]]
        for name in dict.fromkeys((*first, *fields)):
            value = getattr(self, name)
            if name not in given or not has_flag(fields[name]) or value is None or value is False:
                continue
            flag = [] if name in self.positional else [f"--{name.replace('_', '-')}"]
            values = [] if value is True else value if isinstance(value, tuple) else [value]
            words += [*flag, *map(str, values)]
        return shlex.join(words)

    @field_validator("*", mode="before")
    @classmethod
    def _one_is_a_list(cls, value: Any, info: ValidationInfo) -> Any:
        is_list = is_collection_of(cls.model_fields[info.field_name or ""].annotation, tuple)
        return (value,) if is_list and isinstance(value, str) else value


class ReadingOptions(CommandOptions):
    """The options of a command that reads tables."""

    columns: Annotated[tuple[str, ...], FILES] = Field(
        (),
        description="columns with other names, as ROLE=NAME, such as query_id, query, doc_id, "
        "content, grade, score, judge, a, b, winner",
    )

    @field_validator("columns", mode="before")
    @classmethod
    def _by_role(cls, columns: Any) -> Any:
        if isinstance(columns, Mapping):
            return tuple(f"{role}={name}" for role, name in columns.items())
        return columns


Kind = TypeVar("Kind", bound=CommandOptions)


def load_options(
    kind: type[Kind],
    values: Mapping[str, Any],
    config: str = "",
    *,
    refine: Callable[[type[Kind], Mapping[str, Any]], type[Kind]] | None = None,
) -> Kind:
    """Merge a YAML file and given values into a command's options.

    Args:
        kind: the options of the command.
        values: flags or keywords; they override the file.
        config: the text of a YAML file.
        refine: returns the final options for the merged values, such as those of a protocol.

    Raises:
        OptionError: the text is not YAML, or an option is unknown or out of range.
    """
    merged = {**(read_config(config) if config else {}), **values}
    kind = refine(kind, merged) if refine else kind
    try:
        return kind.model_validate(merged, context=FROM_USER)
    except ValidationError as error:
        message = _describe_error(kind, error)
        raise OptionError(f"{message}; zelo-ray {kind.usage}, or --help") from None


def read_config(text: str) -> dict[str, Any]:
    """Read the options of a YAML file.

    Raises:
        OptionError: it is not YAML, or no mapping.
    """
    try:
        documents = read_yaml(text, "the config file is")
    except ValueError as error:
        raise OptionError(str(error)) from None
    options = documents[0] if documents else {}
    if len(documents) > 1 or not isinstance(options, dict):
        raise OptionError("the config file must hold lines of option: value")
    return options


def read_yaml(text: str, what: str) -> list[Any]:
    """Parse the documents of a YAML text, without empty ones; ``what`` begins a message.

    Raises:
        ValueError: it is not YAML, or a mapping has a key twice; the message is one line.
    """
    import yaml  # noqa: PLC0415 - most commands read none

    class Loader(yaml.SafeLoader):
        """Refuses a key that stands twice, of which PyYAML takes the last."""

        def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
            keys = list[Any]()  # they need not be hashable yet
            for key_node, _ in node.value:
                if key_node.tag == "tag:yaml.org,2002:merge":
                    continue  # keys that come from ``<<`` may be overridden
                if (key := self.construct_object(key_node, deep=True)) in keys:
                    line = key_node.start_mark.line + 1
                    raise ValueError(f"line {line}: {key!r:.60} is given twice")
                keys.append(key)
            return super().construct_mapping(node, deep)

    try:
        documents = [*yaml.load_all(text, Loader)]
    except (yaml.YAMLError, ValueError) as error:  # ValueError for invalid dates, too
        raise ValueError(f"{what} not valid YAML: {' '.join(str(error).split())}") from None
    except RecursionError:
        raise ValueError(f"{what} not valid YAML: it is nested too deeply") from None
    return [document for document in documents if document is not None]


def _describe_error(kind: type[CommandOptions], error: ValidationError) -> str:
    """Say what is wrong first, with the nearest name for one that is unknown."""
    first = error.errors(include_url=False)[0]
    if first["type"] == "literal_error":
        return first_error(error) + did_you_mean(str(first["input"]), _choices(kind, first["loc"]))
    if first["type"] != "extra_forbidden":
        return first_error(error)
    *path, name = map(str, first["loc"])
    model: Any = kind
    if path:  # such as limits.JUDGE.rmp, where limits is a mapping to models
        _, model = get_args(kind.model_fields[path[0]].annotation)
    return f"{'.'.join([*path, name])}: no such option{did_you_mean(name, model.model_fields)}"


def _choices(kind: type[CommandOptions], place: tuple[int | str, ...]) -> list[str]:
    field = kind.model_fields.get(str(place[0]))
    return [choice for choice in get_args(field and field.annotation) if isinstance(choice, str)]
