"""The ledger: every reply that was paid for, durable before anything else sees it.

It is a folder of append-only segments of JSON lines, one reply a line, that pyarrow reads alone.
Each writer has segments of its own, so writers never meet. On a local disk `Ledger.append` returns
once the lines are synced to it; in an object store, once they are uploaded. A line that is damaged
is set aside, wherever it lies: what it held is asked again.

An index says where replies lie, and may be lost at any time: see `index`.
"""

import contextlib
import secrets
import uuid
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import fsspec
import orjson

from zelo_ray.engine.clock import CLOCK, Clock
from zelo_ray.engine.durable import explain_file_errors, write_durably
from zelo_ray.engine.ledger.index import PICO, Damaged, Place, Total
from zelo_ray.engine.ledger.index_files import open_index, update_index
from zelo_ray.engine.ledger.segments import (
    FOLDER,
    ledger_folder,
    list_segments,
    parse_row,
    read_segment,
    reply_from_row,
    reply_to_line,
)
from zelo_ray.engine.ledger.writing import SegmentWriter, drop_reserves, open_writer
from zelo_ray.errors import LedgerError
from zelo_ray.files.wording import counted
from zelo_ray.records import Reply

__all__ = [
    "FOLDER",
    "Damaged",
    "Ledger",
    "Paid",
    "describe_damage",
    "drop_reserves",
    "read_rows",
    "salt_of",
    "sum_paid",
    "update_index",
]
_VERSION = 2
"""To be raised when words of prompts change: then old answers are to other questions."""
_FILE = "_prompts.json"  # readers of a folder of data pass over names that begin so
_DISK_GAP, _STORE_GAP = 2**14, 2**16  # bytes between two lines up to which they are read together


