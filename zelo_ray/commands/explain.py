"""Why a document has its score, or how a query went: what judges said, as a person can read it."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from zelo_ray.errors import NothingToExplain
from zelo_ray.formats.files import pieces, record
from zelo_ray.formats.record import unfinished
from zelo_ray.formats.stored import Stored
from zelo_ray.formats.tables import oldest_of, schema_of
from zelo_ray.formats.wording import printable
from zelo_ray.protocols import Held, Judgments, Protocol, of_record
from zelo_ray.protocols.course import indented, of_failures
from zelo_ray.records import Failure


@dataclass(frozen=True, slots=True)
class _Query:
    """What results hold of a query, and the protocol that tells what it is."""

    protocol: Protocol
    held: Held
    why: str
    """why there are no scores, if the run says"""

    @property
    def judged(self) -> set[str]:
        """The documents with a score or a judgment."""
        found = set(self.held.scores)
        for name, kind in self.protocol.counted.items():
            found.update(*(kind.about(row) for row in self.held.judgments[name]))
        return found

    def headline(self, doc_id: str) -> str:
        """A document's score."""
        if score := self.held.scores.get(doc_id):
            score_kind, noun = self.protocol.score, self.protocol.noun
            return score_kind.told(score, len(self.held.scores), noun)
        return f"{doc_id}: no score" + (f", as {self.why}" if self.why else "")

    def course(self, doc_id: str | None) -> Iterator[Iterable[str]]:
        """What judges said, kind by kind: of all of it, or about a document."""
        for name, kind in self.protocol.judgments.items():
            if kind.course:
                yield from kind.course(self.held, doc_id)
                continue
            for row in self.held.judgments[name]:
                if doc_id in (None, *kind.about(row)):
                    yield _plainly(kind, row)


def explain(out: str, query_id: str, doc_id: str | None = None) -> str:
    """One document's score, and what judges said of it; where it met others, the hardest first.

    Without a document: every score of the query by rank, every tournament or verdict, and what
    failed. Of a run that is not finished what there is, after a line that says so.

    Raises:
        NothingToExplain: no such results, query or document.
    """
    left = unfinished(out)
    if left is None:
        run = record(f"{out}/run.json") if _exists(out, "run.json") else {}
        return _explained(out, _query(out, run, query_id), query_id, doc_id)
    from zelo_ray.engine.unfinished import Untold, so_far  # noqa: PLC0415 - it takes long to import

    try:
        with so_far(out, left, query_id) as found:
            try:
                run = record(f"{found.folder}/run.json")
                text = _explained(out, _query(found.folder, run, query_id), query_id, doc_id)
            except NothingToExplain as nothing:
                raise NothingToExplain(f"{nothing}. {found.told}") from None
            return f"{found.told}\n\n{text}"
    except Untold as why:
        raise NothingToExplain(str(why)) from None


def _explained(out: str, query: _Query, query_id: str, doc_id: str | None) -> str:
    if not (query.judged or query.held.failures):
        raise NothingToExplain(f"{out} holds no judgment of a query {query_id!r}")
    parts = _of_query(query) if doc_id is None else _of_document(query, query_id, doc_id)
    return "\n\n".join("\n".join(map(printable, part)) for part in parts)


def _of_query(query: _Query) -> Iterator[Iterable[str]]:
    """How the query went."""
    by_rank = sorted(query.held.scores.values(), key=lambda score: (score.rank, score.doc_id))
    without = "no scores" + (f", as {query.why}" if query.why else "")
    yield [query.headline(score.doc_id) for score in by_rank] or [without]
    yield from query.course(None)
    for failure in of_failures(query.held.failures):
        yield [failure]


def _of_document(query: _Query, query_id: str, doc_id: str) -> Iterator[Iterable[str]]:
    """Why the document has its score."""
    failures = [failure for failure in query.held.failures if doc_id in failure.doc_ids]
    if not (doc_id in query.judged or failures):
        known = ", ".join(list(query.held.scores)[:20])
        raise NothingToExplain(f"query {query_id!r} has no judged {doc_id!r}; it has {known}")
    yield [query.headline(doc_id)]
    yield from query.course(doc_id)
    for failure in of_failures(failures):
        yield [failure]


def _plainly(kind: Judgments, row: Any) -> Iterator[str]:
    """One judgment of which no more is known than its fields."""
    yield f"  {kind.noun} by {row.judge} on {' and '.join(kind.about(row))}"
    yield from indented(kind.told(row))


def _query(out: str, run: Mapping[str, Any], query_id: str) -> _Query:
    protocol = of_record(run)
    score = protocol.score.record
    held = Held(
        scores={each.doc_id: each for each in _records(out, "scores", query_id, score)},
        judgments={
            name: _records(out, name, query_id, kind) for name, kind in protocol.tables.items()
        },
        failures=_records(out, "failures", query_id, Failure),
        options=run.get("options", {}),
    )
    unscored = run.get("summary", {}).get("unscored", {})
    return _Query(protocol, held, unscored.get(query_id, ""))


def _records(out: str, table: str, query_id: str, kind: type) -> list[Any]:
    """A query's rows, without columns that are not known here; none of a file that is not there."""
    if not _exists(out, f"{table}.parquet"):
        if table != "scores":
            return []
        raise NothingToExplain(f"{out} holds no scores.parquet: is it the --out of a finished run?")
    names, stored = schema_of(kind).names, Stored(f"{out}/{table}.parquet", oldest_of(kind))
    rows = (row for part in stored.of_queries([query_id]) for row in part.to_pylist())
    return [kind(**{name: row[name] for name in names if name in row}) for row in rows]


def _exists(out: str, name: str) -> bool:
    return bool(pieces(f"{out}/{name}"))
