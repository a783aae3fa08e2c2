"""Find where replies lie, as far as one process knows: tables of the ledger, and later replies."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from threading import Lock
from typing import Any

import numpy as np
from numpy.typing import NDArray

from zelo_ray.engine.ledger.draft import Draft
from zelo_ray.engine.ledger.seen import Found, Place, TableSnapshot, Takes, place_of
from zelo_ray.engine.ledger.table import ReplyTable, chunks, merged, split_key, split_keys
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
        self._files: tuple[TableSnapshot, ...] = ()
        self._own: tuple[TableSnapshot, ...] = ()
        self.draft = Draft()
        self.lock, self._naming = Lock(), Lock()

    def _seen(self, table: ReplyTable, is_present: Iterable[bool]) -> TableSnapshot:
        numbers = [self.number(segment.name) for segment in table.segments]
        return TableSnapshot.of(table, is_present, numbers, self._takes, limited=self._limited)

    def number(self, name: str) -> int:
        """Return the number of a segment."""
        with self._naming:
            number = self._numbers.setdefault(name, len(self.names))
            if number == len(self.names):
                self.names.append(name)
        return number

    @property
    def covered(self) -> list[Covered]:
        """Return what is known of segments; one may be there in pieces."""
        drafted = [self.draft.segments]
        table_segments = [
            [
                segment
                for segment, valid in zip(view.table.segments, view.valid, strict=True)
                if valid
            ]
            for view in (*self._files, *self._own)
        ]
        return [segment for part in table_segments + drafted for segment in part]

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
        views = [*self._own, self._seen(table, [True] * len(table.segments))]
        while len(views) > 1 and len(views[-2].table) <= 2 * len(views[-1].table):
            parts = [(view.table, view.valid) for view in views[-2:]]
            labels = merged(parts)
            table = ReplyTable.of([*chunks(parts, *labels)], *labels)
            views[-2:] = [self._seen(table, [True] * len(table.segments))]
        self._own = tuple(views)  # before the draft goes, so that nobody finds neither
        self.draft = Draft()

    def drawn(self, segments: frozenset[str]) -> list[tuple[ReplyTable, NDArray[np.bool_]]]:
        """Return the new rows of some segments, as parts of a new table. The lock is held."""
        self.freeze()
        parts = [
            (view.table, view.valid & [s.name in segments for s in view.table.segments])
            for view in self._own
        ]
        return [(table, keep) for table, keep in parts if keep.any()]

    def use(self, files: Sequence[tuple[ReplyTable, list[bool]]], gone: frozenset[str]) -> None:
        """Use these tables from now on, and nothing else that is known of their segments.

        Args:
            files: tables, and of each whose segments' replies are to be found in it.
            gone: segments that are to be forgotten besides.
        """
        with self.lock:
            names = set(gone).union(
                segment.name
                for table, flags in files
                for segment, valid in zip(table.segments, flags, strict=True)
                if valid
            )
            if not names.isdisjoint(segment.name for segment in self.draft.segments):
                self.freeze()
            views = []
            for view in self._own:
                valid = view.valid & [segment.name not in names for segment in view.table.segments]
                if valid.any():
                    views.append(replace(view, valid=valid))
            self._files = tuple(self._seen(table, flags) for table, flags in files)
            self._own = tuple(views)

    def _rows(self, key: str) -> Iterator[tuple[ReplyTable | Draft, int, int]]:
        """Yield where a key is noted: the table, its row there, and the number of its segment."""
        prefix, suffix = split_key(key)
        draft = self.draft  # first: what moves on meanwhile is then found twice, and not never
        for view in (*self._own, *self._files):
            for row in view.table.at(prefix, suffix):
                number = view.table.columns["segment"][row]
                if view.valid[number]:
                    yield view.table, row, number
        for row in draft.at(prefix, suffix):
            yield draft, row, draft.columns["segment"][row]

    def places(self, key: str) -> list[Place]:
        """Return the places of the replies to a request that count, unordered, each once."""
        places = dict[tuple[str, int], Place]()
        for table, row, number in self._rows(key):
            place = place_of(table, row, number)
            if self._takes(place.payer, place.code, place.cut):
                places[place[:2]] = place
        return list(places.values())

    def cut_at(self, key: str) -> int:
        """Return the highest limit at which an answer to a request was cut off; 0 for none."""
        return max((table.cut_at(row) for table, row, _ in self._rows(key)), default=0)

    def find(self, keys: Sequence[str]) -> Found:
        """Return the places of the replies to many keys at once."""
        prefix, suffix = split_keys(keys)
        draft = self.draft
        segment, offset, length = np.full((3, len(keys)), -1, np.int64)
        places = Found(segment, offset, length, [])
        odd = np.zeros(len(keys), bool)
        for view in (*self._own, *self._files):
            view.find(prefix, suffix, places, odd)
        if len(draft):
            odd |= np.array([draft.has(key_prefix) for key_prefix in prefix.tolist()], bool)
        places.several.extend(np.flatnonzero(odd).tolist())
        return places

    def count(self) -> int:
        """Count the keys with a reply; two keys whose last 64 bits are equal count as one."""
        with self.lock:
            self.freeze()
        tables = (*self._own, *self._files)
        pieces = 1 + sum(len(view.table) for view in tables) // _CHUNK
        bounds = [
            np.append(
                np.searchsorted(
                    view.table.columns["prefix"],
                    np.array([(i << 64) // pieces for i in range(pieces)], np.uint64),
                ),
                len(view.table),
            )
            for view in tables
        ]
        count = 0
        for piece in range(pieces):
            prefixes = [
                view.taken(*bound[piece : piece + 2])
                for view, bound in zip(tables, bounds, strict=True)
            ]
            count += len(np.unique(np.concatenate(prefixes))) if prefixes else 0
        return count
