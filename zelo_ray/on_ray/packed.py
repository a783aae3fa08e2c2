"""What a caller holds in memory, as bytes that another process of Ray can make it from again."""

from typing import Any

import ray.cloudpickle


def packed(value: Any) -> bytes:
    """A class, function or object with all that it needs of the module it was written in.

    What stands in a module that can be imported is named, and imported where it is unpacked.
    """
    data: bytes = ray.cloudpickle.dumps(value)  # type: ignore[no-untyped-call]
    return data
