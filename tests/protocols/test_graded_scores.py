"""What grades come to: medians, the model of the judges, human grades, shares."""

import math
import pickle
import re
from collections import Counter
from dataclasses import replace
from functools import partial
from random import Random

import pyarrow as pa
import pytest

from tests import builders
from zelo_ray.files.tables import table_of
from zelo_ray.protocols import graded, recorded_options
from zelo_ray.reasons import Unscored, UnscoredReason
from zelo_ray.records import Grade

options_of = partial(builders.options_of, protocol="graded")

MODEL = {"pooling": "thurstone"}
OPTIONS = options_of(**MODEL)


def grade_of(doc_id, judge, grade, query_id="q1"):
    return Grade(query_id, doc_id, judge, grade, (), (), "because", "k")


def run_of(queries=30, documents=8, judges=3, seed=0):
    """Grades by judges who each err a little: the judgments of each pool."""
    rng = Random(seed)
    pools = []
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


def learn(pools, human=None, **fields):
    tables = {"grades": table_of([grade for pool in pools for grade in pool], Grade)}
    if human is not None:
        columns = zip(*human, strict=True)
        names = ("query_id", "doc_id", "relevance")
        tables["human"] = pa.table(dict(zip(names, map(list, columns), strict=True)))
    return graded.learn(tables, options_of(**MODEL | fields))


def scores_of(pools, human=None, **fields):
    learned = learn(pools, human, **fields)
    return graded.fit(pools, options_of(**MODEL | fields), learned)


def test_scores_are_means_without_human_grades_and_by_the_model_with_them():
    """The judges are measured all the same, and what is chosen is done."""
    pools = run_of()
    human = [(grade.query_id, grade.doc_id, grade.grade) for pool in pools for grade in pool[::3]]
    plain, model = (repr(scores_of(pools, pooling=p)) for p in ("mean", "thurstone"))
    anchored = repr(scores_of(pools, human, pooling="thurstone"))
    assert len({plain, model, anchored}) == 3
    assert repr(scores_of(pools, pooling=None)) == plain
    options = {human: options_of(human=human).pooling for human in (None, "labels.txt")}
    assert options == {None: "mean", "labels.txt": "thurstone"}
    told = repr(scores_of(pools, human, pooling="mean"))
    assert told != plain  # people show how far means lie from them, and no more
    assert re.sub(r"truth_error=[\d.]+", "", told) == re.sub(r"truth_error=[\d.]+", "", plain)
    assert learn(pools, pooling=None).raters == learn(pools).raters
    assert learn(pools, pooling=None).notes == ()


@pytest.mark.parametrize(
    ("recorded", "median"),
    [
        ({"pooling": None, "human": None}, True),
        ({"pooling": None, "human": "labels.txt"}, False),
        ({"pooling": "thurstone", "human": None}, False),
        ({"pooling": "median", "human": "labels.txt"}, True),
    ],
)
def test_a_recorded_run_is_explained_by_what_it_did(recorded, median):
    record = {"protocol": "graded", "inputs": ["a.jsonl"], "out": "o"} | recorded
    told = graded.PROTOCOL.score.explain(record)  # None: of a run by 0.1
    assert ("the median of the judges" in told) == median
    assert ("given what the judges said" in told) != median
    options = recorded_options({"options": record | {"judges": ["offline"]}})
    assert (options.pooling, options.human) == (recorded["pooling"], recorded["human"])


def test_before_the_judges_are_measured_there_are_no_scores():
    assert {(fit.scores, fit.reason) for fit in graded.fit(run_of(3), OPTIONS)} == {((), None)}


@pytest.mark.parametrize("pooling", ["thurstone", "mean", "median", "majority"])
def test_scores_rank_as_the_panel_grades(pooling):
    pools = run_of()
    pools[0] = [grade_of(f"d{g}", f"j{j}", g, "q0") for g in (1, 3, 0, 2) for j in range(3)]
    pools[0] += [grade_of("d9", "j1", 3, "q0")]
    first, *_ = scores_of(pools, pooling=pooling)
    assert [score.rank for score in first.scores] == [1, 2, 3, 4, 5]
    assert [score.doc_id for score in first.scores] == ["d3", "d9", "d2", "d1", "d0"]
    whole = {score.doc_id: score for score in first.scores}
    assert (whole["d3"].comparisons, whole["d9"].comparisons) == (3, 1)
    assert [whole[f"d{g}"].grade for g in range(4)] == [0, 1, 2, 3]
    assert [whole[f"d{g}"].median for g in range(4)] == [0, 1, 2, 3]
    assert {type(value) for s in first.scores for value in (s.grade, s.majority, s.rank)} == {int}
    if pooling == "thurstone":
        assert whole["d9"].std_error > whole["d3"].std_error > 0
        assert 2 < whole["d9"].score < whole["d3"].score < 3
    else:
        assert math.isnan(whole["d3"].std_error) == (pooling != "mean")
        if pooling == "mean":
            assert whole["d9"].std_error > whole["d3"].std_error > 0
        assert [score.score for score in first.scores] == [3, 3, 2, 1, 0]


