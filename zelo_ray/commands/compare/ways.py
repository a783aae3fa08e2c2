"""Make the ways of judging that are compared: the options as given, and what differs from them."""

import hashlib
import os
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import orjson
import yaml
from pydantic import ValidationError, create_model

from zelo_ray.command_options import CompareOptions
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
    flag_of,
    group_of,
    may_name_file,
)
from zelo_ray.protocols import load_protocol
from zelo_ray.providers import build_panel, refuse_unknown_names
from zelo_ray.records import first_error

BY_JUDGE = ("judge_options", "limits", "prices", "api_key_env")
"""Options that are mappings by judge."""
_READ = ("inputs", "corpus", "queries", "columns", "human", "blocks")
"""Options that say what is judged: the pools that people labelled, which are made by them."""
_OF_RUNNING = ("out", "ledger", "protocol", "dry_run", "pilot", "collect")
_NOT_KEPT = {*_READ, *_OF_RUNNING, "replace", "max_usd", "retry_failures", "track"} - {"protocol"}
"""Options of this run that a later one does not take over."""
_NO_NAMES = {"human", "query_id", "doc_id_a", "doc_id_b", "half"}
"""Columns of ``items.parquet``, beside which each way has one of its name."""
_SHOWN = 300  # characters of a value


@dataclass(frozen=True, slots=True)
class Way:
    """A way of judging, by the options in which it differs from the command's own.

    ``changes`` has the texts of files; ``source`` is where a user named it.
    """

    name: str
    protocol: str
    changes: Mapping[str, Any]
    source: str = ""

    @property
    def folder(self) -> str:
        """Return the name of its folder, which is the same for the same changes."""
        parts = [self.protocol, self.changes]
        content = orjson.dumps(parts, default=str, option=orjson.OPT_SORT_KEYS)
        slug = re.sub(r"[^a-zA-Z0-9.]+", "-", self.name).strip("-.")[:40]
        return f"{slug}-{hashlib.sha256(content).hexdigest()[:8]}"

    def judges(self, options: CompareOptions) -> list[str]:
        """Return the names of its judges."""
        names = self.changes.get("judges", options.judges)
        panel = build_panel((names,) if isinstance(names, str) else names, {}, os.environ)
        return [judge.name for judge in panel]

    def describe(self, options: CompareOptions) -> dict[str, Any]:
        """Return what the record says of it."""
        about = {"name": self.name, "folder": self.folder, "differs": self.differs(options)}
        return {**about, "judges": self.judges(options)}

    def differs(self, options: CompareOptions) -> str:
        """Say in which options it differs from the command's own."""
        same = self.protocol == options.protocol
        parts = [] if same else [f"protocol {self.protocol}"]
        return "; ".join([*parts, *(f"{k} {_shown(v)}" for k, v in self.changes.items())])


def _shown(value: Any) -> str:
    text = " ".join(map(str, value)) if isinstance(value, tuple | list) else str(value)
    text = " ".join(text.split())
    return text if len(text) <= _SHOWN else f"{text[: _SHOWN - 1]}…"


def make_ways(options: CompareOptions) -> tuple[list[Way], list[str]]:
    """Return the ways to compare, the options as given first, and notes on equal ones left out."""
    baseline = Way(load_protocol(options.protocol).name, options.protocol, {})
    by_plan, notes, names = dict[bytes, Way](), list[str](), set[str]()
    for way in (baseline, *_given(options)):
        plan = plan_way(options, way, ("-",), "-").model_dump(mode="json")
        key = orjson.dumps(plan, option=orjson.OPT_SORT_KEYS, default=str)
        if same := by_plan.get(key):
            notes.append(f"{way.source} is the same as {same.name}, and left out.")
        elif way.name in names | _NO_NAMES:
            raise OptionError(f"{way.source}: another column is called {way.name!r}; rename it")
        by_plan.setdefault(key, way)
        names.add(way.name)
    ways = [*by_plan.values()]
    if len(ways) < 2:
        raise OptionError(
            "compare: there is no way beside the options as given; give --try, such as --try "
            "protocol=graded, or candidates: in a config file"
        )
    kinds = [load_protocol(way.protocol).options for way in ways]
    used = {*CompareOptions.model_fields}.union(*(kind.model_fields for kind in kinds))
    if unused := sorted(options.model_fields_set - used):
        flags = ", ".join(map(flag_of, unused))
        raise OptionError(f"compare: no way that is compared uses {flags}")
    judges = dict.fromkeys(judge for way in ways for judge in way.judges(options))
    refuse_unknown_names("judge", [*judges], {name: getattr(options, name) for name in BY_JUDGE})
    return ways, notes


