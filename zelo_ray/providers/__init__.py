"""Providers carry a request to a model and bring the answer back. They know nothing of relevance.

A provider is one module with five names, and one line in ``PROVIDERS``:

* ``KEY_VARIABLES``: environment variables, any of which holds its key; empty where none is needed.
* ``MODELS``: the models that the provider's bare name stands for; the first is its default.
* ``OPTIONS``: the answer-changing options it understands, with their defaults.
* ``CONCURRENCY``: calls in flight that are fine without knowing the account's limits.
* ``connect(settings)``: a `Provider` for judges of one base URL and key.

What goes wrong leaves a provider as one of three errors; `zelo_ray.online` decides what to do.
"""

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib import import_module
from typing import Any, Protocol

from zelo_ray.records import Answer, Judge, Request, Status

PROVIDERS = {
    "openai": "zelo_ray.providers.openai",
    "anthropic": "zelo_ray.providers.anthropic",
    "gemini": "zelo_ray.providers.gemini",
    "offline": "zelo_ray.providers.offline",
}


class Retry(Exception):  # noqa: N818 - it names what to do, as the two below
    """The call may succeed later. ``delay`` is the server's own wish, in seconds, if it had one;
    ``throttled`` tells that the account's rate was exceeded, so that others should wait as well."""

    def __init__(self, reason: str, delay: float | None = None, *, throttled: bool = False) -> None:
        super().__init__(reason)
        self.delay, self.throttled = delay, throttled


class Refused(Exception):  # noqa: N818
    """This request will never succeed, others may. Nothing was billed."""

    def __init__(self, reason: str, status: Status = "failed") -> None:
        super().__init__(reason)
        self.status = status


class Fatal(Exception):  # noqa: N818
    """No request of this judge will succeed until a person acts: a wrong key, an unknown model."""


@dataclass(frozen=True, slots=True)
class Settings:
    """Where and how to connect; nothing here changes an answer. The key stays out of every repr."""

    key: str = field(default="", repr=False)
    base_url: str | None = None
    timeout: float = 120.0


class Provider(Protocol):
    """A connection that many calls share."""

    async def send(self, request: Request) -> Answer:
        """Make one call, without retries. Raises `Retry`, `Refused` or `Fatal`, and nothing that
        belongs to an SDK."""

    async def aclose(self) -> None:
        """Let go of sockets."""
