"""Define the base class of all commands' options, and the headings of their help."""

import difflib
import shlex
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, get_args, get_origin

from pydantic import BaseModel, ConfigDict, ValidationInfo, field_validator
from pydantic.fields import FieldInfo


@dataclass(frozen=True, slots=True)
class OptionGroup:
    """The heading under which the help of a command shows an option."""

    title: str
    last: bool = False
    """whether it is shown below the groups of the command itself"""


def group_of(field: FieldInfo) -> OptionGroup | None:
    """Return the group that an option declares."""
    return next((mark for mark in field.metadata if isinstance(mark, OptionGroup)), None)


@dataclass(frozen=True, slots=True)
class _NoFlag:
    """Marks an option that few need: it is set in the file of ``--config``, or in Python."""


NO_FLAG = _NoFlag()


def has_flag(field: FieldInfo) -> bool:
    """Return whether the command line has a flag for an option: not for mappings and rare ones."""
    return not (NO_FLAG in field.metadata or is_collection_of(field.annotation, dict))


FILES = OptionGroup("input and output")
JUDGING = OptionGroup("judging")
OTHERS = OptionGroup("options")
MONEY = OptionGroup("money and limits")
RUNNING = OptionGroup("running")


_SYNONYMS = dict.fromkeys(("depth", "top_k", "k", "limit"), "document_limit")
"""By a name that other tools use, the name of the option here."""


def _plain(word: str) -> str:
    return word.lstrip("-").replace("-", "_")


def did_you_mean(word: str, words: Iterable[str]) -> str:
    """Suggest a similar known word, as the end of a message; "" if there is none."""
    words, name = list(words), _SYNONYMS.get(_plain(word))
    near = [option for option in words if _plain(option) == name]
    if not near:
        by_lower_case = {option.lower(): option for option in words}
        close = difflib.get_close_matches(word.lower(), by_lower_case, 1)
        near = [by_lower_case[option] for option in close]
    return f" (did you mean {near[0]!r}?)" if near else ""


def is_collection_of(annotation: Any, kind: type) -> bool:
    """Return whether the type of an option is ``kind`` (tuple or dict), or a union with it."""
    return kind in {get_origin(annotation), *map(get_origin, get_args(annotation))}


class Numbers(BaseModel):
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


Columns = Annotated[tuple[str, ...], FILES]
"""Names of columns, as ROLE=NAME, of files that call them otherwise than is usual."""
COLUMNS = (
    "columns with other names, as ROLE=NAME, such as query_id, query, doc_id, content, grade, "
    "score, judge, a, b, winner"
)


class CommandOptions(Numbers):
    """The options of a command."""

    does: ClassVar[str]
    """the purpose of the command"""
    usage: ClassVar[str]
    """the command with its required options, in one line"""
    positional: ClassVar[tuple[str, ...]] = ()
    """options without a flag, in the order of the command line"""

    @classmethod
    def applicable_options(cls, given: Mapping[str, Any]) -> Collection[str]:  # noqa: ARG003 - see ConvertOptions
        """Return the options that apply with the given ones; variables of others are ignored."""
        return cls.model_fields

    def command_line(self, *first: str) -> str:
        """Return the command line that gives these options, beginning with the options ``first``.

        Those without a flag are left out.
        """
        names = [
            n for n in type(self).model_fields if n in self.model_fields_set and n not in first
        ]
        words = ["zelo-ray", self.usage.split()[0]]
        for name in (*(n for n in first if n in self.model_fields_set), *names):
            value = getattr(self, name)
            if not has_flag(type(self).model_fields[name]) or value is None or value is False:
                continue
            flag = [] if name in self.positional else [f"--{name.replace('_', '-')}"]
            values = [] if value is True else value if isinstance(value, tuple) else [value]
            words += [*flag, *map(str, values)]
        return shlex.join(words)

    @field_validator("*", mode="before")
    @classmethod
    def _one_is_a_list(cls, value: Any, info: ValidationInfo) -> Any:
        is_list = is_collection_of(cls.model_fields[info.field_name or ""].annotation, tuple)
        if info.field_name == "columns" and isinstance(value, Mapping):
            return tuple(f"{role}={name}" for role, name in value.items())
        return (value,) if is_list and isinstance(value, str) else value
