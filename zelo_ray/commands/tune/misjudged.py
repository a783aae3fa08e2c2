"""Show where candidates go wrong: documents worth reading, and pairs that changed sides.

All of this is about the first half of the queries. Whoever reads it, a person or a model, may write
other instructions by it; the second half stays unseen, so that it can still measure them.
"""

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from zelo_ray.commands.compare_protocols.costs import pools_in
from zelo_ray.commands.compare_protocols.people import Item, People
from zelo_ray.errors import InputError
from zelo_ray.evaluation.votes import A_BETTER, B_BETTER, TIE
from zelo_ray.files.tables import read_table
from zelo_ray.protocols import Judgments, load_protocol
from zelo_ray.records import Document, Pool

READ = 10
"""Documents that are worth reading first."""
OF_ONE_QUERY = 2
"""The most of one query: more would tell of that query alone."""
_JUDGMENTS = 3  # of a judge on a document that are shown
_TEXT = 1_000  # characters of a document
_SIDES = {A_BETTER: "A", TIE: "tie", B_BETTER: "B"}

DocumentPlace = tuple[str, str]
"""A query id and a document id."""


@dataclass(frozen=True, slots=True)
class ChangedSide:
    """A pair of documents on which the chosen candidate and what is as it is differ.

    ``people``, ``as_it_is`` and ``chosen`` are A, B or tie; ``right`` is who of the two has the
    people's verdict: chosen, as it is, or neither.
    """

    query_id: str
    doc_id_a: str
    doc_id_b: str
    people: str
    as_it_is: str
    chosen: str
    right: str


@dataclass(frozen=True, slots=True)
class WorthReading:
    """An opinion of one judge of a candidate on a document on which candidates often err.

    ``wrong`` and ``pairs`` count the verdicts of all candidates on pairs with this document;
    ``document`` is how its text begins, and ``statement`` the judge's grade or side and reason.
    """

    rank: int
    query_id: str
    query: str
    doc_id: str
    document: str
    people: str
    wrong: int
    pairs: int
    candidate: str
    judge: str
    statement: str


@dataclass(frozen=True, slots=True)
class Misjudged:
    """A document with how often it stands in a pair on which a verdict is not the people's."""

    query_id: str
    doc_id: str
    wrong: int
    pairs: int


def changed_sides(
    items: Sequence[Item], as_it_is: Sequence[int], chosen: Sequence[int]
) -> list[ChangedSide]:
    """List the pairs that both judged, and judged differently, with who is right."""
    rows = []
    for item, before, after in zip(items, as_it_is, chosen, strict=True):
        if min(before, after) < 0 or before == after:
            continue
        right = {after: "chosen", before: "as it is"}.get(item.verdict, "neither")
        people, was, now = (_SIDES[word] for word in (item.verdict, before, after))
        pair = (item.query_id, item.doc_id_a, item.doc_id_b)
        rows.append(ChangedSide(*pair, people, was, now, right))
    return rows


def find_misjudged(
    items: Sequence[Item], verdicts: Iterable[Sequence[int]], limit: int = READ
) -> list[Misjudged]:
    """List the documents that stand in the most pairs with a verdict that is not the people's.

    At most two are of one query. Each wrong verdict counts for both documents of its pair.

    Args:
        items: pairs of documents with the people's verdict.
        verdicts: of each candidate, on each item; -1 where it gave none.
        limit: how many.
    """
    wrong, pairs = Counter[DocumentPlace](), Counter[DocumentPlace]()
    for row in verdicts:
        for item, word in zip(items, row, strict=True):
            if word < 0:
                continue
            for doc_id in (item.doc_id_a, item.doc_id_b):
                pairs[item.query_id, doc_id] += 1
                wrong[item.query_id, doc_id] += word != item.verdict
    by_errors = sorted(
        (place for place in pairs if wrong[place]),
        key=lambda place: (-wrong[place], -wrong[place] / pairs[place], place),
    )
    misjudged, of_query = list[Misjudged](), Counter[str]()
    for place in by_errors:
        of_query[place[0]] += 1
        if of_query[place[0]] <= OF_ONE_QUERY and len(misjudged) < limit:
            misjudged.append(Misjudged(*place, wrong[place], pairs[place]))
    return misjudged


