"""Scores from votes: votes as columns, games, and the maximum of the posterior."""

from random import Random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import brentq

from tests.helpers.games import bradley_terry
from zelo_ray.fitting.battles import battles_of, count_games
from zelo_ray.fitting.pairs import ring_pairs
from zelo_ray.fitting.scores import Fit, score_votes
from zelo_ray.reasons import Unscored, UnscoredReason
from zelo_ray.records import Vote

SEEDS = st.integers(0, 2**32 - 1)


def battles(seed, documents, extra=20):
    """Winners and losers of random games; a ring of wins gives the likelihood a maximum."""
    rng = Random(seed)
    games = [(i, (i + 1) % documents) for i in range(documents)]
    return games + [tuple(rng.sample(range(documents), 2)) for _ in range(extra)]


def count(games, documents):
    wins = np.zeros((documents, documents))
    for winner, loser in games:
        wins[winner, loser] += 1
    return wins


def simulate(queries, documents, cycles, sd, seed):
    """True scores, and one Bradley-Terry game for each sampled pair."""
    rng = np.random.default_rng(seed)
    truth = rng.normal(0, sd, (queries, documents))
    wins = np.zeros((queries, documents, documents))
    for query in range(queries):
        for i, j, *_ in ring_pairs(seed, f"{query}", range(documents), cycles):
            won = rng.random() < 1 / (1 + np.exp(truth[query, j] - truth[query, i]))
            wins[query, i, j], wins[query, j, i] = won, 1 - won
    return truth - truth.mean(axis=1, keepdims=True), wins


def vote(a, b, preference, judge="x:1"):
    return Vote("q", a, b, judge, preference, False, "", "")


def panel(seed, documents=9):
    """A panel's votes on one query: some are ties, some are missing, some were asked again."""
    rng = Random(seed)
    return [
        vote(a, b, rng.choice([-1.0, -0.3, 0.0, 0.2, 0.9]), judge)
        for a, b, *_ in ring_pairs(seed, "q", [f"d{i}" for i in range(documents)], 2)
        for judge in rng.sample(["x:1", "y:2", "z:3"], rng.randint(1, 3)) * rng.choice([1, 3])
    ]


def fit(votes, **options):
    (only,) = score_votes([votes], **options)
    return only


def scores_of(votes):
    return {score.doc_id: score.score for score in fit(votes).scores}


# Votes as columns, and games


def test_a_pair_is_one_game_of_the_means_of_its_judges():
    said = [("x", -1.0), ("x", 1.0), ("x", -0.1), ("y", 0.0), ("z", 1.0)]
    votes = [vote("b", "a", word, judge) for judge, word in said]
    games = count_games(battles_of([votes]))
    assert (games.i.tolist(), games.j.tolist()) == ([0], [1])
    assert games.won.tolist() == [pytest.approx(1 - (2 / 3 + 1 / 2 + 0) / 3)]


# The scores are the maximum of the posterior


def test_one_game_between_two_documents_is_the_textbook_case():
    (score, other), std_errors = (
        found[0] for found in bradley_terry(np.array([[[0.0, 1], [0, 0]]]), prior_sd=2)
    )
    half = brentq(lambda s: 1 / (1 + np.exp(2 * s)) - s / 4, 0, 10, xtol=1e-14)
    odds = np.exp(2 * half)
    assert score == pytest.approx(half, abs=1e-12)
    assert other == -score
    np.testing.assert_allclose(std_errors**2, 0.5 / (2 * odds / (1 + odds) ** 2 + 1 / 4))


# Scores do not depend on what they should not depend on