class Ledger:
    """The replies under one output directory or URL.

    Args:
        out: directory or URL; the ledger lives in its folder ``replies``.
        run_id: the run that writes, whose name replies carry; without it the ledger is only read.
        retry: statuses that, in replies of *other* runs, count as missing.
        limits: by judge, the tokens that its answers may have by now: one that was cut off at fewer
            counts as missing.
        clock: the time, by which failed uploads are tried again.

    Of several replies to one request the first that is ``ok`` counts, else the last: by when they
    were received, wherever they lie. A line that is damaged answers nothing. One thread may look
    while another appends.

    Raises:
        LedgerError: another version of this program wrote here, or the folder cannot be used.
    """

    def __init__(
        self,
        out: str,
        run_id: str = "",
        retry: Collection[str] = (),
        limits: Mapping[str, int] = {},
        *,
        clock: Clock = CLOCK,
    ) -> None:
        self._fs, self._folder = ledger_folder(out)
        self._out, self._run_id = out, run_id
        self._retry, self._limits = frozenset(retry), limits
        self._writer: SegmentWriter | None = None
        self._index = open_index(self._fs, self._folder)
        if run_id:
            name = f"{self._folder}/{run_id}-{uuid.uuid4().hex[:8]}"
            self._writer = open_writer(self._fs, name, clock)
            try:
                _ = self.salt  # done now rather than between calls
            except BaseException:
                self.close()
                raise

    @cached_property
    def salt(self) -> str:
        """Return the salt of the codes in this ledger's prompts."""
        return salt_of(self._out, keep=self._writer is not None)

    @property
    def storage_full(self) -> bool:
        """Return whether storage is so full that no further call may be made."""
        return self._writer is not None and self._writer.storage_full

    @property
    def damaged(self) -> list[Damaged]:
        """Return the damaged lines, which are set aside."""
        return self._index.damaged()

    def has(self, key: str) -> bool:
        """Return whether the ledger holds a reply for this key."""
        return self.contains([key])[0]

    def contains(self, keys: Sequence[str]) -> list[bool]:
        """Return for each of these keys whether the ledger holds a reply."""
        places = self._index.find(keys)
        return [any(map(self._counts, places.get(key, ()))) for key in keys]

    def cut_at(self, key: str) -> int:
        """Return the highest limit at which an answer to this request was cut off; 0 for none."""
        places = self._index.find([key]).get(key, ())
        return max((place.cut for place in places), default=0)

    def is_own(self, key: str) -> bool:
        """Return whether the reply for this key was paid for by the run that writes."""
        place = self._best(self._index.find([key]).get(key, ()))
        return place is not None and place.run_id == self._run_id

    def read(self, keys: Sequence[str]) -> list[Reply]:
        """Return the replies for these keys, in their order.

        Raises:
            KeyError: a key has no reply.
            LedgerError: a line is not any more what it was when it was first seen.
        """
        found = self._index.find(keys)
        best = [self._best(found.get(key, ())) for key in keys]
        places = [place for place in best if place]
        if len(places) < len(keys):
            raise KeyError(keys[best.index(None)])
        lines = _read_lines_at(
            self._fs, [(f"{self._folder}/{p.segment}", p.offset, p.length) for p in places]
        )
        replies = list[Reply]()
        for key, place, line in zip(keys, places, lines, strict=True):
            if isinstance(line, Exception):
                why = "is gone" if isinstance(line, FileNotFoundError) else repr(line)
                raise LedgerError(f"{self._folder}/{place.segment}: {why}")
            if not (row := parse_row(line)) or row["key"] != key:
                self._index.distrust(place.segment)
                raise LedgerError(
                    f"{self._folder}/{place.segment}: the reply at byte {place.offset:,} has been "
                    "damaged since this run began; run again to request it again"
                )
            replies.append(reply_from_row(row))
        return replies

    def _best(self, places: Sequence[Place]) -> Place | None:
        """Return the place of the reply that counts: the first one that is ok, else the last."""
        counting = [place for place in places if self._counts(place)]
        good = [place for place in counting if place.status == "ok"]
        return min(good) if good else max(counting, default=None)

    def _counts(self, place: Place) -> bool:
        """Return whether a reply counts with the options of this ledger."""
        if place.status == "truncated" and place.cut < self._limits.get(place.judge, 0):
            return False
        is_wanted = place.status not in self._retry or place.run_id == self._run_id
        return bool(place.final) and is_wanted

    def append(self, replies: Sequence[Reply]) -> None:
        """Keep replies. They are durable when this returns.

        Raises:
            LedgerError: they could not be kept, or there is no room for more.
        """
        if self._writer is None:
            raise LedgerError(f"{self._folder} was opened for reading only")
        lines = [reply_to_line(reply) for reply in replies]
        path, start = self._writer.append(b"".join(lines))
        segment = path.removeprefix(f"{self._folder}/")
        self._index.add(segment, start, [*zip(replies, map(len, lines), strict=True)])

    def refresh(self) -> None:
        """Take in what other writers have added since the last look.

        Raises:
            LedgerError: another version of this program wrote here.
        """
        self._index.refresh()

    def close(self) -> None:
        """Close files. What was appended is durable already."""
        self._index.close()
        if self._writer is not None:
            self._writer.close()
            self._writer = None


def salt_of(out: str, *, keep: bool = True) -> str:
    """Return what the codes in the prompts of a ledger follow from; draw it for a new one.

    It stands in no text that a judge is to read; if it is lost, new codes are as good, and no key
    changes. With ``keep`` a new one is written there.

    Raises:
        LedgerError: it cannot be read or written, or the ledger was asked by other prompts.
    """
    fs, folder = ledger_folder(out)
    name, data = f"{folder}/{_FILE}", b""
    with explain_file_errors(name), contextlib.suppress(FileNotFoundError):
        data = fs.cat_file(name)
    with contextlib.suppress(ValueError, KeyError, TypeError):  # damaged, or none
        record = orjson.loads(data)
        version, salt = int(record["version"]), str(record["salt"])
        if version != _VERSION:
            raise LedgerError(
                f"{name}: this ledger was built with prompt version {version}, and this zelo_ray "
                f"uses {_VERSION}; name another --out or --ledger"
            )
        return salt
    salt = secrets.token_hex(16)
    if keep:
        write_durably(fs, name, orjson.dumps({"version": _VERSION, "salt": salt}))
    return salt


