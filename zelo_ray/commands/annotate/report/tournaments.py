"""Read the tournaments of a run: the order of the challengers, and the last king."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from zelo_ray.files.tables import read_table
from zelo_ray.records import Contest, Failure, Winner

_CONTESTS = ("query_id", "judge", "repeat", "round", "left_id", "right_id")
_WINNERS = ("query_id", "judge", "repeat", "winner_id")

_Key = tuple[str, str, int]
"""A tournament's query, judge and repeat."""


@dataclass(frozen=True, slots=True)
class Tournament:
    """One tournament over the answers to a query. ``winner_id`` is empty if it did not finish."""

    query_id: str
    judge: str
    """the judge that held it"""
    repeat: int
    order: tuple[str, ...] = ()
    """the first king and the challengers, in order, as far as matches had a result"""
    winner_id: str = ""


def read_tournaments(out: str, repeats: int) -> list[Tournament]:
    """Read all tournaments of a run, including those without a winner.

    Args:
        out: where the results are.
        repeats: how many tournaments a judge held on a query.
    """
    contests = [*_rows(read_table(out, "contests", _CONTESTS, Contest))]
    failed = [*_rows(read_table(out, "failures", ("query_id", "judge"), Failure))]
    queries = dict.fromkeys([row[0] for row in contests] + [row[0] for row in failed])
    judges = dict.fromkeys([row[1] for row in contests] + [row[1] for row in failed])
    # Each tournament has a match, or a failure in its first one.
    pairs: dict[_Key, dict[int, tuple[str, str]]] = {
        (query_id, judge, repeat): {}
        for query_id in queries
        for judge in sorted(judges)
        for repeat in range(repeats)
    }
    for query_id, judge, repeat, number, *pair in contests:
        key = (query_id, judge, repeat)
        pairs.setdefault(key, {})[number] = (pair[0], pair[1])
    rows = _rows(read_table(out, "winners", _WINNERS, Winner))
    winners = {(query_id, judge, repeat): winner for query_id, judge, repeat, winner in rows}
    return [
        Tournament(*key, _line(by_round), winners.get(key, "")) for key, by_round in pairs.items()
    ]


def _line(pairs: Mapping[int, tuple[str, str]]) -> tuple[str, ...]:
    """Return the first king and all challengers, from kings and challengers by round."""
    rounds = sorted(pairs)
    return (pairs[rounds[0]][0], *(pairs[number][1] for number in rounds)) if rounds else ()


def finished(tournaments: Iterable[Tournament]) -> list[Tournament]:
    """Return the tournaments with a winner that took part in a match."""
    return [tournament for tournament in tournaments if tournament.winner_id in tournament.order]


def count_wins(tournaments: Iterable[Tournament]) -> dict[str, dict[str, list[float]]]:
    """Return, by answer and query, 1 for each tournament won and 0 for each one lost.

    Tournaments without a winner are ignored.
    """
    outcomes: dict[str, dict[str, list[float]]] = {}
    for tournament in finished(tournaments):
        for doc_id in tournament.order:
            of_query = outcomes.setdefault(doc_id, {}).setdefault(tournament.query_id, [])
            of_query.append(float(doc_id == tournament.winner_id))
    return outcomes


def expected_wins(tournaments: Iterable[Tournament]) -> dict[str, float]:
    """Return, by answer, the share of tournaments that it would win by chance."""
    shares: dict[str, dict[str, list[float]]] = {}
    for tournament in finished(tournaments):
        for doc_id in tournament.order:
            of_query = shares.setdefault(doc_id, {}).setdefault(tournament.query_id, [])
            of_query.append(1 / len(tournament.order))
    return {
        doc_id: float(np.mean([np.mean(even) for even in by_query.values()]))
        for doc_id, by_query in shares.items()
    }


def count_first_king_wins(tournaments: Iterable[Tournament]) -> tuple[int, float, int]:
    """Count the wins of the first king, those expected by chance, and tournaments with a winner."""
    over = finished(tournaments)
    won = sum(tournament.winner_id == tournament.order[0] for tournament in over)
    return won, sum(1 / len(tournament.order) for tournament in over), len(over)


def count_consistent(tournaments: Iterable[Tournament]) -> tuple[int, int]:
    """Count query and judge pairs with one winner in all tournaments, and such pairs in total.

    Only pairs with two or more finished tournaments count.
    """
    by_judge: dict[tuple[str, str], list[str]] = {}
    for tournament in finished(tournaments):
        by_judge.setdefault((tournament.query_id, tournament.judge), []).append(
            tournament.winner_id
        )
    several = [set(won) for won in by_judge.values() if len(won) > 1]
    return sum(len(won) == 1 for won in several), len(several)


def _rows(table: pa.Table) -> Iterable[tuple[Any, ...]]:
    return zip(*(column.to_pylist() for column in table.columns), strict=True)