@settings(deadline=None, max_examples=25)
@given(st.lists(SEEDS, min_size=2, max_size=6), st.sampled_from([2, 3, 10, 25, 40]))
def test_a_query_gets_the_same_bits_in_any_company(seeds, documents):
    """Companions of very different difficulty, which stop after other numbers of steps."""
    wins = np.stack(
        [
            count(battles(seed, documents), documents) * 10.0 ** (i - 1)
            for i, seed in enumerate(seeds)
        ]
    )
    together = bradley_terry(wins)
    turned = bradley_terry(wins[::-1])
    for i in range(len(seeds)):
        alone = bradley_terry(wins[i : i + 1])
        for stacked, back, single in zip(together, turned, alone, strict=True):
            assert stacked[i].tobytes() == single[0].tobytes() == back[-1 - i].tobytes()


@settings(deadline=None, max_examples=25)
@given(st.lists(SEEDS, min_size=1, max_size=5), SEEDS)
def test_the_order_of_votes_and_queries_changes_no_bit(seeds, shuffle):
    rng = Random(shuffle)
    queries = [panel(seed, documents=rng.choice([5, 9])) for seed in seeds]
    shuffled = [rng.sample(votes, len(votes)) for votes in queries]
    assert score_votes(queries) == score_votes(shuffled) == [fit(votes) for votes in queries]
    assert score_votes(queries[::-1]) == score_votes(queries)[::-1]


# What a vote means


def test_the_sign_of_a_preference_is_the_vote_and_negative_is_for_a():
    assert scores_of([vote("a", "b", -0.05)]) == scores_of([vote("a", "b", -1.0)])
    assert scores_of([vote("a", "b", -0.05)])["a"] > 0 > scores_of([vote("a", "b", 0.05)])["a"]


def test_a_missing_judge_is_neither_a_vote_nor_a_tie_and_none_counts_twice():
    present = [vote("a", "b", -1.0, "x:1"), vote("a", "b", -1.0, "y:2")]
    assert scores_of(present) == scores_of(present[:1])
    assert scores_of(present)["a"] > scores_of([*present, vote("a", "b", 0.0, "z:3")])["a"]
    loud = [vote("a", "b", -1.0, "x:1")] * 5 + [vote("a", "b", 1.0, "y:2")]
    assert scores_of(loud) == scores_of([vote("a", "b", 0.0)])


@pytest.mark.parametrize("preference", [float("nan"), 1.5, -57.0])
def test_a_preference_out_of_range_is_refused_and_not_read_as_a_tie(preference):
    with pytest.raises(ValueError, match="preference"):
        score_votes([[vote("a", "b", preference)]])


def test_equal_scores_are_ranked_by_doc_id_in_spite_of_rounding():
    """Nine documents lose to the best and beat the worst: their scores differ in the last bit."""
    middle = [f"d{i}" for i in range(9)]
    votes = [vote("best", doc_id, -1.0) for doc_id in middle]
    votes += [vote(doc_id, "worst", -1.0) for doc_id in middle]
    votes += [vote(a, b, 0.0) for a, b in zip(middle, middle[1:] + middle[:1], strict=True)]
    assert [score.doc_id for score in fit(votes).scores] == ["best", *middle, "worst"]
    assert {score.score for score in fit(votes).scores[1:-1]} == {0.0}


# Where scores would mean nothing there are none


def test_a_query_in_parts_is_withheld_with_a_reason():
    together = fit([vote("a", "b", -1.0), vote("c", "d", -1.0), vote("b", "c", 0.0)])
    assert len(together.scores) == 4
    apart = fit([vote("a", "c", -1.0), vote("b", "d", -1.0)])
    assert apart == Fit(
        reason=Unscored.because(UnscoredReason.DISCONNECTED, parts=2, names="a, c; b, d"),
    )


# The errors


@pytest.mark.parametrize("documents", [10, 25])
def test_95_percent_intervals_hold_the_truth_in_95_percent_of_cases(documents):
    truth, wins = simulate(400, documents, 4, sd=2, seed=1)
    scores, std_errors = bradley_terry(wins)
    covered = np.abs(scores - truth) < 1.96 * std_errors
    assert 0.93 < covered.mean() < 0.97
