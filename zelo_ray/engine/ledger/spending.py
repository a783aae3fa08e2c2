"""Sum up the money in a ledger, and list its damaged lines."""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from math import fsum
from typing import Any

from zelo_ray.engine.ledger.index_upkeep import choose_tables
from zelo_ray.engine.ledger.listing import (
    FOLDER,
    INDEX,
    Listing,
    folder_of,
    lines_of,
    list_folder,
    replies_in,
)
from zelo_ray.engine.ledger.segments import reply_from_row
from zelo_ray.engine.ledger.table_file import read_totals
from zelo_ray.engine.ledger.totals import Covered, Payer, SegmentTotals, Total
from zelo_ray.errors import LedgerError
from zelo_ray.files.wording import counted
from zelo_ray.records import Reply

_NAMED = 3
_LOOKS = 3


@dataclass(frozen=True, slots=True, order=True)
class Damaged:
    """A line that is no reply any more, and is set aside: its segment, and the byte it begins at.

    ``replies`` is how many it held, as far as it tells: where a line's end is lost, two.
    """

    segment: str
    byte: int
    replies: int = 1


@dataclass(slots=True)
class Spent:
    """US dollars that a ledger holds, and its answers of unknown price besides."""

    dollars: float = 0.0
    """of all runs, with those of damage"""
    of_damage: float = 0.0
    """what damaged lines cost is not known: each reply in them counts as the dearest row"""
    unpriced: int = 0
    of_run: float = 0.0
    unpriced_of_run: int = 0
    damaged: list[Damaged] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Paid:
    """The totals of a ledger's rows, by run and judge, and its damaged lines."""

    totals: Mapping[Payer, Total]
    damaged: Sequence[Damaged]

    def dollars(self, run_id: str | None = None, judges: Collection[str] | None = None) -> float:
        """Return the US dollars of a run and of some judges, or of all, without damaged lines.

        It is the exact sum, rounded once: the same however rows lie in segments.
        """
        return fsum(
            part
            for (run, judge), total in self.totals.items()
            for part in total.parts
            if run_id in (None, run) and (judges is None or judge in judges)
        )

    def unpriced(self, run_id: str | None = None) -> int:
        """Count the answers of unknown price, of a run or of all."""
        totals = self.totals.items()
        return sum(total.unpriced for (run, _), total in totals if run_id in (None, run))


def sum_paid(ledger_dir: str) -> Paid:
    """Return what was paid, from the totals in the index; read rows only where there are none.

    Raises:
        LedgerError: another version of this program wrote here.
    """
    fs, folder = folder_of(ledger_dir)
    for retries in reversed(range(_LOOKS)):
        try:
            return _paid(folder, _covered(fs, folder, list_folder(fs, folder)))
        except FileNotFoundError as error:  # tables are being merged
            if not retries:
                raise LedgerError(f"{error.filename or error}: is gone; run again") from None
    raise AssertionError


def _covered(fs: Any, folder: str, listing: Listing) -> Iterator[Covered]:
    tables = [read_totals(fs, f"{folder}/{INDEX}", name) for name in listing.tables]
    sound_tables = [table for table in tables if table is not None]
    cover, covered = choose_tables(folder, listing.segments, sound_tables)
    for table, flags in cover:
        yield from (segment for segment, valid in zip(table.segments, flags, strict=True) if valid)
    for name in listing.segments:
        if name not in covered:
            yield _read(fs, folder, name)


def _read(fs: Any, folder: str, name: str) -> Covered:
    covered, sums = Covered(name), SegmentTotals()
    for at, line, row in lines_of(fs, f"{folder}/{name}"):
        if row is None:
            covered.damaged.append((at, replies_in(line)))
        else:
            sums.add(row)
    covered.totals = sums.totals()
    return covered


def _paid(folder: str, covered: Iterator[Covered]) -> Paid:
    parts = dict[Payer, list[Total]]()
    damaged = list[Damaged]()
    for segment in covered:
        damaged += [Damaged(f"{folder}/{segment.name}", *line) for line in segment.damaged]
        for payer, total in segment.totals.items():
            parts.setdefault(payer, []).append(total)
    return Paid({payer: Total.of(totals) for payer, totals in parts.items()}, sorted(damaged))


def sum_spent(
    ledger_dir: str, run_id: str = "", look: Callable[[Reply], object] | None = None
) -> Spent:
    """Return what was spent on a ledger.

    Args:
        ledger_dir: directory or URL of the ledger.
        run_id: the run whose own share is wanted.
        look: called with each row, which are then all read.

    Raises:
        LedgerError: another version of this program wrote here.
    """
    if look:
        for reply in read_rows(ledger_dir):
            look(reply)
    paid = sum_paid(ledger_dir)
    dearest = max((total.dearest for total in paid.totals.values()), default=0.0)
    of_damage = dearest * sum(line.replies for line in paid.damaged)
    return Spent(
        paid.dollars() + of_damage,
        of_damage,
        paid.unpriced(),
        paid.dollars(run_id),
        paid.unpriced(run_id),
        list(paid.damaged),
    )


def read_rows(out: str) -> Iterator[Reply]:
    """Yield every row of the ledger, unordered: also rows that another reply replaced.

    Lines that are damaged are passed over.

    Raises:
        LedgerError: another version of this program wrote here.
    """
    fs, folder = folder_of(out)
    for name in list_folder(fs, folder).segments:
        for _, _, row in lines_of(fs, f"{folder}/{name}"):
            if row is not None:
                yield reply_from_row(row)


def describe_damage(damaged: Sequence[Damaged]) -> str:
    """Describe damaged lines in a sentence."""
    places = [
        f"{FOLDER}/{line.segment.rpartition('/')[2]} at byte {line.byte:,}"
        for line in damaged[:_NAMED]
    ]
    more = ["…"] if len(damaged) > _NAMED else []
    lines = counted(len(damaged), "damaged line, which is", "damaged lines, which are")
    return f"the ledger holds {lines} set aside and asked again: {'; '.join(places + more)}"
