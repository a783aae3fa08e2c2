"""Why a document has its score, or how a query went: what judges said, as a person can read it."""

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import fsspec
import pyarrow.compute as pc

from zelo_ray.commands.explain.course import of_failures, of_pairs, of_tournaments
from zelo_ray.commands.explain.lines import of_contests, of_grade, of_verdicts, of_votes
from zelo_ray.engine.unfinished import Untold, so_far
from zelo_ray.errors import NothingToExplain
from zelo_ray.formats.files import record, rows_where
from zelo_ray.formats.record import unfinished
from zelo_ray.formats.tables import schema_of
from zelo_ray.formats.wording import counted, printable
from zelo_ray.records import (
    PANEL,
    AbsoluteScore,
    Contest,
    CrownedScore,
    Failure,
    Grade,
    GradedScore,
    Score,
    Verdict,
    Vote,
    Winner,
)

__all__ = ["NothingToExplain", "explain"]

_Record = TypeVar("_Record")


@dataclass(frozen=True, slots=True)
class _Held:
    """What results hold of a query."""

    scores: dict[str, Score]
    votes: list[Vote]
    grades: list[Grade]
    contests: list[Contest]
    winners: list[Winner]
    verdicts: list[Verdict]
    failures: list[Failure]
    together: bool
    """whether the panel decided each tournament together"""
    why: str
    """why there are no scores, if the run says"""

    @property
    def judged(self) -> set[str]:
        """The documents with a score or a judgment."""
        found = {*self.scores, *(grade.doc_id for grade in self.grades)}
        pairs = [(vote.doc_id_a, vote.doc_id_b) for vote in self.votes]
        pairs += [(verdict.doc_id_a, verdict.doc_id_b) for verdict in self.verdicts]
        pairs += [(contest.left_id, contest.right_id) for contest in self.contests]
        return found.union(*pairs)

    def headline(self, doc_id: str) -> str:
        """A document's score."""
        if doc_id in self.scores:
            kind = "verdicts" if self.verdicts else "votes"
            return _headline(self.scores[doc_id], len(self.scores), kind)
        return f"{doc_id}: no score" + (f", as {self.why}" if self.why else "")


def explain(out: str, query_id: str, doc_id: str | None = None) -> str:
    """One document's score, its grades, and whom it met, the hardest opponents first.

    Of tournaments its contests, each tournament in order. Without a document: every score of the
    query by rank, every tournament or verdict, and what failed. Of a run that is not finished what
    there is, after a line that says so.

    Raises:
        NothingToExplain: no such results, query or document.
    """
    record = unfinished(out)
    if record is None:
        return _explained(out, _held(out, query_id), query_id, doc_id)
    try:
        with so_far(out, record, query_id) as found:
            try:
                text = _explained(out, _held(found.folder, query_id), query_id, doc_id)
            except NothingToExplain as nothing:
                raise NothingToExplain(f"{nothing}. {found.told}") from None
            return f"{found.told}\n\n{text}"
    except Untold as why:
        raise NothingToExplain(str(why)) from None


def _explained(out: str, held: _Held, query_id: str, doc_id: str | None) -> str:
    if not (held.judged or held.failures):
        raise NothingToExplain(f"{out} holds no judgment of a query {query_id!r}")
    parts = _of_query(held) if doc_id is None else _of_document(held, query_id, doc_id)
    return "\n\n".join("\n".join(map(printable, part)) for part in parts)


def _of_query(held: _Held) -> Iterator[Iterable[str]]:
    """How the query went."""
    by_rank = sorted(held.scores.values(), key=lambda score: (score.rank, score.doc_id))
    without = "no scores" + (f", as {held.why}" if held.why else "")
    yield [held.headline(score.doc_id) for score in by_rank] or [without]
    if held.winners:
        won = Counter(winner.winner_id for winner in held.winners)
        of = counted(len(held.winners), "tournament")
        yield [f"{name} won {times} of {of} with a winner" for name, times in won.most_common()]
    yield from of_tournaments(held.contests, held.winners, together=held.together)
    yield from of_pairs(held.verdicts)
    for failure in of_failures(held.failures):
        yield [failure]


