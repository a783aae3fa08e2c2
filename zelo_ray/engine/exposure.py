"""What calls that have no reply yet may cost at most, in the folder ``exposure`` beside the ledger.

A provider may bill a call whose answer never reached us: because we were killed, or stopped
waiting. So a writer says in a file of its own how much its calls may come to before it sends them,
and afterwards less. What stands there when the writer is gone may have been billed, and no row of
the ledger tells of it. One line covers many calls: it is written when more is to be sent than it
says, for all that are to be sent by then, and for no more: so it never says more than was taken
from a budget for them.
"""

import asyncio
import math
import uuid

import fsspec
import orjson

from zelo_ray.engine.clock import CLOCK, Clock
from zelo_ray.engine.durable import keep_file, telling
from zelo_ray.errors import LedgerError

FOLDER = "exposure"
_LESS = 0.75  # of what was said: so little is out when it is said anew
_AWHILE = 2.0  # seconds between two lines that say less


class Exposure:
    """What the calls of one process may still be billed.

    Args:
        books: directory or URL of the ledger.
        out: where the results of its run go.
        run_id: the run that pays.
        clock: the time.
    """

    def __init__(self, books: str, out: str, run_id: str, clock: Clock = CLOCK) -> None:
        self._fs, root = fsspec.url_to_fs(books)
        self._name = f"{root.rstrip('/')}/{FOLDER}/{run_id}-{uuid.uuid4().hex[:8]}.json"
        self._record = {"out": out, "run_id": run_id}
        self._calls, self._flying, self._lost, self._said = 0, 0.0, 0.0, 0.0
        self._writing, self._clock, self._said_at = asyncio.Lock(), clock, -math.inf

    async def send(self, dollars: float) -> None:
        """Return when it is durable that a call may cost so much.

        Raises:
            LedgerError: that cannot be written; the call must not be made.
        """
        if not dollars:
            return
        self._calls, self._flying = self._calls + 1, self._flying + dollars
        try:
            while self._flying + self._lost > self._said:
                async with self._writing:
                    if self._flying + self._lost > self._said:
                        await self._say(self._flying + self._lost)
        except LedgerError:
            self.settle(dollars)
            raise

    def settle(self, dollars: float) -> None:
        """A call for which so much was said has its reply in the ledger, or costs nothing."""
        if dollars:
            self._calls -= 1
            self._flying = self._flying - dollars if self._calls else 0.0

    def lose(self, dollars: float) -> None:
        """No reply will ever tell what such a call has cost."""
        self.settle(dollars)
        self._lost += dollars

    async def ease(self) -> None:
        """Say less, if much less is out; nothing, if nothing is."""
        async with self._writing:
            goal = self._lost + self._flying
            recent = self._clock.now() - self._said_at < _AWHILE
            if goal >= self._said or (self._calls and (recent or goal > _LESS * self._said)):
                return
            self._said = goal  # before it is written: who sends meanwhile has a line of its own
            await self._say(goal)

    async def _say(self, dollars: float) -> None:
        record = orjson.dumps({**self._record, "dollars": dollars})
        if dollars:
            await asyncio.to_thread(keep_file, self._fs, self._name, record)
        else:
            with telling(self._name):
                await asyncio.to_thread(self._fs.rm_file, self._name)
        self._said, self._said_at = dollars, self._clock.now()


def exposed(books: str, out: str | None = None) -> float:
    """US dollars that may have been billed for calls whose reply never came.

    Args:
        books: directory or URL of a ledger at which nobody is at work.
        out: those of runs with these results only; None: of all.

    Raises:
        LedgerError: a record cannot be read.
    """
    fs, root = fsspec.url_to_fs(books)
    folder, dollars = f"{root.rstrip('/')}/{FOLDER}", 0.0
    fs.invalidate_cache()
    for name in sorted(fs.find(folder)) if fs.exists(folder) else ():
        if name.endswith(".json"):
            try:
                record = orjson.loads(fs.cat_file(name))
                amount, where = float(record["dollars"]), str(record["out"])
            except (ValueError, LookupError, TypeError):
                raise LedgerError(
                    f"{name}: not a record of what calls may cost; look at the provider's bill, "
                    "then remove it"
                ) from None
            dollars += amount if out in (None, where) else 0.0
    return dollars
