"""Count how many queries or documents have the fields that judges are to be shown."""

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any, Literal

from zelo_ray.errors import OptionError
from zelo_ray.formats.pools import LINE_FIELDS
from zelo_ray.formats.wording import counted, text_for_judges
from zelo_ray.names import did_you_mean
from zelo_ray.records import Pool


class ShownFields:
    """Counts the queries, or documents, that have each of some fields.

    Args:
        names: of the fields, as given in the option; if empty, nothing is counted.
        of: whether they are fields of queries or of documents.
    """

    def __init__(self, names: Sequence[str], of: Literal["query", "document"] = "query") -> None:
        self._names = tuple(names)
        self._noun, self._option = of, "--show-query" if of == "query" else "--show-metadata"
        self._having = Counter[str]()
        self._total = 0

    def count_fields(self, about: Mapping[str, Any]) -> None:
        """Count the fields of one query or document."""
        if self._names:
            self._total += 1
            self._having.update(name for name, value in about.items() if text_for_judges(value))

    def count_documents(self, pool: Pool) -> None:
        """Count the fields of a pool's documents."""
        for document in pool.documents if self._names else ():
            self.count_fields({name: str(value) for name, value in document.metadata.items()})

    def count_passing(
        self, pools: Iterable[dict[str, Any]], source: str, beside: Collection[str]
    ) -> Iterator[dict[str, Any]]:
        """Yield pools unchanged, count the fields of each query, and at the end `refuse_unknown`.

        Raises:
            OptionError: no query has one of the fields.
        """
        for pool in pools:
            query = pool.get("query")  # of any type in an invalid pool
            self.count_fields(query if isinstance(query, Mapping) else {})
            yield pool
        self.refuse_unknown(source, beside)

    def refuse_unknown(self, source: str, also: Collection[str] = ()) -> None:
        """Refuse a field that no query has.

        Args:
            source: the input, for the message.
            also: other names to suggest, such as those of columns.

        Raises:
            OptionError: there is one.
        """
        for name in (field for field in self._names if self._total and not self._having[field]):
            fields = [e for e in dict.fromkeys([*self._having, *also]) if e not in LINE_FIELDS]
            nothing = "they have no field but their text"
            if self._noun == "document":
                nothing += " (a column of a table counts if it is called so)"
            has = f"fields are {', '.join(fields)}" if fields else nothing
            raise OptionError(
                f"{source}: no {self._noun} has the field {name!r} of {self._option}; {has}"
                f"{did_you_mean(name, fields)}"
            )

    def describe_missing(self) -> list[str]:
        """Describe the fields that only some queries or documents have."""
        plural = "queries have" if self._noun == "query" else "documents have"
        every = counted(self._total, f"{self._noun} has", plural)
        return [
            f"{self._having[name]:,} of {every} the field {name!r} of {self._option}"
            for name in self._names
            if self._having[name] < self._total
        ]