@pytest.mark.parametrize(
    ("pooling", "score", "grade"),
    [("mean", 1.75, 2), ("median", 1.5, 2), ("majority", 1, 1), ("thurstone", None, None)],
)
def test_a_split_panel_by_each_pooling(pooling, score, grade):
    pools = run_of(judges=4)
    pools[0] = [grade_of("d0", f"j{j}", g, "q0") for j, g in enumerate((1, 1, 2, 3))]
    (found,) = scores_of(pools, pooling=pooling)[0].scores
    assert (found.median, found.majority, found.disagreement) == (1.5, 1, pytest.approx(7 / 6))
    assert found.score == score if score else 1 < found.score < 2.5
    assert found.grade == (grade if score else math.floor(found.score + 0.5))


@pytest.mark.parametrize(
    ("said", "ambiguous"), [((0, 2, 3), True), ((0, 0, 3), True), ((1, 2, 3), False), ((3,), False)]
)
def test_a_document_on_which_the_judges_split_widely_is_ambiguous(said, ambiguous):
    pools = run_of()
    pools[0] = [grade_of("d0", f"j{j}", g, "q0") for j, g in enumerate(said)]
    (score,) = scores_of(pools)[0].scores
    assert score.ambiguous is ambiguous
    assert scores_of(pools, ambiguous=0.1)[0].scores[0].ambiguous is (len(said) > 1)


def test_a_fit_is_the_same_alone_and_among_others():
    pools = run_of()
    learned = learn(pools)
    together = graded.fit(pools, OPTIONS, learned)
    assert [graded.fit([pool], OPTIONS, learned)[0] for pool in pools] == together
    assert graded.fit(pools[::-1], OPTIONS, learned)[::-1] == together


def test_what_is_learned_is_the_same_in_any_order_and_travels():
    pools = run_of()
    learned, other = learn(pools), learn([pool[::-1] for pool in pools[::-1]])
    assert learned.raters == other.raters
    assert repr(learned.shares) == repr(other.shares)
    assert len(pickle.dumps(learned)) < 5000
    back = pickle.loads(pickle.dumps(learned))
    assert graded.fit(pools, OPTIONS, back) == graded.fit(pools, OPTIONS, learned)


def test_without_a_grade_there_is_no_score():
    pools = run_of()
    fits = graded.fit([pools[0], [], pools[1][:3]], OPTIONS, learn(pools))
    assert [len(fit.scores) for fit in fits] == [8, 0, 1]
    no_grades = Unscored.because(UnscoredReason.NO_GRADES)
    assert [fit.reason for fit in fits] == [None, no_grades, None]
    nothing = learn([[]])
    assert (nothing.raters, nothing.shares) == ((), ())
    assert graded.fit([[]], OPTIONS, nothing)[0].reason == no_grades
    assert graded.fit([[], []], OPTIONS, learn(pools))[1].reason == no_grades


def test_a_severe_judge_is_found_out_and_made_up_for():
    rng = Random(5)

    def grades(query_id):
        for d in range(6):
            truth = rng.gauss(1.5, 1)
            for judge, severity in (("mild", 0.0), ("harsh", 1.0), ("between", 0.5)):
                seen = round(truth + rng.gauss(0, 0.4) - severity)
                yield grade_of(f"d{d}", judge, min(max(seen, 0), 3), query_id)

    pools = [list(grades(f"q{q}")) for q in range(200)]
    learned = learn(pools)
    severity = {rater.judge: rater.severity for rater in learned.raters}
    assert severity["harsh"] - severity["mild"] == pytest.approx(1.0, abs=0.2)
    alone = [[grade_of("d0", judge, 2)] for judge in ("mild", "harsh")]
    mild, harsh = (fit.scores[0] for fit in graded.fit(alone, OPTIONS, learned))
    assert harsh.score > mild.score + 0.3


