"""Count how judges decide between two answers, over the verdicts of a run."""

from collections import Counter
from dataclasses import dataclass, field

from zelo_ray.files.tables import read_table
from zelo_ray.records import TIE, Verdict

_ITEM = ("query_id", "doc_id_a", "doc_id_b", "method", "judge")
_COLUMNS = (*_ITEM, "winner", "average_scores", "rounds", "swapped")


@dataclass(slots=True)
class Decisions:
    """Decisions of one judge by one method. Both orders of a pair count as one."""

    winners: Counter[str] = field(default_factory=Counter)
    """how often ``model_a``, ``model_b``, ``tie``"""
    both: int = 0
    """pairs judged in both orders"""
    reversed: int = 0
    """of these, pairs that A won in one order and B in the other"""
    half_tied: int = 0
    """of these, pairs that were a tie in one order only"""
    rounds: list[int] = field(default_factory=list)
    """of each debate, or how often each question was asked"""

    @property
    def pairs(self) -> int:
        """Count the pairs that have a verdict."""
        return self.winners.total()

    @property
    def flipped(self) -> int:
        """Count the pairs with a different winner in each order."""
        return self.reversed + self.half_tied

    def add(self, other: "Decisions") -> None:
        """Add the decisions of another judge."""
        self.winners += other.winners
        self.both += other.both
        self.reversed += other.reversed
        self.half_tied += other.half_tied
        self.rounds += other.rounds


@dataclass(slots=True)
class Debates:
    """All verdicts of a run, summed up."""

    by_judge: dict[tuple[str, str], Decisions] = field(default_factory=dict)
    """by method and judge"""
    wins: dict[str, dict[str, list[float]]] = field(default_factory=dict)
    """by answer and query, 1 for each pair that it won, 1/2 for a tie, 0 for each that it lost"""

    @property
    def whole(self) -> Decisions:
        """Return the decisions of all judges together."""
        summed = Decisions()
        for decisions in self.by_judge.values():
            summed.add(decisions)
        return summed


def count_decisions(out: str) -> Debates:
    """Count the verdicts of a run."""
    debates, first_gaps = Debates(), dict[tuple[str, ...], float]()
    for row in read_table(out, "verdicts", _COLUMNS, Verdict).to_pylist():
        decisions = debates.by_judge.setdefault((row["method"], row["judge"]), Decisions())
        gap = row["average_scores"][0] - row["average_scores"][1]
        decisions.rounds.append(row["rounds"])
        item = tuple(row[name] for name in _ITEM)
        if item in first_gaps:
            decisions.both += 1
            decisions.reversed += first_gaps[item] * gap < 0
            decisions.half_tied += (first_gaps[item] == 0) != (gap == 0)
            continue
        first_gaps[item] = gap
        decisions.winners[row["winner"]] += 1
        for doc_id, side in ((row["doc_id_a"], "model_a"), (row["doc_id_b"], "model_b")):
            of_query = debates.wins.setdefault(doc_id, {}).setdefault(row["query_id"], [])
            of_query.append(0.5 if row["winner"] == TIE else float(row["winner"] == side))
    return debates
