"""Coordinate the actors of a run: they report here, reserve money, and learn when to stop."""

import asyncio
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields
from typing import Any

import ray
from ray.exceptions import RayError
from ray.util.metrics import Gauge
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

from zelo_ray.engine.bookkeeping import Tally, sum_over_sweeps
from zelo_ray.engine.budget import Budget, Grant
from zelo_ray.options import AskingOptions
from zelo_ray.reasons import Disabled

_REJOINING_SECONDS = 2.0  # seconds in which spenders report anew to a restarted coordinator
_REBIRTHS = 4  # starts of an actor in a row without an answer: what kills it will kill it again
_NO_NUMBERS = ("statuses", "wrapped", "limits", "trouble", "disabled")  # of a tally
_SILENT_SECONDS = 5.0  # seconds of silence after which an actor is gone


@ray.remote(num_cpus=0, max_restarts=-1, max_task_retries=-1)
class Coordinator:
    """Coordinator of a run. Ray restarts it if it dies; its actors then report all again."""

    def __init__(self, cap: float | None, spent: float) -> None:
        self._tallies: dict[str, dict[str, Tally]] = {}
        self._reported_at: dict[str, float] = {}
        self._sweeps: dict[str, int] = {}
        self._births: dict[tuple[str, ...], tuple[int, int]] = {}
        self._reason, self._disabled = "", dict[str, Disabled]()
        self._budget = Budget(cap, spent) if cap is not None else None
        self._registered, self._gauges = time.monotonic(), _Gauges()
        self._reborn = ray.get_runtime_context().was_current_actor_reconstructed

    def report(
        self,
        actor: str,
        tallies: dict[str, Tally],
        stopped: str,
        disabled: dict[str, Disabled],
        sweep: int = 1,
    ) -> tuple[str, dict[str, Disabled]]:
        """Take an actor's figures so far; return why all are to stop, and whom to ask no more."""
        self._tallies[actor], self._reported_at[actor] = tallies, time.monotonic()
        self._sweeps[actor] = sweep
        self._disabled |= disabled
        self.stop(stopped)
        return self._reason, self._disabled

    def register_actor(self, judges: Sequence[str], actors: int) -> bool:
        """Count a new actor of these judges; return false if too many began without an answer."""
        answered = sum(
            tally.answered
            for tallies in self._tallies.values()
            for name, tally in tallies.items()
            if name in judges
        )
        births, before = self._births.get(tuple(judges), (0, answered))
        births = births + 1 if answered == before else 1
        self._births[tuple(judges)] = (births, answered)
        return births <= actors + _REBIRTHS

    def reserve(
        self, spender: str, charged: float, reserved: float, wants: Sequence[float]
    ) -> Grant:
        """See `Budget.reserve`."""
        now = time.monotonic()
        if self._budget is None:
            return Grant(len(wants), over=False)
        if self._reborn and now - self._registered < _REJOINING_SECONDS:
            wants = ()
        return self._budget.reserve(spender, charged, reserved, wants, now)

    def stop(self, reason: str) -> None:
        """Let every actor finish what is in flight and start nothing new."""
        self._reason = self._reason or reason

    def read_state(self) -> tuple[dict[str, Tally], str, dict[str, Disabled]]:
        """Return figures by judge over all actors, why to stop, and which judges are disabled."""
        by_judge: dict[str, dict[int, Tally]] = {}
        for actor, tallies in self._tallies.items():
            for name, tally in tallies.items():
                if time.monotonic() - self._reported_at[actor] > _SILENT_SECONDS:
                    # it has died or is done
                    tally.in_flight = tally.waiting = tally.batched = 0
                sweeps = by_judge.setdefault(name, {})
                sweeps.setdefault(self._sweeps[actor], Tally()).add(tally)
        summed = {name: sum_over_sweeps(sweeps) for name, sweeps in by_judge.items()}
        for name, reason in self._disabled.items():
            summed.setdefault(name, Tally()).disabled = reason
        self._gauges.set(summed)
        return summed, self._reason, self._disabled


class _Gauges:
    """A run's figures as Ray metrics: ``ray_zelo_<figure>``, by judge."""

    def __init__(self) -> None:
        names = [field.name for field in fields(Tally) if field.name not in _NO_NUMBERS]
        self._plain = {
            name: Gauge(f"zelo_{name}", "requests, tokens or dollars so far", ("judge",))
            for name in names
        }
        self._statuses = Gauge("zelo_ended", "requests that ended so", ("judge", "status"))
        self._limits = Gauge("zelo_limit", "limits in force", ("judge", "limit"))

    def set(self, tallies: Mapping[str, Tally]) -> None:
        """Set all to these figures."""
        for judge, tally in tallies.items():
            for name, gauge in self._plain.items():
                gauge.set(getattr(tally, name), {"judge": judge})
            for status, count in tally.statuses.items():
                self._statuses.set(count, {"judge": judge, "status": status})
            for limit, rate in tally.limits.items():
                self._limits.set(rate, {"judge": judge, "limit": limit})


def open_coordinator(
    options: AskingOptions, spent: float, tell: Callable[[float, float], None]
) -> Any:
    """Start the coordinator of a run on its driver's node; it is restarted if it dies.

    Args:
        options: of the job.
        spent: dollars of its budget.
        tell: is told the cap, if there is one, and what is spent of it by now.
    """
    if options.max_usd is not None:
        tell(options.max_usd, spent)
    strategy = NodeAffinitySchedulingStrategy(ray.get_runtime_context().get_node_id(), soft=False)
    actor: Any = Coordinator
    return actor.options(scheduling_strategy=strategy).remote(options.max_usd, spent)


class CoordinatorBudget:
    """Client of the coordinator's budget, for the spenders of one actor."""

    def __init__(self, coordinator: Any) -> None:
        self._coordinator = coordinator

    async def reserve(
        self, spender: str, charged: float, reserved: float, wants: Sequence[float]
    ) -> Grant:
        """See `Budget.reserve`. Without an answer nothing is spent."""
        while True:
            try:
                grant: Grant = await self._coordinator.reserve.remote(
                    spender, charged, reserved, wants
                )
            except RayError:
                await asyncio.sleep(1.0)
            else:
                return grant
