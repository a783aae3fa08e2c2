"""What a ledger keeps of the prompts that it was begun with: their version, and a salt for codes.

A result goes on by the prompts that it was begun by, and a new one by those of its ledger: so no
answer is paid for twice. The ledgers of 0.1.0 say nothing, and are of the first version, whose
codes follow from the texts. Those of later versions follow from a salt, which no text can know; if
it is lost, new codes are as good, and no key changes.
"""

import secrets
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import TypeVar

import fsspec
import orjson

from zelo_ray.engine.durable import keep_file, telling
from zelo_ray.engine.ledger.listing import folder_of, look
from zelo_ray.errors import LedgerError
from zelo_ray.formats.record import asked_otherwise, options_at
from zelo_ray.options.asking import FIRST, NEWEST, AskingOptions
from zelo_ray.options.judging import JudgingOptions

Asking = TypeVar("Asking", bound=AskingOptions)
_FILE = (
    "_prompts.json"  # readers of a folder of data, such as pyarrow, pass over names that begin so
)


@dataclass(frozen=True, slots=True)
class Prompts:
    """How a ledger asks; the salt stands in no text that a judge is to read."""

    version: int
    salt: str


def prompts_of(out: str, version: int | None = None, *, keep: bool = True) -> Prompts:
    """How the ledger of an output directory or URL asks.

    Args:
        out: the directory or URL.
        version: of a new ledger; None: the newest. One that was begun and does not say is of the
            first.
        keep: whether to write it there, if it is not.

    Raises:
        LedgerError: it cannot be read or written, or a later version of this program wrote it.
    """
    fs, folder = folder_of(out)
    name = f"{folder}/{_FILE}"
    if found := _read(fs, name):
        return found
    begun = FIRST if look(fs, folder).segments else version or NEWEST
    made = Prompts(begun, secrets.token_hex(16))
    if keep:
        keep_file(fs, name, orjson.dumps(asdict(made)))
    return made


def worded(options: Asking, *, keep: bool = True) -> Asking:
    """The options with the version of the prompts by which a result is asked.

    What the first version has no place for is asked by the newest: then all is asked anew anyway.

    Raises:
        LedgerError: as `prompts_of`.
    """
    version = options.prompts or _of_result(options.out)
    found = prompts_of(options.books, version, keep=keep)
    version = NEWEST if options.beside_query else version or found.version
    return options.model_copy(update={"prompts": version})


def _of_result(out: str) -> int | None:
    """By which prompts the last run with results there asked, if that tells of one without more."""
    options = options_at(out)
    if options is None or JudgingOptions.model_construct(**options).beside_query:
        return None
    version: int | None = options.get("prompts", FIRST)  # 0.1.0 had no others
    return version


def asked_before(options: AskingOptions) -> Iterator[str]:
    """A word on each option by which the last run with results there asked other questions."""
    before = options_at(options.out)
    if before and before.get("protocol") == getattr(options, "protocol", None):
        for name in asked_otherwise(before, options.model_dump(mode="json")):
            if name != "judge_options":  # which are a judge's own affair
                yield (
                    f"--{name.replace('_', '-')} is not what it was in the last run here; answers "
                    "serve only for the questions to which they were given"
                )


def _read(fs: fsspec.AbstractFileSystem, name: str) -> Prompts | None:
    with telling(name):
        try:
            data = fs.cat_file(name)
        except FileNotFoundError:
            return None
    try:
        told = orjson.loads(data)
        found = Prompts(int(told["version"]), str(told["salt"]))
    except (ValueError, KeyError, TypeError):
        raise LedgerError(
            f"{name} is damaged; remove it, and say --prompts 1 or 2, by which the ledger was asked"
        ) from None
    if found.version > NEWEST:
        raise LedgerError(f"{name}: a later version of zelo_ray wrote it; upgrade")
    return found
