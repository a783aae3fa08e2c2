"""Contests and verdicts as votes, so that a page counts and shows all of them in one way."""

from collections.abc import Sequence
from typing import Any, TypeVar

import numpy as np
import pyarrow as pa

from zelo_ray.present.html.page import short
from zelo_ray.records import Contest, Verdict

CONTESTS = ("query_id", "judge", "left_id", "right_id", "winner_id", "swapped")
"""The columns that `contests` reads."""
VERDICTS = ("query_id", "doc_id_a", "doc_id_b", "judge", "average_scores", "swapped")
"""The columns that `verdicts` reads."""

_ID = 200

T = TypeVar("T")


def contests(table: pa.Table) -> pa.Table:
    """Contests as votes for one of two documents, of which the king is A."""
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


def verdicts(table: pa.Table) -> pa.Table:
    """Verdicts as votes for A or B: each order's own word, where both were asked."""
    means = table["average_scores"].combine_chunks()
    a, b = means.flatten().to_numpy().reshape(-1, 2).T
    columns = {name: table[name] for name in ("query_id", "doc_id_a", "doc_id_b", "judge")}
    return pa.table({**columns, "preference": np.sign(b - a), "swapped": table["swapped"]})


def contest(one: Contest) -> dict[str, Any]:
    """A contest as a vote, the king as A, with all that was said."""
    head = (
        f"Contest {one.round} of tournament {one.repeat + 1}, confidence {one.confidence:.2f}. "
        f"King after it: {short(one.king_id, _ID)}."
    )
    return {
        "doc_id_a": one.left_id,
        "doc_id_b": one.right_id,
        "judge": one.judge,
        "preference": one.preference,
        "swapped": one.swapped,
        "reasoning": "\n\n".join((head, one.verdict, one.reasoning)),
    }


def verdict(one: Verdict) -> dict[str, Any]:
    """A verdict as a vote, with what was said in each round, of Answer 1 first."""
    told = [f"On average {_scores(one, one.average_scores)}."]
    if one.flipped:
        first, second = _turned(one, one.average_scores)
        ahead = "Answer 1 won" if first > second else "Answer 2 won" if first < second else "a tie"
        told.append(f"In this order {ahead}; the orders differ, so it is a tie.")
    for number, (scores, arguments, feedback, reasoning) in enumerate(one.by_round(), 1):
        told.append(f"\nRound {number}: {_scores(one, scores)}.")
        sides = enumerate(_turned(one, arguments), 1)
        told += [f"For Answer {place}: {said}" for place, said in sides]
        told += [f"Feedback: {feedback}"] if feedback else []
        told += [reasoning] if reasoning else []
    return {
        "doc_id_a": one.doc_id_a,
        "doc_id_b": one.doc_id_b,
        "judge": one.judge,
        "preference": one.preference,
        "swapped": one.swapped,
        "reasoning": "\n".join(told),
    }


def _turned(one: Verdict, two: Sequence[T]) -> Sequence[T]:
    """What is of A and B as of Answer 1 and Answer 2."""
    return two[::-1] if one.swapped else two


def _scores(one: Verdict, two: Sequence[float]) -> str:
    first, second = _turned(one, two)
    return f"{first:.4g} for Answer 1, {second:.4g} for Answer 2"
