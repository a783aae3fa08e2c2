"""Why a document has its score: what its judges said, as a person can read it."""

import json
import math
from collections.abc import Sequence
from typing import Any

import fsspec
import pyarrow.compute as pc
import pyarrow.parquet as pq

from zelo_ray.explain.lines import of_contests, of_grade, of_verdicts, of_votes
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


class NothingToExplain(Exception):  # noqa: N818 - it names what is the matter
    """The results do not hold what was asked for; the message says what they do hold."""


def explain(out: str, query_id: str, doc_id: str) -> str:
    """One document's score, its grades, and whom it met, the hardest opponents first.

    Of tournaments its contests, each tournament in order.

    Raises:
        NothingToExplain: no such results, query or document.
    """
    scores = {row["doc_id"]: _score(row) for row in _rows(out, "scores", query_id)}
    votes = [Vote(**row) for row in _rows(out, "votes", query_id)]
    grades = [Grade(**row) for row in _rows(out, "grades", query_id)]
    contests = [Contest(**row) for row in _rows(out, "contests", query_id)]
    winners = [Winner(**row) for row in _rows(out, "winners", query_id)]
    verdicts = [Verdict(**row) for row in _rows(out, "verdicts", query_id)]
    failed = [Failure(**row) for row in _rows(out, "failures", query_id)]
    failures = [failure for failure in failed if doc_id in failure.doc_ids]
    given = [grade for grade in grades if grade.doc_id == doc_id]
    met = {doc for vote in votes for doc in (vote.doc_id_a, vote.doc_id_b)}
    met |= {doc for verdict in verdicts for doc in (verdict.doc_id_a, verdict.doc_id_b)}
    met |= {doc for contest in contests for doc in (contest.left_id, contest.right_id)}
    if not (scores or grades or met or failed):
        raise NothingToExplain(f"{out} holds no judgment of a query {query_id!r}")
    if not (doc_id in scores or doc_id in met or given or failures):
        known = ", ".join(list(scores)[:20])
        raise NothingToExplain(f"query {query_id!r} has no judged {doc_id!r}; it has {known}")
    if doc_id in scores:
        kind = "verdicts" if verdicts else "votes"
        lines = [_headline(scores[doc_id], len(scores), kind)]
    else:
        lines = [_without(out, query_id, doc_id)]
    if winners:
        won = sum(winner.winner_id == doc_id for winner in winners)
        lines.append(f"it won {won} of {counted(len(winners), 'tournament')} with a winner")
    parts = [
        *map(of_grade, given),
        *of_votes(doc_id, votes, scores),
        *of_contests(doc_id, contests, winners, together=_run(out, "options", "decide") == PANEL),
        *of_verdicts(doc_id, verdicts, scores),
    ]
    for part in parts:
        lines += ["", *part]
    lines += [
        f"\nno judgment from {f.judge} on {' and '.join(f.doc_ids)}: {f.status} ({f.reason})"
        for f in failures
    ]
    return "\n".join(map(printable, "\n".join(lines).split("\n")))


def _without(out: str, query_id: str, doc_id: str) -> str:
    """That there is no score, and why, if the run says."""
    why = _run(out, "summary", "unscored", query_id)
    return f"{doc_id}: no score" + (f", as {why}" if why else "")


def _run(out: str, *names: str) -> Any:
    """What the run's record holds under these names, one in the other; None for nothing."""
    fs, root = fsspec.url_to_fs(out)
    path = f"{root}/run.json"
    found: Any = json.loads(fs.cat_file(path)) if fs.exists(path) else None
    for name in names:
        found = (found or {}).get(name)
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
