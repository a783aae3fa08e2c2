"""Find where the replies of a ledger lie: its index, and what was read or written since."""

import contextlib
import uuid
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from threading import Lock
from typing import Any

import fsspec
import numpy as np
from numpy.typing import NDArray

from zelo_ray.engine.ledger.draft import Draft
from zelo_ray.engine.ledger.index_upkeep import Cover, choose_tables, is_worth, merge_own_tables
from zelo_ray.engine.ledger.listing import (
    INDEX,
    Listing,
    Segment,
    lines_of,
    list_folder,
    replies_in,
    stamp_of,
)
from zelo_ray.engine.ledger.snapshots import FoundRows, Place, TableSnapshot, Takes, place_of
from zelo_ray.engine.ledger.table import ReplyTable, chunks, merged, split_key, split_keys
from zelo_ray.engine.ledger.table_file import read_table, write_table
from zelo_ray.engine.ledger.totals import Covered
from zelo_ray.errors import LedgerError

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

    def _view(self, table: ReplyTable, is_present: Iterable[bool]) -> TableSnapshot:
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
    def covered_segments(self) -> list[Covered]:
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
        views = [*self._own, self._view(table, [True] * len(table.segments))]
        while len(views) > 1 and len(views[-2].table) <= 2 * len(views[-1].table):
            parts = [(view.table, view.valid) for view in views[-2:]]
            labels = merged(parts)
            table = ReplyTable.of([*chunks(parts, *labels)], *labels)
            views[-2:] = [self._view(table, [True] * len(table.segments))]
        self._own = tuple(views)  # before the draft goes, so that nobody finds neither
        self.draft = Draft()

    def rows_of_segments(
        self, segments: frozenset[str]
    ) -> list[tuple[ReplyTable, NDArray[np.bool_]]]:
        """Return the new rows of some segments, as parts of a new table. The lock is held."""
        self.freeze()
        parts = [
            (view.table, view.valid & [s.name in segments for s in view.table.segments])
            for view in self._own
        ]
        return [(table, keep) for table, keep in parts if keep.any()]

    def use_tables(self, files: Sequence[tuple[ReplyTable, list[bool]]]) -> None:
        """Use these tables from now on, and nothing else that is known of their segments.

        Args:
            files: tables, and of each whose segments' replies are to be found in it.
        """
        with self.lock:
            names = {
                segment.name
                for table, flags in files
                for segment, valid in zip(table.segments, flags, strict=True)
                if valid
            }
            if not names.isdisjoint(segment.name for segment in self.draft.segments):
                self.freeze()
            views = []
            for view in self._own:
                valid = view.valid & [segment.name not in names for segment in view.table.segments]
                if valid.any():
                    views.append(replace(view, valid=valid))
            self._files = tuple(self._view(table, flags) for table, flags in files)
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

    def find(self, keys: Sequence[str]) -> FoundRows:
        """Return the places of the replies to many keys at once."""
        prefix, suffix = split_keys(keys)
        draft = self.draft
        segment, offset, length = np.full((3, len(keys)), -1, np.int64)
        places = FoundRows(segment, offset, length, [])
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
                view.keys_that_count(*bound[piece : piece + 2])
                for view, bound in zip(tables, bounds, strict=True)
            ]
            count += len(np.unique(np.concatenate(prefixes))) if prefixes else 0
        return count


_LOOKS = 3
_TABLE_BYTES = 32 * 2**20  # of segments that a writer has left, before it writes their index
_MOST_ROWS = 2_000_000  # of a table that is made while a run waits


