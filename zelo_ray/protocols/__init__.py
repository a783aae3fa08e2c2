"""Protocols: what to ask judges, and what their replies mean.

A protocol is a plain generator: it yields a list of requests (a round), is sent the list of
replies, and returns its judgments. It imports no client, no event loop, no Ray and no file system,
so to resume is to run it again. Parts that need not wait for each other, such as the debates of
different judges, are generators of their own, which it yields as `Apart`. A new one is a module
with the names of `Module` and a line in ``PROTOCOLS``; or in ``RANKERS``, if it asks one judge for
the order of a pool.
"""

from collections.abc import Hashable, Mapping, Sequence
from importlib import import_module
from typing import Any, Protocol, cast

import pyarrow as pa
from pydantic import BaseModel

from zelo_ray.errors import UnknownProtocol
from zelo_ray.fitting.bradley_terry import Fit
from zelo_ray.options import AnnotateOptions, Options
from zelo_ray.protocols.progress import Apart, Progress, Replies, Rounds, Step, advance, known_by
from zelo_ray.records import Judge, Pool, Rater, Share

__all__ = [
    "PROTOCOLS",
    "RANKERS",
    "Apart",
    "Learned",
    "Module",
    "Progress",
    "Replies",
    "Rounds",
    "Step",
    "UnknownProtocol",
    "advance",
    "foreign",
    "known_by",
    "module",
    "refuse_unknown",
    "unused",
]

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


def foreign(name: str) -> frozenset[str]:
    """The options that other protocols use and this one does not."""
    return frozenset[str]().union(*(module(each).USES for each in PROTOCOLS)) - module(name).USES


def unused(options: AnnotateOptions) -> list[str]:
    """The options that were given and that the protocol does not use."""
    return sorted(options.model_fields_set & foreign(options.protocol))