def _given(options: CompareOptions) -> Iterator[Way]:
    """Yield a way for each value of ``--try``, which differs in that alone, and each candidate."""
    counts, fields = Counter[str](), load_protocol(options.protocol).options.model_fields
    for word in options.try_:
        name, is_there, value = word.partition("=")
        if not is_there:
            raise OptionError(f"--try {word}: write OPTION=VALUE, such as protocol=graded")
        source = f"--try {_shown(word)}"
        if name == "protocol":
            yield Way(load_protocol(value).name, value, {}, source)
            continue
        changes = _read_changes(options.protocol, {name: value}, source)
        counts[name] += 1
        if may_name_file(fields[name]):
            is_text = str(changes[name]).strip() == value.strip()
            value = str(counts[name]) if is_text else file_stem(value)
        yield Way(f"{name} {value}", options.protocol, changes, source)
    for name, settings in options.candidates.items():
        protocol, source = str(settings.get("protocol", options.protocol)), f"candidates.{name}"
        changes = {key: value for key, value in settings.items() if key != "protocol"}
        yield Way(name, protocol, _read_changes(protocol, changes, source), source)


def _read_changes(protocol: str, changes: Mapping[str, Any], source: str) -> dict[str, Any]:
    """Return the changes of a way, with the texts of the files that they name."""
    fields = load_protocol(protocol).options.model_fields
    may_differ = [
        name
        for name, field in fields.items()
        if name not in (*_READ, *_OF_RUNNING)
        and (name == "seed" or group_of(field) not in (FILES, MONEY, RUNNING))
    ]
    for name in changes.keys() - {*may_differ}:
        if name in fields or name in CompareOptions.model_fields:
            raise OptionError(f"{source}: {name} is the same for all ways; leave it out")
        near = did_you_mean(name, may_differ)
        raise OptionError(f"{source}: {name} is not an option of protocol {protocol}{near}")
    plain = dict(changes)  # as options hold them: a path as text, a list as a tuple
    plain |= {n: os.fspath(v) for n, v in changes.items() if isinstance(v, os.PathLike)}
    plain |= {n: tuple(v) for n, v in changes.items() if isinstance(v, list)}
    own: dict[str, Any] = {name: (fields[name].annotation, fields[name]) for name in plain}
    kind: type[CommandOptions] = create_model("OptionsOfWay", __base__=CommandOptions, **own)
    try:
        read = kind.model_validate(plain, context=FROM_USER)
    except ValidationError as error:
        raise OptionError(f"{source}: {first_error(error)}") from None
    texts = {name: getattr(read, name) for name in plain}
    return {n: text if isinstance(text, str | tuple) else plain[n] for n, text in texts.items()}


def plan_way(options: CompareOptions, way: Way, pools: Sequence[str], out: str) -> AnnotateOptions:
    """Return the options of a way's run on some files of pools, over the ledger of the command."""
    kind, judges = load_protocol(way.protocol).options, way.judges(options)
    own_options = (options.model_fields_set & kind.model_fields.keys()) - {*_READ, *_OF_RUNNING}
    values = {name: getattr(options, name) for name in own_options}
    for name in own_options & {*BY_JUDGE}:
        values[name] = {judge: each for judge, each in values[name].items() if judge in judges}
    for name, value in way.changes.items():
        values[name] = {**values.get(name, {}), **value} if name in BY_JUDGE else value
    places = {"inputs": (*pools,), "out": out, "ledger": options.ledger_dir}
    try:
        plan = kind.model_validate({**values, **places, "protocol": way.protocol})
    except ValidationError as error:
        where = way.source or way.name
        raise OptionError(f"{where}: {first_error(error)}") from None
    return plan


def options_as_yaml(plan: AnnotateOptions) -> str:
    """Return the options of a way as a config file for `annotate`, without its places."""
    plain = plan.model_dump(mode="json", include=plan.model_fields_set - _NOT_KEPT)
    for name, value in plain.items():
        if isinstance(value, str) and may_name_file(type(plan).model_fields[name]):
            plain[name] = f"{value.rstrip()}\n"  # with a line's end it is no file's name
    return yaml.safe_dump(plain, allow_unicode=True, sort_keys=False)