@pytest.mark.parametrize("judges", [1, 2])
def test_too_few_judges_to_tell_who_errs_give_their_mean(judges):
    pools = run_of(judges=judges)
    learned = learn(pools)
    assert all(math.isnan(r.spread) and math.isnan(r.weight) for r in learned.raters)
    assert "fewer than three judges that agree" in learned.notes[0]
    assert repr(scores_of(pools)) == repr(scores_of(pools, pooling="mean"))  # NaN and all
    given = Counter(grade.grade for pool in pools for grade in pool)
    if judges == 1:  # what it said is what comes out, the ends with the middle
        assert Counter(s.grade for fit in scores_of(pools) for s in fit.scores) == given


def test_judges_that_do_not_agree_are_not_made_to():
    rng = Random(3)
    pools = [
        [grade_of(f"d{d}", f"j{j}", rng.randrange(4), f"q{q}") for d in range(8) for j in range(3)]
        for q in range(40)
    ]
    assert "fewer than three judges that agree" in learn(pools).notes[0]
    assert {score.grade for fit in scores_of(pools) for score in fit.scores} == {0, 1, 2, 3}


def test_few_human_grades_set_no_scale():
    pools = run_of()
    human = [(grade.query_id, grade.doc_id, 3) for pool in pools for grade in pool[::3]]
    few, many = learn(pools, human=human[: graded.ANCHORS - 1]), learn(pools, human=human[:40])
    assert few.model.cuts.tolist() == learn(pools).model.cuts.tolist()
    assert few.shares[0].humans == 19
    assert f"an anchor takes {graded.ANCHORS}" in few.notes[0]
    assert many.raters[-1].judge == graded.HUMAN
    assert math.isnan(many.raters[-1].weight)
    assert sum(rater.weight for rater in many.raters[:-1]) == pytest.approx(1)


def test_shares_are_of_chances_since_rounded_grades_are_fewer_at_the_ends():
    pools = run_of(queries=200)
    given = Counter(grade.grade for pool in pools for grade in pool)
    shares = {share.measure: share.panel for share in learn(pools).shares}
    assert shares[">=3"] == pytest.approx(given[3] / given.total(), abs=0.01)
    assert 1 - shares[">=1"] == pytest.approx(given[0] / given.total(), abs=0.01)


def test_repeats_of_a_judge_do_not_count_as_judges():
    pools = run_of()
    learned = learn(pools)
    once = [grade_of("d0", "j0", 3), grade_of("d0", "j1", 2)]
    (plain,), (again,) = (
        fit.scores for fit in graded.fit([once, [*once, grade_of("d0", "j0", 3)]], OPTIONS, learned)
    )
    assert again == replace(plain, comparisons=3)


def test_humans_anchor_the_scale_and_correct_the_shares():
    """They grade one lower than the panel; where they look, the panel's grades come down to it."""
    pools = run_of(100)
    lower = [
        (one.query_id, one.doc_id, max(0, one.grade - 1))
        for pool in pools[:60]
        for one in pool[::3]
    ]
    plain, anchored = learn(pools), learn(pools, human=lower)
    assert [rater.judge for rater in anchored.raters] == ["j0", "j1", "j2", "human"]
    assert all(math.isnan(share.low) and share.humans == 0 for share in plain.shares)
    for share in anchored.shares:
        assert (share.humans, share.documents) == (480, 800)
        assert share.low <= share.mean <= share.high
    assert anchored.shares[0].low < anchored.shares[0].high
    means = [
        sum(s.score for fit in graded.fit(pools, OPTIONS, learned) for s in fit.scores) / 800
        for learned in (plain, anchored)
    ]
    assert means[1] < means[0] - 0.5
    truth = sum(grade for *_, grade in lower) / len(lower)
    assert anchored.shares[0].mean == pytest.approx(truth, abs=0.15)
    assert graded.fit([[grade_of("d0", "j0", 2)]], OPTIONS, anchored)[0].scores[0].comparisons == 1


def test_human_grades_of_other_documents_and_scales_are_made_to_fit():
    pools = run_of()
    query_ids = [("q1", f"d{d}") for d in range(6)]
    human = [
        (*item, relevance) for item, relevance in zip(query_ids, (-1, 4, 2, 1, 3, 0), strict=True)
    ]
    strange = [("q1", "no such", 3), ("no such", "d0", 3)]
    (grade, *_) = learn(pools, human=[*strange, *human]).shares
    assert grade.humans == 6
    within = [(*item, min(max(relevance, 0), 3)) for *item, relevance in human]
    assert repr(learn(pools, human=within).shares) == repr(  # they hold NaN
        learn(pools, human=[*human, *strange]).shares
    )
    assert learn(pools, human=strange).shares[0].humans == 0
