"""How judges decide between two answers: sums over the verdicts of a run."""

from collections import Counter
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa

from zelo_ray.formats.results import read_table

COLUMNS = ("query_id", "doc_id_a", "doc_id_b", "judge", "winner", "average_scores", "swapped")
"""The columns of verdicts that `as_votes` reads."""

_COLUMNS = (*COLUMNS, "method", "rounds", "flipped")
_SIGN = {"model_a": -1.0, "tie": 0.0, "model_b": 1.0}


@dataclass(slots=True)
class Outcomes:
    """What one judge said by one method. Both orders of a pair are one word."""

    winners: Counter[str] = field(default_factory=Counter)
    """how often ``model_a``, ``model_b``, ``tie``"""
    both: int = 0
    """pairs judged in both orders"""
    flipped: int = 0
    """pairs of which each order has another winner"""
    rounds: list[int] = field(default_factory=list)
    """of each debate, or how often each question was asked"""
    gaps: list[float] = field(default_factory=list)
    """by how much the mean score of the answer shown first is above the other's"""

    @property
    def pairs(self) -> int:
        """How many pairs have a verdict."""
        return self.winners.total()

    def add(self, other: "Outcomes") -> None:
        """Count in what another judge said."""
        self.winners += other.winners
        self.both, self.flipped = self.both + other.both, self.flipped + other.flipped
        self.rounds += other.rounds
        self.gaps += other.gaps


@dataclass(slots=True)
class Verdicts:
    """All verdicts of a run, summed up."""

    by_judge: dict[tuple[str, str], Outcomes] = field(default_factory=dict)
    """by method and judge"""
    wins: dict[str, dict[str, list[float]]] = field(default_factory=dict)
    """by answer and query, 1 for each pair that it won, 1/2 for a tie, 0 for each that it lost"""

    @property
    def whole(self) -> Outcomes:
        """What all judges said."""
        summed = Outcomes()
        for each in self.by_judge.values():
            summed.add(each)
        return summed

    @property
    def queries(self) -> dict[str, set[str]]:
        """By query, the answers that were judged."""
        found: dict[str, set[str]] = {}
        for doc_id, of_query in self.wins.items():
            for query_id in of_query:
                found.setdefault(query_id, set()).add(doc_id)
        return found


def verdicts_of(out: str) -> Verdicts:
    """Sum up the verdicts among some results."""
    found, seen = Verdicts(), set[tuple[str, ...]]()
    for row in read_table(out, "verdicts", _COLUMNS).to_pylist():
        pair = (row["doc_id_a"], row["doc_id_b"])
        told = found.by_judge.setdefault((row["method"], row["judge"]), Outcomes())
        gap = row["average_scores"][0] - row["average_scores"][1]
        told.gaps.append(-gap if row["swapped"] else gap)
        told.rounds.append(row["rounds"])
        if (item := (row["query_id"], *pair, row["method"], row["judge"])) in seen:
            told.both += 1
            told.flipped += row["flipped"]
            continue
        seen.add(item)
        told.winners[row["winner"]] += 1
        for doc_id, side in zip(pair, (-1, 1), strict=True):
            of_query = found.wins.setdefault(doc_id, {}).setdefault(row["query_id"], [])
            of_query.append((1 + side * _SIGN[row["winner"]]) / 2)
    return found


def as_votes(verdicts: pa.Table) -> pa.Table:
    """Verdicts as votes for A or B: each order's own word, where both were asked."""
    means = verdicts["average_scores"].combine_chunks()
    a, b = means.flatten().to_numpy().reshape(-1, 2).T
    columns = {name: verdicts[name] for name in ("query_id", "doc_id_a", "doc_id_b", "judge")}
    return pa.table({**columns, "preference": np.sign(b - a), "swapped": verdicts["swapped"]})
