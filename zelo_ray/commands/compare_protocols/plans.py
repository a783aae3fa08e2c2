"""Which protocols are compared, and the options with which each of them runs."""

from collections.abc import Iterable

from zelo_ray.errors import OptionError
from zelo_ray.options import AnnotateOptions, CompareProtocolsOptions
from zelo_ray.protocols import PROTOCOLS, anchors, foreign, load

_NOT_ALONE = "zelo+graded"
"""Its scores are those of zelo."""
_OWN = {"blocks", "dry_run", "human", "inputs", "ledger", "out", "pilot", "protocol"}
"""Options that are not handed on as they are: people are asked what is right, not to calibrate."""


def plans(options: CompareProtocolsOptions, pools: tuple[str, ...]) -> dict[str, AnnotateOptions]:
    """By protocol, the options with which it runs: those of the command that it uses.

    Args:
        options: of the command; ``max_usd`` is of each protocol.
        pools: where the pools lie.

    Raises:
        UnknownProtocol, OptionError: a protocol is none, or is named twice.
    """
    names = options.protocols or tuple(name for name in PROTOCOLS if name != _NOT_ALONE)
    anchors.load(options.anchors)
    for name in names:
        load(name)
        if names.count(name) > 1:
            raise OptionError(f"--protocols: {name} is named twice")
    given = options.model_fields_set & AnnotateOptions.model_fields.keys() - _OWN
    return {
        name: AnnotateOptions(
            inputs=pools,
            out=f"{options.out.rstrip('/')}/{name}",
            ledger=options.books,
            protocol=name,
            **{each: getattr(options, each) for each in given - _unused(options, name)},
        )
        for name in names
    }


def _unused(options: CompareProtocolsOptions, protocol: str) -> set[str]:
    """The options that were given and that a protocol does not use."""
    return options.model_fields_set & foreign(protocol) - _OWN


def unused_by_all(options: CompareProtocolsOptions, names: Iterable[str]) -> list[str]:
    """The options that were given and that none of these protocols uses."""
    return sorted(set.intersection(*(_unused(options, name) for name in names)))
