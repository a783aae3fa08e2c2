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
from collections.abc import Sequence
from datetime import datetime
from operator import attrgetter, itemgetter
from pathlib import Path
from threading import RLock
from typing import IO, Any, NamedTuple
from urllib.parse import quote

import fsspec

from zelo_ray.engine.ledger.segments import count_replies, list_segments, read_segment
from zelo_ray.errors import LedgerError
from zelo_ray.records import Reply

PICO = 10**12
_VERSION = 2
_WHOLE = 0x2144DF1C  # the CRC-32 of anything that ends in its own
_BLOCK = 2**22
_ROWS_AT_ONCE = 5_000  # so that who looks something up need not wait for long
_MOST_PICODOLLARS = 2**60  # a million dollars for one reply, so that sums fit into 64 bits
_SCHEMA = """
create table segment(number integer primary key autoincrement, name text unique, size integer,
    stamp text, read_to integer not null default 0);
create table payer(number integer primary key, run text, judge text, unique(run, judge));
create table reply(key text, segment integer, offset integer, length integer, payer integer,
    status text, final integer, received integer, cut integer, picodollars integer,
    primary key(key, segment, offset)) without rowid;
create table damage(segment integer, offset integer, replies integer,
    primary key(segment, offset)) without rowid;
"""
# Rows of a segment that is gone, or not what it was, have a number that names none any more.
_PLACES = """select key, received, name, offset, length, run, judge, status, final, cut, payer,
    picodollars from {}.reply cross join main.segment as s on s.number = segment
    cross join main.payer as p on p.number = payer"""
_DAMAGE = "select name, offset, replies from {}.damage join main.segment on number = segment"
_COLUMNS = "key, received, name, offset, length, run, judge, status, final, cut"
_NEEDED = (
    *("key", "run_id", "judge", "status", "final", "received_at"),
    *("limit", "output_tokens", "dollars"),
)
_of_row, _of_reply = itemgetter(*_NEEDED), attrgetter(*_NEEDED)


class Place(NamedTuple):
    """The place of a reply, and what is known of it without reading it."""

    received: int
    """in microseconds since 1970"""
    segment: str
    offset: int
    length: int
    run_id: str
    judge: str
    status: str
    final: int
    cut: int
    """the number of tokens at which the answer was cut off; 0: it was not"""


class Damaged(NamedTuple):
    """A line that is no reply any more, and is set aside."""

    segment: str
    """its path"""
    byte: int
    """where it begins"""
    replies: int = 1
    """how many it held, as far as it tells: where a line's end is lost, two"""


class Total(NamedTuple):
    """The total of a payer's rows."""

    replies: int
    picodollars: int
    """whole ones, so that the sum is the same in any order"""
    unpriced: int
    dearest: int
    """the picodollars of the dearest reply"""


