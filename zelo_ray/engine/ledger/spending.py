"""Sum up the money in a ledger, and list its damaged lines."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from zelo_ray.engine.ledger.index import PICO, Payer, Total
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

_NAMED = 3


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


def sum_paid(out: str) -> Paid:
    """Return what was paid for the replies under an output directory or URL.

    Raises:
        LedgerError: another version of this program wrote here.
    """
    fs, folder = ledger_folder(out)
    index = open_index(fs, folder)
    damaged = [Damaged(f"{folder}/{name}", *line) for name, *line in index.damaged()]
    paid = Paid(index.totals(), damaged)
    index.close()
    return paid


def sum_spent(out: str, run_id: str = "") -> Spent:
    """Return what was spent on a ledger, and by one run.

    Raises:
        LedgerError: another version of this program wrote here.
    """
    paid = sum_paid(out)
    dearest = max((total.dearest for total in paid.totals.values()), default=0) / PICO
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
    fs, folder = ledger_folder(out)
    for name in list_segments(fs, folder):
        for _, _, row in read_segment(fs, f"{folder}/{name}"):
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
