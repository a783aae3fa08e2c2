"""Count what is asked anew of pools that change between two runs on one ledger.

Pools of the walk-through on sizing judge pools are planned by `zelo`, four rings; then they change
and are planned again. *Asked* are pairs a query.
Run: python -m benchmarks.growing [--queries 40]
"""

import argparse
from collections.abc import Callable
from dataclasses import replace
from random import Random

from benchmarks.sizing import make_pool, panel_of
from zelo_ray.protocols import zelo
from zelo_ray.protocols.zelo import ZeloOptions
from zelo_ray.records import Document, Pool

PANEL = panel_of(1, {})
OPTIONS = ZeloOptions(inputs=("-",), out="-")
Change = Callable[[Pool], Pool]


def first(documents: int) -> Change:
    return lambda pool: replace(pool, documents=pool.documents[:documents])


def shuffled(pool: Pool) -> Pool:
    documents = Random(pool.query_id).sample(pool.documents, len(pool.documents))
    return replace(pool, documents=tuple(documents))


def replaced(pool: Pool) -> Pool:
    old, *rest = pool.documents
    return replace(pool, documents=(Document(old.id, "another text", old.metadata), *rest))


CHANGES: dict[str, tuple[int, Change, Change]] = {
    "25 and one more": (26, first(25), first(26)),
    "25 and two more": (27, first(25), first(27)),
    "100 and ten more": (110, first(100), first(110)),
    "25, shuffled": (25, first(25), shuffled),
    "25, the text of one replaced": (25, first(25), replaced),
}
"""How many documents pools are drawn with, and what two runs see of them."""


def keys(pool: Pool) -> set[str]:
    """Return the keys of all requests about a pool."""
    requests = next(zelo.rounds(pool, PANEL, OPTIONS))
    assert isinstance(requests, list)
    return {request.key for request in requests}


def measure(name: str, queries: int) -> str:
    documents, before, after = CHANGES[name]
    asked = whole = 0
    for number in range(queries):
        pool = make_pool(number, documents)
        now = keys(after(pool))
        asked += len(now - keys(before(pool)))
        whole += len(now)
    return f"| {name} | {asked / queries:.1f} | {whole / queries:.0f} |"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--queries", type=int, default=40)
    flags = parser.parse_args()
    print("| change | pairs asked | first run |")
    print("|---|" + "---:|" * 2)
    for name in CHANGES:
        print(measure(name, flags.queries), flush=True)


if __name__ == "__main__":
    main()
