"""Declare to a cluster what actors that ask need, for its scheduler and autoscaler.

To a private Ray nothing is declared: there is only one machine, and a declaration adds nothing to
it.
"""

import os
from typing import Any

import ray

from zelo_ray.errors import OptionError

ASKING_CPUS = 0.25
"""Of an actor: a hundred calls a second. Nothing keeps it from more where more is there."""
ASKING_BYTES = 512 * 2**20
"""Of an actor: Python, Ray and the provider's SDK, the pools on hand, and the ledger's index."""
_OF_A_NODE = 4  # actors that the largest node gets, however little memory it reports


def nodes_alive() -> list[dict[str, Any]]:
    """Return what Ray knows of each node that is alive; Ray has no types for it."""
    nodes: list[dict[str, Any]] = ray.nodes()  # type: ignore[no-untyped-call]
    return [node for node in nodes if node["Alive"]]


def asking_actor_options() -> dict[str, Any]:
    """Return the options of an actor that asks."""
    if not _is_joined():
        return {"num_cpus": 0}
    sizes = (node["Resources"].get("memory", 0) for node in nodes_alive())
    memory = min(ASKING_BYTES, int(max(sizes, default=0) / _OF_A_NODE))
    return {"num_cpus": ASKING_CPUS, "memory": memory}


def reading_task_options() -> dict[str, Any]:
    """Return the options of the tasks that read shards.

    On a cluster they take no processor: they would wait for ever for one where actors that ask,
    which wait for them, hold all that there are.
    """
    if not _is_joined():
        return {}
    cpus = ray.cluster_resources().get("CPU", 1)  # type: ignore[no-untyped-call]
    return {"num_cpus": 0, "concurrency": max(1, int(cpus))}


def warn_of_missing_gpus(who: str, wanted: float) -> str:
    """Return a warning if there are too few GPUs, for which Ray would wait without a word.

    Raises:
        OptionError: this machine has too few; a cluster may still grow.
    """
    available = ray.cluster_resources().get("GPU", 0)  # type: ignore[no-untyped-call]
    if wanted <= available:
        return ""
    says = f"{who} take {wanted:g} GPUs, and there are {available:g}"
    if not _is_joined():
        raise OptionError(says)
    return f"{says}; the run waits until the cluster has grown"


def _is_joined() -> bool:
    return bool(os.environ.get("RAY_ADDRESS"))
