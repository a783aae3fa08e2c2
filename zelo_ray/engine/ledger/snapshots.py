"""Views of tables: which of their replies count for the judges and options of one ledger."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from zelo_ray.engine.ledger.draft import Draft
from zelo_ray.engine.ledger.table import (
    FINAL,
    LENGTH_BITS,
    OF_REPLIES,
    OK,
    TRUNCATED,
    ReplyTable,
)
from zelo_ray.engine.ledger.totals import Payer

_CODES = 2 * FINAL
_LENGTH = (1 << LENGTH_BITS) - 1


class Place(NamedTuple):
    """The place of a reply, and what is known of it without reading it."""

    segment: str
    offset: int
    length: int
    code: int
    payer: Payer
    cut: int

    @property
    def ok(self) -> bool:
        """Return whether the reply can become a judgment."""
        return self.code & FINAL - 1 == OK


Takes = Callable[[Payer, int, int], bool]
"""Whether a reply of this payer and code, cut off at so many tokens, answers anything here."""


@dataclass(frozen=True, slots=True)
class FoundRows:
    """Places of the replies to many keys, as columns."""

    segment: NDArray[np.int64]
    """by key the number of its segment; -1: there is no reply"""
    offset: NDArray[np.int64]
    length: NDArray[np.int64]
    several: list[int]
    """the keys of which there is more to know than this: see `Index.places`"""


@dataclass(slots=True, eq=False)
class TableSnapshot:
    """A table, and which of its segments and replies count here."""

    table: ReplyTable
    valid: NDArray[np.bool_]
    """by segment, whether its replies are to be found here"""
    numbers: NDArray[np.int64]
    """by segment, its number among all"""
    takes: NDArray[np.bool_]
    """by payer and code"""
    view: Takes
    limited: bool
    """whether what counts depends on where an answer was cut off"""

    @classmethod
    def of(
        cls,
        table: ReplyTable,
        here: Iterable[bool],
        numbers: Iterable[int],
        view: Takes,
        *,
        limited: bool,
    ) -> "TableSnapshot":
        """Return a view of a table that shows only some of its segments."""
        takes = [[view(payer, code, 2**32) for code in range(_CODES)] for payer in table.payers]
        return cls(
            table,
            np.array([*here], bool),
            np.array([*numbers], np.int64),
            np.array(takes, bool).reshape(-1, _CODES),
            view,
            limited,
        )

    def find(
        self,
        prefix: NDArray[np.uint64],
        rest: NDArray[np.uint16],
        found: FoundRows,
        odd: NDArray[np.bool_],
    ) -> None:
        """Look for keys, and mark those that need a closer look."""
        columns, last = self.table.columns, len(self.table) - 1
        if last < 0:
            return
        at = np.minimum(np.searchsorted(columns["prefix"], prefix), last)
        hit = np.flatnonzero(columns["prefix"][at] == prefix)
        rows = at[hit]
        odd[hit] |= (columns["prefix"][np.minimum(rows + 1, last)] == prefix[hit]) & (rows < last)
        size, segment = columns["size"][rows], columns["segment"][rows]
        code = size >> LENGTH_BITS
        good = self.valid[segment] & self.takes[columns["payer"][rows], code]
        good &= columns["rest"][rows] == rest[hit]
        if self.limited:
            odd[hit] |= code & FINAL - 1 == TRUNCATED
        hit, rows, size, segment = hit[good], rows[good], size[good], segment[good]
        odd[hit] |= found.segment[hit] >= 0
        found.segment[hit] = self.numbers[segment]
        found.offset[hit] = columns["offset"][rows]
        found.length[hit] = size & _LENGTH

    def keys_that_count(self, begin: int, end: int) -> NDArray[np.uint64]:
        """Return the keys of the replies between two rows of a table that count."""
        part = {name: self.table.columns[name][begin:end] for name in OF_REPLIES}
        code = part["size"] >> LENGTH_BITS
        good = self.valid[part["segment"]] & self.takes[part["payer"], code]
        if self.limited:
            for row in np.flatnonzero(good & (code & FINAL - 1 == TRUNCATED)).tolist():
                place = place_of(self.table, begin + row, int(part["segment"][row]))
                good[row] = self.view(place.payer, place.code, place.cut)
        prefixes: NDArray[np.uint64] = part["prefix"][good]
        return prefixes


def place_of(table: ReplyTable | Draft, row: int, number: int) -> Place:
    """Return the place of the reply in a row, whose segment has a number in the table."""
    columns: Mapping[str, Any] = table.columns
    size = int(columns["size"][row])
    return Place(
        table.segments[number].name,
        int(columns["offset"][row]),
        size & _LENGTH,
        size >> LENGTH_BITS,
        table.payers[columns["payer"][row]],
        table.cut_at(row),
    )
