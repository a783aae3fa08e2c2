"""Sum up the money in a ledger, and list its damaged lines."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass

from zelo_ray.engine.ledger.index import PICO, Damaged, Total
from zelo_ray.engine.ledger.index_files import open_index
from zelo_ray.engine.ledger.segments import (
    FOLDER,
    ledger_folder,
    list_segments,
    read_segment,
    reply_from_row,
)
from zelo_ray.files.wording import counted
from zelo_ray.records import Reply


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
