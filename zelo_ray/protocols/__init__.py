"""Protocols: what to ask judges, and what their replies mean.

A protocol is one object in one file, ``PROTOCOL = Protocol(...)``, and a line in ``PROTOCOLS``; or
one of the user's own, named ``my_module:PROTOCOL`` or ``path/to/file.py:PROTOCOL``; or one that an
installed package declares in ``zelo_ray.protocols``. Its heart is a plain generator: it yields a
list of requests (a round), is sent the list of replies, and returns its judgments. It imports no
client, no event loop, no Ray and no file system, so to resume is to run it again. Parts that need
not wait for each other, such as the debates of different judges, are generators of their own, which
it yields as `Parallel`.
"""

from collections.abc import Iterable, Iterator, Mapping
from copy import copy
from importlib import import_module
from typing import Any, cast

from pydantic import create_model
from pydantic.fields import FieldInfo

from zelo_ray.errors import OptionError
from zelo_ray.names import did_you_mean
from zelo_ray.options import AnnotateOptions, Kind, OptionGroup
from zelo_ray.plugins import (
    add_installed,
    find_installed,
    is_plugin_name,
    load_installed,
    load_plugin,
)
from zelo_ray.protocols.options import OPTIONS
from zelo_ray.protocols.progress import Parallel, Progress, Replies, Rounds, Step, advance
from zelo_ray.protocols.protocol import (
    RECORDED,
    Evidence,
    Judgments,
    Learned,
    Protocol,
    Ranker,
    ScoreKind,
)

__all__ = [
    "Evidence",
    "Judgments",
    "Learned",
    "Parallel",
    "Progress",
    "Protocol",
    "Ranker",
    "Replies",
    "Rounds",
    "ScoreKind",
    "Step",
    "advance",
]

PROTOCOLS = {
    "zelo": "zelo_ray.protocols.zelo",
    "graded": "zelo_ray.protocols.graded",
    "listwise-votes": "zelo_ray.protocols.listwise_votes",
    "best-of": "zelo_ray.protocols.best_of",
    "samre": "zelo_ray.protocols.samre",
    "baseline-strong": "zelo_ray.protocols.baseline_strong",
    "baseline-weak": "zelo_ray.protocols.baseline_weak",
}
"""Ways of judging, by a panel: each module has a ``PROTOCOL``."""

TABLES = {"contests", "criteria", "grades", "verdicts", "votes", "winners"}
"""All that they write, so that no protocol is loaded to remove what another one left."""

RANKERS = ("rerank", "listwise", "pointwise")
"""Ways of ordering a pool, by one judge: see `zelo_ray.protocols.rankers`."""


def load_protocol(name: str) -> Protocol:
    """Load a protocol by its name, or a plug-in; raise `OptionError` if there is none."""
    if name in PROTOCOLS:
        protocol: Protocol = import_module(PROTOCOLS[name]).PROTOCOL
        return protocol
    if is_plugin_name(name):
        return load_plugin(name, Protocol, OptionError)
    if installed := load_installed("protocols", name, Protocol, OptionError):
        return installed
    names = protocol_names()
    raise OptionError(
        f"unknown protocol {name!r}{did_you_mean(name, names)}; there are {', '.join(names)}, "
        "and your own as my_module:PROTOCOL"
    )


def options_of(name: str) -> type[AnnotateOptions]:
    """Return the options of a protocol, by its name; of the package's without loading it."""
    return OPTIONS.get(name) or load_protocol(name).options


def protocol_names() -> list[str]:
    """Return the names of all protocols, those of installed packages included."""
    return add_installed(PROTOCOLS, "protocols")


def is_own_protocol(name: str) -> bool:
    """Return whether a protocol is a plug-in, whose code may change unseen."""
    built_in = name in PROTOCOLS or name in RANKERS
    return not built_in and (is_plugin_name(name) or name in find_installed("protocols"))


