"""Votes as columns, and the games that they are."""

from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from zelo_ray.fitting.battles import battles_of
from zelo_ray.fitting.games import count_games
from zelo_ray.records import Vote

SEEDS = st.integers(0, 2**32 - 1)


def queries_of(seed):
    """Votes of some queries, of which some fall into parts; ids recur in other queries."""
    rng = Random(seed)
    queries = []
    for query in range(rng.randint(1, 5)):
        ids = rng.sample(["b", "a", "É", "10", "9", "z z"], rng.randint(2, 6))
        queries.append(
            [
                Vote(f"q{query}", *rng.sample(ids, 2), rng.choice("xyz"), said, False, "", "")
                for said in rng.choices([-1.0, -0.2, 0.0, 0.7], k=rng.randint(1, 12))
            ]
        )
    return queries


@settings(deadline=None, max_examples=50)
@given(SEEDS)
def test_columns_hold_the_votes_in_their_order(seed):
    queries = queries_of(seed)
    votes = [vote for own in queries for vote in own]
    battles = battles_of(queries)
    assert all(list(ids) == sorted(set(ids)) for ids in battles.documents)
    columns = (battles.query, battles.a, battles.b, battles.judge, battles.preference)
    for vote, (query, a, b, judge, said) in zip(votes, zip(*columns, strict=True), strict=True):
        assert queries[query][0].query_id == vote.query_id
        assert battles.documents[query][a] == vote.doc_id_a
        assert battles.documents[query][b] == vote.doc_id_b
        assert (battles.judges[judge], said) == (vote.judge, vote.preference)


def test_documents_without_a_vote_have_their_places():
    vote = Vote("q", "c", "a", "x", -1.0, True, "", "")
    battles = battles_of([[vote], []], also=[["b", "a"], ["e", "d"]])
    assert battles.documents == (("a", "b", "c"), ("d", "e"))
    assert (battles.a[0], battles.b[0], battles.swapped[0]) == (2, 0, True)
    assert battles_of([]).documents == ()


def test_a_pair_is_one_game_of_the_means_of_its_judges():
    said = [("x", -1.0), ("x", 1.0), ("x", -0.1), ("y", 0.0), ("z", 1.0)]
    votes = [Vote("q", "b", "a", judge, word, False, "", "") for judge, word in said]
    games = count_games(battles_of([votes]))
    assert (games.i.tolist(), games.j.tolist()) == ([0], [1])
    assert games.won.tolist() == [pytest.approx(1 - (2 / 3 + 1 / 2 + 0) / 3)]
