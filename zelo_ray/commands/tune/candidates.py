"""Make the candidates: ways of judging that differ from the command's own options."""

import hashlib
import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import orjson
from pydantic import ValidationError, create_model

from zelo_ray.command_options import TuneOptions
from zelo_ray.commands.compare_protocols.plans import plan_run
from zelo_ray.errors import OptionError
from zelo_ray.files.storage import file_stem
from zelo_ray.names import did_you_mean
from zelo_ray.options import (
    FILES,
    FROM_USER,
    MONEY,
    RUNNING,
    AnnotateOptions,
    CommandOptions,
    group_of,
)
from zelo_ray.protocols import load_protocol
from zelo_ray.providers import build_panel, refuse_unknown_names
from zelo_ray.records import first_error

AS_IT_IS = "as it is"
"""The name of the candidate that the command's own options are."""
BY_JUDGE = ("judge_options", "limits", "prices", "api_key_env")
"""Options that are mappings by judge."""
_SAME_FOR_ALL = {"blocks", "dry_run", "pilot", "protocol", "human"}
"""Options of judging that no candidate can have of its own."""
_MEASURES_ALL = (
    ", as people's labels measure them, and a candidate that is calibrated by labels knows answers"
)
_SHOWN = 60  # characters of a value


@dataclass(frozen=True, slots=True)
class Candidate:
    """A way of judging, by the options in which it differs from the command's own.

    Attributes:
        name: as reports show it.
        protocol: its way of judging.
        changes: its own options, with the texts of files.
    """

    name: str
    protocol: str
    changes: Mapping[str, Any]

    @property
    def folder(self) -> str:
        """Return the name of its folder, which is the same for the same changes."""
        content = orjson.dumps(
            [self.protocol, self.changes], default=str, option=orjson.OPT_SORT_KEYS
        )
        slug = re.sub(r"[^a-zA-Z0-9.]+", "-", self.name).strip("-.")[:40]
        return f"{slug}-{hashlib.sha256(content).hexdigest()[:8]}"

    def differs(self, options: TuneOptions) -> str:
        """Say in words in which options it differs from the command's own."""
        if self.name == AS_IT_IS:
            return "nothing"
        parts = [] if self.protocol == options.protocol else [f"protocol {self.protocol}"]
        parts += [f"{name} {_shown(value)}" for name, value in self.changes.items()]
        return "; ".join(parts)


def _shown(value: Any) -> str:
    text = " ".join(map(str, value)) if isinstance(value, tuple | list) else str(value)
    text = " ".join(text.split())
    return text if len(text) <= _SHOWN else f"{text[: _SHOWN - 1]}…"


def make_candidates(options: TuneOptions) -> tuple[list[Candidate], list[str]]:
    """Make all candidates that a user gave, what is as it is first.

    Args:
        options: of the command.

    Returns:
        The candidates, and a line for each that was left out because it equals another one.

    Raises:
        OptionError: a candidate is invalid, or there is none but what is as it is.
    """
    tried = [*_single_changes(options), *_named(options)]
    candidates = drop_equal(options, [Candidate(AS_IT_IS, options.protocol, {}), *tried])
    if len(candidates[0]) < 2:
        raise OptionError(
            "tune: there is no candidate beside what is as it is; give --try-instructions, "
            "--try-templates, --try-judges or --try-protocols, or candidates: in a config file"
        )
    return candidates


def drop_equal(
    options: TuneOptions, candidates: Iterable[Candidate]
) -> tuple[list[Candidate], list[str]]:
    """Leave out candidates that judge just as an earlier one; return the others, and what to say.

    Raises:
        OptionError: two others have the same name, or the options of one conflict.
    """
    by_plan, notes = dict[str, Candidate](), list[str]()
    names = dict[str, None]()
    for candidate in candidates:
        if candidate.name in names:
            raise OptionError(f"tune: two candidates are called {candidate.name!r}; rename one")
        names[candidate.name] = None
        plan = plan_candidate(options, candidate, ("-",), "-").model_dump(mode="json")
        key = orjson.dumps(plan, option=orjson.OPT_SORT_KEYS, default=str).decode()
        if same := by_plan.get(key):
            notes.append(f"{candidate.name} is the same as {same.name}, and left out")
        else:
            by_plan[key] = candidate
    return [*by_plan.values()], notes


