"""Find the documents on which ways err most, and what judges said of them."""

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from zelo_ray.commands.compare.items import Item, Part, People
from zelo_ray.errors import InputError
from zelo_ray.evaluation.ranking import Ints
from zelo_ray.evaluation.votes import A_BETTER, B_BETTER
from zelo_ray.files.pools import LineLimits, read_lines
from zelo_ray.files.tables import read_table
from zelo_ray.options import AnnotateOptions
from zelo_ray.protocols import Judgments, load_protocol

_MOST, _OF_ONE_QUERY = 10, 2  # documents
_STATEMENTS = 3  # of a judge on a document
_TEXT = 1_000  # characters of a document

Place = tuple[str, str]
"""A query id and a document id."""


@dataclass(frozen=True, slots=True)
class Misjudged:
    """What one judge of a way said of a document in many pairs that ways order wrongly.

    ``wrong`` and ``pairs`` count the verdicts of all ways on pairs with this document; ``document``
    is how its text begins.
    """

    rank: int
    query_id: str
    query: str
    doc_id: str
    document: str
    human: str
    wrong: int
    pairs: int
    way: str
    judge: str
    statement: str


def find_misjudged(
    items: Sequence[Item], verdicts: Iterable[Sequence[int] | Ints]
) -> dict[Place, tuple[int, int]]:
    """Return the documents in the most pairs with a wrong verdict, at most two of a query.

    With how many verdicts on pairs of theirs are wrong, and how many there are; each counts for
    both documents of its pair.
    """
    wrong, pairs, queries = Counter[Place](), Counter[Place](), Counter[str]()
    for row in verdicts:
        for item, verdict in zip(items, row, strict=True):
            for doc_id in (item.doc_id_a, item.doc_id_b) if verdict >= 0 else ():
                pairs[item.query_id, doc_id] += 1
                wrong[item.query_id, doc_id] += int(verdict != item.verdict)
    found = dict[Place, tuple[int, int]]()
    for place in sorted(+wrong, key=lambda p: (-wrong[p], -wrong[p] / pairs[p], p)):
        queries[place[0]] += 1
        if queries[place[0]] <= _OF_ONE_QUERY and len(found) < _MOST:
            found[place] = wrong[place], pairs[place]
    return found


def describe_misjudged(
    part: Part, people: People, verdicts: Iterable[Ints], plans: Mapping[str, AnnotateOptions]
) -> Iterator[Misjudged]:
    """Yield what judges of some ways, by their plans, said of the documents misjudged most."""
    found = find_misjudged(part.items, verdicts)
    texts = {
        (line.pool.query_id, document.id): (line.pool.query, document.content[:_TEXT])
        for line in read_lines(part.pools, LineLimits())
        if line.pool
        for document in line.pool.documents
        if (line.pool.query_id, document.id) in found
    }
    said = {way: read_statements(plan.out, plan.protocol, found) for way, plan in plans.items()}
    for rank, (place, counts) in enumerate(found.items(), 1):
        (query_id, doc_id), (query, document) = place, texts[place]
        about = (rank, query_id, query, doc_id, document, _describe_people(people, part, place))
        for way, statements in said.items():
            for judge, statement in statements.get(place, ()):
                yield Misjudged(*about, *counts, way, judge, statement)


def _describe_people(people: People, part: Part, place: Place) -> str:
    """Say what people think of a document: their grade, or in how many pairs they preferred it."""
    query_id, doc_id = place
    if (grade := people.judgments.get(query_id, {}).get((doc_id,))) is not None:
        return f"grade {grade:g}"
    own = [i for i in part.items if i.query_id == query_id and doc_id in (i.doc_id_a, i.doc_id_b)]
    won = sum(i.verdict == (A_BETTER if doc_id == i.doc_id_a else B_BETTER) for i in own)
    return f"preferred in {won} of {len(own)} pairs"


def read_statements(
    out: str, protocol: str, places: Collection[Place]
) -> dict[Place, list[tuple[str, str]]]:
    """Read what judges of a run said of documents: their names and texts, the first few of each."""
    statements = defaultdict[Place, list[tuple[str, str]]](list)
    shown = Counter[tuple[Place, str]]()
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
                shown[place, judgment.judge] += 1
                if place in places and shown[place, judgment.judge] <= _STATEMENTS:
                    statements[place].append((judgment.judge, _describe(kind, judgment, doc_id)))
    return dict(statements)


def _describe(kind: Judgments, judgment: Any, doc_id: str) -> str:
    """Return what a judge said of a document: the grade or the side, and the reason."""
    documents = kind.documents_of(judgment)
    grade, preference = (getattr(judgment, name, None) for name in ("grade", "preference"))
    said = "" if grade is None else f"grade {grade}: "
    if preference is not None:
        toward = -preference if doc_id == documents[0] else preference
        side = "better than" if toward > 0 else "worse than" if toward < 0 else "like"
        said = f"{side} {' '.join(name for name in documents if name != doc_id)}: "
    return said + kind.describe(judgment)
