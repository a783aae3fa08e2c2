"""Read people's judgments of pairs of documents: votes, or grades."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from statistics import fmean

import pyarrow as pa

from zelo_ray.errors import InputError
from zelo_ray.evaluation.agreement.pairs import A_BETTER, B_BETTER, first_named, word_ratings
from zelo_ray.evaluation.agreement.single import once
from zelo_ray.evaluation.agreement.votes import ballots, words
from zelo_ray.formats.interchange import verdicts
from zelo_ray.formats.interchange.scales import preferences


@dataclass(frozen=True, slots=True)
class Item:
    """A pair of documents with people's verdict, as in `agreement.pairs`."""

    query_id: str
    doc_id_a: str
    doc_id_b: str
    word: int


@dataclass(frozen=True, slots=True)
class People:
    """People's judgments by query id: votes on pairs of documents, or grades; one is empty."""

    words: Mapping[str, Mapping[tuple[str, str], int]]
    grades: Mapping[str, Mapping[str, float]]

    @property
    def kind(self) -> str:
        """Return what people gave, votes or grades."""
        return "votes" if self.words else "grades"

    @property
    def query_ids(self) -> set[str]:
        """Return the queries that people judged."""
        return set(self.words) | set(self.grades)

    @property
    def said(self) -> int:
        """Count the pairs that people voted on, or the documents that they graded."""
        return sum(map(len, (self.words or self.grades).values()))

    def knows(self, query_id: str, doc_ids: Sequence[str]) -> int:
        """Count people's judgments of these documents of a query."""
        pool_ids = set(doc_ids)
        pairs = self.words.get(query_id, {})
        graded = pool_ids.intersection(self.grades.get(query_id, ()))
        return sum(pool_ids.issuperset(pair) for pair in pairs) + len(graded)

    def items(self, query_id: str, doc_ids: Sequence[str]) -> Iterator[Item]:
        """Yield the pairs of a query's documents that people judged.

        The document with the higher grade is the better one; A comes first in the pool. Pairs with
        equal grades are left out.
        """
        pool_ids = set(doc_ids)
        for pair, word in self.words.get(query_id, {}).items():
            if pool_ids.issuperset(pair):
                yield Item(query_id, *pair, word)
        grades = self.grades.get(query_id, {})
        for a, b in combinations([doc_id for doc_id in doc_ids if doc_id in grades], 2):
            if grades[a] != grades[b]:
                yield Item(query_id, a, b, A_BETTER if grades[a] > grades[b] else B_BETTER)


def read_people(url: str, pattern: str | None = None, turn: int | None = None) -> People:
    """Read people's judgments from a file: votes on pairs, grades by row, or qrels of any kind.

    Several people's votes on a pair become one verdict, as in `agree`; several grades of a
    document become their mean.

    Args:
        url: where it is.
        pattern: use only people whose name matches it.
        turn: of FastChat's rows, use only those of this turn.

    Raises:
        InputError: its format is unknown, a row is invalid, there is no judgment, or it has no
            turns.
    """
    part = verdicts.read_people(url, pattern, turn)
    if turn is not None and not part.turned:
        raise InputError(f"{url}: {verdicts.NO_TURN}")
    if not len(part.table):
        raise InputError(f"{url}: no judgments of people")
    return People(_words(preferences(part)), {}) if part.votes else People({}, _grades(part.table))


def _words(votes: pa.Table) -> dict[str, dict[tuple[str, str], int]]:
    cast = ballots(votes)
    turn = first_named(cast, votes)
    [grades] = word_ratings(cast, words(once(cast)), turn).grades.tolist()
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
