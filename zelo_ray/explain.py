"""Why a document has its score: what its judges said, as a person can read it."""

import json
import math
import textwrap
from collections.abc import Iterator, Sequence
from typing import Any

import fsspec
import pyarrow.compute as pc
import pyarrow.parquet as pq

from zelo_ray.formats.wording import printable
from zelo_ray.records import AbsoluteScore, Failure, Grade, GradedScore, Score, Vote


class NothingToExplain(Exception):  # noqa: N818 - it names what is the matter
    """The results do not hold what was asked for; the message says what they do hold."""


def explain(out: str, query_id: str, doc_id: str) -> str:
    """One document's score, its grades, and its votes, the hardest opponents first.

    Raises:
        NothingToExplain: no such results, query or document.
    """
    scores = {row["doc_id"]: _score(row) for row in _rows(out, "scores", query_id)}
    votes = [Vote(**row) for row in _rows(out, "votes", query_id)]
    grades = [Grade(**row) for row in _rows(out, "grades", query_id)]
    failed = [Failure(**row) for row in _rows(out, "failures", query_id)]
    failures = [failure for failure in failed if doc_id in failure.doc_ids]
    mine = [vote for vote in votes if doc_id in (vote.doc_id_a, vote.doc_id_b)]
    given = [grade for grade in grades if grade.doc_id == doc_id]
    if not (scores or votes or grades or failed):
        raise NothingToExplain(f"{out} holds no judgment of a query {query_id!r}")
    if not (doc_id in scores or mine or given or failures):
        known = ", ".join(list(scores)[:20])
        raise NothingToExplain(f"query {query_id!r} has no judged {doc_id!r}; it has {known}")
    if doc_id in scores:
        lines = [_headline(scores[doc_id], len(scores))]
    else:
        lines = [_without(out, query_id, doc_id)]
    for grade in given:
        lines += ["", *_grade(grade)]
    opponents = {_other(vote, doc_id) for vote in mine}
    for opponent in sorted(opponents, key=lambda o: (scores[o].rank if o in scores else 0, o)):
        lines += ["", *_battle(doc_id, opponent, mine, scores.get(opponent))]
    lines += [
        f"\nno judgment from {f.judge} on {' and '.join(f.doc_ids)}: {f.status} ({f.reason})"
        for f in failures
    ]
    return "\n".join(map(printable, "\n".join(lines).split("\n")))


def _without(out: str, query_id: str, doc_id: str) -> str:
    """That there is no score, and why, if the run says."""
    fs, root = fsspec.url_to_fs(out)
    path = f"{root}/run.json"
    run = json.loads(fs.cat_file(path)) if fs.exists(path) else {}
    why = run.get("summary", {}).get("unscored", {}).get(query_id)
    return f"{doc_id}: no score" + (f", as {why}" if why else "")


def _headline(score: Score, documents: int) -> str:
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
    told = f"{doc_id}: score {score.score:+.2f}{error}, {rank}, from {score.comparisons} votes"
    if not isinstance(score, AbsoluteScore):
        return told
    if not math.isfinite(score.absolute_score):
        return f"{told}; no absolute score: its query has no grades"
    return f"{told}; absolute {score.absolute_score:+.2f} ± {score.absolute_error:.2f}"


def _grade(grade: Grade) -> Iterator[str]:
    yield f"  grade {grade.grade}  {grade.judge}"
    for name, facets in (("covers", grade.facets_covered), ("misses", grade.facets_missing)):
        if facets:
            yield from _indented(f"{name}: {'; '.join(facets)}")
    yield from _indented(grade.rationale)


def _battle(doc_id: str, opponent: str, votes: list[Vote], score: Score | None) -> Iterator[str]:
    stands = f" (score {score.score:+.2f}, rank {score.rank})" if score else ""
    yield f"against {opponent}{stands}"
    for vote in votes:
        if opponent == _other(vote, doc_id):
            mine = vote.preference if vote.doc_id_b == doc_id else 0.0 - vote.preference
            verdict = "won" if mine > 0 else "lost" if mine < 0 else "tied"
            a, b = vote.doc_id_a, vote.doc_id_b
            first, second = (b, a) if vote.swapped else (a, b)
            yield f"  {verdict:4} {mine:+.2f}  {vote.judge}, which saw {first} as A, {second} as B"
            yield from _indented(vote.reasoning)


def _indented(text: str) -> Iterator[str]:
    for line in text.splitlines():
        yield from textwrap.wrap(
            line, 100, initial_indent=" " * 8, subsequent_indent=" " * 8, break_long_words=False
        )


def _other(vote: Vote, doc_id: str) -> str:
    return vote.doc_id_b if vote.doc_id_a == doc_id else vote.doc_id_a


def _score(row: dict[str, Any]) -> Score:
    kinds: Sequence[type[Score]] = (GradedScore, AbsoluteScore)
    wider = (k for k in kinds if set(row) == set(k.__dataclass_fields__))
    return next(wider, Score)(**row)


def _rows(out: str, table: str, query_id: str) -> list[dict[str, Any]]:
    """A query's rows; none if the run's protocol has no such table."""
    fs, root = fsspec.url_to_fs(out)
    path = f"{root}/{table}.parquet"
    if not fs.exists(path):
        if table != "scores":
            return []
        raise NothingToExplain(
            f"{out} holds no {table}.parquet: is it the --out of a finished run?"
        )
    with fs.open(path, "rb") as file:
        # Arrow's threads would outlive Python, which then aborts.
        where = pc.field("query_id") == query_id
        return list(pq.read_table(file, filters=where, use_threads=False).to_pylist())
