"""Serialize a caller's objects for another process of Ray."""

from typing import Any

import ray.cloudpickle


def pack_object(value: Any) -> bytes:
    """Serialize a class, function or object, with all that it needs of its own module.

    What stands in a module that can be imported is named, and imported where it is unpacked.
    """
    data: bytes = ray.cloudpickle.dumps(value)  # type: ignore[no-untyped-call]
    return data
