"""Which protocols are compared, and the options with which each of them runs."""

from zelo_ray.config import OptionError, Options, TrialsOptions
from zelo_ray.protocols import PROTOCOLS, refuse_unknown
from zelo_ray.protocols import module as protocol_module

_NOT_ALONE = "zelo+graded"
"""Its scores are those of zelo."""
_OWN = {"blocks", "dry_run", "human", "inputs", "ledger", "out", "pilot", "protocol"}
"""Options that are not handed on as they are: people are asked what is right, not to calibrate."""


def plans(options: TrialsOptions, pools: tuple[str, ...]) -> dict[str, Options]:
    """By protocol, the options with which it runs: those of the command that it uses.

    Args:
        options: of the command; ``max_usd`` is of each protocol.
        pools: where the pools lie.

    Raises:
        UnknownProtocol, OptionError: a protocol is none, or is named twice.
    """
    names = options.protocols or tuple(name for name in PROTOCOLS if name != _NOT_ALONE)
    for name in names:
        refuse_unknown(name)
        if names.count(name) > 1:
            raise OptionError(f"--protocols: {name} is named twice")
    given = options.model_fields_set & Options.model_fields.keys() - _OWN
    return {
        name: Options(
            inputs=pools,
            out=f"{options.out.rstrip('/')}/{name}",
            ledger=options.books,
            protocol=name,
            **{each: getattr(options, each) for each in given - _unused(name)},
        )
        for name in names
    }


def _unused(protocol: str) -> set[str]:
    """The options that other protocols use, and this one does not."""
    special = set[str]().union(*(protocol_module(name).USES for name in PROTOCOLS))
    return special - protocol_module(protocol).USES


def unused_by_all(options: TrialsOptions, plans: dict[str, Options]) -> list[str]:
    """The options that were given and that none of the protocols uses."""
    left = set.intersection(*(_unused(name) for name in plans))
    return sorted(options.model_fields_set & left - _OWN)
