"""Keep a durable record of each part sent in a batch, written before the batch exists.

The records are JSON objects in the folder ``batches`` of an output directory or URL.
"""

from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from typing import Literal

import fsspec
import orjson
from pydantic import TypeAdapter

from zelo_ray.engine.durable import write_durably
from zelo_ray.engine.exposure import sum_exposure
from zelo_ray.errors import LedgerError

FOLDER = "batches"
State = Literal["intended", "submitted", "harvested", "void"]
"""``intended``: the batch may or may not exist; ``void``: it never came to be, or was another's."""


@dataclass(slots=True)
class BatchPart:
    """Requests that travel in one batch."""

    mark: str
    """what the batch is known by at its provider"""
    judge: str
    verdict: str
    """names the model that answers must satisfy"""
    keys: list[str] = field(default_factory=list)
    """of the requests; none any more when nothing is to come"""
    size: int = 0
    """bytes of the prompts"""
    tokens: int = 0
    dollars: float = 0.0
    """reserved"""
    intended_at: float = 0.0
    """in seconds since 1970"""
    state: State = "intended"
    batch: str = ""
    candidates: list[str] = field(default_factory=list)
    """batches that may be this one, where a provider keeps no mark"""
    requests: int = 0
    limit: int = 0
    """tokens that each answer may have"""
    bound: int = 0
    """tokens that the prompts take together, at most"""
    lost: float = 0.0
    """US dollars that may have been billed for answers that cannot be had any more"""
    cancelled: bool = False
    """whether this program was told to cancel it"""

    @property
    def is_open(self) -> bool:
        """Return whether answers may still come of this part."""
        return self.state in ("intended", "submitted")


_RECORD = TypeAdapter(BatchPart)


class Parts:
    """The records under one output directory or URL."""

    def __init__(self, out: str) -> None:
        self._fs, root = fsspec.url_to_fs(out)
        self._folder = f"{root.rstrip('/')}/{FOLDER}"

    def __iter__(self) -> Iterator[BatchPart]:
        """Yield all records, oldest first.

        Raises:
            LedgerError: one cannot be read; what is on its way there is paid for.
        """
        self._fs.invalidate_cache()
        for name in sorted(self._fs.find(self._folder)):
            if name.endswith(".json"):
                try:
                    yield _RECORD.validate_json(self._fs.cat_file(name), strict=True)
                except ValueError:
                    raise LedgerError(
                        f"{name}: this record of a batch is damaged, and the batch is paid for: "
                        "restore the record from a copy, or remove it to ask all of it again"
                    ) from None

    def keep(self, part: BatchPart) -> None:
        """Write a record anew, without its keys when no answer can come. It is durable at the end.

        Raises:
            LedgerError: it could not be written.
        """
        fields = asdict(part) | ({} if part.is_open else {"keys": []})
        write_durably(self._fs, f"{self._folder}/{part.mark}.json", orjson.dumps(fields))


def sum_possibly_billed(ledger_dir: str) -> float:
    """Return the US dollars perhaps billed for answers that never came, in calls or batches.

    ``ledger_dir`` is of a ledger at which nobody is at work.

    Raises:
        LedgerError: a record cannot be read.
    """
    return sum_exposure(ledger_dir) + sum(part.lost for part in Parts(ledger_dir))
