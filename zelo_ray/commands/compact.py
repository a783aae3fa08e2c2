"""A ledger in fewer files: ``zelo-ray compact DIR``."""

from collections.abc import Callable

from zelo_ray.engine.ledger import compact, keep_index
from zelo_ray.engine.ledger.listing import folder_of
from zelo_ray.engine.lock import claim
from zelo_ray.errors import LedgerError
from zelo_ray.formats.wording import counted


def compacted(out: str, say: Callable[[str], None] = print) -> str:
    """Make few large segments of many small ones, and the index anew; what came of it.

    Args:
        out: directory or URL of a ledger.
        say: told, in one line each, what was done, and what there is to wait for.

    Raises:
        LedgerError: there is none, or another version of this program wrote here.
        LockError: a run holds it.
    """
    fs, folder = folder_of(out)
    if not fs.exists(folder):
        raise LedgerError(f"{out}: no ledger")
    with claim(out, say, None):
        sizes = compact(out, say)
        keep_index(out)
    segments = counted(sizes.after, "segment")
    return f"{folder}: {segments} ({sizes.bytes / 1e6:,.1f} MB) in the place of {sizes.before:,}"
