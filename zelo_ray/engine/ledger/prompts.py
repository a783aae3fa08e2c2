"""Keep a ledger's facts about its prompts: their version, and a salt for codes.

The codes of markers follow from the salt, which no text can know. If it is lost, new codes are as
good, and no key changes.
"""

import secrets

import fsspec
import orjson

from zelo_ray.engine.durable import explain_file_errors, write_durably
from zelo_ray.engine.ledger.segments import ledger_folder
from zelo_ray.errors import LedgerError

_VERSION = 2
"""To be raised when words of prompts change: then old answers are to other questions."""
_FILE = (
    "_prompts.json"  # readers of a folder of data, such as pyarrow, pass over names that begin so
)


def salt_of(out: str, *, keep: bool = True) -> str:
    """Return what the codes in the prompts of a ledger follow from; draw it for a new one.

    Args:
        out: directory or URL of the ledger. The salt stands in no text that a judge is to read.
        keep: whether to write it there, if it is not.

    Raises:
        LedgerError: it cannot be read or written, or the ledger was asked by other prompts.
    """
    fs, folder = ledger_folder(out)
    name = f"{folder}/{_FILE}"
    if salt := _read(fs, name):
        return salt
    salt = secrets.token_hex(16)
    if keep:
        write_durably(fs, name, orjson.dumps({"version": _VERSION, "salt": salt}))
    return salt


def _read(fs: fsspec.AbstractFileSystem, name: str) -> str:
    """Return the salt; empty where there is none, or a damaged one."""
    with explain_file_errors(name):
        try:
            data = fs.cat_file(name)
        except FileNotFoundError:
            return ""
    try:
        record = orjson.loads(data)
        version, salt = int(record["version"]), str(record["salt"])
    except (ValueError, KeyError, TypeError):
        return ""
    if version != _VERSION:
        raise LedgerError(
            f"{name}: this ledger was built with prompt version {version}, and this zelo_ray uses "
            f"{_VERSION}; name another --out or --ledger"
        )
    return salt
