"""Place the coordinator of a cluster: one named actor, which all runs there share.

The driver that needs the actor first owns it, so that it never outlives the runs. Where it ends,
drivers that are left make it anew, and tell it what they know of their runs.

Its process starts with each run on a private Ray, so this module imports little.
"""

import asyncio
import time
from collections.abc import Mapping
from dataclasses import fields
from importlib.metadata import version
from typing import Any

import ray
from ray.exceptions import ActorDiedError, RayError, RayTaskError
from ray.util.metrics import Gauge
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

from zelo_ray.engine.coordinator import (
    CoordinatedRun,
    Coordination,
    Coordinator,
    Message,
    P,
    RunFigures,
    RunMemory,
    T,
    WorkerReport,
)
from zelo_ray.engine.tally import Tally

_PLACE = {"name": f"coordinator-{version('zelo-ray')}", "namespace": "zelo_ray"}
_NO_NUMBERS = ("statuses", "limits", "trouble", "disabled")  # of a tally
_AGAIN_SECONDS = 1.0  # before a coordinator that is gone is looked for again
_TRIES = 5  # of a driver, to make a coordinator that answers


class _Gauges:
    """The figures of runs as Ray metrics: ``ray_zelo_<figure>``, by run and judge."""

    def __init__(self) -> None:
        names = [field.name for field in fields(Tally) if field.name not in _NO_NUMBERS]
        tags = ("run", "judge")
        self._plain = {
            name: Gauge(f"zelo_{name}", "requests, tokens or dollars so far", tags)
            for name in names
        }
        self._statuses = Gauge("zelo_ended", "requests that ended so", (*tags, "status"))
        self._limits = Gauge("zelo_limit", "limits in force", (*tags, "limit"))
        self._missing = Gauge("zelo_missing", "requests that are still to be answered", tags)

    def set(self, run_id: str, tallies: Mapping[str, Tally], planned: Mapping[str, int]) -> None:
        """Set all of a run to these figures; ``planned`` is the number of requests by judge."""
        for judge, tally in tallies.items():
            tags = {"run": run_id, "judge": judge}
            for name, gauge in self._plain.items():
                gauge.set(getattr(tally, name), tags)
            missing = planned.get(judge, 0) - tally.spared - tally.known - tally.answered
            self._missing.set(max(0, missing), tags)
            for status, count in tally.statuses.items():
                self._statuses.set(count, tags | {"status": status})
            for limit, rate in tally.limits.items():
                self._limits.set(rate, tags | {"limit": limit})


class RayCoordination(Coordination):
    """A worker's way to the coordinator of a cluster.

    It waits for a coordinator that is gone, until a driver has made it anew: without an answer
    nothing is sent.
    """

    def __init__(self, run: CoordinatedRun) -> None:
        super().__init__(run)
        self._actor: Any = None

    def __reduce__(self) -> Any:
        """Travel as what finds the coordinator by its name: its owner alone keeps it alive."""
        return RayCoordination, (self.run,)

    async def send(self, message: Message[P, T], *words: P.args, **more: P.kwargs) -> T:
        """Have the actor run a method of the coordinator."""
        while True:
            try:
                self._actor = self._actor or ray.get_actor(**_PLACE)
                method = getattr(self._actor, message.__name__)
                answer: T = await method.remote(self.run, *words, **more)
            except RayTaskError:  # a defect, which no waiting mends
                raise
            except (RayError, ValueError):  # it is gone
                self._actor = None
                await asyncio.sleep(_AGAIN_SECONDS)
            else:
                return answer


class RayControl:
    """A driver's way to the coordinator of a cluster, which it makes where there is none.

    It remembers what is known of the run, which begins, and tells it to a coordinator that does not
    know. ``planned`` are requests by judge, for metrics.
    """

    def __init__(self, run: CoordinatedRun) -> None:
        self._run, self._memory = run, RunMemory()
        self.planned: Mapping[str, int] = {}
        self._gauges, self._actor = _Gauges(), _find_or_make()
        self._actor.begin.remote(run)  # not waited for: its process starts while others do

    def _call(self, method: str, *words: Any) -> Any:
        for _ in range(_TRIES):
            try:
                return ray.get(getattr(self._actor, method).remote(self._run, *words))
            except ActorDiedError as error:  # with the driver that owned it
                died = error
            except RayTaskError:
                raise
            except RayError as error:
                raise ConnectionError(str(error)) from error
            time.sleep(_AGAIN_SECONDS / 2)
            self._actor = _find_or_make()
        raise died

    def request_stop(self, reason: str) -> None:
        """Let every worker finish what is in flight and start nothing new."""
        self._call("report", WorkerReport("driver", stopped=reason))

    def read_figures(self) -> RunFigures:
        """Return figures, which are Ray metrics, too; see `zelo_ray.engine.watching.RunControl`."""
        figures: RunFigures
        figures, self._memory = self._call("read_figures", self._memory)
        self._gauges.set(self._run.run_id, figures[0], self.planned)
        return figures


def _find_or_make() -> Any:
    """Return the coordinator; a new one lives on this driver's node, while the driver holds it."""
    node = ray.get_runtime_context().get_node_id()
    kind: Any = ray.remote(num_cpus=0, max_restarts=-1, max_task_retries=-1)(Coordinator)
    where = NodeAffinitySchedulingStrategy(node, soft=False)
    return kind.options(**_PLACE, get_if_exists=True, scheduling_strategy=where).remote()
