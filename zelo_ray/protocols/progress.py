"""Run protocols on the replies that are present, as far as these reach.

No other code runs a protocol's rounds, so that a first run, a resumed one and a replay are alike.
"""

from collections.abc import Generator, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from zelo_ray.protocols.server_figures import ServerFigures
from zelo_ray.reasons import Disabled
from zelo_ray.records import AnyRequest, Failure, Reply, Request, RequestPlan


@dataclass(frozen=True, slots=True)
class Parallel:
    """Parts of a protocol that run in parallel: each goes on as soon as its own replies are there.

    What they return is sent back as a list, when all have come to their end.
    """

    parts: Sequence["Rounds"]


Rounds = Generator[Sequence[AnyRequest] | Parallel, list[Any], Any]
"""Yields requests, is sent their replies in the same order, returns judgments and `Failure`.

A part of a protocol returns whatever its protocol takes.
"""
_Waiting = Generator[Sequence[AnyRequest], None, Any]
"""Yields the requests that it waits for, at least one; returns a result."""


class Replies(Protocol):
    """A source of replies: the ledger, or anything with these two methods."""

    def contains(self, keys: Sequence[str]) -> list[bool]:
        """Return whether there is a reply for each of these keys."""

    def read(self, keys: Sequence[str]) -> list[Reply]:
        """Read the replies for keys that are present, in their order."""


@dataclass(frozen=True, slots=True)
class Step:
    """A protocol's state: its judgments and failures, or else the requests it waits for."""

    judgments: tuple[Any, ...] = ()
    failures: tuple[Failure, ...] = ()
    missing: tuple[Request, ...] = ()
    reply_counts: Mapping[str, int] = field(default_factory=dict)
    """recorded replies by judge, also in rounds that still wait for other judges"""
    servers: Mapping[str, ServerFigures] = field(default_factory=dict)
    """by judge, what came with the replies, once all are there"""


class PlanError(Exception):
    """A request is to be sent that has no prompts, as it is of a plan: see `Pool.plan`."""


class Progress:
    """A protocol's progress on one pool. Each step continues the last: no reply is read twice.

    ``rounds`` is its generator, fresh. ``remember`` keeps the requests whose replies it takes in,
    and the ``rounds`` of all requests, from 1, by key: they hold whole prompts.
    """

    def __init__(self, rounds: Rounds, *, remember: bool = False) -> None:
        self._taken, self._open = list[AnyRequest](), list[AnyRequest]()
        self._remember, self._plan = remember, dict[tuple[Any, ...], tuple[str, bool]]()
        self._keys = dict[str, list[str]]()
        self._servers = dict[str, ServerFigures]()
        self._running, self._result = self._run(rounds), None
        self.rounds = dict[str, int]()

    @property
    def answered_requests(self) -> list[AnyRequest]:
        """Return the requests with replies; those of completed rounds only if it remembers them."""
        return [*self._taken, *self._open]

    def answered_keys(self) -> dict[str, list[str]]:
        """Return by judge the keys with replies, also of rounds that wait for another judge."""
        return _sort(self._open, {name: [*keys] for name, keys in self._keys.items()})

    def plan(self) -> RequestPlan:
        """Return what is known of the requests with replies, to be kept as the pool's plan."""
        return self._plan | _plan_of(self._open)

    def step(self, replies: Replies, disabled: Mapping[str, Disabled] | None = None) -> Step:
        """Advance as far as the present replies allow.

        ``disabled`` are judges that are asked nothing more, with the reason; what they have not
        answered counts as failed.

        Raises:
            PlanError: a reply is missing to a request that the pool's plan names.
        """
        self._replies, self._disabled, self._open = replies, disabled or {}, []
        missing = dict[str, Request]()
        if self._result is None:
            try:
                for request in next(self._running):
                    if not isinstance(request, Request):
                        raise PlanError
                    missing[request.key] = request
            except StopIteration as ended:
                if ended.value is None:  # it never ends so, but after an error
                    raise RuntimeError("the rounds ended without a result") from None
                self._result = ended.value
        reply_counts = {name: len(keys) for name, keys in self.answered_keys().items()}
        if missing:
            return Step(missing=tuple(missing.values()), reply_counts=reply_counts)
        rows: Sequence[Any] = self._result or ()
        return Step(
            judgments=tuple(row for row in rows if not isinstance(row, Failure)),
            failures=tuple(row for row in rows if isinstance(row, Failure)),
            reply_counts=reply_counts,
            servers=self._servers,
        )

    def _run(self, rounds: Rounds, number: int = 0) -> _Waiting:
        """Run a generator, whose last round was of this number, to its end."""
        answers: list[Any] | None = None
        while True:
            try:
                wanted = next(rounds) if answers is None else rounds.send(answers)
            except StopIteration as ended:
                return ended.value
            if isinstance(wanted, Parallel):
                answers = yield from self._run_all(wanted.parts, number)
            else:
                number += 1
                answers = yield from self._ask(wanted, number)

    def _run_all(self, parts: Sequence[Rounds], number: int) -> _Waiting:
        running = {place: self._run(part, number) for place, part in enumerate(parts)}
        results = dict[int, Any]()
        while True:
            missing = list[AnyRequest]()
            for place, part in [*running.items()]:
                try:
                    missing += next(part)
                except StopIteration as ended:
                    results[place] = ended.value
                    del running[place]
            if not running:
                return [results[place] for place in range(len(parts))]
            yield missing

    def _ask(self, requests: Sequence[AnyRequest], number: int) -> _Waiting:
        for request in requests if self._remember else ():
            self.rounds.setdefault(request.key, number)
        while True:
            flags = self._replies.contains([request.key for request in requests])
            pairs = [*zip(requests, flags, strict=True)]
            present = [request for request, is_there in pairs if is_there]
            missing = [request for request, is_there in pairs if not is_there]
            if not any(request.judge.name not in self._disabled for request in missing):
                break
            self._open += present
            yield missing
        replies = self._replies.read([request.key for request in present])
        for reply in {reply.key: reply for reply in replies}.values():
            figures = self._servers.setdefault(reply.judge, ServerFigures())
            figures.take(reply.model, reply, reply.prompt_characters)
        _sort(present, self._keys)
        self._plan.update(_plan_of(present))
        self._taken += present if self._remember else ()
        answers = iter(replies)
        return [next(answers) if ready else _unasked(r, self._disabled) for r, ready in pairs]


def advance(
    rounds: Rounds, replies: Replies, disabled: Mapping[str, Disabled] | None = None
) -> Step:
    """Run a protocol from its beginning as far as the present replies allow: see `Progress`."""
    return Progress(rounds).step(replies, disabled)


def _sort(requests: Iterable[AnyRequest], keys: dict[str, list[str]]) -> dict[str, list[str]]:
    """Add the keys of more requests to the keys by judge."""
    for request in requests:
        keys.setdefault(request.judge.name, []).append(request.key)
    return keys


def _plan_of(requests: Iterable[AnyRequest]) -> dict[tuple[Any, ...], tuple[str, bool]]:
    return {
        (request.judge.name, *request.item): (request.key, request.swapped)
        for request in requests
        if isinstance(request, Request) and request.item
    }


def _unasked(request: AnyRequest, disabled: Mapping[str, Disabled]) -> Reply:
    name = request.judge.name
    reason = f"not asked: {disabled[name].message}"
    return Reply.without_call(request.key, name, "failed", reason=reason)
