"""Warn of what a comparison of protocols cannot tell."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from zelo_ray.formats.wording import counted
from zelo_ray.report.demonstration import warn_of_demonstration
from zelo_ray.report.warning import RankedWarnings, ResultWarning, rank_warnings
from zelo_ray.report.warning_codes import WarningCode

MOST = 0.9
"""Protocols that judged fewer of the items stand below the others, as these may be easier ones."""


def warn_of_protocols(
    rows: Sequence[Mapping[str, Any]], alike: Sequence[str], others: int
) -> Iterator[ResultWarning]:
    """Yield a warning for what a comparison of protocols cannot tell.

    Args:
        rows: a row a protocol, the closest to people first: protocol, judged, items.
        alike: those that are not told apart from the first.
        others: how many were compared with it.
    """
    if others and len(alike) == others:
        yield ResultWarning(WarningCode.PROTOCOLS_ALIKE, {"protocol": rows[0]["protocol"]})
    for row in rows:
        if row["judged"] < MOST * row["items"]:
            values = {name: row[name] for name in ("protocol", "judged")}
            values["items"] = counted(row["items"], "item")
            share = 1 - row["judged"] / max(row["items"], 1)
            yield ResultWarning(WarningCode.FEW_ITEMS_JUDGED, values, share)


def rank_of_protocols(
    record: Mapping[str, Any], rows: Sequence[Mapping[str, Any]], alike: Sequence[str]
) -> RankedWarnings:
    """Rank the warnings of ``compare-protocols``; rows as for `warn_of_protocols`."""
    judges = record["options"].get("judges", ())
    return rank_warnings(
        [
            *warn_of_protocols(rows, alike, len(rows) - 1),
            *warn_of_demonstration(judges, "protocols", "asked"),
        ],
        "differences between protocols, and items that they did not judge, were looked at",
    )
