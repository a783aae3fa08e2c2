"""Keep a ledger's facts about its prompts: their version, and a salt for codes.

The codes of markers follow from the salt, which no text can know. If it is lost, new codes are as
good, and no key changes.
"""

import contextlib
import secrets

import orjson

from zelo_ray.engine.durable import explain_file_errors, write_durably
from zelo_ray.engine.ledger.segments import ledger_folder
from zelo_ray.errors import LedgerError

_VERSION = 2
"""To be raised when words of prompts change: then old answers are to other questions."""
_FILE = "_prompts.json"  # readers of a folder of data pass over names that begin so


def salt_of(out: str, *, keep: bool = True) -> str:
    """Return what the codes in the prompts of a ledger follow from; draw it for a new one.

    It stands in no text that a judge is to read. With ``keep`` a new one is written there.

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