class Index:
    """Places of replies by key: what a file holds, and with `refresh` all. Threads may share it.

    Of the ``files`` the first is taken that is whole.
    """

    def __init__(self, fs: fsspec.AbstractFileSystem, folder: str, files: Sequence[Path]) -> None:
        self._fs, self._folder, self._lock = fs, folder, RLock()
        for path in files:
            with contextlib.suppress(OSError, sqlite3.Error):
                if path.exists():
                    self._open(path)
                    return
        self._open()

    def _open(self, kept: Path | None = None, database: Path | str = ":memory:") -> None:
        """Open a database, and beside it a file that is kept; forget segments that are no more."""
        self._kept, self._listing = kept, list_segments(self._fs, self._folder)
        self._db = sqlite3.connect(database, check_same_thread=False, uri=True)
        try:
            if not self._db.execute("select 1 from sqlite_master").fetchone():
                self._db.executescript(_SCHEMA)
            if kept:
                self._attach(kept)
            for name, view in (("places", _PLACES), ("damages", _DAMAGE)):
                parts = map(view.format, ["main", "kept"] if kept else ["main"])
                self._db.execute(f"create temp view {name} as {' union all '.join(parts)}")
            for name, *seen in self._db.execute("select name, size, stamp from segment").fetchall():
                segment = self._listing.get(name)
                if not segment or not segment.stamp or [segment.size, segment.stamp] != seen:
                    self._db.execute("delete from segment where name = ?", (name,))
        except BaseException:
            self.close()
            raise

    def _attach(self, path: Path) -> None:
        with path.open("rb") as file:
            self._kept_stat = os.fstat(file.fileno())
            if _checksum(file) != _WHOLE:
                raise sqlite3.DatabaseError(f"{path}: damaged, or of another version")
        self._db.execute("attach ? as kept", (f"file:{quote(os.fsencode(path))}?immutable=1",))
        for table in ("segment", "payer"):
            self._db.execute(f"insert into {table} select * from kept.{table}")  # noqa: S608 - ours
        if not os.path.samestat(path.stat(), self._kept_stat):
            raise sqlite3.DatabaseError(f"{path}: replaced")

    def bytes_to_read(self) -> int:
        """Return how many bytes lie in segments that the file does not hold."""
        read_to = self._read_to()
        return sum(segment.size for name, segment in self._listing.items() if name not in read_to)

    def close(self) -> None:
        """Close it."""
        self._db.close()

    def __del__(self) -> None:
        with contextlib.suppress(AttributeError):  # where it could not be opened
            self.close()

    # Taking in

    def _read_to(self) -> dict[str, int]:
        """Return how far each segment has been read."""
        with self._lock:
            return dict(self._db.execute("select name, read_to from segment").fetchall())

    def refresh(self) -> None:
        """Take in what segments hold that was not read yet.

        Raises:
            LedgerError: another version of this program wrote here, or a segment is gone.
        """
        self._listing, read_to = list_segments(self._fs, self._folder), self._read_to()
        for name, segment in self._listing.items():
            if segment.size > (start := read_to.get(name, 0)):
                self._read(name, start)

    def _read(self, name: str, start: int) -> None:
        rows, damage, end = list[tuple[Any, ...]](), list[tuple[int, int]](), start
        path = f"{self._folder}/{name}"
        try:
            for at, line, row in read_segment(self._fs, path, start):
                end = at + len(line)
                if row and (facts := _facts(_of_row(row))):
                    rows.append((at, len(line), *facts))
                else:
                    damage.append((at, count_replies(line)))
        except FileNotFoundError:
            raise LedgerError(f"{path}: is gone; run again") from None
        for at in range(0, len(rows), _ROWS_AT_ONCE):
            self._insert(name, rows[at : at + _ROWS_AT_ONCE])
        with self._lock:
            number = self._number("segment", name=name)
            damaged = [(number, *line) for line in damage]
            self._db.executemany("insert or replace into damage values (?,?,?)", damaged)
            self._db.execute("update segment set read_to = ? where number = ?", (end, number))

    def add(self, segment: str, start: int, replies: Sequence[tuple[Reply, int]]) -> None:
        """Take in what was appended to a segment: replies, and the lengths of their lines."""
        rows, at = list[tuple[Any, ...]](), start
        for reply, length in replies:
            if facts := _facts(_of_reply(reply)):
                rows.append((at, length, *facts))
            at += length
        with self._lock:
            self._insert(segment, rows)
            # Where it was read less far, what lies before is still to be read.
            sql = "update segment set read_to = ? where name = ? and read_to = ?"
            self._db.execute(sql, (at, segment, start))

    def _insert(self, segment: str, rows: Sequence[tuple[Any, ...]]) -> None:
        """Insert rows of offset, length, and what `_facts` gives."""
        with self._lock:
            number = self._number("segment", name=segment)
            payers = {row[3:5] for row in rows}
            numbers = {each: self._number("payer", run=each[0], judge=each[1]) for each in payers}
            replies = [
                (key, number, at, length, numbers[run, judge], *facts)
                for at, length, key, run, judge, *facts in rows
            ]
            replies.sort()  # neighbours share pages
            self._db.executemany(
                "insert or replace into reply values (?,?,?,?,?,?,?,?,?,?)", replies
            )

    def _number(self, table: str, **row: str) -> int:
        """Return the number of a segment or of a payer, which may be new."""
        names, values = ", ".join(row), [*row.values()]
        marks = ", ".join("?" * len(row))
        self._db.execute(f"insert or ignore into {table}({names}) values ({marks})", values)  # noqa: S608 - words of ours
        select = f"select number from {table} where ({names}) = ({marks})"  # noqa: S608 - the same
        return int(self._db.execute(select, values).fetchone()[0])

    # Looking up

    def find(self, keys: Sequence[str]) -> dict[str, list[Place]]:
        """Return the places of all replies to some requests, also of those that answer nothing."""
        found = dict[str, list[Place]]()
        sql = f"select {_COLUMNS} from places where key in (select value from json_each(?))"  # noqa: S608 - words of ours
        for key, *place in self._select(sql, json.dumps([*keys])):
            found.setdefault(key, []).append(Place(*place))
        return found

    def totals(self) -> dict[tuple[str, str], Total]:
        """Return the totals by run and judge."""
        sums = "count(*), ifnull(sum(picodollars), 0), sum(picodollars is null)"
        sql = f"select run, judge, {sums}, ifnull(max(picodollars), 0) from places group by payer"  # noqa: S608 - the same
        return {(run, judge): Total(*total) for run, judge, *total in self._select(sql)}

    def damaged(self) -> list[Damaged]:
        """Return the damaged lines."""
        rows = self._select("select * from damages order by name, offset")
        return [Damaged(f"{self._folder}/{name}", *line) for name, *line in rows]

    def _select(self, sql: str, *values: str) -> list[tuple[Any, ...]]:
        """Look up. If the file cannot be read any more, segments are read into memory first."""
        with self._lock:
            try:
                self._refuse_changed_file()
                return self._db.execute(sql, values).fetchall()
            except (sqlite3.Error, OSError):
                if self._kept is None:
                    raise
            self.close()
            self._open()
            self.refresh()
            return self._db.execute(sql, values).fetchall()

    def _refuse_changed_file(self) -> None:
        """Raise an error if the file was written to; it may be removed, or replaced."""
        if self._kept:
            with contextlib.suppress(FileNotFoundError):
                before, now = self._kept_stat, self._kept.stat()
                changed = (before.st_size, before.st_mtime_ns) != (now.st_size, now.st_mtime_ns)
                if os.path.samestat(before, now) and changed:
                    raise sqlite3.DatabaseError(f"{self._kept}: changed")

    def distrust(self, segment: str) -> None:
        """See to it that a segment, which does not hold what the index says, is read again."""
        with contextlib.suppress(Exception):  # where nothing may be written, others find out, too
            if "file" in self._fs.protocol:
                os.utime(f"{self._folder}/{segment}")  # so that it fits no index any more
            elif self._kept:
                self._kept.unlink()

    # Making a file

    def write(self, path: Path) -> None:
        """Make a new file of the one that is open, and of what it does not hold; close all."""
        new_path = path.with_name(f"{path.name}.{uuid.uuid4().hex[:8]}.new")
        self.close()
        try:
            if self._kept:
                shutil.copyfile(self._kept, new_path)
            self._open(None, new_path)
            self._db.executescript(
                "pragma journal_mode = off; pragma synchronous = off; pragma cache_size = -65536"
            )
            for table in ("reply", "damage"):
                gone = "where segment not in (select number from segment)"
                self._db.execute(f"delete from {table} {gone}")  # noqa: S608 - words of ours
            self.refresh()
            seen = [(segment.size, segment.stamp, name) for name, segment in self._listing.items()]
            self._db.executemany("update segment set size = ?, stamp = ? where name = ?", seen)
            self._db.commit()
            self.close()
            with new_path.open("r+b") as file:
                file.write(_checksum(file).to_bytes(4, "little"))
            new_path.replace(path)
        finally:
            self.close()
            new_path.unlink(missing_ok=True)


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
    return key, run_id, judge, status, bool(final), received, cut, picodollars


def _checksum(file: IO[bytes]) -> int:
    checksum = _VERSION
    while data := file.read(_BLOCK):
        checksum = zlib.crc32(data, checksum)
    return checksum
