"""Why a document has its score: its comparisons, as a person can read them."""

from collections.abc import Iterator
from typing import Any

import fsspec
import pyarrow.compute as pc
import pyarrow.parquet as pq

from zelo_ray.records import Failure, Score, Vote


class NothingToExplain(Exception):  # noqa: N818 - it names what is the matter
    """The results do not hold what was asked for; the message says what they do hold."""


def explain(out: str, query_id: str, doc_id: str) -> str:
    """One document's score and every vote that it took part in, the hardest opponents first.

    Raises:
        NothingToExplain: no such results, query or document.
    """
    scores = {s.doc_id: s for s in (Score(**row) for row in _rows(out, "scores", query_id))}
    votes = [Vote(**row) for row in _rows(out, "votes", query_id)]
    failures = [Failure(**row) for row in _rows(out, "failures", query_id)]
    failures = [failure for failure in failures if doc_id in failure.doc_ids]
    mine = [vote for vote in votes if doc_id in (vote.doc_id_a, vote.doc_id_b)]
    if not scores and not votes:
        raise NothingToExplain(f"{out} holds no judgment of a query {query_id!r}")
    if not (doc_id in scores or mine or failures):
        known = ", ".join(list(scores)[:20])
        raise NothingToExplain(f"query {query_id!r} has no judged {doc_id!r}; it has {known}")
    lines = [_headline(doc_id, scores.get(doc_id), len(scores))]
    opponents = {_other(vote, doc_id) for vote in mine}
    for opponent in sorted(opponents, key=lambda o: (scores[o].rank if o in scores else 0, o)):
        lines += ["", *_battle(doc_id, opponent, mine, scores.get(opponent))]
    lines += [
        f"\nno vote from {f.judge} on {' and '.join(f.doc_ids)}: {f.status} ({f.reason})"
        for f in failures
    ]
    return "\n".join(lines)


def _headline(doc_id: str, score: Score | None, documents: int) -> str:
    if score is None:
        return f"{doc_id}: no score"
    return (
        f"{doc_id}: score {score.score:+.2f} ± {score.std_error:.2f}, rank {score.rank} of "
        f"{documents}, from {score.comparisons} votes"
    )


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
            yield from (f"        {line}" for line in vote.reasoning.splitlines())


def _other(vote: Vote, doc_id: str) -> str:
    return vote.doc_id_b if vote.doc_id_a == doc_id else vote.doc_id_a


def _rows(out: str, table: str, query_id: str) -> list[dict[str, Any]]:
    fs, root = fsspec.url_to_fs(out)
    path = f"{root}/{table}.parquet"
    if not fs.exists(path):
        raise NothingToExplain(
            f"{out} holds no {table}.parquet: is it the --out of a finished run?"
        )
    with fs.open(path, "rb") as file:
        rows = pq.read_table(file, filters=pc.field("query_id") == query_id).to_pylist()
    return list(rows)
