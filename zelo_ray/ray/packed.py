"""Pack a caller's objects in bytes, from which another process of Ray can make them again."""

from typing import Any

import ray.cloudpickle


def packed(value: Any) -> bytes:
    """Pack a class, function or object with all that it needs of the module it was written in.

    What stands in a module that can be imported is named, and imported where it is unpacked.
    """
    data: bytes = ray.cloudpickle.dumps(value)  # type: ignore[no-untyped-call]
    return data
