"""Which of the fields of queries that judges are to be shown there are in an input."""

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any

from zelo_ray.errors import OptionError
from zelo_ray.formats.pools import OF_THE_LINE
from zelo_ray.formats.wording import counted, shown_text
from zelo_ray.options.command import meant


class ShownFields:
    """Counts the queries that have each of some fields.

    Args:
        names: of the fields, as ``--show-query`` names them; if none, nothing is looked at.
    """

    def __init__(self, names: Sequence[str]) -> None:
        self._names = tuple(names)
        self._there = Counter[str]()
        self._queries = 0

    def see(self, about: Mapping[str, Any]) -> None:
        """See what is known of one query beside its text."""
        if self._names:
            self._queries += 1
            self._there.update(name for name, value in about.items() if shown_text(value))

    def watched(
        self, pools: Iterable[dict[str, Any]], source: str, beside: Collection[str]
    ) -> Iterator[dict[str, Any]]:
        """Pools as they stand in lines, each seen as it passes; at their end as `refuse_unknown`.

        Raises:
            OptionError: no query has one of the fields.
        """
        for pool in pools:
            query = pool.get("query")  # of a bad pool anything
            self.see(query if isinstance(query, Mapping) else {})
            yield pool
        self.refuse_unknown(source, beside)

    def refuse_unknown(self, source: str, beside: Collection[str] = ()) -> None:
        """Refuse a field that no query has.

        Args:
            source: what was seen.
            beside: other names that a user may have meant, such as those of columns.

        Raises:
            OptionError: there is one.
        """
        for name in (each for each in self._names if self._queries and not self._there[each]):
            there = [e for e in dict.fromkeys([*self._there, *beside]) if e not in OF_THE_LINE]
            has = f"there are {', '.join(there)}" if there else "they have no more than their text"
            raise OptionError(
                f"{source}: no query has the field {name!r} of --show-query; {has}"
                f"{meant(name, there)}"
            )

    def told(self) -> list[str]:
        """The fields that only some queries have, in words."""
        every = counted(self._queries, "query has", "queries have")
        return [
            f"{self._there[name]:,} of {every} the field {name!r} of --show-query"
            for name in self._names
            if self._there[name] < self._queries
        ]
