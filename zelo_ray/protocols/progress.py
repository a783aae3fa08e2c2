"""Run protocols on the replies that are present, as far as these reach.

No other code runs a protocol's rounds, so that a first run, a resumed one and a replay are alike.
"""

from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
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

    Args:
        rounds: the protocol's generator, fresh.
        remember: whether to keep the requests whose replies it takes in; they hold whole prompts.
    """

    def __init__(self, rounds: Rounds, *, remember: bool = False) -> None:
        self._taken, self._keys = list[AnyRequest](), dict[str, list[str]]()
        self._remember, self._plan = remember, dict[tuple[Any, ...], tuple[str, bool]]()
        self.rounds = dict[str, int]()
        """the round, from 1, of each request so far, by key; empty unless it remembers requests"""
        self._servers = dict[str, ServerFigures]()
        self._part = _Part(rounds, self._note, self._number if remember else _ignore)

    def _number(self, requests: Sequence[AnyRequest], number: int) -> None:
        for request in requests:
            self.rounds.setdefault(request.key, number)

    def _note(self, requests: Sequence[AnyRequest], replies: Sequence[Reply]) -> None:
        for reply in {reply.key: reply for reply in replies}.values():
            figures = self._servers.setdefault(reply.judge, ServerFigures())
            figures.take(reply.model, reply, reply.prompt_characters)
        _sort(requests, self._keys)
        self._plan.update(_plan_of(requests))
        if self._remember:
            self._taken += requests

    @property
    def answered_requests(self) -> list[AnyRequest]:
        """Return the requests with replies; those of completed rounds only if it remembers them."""
        return [*self._taken, *self._part.open_rounds()]

    def answered_keys(self) -> dict[str, list[str]]:
        """Return, by judge, the keys of the requests with replies.

        Replies count also in a round that still waits for another judge.
        """
        return _sort(self._part.open_rounds(), {name: [*keys] for name, keys in self._keys.items()})

    def plan(self) -> RequestPlan:
        """Return what is known of the requests with replies, to be kept as the pool's plan."""
        return self._plan | _plan_of(self._part.open_rounds())

    def step(self, replies: Replies, disabled: Mapping[str, Disabled] | None = None) -> Step:
        """Advance as far as the present replies allow.

        Args:
            replies: where replies are found.
            disabled: judges that are asked nothing more, with the reason; what they have not
                answered counts as failed.

        Raises:
            PlanError: a reply is missing to a request that the pool's plan names.
        """
        missing = dict[str, Request]()
        for request in self._part.advance(replies, disabled or {}):
            if not isinstance(request, Request):
                raise PlanError
            missing[request.key] = request
        reply_counts = {name: len(keys) for name, keys in self.answered_keys().items()}
        if missing:
            return Step(missing=tuple(missing.values()), reply_counts=reply_counts)
        return Step(
            judgments=tuple(row for row in self._part.result if not isinstance(row, Failure)),
            failures=tuple(row for row in self._part.result if isinstance(row, Failure)),
            reply_counts=reply_counts,
            servers=self._servers,
        )


class _Part:
    """Running generator of a protocol, which waits for replies or for parallel parts."""

    def __init__(
        self,
        rounds: Rounds,
        note: Callable[[Sequence[AnyRequest], Sequence[Reply]], None],
        number: Callable[[Sequence[AnyRequest], int], None],
        round_number: int = 0,
    ) -> None:
        self._rounds, self._note, self._number = rounds, note, number
        self._round_number = round_number
        self._begun = self._ended = False
        self._requests: Sequence[AnyRequest] = []
        self._present: list[AnyRequest] = []
        self._parts: list[_Part] | None = None
        self.result: Any = ()

    def advance(self, replies: Replies, disabled: Mapping[str, Disabled]) -> Sequence[AnyRequest]:
        """Advance as far as possible; return the requests it then waits for, none at the end."""
        if not self._begun:  # what takes long is not done before it is asked for
            self._begun = True
            self._send(None)
        while not self._ended:
            if self._parts is not None:
                if missing := [r for part in self._parts for r in part.advance(replies, disabled)]:
                    return missing
                self._send([part.result for part in self._parts])
                continue
            flags = replies.contains([request.key for request in self._requests])
            pairs = [*zip(self._requests, flags, strict=True)]
            missing = [request for request, is_there in pairs if not is_there]
            self._present = [request for request, is_there in pairs if is_there]
            if any(request.judge.name not in disabled for request in missing):
                return missing
            present = replies.read([request.key for request in self._present])
            self._note(self._present, present)
            answers = iter(present)
            self._send([next(answers) if ready else _unasked(r, disabled) for r, ready in pairs])
        return ()

    def open_rounds(self) -> Iterator[AnyRequest]:
        """Yield the requests with replies in rounds that are not complete."""
        yield from self._present
        for part in self._parts or ():
            yield from part.open_rounds()

    def _send(self, answers: list[Any] | None) -> None:
        self._requests, self._present, self._parts = [], [], None
        try:
            wanted = next(self._rounds) if answers is None else self._rounds.send(answers)
        except StopIteration as ended:
            self._ended, self.result = True, ended.value
            return
        if isinstance(wanted, Parallel):
            shared = (self._note, self._number, self._round_number)
            self._parts = [_Part(part, *shared) for part in wanted.parts]
        else:
            self._requests = wanted
            self._round_number += 1
            self._number(wanted, self._round_number)


def advance(
    rounds: Rounds, replies: Replies, disabled: Mapping[str, Disabled] | None = None
) -> Step:
    """Run a protocol from its beginning as far as the present replies allow: see `Progress`."""
    return Progress(rounds).step(replies, disabled)


def _ignore(_requests: Sequence[AnyRequest], _number: int) -> None:
    """Keep no number of a round."""


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
