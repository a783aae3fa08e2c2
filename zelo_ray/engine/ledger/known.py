"""Keep what one process knows of a ledger: its index, and what was read or written since."""

import contextlib
import uuid
from collections.abc import Collection, Mapping, Sequence
from threading import Lock
from typing import Any

import fsspec

from zelo_ray.engine.ledger.index import Index
from zelo_ray.engine.ledger.keeping import Cover, covering, is_worth, keep_tables
from zelo_ray.engine.ledger.listing import (
    INDEX,
    Listing,
    Segment,
    lines_of,
    look,
    replies_in,
    stamp_of,
)
from zelo_ray.engine.ledger.seen import Takes
from zelo_ray.engine.ledger.table import ReplyTable
from zelo_ray.engine.ledger.table_file import read_table, write_table
from zelo_ray.errors import LedgerError

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

    def end(self) -> None:
        """Finish adding: index what was written, if that is worth it."""
        self._leave()
        if is_worth(sum(self._read_to.get(name, 0) for name in self._left)):
            self._keep()

    def _keep(self) -> None:
        """Write the index of the segments that this writer has left."""
        with contextlib.suppress(Exception), self.index.lock:  # it may be missing
            place, names = f"{self._folder}/{INDEX}", frozenset(self._left)
            self._left = []
            parts = self.index.drawn(names)
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
                keep_tables(self._fs, self._folder, self._written, _MOST_ROWS)

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
                except FileNotFoundError as error:  # segments are being compacted
                    if not retries:
                        gone = error.filename or error
                        raise LedgerError(f"{gone}: is gone; run again") from None

    def _refresh(self) -> None:
        listing = look(self._fs, self._folder)
        gone = frozenset(name for name in listing.replaced if name not in listing.segments)
        self.segments = {
            name: segment
            for name, segment in (self.segments | listing.segments).items()
            if name not in gone
        }
        self._use_tables(listing, gone)
        for name, segment in listing.segments.items():
            start = self._read_to.get(name, segment.begin)
            if name in self._covered or segment.size <= start:
                continue
            if not name.startswith(self.mine) or name not in self._read_to:
                self._take_in(name, start)

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

    def _use_tables(self, listing: Listing, gone: frozenset[str]) -> None:
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
        cover, self._covered = covering(self._folder, others, tables)
        if cover != self._cover or gone:
            self.index.use(cover, gone)
            self._cover = cover
        for name in self._covered:
            self._read_to.pop(name, None)
        used = {id(table) for table, _ in cover}
        self._tables = {
            name: table if id(table) in used else None
            for name, table in self._tables.items()
            if id(table) in used or name in listing.tables
        }