def find_protocol(name: str) -> Ranker:
    """Load a protocol or a ranker by its name, as one object that can ask judges."""
    if name in RANKERS:
        ranker: Ranker = import_module("zelo_ray.protocols.rankers").RANKERS[name]
        return ranker
    return load_protocol(name)


def protocol_of_record(record: Mapping[str, Any]) -> Protocol:
    """Return the protocol of a run, by its record; raise `OptionError` if it is there no more."""
    options = record.get("options")
    return load_protocol(str(options.get("protocol", "zelo") if options else "zelo"))


def recorded_options(record: Mapping[str, Any]) -> AnnotateOptions:
    """Return the options of a run, by its record, as far as its protocol still has them."""
    kind, options = protocol_of_record(record).options, record["options"]
    if not isinstance(options, Mapping):
        raise TypeError("options are no mapping")
    fields = {name: value for name, value in options.items() if name in kind.model_fields}
    return kind.model_validate(fields, context=RECORDED)


def recorded_scores(record: Mapping[str, Any]) -> ScoreKind:
    """Return the kind of the scores of a run, by its record."""
    protocol = protocol_of_record(record)
    try:
        return protocol.scores_of(recorded_options(record))
    except (KeyError, TypeError, ValueError):
        return protocol.score


def refine_options(kind: type[Kind], values: Mapping[str, Any]) -> type[Kind]:
    """Return the options of a command with those of the protocols that its values name.

    A command that compares protocols has the options of all.
    """
    if "candidates" in kind.model_fields:
        tried = values.get("try_") or values.get("try") or ()
        names = [*tried_protocols([tried] if isinstance(tried, str) else tried)]
        ways = values.get("candidates")
        ways = [*ways.values()] if isinstance(ways, Mapping) else []
        every = [values, *(way for way in ways if isinstance(way, Mapping))]
        names += [str(each["protocol"]) for each in every if "protocol" in each]
        return options_with_all_protocols(kind, names)
    name = str(values.get("protocol", "zelo"))
    of_protocol: Any = options_of(name)
    for option in values.keys() - of_protocol.model_fields.keys() - kind.model_fields.keys():
        if users := [user for user in PROTOCOLS if option in _own_fields(user)]:
            flag, command = option.replace("_", "-"), kind.usage.split()[0]
            whose = f"--{flag} is of --protocol {', '.join(users)}, and not of {name}"
            raise OptionError(f"{whose}; zelo-ray {command} --help")
    if issubclass(of_protocol, kind):
        return cast("type[Kind]", of_protocol)
    return create_model(kind.__name__, __base__=(kind, of_protocol))


def tried_protocols(words: Iterable[str]) -> Iterator[str]:
    """Yield the protocols among ways to try, such as ``protocol=graded``, or named alone."""
    for word in words:
        name, is_change, value = str(word).partition("=")
        if name == "protocol" or not is_change:
            yield value or name


def options_with_all_protocols(kind: type[Kind], names: Iterable[str] = ()) -> type[Kind]:
    """Combine the options of a command with those of all protocols, in groups by protocol.

    ``names`` are protocols beside those that come with the package.
    """
    infos, owners = dict[str, FieldInfo](), dict[str, list[str]]()
    for name in dict.fromkeys((*PROTOCOLS, *names)):
        for field, info in _own_fields(name).items():
            if field not in kind.model_fields:
                infos.setdefault(field, copy(info))
                owners.setdefault(field, []).append(name)
    definitions: dict[str, Any] = {}
    for field in sorted(infos, key=lambda field: (-len(owners[field]), owners[field], field)):
        group = OptionGroup(f"options of {', '.join(owners[field])}", last=True)
        infos[field].metadata = [*infos[field].metadata, group]
        definitions[field] = (infos[field].annotation, infos[field])
    return create_model(kind.__name__, __base__=kind, **definitions)


def _own_fields(name: str) -> dict[str, FieldInfo]:
    """Return the options of a protocol that not every protocol has."""
    fields = options_of(name).model_fields
    return {field: fields[field] for field in fields.keys() - AnnotateOptions.model_fields.keys()}
