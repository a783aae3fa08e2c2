"""Contests and verdicts in the words of a vote, so that a page shows all of them in one way."""

from collections.abc import Mapping
from itertools import zip_longest
from typing import Any

from zelo_ray.report.page import short

_ID = 200
_PREFERENCE = {"model_a": -1.0, "tie": 0.0, "model_b": 1.0}


def of_contest(row: Mapping[str, Any]) -> dict[str, Any]:
    """A contest as a vote, the king as A."""
    left, right, winner = row["left_id"], row["right_id"], row["winner_id"]
    head = (
        f"Contest {row['round']} of tournament {row['repeat'] + 1}, confidence "
        f"{row['confidence']:.2f}. King after it: {short(row['king_id'], _ID)}."
    )
    return {
        "doc_id_a": left,
        "doc_id_b": right,
        "judge": row["judge"],
        "preference": float(winner == right) - float(winner == left),
        "swapped": row["swapped"],
        "reasoning": "\n\n".join((head, row["verdict"], row["reasoning"])),
    }


def of_verdict(row: Mapping[str, Any]) -> dict[str, Any]:
    """A verdict as a vote, with what was said in each round, of Answer 1 first."""
    told = [f"On average {_scores(row['average_scores'], row)}."]
    if row["flipped"]:
        told.append("In the other order there is another winner, so it is a tie.")
    rounds = (row[name] for name in ("score_history", "arguments", "feedback", "reasoning"))
    for number, (scores, arguments, feedback, why) in enumerate(zip_longest(*rounds), 1):
        told.append(f"\nRound {number}: {_scores(scores, row)}.")
        sides = _turned(arguments or (), row)
        told += [f"For Answer {place}: {said}" for place, said in enumerate(sides, 1)]
        told += [f"Feedback: {feedback}"] if feedback else []
        told += [why] if why else []
    return {
        **{name: row[name] for name in ("doc_id_a", "doc_id_b", "judge", "swapped")},
        "preference": _PREFERENCE[row["winner"]],
        "reasoning": "\n".join(told),
    }


def _turned(two: Any, row: Mapping[str, Any]) -> Any:
    """What is of A and B as of Answer 1 and Answer 2."""
    return two[::-1] if row["swapped"] else two


def _scores(two: Any, row: Mapping[str, Any]) -> str:
    first, second = _turned(two, row)
    return f"{first:.4g} for Answer 1, {second:.4g} for Answer 2"
