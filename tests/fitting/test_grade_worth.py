"""Scores by battles and grades: Bradley-Terry with a prior that is learned from grades."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from zelo_ray.fitting.battles import battles_of
from zelo_ray.fitting.grade_worth import GradeWorth, grade_shares, learn_grade_worth
from zelo_ray.fitting.pairs import ring_pairs
from zelo_ray.fitting.scores import score_votes
from zelo_ray.reasons import UnscoredReason
from zelo_ray.records import Grade, Vote

JUDGES = ("j0", "j1", "j2")
CUTS = (-0.75, 0.75, 2.15)
WORTH = GradeWorth(JUDGES, np.tile([-1.0, 0.0, 1.0, 2.0], (3, 1)), 1.0, by_size=False)


def vote_of(a, b, preference, query_id="q", judge="j0", key=""):
    return Vote(query_id, a, b, judge, preference, False, "", key)


def grade_of(doc_id, grade, query_id="q", judge="j0", key=""):
    return Grade(query_id, doc_id, judge, grade, (), (), "", key)


def simulate(seed, queries=40, documents=20, rings=1, noise=False):
    """Queries that are rich or poor, graded by all judges, who vote in turn on rings.

    Judges share an error about each document. With ``noise`` the sizes of preferences are chance.
    """
    rng = np.random.default_rng(seed)
    ids = [f"d{place:02}" for place in range(documents)]
    truth = rng.normal(size=(queries, documents)) * 1.2 + rng.normal(0, 0.5, (queries, 1))
    seen = truth + 0.3 * rng.normal(size=truth.shape)
    votes, grades = [], []
    for query in range(queries):
        worth, name = dict(zip(ids, seen[query], strict=True)), f"q{query}"
        votes.append([])
        for pair in ring_pairs(0, name, ids, rings):
            gap = worth[pair.b] - worth[pair.a] + rng.normal()
            size = rng.random() if noise else abs(np.tanh(gap / 2))
            votes[-1].append(
                vote_of(pair.a, pair.b, np.sign(gap) * size, name, JUDGES[pair.turn % 3])
            )
        grades.append(
            [
                grade_of(
                    doc_id,
                    int(np.searchsorted(CUTS, worth[doc_id] + 0.8 * rng.normal())),
                    name,
                    judge,
                )
                for doc_id in ids
                for judge in JUDGES
            ]
        )
    return truth, votes, grades


def learn(votes, grades):
    battles = battles_of(votes, [[row.doc_id for row in pool] for pool in grades])
    return learn_grade_worth(battles, grade_shares(battles, grades, JUDGES), JUDGES)


def score(votes, grades, learned, prior_sd=2.5):
    return score_votes(votes, prior_sd, 1.0, query_grades=grades, worth=learned)


def columns(fits, *names):
    rows = [sorted(fit.scores, key=lambda row: row.doc_id) for fit in fits]
    return [np.array([[getattr(row, name) for row in each] for each in rows]) for name in names]


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 2**32 - 1), st.sampled_from([0.7, 2.5]))
def test_without_grades_it_is_the_fit_of_zelo(seed, prior_sd):
    rng = np.random.default_rng(seed)
    ids = [f"d{place}" for place in range(int(rng.integers(2, 8)))]
    votes = [
        [
            vote_of(pair.a, pair.b, rng.choice([-1.0, -0.3, 0.0, 1.0]), judge=judge)
            for pair in ring_pairs(seed, "q", ids, 2)
            for judge in JUDGES
        ]
    ]
    names = ("score", "std_error", "truth_error", "comparisons", "rank")
    found = columns(score(votes, [[]], WORTH, prior_sd), *names)
    wanted = columns(score_votes(votes, prior_sd, 1.0), *names)
    for one, other in zip(found, wanted, strict=True):
        np.testing.assert_allclose(one, other, atol=1e-9)


@pytest.mark.parametrize("rings", [1, 2])
def test_intervals_hold_the_truth_and_errors_are_smaller_than_by_either_alone(rings):
    """As many as they should, or more: the width of the prior is never the likeliest alone."""
    held, errors = [], {"both": [], "votes": [], "grades": []}
    for seed in range(4):
        truth, votes, grades = simulate(seed, rings=rings)
        true = truth - truth.mean(axis=1, keepdims=True)
        scores, std_errors = columns(
            score(votes, grades, learn(votes, grades)), "score", "std_error"
        )
        by_votes, *_ = columns(score_votes(votes), "score")
        by_grade = np.array([[row.grade for row in pool] for pool in grades]).reshape(40, 20, 3)
        means = by_grade.mean(axis=2) - by_grade.mean(axis=(1, 2))[:, np.newaxis]
        held.append(np.abs(scores - true) < 1.96 * std_errors)
        errors["both"].append(scores - true)
        errors["votes"].append(by_votes - true)
        errors["grades"].append(means * (true * means).sum() / (means**2).sum() - true)
    off = {name: np.sqrt(np.mean(np.square(rows))) for name, rows in errors.items()}
    assert 0.92 < np.mean(held) < 0.995
    assert off["both"] < min(off["votes"], off["grades"])


def test_grades_are_worth_more_the_higher_and_a_judge_that_grades_at_random_nothing():
    _, votes, grades = simulate(0, queries=80)
    rng = np.random.default_rng(1)
    grades = [
        [replace(row, grade=int(rng.integers(4))) if row.judge == "j2" else row for row in pool]
        for pool in grades
    ]
    learned = learn(votes, grades)
    assert learned.judges == JUDGES
    assert (np.diff(learned.worth[:2], axis=1) > 0.1).all()
    assert np.ptp(learned.worth[2]) < 0.3 * np.ptp(learned.worth[:2], axis=1).min()


def test_sizes_of_preferences_count_only_where_they_go_with_grades():
    for noise in (False, True):
        _, votes, grades = simulate(0, noise=noise)
        assert learn(votes, grades).by_size is not noise
    ungraded = [[] for _ in votes]
    assert not learn(votes, ungraded).by_size


def test_absolute_scores_tell_rich_queries_from_poor_ones():
    truth, votes, grades = simulate(2, queries=80)
    fits = score(votes, grades, learn(votes, grades))
    absolute, relative, error, std_error = columns(
        fits, "absolute_score", "score", "absolute_error", "std_error"
    )
    shifts = absolute - relative
    assert np.ptp(shifts, axis=1).max() < 1e-9
    assert np.corrcoef(shifts[:, 0], truth.mean(axis=1))[0, 1] > 0.7
    assert (error > std_error).all()


def test_no_bit_depends_on_company_or_order():
    _, votes, grades = simulate(0, queries=6)
    learned = learn(votes, grades)
    together = score(votes, grades, learned)
    for place in range(6):
        assert score([votes[place]], [grades[place]], learned) == [together[place]]
    turned = score(
        [pool[::-1] for pool in votes[::-1]], [pool[::-1] for pool in grades[::-1]], learned
    )
    assert turned[::-1] == together


def test_grades_link_parts_that_never_met_and_place_what_has_no_vote():
    parts = [vote_of("a", "b", -1.0), vote_of("c", "d", -1.0)]
    every = [grade_of(doc_id, max(0, 3 - place)) for place, doc_id in enumerate("abcde")]
    whole, some, none, nothing = score([parts, parts, parts, []], [every, every[:3], [], []], WORTH)
    assert [row.doc_id for row in whole.scores] == [*"abced"]  # d lost besides
    assert [row.comparisons for row in whole.scores] == [1, 1, 1, 0, 1]
    assert {row.doc_id for row in some.scores} == {*"abcd"}
    assert none.reason.code == UnscoredReason.DISCONNECTED
    assert nothing.reason.code == UnscoredReason.NO_VOTES
    (alone,) = score([[]], [every], WORTH)
    assert [row.doc_id for row in alone.scores] == [*"abcde"]


def test_copies_of_a_text_share_one_score_and_its_grades_count_once():
    key = "0123456789abcdef" * 2
    votes = [vote_of("a", "c1", -1.0, key=key), vote_of("a", "c2", -1.0, key=key)]
    graded = [grade_of(doc_id, 1, key=key[::-1]) for doc_id in ("c1", "c2")]
    (fit,) = score([votes], [[*graded, grade_of("a", 3)]], WORTH)
    (plain,) = score([votes[:1]], [[graded[0], grade_of("a", 3)]], WORTH)
    assert [row.doc_id for row in fit.scores] == ["a", "c1", "c2"]
    assert fit.scores[1].score == fit.scores[2].score
    gaps = [each.scores[0].score - each.scores[1].score for each in (fit, plain)]
    assert gaps[0] == pytest.approx(gaps[1])
    assert fit.scores[0].std_error == plain.scores[0].std_error
