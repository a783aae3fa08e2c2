"""Find where replies lie, and what they cost: an index of the segments, in SQLite.

It is a file that was made earlier, and beside it, in memory, what was read or written since. The
file is never changed: who adds to it makes another, and moves that to its place. So nobody waits
for a lock, and whoever has opened one goes on with it. It may be lost at any time: a file that does
not fit its checksum is none, of a segment nothing is taken from it unless size and last change are
what they were, and what is in no file is read from the segments into memory.
"""

import contextlib
import json
import os
import shutil
import sqlite3
import uuid
import zlib
from collections.abc import Callable, Collection, Sequence
from datetime import datetime
from operator import add, attrgetter, itemgetter
from pathlib import Path
from threading import RLock
from typing import IO, Any, NamedTuple, TypeVar
from urllib.parse import quote

import fsspec

from zelo_ray.engine.ledger.segments import Segment, count_replies, list_segments, read_segment
from zelo_ray.errors import LedgerError
from zelo_ray.records import Reply

PICO = 10**12
_VERSION = 1
_CHECKSUM_AT = 60  # SQLite's "user version": four bytes of the header, for whatever one likes
_BLOCK = 2**22
_ROWS_AT_ONCE = 5_000  # so that who looks something up need not wait for long
_MOST_PICODOLLARS = 2**60  # a million dollars for one reply, so that sums fit into 64 bits
_SCHEMA = """
create table segment(number integer primary key, name text, size integer, stamp text,
    read_to integer);
create table payer(number integer primary key, run text, judge text);
create table reply(key text, segment integer, offset integer, length integer, payer integer,
    status text, final integer, received integer, cut integer, picodollars integer,
    primary key(key, segment, offset)) without rowid;
create table damage(segment integer, offset integer, replies integer,
    primary key(segment, offset)) without rowid;
create table total(segment integer, payer integer, replies integer, picodollars integer,
    unpriced integer, dearest integer, primary key(segment, payer)) without rowid;
"""
_SUMS = """
create temp view sums as
    select segment, payer, count(*), ifnull(sum(picodollars), 0), sum(picodollars is null),
        ifnull(max(picodollars), 0)
    from main.reply group by segment, payer;
"""
_VIEWS_OF_ONE = """
create temp view replies as select * from main.reply;
create temp view damages as select * from main.damage;
create temp view totals as select * from sums;
"""
_VIEWS_OF_TWO = """
create temp view replies as select * from main.reply union all select * from kept.reply;
create temp view damages as select * from main.damage union all select * from kept.damage;
create temp view totals as select * from sums union all select * from kept.total;
"""
_NEEDED = (
    *("key", "run_id", "judge", "status", "final", "received_at"),
    *("limit", "output_tokens", "dollars"),
)
_of_row, _of_reply = itemgetter(*_NEEDED), attrgetter(*_NEEDED)

Payer = tuple[str, str]
"""Who paid for a reply: the run and the judge."""
Result = TypeVar("Result")


class Place(NamedTuple):
    """The place of a reply, and what is known of it without reading it."""

    received: int
    """in microseconds since 1970"""
    segment: str
    offset: int
    length: int
    payer: Payer
    status: str
    final: bool
    cut: int
    """the number of tokens at which the answer was cut off; 0: it was not"""


class Total(NamedTuple):
    """The total of a payer's rows."""

    replies: int
    picodollars: int
    """whole ones, so that the sum is the same in any order"""
    unpriced: int
    dearest: int
    """the picodollars of the dearest reply"""


class Damaged(NamedTuple):
    """A line that is no reply any more, and is set aside."""

    segment: str
    """its path"""
    byte: int
    """where it begins"""
    replies: int = 1
    """how many it held, as far as it tells: where a line's end is lost, two"""


