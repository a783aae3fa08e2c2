"""Map keys to replies: sorted columns, 22 bytes a reply, in memory or in a mapped file.

Of a key 80 bits are kept, so that two of a hundred million replies share them in one ledger of 200
million. Who reads a reply compares the whole key: then it is an error, and never a wrong answer.
"""

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, get_args

import numpy as np
from numpy.typing import NDArray

from zelo_ray.engine.ledger.totals import Covered, Payer
from zelo_ray.records import Status

STATUSES: tuple[str, ...] = get_args(Status)
OK, TRUNCATED, FINAL = STATUSES.index("ok"), STATUSES.index("truncated"), 8
LENGTH_BITS = 27
COLUMNS: dict[str, np.dtype[Any]] = {
    "prefix": np.dtype("<u8"),  # of the key
    "offset": np.dtype("<u4"),  # in bytes, of the line in its segment
    "size": np.dtype("<u4"),  # of the line in bytes; above LENGTH_BITS the status, and FINAL
    "rest": np.dtype("<u2"),  # of the key
    "segment": np.dtype("<u2"),
    "payer": np.dtype("<u2"),
    "cut_row": np.dtype("<u4"),  # the rows that were cut off
    "cut": np.dtype("<u4"),  # and at how many tokens
}
OF_REPLIES = ("prefix", "offset", "size", "rest", "segment", "payer")
_CHUNK_ROWS = 2**20
_KEY = np.dtype([("head", "V6"), ("rest", ">u2"), ("prefix", ">u8")])

Columns = dict[str, NDArray[Any]]


def split_key(key: str) -> tuple[int, int]:
    """Return the two parts of a key that are kept."""
    return int(key[-16:], 16), int(key[-20:-16] or "0", 16)


def split_keys(keys: Sequence[str]) -> tuple[NDArray[np.uint64], NDArray[np.uint16]]:
    """Return the two parts of many keys, as columns."""
    raw = bytes.fromhex("".join(keys))
    if any(len(key) != 32 for key in keys):
        raw = b"".join(bytes.fromhex(key).rjust(16, b"\0")[-16:] for key in keys)
    parts = np.frombuffer(raw, _KEY)
    return parts["prefix"].astype(np.uint64), parts["rest"].astype(np.uint16)


@dataclass(slots=True, eq=False)
class ReplyTable:
    """Replies in the order of their keys."""

    columns: Columns
    segments: list[Covered]
    payers: list[Payer]
    prefix: memoryview = field(init=False)

    def __post_init__(self) -> None:
        self.prefix = np.ascontiguousarray(self.columns["prefix"], np.uint64).data

    def __len__(self) -> int:
        return len(self.prefix)

    @classmethod
    def of(
        cls, chunks: Sequence[Columns], segments: Sequence[Covered], payers: Sequence[Payer]
    ) -> "ReplyTable":
        """Build a table in memory, of chunks as `merged` gives them."""
        columns = {
            name: np.concatenate([chunk[name] for chunk in chunks])
            if chunks
            else np.empty(0, COLUMNS[name])
            for name in (*OF_REPLIES, "cut")
        }
        columns["cut_row"] = cut_rows(columns["size"]).astype(COLUMNS["cut_row"])
        columns["cut"] = columns["cut"][columns["cut_row"]]
        return cls(columns, list(segments), list(payers))

    def at(self, prefix: int, rest: int) -> list[int]:
        """Return the rows of a key."""
        row, rows = bisect_left(self.prefix, prefix), list[int]()
        while row < len(self.prefix) and self.prefix[row] == prefix:
            if self.columns["rest"][row] == rest:
                rows.append(row)
            row += 1
        return rows

    def cut_at(self, row: int) -> int:
        """Return the number of tokens at which the answer of a row was cut off; 0 if it was not."""
        rows = self.columns["cut_row"]
        at = int(np.searchsorted(rows, row))
        return int(self.columns["cut"][at]) if at < len(rows) and rows[at] == row else 0


def cut_rows(size: NDArray[np.uint32]) -> NDArray[np.intp]:
    """Return the rows of answers that were cut off."""
    return np.flatnonzero(size >> LENGTH_BITS & (FINAL - 1) == TRUNCATED)


def merged(
    parts: Sequence[tuple[ReplyTable, NDArray[np.bool_]]],
) -> tuple[list[Covered], list[Payer]]:
    """Merge the segments and payers of several tables, keeping only some segments.

    Args:
        parts: tables, and of each which segments to keep.
    """
    segments, payers = dict[str, Covered](), dict[Payer, None]()
    for table, keep in parts:
        payers.update(dict.fromkeys(table.payers))
        for segment in (table.segments[i] for i in np.flatnonzero(keep)):
            segments.setdefault(segment.name, Covered(segment.name)).add(segment)
    return list(segments.values()), list(payers)


def chunks(
    parts: Sequence[tuple[ReplyTable, NDArray[np.bool_]]],
    segments: Sequence[Covered],
    payers: Sequence[Payer],
) -> Iterator[Columns]:
    """Yield the replies of several tables in one order, some million at a time; see `merged`."""
    names = {segment.name: number for number, segment in enumerate(segments)}
    bought = {payer: number for number, payer in enumerate(payers)}
    rows = sum(len(table) for table, _ in parts)
    pieces = -(-rows // _CHUNK_ROWS)
    begins = [0] * len(parts)
    renumbered = [_renumbered(table, names, bought) for table, _ in parts]
    for piece in range(1, pieces + 1):
        bound = (piece << 64) // pieces
        slices = []
        for at, (table, keep) in enumerate(parts):
            end = bisect_left(table.prefix, bound, begins[at])
            part = _part(table, begins[at], end)
            mask = keep[part["segment"]]
            part |= {name: numbers[part[name]] for name, numbers in renumbered[at].items()}
            slices.append(part if mask.all() else {name: part[name][mask] for name in part})
            begins[at] = end
        yield in_order(
            {name: np.concatenate([columns[name] for columns in slices]) for name in slices[0]}
        )


def _renumbered(table: ReplyTable, names: dict[str, int], payers: dict[Payer, int]) -> Columns:
    """Return the numbers that a table's segments and payers have in the merged table."""
    segment = np.array([names.get(covered.name, 0) for covered in table.segments], np.uint16)
    payer = np.array([payers[buyer] for buyer in table.payers], np.uint16)
    return {"segment": segment, "payer": payer}


def _part(table: ReplyTable, begin: int, end: int) -> Columns:
    """Return the rows of a table between two of them, each with where it was cut off."""
    rows, cuts = table.columns["cut_row"], table.columns["cut"]
    first, last = np.searchsorted(rows, [begin, end])
    cut = np.zeros(end - begin, COLUMNS["cut"])
    cut[rows[first:last].astype(np.int64) - begin] = cuts[first:last]
    return {name: table.columns[name][begin:end] for name in OF_REPLIES} | {"cut": cut}


def in_order(columns: Columns) -> Columns:
    """Return the same rows, sorted."""
    order = np.argsort(columns["prefix"], kind="stable")
    return {name: column[order] for name, column in columns.items()}
