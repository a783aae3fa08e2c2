"""Index of replies in memory while they come in, before it is frozen into a table."""

from array import array
from collections.abc import Mapping
from typing import Any

import numpy as np

from zelo_ray.engine.ledger.table import (
    COLUMNS,
    FINAL,
    LENGTH_BITS,
    OF_REPLIES,
    STATUSES,
    TRUNCATED,
    ReplyTable,
    in_order,
    split_key,
)
from zelo_ray.engine.ledger.totals import Covered, Payer, SegmentTotals
from zelo_ray.errors import LedgerError

MOST_NAMES = 60_000  # as they are numbered in two bytes
_STATUS = {status: number for number, status in enumerate(STATUSES)}
_CODES = {2: "H", 4: "I", 8: "Q"}


class Draft:
    """Growing index of replies, which becomes a table when there are many."""

    def __init__(self) -> None:
        self.segments: list[Covered] = []
        self.payers: list[Payer] = []
        self.columns = {name: array(_CODES[COLUMNS[name].itemsize]) for name in OF_REPLIES}
        self._appends = tuple(self.columns[name].append for name in OF_REPLIES)
        self._cuts: dict[int, int] = {}
        self._rows: dict[int, int | list[int]] = {}
        self._numbers: dict[str | Payer, int] = {}
        self._sums: list[SegmentTotals] = []

    def __len__(self) -> int:
        return len(self.columns["prefix"])

    @property
    def full(self) -> bool:
        """Return whether the draft can take no further name."""
        return len(self._numbers) >= MOST_NAMES

    def add(self, segment: str, offset: int, length: int, row: Mapping[str, Any]) -> None:
        """Take in a reply.

        Raises:
            LedgerError: it lies beyond 4 GB, or is longer than 128 MB.
            ValueError: its key is no key.
        """
        prefix, suffix = split_key(row["key"])
        if offset >= 2**32 or length >= 1 << LENGTH_BITS:
            raise LedgerError(f"{segment}: too large; split it into files below 4 GB")
        number = self.note(segment, offset + length)
        payer = self._payer(self._sums[number].add(row))
        status, at = _STATUS[row["status"]], len(self.columns["prefix"])
        if not row["final"] and status != TRUNCATED:
            return  # it was paid for, but answers nothing
        size = length | (status | FINAL * row["final"]) << LENGTH_BITS
        if status == TRUNCATED:
            self._cuts[at] = min(row["limit"] or row["output_tokens"], 2**32 - 1)
        add_prefix, add_offset, add_size, add_rest, add_segment, add_payer = self._appends
        add_prefix(prefix)
        add_offset(offset)
        add_size(size)
        add_rest(suffix)
        add_segment(number)
        add_payer(payer)
        before = self._rows.setdefault(prefix, at)  # last, as another thread may look
        if before != at:
            self._rows[prefix] = [*(before if isinstance(before, list) else [before]), at]

    def note(self, segment: str, size: int) -> int:
        """Return a segment's number, and note that it has been read up to so many bytes."""
        number = self._numbers.get(segment)
        if number is None:
            number = self._numbers[segment] = len(self.segments)
            self._sums.append(SegmentTotals())
            self.segments.append(Covered(segment))
        self.segments[number].size = size
        return number

    def set_aside(self, segment: str, byte: int, length: int, replies: int) -> None:
        """Take in a damaged line that held this many replies."""
        self.segments[self.note(segment, byte + length)].damaged.append((byte, replies))

    def _payer(self, payer: Payer) -> int:
        number = self._numbers.get(payer)
        if number is None:
            number = self._numbers[payer] = len(self.payers)
            self.payers.append(payer)
        return number

    def has(self, prefix: int) -> bool:
        """Return whether there may be a reply to a key with this ``prefix``."""
        return prefix in self._rows

    def at(self, prefix: int, rest: int) -> list[int]:
        """Return the rows of a key."""
        entry = self._rows.get(prefix, [])
        rows = entry if isinstance(entry, list) else [entry]
        return [row for row in rows if self.columns["rest"][row] == rest]

    def cut_at(self, row: int) -> int:
        """Return the number of tokens at which the answer of a row was cut off; 0 if it was not."""
        return self._cuts.get(row, 0)

    def table(self) -> ReplyTable:
        """Return the draft as a sorted table. The draft must not be used afterwards."""
        for segment, sums in zip(self.segments, self._sums, strict=True):
            segment.totals = sums.totals()
        columns = {name: np.array(column, COLUMNS[name]) for name, column in self.columns.items()}
        cut = np.zeros(len(self), COLUMNS["cut"])
        cut[list(self._cuts)] = list(self._cuts.values())
        return ReplyTable.of([in_order(columns | {"cut": cut})], self.segments, self.payers)
