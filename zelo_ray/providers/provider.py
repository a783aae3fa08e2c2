"""Define providers, their connections and batches, and the three errors that they raise."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import Enum, auto
from typing import Any, Protocol

from zelo_ray.records import Answer, Judge, Request, Status, Usage


class CallError(Exception):
    """The base class of the three errors that a provider raises: one line, and the judge's name."""

    def __init__(self, detail: str, *, name: str = "") -> None:
        super().__init__(detail)
        self.detail, self.name = detail, name

    def __str__(self) -> str:
        """Return the name and the detail."""
        return f"{self.name}: {self.detail}" if self.name else self.detail


class RetryKind(Enum):
    """The reasons why a call may succeed later."""

    THROTTLED = auto()
    """the account's rate limit was exceeded, so its other calls should wait as well"""
    UNREACHED = auto()
    """no connection could be made"""
    UNAVAILABLE = auto()
    """the server reports that it cannot serve any request now"""
    OTHER = auto()


class Retry(CallError):  # noqa: N818 - it names what is to be done
    """A call failed that may succeed later.

    ``delay`` is the wait that the server asks for, in seconds; ``billed`` is the usage of a
    response without an answer. ``unsettled`` means that the call may have been billed, although no
    response reports its usage. ``status`` is how the request ends if its attempts are used up.
    """

    def __init__(
        self,
        detail: str,
        delay: float | None = None,
        *,
        name: str = "",
        kind: RetryKind = RetryKind.OTHER,
        billed: Usage | None = None,
        unsettled: bool = False,
        status: Status = "failed",
    ) -> None:
        super().__init__(detail, name=name)
        self.delay, self.kind, self.billed = delay, kind, billed
        self.unsettled, self.status = unsettled, status


class Refused(CallError):  # noqa: N818 - as Retry
    """A request failed that will never succeed, though others may. Nothing was billed."""

    def __init__(self, detail: str, status: Status = "failed", *, name: str = "") -> None:
        super().__init__(detail, name=name)
        self.status = status


class Fatal(CallError):  # noqa: N818 - as Retry
    """No request of this judge will succeed until a person acts: a wrong key, an unknown model."""


Outcome = Answer | Retry | Refused | Fatal
"""The result of one request in a batch: an answer, or one of the three errors, not raised."""


@dataclass(frozen=True, slots=True)
class Settings:
    """A connection's key, URL and timeout, which change no answer; the repr hides the key."""

    key: str = field(default="", repr=False)
    base_url: str | None = None
    timeout: float = 120.0
    variable: str = ""
    """the environment variable that the user names for the key; empty: the provider's usual ones"""


class Connection(Protocol):
    """A connection that carries a provider's requests; many calls share it."""

    async def send(self, request: Request) -> Answer:
        """Make one call, without retries.

        Raises:
            Retry, Refused, Fatal: and nothing that belongs to an SDK.
        """

    async def aclose(self) -> None:
        """Close the sockets."""


@dataclass(frozen=True, slots=True)
class BatchLimits:
    """The most that one batch may hold."""

    requests: int
    bytes: int


@dataclass(frozen=True, slots=True)
class Batch:
    """A batch's state, as its provider reports it; figures are 0 where it reports none.

    ``state`` is in the provider's own words, and ``ended`` when no more results will come. ``mark``
    is the label that it was created with, if the provider keeps one; ``done`` counts requests that
    have ended; ``created_at`` is in seconds since 1970; ``reason`` says why it failed as a whole,
    and ``full`` that waiting helps, as too many tokens were enqueued. ``cancelled``: by somebody.
    """

    id: str
    state: str
    ended: bool
    mark: str = ""
    requests: int = 0
    done: int = 0
    created_at: float = 0.0
    reason: str = ""
    cancelled: bool = False
    full: bool = False


def all_tokens(usage: Usage) -> Mapping[str, float]:
    """Count input and output tokens together, as a limit in tokens a minute."""
    return {"tpm": usage.input_tokens + usage.output_tokens}


@dataclass(frozen=True, slots=True, kw_only=True)
class Provider:
    """A provider that answers the requests of judges or of rerankers.

    Args:
        connect: opens a connection for the judges of one base URL and key.
        models: the models that the provider's name alone stands for; if ``closed``, all there are.
        judges_in: returns the models that one name stands for, each with options that the user
            cannot set, such as a digest of its content; it may raise PanelError.
        key_variables: environment variables, any of which holds its key; none: it needs no key.
        url_variable: the one that holds another base URL; empty: there is none.
        options: every option that can change an answer, with its default.
        transport: options that change no answer: keys are hashed with these values.
        concurrency: calls in flight by default.
        rates: cautious limits to begin with while the account's own are unknown, {"rpm": ...}.
        free: whether calls cost nothing.
        limit_tokens: how a call counts against limits by token: {"tpm": ...}, or itpm, otpm.
        least_cached_tokens: returns for a model the fewest tokens of a prompt's beginning that the
            provider's cache keeps; None where the order of requests does not matter.
        batch, connect_batches: the limits of its batch API; and what opens the `Batches` of a key.
        build_body: returns the body of the HTTP request that a request becomes, if there is one.
        gives_probabilities: whether requests with `choices` (`zelo_ray.records.Request`) are
            answered by the probability of each letter.
        fingerprint: returns what identifies a judge's local model, to be the value of its option
            ``version`` where that is unset. It may raise PanelError.

    Example:
        >>> class Echo:
        ...     async def send(self, request):
        ...         return Answer("ok", '{"reasoning": "First.", "preference": -1.0}', Usage())
        ...
        ...     async def aclose(self):
        ...         pass
        >>> PROVIDER = Provider(connect=lambda settings: Echo(), models=("echo-1",), free=True)
    """

    connect: Callable[[Settings], Connection]
    models: tuple[str, ...] = ()
    closed: bool = False
    judges_in: Callable[[str], Mapping[str, Mapping[str, Any]]] | None = None
    key_variables: tuple[str, ...] = ()
    url_variable: str = ""
    options: Mapping[str, Any] = field(default_factory=dict)
    transport: Mapping[str, Any] = field(default_factory=dict)
    concurrency: int = 16
    rates: Mapping[str, float] = field(default_factory=dict)
    free: bool = False
    limit_tokens: Callable[[Usage], Mapping[str, float]] = all_tokens
    least_cached_tokens: Callable[[str], int] | None = None
    batch: BatchLimits | None = None
    connect_batches: Callable[[Settings], Any] | None = None
    build_body: Callable[[Request], Mapping[str, Any]] | None = None
    gives_probabilities: bool = False
    fingerprint: Callable[[Judge], str | None] | None = None
