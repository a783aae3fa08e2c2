"""Which protocols are compared, and the options with which each of them runs."""

from collections.abc import Iterable

from zelo_ray.errors import OptionError
from zelo_ray.options import AnnotateOptions, CompareProtocolsOptions
from zelo_ray.protocols import PROTOCOLS, load

_NOT_ALONE = "zelo+graded"
"""Its scores are those of zelo."""
_OWN = {
    *("blocks", "dry_run", "human", "inputs", "ledger", "out", "pilot", "protocol"),
    *("corpus", "queries", "columns"),
}
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
    called = [load(name).name for name in names]
    for name in called:
        if called.count(name) > 1:  # results of each go to a folder of its name
            raise OptionError(f"--protocols: {name} is named twice")
    return {name: _plan(options, pools, name) for name in names}


def _plan(
    options: CompareProtocolsOptions, pools: tuple[str, ...], protocol: str
) -> AnnotateOptions:
    kind = load(protocol).options
    given = options.model_fields_set & kind.model_fields.keys() - _OWN
    return kind.model_validate(
        {
            **{name: getattr(options, name) for name in given},
            "inputs": pools,
            "out": f"{options.out.rstrip('/')}/{load(protocol).name}",
            "ledger": options.books,
            "protocol": protocol,
        }
    )


def unused_by_all(options: CompareProtocolsOptions, names: Iterable[str]) -> list[str]:
    """The options that were given and that none of these protocols uses."""
    known = {*CompareProtocolsOptions.model_fields}.union(
        *(load(name).options.model_fields for name in names)
    )
    return sorted(options.model_fields_set - known)