@dataclass(frozen=True, slots=True)
class Paid:
    """The totals of a ledger's rows, by run and judge, and its damaged lines."""

    totals: Mapping[tuple[str, str], Total]
    damaged: Sequence[Damaged]

    def dollars(self, run_id: str | None = None, judges: Collection[str] | None = None) -> float:
        """Return the US dollars of a run and of some judges, or of all, without damaged lines."""
        picodollars = (
            total.picodollars
            for (run, judge), total in self.totals.items()
            if run_id in (None, run) and (judges is None or judge in judges)
        )
        return sum(picodollars) / PICO

    def unpriced(self, run_id: str | None = None) -> int:
        """Count the answers of unknown price, of a run or of all."""
        totals = self.totals.items()
        return sum(total.unpriced for (run, _), total in totals if run_id in (None, run))

    @property
    def damage_dollars(self) -> float:
        """Return what damaged lines count for, as their cost is not known: the dearest row each."""
        dearest = max((total.dearest for total in self.totals.values()), default=0)
        return dearest * sum(line.replies for line in self.damaged) / PICO

    @property
    def all_dollars(self) -> float:
        """Return the US dollars of all runs, with those of damage."""
        return self.dollars() + self.damage_dollars


def sum_paid(out: str) -> Paid:
    """Return what was paid for the replies under an output directory or URL.

    Raises:
        LedgerError: another version of this program wrote here.
    """
    index = open_index(*ledger_folder(out))
    paid = Paid(index.totals(), index.damaged())
    index.close()
    return paid


def read_rows(out: str) -> Iterator[Reply]:
    """Yield every row of the ledger, unordered: also rows that another reply replaced.

    Lines that are damaged are passed over.

    Raises:
        LedgerError: another version of this program wrote here.
    """
    fs, folder = ledger_folder(out)
    for name in list_segments(fs, folder):
        for _, _, row in read_segment(fs, f"{folder}/{name}"):
            if row is not None:
                yield reply_from_row(row)


def describe_damage(damaged: Sequence[Damaged]) -> str:
    """Describe damaged lines in a sentence, which names the first."""
    first, lines = damaged[0], counted(len(damaged), "damaged line", "damaged lines")
    place = f"{FOLDER}/{first.segment.rpartition('/')[2]} at byte {first.byte:,}"
    return f"the ledger holds {lines}, set aside and asked again: {place}"


def _read_lines_at(
    fs: fsspec.AbstractFileSystem, places: Sequence[tuple[str, int, int]]
) -> list[bytes | Exception]:
    """Return the lines at some places, or for each the error that prevents reading it.

    A place is a path, where the line begins in bytes, and its length.
    """
    is_local = "file" in fs.protocol
    gap = _DISK_GAP if is_local else _STORE_GAP
    paths, begins, ends = list[str](), list[int](), list[int]()
    members = list[list[int]]()  # of each read, the places in it
    for number in sorted(range(len(places)), key=places.__getitem__):
        path, begin, length = places[number]
        if not (paths and paths[-1] == path and begin <= ends[-1] + gap):
            paths.append(path)
            begins.append(begin)
            ends.append(begin)
            members.append([])
        ends[-1] = max(ends[-1], begin + length)
        members[-1].append(number)
    chunks: Sequence[bytes | Exception] = []
    if is_local:
        chunks = [*map(_read_disk, paths, begins, ends)]
    elif paths:
        chunks = fs.cat_ranges(paths, begins, ends, on_error="return")
    lines: list[bytes | Exception] = [b""] * len(places)
    for start, chunk, numbers in zip(begins, chunks, members, strict=True):
        for number in numbers:
            _, begin, length = places[number]
            at = begin - start
            lines[number] = chunk[at : at + length] if isinstance(chunk, bytes) else chunk
    return lines


def _read_disk(path: str, begin: int, end: int) -> bytes | Exception:
    try:
        with Path(path).open("rb", buffering=0) as file:
            file.seek(begin)
            return file.read(end - begin)
    except OSError as error:
        return error
