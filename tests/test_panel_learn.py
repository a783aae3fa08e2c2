"""What is learned of judges whose habits are known, and whether sizes count."""

from dataclasses import replace

import numpy as np
import pytest

from tests.panel_votes import draw, habits, panel, some
from zelo_ray.fitting.battles import battles_of
from zelo_ray.fitting.panel import Grades, absolute_shifts, default_model, fit, learn, posteriors
from zelo_ray.records import Vote

STEEP = habits((0.4, 0.9, 2.0, 3.0), cuts=(0.3, 0.6, 0.8), terms=(0.2, 0.0, -0.5))
SIGNS = panel(
    habits(1.3, bias=0.5, tie=-0.8),
    habits(0.4, bias=0.0, tie=-1.5),
    habits(0.8, bias=-0.3, tie=-2.5),
)


def grades_of_some(grades, kept):
    return Grades(
        query=grades.query[kept],
        document=grades.document[kept],
        judge=grades.judge[kept],
        grade=grades.grade[kept],
    )


def plain(model):
    """Its slopes, ties and biases by judge."""
    return [(one.slopes[0], one.terms[0], one.bias) for one in model.habits]


def test_slopes_ties_and_biases_are_found_from_a_few_dozen_queries():
    drawn = draw(SIGNS, queries=60, documents=12, votes=40, seed=1)
    found = learn(drawn.battles, None)
    assert found.judges == SIGNS.judges
    assert not found.sizes
    for (slope, tie, bias), (true_slope, true_tie, true_bias) in zip(
        plain(found), plain(SIGNS), strict=True
    ):
        assert slope == pytest.approx(true_slope, rel=0.25)
        assert tie == pytest.approx(true_tie, abs=0.35)
        # A better judge's preference for the first is told by more than a worse one's.
        assert bias == pytest.approx(true_bias, abs=0.2)


def test_own_views_are_found_where_judges_have_them():
    none, wide = (
        learn(
            draw(
                panel(habits(1.5), habits(1.5), own_sd=sd),
                queries=60,
                documents=10,
                votes=60,
                seed=2,
            ).battles,
            None,
        ).own_sd
        for sd in (0.0, 0.7)
    )
    assert none <= 0.15
    assert wide >= 0.5


def test_errors_that_judges_share_make_their_votes_worth_less():
    free, tied = (
        learn(
            draw(
                panel(habits(1.0), habits(1.0), habits(1.0)),
                queries=60,
                documents=12,
                votes=20,
                seed=3,
                together=together,
            ).battles,
            None,
        ).rho
        for together in (1e-9, 1.0)
    )
    assert free < 0.15 < tied


def test_sizes_count_where_they_tell_and_not_where_they_are_noise():
    model = panel(STEEP, STEEP)
    for noise in (False, True):
        drawn = draw(model, queries=130, documents=8, votes=20, seed=5, noise=noise)
        found = learn(drawn.battles, None)
        assert found.sizes is not noise
        assert ("Signs" if noise else "Sizes") in found.notes[0]
        rises = [one.slopes[-1] - one.slopes[0] for one in found.habits]
        assert max(rises) == 0 if noise else min(rises) > 1


def test_with_few_queries_only_an_earlier_run_makes_sizes_count():
    drawn = draw(panel(STEEP, STEEP), queries=60, documents=8, votes=20, seed=5)
    found = learn(drawn.battles, None)
    assert not found.sizes
    assert "queries with hidden votes are too few" in found.notes[0]
    assert found.notes[0].endswith("it takes 100.")
    known = replace(panel(STEEP, STEEP), sizes=True)
    again = learn(drawn.battles, None, start=known)
    assert again.sizes
    assert "as in an earlier run" in again.notes[0]


def test_sizes_that_count_make_better_scores():
    drawn = draw(panel(STEEP, STEEP), queries=130, documents=8, votes=20, seed=6)
    sizes = learn(drawn.battles, None)
    signs = learn(replace(drawn.battles, preference=np.sign(drawn.battles.preference)), None)
    apart = []
    for model in (sizes, signs):
        stacks = posteriors(drawn.battles, None, model)
        means = np.concatenate([one.mean for one in stacks])
        pairs = zip(means, drawn.truth, strict=True)
        apart.append(np.mean([np.corrcoef(mean, truth)[0, 1] for mean, truth in pairs]))
    assert apart[0] > apart[1] + 0.02


def test_a_judge_with_few_votes_is_much_like_the_panel():
    drawn = draw(SIGNS, queries=60, documents=12, votes=40, seed=1)
    rare = np.flatnonzero(drawn.battles.judge == 0)[15:]
    found = learn(some(drawn.battles, np.delete(np.arange(2400), rare)), None)
    usual = np.mean([one.slopes[0] for one in found.habits[1:]])
    assert found.habits[0].slopes[0] == pytest.approx(usual, abs=0.4)
    assert found.habits[0].cuts == ()


def test_with_too_few_votes_nothing_is_learned_and_it_says_so():
    drawn = draw(SIGNS, queries=4, documents=6, votes=10, seed=1)
    found = learn(drawn.battles, drawn.grades)
    known = default_model(SIGNS.judges)
    assert replace(found, notes=()) == replace(known, notes=())
    assert found.notes[-1] == "40 votes of 4 queries are too few to learn from."
    again = learn(drawn.battles, None, start=SIGNS)
    assert again.habits == SIGNS.habits


