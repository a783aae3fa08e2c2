"""What grades come to in a run: means, the fit of the judges, people's grades."""

import math
import pickle
import re
from dataclasses import replace
from functools import partial
from random import Random

import pyarrow as pa
import pytest

from tests.helpers import builders
from zelo_ray.protocols import Evidence, graded
from zelo_ray.reasons import Unscored, UnscoredReason
from zelo_ray.records import Grade

options_of = partial(builders.options_of, protocol="graded")

FITTED = {"pooling": "thurstone"}
OPTIONS = options_of(**FITTED)


def grade_of(doc_id, judge, grade, query_id="q1"):
    return Grade(query_id, doc_id, judge, grade, (), (), "because", "k")


def run_of(queries=30, documents=8, judges=3, seed=0):
    """Grades by judges who each err a little: the judgments of each pool."""
    rng, pools = Random(seed), []
    for q in range(queries):
        truth = [rng.gauss(1.2, 1.2) for _ in range(documents)]
        pools.append(
            [
                grade_of(f"d{d}", f"j{j}", min(max(round(x + rng.gauss(0, 0.4)), 0), 3), f"q{q}")
                for d, x in enumerate(truth)
                for j in range(judges)
            ]
        )
    return pools


def people_of(human):
    if human is None:
        return None
    names = ("query_id", "doc_id", "relevance")
    return pa.table(dict(zip(names, map(list, zip(*human, strict=True)), strict=True)))


def learn(pools, human=None, **fields):
    judges = {grade.judge for pool in pools for grade in pool}
    evidence = Evidence([*judges], people_of(human))
    return graded.learn(pools, evidence, options_of(**FITTED | fields))


def scores_of(pools, human=None, **fields):
    learned = learn(pools, human, **fields)
    return graded.fit(pools, options_of(**FITTED | fields), learned)


def test_scores_are_means_without_human_grades_and_by_the_fit_with_them():
    """The judges are measured all the same, and what is chosen is done."""
    pools = run_of()
    human = [(grade.query_id, grade.doc_id, grade.grade) for pool in pools for grade in pool[::3]]
    plain, fitted = (repr(scores_of(pools, pooling=p)) for p in ("mean", "thurstone"))
    assert len({plain, fitted, repr(scores_of(pools, human))}) == 3
    assert repr(scores_of(pools, pooling=None)) == plain
    options = {human: options_of(human=human).pooling for human in (None, "labels.txt")}
    assert options == {None: "mean", "labels.txt": "thurstone"}
    told = repr(scores_of(pools, human, pooling="mean"))
    assert told != plain  # people show how far means lie from them, and no more
    assert re.sub(r"truth_error=[\d.]+", "", told) == re.sub(r"truth_error=[\d.]+", "", plain)
    assert learn(pools, pooling=None).raters == learn(pools).raters


@pytest.mark.parametrize("pooling", ["thurstone", "mean"])
def test_scores_rank_as_the_panel_grades(pooling):
    pools = run_of()
    pools[0] = [grade_of(f"d{g}", f"j{j}", g, "q0") for g in (1, 3, 0, 2) for j in range(3)]
    pools[0] += [grade_of("d9", "j1", 3, "q0")]
    first, *_ = scores_of(pools, pooling=pooling)
    assert [(score.doc_id, score.rank) for score in first.scores] == [
        *(("d3", 1), ("d9", 2), ("d2", 3), ("d1", 4), ("d0", 5))
    ]
    whole = {score.doc_id: score for score in first.scores}
    assert (whole["d3"].comparisons, whole["d9"].comparisons) == (3, 1)
    assert [(whole[f"d{g}"].grade, whole[f"d{g}"].median) for g in range(4)] == [
        (grade, grade) for grade in range(4)
    ]
    assert {type(value) for s in first.scores for value in (s.grade, s.rank)} == {int}
    assert whole["d9"].std_error > whole["d3"].std_error > 0
    if pooling == "mean":
        assert [score.score for score in first.scores] == [3, 3, 2, 1, 0]
    else:
        assert 2 < whole["d9"].score < whole["d3"].score < 3


def test_a_fit_is_the_same_alone_and_among_others_and_learning_in_any_order():
    pools = run_of()
    learned, other = learn(pools), learn([pool[::-1] for pool in pools[::-1]])
    assert learned.raters == other.raters
    together = graded.fit(pools, OPTIONS, learned)
    assert [graded.fit([pool], OPTIONS, learned)[0] for pool in pools] == together
    assert graded.fit(pools[::-1], OPTIONS, learned)[::-1] == together
    packed = pickle.dumps(learned)  # it travels to every actor
    assert len(packed) < 5000
    assert graded.fit(pools, OPTIONS, pickle.loads(packed)) == together


def test_without_a_grade_or_before_judges_are_measured_there_is_no_score():
    pools = run_of()
    assert {(fit.scores, fit.reason) for fit in graded.fit(pools, OPTIONS)} == {((), None)}
    fits = graded.fit([pools[0], [], pools[1][:3]], OPTIONS, learn(pools))
    assert [len(fit.scores) for fit in fits] == [8, 0, 1]
    no_grades = Unscored.because(UnscoredReason.NO_GRADES)
    assert [fit.reason for fit in fits] == [None, no_grades, None]
    nothing = learn([[]])
    assert nothing.raters == ()
    assert graded.fit([[]], OPTIONS, nothing)[0].reason == no_grades


@pytest.mark.parametrize("judges", [1, 2, 3])
def test_judges_too_few_or_too_random_to_tell_who_errs_give_their_mean(judges):
    pools = run_of(judges=judges)
    if judges == 3:
        rng = Random(3)
        pools = [[replace(grade, grade=rng.randrange(4)) for grade in pool] for pool in pools]
    learned = learn(pools)
    assert all(math.isnan(r.spread) and math.isnan(r.weight) for r in learned.raters)
    assert "fewer than three judges that agree" in learned.notes[0]
    assert repr(scores_of(pools)) == repr(scores_of(pools, pooling="mean"))  # NaN and all
