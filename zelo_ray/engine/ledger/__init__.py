"""The ledger: every reply that was paid for, durable before anything else sees it.

It is a folder of append-only segments of JSON lines, one reply a line, that pyarrow reads alone.
Each writer has segments of its own, so writers never meet. On a local disk `Ledger.append` returns
once the lines are synced to it; in an object store, once they are uploaded. A line that is damaged
is set aside, wherever it lies: what it held is asked again.

Beside it lies an index, which may be lost at any time: see `index_upkeep` and `table`.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any, NoReturn

import numpy as np

from zelo_ray.engine.clock import CLOCK, Clock
from zelo_ray.engine.ledger.index_upkeep import mark_for_rereading, update_index
from zelo_ray.engine.ledger.ledger_index import LedgerIndex
from zelo_ray.engine.ledger.listing import FOLDER, Segment, folder_of
from zelo_ray.engine.ledger.prompts import salt_of
from zelo_ray.engine.ledger.reading import read_lines_at
from zelo_ray.engine.ledger.segments import parse_row, reply_from_row, reply_to_line
from zelo_ray.engine.ledger.snapshots import Place
from zelo_ray.engine.ledger.spending import (
    Damaged,
    Paid,
    Spent,
    describe_damage,
    read_rows,
    sum_paid,
    sum_spent,
)
from zelo_ray.engine.ledger.table import FINAL, STATUSES, TRUNCATED
from zelo_ray.engine.ledger.totals import Payer
from zelo_ray.engine.ledger.writing import SegmentWriter, drop_reserves, writer_of
from zelo_ray.errors import LedgerError
from zelo_ray.records import Reply

__all__ = [
    "FOLDER",
    "Damaged",
    "Ledger",
    "Paid",
    "Spent",
    "describe_damage",
    "drop_reserves",
    "read_rows",
    "salt_of",
    "sum_paid",
    "sum_spent",
    "update_index",
]

_NEEDED = ("key", "judge", "status", "final", "run_id", "output_tokens", "limit", "dollars")


class Ledger:
    """The replies under one output directory or URL.

    Args:
        out: directory or URL; the ledger lives in its folder ``replies``.
        run_id: the run that writes, whose name replies carry; without it the ledger is only read.
        retry: statuses that, in replies of *other* runs, count as missing.
        limits: by judge, the tokens that its answers may have by now: one that was cut off at fewer
            counts as missing.
        clock: the time, by which failed uploads are tried again.
        judges: whose replies are wanted; None: everybody's. Damage is then known of theirs alone.

    Where replies lie is known from tables of some 22 bytes a reply, which all processes of a node
    share; texts are read when they are asked for. Of several replies to one request the first that
    is ``ok`` stands, else the last: by when they were received, wherever they lie. A line that is
    damaged answers nothing.

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
        judges: Collection[str] | None = None,
    ) -> None:
        self._fs, self._folder = folder_of(out)
        self._out = out
        self._run_id, self._limits = run_id, limits
        self._retry = frozenset(STATUSES.index(status) for status in retry)
        self._judges = None if judges is None else frozenset(judges)
        self._known = LedgerIndex(
            self._fs,
            self._folder,
            self._counts,
            limited=bool(limits),
            judges=self._judges,
            run_id=run_id,
        )
        self._index = self._known.index
        self._writer: SegmentWriter | None = None
        if run_id:
            name = f"{self._folder}/{self._known.mine}"
            self._writer = writer_of(self._fs, name, clock)
            _ = self.salt  # done now rather than between calls
        self.refresh()

    @cached_property
    def salt(self) -> str:
        """Return the salt of the codes in this ledger's prompts."""
        return salt_of(self._out, keep=self._writer is not None)

    @property
    def storage_full(self) -> bool:
        """Return whether storage is so full that no further call may be made."""
        return self._writer is not None and self._writer.storage_full

    def __len__(self) -> int:
        """Count the requests that have a reply. It takes a second for ten million."""
        return self._index.count()

    def has(self, key: str) -> bool:
        """Return whether the ledger holds a reply for this key."""
        return bool(self._index.places(key))

    def contains(self, keys: Sequence[str]) -> list[bool]:
        """Return for each of these keys whether the ledger holds a reply."""
        places = self._index.find(keys)
        presence: list[bool] = (places.segment >= 0).tolist()
        for position in places.several:
            presence[position] = self.has(keys[position])
        return presence

    def cut_at(self, key: str) -> int:
        """Return the highest limit at which an answer to this request was cut off; 0 for none."""
        return self._index.cut_at(key)

    def is_own(self, key: str) -> bool:
        """Return whether the reply for this key was paid for by the run that writes."""
        place = self._current_place(key)
        return place is not None and place.payer[0] == self._run_id

    @property
    def damaged(self) -> list[Damaged]:
        """Return the damaged lines, which are set aside."""
        return sorted(
            Damaged(f"{self._folder}/{segment.name}", *line)
            for segment in self._index.covered_segments
            for line in segment.damaged
        )

    def read(self, keys: Sequence[str]) -> list[Reply]:
        """Return the replies for these keys, in their order.

        Raises:
            KeyError: a key has no reply.
            LedgerError: a line is not any more what it was when it was first seen.
        """
        return [reply_from_row(row) for row in self.read_rows(keys)]

    def read_rows(self, keys: Sequence[str]) -> list[dict[str, Any]]:
        """Return the replies as rows, by the names of their fields, perhaps with more fields.

        Raises:
            KeyError: a key has no reply.
            LedgerError: a line is not any more what it was when it was first seen.
        """
        try:
            return self._find_rows(keys)
        except FileNotFoundError as error:
            raise LedgerError(f"{error.filename or error}: is gone") from None

    def _find_rows(self, keys: Sequence[str]) -> list[dict[str, Any]]:
        places = self._index.find(keys)
        for position in places.several:
            place = self._current_place(keys[position])
            places.segment[position] = self._index.number(place.segment) if place else -1
            if place:
                places.offset[position], places.length[position] = place.offset, place.length
        if (missing := places.segment < 0).any():
            raise KeyError(keys[int(missing.argmax())])
        return [*self._rows(keys, places.segment, places.offset, places.length)]

    def _rows(self, keys: Sequence[str], *places: Any) -> Iterator[dict[str, Any]]:
        """Yield the rows at some places, where replies to these keys were seen."""
        segments, offsets = (column.tolist() for column in places[:2])
        names = {number: self._index.names[number] for number in set(segments)}
        paths = [f"{self._folder}/{name}" for name in self._index.names]
        for number, offset, key, line in zip(
            segments, offsets, keys, read_lines_at(self._fs, paths, *places), strict=True
        ):
            row = parse_row(line) if isinstance(line, bytes) else None
            if not row or row["key"] != key:
                self._fail(names[number], offset, line)
            yield row

    def _fail(self, name: str, offset: int, line: bytes | Exception) -> NoReturn:
        path = f"{self._folder}/{name}"
        if isinstance(line, FileNotFoundError):
            raise FileNotFoundError(*line.args[:1], line.strerror, path)
        if isinstance(line, Exception):
            raise LedgerError(f"{path}: {type(line).__name__}: {line}")
        mark_for_rereading(
            self._fs, self._folder, name, self._known.segments.get(name, Segment(0, ""))
        )
        raise LedgerError(
            f"{path}: the reply at byte {offset:,} has been damaged since this run "
            "began; run again to request it again"
        )

    def _current_place(self, key: str) -> Place | None:
        """Return the place of the reply that counts: the first one if it is ok, else the last."""
        places = self._index.places(key)
        best = [place for place in places if place.ok] or places
        if len(best) < 2:
            return best[0] if best else None
        numbers = [self._index.number(place.segment) for place in best]
        columns = (numbers, *zip(*((p.offset, p.length) for p in best), strict=True))
        rows = self._rows([key] * len(best), *(np.array(column, np.int64) for column in columns))
        dated = [(row["received_at"], place) for row, place in zip(rows, best, strict=True)]
        return (min if best[0].ok else max)(dated)[1]

    def _counts(self, payer: Payer, code: int, cut: int) -> bool:
        """Return whether a reply counts for the judges and options of this ledger."""
        run_id, judge = payer
        status = code & FINAL - 1
        if status == TRUNCATED and cut < self._limits.get(judge, 0):
            return False
        if self._judges is not None and judge not in self._judges:
            return False
        return bool(code & FINAL) and (status not in self._retry or run_id == self._run_id)

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
        rows = [{name: getattr(reply, name) for name in _NEEDED} for reply in replies]
        self._known.add(segment, start, list(zip(rows, map(len, lines), strict=True)))

    def refresh(self) -> None:
        """Take in what other writers have added since the last look.

        Raises:
            LedgerError: another version of this program wrote here.
        """
        self._known.refresh()

    def close(self) -> None:
        """Close files. What was appended is durable already."""
        if self._writer is None:
            return
        self._writer.close()
        self._known.finish()
