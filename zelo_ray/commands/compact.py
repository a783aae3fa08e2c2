"""Merge the files of a ledger: ``zelo-ray compact DIR``."""

from collections.abc import Callable

from zelo_ray.engine.ledger import compact, update_index
from zelo_ray.engine.ledger.listing import folder_of
from zelo_ray.engine.lock import claim_folder
from zelo_ray.errors import LedgerError
from zelo_ray.formats.wording import counted


def compact_ledger(out: str, say: Callable[[str], None] = print) -> str:
    """Merge small segments into large ones, rebuild the index, and return a summary.

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
    segments = counted(sizes.after, "segment")
    return f"{folder}: {segments} ({sizes.bytes / 1e6:,.1f} MB) instead of {sizes.before:,}"