class LedgerIndex:
    """Segments, and where in them replies lie.

    Args:
        fs: the storage.
        folder: of the ledger.
        takes: which replies count.
        limited: whether that depends on where an answer was cut off.
        judges: whose replies are wanted; None: everybody's.
        run_id: the run that writes.
    """

    def __init__(
        self,
        fs: fsspec.AbstractFileSystem,
        folder: str,
        takes: Takes,
        *,
        limited: bool,
        judges: Collection[str] | None,
        run_id: str,
    ) -> None:
        self._fs, self._folder, self._judges = fs, folder, judges
        self.index = Index(takes, limited=limited)
        self.segments = dict[str, Segment]()
        self._writes = bool(run_id)
        self.mine = f"{run_id}-{uuid.uuid4().hex[:8]}"
        """what the names of this writer's segments begin with"""
        self._read_to = dict[str, int]()  # of segments that are in no table of the ledger
        self._tables = dict[str, ReplyTable | None]()
        self._cover: Cover = []
        self._covered = set[str]()
        self._current, self._left = "", list[str]()
        self._holed = set[str]()
        """own segments of which not every line came in once, in order: their table is no good"""
        self._looking = Lock()  # of its own: appends do not wait for it
        self._written = dict[str, ReplyTable]()

    def add(self, segment: str, start: int, rows: Sequence[tuple[Mapping[str, Any], int]]) -> None:
        """Take in what this process has appended: rows, and the lengths of their lines."""
        if self._read_to.get(segment, 0) != start:  # an upload failed, or it was read meanwhile
            self._holed.add(segment)
        with self.index.lock:
            for row, length in rows:
                self.index.add(segment, start, length, row)
                start += length
        self._read_to[segment] = start
        if segment != self._current:
            self._leave()
            self._current = segment
            if (
                self._left
                and sum(self._read_to.get(name, 0) for name in self._left) >= _TABLE_BYTES
            ):
                self._keep()

    def _leave(self) -> None:
        self._left += [self._current] if self._current else []

    def finish(self) -> None:
        """Finish adding: index what was written, if that is worth it."""
        self._leave()
        if is_worth(sum(self._read_to.get(name, 0) for name in self._left)):
            self._keep()

    def _keep(self) -> None:
        """Write the index of the segments that this writer has left."""
        with contextlib.suppress(Exception), self.index.lock:  # it may be missing
            place, names = f"{self._folder}/{INDEX}", frozenset(self._left)
            self._left = []
            parts = self.index.rows_of_segments(names)
            for segment in (segment for table, _ in parts for segment in table.segments):
                if segment.name in names:
                    info = self._fs.info(f"{self._folder}/{segment.name}")
                    is_whole = segment.name not in self._holed
                    is_whole &= info["size"] == self._read_to.get(segment.name)
                    segment.stamp = stamp_of(info) if is_whole else ""
            if not parts:
                return
            name = write_table(self._fs, place, parts)
            if (table := read_table(self._fs, place, name)) is not None:
                self._written[name] = table
                merge_own_tables(self._fs, self._folder, self._written, _MOST_ROWS)

    def refresh(self) -> None:
        """Take in what other writers have added since the last look.

        Raises:
            LedgerError: another version of this program wrote here.
        """
        with self._looking:
            for retries in reversed(range(_LOOKS)):
                try:
                    self._refresh()
                    break
                except FileNotFoundError as error:  # tables are being merged
                    if not retries:
                        gone = error.filename or error
                        raise LedgerError(f"{gone}: is gone; run again") from None

    def _refresh(self) -> None:
        listing = list_folder(self._fs, self._folder)
        self.segments |= listing.segments
        self._use_tables(listing)
        for name, segment in listing.segments.items():
            start = self._read_to.get(name, 0)
            if name in self._covered or segment.size <= start:
                continue
            if not name.startswith(self.mine) or name not in self._read_to:
                self._take_in(name, start)
        if not self._writes:  # many keys are looked up at once in a table, one by one in a draft
            with self.index.lock:
                self.index.freeze()

    def _take_in(self, name: str, start: int) -> None:
        if name.startswith(self.mine):
            self._holed.add(name)
        for at, line, row in lines_of(self._fs, f"{self._folder}/{name}", start, self._judges):
            with self.index.lock:
                if row is None:
                    self.index.draft.set_aside(name, at, len(line), replies_in(line))
                elif row:
                    self.index.add(name, at, len(line), row)
            self._read_to[name] = at + len(line)

    def _use_tables(self, listing: Listing) -> None:
        """Use the tables of the index, and beside them only what was read here."""
        place = f"{self._folder}/{INDEX}"
        for name in listing.tables:
            if name in self._written:
                self._tables[name] = self._written[name]
            elif name not in self._tables:
                self._tables[name] = read_table(self._fs, place, name)
        tables = [table for table in self._tables.values() if table is not None]
        names = {self._current, *self._left}  # which may grow, whoever has indexed them meanwhile
        others = {name: segment for name, segment in self.segments.items() if name not in names}
        cover, self._covered = choose_tables(self._folder, others, tables)
        if cover != self._cover:
            self.index.use_tables(cover)
            self._cover = cover
        for name in self._covered:
            self._read_to.pop(name, None)
        used = {id(table) for table, _ in cover}
        self._tables = {
            name: table if id(table) in used else None
            for name, table in self._tables.items()
            if id(table) in used or name in listing.tables
        }
