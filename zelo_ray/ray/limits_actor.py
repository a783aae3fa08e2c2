"""Share rate limits in a cluster: one named actor for all runs, and the client of it."""

import asyncio
import contextlib
from collections.abc import Iterator
from importlib.metadata import version
from typing import Any

import ray
from ray.exceptions import RayError

from zelo_ray.engine.limiter import Account, Lease, Want
from zelo_ray.engine.quota import RateLimiters

_NAME, _NAMESPACE = f"limits-{version('zelo-ray')}", "zelo_ray"
_LEFT_SECONDS = 60.0  # seconds after which a run that leases nothing has ended


@ray.remote(num_cpus=0, max_restarts=-1, max_task_retries=-1)
class SharedLimits(RateLimiters):
    """The limiters of a whole cluster, for all of its runs."""

    def __init__(self) -> None:
        super().__init__()
        self._heard = dict[str, float]()

    def lease_for(self, run: str, want: Want) -> Lease:
        """Do as `Limits.lease`, for a run."""
        self._heard[run] = self._clock.now()
        return self.lease(want)

    def leave(self, run: str) -> bool:
        """Note that a run has ended; return whether it was the last one."""
        self._heard.pop(run, None)
        return all(self._clock.now() - moment > _LEFT_SECONDS for moment in self._heard.values())


class ClusterQuota:
    """Client of the cluster's limiters for one actor of a run; restarts them when they are gone."""

    def __init__(self, run: str) -> None:
        self._run, self._limits = run, None

    def _find(self) -> Any:
        if self._limits is None:
            actor: Any = SharedLimits
            self._limits = actor.options(
                name=_NAME,
                namespace=_NAMESPACE,
                get_if_exists=True,
                lifetime="detached",
            ).remote()
        return self._limits

    async def lease(self, want: Want) -> Lease:
        """See `Quota`. Without an answer nothing is sent."""
        while True:
            try:
                lease: Lease = await self._find().lease_for.remote(self._run, want)
            except (RayError, ValueError):  # or it was just let go by another run
                self._limits = None
                await asyncio.sleep(1.0)
            else:
                return lease

    async def pause(self, account: Account, seconds: float) -> float:
        """See `Quota`. Without an answer nothing is known to be amiss."""
        try:
            lasting: float = await self._find().pause.remote(account, seconds)
        except (RayError, ValueError):
            return 0.0
        return lasting

    async def record_answer(self, account: Account) -> None:
        """See `Quota`."""
        with contextlib.suppress(RayError, ValueError):
            await self._find().record_answer.remote(account)


@contextlib.contextmanager
def limits_for(run_id: str) -> Iterator[None]:
    """Release the cluster's limits at the end, if no other run uses them."""
    try:
        yield
    finally:
        _leave(run_id)


def _leave(run_id: str) -> None:
    with contextlib.suppress(ValueError, RayError):  # it was never needed, or is gone
        limits = ray.get_actor(_NAME, namespace=_NAMESPACE)
        if ray.get(limits.leave.remote(run_id)):
            ray.kill(limits)  # another run that finds it gone makes it anew