def read_documents(
    pools: str, places: Collection[DocumentPlace]
) -> dict[DocumentPlace, tuple[Pool, Document]]:
    """Read some documents, with their pools, from a file of pools."""
    query_ids = {query_id for query_id, _ in places}
    return {
        (pool.query_id, document.id): (pool, document)
        for pool in pools_in(pools)
        if pool.query_id in query_ids
        for document in pool.documents
        if (pool.query_id, document.id) in places
    }


def describe_people(people: People, items: Iterable[Item], place: DocumentPlace) -> str:
    """Say what people think of a document: their grade, or in how many pairs they preferred it."""
    query_id, doc_id = place
    if doc_id in (grades := people.grades.get(query_id, {})):
        return f"grade {grades[doc_id]:g}"
    won = of = 0
    for item in items:
        if item.query_id == query_id and doc_id in (item.doc_id_a, item.doc_id_b):
            of += 1
            won += item.verdict == (A_BETTER if doc_id == item.doc_id_a else B_BETTER)
    return f"preferred in {won} of {of} pairs"


def read_statements(
    out: str, protocol: str, places: Collection[DocumentPlace]
) -> dict[DocumentPlace, list[tuple[str, str]]]:
    """Read what judges said of some documents: names of judges and texts, the first few of each.

    Args:
        out: the directory or URL of a run.
        protocol: of the run.
        places: the documents.
    """
    statements = defaultdict[DocumentPlace, list[tuple[str, str]]](list)
    shown = Counter[tuple[DocumentPlace, str]]()
    query_ids = pa.array(sorted({query_id for query_id, _ in places}), pa.string())
    for name, kind in load_protocol(protocol).counted.items():
        try:
            table = read_table(out, name, kind.fields, kind.record)
        except InputError:  # nothing of it was asked, as the budget was used up
            continue
        for row in table.filter(pc.is_in(table["query_id"], query_ids)).to_pylist():
            judgment = kind.record(**row)
            for doc_id in kind.documents_of(judgment):
                place = (judgment.query_id, doc_id)
                shown[place, judgment.judge] += place in places
                if place in places and shown[place, judgment.judge] <= _JUDGMENTS:
                    statements[place].append((judgment.judge, _words(kind, judgment, doc_id)))
    return statements


def _words(kind: Judgments, judgment: Any, doc_id: str) -> str:
    """Return what a judge said of a document: the grade or the side, and the reason."""
    words = kind.describe(judgment)
    if (grade := getattr(judgment, "grade", None)) is not None:
        return f"grade {grade}: {words}"
    if (preference := getattr(judgment, "preference", None)) is None:
        return words
    documents = kind.documents_of(judgment)
    other_id = next((name for name in documents if name != doc_id), doc_id)
    toward = -preference if doc_id == documents[0] else preference
    side = "better than" if toward > 0 else "worse than" if toward < 0 else "like"
    return f"{side} {other_id}: {words}"


def worth_reading(
    misjudged: Sequence[Misjudged],
    documents: Mapping[DocumentPlace, tuple[Pool, Document]],
    people: Mapping[DocumentPlace, str],
    statements: Mapping[str, Mapping[DocumentPlace, Sequence[tuple[str, str]]]],
) -> Iterator[WorthReading]:
    """Yield the rows of the documents worth reading, the worst first.

    Args:
        misjudged: the documents.
        documents: each with its pool.
        people: what people think of each.
        statements: by candidate, what its judges said of each.
    """
    for rank, entry in enumerate(misjudged, 1):
        place = (entry.query_id, entry.doc_id)
        pool, document = documents[place]
        about = (rank, entry.query_id, pool.query, entry.doc_id, document.content[:_TEXT])
        counts = (people[place], entry.wrong, entry.pairs)
        for candidate, by_place in statements.items():
            for judge, words in by_place.get(place, ()):
                yield WorthReading(*about, *counts, candidate, judge, words)
