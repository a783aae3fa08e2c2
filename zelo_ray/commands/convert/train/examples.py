"""Make examples to train rerankers and embedders on from one query's judged documents.

A form is a function from a `LabelledPool` to rows, and a line in ``FORMS``.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import combinations, permutations
from math import isnan, nan
from random import Random
from typing import Any, TypeVar

from zelo_ray.commands.convert.train.target_scale import TargetScale, error_of_gap
from zelo_ray.records import Document, Pool

Example = dict[str, Any]
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class BattleCount:
    """The votes of all judges on one pair: the mean chance that A beats B, and their number."""

    p: float
    votes: int

    @property
    def error(self) -> float:
        """Return the standard error of ``p``, with one win added for each side (Laplace)."""
        p = (self.p * self.votes + 1) / (self.votes + 2)
        return float((p * (1 - p) / self.votes) ** 0.5)


@dataclass(frozen=True, slots=True)
class LabelledPool:
    """A query with what judges said of its documents.

    ``relevance`` and ``errors`` are by document; an error is NaN where it is unknown. ``battles``
    are by pair, A first.
    """

    pool: Pool
    relevance: Mapping[str, float]
    errors: Mapping[str, float]
    battles: Mapping[tuple[str, str], BattleCount] = field(default_factory=dict)

    @property
    def judged(self) -> list[Document]:
        """Return the judged documents in the order of the pool."""
        return [document for document in self.pool.documents if document.id in self.relevance]


@dataclass(frozen=True, slots=True, kw_only=True)
class ExampleOptions:
    """Options of how examples are made; see `ConvertOptions` for what users may set.

    ``spread`` is the standard deviation of relevance over all documents, of which ``weight`` makes
    its unit.
    """

    scale: TargetScale
    spread: float
    min_gap: float
    gap_in_errors: bool
    has_battles: bool
    per_query: int
    seed: int

    def weight(self, error: float, spread: float | None = None) -> float:
        """Return how far a number can be trusted: the share of its variance that is no error.

        Args:
            error: its standard error; NaN, where it is unknown, gives 1.
            spread: the standard deviation of such numbers; by default that of relevance.
        """
        unit = (self.spread if spread is None else spread) ** 2
        return 1.0 if isnan(error) or not unit else unit / (unit + error * error)


def make_rows(labelled: LabelledPool, options: ExampleOptions) -> Iterator[Example]:
    """Yield each judged document with its relevance, as it was judged."""
    pool = labelled.pool
    for document in labelled.judged:
        error = labelled.errors[document.id]
        yield {
            "query_id": pool.query_id,
            "doc_id": document.id,
            "query": pool.query,
            "document": document.content,
            "score": labelled.relevance[document.id],
            "target": options.scale.target(labelled.relevance[document.id]),
            "std_error": None if isnan(error) else error,
            "weight": options.weight(error),
        }


def make_pairs(labelled: LabelledPool, options: ExampleOptions) -> Iterator[Example]:
    """Yield pairs of documents with the chance ``p`` that A is the better one.

    They are the battles that judges fought, with the mean of their votes; or, where a run has none,
    all pairs of judged documents, with the chance by their relevance.
    """
    documents = {document.id: document for document in labelled.judged}
    if options.has_battles:
        pairs = [pair for pair in labelled.battles if {*pair} <= documents.keys()]
    else:
        pairs = list(combinations(documents, 2))
    for a, b in _draw(pairs, labelled, options):
        gap, error = _gap(labelled, a, b)
        battle = labelled.battles.get((a, b))
        yield {
            "query_id": labelled.pool.query_id,
            "doc_id_a": a,
            "doc_id_b": b,
            "query": labelled.pool.query,
            "document_a": documents[a].content,
            "document_b": documents[b].content,
            "p": battle.p if battle else options.scale.chance(gap, error),
            "votes": battle.votes if battle else 0,
            "margin": gap,
            "weight": options.weight(battle.error, 0.5) if battle else options.weight(error),
        }


def make_lists(labelled: LabelledPool, options: ExampleOptions) -> Iterator[Example]:
    """Yield the query with all of its judged documents and their targets from 0 to 1."""
    documents = labelled.judged
    if documents:
        yield {
            "query_id": labelled.pool.query_id,
            "doc_ids": [document.id for document in documents],
            "query": labelled.pool.query,
            "documents": [document.content for document in documents],
            "labels": [options.scale.target(labelled.relevance[d.id]) for d in documents],
            "weights": [options.weight(labelled.errors[d.id]) for d in documents],
            "scale": options.scale.formula,
        }


def make_triplets(labelled: LabelledPool, options: ExampleOptions) -> Iterator[Example]:
    """Yield a better and a worse document wherever the gap between them is large enough."""
    for better, worse in _draw(_sure_pairs(labelled, options), labelled, options):
        yield _triplet(labelled, better, worse, options)


FORMS: Mapping[str, Callable[[LabelledPool, ExampleOptions], Iterator[Example]]] = {
    "rows": make_rows,
    "pairs": make_pairs,
    "lists": make_lists,
    "triplets": make_triplets,
}


def _sure_pairs(labelled: LabelledPool, options: ExampleOptions) -> list[tuple[str, str]]:
    """Return the pairs whose gap is large enough, the better document first."""
    pairs = permutations([document.id for document in labelled.judged], 2)
    return [pair for pair in pairs if _size(*_gap(labelled, *pair), options) >= options.min_gap]


def _size(gap: float, error: float, options: ExampleOptions) -> float:
    """Return the size of a gap in the unit of ``min_gap``; NaN where it cannot be known."""
    if not options.gap_in_errors or gap <= 0:
        return gap
    return gap / error if error else nan


def _gap(labelled: LabelledPool, a: str, b: str) -> tuple[float, float]:
    gap = labelled.relevance[a] - labelled.relevance[b]
    return gap, error_of_gap(labelled.errors[a], labelled.errors[b])


def _triplet(labelled: LabelledPool, better: str, worse: str, options: ExampleOptions) -> Example:
    texts = {document.id: document.content for document in labelled.pool.documents}
    gap, error = _gap(labelled, better, worse)
    return {
        "query_id": labelled.pool.query_id,
        "doc_id_positive": better,
        "doc_id_negative": worse,
        "query": labelled.pool.query,
        "positive": texts[better],
        "negative": texts[worse],
        "margin": gap,
        "gap_in_errors": None if isnan(error) or not error else gap / error,
        "weight": options.weight(error),
    }


def _draw(items: Sequence[T], labelled: LabelledPool, options: ExampleOptions) -> Sequence[T]:
    """Return as many of one query's items as are wanted, drawn by chance, in their order."""
    if not options.per_query or len(items) <= options.per_query:
        return items
    rng = Random(f"{options.seed}:{labelled.pool.query_id}")
    return [items[i] for i in sorted(rng.sample(range(len(items)), options.per_query))]