def _of_document(held: _Held, query_id: str, doc_id: str) -> Iterator[Iterable[str]]:
    """Why the document has its score."""
    failures = [failure for failure in held.failures if doc_id in failure.doc_ids]
    if not (doc_id in held.judged or failures):
        known = ", ".join(list(held.scores)[:20])
        raise NothingToExplain(f"query {query_id!r} has no judged {doc_id!r}; it has {known}")
    head = [held.headline(doc_id)]
    if held.winners:
        won = sum(winner.winner_id == doc_id for winner in held.winners)
        head.append(f"it won {won} of {counted(len(held.winners), 'tournament')} with a winner")
    yield head
    yield from (of_grade(grade) for grade in held.grades if grade.doc_id == doc_id)
    yield from of_votes(doc_id, held.votes, held.scores)
    yield from of_contests(doc_id, held.contests, held.winners, together=held.together)
    yield from of_verdicts(doc_id, held.verdicts, held.scores)
    for failure in of_failures(failures):
        yield [failure]


def _held(out: str, query_id: str) -> _Held:
    return _Held(
        scores={row["doc_id"]: _score(row) for row in _rows(out, "scores", query_id, Score)},
        votes=_records(out, "votes", query_id, Vote),
        grades=_records(out, "grades", query_id, Grade),
        contests=_records(out, "contests", query_id, Contest),
        winners=_records(out, "winners", query_id, Winner),
        verdicts=_records(out, "verdicts", query_id, Verdict),
        failures=_records(out, "failures", query_id, Failure),
        together=_run(out, "options", "decide") == PANEL,
        why=_run(out, "summary", "unscored", query_id) or "",
    )


def _run(out: str, *names: str) -> Any:
    """What the run's record holds under these names, one in the other; None for nothing."""
    found: Any = record(f"{out}/run.json") if _exists(out, "run.json") else None
    for name in names:
        found = found.get(name) if isinstance(found, dict) else None
    return found


def _headline(score: Score, documents: int, kind: str) -> str:
    doc_id = score.doc_id
    rank = f"rank {score.rank} of {documents}"
    error = f" ± {score.std_error:.2f}" if math.isfinite(score.std_error) else ""
    if isinstance(score, GradedScore):
        split = " The judges are split." if score.ambiguous else ""
        return (
            f"{doc_id}: grade {score.grade} (score {score.score:.2f}{error}), "
            f"{rank}, from {score.comparisons} grades: median {score.median:g}, majority "
            f"{score.majority}.{split}"
        )
    kind = "contests" if isinstance(score, CrownedScore) else kind
    told = f"{doc_id}: score {score.score:+.2f}{error}, {rank}, from {score.comparisons} {kind}"
    if not isinstance(score, AbsoluteScore):
        return told
    if not math.isfinite(score.absolute_score):
        return f"{told}; no absolute score: its query has no grades"
    return f"{told}; absolute {score.absolute_score:+.2f} ± {score.absolute_error:.2f}"


def _score(row: dict[str, Any]) -> Score:
    kinds: Sequence[type[Score]] = (GradedScore, AbsoluteScore, CrownedScore)
    wider = (k for k in kinds if set(row) == set(k.__dataclass_fields__))
    return next(wider, Score)(**row)


def _records(out: str, table: str, query_id: str, kind: type[_Record]) -> list[_Record]:
    """A query's rows, without columns that are not known here."""
    names = schema_of(kind).names
    rows = _rows(out, table, query_id, kind)
    return [kind(**{name: row[name] for name in names}) for row in rows]


def _exists(out: str, name: str) -> bool:
    fs, root = fsspec.url_to_fs(out)
    return bool(fs.exists(f"{root}/{name}"))


def _rows(out: str, table: str, query_id: str, kind: type) -> list[dict[str, Any]]:
    """A query's rows; none if the run's protocol has no such table."""
    if not _exists(out, f"{table}.parquet"):
        if table != "scores":
            return []
        raise NothingToExplain(
            f"{out} holds no {table}.parquet: is it the --out of a finished run?"
        )
    where = pc.field("query_id") == query_id
    return list(rows_where(f"{out}/{table}.parquet", where, schema_of(kind)).to_pylist())
