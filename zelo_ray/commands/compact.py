"""Merge the files of a ledger: ``zelo-ray compact DIR``."""

from collections.abc import Callable
from dataclasses import dataclass

from zelo_ray.engine.ledger import compact, update_index
from zelo_ray.engine.ledger.listing import folder_of
from zelo_ray.engine.lock import claim_folder
from zelo_ray.errors import LedgerError
from zelo_ray.formats.wording import counted


@dataclass(frozen=True, slots=True)
class CompactedLedger:
    """A ledger whose segments were merged, with their number before and after, and their bytes."""

    folder: str
    segments_before: int
    segments: int
    bytes: int

    def __str__(self) -> str:
        segments = counted(self.segments, "segment")
        return (
            f"{self.folder}: {segments} ({self.bytes / 1e6:,.1f} MB) "
            f"instead of {self.segments_before:,}"
        )


def compact_ledger(out: str, say: Callable[[str], None] = print) -> CompactedLedger:
    """Merge small segments into large ones, and rebuild the index.

    Args:
        out: directory or URL of a ledger.
        say: gets messages.

    Raises:
        LedgerError: there is no ledger, or another version of this program wrote it.
        LockError: a run uses it.
    """
    fs, folder = folder_of(out)
    if not fs.exists(folder):
        raise LedgerError(f"{out}: no ledger")
    with claim_folder(out, say, None):
        sizes = compact(out, say)
        update_index(out)
    return CompactedLedger(folder, sizes.before, sizes.after, sizes.bytes)
