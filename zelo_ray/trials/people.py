"""What people say of pairs of documents: their votes, or the grades that they gave."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from statistics import fmean

import pyarrow as pa

from zelo_ray.formats.judgments import read_judgments
from zelo_ray.formats.pools import InputError
from zelo_ray.formats.verdicts import HUMAN

B_BETTER, TIE, A_BETTER = range(3)
"""A word on a pair."""


@dataclass(frozen=True, slots=True)
class Item:
    """A pair of documents on which people have a word."""

    query_id: str
    doc_id_a: str
    doc_id_b: str
    word: int


@dataclass(frozen=True, slots=True)
class People:
    """What people said, by query id: votes on pairs of documents, or a grade for each document.

    A vote is a word on the pair. Of the two, one is empty.
    """

    votes: Mapping[str, Mapping[tuple[str, str], Sequence[int]]]
    grades: Mapping[str, Mapping[str, float]]

    @property
    def kind(self) -> str:
        """What they gave."""
        return "votes" if self.votes else "grades"

    @property
    def query_ids(self) -> set[str]:
        """The queries of which they said anything."""
        return set(self.votes) | set(self.grades)

    @property
    def said(self) -> int:
        """On how many pairs they voted, or how many documents they graded."""
        return sum(map(len, (self.votes or self.grades).values()))

    def knows(self, query_id: str, doc_ids: Sequence[str]) -> int:
        """How many of these they said of a query's documents."""
        there = set(doc_ids)
        pairs = self.votes.get(query_id, {})
        graded = there.intersection(self.grades.get(query_id, ()))
        return sum(there.issuperset(pair) for pair in pairs) + len(graded)

    def items(self, query_id: str, doc_ids: Sequence[str]) -> Iterator[Item]:
        """The pairs of a query's documents on which they have a word.

        Of votes it is what most say, and a tie where no word has more votes than each other one; A
        is the document that they name first. Of grades it is the greater one, A is the document
        that comes first in the pool, and equal grades are no word.
        """
        there = set(doc_ids)
        for pair, words in self.votes.get(query_id, {}).items():
            if there.issuperset(pair):
                yield Item(query_id, *pair, majority(words))
        grades = self.grades.get(query_id, {})
        for a, b in combinations([each for each in doc_ids if each in grades], 2):
            if grades[a] != grades[b]:
                yield Item(query_id, a, b, A_BETTER if grades[a] > grades[b] else B_BETTER)


def majority(words: Sequence[int]) -> int:
    """What most of these words say; a tie where no word comes more often than each other one."""
    (word, most), *others = Counter(words).most_common(2)
    return TIE if others and others[0][1] == most else word


def read_people(url: str) -> People:
    """What people say, from a file: votes on pairs, grades by row, or qrels of any kind.

    Several people's votes on a pair all count; of several grades of a document it is the mean.

    Raises:
        InputError: it is of no known kind, something in it is wrong, or it says nothing.
    """
    part = read_judgments(url, HUMAN)
    if not len(part.table):
        raise InputError(f"{url}: holds no judgment of people")
    if "preference" not in part.table.column_names:
        return People({}, _grades(part.table))
    votes: dict[str, dict[tuple[str, str], list[int]]] = {}
    for number, row in enumerate(part.table.to_pylist()):
        said, pair = row["preference"], (row["doc_id_a"], row["doc_id_b"])
        if not -1 <= said <= 1:
            raise InputError(f"{part.place(number)}: the preference {said:g} is not in -1 to 1")
        if pair[0] == pair[1]:
            raise InputError(f"{part.place(number)}: document {pair[0]!r} is compared with itself")
        pairs = votes.setdefault(row["query_id"], {})
        turned = pair[::-1] in pairs
        word = TIE if said == 0 else A_BETTER if (said < 0) != turned else B_BETTER
        pairs.setdefault(pair[::-1] if turned else pair, []).append(word)
    return People(votes, {})


def _grades(table: pa.Table) -> dict[str, dict[str, float]]:
    found: dict[str, dict[str, list[float]]] = {}
    for row in table.select(["query_id", "doc_id", "grade"]).to_pylist():
        found.setdefault(row["query_id"], {}).setdefault(row["doc_id"], []).append(row["grade"])
    return {
        query_id: {doc_id: fmean(each) for doc_id, each in grades.items()}
        for query_id, grades in found.items()
    }
