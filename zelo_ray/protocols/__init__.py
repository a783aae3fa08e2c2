"""Protocols: what to ask judges, and what their replies mean.

A protocol is a plain generator: it yields a list of requests (a round), is sent the list of
replies, and returns its judgments. It imports no client, no event loop, no Ray and no file system,
so to resume is to run it again. Parts that need not wait for each other, such as the debates of
different judges, are generators of their own, which it yields as `Apart`. A new one is a module
with the names of `Module` and a line in ``PROTOCOLS``; or in ``RANKERS``, if it asks one judge for
the order of a pool.
"""

from collections import Counter
from collections.abc import Generator, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from importlib import import_module
from typing import Any, Protocol, cast

import pyarrow as pa
from pydantic import BaseModel

from zelo_ray.config import Options
from zelo_ray.rating import Fit
from zelo_ray.records import Failure, Judge, Pool, Rater, Reply, Request, Share

PROTOCOLS = {
    "zelo": "zelo_ray.protocols.zelo",
    "graded": "zelo_ray.protocols.graded",
    "zelo+graded": "zelo_ray.protocols.zelo_graded",
    "best-of": "zelo_ray.protocols.best_of",
    "samre": "zelo_ray.protocols.samre",
    "baseline-strong": "zelo_ray.protocols.baseline_strong",
    "baseline-weak": "zelo_ray.protocols.baseline_weak",
}
"""Ways of judging, by a panel."""

RANKERS = {
    "rerank": "zelo_ray.protocols.rerank",
    "listwise": "zelo_ray.protocols.listwise",
    "pointwise": "zelo_ray.protocols.pointwise",
}
"""Ways of ordering a pool, by one judge. Its judgments are the lines of a run, or one `Failure`."""


@dataclass(frozen=True, slots=True)
class Apart:
    """Parts of a protocol that go on side by side, each as soon as its own replies are there.

    What they return is sent back as a list, when all have come to their end.
    """

    parts: Sequence["Rounds"]


Rounds = Generator[list[Request] | Apart, list[Any], Any]
"""Yields requests, is sent their replies in the same order, returns judgments and `Failure`.

A part of a protocol returns whatever its protocol takes.
"""


class Module(Protocol):
    """What a protocol's module holds."""

    TABLES: Mapping[str, type]
    """By the name of the file that holds them, the record that one judgment is."""
    SCORE: type
    """The record of one score. Only in PROTOCOLS."""
    LEARNS: tuple[str, ...]
    """The tables of a whole run from which `learn` learns; () if scores need none."""
    VERDICTS: tuple[type[BaseModel], ...]
    """The models that answers to its requests must satisfy."""
    ROUNDS: int | None
    """How many rounds of requests a pool takes at most, one after another; None: it depends."""
    MIN_DOCUMENTS: int
    """Smaller pools are reported, and nothing is asked about them."""

    ALONE: bool
    """Whether every judgment is about one document, and needs no other. Only in PROTOCOLS."""

    USES: frozenset[str]
    """The options that not every protocol uses. Only in PROTOCOLS."""

    def rounds(self, pool: Pool, panel: Sequence[Judge], options: Options) -> Rounds:
        """Ask the panel about one pool."""

    def count(self, pool: Pool, panel: Sequence[Judge], options: Options) -> dict[str, int]:
        """How many requests a pool takes of each judge at most, without making them."""

    def counted(self, row: Any) -> Hashable | None:
        """What ``min_coverage`` counts a judgment or failure as; None: as nothing. In PROTOCOLS.

        What has a judgment is covered, though it may have failures as well.
        """

    def fit(
        self, judgments: Sequence[Sequence[Any]], options: Options, learned: Any = None
    ) -> list[Fit]:
        """Turn the judgments of many pools into scores, a `Fit` for each. Only in PROTOCOLS.

        What was ``learned`` is None while judgments are still missing.
        """

    def learn(self, tables: Mapping[str, pa.Table], options: Options) -> "Learned":
        """What all judgments of a run say of its judges. Only where `LEARNS` is not empty.

        Besides the tables of `LEARNS` there is ``human``, if the user gave human grades: the
        columns query_id, doc_id, relevance.
        """


class Learned(Protocol):
    """What `Module.learn` returns: small, since it travels to every actor that fits."""

    raters: tuple[Rater, ...]
    """each judge as measured beside the others"""
    shares: tuple[Share, ...]
    """means over all documents"""
    notes: tuple[str, ...]
    """what a user should know of how it was learned"""


def _unasked(request: Request, absent: Mapping[str, str]) -> Reply:
    name = request.judge.name
    return Reply(
        key=request.key,
        judge=name,
        status="failed",
        text="",
        reason=f"not asked: {absent[name].removeprefix(f'{name}: ')}",
        model="",
        input_tokens=0,
        output_tokens=0,
        cached_tokens=0,
        cache_write_tokens=0,
        thinking_tokens=0,
        dollars=0.0,
        attempts=0,
        received_at="",
        run_id="",
    )


