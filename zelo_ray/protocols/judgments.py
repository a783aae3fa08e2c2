"""Define the kinds of judgments of these protocols: their wording, and what they compare."""

from collections.abc import Sequence
from typing import TypeVar

import numpy as np
import pyarrow as pa

from zelo_ray.protocols.protocol import Judgments
from zelo_ray.records import Contest, Grade, Verdict, Vote, Winner

T = TypeVar("T")


def _contests(table: pa.Table) -> pa.Table:
    """Return contests as votes for one of two documents, where the king is A."""
    left, right, winner = (table[name].to_numpy() for name in ("left_id", "right_id", "winner_id"))
    columns = {
        "query_id": table["query_id"],
        "doc_id_a": table["left_id"],
        "doc_id_b": table["right_id"],
        "judge": table["judge"],
        "preference": (winner == right).astype(np.float64) - (winner == left),
        "swapped": table["swapped"],
    }
    return pa.table(columns)


def _verdicts(table: pa.Table) -> pa.Table:
    """Return verdicts as votes for A or B, one for each order that was asked."""
    means = table["average_scores"].combine_chunks()
    a, b = means.flatten().to_numpy().reshape(-1, 2).T
    columns = {name: table[name] for name in ("query_id", "doc_id_a", "doc_id_b", "judge")}
    return pa.table({**columns, "preference": np.sign(b - a), "swapped": table["swapped"]})


def _of_grade(grade: Grade) -> str:
    facets = (("covers", grade.facets_covered), ("misses", grade.facets_missing))
    lines = [f"{name}: {'; '.join(names)}" for name, names in facets if names]
    return "\n".join([*lines, grade.rationale])


def _of_contest(contest: Contest) -> str:
    head = (
        f"Contest {contest.round} of tournament {contest.repeat + 1}, "
        f"confidence {contest.confidence:.2f}. King after it: {contest.king_id}."
    )
    return "\n\n".join((head, contest.verdict, contest.reasoning))


def _of_verdict(verdict: Verdict) -> str:
    """Return a verdict as text, round by round, Answer 1 first."""
    lines = [f"On average {_scores(verdict, verdict.average_scores)}."]
    if verdict.flipped:
        first, second = _turned(verdict, verdict.average_scores)
        ahead = "Answer 1 won" if first > second else "Answer 2 won" if first < second else "a tie"
        lines.append(f"In this order {ahead}; the orders differ, so it is a tie.")
    for number, (scores, arguments, feedback, reasoning) in enumerate(verdict.by_round(), 1):
        lines.append(f"\nRound {number}: {_scores(verdict, scores)}.")
        sides = enumerate(_turned(verdict, arguments), 1)
        lines += [f"For Answer {place}: {argument}" for place, argument in sides]
        lines += [f"Feedback: {feedback}"] if feedback else []
        lines += [reasoning] if reasoning else []
    return "\n".join(lines)


def _turned(verdict: Verdict, two: Sequence[T]) -> Sequence[T]:
    """Return two values for A and B in the order of Answer 1 and Answer 2."""
    return two[::-1] if verdict.swapped else two


def _scores(verdict: Verdict, two: Sequence[float]) -> str:
    first, second = _turned(verdict, two)
    return f"{first:.4g} for Answer 1, {second:.4g} for Answer 2"


VOTES = Judgments(
    record=Vote,
    noun="comparison",
    documents=("doc_id_a", "doc_id_b"),
    words=lambda vote: str(vote.reasoning),
    as_votes=lambda votes: votes,
    columns=("query_id", "doc_id_a", "doc_id_b", "judge", "preference", "swapped", "key"),
)
GRADES = Judgments(
    record=Grade,
    noun="grade",
    words=_of_grade,
    as_grades=lambda grades: grades,
    columns=("query_id", "doc_id", "judge", "grade"),
)
CONTESTS = Judgments(
    record=Contest,
    noun="contest",
    documents=("left_id", "right_id"),
    words=_of_contest,
    as_votes=_contests,
    columns=("query_id", "judge", "left_id", "right_id", "winner_id", "swapped"),
)
WINNERS = Judgments(
    record=Winner,
    noun="tournament",
    documents=("winner_id",),
    counts=False,
)
VERDICTS = Judgments(
    record=Verdict,
    noun="verdict",
    documents=("doc_id_a", "doc_id_b"),
    words=_of_verdict,
    as_votes=_verdicts,
    columns=("query_id", "doc_id_a", "doc_id_b", "judge", "average_scores", "swapped"),
)
