"""Split the labelled queries in two: one half to choose on, one to measure on."""

from collections.abc import Sequence
from dataclasses import dataclass

from zelo_ray.commands.compare_protocols.labelled_items import LabelledItems
from zelo_ray.commands.compare_protocols.people import Item
from zelo_ray.errors import InputError
from zelo_ray.files.pools import LineLimits, read_lines
from zelo_ray.files.splits import SPLITS, split_of
from zelo_ray.files.storage import open_for_writing
from zelo_ray.files.wording import counted

FIRST, SECOND = "first", "second"
FEW = 10
"""Of fewer labelled queries in all nothing can be shown: a half would have some five."""
_HALVES = (1.0, 0.0, 1.0)


@dataclass(frozen=True, slots=True)
class Half:
    """One half of the labelled queries: its pools, and the pairs that people judged."""

    name: str
    pools: str
    items: Sequence[Item]
    queries: int


def half_of(query: str) -> str:
    """Return the half of a query, which depends on nothing but its text; see `split_of`."""
    return FIRST if split_of(query, _HALVES) == SPLITS[0] else SECOND


def split_items(field: LabelledItems, folder: str) -> dict[str, Half]:
    """Write the pools of each half to a file of a folder; return both halves by name.

    Raises:
        InputError: there are fewer than two labelled queries, or all are in the same half.
    """
    if field.queries < 2:
        raise InputError(
            f"tune: people labelled {counted(field.queries, 'query', 'queries')} of the input, and "
            "it takes two: one to choose on, and one to measure on; label more"
        )
    places = {name: f"{folder.rstrip('/')}/{name}.jsonl" for name in (FIRST, SECOND)}
    halves = dict[str, str]()
    with open_for_writing(places[FIRST]) as first, open_for_writing(places[SECOND]) as second:
        files = {FIRST: first, SECOND: second}
        for line in read_lines(field.pools, LineLimits()):
            if line.pool:
                name = halves[line.pool.query_id] = half_of(line.pool.query)
                files[name].write(line.raw + b"\n")
    if len({*halves.values()}) < 2:
        raise InputError(
            f"tune: all {field.queries:,} labelled queries are in the same half (halves follow "
            "from the texts of queries); label more queries"
        )
    return {
        name: Half(
            name,
            places[name],
            [item for item in field.items if halves[item.query_id] == name],
            sum(half == name for half in halves.values()),
        )
        for name in (FIRST, SECOND)
    }