class UnknownProtocol(Exception):  # noqa: N818 - it names what is the matter
    """There is no protocol of that name; the message lists those that there are."""


def module(name: str) -> Module:
    """The module of a protocol or a ranker, imported when first used.

    Raises:
        UnknownProtocol: there is none of that name.
    """
    if name not in RANKERS:
        refuse_unknown(name)
    return cast(Module, import_module({**PROTOCOLS, **RANKERS}[name]))


def refuse_unknown(name: str) -> None:
    """Refuse what is no way of judging.

    Raises:
        UnknownProtocol: there is none of that name.
    """
    if name not in PROTOCOLS:
        raise UnknownProtocol(f"unknown protocol {name!r}; there are {', '.join(PROTOCOLS)}")


def unused(options: Options) -> list[str]:
    """The options that were given and that the protocol does not use."""
    special = frozenset[str]().union(*(module(name).USES for name in PROTOCOLS))
    return sorted(options.model_fields_set & special - module(options.protocol).USES)


class Replies(Protocol):
    """Where replies are found: the ledger, or anything that can do these two things."""

    def has(self, key: str) -> bool:
        """Whether there is a reply for this key."""

    def read(self, keys: Sequence[str]) -> list[Reply]:
        """The replies for keys that are there, in their order."""


@dataclass(frozen=True, slots=True)
class Step:
    """How far a protocol got: its judgments and failures, or else the requests it waits for."""

    judgments: tuple[Any, ...] = ()
    failures: tuple[Failure, ...] = ()
    missing: tuple[Request, ...] = ()
    keys: tuple[str, ...] = ()
    """of the replies that it has taken in so far"""
    heard: Mapping[str, int] = field(default_factory=dict)
    """how many these are, by judge"""


class Progress:
    """A protocol on its way over one pool. It goes on from where it was: no reply is read twice.

    Args:
        rounds: the protocol's generator, fresh.
    """

    def __init__(self, rounds: Rounds) -> None:
        self._part = _Part(rounds)

    def step(self, replies: Replies, absent: Mapping[str, str] | None = None) -> Step:
        """Go as far as the replies at hand carry.

        Args:
            replies: where replies are found.
            absent: judges that are asked nothing more, with the reason; what they have not answered
                counts as failed.
        """
        missing = {request.key: request for request in self._part.go(replies, absent or {})}
        heard = list(self.heard())
        keys = tuple(request.key for request in heard)
        counts = Counter(request.judge.name for request in heard)
        if missing:
            return Step(missing=tuple(missing.values()), keys=keys, heard=counts)
        return Step(
            judgments=tuple(found for found in self._part.result if not isinstance(found, Failure)),
            failures=tuple(found for found in self._part.result if isinstance(found, Failure)),
            keys=keys,
            heard=counts,
        )

    def heard(self) -> Iterator[Request]:
        """The requests whose replies it has taken in so far."""
        return self._part.heard()


class _Part:
    """A generator on its way: it waits for replies, or for parts of its own."""

    def __init__(self, rounds: Rounds) -> None:
        self._rounds = rounds
        self._begun = self._ended = False
        self._requests: list[Request] = []
        self._parts: list[_Part] | None = None
        self._heard: list[Request] = []
        self.result: Any = ()

    def heard(self) -> Iterator[Request]:
        """The requests whose replies were sent so far."""
        yield from self._heard
        for part in self._parts or ():
            yield from part.heard()

    def go(self, replies: Replies, absent: Mapping[str, str]) -> Sequence[Request]:
        """Go on as far as possible; the requests that it then waits for, none at its end."""
        if not self._begun:  # what takes long is not done before it is asked for
            self._begun = True
            self._send(None)
        while not self._ended:
            if self._parts is not None:
                if missing := [r for part in self._parts for r in part.go(replies, absent)]:
                    return missing
                self._heard = list(self.heard())
                self._send([part.result for part in self._parts])
                continue
            missing = [request for request in self._requests if not replies.has(request.key)]
            if any(request.judge.name not in absent for request in missing):
                return missing
            unasked = {request.key for request in missing}
            there = [request for request in self._requests if request.key not in unasked]
            self._heard += there
            found = iter(replies.read([request.key for request in there]))
            self._send(
                [_unasked(r, absent) if r.key in unasked else next(found) for r in self._requests]
            )
        return ()

    def _send(self, answers: list[Any] | None) -> None:
        self._requests, self._parts = [], None
        try:
            wanted = next(self._rounds) if answers is None else self._rounds.send(answers)
        except StopIteration as ended:
            self._ended, self.result = True, ended.value
            return
        if isinstance(wanted, Apart):
            self._parts = [_Part(part) for part in wanted.parts]
        else:
            self._requests = wanted


def advance(rounds: Rounds, replies: Replies, absent: Mapping[str, str] | None = None) -> Step:
    """Run a protocol from its beginning, as far as the replies at hand carry: see `Progress`."""
    return Progress(rounds).step(replies, absent)