class Index:
    """Places of replies by key: what files hold, and with `refresh` all. Threads may share it.

    Args:
        fs: the storage.
        folder: of the ledger.
        files: of its index, of which the first is taken that is whole.
        judges: whose replies are wanted of what the file does not hold; None: everybody's.
    """

    def __init__(
        self,
        fs: fsspec.AbstractFileSystem,
        folder: str,
        files: Sequence[Path],
        judges: Collection[str] | None = None,
    ) -> None:
        self._fs, self._folder, self._judges = fs, folder, judges
        # Of both, the first is taken first. Segments are read without the second.
        self._refreshing, self._lock = RLock(), RLock()
        self._listing = list_segments(fs, folder)
        for path in files:
            with contextlib.suppress(OSError, sqlite3.Error):
                self._open(path)
                return
        self._open(None)

    def _open(self, path: Path | None, database: Path = Path(":memory:")) -> None:
        """Open a database, and beside it the file at ``path``, if one is given."""
        self._path = path
        self._names, self._numbers = dict[int, str](), dict[str, int]()
        self._payers, self._payer_numbers = list[Payer](), dict[Payer, int]()
        self._read_to, self._next_number = dict[str, int](), 0
        self._db = sqlite3.connect(database, uri=True, check_same_thread=False)
        try:
            if not self._db.execute("select 1 from sqlite_master").fetchone():
                self._db.executescript(_SCHEMA)
            if path:
                self._attach(path)
            else:
                self._load("main")
        except BaseException:
            self.close()
            raise
        self._db.executescript(_SUMS + (_VIEWS_OF_TWO if path else _VIEWS_OF_ONE))

    def _attach(self, path: Path) -> None:
        self._file_as_opened = path.stat()
        with path.open("rb") as file:
            checksum = _checksum(file)
            file.seek(_CHECKSUM_AT)
            if file.read(len(checksum)) != checksum:
                raise sqlite3.DatabaseError(f"{path}: damaged, or of another version")
        self._db.execute("attach ? as kept", (f"file:{quote(os.fsencode(path))}?immutable=1",))
        self._load("kept")
        if not os.path.samestat(path.stat(), self._file_as_opened):
            raise sqlite3.DatabaseError(f"{path}: replaced")

    def _load(self, database: str) -> None:
        """Take in payers, and the segments that are what they were."""
        sql = f"select * from {database}.segment"  # noqa: S608 - a word of ours
        for number, name, size, stamp, read_to in self._db.execute(sql):
            self._next_number = max(self._next_number, number + 1)
            if stamp and self._listing.get(name) == Segment(size, stamp):
                self._names[number], self._numbers[name] = name, number
                self._read_to[name] = read_to
        sql = f"select run, judge from {database}.payer order by number"  # noqa: S608 - the same
        self._payers = [(run, judge) for run, judge in self._db.execute(sql)]
        self._payer_numbers = {payer: number for number, payer in enumerate(self._payers)}

    def bytes_to_read(self) -> int:
        """Return how many bytes lie in segments that the file does not hold."""
        return sum(s.size for name, s in self._listing.items() if name not in self._numbers)

    def close(self) -> None:
        """Close it."""
        self._db.close()

    def __del__(self) -> None:
        with contextlib.suppress(AttributeError):  # where it could not be opened
            self.close()

    # Taking in

    def refresh(self) -> None:
        """Take in what segments hold that was not read yet.

        Raises:
            LedgerError: another version of this program wrote here, or a segment is gone.
        """
        with self._refreshing:
            self._listing = list_segments(self._fs, self._folder)
            for name, segment in self._listing.items():
                if segment.size > self._read_to.get(name, 0):
                    self._read(name)

    def _read(self, name: str) -> None:
        end = start = self._read_to.get(name, 0)
        rows, damage = list[tuple[Any, ...]](), list[tuple[int, int]]()
        path = f"{self._folder}/{name}"
        try:
            for at, line, row in read_segment(self._fs, path, start, self._judges):
                end = at + len(line)
                if row == {}:
                    continue
                if facts := _facts(_of_row(row)) if row else None:
                    rows.append((at, len(line), *facts))
                else:
                    damage.append((at, count_replies(line)))
        except FileNotFoundError:
            raise LedgerError(f"{path}: is gone; run again") from None
        for at in range(0, len(rows), _ROWS_AT_ONCE):
            with self._lock:
                self._insert(name, rows[at : at + _ROWS_AT_ONCE])
        with self._lock:
            number = self._number(name)
            damaged = [(number, *line) for line in damage]
            self._db.executemany("insert or replace into damage values (?,?,?)", damaged)
            self._read_to[name] = end

    def add(self, segment: str, start: int, replies: Sequence[tuple[Reply, int]]) -> None:
        """Take in what was appended to a segment: replies, and the lengths of their lines."""
        rows, at = list[tuple[Any, ...]](), start
        for reply, length in replies:
            if facts := _facts(_of_reply(reply)):
                rows.append((at, length, *facts))
            at += length
        with self._lock:
            self._insert(segment, rows)
            if self._read_to.get(segment, 0) == start:  # else what lies before is still to be read
                self._read_to[segment] = at

    def _insert(self, segment: str, rows: Sequence[tuple[Any, ...]]) -> None:
        """Insert rows of offset, length, and what `_facts` gives. The lock is held."""
        number = self._number(segment)
        replies = [
            (key, number, at, length, self._payer(payer), *facts)
            for at, length, key, payer, *facts in rows
        ]
        replies.sort()  # neighbours share pages
        self._db.executemany("insert or replace into reply values (?,?,?,?,?,?,?,?,?,?)", replies)

    def _number(self, segment: str) -> int:
        if segment not in self._numbers:
            self._numbers[segment], self._names[self._next_number] = self._next_number, segment
            self._next_number += 1
        return self._numbers[segment]

    def _payer(self, payer: Payer) -> int:
        if payer not in self._payer_numbers:
            self._payer_numbers[payer] = len(self._payers)
            self._payers.append(payer)
        return self._payer_numbers[payer]

    # Looking up

    def find(self, keys: Sequence[str]) -> dict[str, list[Place]]:
        """Return the places of all replies to some requests, also of those that answer nothing."""

        def select() -> dict[str, list[Place]]:
            found, names, payers = dict[str, list[Place]](), self._names, self._payers
            sql = "select * from replies where key in (select value from json_each(?))"
            for (
                key,
                number,
                offset,
                length,
                payer,
                status,
                final,
                received,
                cut,
                _,
            ) in self._db.execute(sql, (json.dumps([*keys]),)):
                if name := names.get(number):
                    place = Place(
                        *(received, name, offset, length),
                        *(payers[payer], status, bool(final), cut),
                    )
                    found.setdefault(key, []).append(place)
            return found

        return self._query(select)

    def totals(self) -> dict[Payer, Total]:
        """Return the totals by payer."""

        def select() -> dict[Payer, Total]:
            totals = dict[Payer, Total]()
            for number, payer, *row in self._db.execute("select * from totals"):
                if number in self._names:
                    one = totals.get(self._payers[payer], Total(0, 0, 0, 0))
                    replies, picodollars, unpriced = map(add, one[:3], row[:3])
                    dearest = max(one.dearest, row[3])
                    totals[self._payers[payer]] = Total(replies, picodollars, unpriced, dearest)
            return totals

        return self._query(select)

    def damaged(self) -> list[Damaged]:
        """Return the damaged lines."""

        def select() -> list[Damaged]:
            return sorted(
                Damaged(f"{self._folder}/{self._names[number]}", *line)
                for number, *line in self._db.execute("select * from damages")
                if number in self._names
            )

        return self._query(select)

    def _query(self, select: Callable[[], Result]) -> Result:
        """Look up. If the file cannot be read any more, segments are read into memory first."""
        with self._lock:
            try:
                self._refuse_changed_file()
                return select()
            except (sqlite3.Error, OSError):
                if self._path is None:
                    raise
        with self._refreshing, self._lock:
            if self._path:
                self.close()
                self._listing = {}
                self._open(None)
                self.refresh()
            return select()

    def _refuse_changed_file(self) -> None:
        """Raise an error if the file was written to; it may be removed, or replaced."""
        if self._path is None:
            return
        with contextlib.suppress(FileNotFoundError):
            before, now = self._file_as_opened, self._path.stat()
            is_changed = (before.st_size, before.st_mtime_ns) != (now.st_size, now.st_mtime_ns)
            if os.path.samestat(before, now) and is_changed:
                raise sqlite3.DatabaseError(f"{self._path}: changed")

    def distrust(self, segment: str) -> None:
        """See to it that a segment, which does not hold what the index says, is read again."""
        with contextlib.suppress(Exception):  # where nothing may be written, others find out, too
            if "file" in self._fs.protocol:
                os.utime(f"{self._folder}/{segment}")  # so that it fits no index any more
            elif self._path:
                self._path.unlink()

    # Making a file

    def write(self, path: Path) -> None:
        """Make a new file of the one that is open, and of what it does not hold; close all."""
        new_path = path.with_name(f"{path.name}.{uuid.uuid4().hex[:8]}.new")
        try:
            if self._path:
                shutil.copyfile(self._path, new_path)
            self.close()
            self._open(None, new_path)
            self._db.executescript(
                "pragma journal_mode = off; pragma synchronous = off; pragma cache_size = -65536"
            )
            self.refresh()
            self._keep_names()
            self.close()
            with new_path.open("r+b") as file:
                checksum = _checksum(file)
                file.seek(_CHECKSUM_AT)
                file.write(checksum)
            new_path.replace(path)
        finally:
            self.close()
            new_path.unlink(missing_ok=True)

    def _keep_names(self) -> None:
        """Write the names of segments and payers, and drop segments that are not what they were."""
        before = {number for (number,) in self._db.execute("select number from segment")}
        self._db.execute("delete from segment")
        self._db.execute("delete from payer")
        for number, name in self._names.items():
            segment = self._listing[name]
            row = (number, name, segment.size, segment.stamp, self._read_to[name])
            self._db.execute("insert into segment values (?,?,?,?,?)", row)
        payers = [(number, *payer) for number, payer in enumerate(self._payers)]
        self._db.executemany("insert into payer values (?,?,?)", payers)
        if before - self._names.keys():
            gone = "where segment not in (select number from segment)"
            self._db.execute(f"delete from reply {gone}")  # noqa: S608 - a word of ours
            self._db.execute(f"delete from damage {gone}")  # noqa: S608 - the same
        self._db.execute("delete from total")
        self._db.execute("insert into total select * from totals")
        self._db.commit()


def _facts(needed: tuple[Any, ...]) -> tuple[Any, ...] | None:
    """Return what the index holds of a reply, beside where it lies; None if it makes no sense."""
    key, run_id, judge, status, final, received_at, limit, output_tokens, dollars = needed
    try:
        cut = int(limit or output_tokens) if status == "truncated" else 0
        received = 0  # for what no call was made
        if received_at:
            received = round(datetime.fromisoformat(received_at).timestamp() * 10**6)
        picodollars = None if dollars is None else min(round(dollars * PICO), _MOST_PICODOLLARS)
    except (ValueError, TypeError, OverflowError):
        return None
    return key, (run_id, judge), status, bool(final), received, cut, picodollars


def _checksum(file: IO[bytes]) -> bytes:
    """Return the checksum of a file of this version, without the place where it is kept."""
    file.seek(0)
    header = bytearray(file.read(100))
    header[_CHECKSUM_AT : _CHECKSUM_AT + 4] = bytes(4)
    checksum = zlib.crc32(header, _VERSION)
    while data := file.read(_BLOCK):
        checksum = zlib.crc32(data, checksum)
    return checksum.to_bytes(4, "big")
