"""Read people's judgments of pairs of documents: votes, or grades."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import combinations
from statistics import fmean
from types import MappingProxyType

import pyarrow as pa

from zelo_ray.evaluation.votes import (
    A_BETTER,
    B_BETTER,
    encode_votes,
    find_orientation,
    judge_verdicts,
    reduce_repeats,
    verdict_ratings,
)
from zelo_ray.files import judges
from zelo_ray.files.judges import votes_of


@dataclass(frozen=True, slots=True)
class Item:
    """A pair of documents with people's verdict, as in `agreement.pairs`.

    ``weight``: how many pairs it stands for, where people's labels were drawn with unequal chances.
    """

    query_id: str
    doc_id_a: str
    doc_id_b: str
    verdict: int
    weight: float = 1.0


@dataclass(frozen=True, slots=True)
class People:
    """People's judgments by query id: votes on pairs of documents, or grades; one is empty."""

    verdicts: Mapping[str, Mapping[tuple[str, str], int]]
    grades: Mapping[str, Mapping[str, float]]
    weights: Mapping[tuple[str, ...], float] = field(default_factory=dict)
    """see `judges.people_weights`"""
    notes: tuple[str, ...] = ()

    @property
    def kind(self) -> str:
        """Return what people gave, votes or grades."""
        return "votes" if self.verdicts else "grades"

    @property
    def query_ids(self) -> set[str]:
        """Return the queries that people judged."""
        return set(self.verdicts) | set(self.grades)

    @property
    def judgment_count(self) -> int:
        """Count the pairs that people voted on, or the documents that they graded."""
        return sum(map(len, (self.verdicts or self.grades).values()))

    def count_judgments(self, query_id: str, doc_ids: Sequence[str]) -> int:
        """Count people's judgments of these documents of a query."""
        pool_ids = set(doc_ids)
        pairs = self.verdicts.get(query_id, {})
        graded = pool_ids.intersection(self.grades.get(query_id, ()))
        return sum(pool_ids.issuperset(pair) for pair in pairs) + len(graded)

    def items(self, query_id: str, doc_ids: Sequence[str]) -> Iterator[Item]:
        """Yield the pairs of a query's documents that people judged.

        The document with the higher grade is the better one; A comes first in the pool. Pairs with
        equal grades are left out.
        """
        pool_ids = set(doc_ids)
        for pair, word in self.verdicts.get(query_id, {}).items():
            if pool_ids.issuperset(pair):
                weight = self.weights.get((query_id, *sorted(pair)), 1.0)
                yield Item(query_id, *pair, word, weight)
        grades = self.grades.get(query_id, {})
        for a, b in combinations([doc_id for doc_id in doc_ids if doc_id in grades], 2):
            if grades[a] != grades[b]:
                weight = self.weigh(query_id, a) * self.weigh(query_id, b)
                verdict = A_BETTER if grades[a] > grades[b] else B_BETTER
                yield Item(query_id, a, b, verdict, weight)

    def weigh(self, query_id: str, doc_id: str) -> float:
        """Return how many documents a graded one stands for."""
        return self.weights.get((query_id, doc_id), 1.0)


def read_people(
    url: str,
    pattern: str | None = None,
    columns: Mapping[str, str] = MappingProxyType({}),
) -> People:
    """Read people's judgments from a file: votes on pairs, grades by row, or qrels of any kind.

    Several people's votes on a pair become one verdict, as in `agree`; several grades of a
    document become their mean.

    Args:
        url: where it is.
        pattern: use only people whose name matches it.
        columns: by role, the name of a column that is not called as is usual.

    Raises:
        InputError: its format is unknown, a row is invalid, or there is no judgment.
    """
    part = judges.read_people(url, pattern, columns)
    weights, notes = judges.people_weights(part), part.notes
    if weights:
        how = "labels, drawn with unequal chances, count 1 / probability in figures of agreement"
        notes += (
            f"{url}: {how}; numbers of pairs, and the cost of a correct one, are plain counts",
        )
    if part.votes:
        return People(_words(votes_of(part)), {}, weights, notes)
    return People({}, _grades(part.table), weights, notes)


def _words(votes: pa.Table) -> dict[str, dict[tuple[str, str], int]]:
    cast = encode_votes(votes)
    turn = find_orientation(cast, votes)
    [grades] = verdict_ratings(cast, judge_verdicts(reduce_repeats(cast)), turn).grades.tolist()
    doc_ids = sorted({*votes["doc_id_a"].to_pylist(), *votes["doc_id_b"].to_pylist()})
    by_query: dict[str, dict[tuple[str, str], int]] = {}
    for (query, *places), direction, word in zip(
        cast.pairs.tolist(), turn.tolist(), grades, strict=True
    ):
        a, b = [doc_ids[place - 1] for place in places][::direction]
        by_query.setdefault(cast.query_ids[query], {})[a, b] = word
    return by_query


def _grades(table: pa.Table) -> dict[str, dict[str, float]]:
    by_query: dict[str, dict[str, list[float]]] = {}
    for row in table.select(["query_id", "doc_id", "grade"]).to_pylist():
        by_query.setdefault(row["query_id"], {}).setdefault(row["doc_id"], []).append(row["grade"])
    return {
        query_id: {doc_id: fmean(values) for doc_id, values in grades.items()}
        for query_id, grades in by_query.items()
    }
