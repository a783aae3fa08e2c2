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
from collections.abc import Iterator

import fsspec
import orjson

from zelo_ray.engine.clock import CLOCK, Clock
from zelo_ray.engine.durable import explain_file_errors, write_durably
from zelo_ray.errors import LedgerError

FOLDER = "exposure"
_LESS = 0.75  # of the recorded amount: below that share a smaller one is recorded
_AWHILE = 2.0  # seconds between two lines that lower the amount


class Exposure:
    """Record of what the calls of one process may still cost.

    Args:
        ledger_dir: directory or URL of the ledger.
        out: where the results of its run go.
        run_id: the run that pays.
        clock: the time.
    """

    def __init__(self, ledger_dir: str, out: str, run_id: str, clock: Clock = CLOCK) -> None:
        self._fs, root = fsspec.url_to_fs(ledger_dir)
        self._name = f"{root.rstrip('/')}/{FOLDER}/{run_id}-{uuid.uuid4().hex[:8]}.json"
        self._record = {"out": out, "run_id": run_id}
        self._calls, self._in_flight, self._possibly_billed = 0, 0.0, 0.0
        self._uncounted = dict[str, float]()  # by judge, the part of answers without tokens
        self._recorded, self._recorded_at, self._is_current = 0.0, -math.inf, True
        self._writing, self._clock = asyncio.Lock(), clock

    @property
    def _goal(self) -> float:
        return self._possibly_billed + self._in_flight

    async def add(self, dollars: float) -> None:
        """Return when it is durable that a call may cost so much.

        Raises:
            LedgerError: that cannot be written; the call must not be made.
        """
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

    def remove(self, dollars: float) -> None:
        """Note that a call of this amount has its reply in the ledger, or costs nothing."""
        if dollars:
            self._calls -= 1
            self._in_flight = self._in_flight - dollars if self._calls else 0.0

    def keep_possibly_billed(self, dollars: float, uncounted: str = "") -> None:
        """Keep the possible cost of a call whose reply will never come.

        Args:
            dollars: how much was recorded for it.
            uncounted: the judge whose answer came, and reported no tokens; empty if none came.
        """
        self.remove(dollars)
        self._possibly_billed += dollars
        if dollars and uncounted:
            self._uncounted[uncounted] = self._uncounted.get(uncounted, 0.0) + dollars
            self._is_current = False

    async def lower(self) -> None:
        """Lower the recorded amount if much less is in flight; to nothing, if nothing is."""
        async with self._writing:
            if not (self._is_current or self._calls):
                await self._write(self._goal)
            is_recent = self._clock.now() - self._recorded_at < _AWHILE
            if self._calls and (is_recent or self._goal > _LESS * self._recorded):
                return
            if (goal := self._goal) < self._recorded:
                self._recorded = goal  # who sends while it is written has a line of its own
                await self._write(goal)

    async def _write(self, dollars: float) -> None:
        uncounted = {"uncounted": self._uncounted} if self._uncounted else {}
        record = orjson.dumps({**self._record, "dollars": dollars, **uncounted})
        self._is_current = True
        if dollars:
            await asyncio.to_thread(write_durably, self._fs, self._name, record)
        else:
            with explain_file_errors(self._name):
                await asyncio.to_thread(self._fs.rm_file, self._name)
        self._recorded, self._recorded_at = dollars, self._clock.now()


def sum_exposure(ledger_dir: str, out: str | None = None) -> float:
    """Return the US dollars perhaps billed for calls without a reply or without token counts.

    Args:
        ledger_dir: directory or URL of a ledger at which nobody is at work.
        out: those of runs with these results only; None: of all.

    Raises:
        LedgerError: a record cannot be read.
    """
    return sum(dollars for where, dollars, _ in _records(ledger_dir) if out in (None, where))


def sum_uncounted(ledger_dir: str) -> dict[str, float]:
    """Return, by judge, the part of these dollars that is of answers that reported no tokens."""
    sums: dict[str, float] = {}
    for _, _, by_judge in _records(ledger_dir):
        for judge, dollars in by_judge.items():
            sums[judge] = sums.get(judge, 0.0) + dollars
    return sums


def _records(ledger_dir: str) -> Iterator[tuple[str, float, dict[str, float]]]:
    """Read where results go, what calls may have cost, and what of it was answered uncounted."""
    fs, root = fsspec.url_to_fs(ledger_dir)
    folder = f"{root.rstrip('/')}/{FOLDER}"
    fs.invalidate_cache()
    for name in sorted(fs.find(folder)) if fs.exists(folder) else ():
        if name.endswith(".json"):
            try:
                record = orjson.loads(fs.cat_file(name))
                by_judge = {str(j): float(d) for j, d in record.get("uncounted", {}).items()}
                read = str(record["out"]), float(record["dollars"]), by_judge
            except (ValueError, LookupError, TypeError, AttributeError):
                raise LedgerError(
                    f"{name}: not a record of what calls may cost; look at the provider's bill, "
                    "then remove it"
                ) from None
            yield read
