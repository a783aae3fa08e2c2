"""Find where replies lie, as far as one process knows: tables of the ledger, and later replies."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from threading import Lock
from typing import Any

import numpy as np
from numpy.typing import NDArray

from zelo_ray.engine.ledger.draft import Draft
from zelo_ray.engine.ledger.seen import Found, Place, Seen, Takes, place_of
from zelo_ray.engine.ledger.table import Table, chunks, merged, split_key, split_keys
from zelo_ray.engine.ledger.totals import Covered

_DRAFT_ROWS = 50_000  # a row of a draft takes ten times the memory of one of a table
_CHUNK = 2**20


class Index:
    """Places by key.

    One thread may look while another adds.

    Args:
        takes: which replies count.
        limited: whether that depends on where an answer was cut off.
    """

    def __init__(self, takes: Takes, *, limited: bool) -> None:
        self._takes, self._limited = takes, limited
        self.names: list[str] = []
        self._numbers: dict[str, int] = {}
        self._files: tuple[Seen, ...] = ()
        self._own: tuple[Seen, ...] = ()
        self.draft = Draft()
        self.lock, self._naming = Lock(), Lock()

    def _seen(self, table: Table, here: Iterable[bool]) -> Seen:
        numbers = [self.number(each.name) for each in table.segments]
        return Seen.of(table, here, numbers, self._takes, limited=self._limited)

    def number(self, name: str) -> int:
        """Return the number of a segment."""
        with self._naming:
            found = self._numbers.setdefault(name, len(self.names))
            if found == len(self.names):
                self.names.append(name)
        return found

    @property
    def covered(self) -> list[Covered]:
        """Return what is known of segments; one may be there in pieces."""
        drafted = [self.draft.segments]
        seen = [
            [each for each, here in zip(seen.table.segments, seen.valid, strict=True) if here]
            for seen in (*self._files, *self._own)
        ]
        return [each for part in seen + drafted for each in part]

    def add(self, segment: str, offset: int, length: int, row: Mapping[str, Any]) -> None:
        """Take in a reply. The lock is held."""
        draft = self.draft
        if len(draft.columns["prefix"]) >= _DRAFT_ROWS or draft.full:
            self.freeze()
        self.draft.add(segment, offset, length, row)

    def freeze(self) -> None:
        """Make a table of what came in, and one of several small ones. The lock is held."""
        if not self.draft.segments:
            return
        table = self.draft.table()
        own = [*self._own, self._seen(table, [True] * len(table.segments))]
        while len(own) > 1 and len(own[-2].table) <= 2 * len(own[-1].table):
            parts = [(each.table, each.valid) for each in own[-2:]]
            named = merged(parts)
            table = Table.of([*chunks(parts, *named)], *named)
            own[-2:] = [self._seen(table, [True] * len(table.segments))]
        self._own = tuple(own)  # before the draft goes, so that nobody finds neither
        self.draft = Draft()

    def drawn(self, segments: frozenset[str]) -> list[tuple[Table, NDArray[np.bool_]]]:
        """Return the new rows of some segments, as parts of a new table. The lock is held."""
        self.freeze()
        parts = [
            (each.table, each.valid & [s.name in segments for s in each.table.segments])
            for each in self._own
        ]
        return [(table, keep) for table, keep in parts if keep.any()]

    def use(self, files: Sequence[tuple[Table, list[bool]]], gone: frozenset[str]) -> None:
        """Use these tables from now on, and nothing else that is known of their segments.

        Args:
            files: tables, and of each whose segments' replies are to be found in it.
            gone: segments that are to be forgotten besides.
        """
        with self.lock:
            there = set(gone).union(
                each.name
                for table, here in files
                for each, valid in zip(table.segments, here, strict=True)
                if valid
            )
            if not there.isdisjoint(each.name for each in self.draft.segments):
                self.freeze()
            own = []
            for seen in self._own:
                valid = seen.valid & [each.name not in there for each in seen.table.segments]
                if valid.any():
                    own.append(replace(seen, valid=valid))
            self._files = tuple(self._seen(table, here) for table, here in files)
            self._own = tuple(own)

    def _rows(self, key: str) -> Iterator[tuple[Table | Draft, int, int]]:
        """Yield where a key is noted: the table, its row there, and the number of its segment."""
        prefix, rest = split_key(key)
        draft = self.draft  # first: what moves on meanwhile is then found twice, and not never
        for seen in (*self._own, *self._files):
            for row in seen.table.at(prefix, rest):
                number = seen.table.columns["segment"][row]
                if seen.valid[number]:
                    yield seen.table, row, number
        for row in draft.at(prefix, rest):
            yield draft, row, draft.columns["segment"][row]

    def places(self, key: str) -> list[Place]:
        """Return the places of the replies to a request that count, unordered, each once."""
        found = dict[tuple[str, int], Place]()
        for table, row, number in self._rows(key):
            place = place_of(table, row, number)
            if self._takes(place.payer, place.code, place.cut):
                found[place[:2]] = place
        return list(found.values())

    def cut_at(self, key: str) -> int:
        """Return the highest limit at which an answer to a request was cut off; 0 for none."""
        return max((table.cut_at(row) for table, row, _ in self._rows(key)), default=0)

    def find(self, keys: Sequence[str]) -> Found:
        """Return the places of the replies to many keys at once."""
        prefix, rest = split_keys(keys)
        draft = self.draft
        segment, offset, length = np.full((3, len(keys)), -1, np.int64)
        found = Found(segment, offset, length, [])
        odd = np.zeros(len(keys), bool)
        for seen in (*self._own, *self._files):
            seen.find(prefix, rest, found, odd)
        if len(draft):
            odd |= np.array([draft.has(each) for each in prefix.tolist()], bool)
        found.several.extend(np.flatnonzero(odd).tolist())
        return found

    def count(self) -> int:
        """Count the keys with a reply; two keys whose last 64 bits are equal count as one."""
        with self.lock:
            self.freeze()
        tables = (*self._own, *self._files)
        pieces = 1 + sum(len(seen.table) for seen in tables) // _CHUNK
        bounds = [
            np.append(
                np.searchsorted(
                    seen.table.columns["prefix"],
                    np.array([(i << 64) // pieces for i in range(pieces)], np.uint64),
                ),
                len(seen.table),
            )
            for seen in tables
        ]
        count = 0
        for piece in range(pieces):
            kept = [
                seen.taken(*bound[piece : piece + 2])
                for seen, bound in zip(tables, bounds, strict=True)
            ]
            count += len(np.unique(np.concatenate(kept))) if kept else 0
        return count