def test_nothing_at_all_is_too_few_as_well():
    assert learn(battles_of([]), None).judges == ()
    assert learn(battles_of([[]]), None).notes[-1].startswith("0 votes")


def test_grades_are_learned_and_their_spread_with_them():
    drawn = draw(SIGNS, queries=80, documents=12, votes=40, seed=7)
    found = learn(drawn.battles, drawn.grades)
    means = np.mean([one.grade_means for one in found.habits], axis=0)
    by_grade = [
        drawn.truth[drawn.grades.query, drawn.grades.document][drawn.grades.grade == grade].mean()
        for grade in range(4)
    ]
    np.testing.assert_allclose(means, by_grade, atol=0.3)
    assert 0.4 <= found.grade_sd <= 0.7
    shuffled = replace(drawn.grades, grade=np.random.default_rng(0).permutation(drawn.grades.grade))
    noise = learn(drawn.battles, shuffled)
    assert noise.grade_sd >= 0.85
    assert np.ptp([one.grade_means for one in noise.habits], axis=1).max() < 0.5


def test_grades_make_better_scores_of_few_battles():
    drawn = draw(SIGNS, queries=80, documents=12, votes=20, seed=8)
    apart = []
    for grades in (drawn.grades, None):
        (found,) = posteriors(drawn.battles, grades, learn(drawn.battles, grades))
        pairs = zip(found.mean, drawn.truth, strict=True)
        apart.append(np.mean([np.corrcoef(mean, truth)[0, 1] for mean, truth in pairs]))
    assert apart[0] > apart[1] + 0.1


def test_too_few_grades_say_what_the_default_says():
    drawn = draw(SIGNS, queries=20, documents=12, votes=40, seed=7)
    found = learn(drawn.battles, grades_of_some(drawn.grades, slice(50)))
    assert found.grade_sd == default_model(SIGNS.judges).grade_sd
    assert found.notes[-1].startswith("50 grades of 5 queries are too few ")


def test_one_scale_for_all_queries():
    drawn = draw(SIGNS, queries=150, documents=25, votes=60, seed=9, pools=0.8)
    model = learn(drawn.battles, drawn.grades)
    stacks = list(posteriors(drawn.battles, drawn.grades, model))
    shift, error = np.concatenate([absolute_shifts(one, model) for one in stacks], axis=1)
    mean = np.concatenate([one.mean for one in stacks])
    truth = drawn.truth.ravel()
    alone = np.corrcoef(mean.ravel(), truth)[0, 1]
    moved = np.corrcoef((mean + shift[:, np.newaxis]).ravel(), truth)[0, 1]
    assert moved > 0.88 > alone
    off = shift / model.win_scale - drawn.truth.mean(1)
    off -= off.mean()
    assert 0.6 < np.sqrt(np.mean(off**2)) / (error.mean() / model.win_scale) < 2


def test_a_query_without_grades_has_no_shift():
    drawn = draw(SIGNS, queries=3, documents=6, votes=20, seed=9)
    kept = drawn.grades.query > 0
    model = default_model(SIGNS.judges)
    (found,) = posteriors(drawn.battles, grades_of_some(drawn.grades, kept), model)
    shift, error = absolute_shifts(found, model)
    assert np.isnan(shift).tolist() == [True, False, False]
    assert np.isnan(error).tolist() == [True, False, False]


@pytest.mark.parametrize("judges", [1, 20])
def test_panels_of_one_and_of_twenty(judges):
    model = panel(*[habits(1.0)] * judges)
    drawn = draw(model, queries=60, documents=10, votes=40, seed=10)
    found = learn(drawn.battles, drawn.grades)
    assert np.mean([one.slopes[0] for one in found.habits]) == pytest.approx(1.0, abs=0.25)
    fits = fit(drawn.battles, drawn.grades, found, [str(n) for n in range(60)])
    assert all(len(one.scores) == 10 for one in fits)


def test_judges_and_votes_may_be_missing_and_pools_of_any_size():
    rng = np.random.default_rng(11)
    votes = []
    for query in range(60):
        size = int(rng.integers(2, 9))
        ids, truth = [f"d{n}" for n in range(size)], rng.normal(size=size)
        names = ["x", "y", "z"] if query % 2 else ["x", "y"]
        pairs = [(i, j) for i in range(size) for j in range(i) if rng.random() < 0.8]
        votes.append(
            [
                Vote(
                    *(str(query), ids[i], ids[j], name),
                    float(np.sign(truth[j] - truth[i] + rng.logistic())),
                    *(bool(rng.random() < 0.5), "", ""),
                )
                for i, j in pairs
                for name in names
                if rng.random() < 0.8
            ]
        )
    battles = battles_of(votes)
    model = learn(battles, None)
    fits = fit(battles, None, model, [str(query) for query in range(60)])
    assert sum(bool(one.scores) for one in fits) > 40
    assert all(one.scores or one.reason for one in fits)


def test_the_order_of_votes_changes_nothing_that_is_learned():
    drawn = draw(SIGNS, queries=30, documents=8, votes=30, seed=12)
    mixed = np.random.default_rng(0).permutation(900)
    one, other = learn(drawn.battles, None), learn(some(drawn.battles, mixed), None)
    assert one == other
    assert learn(drawn.battles, None, seed=1).judges == one.judges
