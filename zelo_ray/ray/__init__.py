"""The jobs on Ray: read shards, ask each provider's judges side by side, fit, write.

This package is the only one that knows Ray. A query's pool stays one row from the line it was read
from to its scores, so every stage sees all of a query and nothing has to be shuffled together
again. Every worker imports this file, and Ray takes a second to import: so nothing is, here.
"""

import os
from typing import Any

os.environ.setdefault("RAY_ENABLE_UV_RUN_RUNTIME_ENV", "0")
os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
os.environ.setdefault("RAY_BACKEND_LOG_LEVEL", "fatal")
if not os.environ.get("RAY_ADDRESS"):  # a private Ray: then all that it opens is on loopback
    os.environ.setdefault("RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER", "0")
    # By default 30 s each, which is short for a busy machine.
    os.environ.setdefault("RAY_raylet_start_wait_time_s", "75")
    os.environ.setdefault("RAY_agent_register_timeout_ms", "75000")


def pack_object(value: Any) -> bytes:
    """Serialize a caller's object for another process, with all it needs of its own module.

    What stands in a module that can be imported is named, and imported where it is unpacked.
    """
    from ray import cloudpickle  # noqa: PLC0415 - Ray takes a second to import

    data: bytes = cloudpickle.dumps(value)  # type: ignore[no-untyped-call]
    return data
