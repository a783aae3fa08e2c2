"""Keep an upper bound on the cost of calls in flight, in the folder ``exposure`` by the ledger.

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
from zelo_ray.engine.durable import explain_file_errors, write_durably
from zelo_ray.errors import LedgerError

FOLDER = "exposure"
_LESS = 0.75  # of the recorded amount: below that share a smaller one is recorded
_AWHILE = 2.0  # seconds between two lines that lower the amount


class Exposure:
    """Record of what the calls of one process may still cost."""

    def __init__(self, ledger_dir: str, run_id: str, clock: Clock = CLOCK) -> None:
        self._fs, root = fsspec.url_to_fs(ledger_dir)
        self._name = f"{root.rstrip('/')}/{FOLDER}/{run_id}-{uuid.uuid4().hex[:8]}.json"
        self._clock, self._writing = clock, asyncio.Lock()
        self._calls, self._in_flight, self._possibly_billed = 0, 0.0, 0.0
        self._recorded, self._recorded_at = 0.0, -math.inf

    @property
    def _goal(self) -> float:
        return self._possibly_billed + self._in_flight

    async def add(self, dollars: float) -> None:
        """Return when it is durable that a call may cost so much; without that it may not go."""
        if not dollars:
            return
        self._calls, self._in_flight = self._calls + 1, self._in_flight + dollars
        try:
            while self._goal > self._recorded:
                async with self._writing:
                    if self._goal > self._recorded:
                        await self._write(self._goal)
        except BaseException:
            self.remove(dollars)
            raise

    def remove(self, dollars: float, *, possibly_billed: bool = False) -> None:
        """Note that a call of this amount has its reply in the ledger, or costs nothing.

        Where it may have been billed and no reply tells of it, its amount is kept.
        """
        if dollars:
            self._calls -= 1
            self._in_flight = self._in_flight - dollars if self._calls else 0.0
            self._possibly_billed += dollars if possibly_billed else 0.0

    async def lower(self) -> None:
        """Lower the recorded amount if much less is in flight; to nothing, if nothing is."""
        async with self._writing:
            is_recent = self._clock.now() - self._recorded_at < _AWHILE
            if self._calls and (is_recent or self._goal > _LESS * self._recorded):
                return
            if (goal := self._goal) < self._recorded:
                self._recorded = goal  # who sends while it is written has a line of its own
                await self._write(goal)

    async def _write(self, dollars: float) -> None:
        if dollars:
            record = orjson.dumps({"dollars": dollars})
            await asyncio.to_thread(write_durably, self._fs, self._name, record)
        else:
            with explain_file_errors(self._name):
                await asyncio.to_thread(self._fs.rm_file, self._name)
        self._recorded, self._recorded_at = dollars, self._clock.now()


def sum_exposure(ledger_dir: str) -> float:
    """Return the US dollars perhaps billed for calls without a reply or without token counts."""
    fs, root = fsspec.url_to_fs(ledger_dir)
    folder, dollars = f"{root.rstrip('/')}/{FOLDER}", 0.0
    fs.invalidate_cache()
    for name in sorted(fs.find(folder)) if fs.exists(folder) else ():
        if name.endswith(".json"):
            try:
                dollars += float(orjson.loads(fs.cat_file(name))["dollars"])
            except (ValueError, LookupError, TypeError):
                raise LedgerError(
                    f"{name}: not a record of what calls may cost; look at the provider's bill, "
                    "then remove it"
                ) from None
    return dollars