def _single_changes(options: TuneOptions) -> Iterator[Candidate]:
    """Yield a candidate for each value of the options that try one thing."""
    for option, field in (("try_instructions", "instructions"), ("try_templates", "template")):
        for number, place in enumerate(getattr(options, option), 1):
            changes = _read_changes(options.protocol, {field: place}, f"--{option}")
            is_text = changes[field].strip() == place.strip()
            name = f"{field} {number if is_text else file_stem(place)}"
            yield Candidate(name, options.protocol, changes)
    for judge in options.try_judges:
        yield Candidate(f"judge {judge}", options.protocol, {"judges": (judge,)})
    for protocol in options.try_protocols:
        yield Candidate(f"protocol {load_protocol(protocol).name}", protocol, {})


def _named(options: TuneOptions) -> Iterator[Candidate]:
    """Yield the candidates of a config file."""
    for name, fields in options.candidates.items():
        protocol = str(fields.get("protocol", options.protocol))
        changes = {key: value for key, value in fields.items() if key != "protocol"}
        yield Candidate(name, protocol, _read_changes(protocol, changes, f"candidates.{name}"))


def _read_changes(protocol: str, changes: Mapping[str, Any], source: str) -> dict[str, Any]:
    """Return the changes of a candidate, with the texts of the files that they name.

    Raises:
        OptionError: an option is unknown or invalid, or the same for all candidates; or there is no
            file.
    """
    fields = load_protocol(protocol).options.model_fields
    may_differ = [
        name
        for name, field in fields.items()
        if name not in _SAME_FOR_ALL
        and (group_of(field) not in (FILES, MONEY, RUNNING) or name == "seed")
    ]
    for name in changes:
        if name in may_differ:
            continue
        if name in fields or name in TuneOptions.model_fields:
            why = _MEASURES_ALL if name == "human" else ""
            raise OptionError(f"{source}: {name} is the same for all candidates{why}; leave it out")
        what = f"{source}: {name} is not an option of protocol {protocol}"
        raise OptionError(f"{what}{did_you_mean(name, may_differ)}")
    plain = {name: _plain(value) for name, value in changes.items()}
    own: dict[str, Any] = {name: (fields[name].annotation, fields[name]) for name in plain}
    kind: type[CommandOptions] = create_model("OptionsOfCandidate", __base__=CommandOptions, **own)
    try:
        read = kind.model_validate(plain, context=FROM_USER)
    except ValidationError as error:
        raise OptionError(f"{source}: {first_error(error)}") from None
    texts = {name: getattr(read, name) for name in plain}
    return {
        name: value if isinstance(value, str | tuple) else plain[name]
        for name, value in texts.items()
    }


def _plain(value: Any) -> Any:
    """Return a value as options hold it: a path as text, a list as a tuple."""
    value = os.fspath(value) if isinstance(value, os.PathLike) else value
    return tuple(value) if isinstance(value, list) else value


def plan_candidate(
    options: TuneOptions, candidate: Candidate, pools: tuple[str, ...], out: str
) -> AnnotateOptions:
    """Return the options of a candidate's run; options by judge are those of its own judges.

    Args:
        options: of the command; its cap holds for the whole ledger.
        candidate: whose run it is.
        pools: the files of the pools.
        out: directory or URL of its results.

    Raises:
        OptionError: its options conflict.
        PanelError: there is no such judge.
    """
    names = _judges_of(options, candidate)
    by_judge = {
        name: {judge: value for judge, value in getattr(options, name).items() if judge in names}
        for name in BY_JUDGE
        if name in options.model_fields_set
    }
    own = {
        name: {**by_judge.get(name, {}), **value} if name in BY_JUDGE else value
        for name, value in candidate.changes.items()
    }
    changes = {**by_judge, **own}
    try:
        return plan_run(options, pools, candidate.protocol, out, changes=changes)
    except OptionError as error:
        raise OptionError(f"{candidate.name}: {error}") from None


def refuse_strangers(options: TuneOptions, candidates: Sequence[Candidate]) -> None:
    """Refuse options by judge for judges that no candidate has.

    Args:
        options: of the command.
        candidates: all of them.

    Raises:
        PanelError: there is such an option.
    """
    names = dict[str, None]()
    for candidate in candidates:
        names |= dict.fromkeys(_judges_of(options, candidate))
    by_judge = {name: getattr(options, name) for name in BY_JUDGE}
    refuse_unknown_names("judge", list(names), by_judge)


def _judges_of(options: TuneOptions, candidate: Candidate) -> list[str]:
    """Return the names of a candidate's judges."""
    judges = candidate.changes.get("judges", options.judges)
    panel = build_panel((judges,) if isinstance(judges, str) else judges, {}, os.environ)
    return [judge.name for judge in panel]
