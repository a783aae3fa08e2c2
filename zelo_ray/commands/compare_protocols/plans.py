"""Choose the protocols to compare, and the options with which each of them runs."""

from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Any

from pydantic import ValidationError

from zelo_ray.command_options import CompareProtocolsOptions
from zelo_ray.errors import OptionError
from zelo_ray.options import AnnotateOptions, CommandOptions, JudgingOptions
from zelo_ray.protocols import PROTOCOLS, load_protocol
from zelo_ray.records import first_error

_OWN = {
    *("blocks", "dry_run", "human", "inputs", "ledger", "out", "pilot", "protocol"),
    *("corpus", "queries", "columns"),
}
"""Options that are not passed on: people's labels are the truth here, not for calibration."""


def protocols_to_compare(options: CompareProtocolsOptions) -> tuple[str, ...]:
    """Return the names of the protocols to compare."""
    return options.protocols or tuple(PROTOCOLS)


def make_plans(
    options: CompareProtocolsOptions, pools: tuple[str, ...]
) -> dict[str, AnnotateOptions]:
    """Return the options of each protocol's run: those of the command that apply to it.

    Args:
        options: of the command; ``max_usd`` is the budget of each protocol.
        pools: the files of the pools.

    Raises:
        OptionError, OptionError: a protocol is unknown or named twice, or options conflict.
    """
    names = protocols_to_compare(options)
    called = [load_protocol(name).name for name in names]
    for name in called:
        if called.count(name) > 1:  # each has a folder of its name
            raise OptionError(f"--protocols: {name} is named twice")
    folders = {name: f"{options.out.rstrip('/')}/{load_protocol(name).name}" for name in names}
    return {name: plan_run(options, pools, name, folders[name]) for name in names}


def plan_run(
    options: JudgingOptions,
    pools: tuple[str, ...],
    protocol: str,
    out: str,
    *,
    changes: Mapping[str, Any] = MappingProxyType({}),
) -> AnnotateOptions:
    """Return the options of one run of `annotate`: those of a command that apply to its protocol.

    Args:
        options: of the command, with those of the protocol.
        pools: the files of the pools.
        protocol: its name.
        out: directory or URL of its results; it uses the ledger of the command.
        changes: options that differ from the command's; texts are not read from files.

    Raises:
        OptionError, OptionError: the protocol is unknown, or options conflict.
    """
    kind = load_protocol(protocol).options
    option_names = options.model_fields_set & kind.model_fields.keys() - _OWN
    values = {
        **{name: getattr(options, name) for name in option_names},
        **changes,
        "inputs": pools,
        "out": out,
        "ledger": options.ledger_dir,
        "protocol": protocol,
    }
    try:
        return kind.model_validate(values)
    except ValidationError as error:
        raise OptionError(f"{protocol}: {first_error(error)}") from None


def unused_by_all(
    options: JudgingOptions,
    names: Iterable[str],
    command: type[CommandOptions] = CompareProtocolsOptions,
) -> list[str]:
    """Return the options that were given and that neither the command nor these protocols use."""
    fields = {*command.model_fields}.union(
        *(load_protocol(name).options.model_fields for name in names)
    )
    return sorted(options.model_fields_set - fields)
