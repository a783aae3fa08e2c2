"""Protocols: what to ask judges, and what their replies mean.

A protocol is a plain generator: it yields a list of requests (a round), is sent the list of
replies, and returns its judgments. It imports no client, no event loop, no Ray and no file system,
so to resume is to run it again. A new one is a module with the names of `Module` and a line in
``PROTOCOLS``; or in ``RANKERS``, if it asks one judge for the order of a pool.
"""

from collections.abc import Generator, Mapping, Sequence
from dataclasses import dataclass
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
}
"""Ways of judging, by a panel."""

RANKERS = {
    "rerank": "zelo_ray.protocols.rerank",
    "listwise": "zelo_ray.protocols.listwise",
    "pointwise": "zelo_ray.protocols.pointwise",
}
"""Ways of ordering a pool, by one judge. Its judgments are the lines of a run, or one `Failure`."""

Rounds = Generator[list[Request], list[Reply], list[Any]]
"""Yields requests, is sent their replies in the same order, returns judgments and `Failure`."""


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
    ROUNDS: int
    """How many rounds of requests a pool takes at most, one after another."""
    MIN_DOCUMENTS: int
    """Smaller pools are reported, and nothing is asked about them."""

    ALONE: bool
    """Whether every judgment is about one document, and needs no other. Only in PROTOCOLS."""

    USES: frozenset[str]
    """The options that not every protocol uses. Only in PROTOCOLS."""

    def rounds(self, pool: Pool, panel: Sequence[Judge], options: Options) -> Rounds:
        """Ask the panel about one pool."""

    def count(self, pool: Pool, panel: Sequence[Judge], options: Options) -> dict[str, int]:
        """How many requests a pool is expected to take of each judge, without making them."""

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


def advance(rounds: Rounds, replies: Replies, absent: Mapping[str, str] | None = None) -> Step:
    """Run a protocol as far as the replies at hand carry it.

    Args:
        rounds: the protocol's generator, fresh.
        replies: where replies are found.
        absent: judges that are asked nothing more, with the reason; what they have not answered
            counts as failed.
    """
    absent = absent or {}
    try:
        requests = next(rounds)
        while True:
            missing = {r.key: r for r in requests if not replies.has(r.key)}
            if any(r.judge.name not in absent for r in missing.values()):
                return Step(missing=tuple(missing.values()))
            found = iter(replies.read([r.key for r in requests if r.key not in missing]))
            requests = rounds.send(
                [_unasked(r, absent) if r.key in missing else next(found) for r in requests]
            )
    except StopIteration as ended:
        return Step(
            judgments=tuple(found for found in ended.value if not isinstance(found, Failure)),
            failures=tuple(found for found in ended.value if isinstance(found, Failure)),
        )
