"""What actors and readers declare: nothing to a private Ray, and to a cluster what it can hold."""

import pytest
import ray

from zelo_ray.ray.pipeline import (
    ASKING_BYTES,
    ASKING_CPUS,
    asking_actor_options,
    reading_task_options,
)


@pytest.fixture
def cluster(monkeypatch):
    """Say what the nodes of a cluster that was joined have."""

    def joined(*nodes):
        monkeypatch.setenv("RAY_ADDRESS", "127.0.0.1:1")
        told = [
            {"NodeID": f"{number:056x}", "Alive": alive, "Resources": resources}
            for number, (alive, resources) in enumerate(nodes)
        ]
        monkeypatch.setattr(ray, "nodes", lambda: told)
        cpus = sum(resources.get("CPU", 0) for alive, resources in nodes if alive)
        monkeypatch.setattr(ray, "cluster_resources", lambda: {"CPU": cpus} if cpus else {})

    return joined


def test_nothing_is_declared_to_a_private_ray():
    assert asking_actor_options() == {"num_cpus": 0}
    assert reading_task_options() == {}


def test_an_actor_declares_what_it_takes_and_readers_no_processor(cluster):
    cluster((True, {"CPU": 4.0, "memory": 12e9}), (True, {"CPU": 2.0, "memory": 1e9}))
    assert asking_actor_options() == {"num_cpus": ASKING_CPUS, "memory": ASKING_BYTES}
    assert reading_task_options() == {"num_cpus": 0, "concurrency": 6}


def test_an_actor_declares_no_more_memory_than_some_living_node_has(cluster):
    """It would be waited for until a machine comes that nobody sends."""
    cluster((True, {"CPU": 1.0, "memory": 4e8}), (False, {"CPU": 8.0, "memory": 12e9}))
    assert asking_actor_options()["memory"] == 1e8


def test_a_head_that_lets_nothing_run_on_it_is_a_cluster_too(cluster):
    cluster((True, {"memory": 12e9}))
    assert asking_actor_options() == {"num_cpus": ASKING_CPUS, "memory": ASKING_BYTES}
    assert reading_task_options()["concurrency"] == 1
