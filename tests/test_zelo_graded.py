"""Battles with a few grades: who grades what, and one scale for all queries."""

import asyncio
import json
import math
from collections import Counter
from dataclasses import replace
from functools import partial
from itertools import pairwise
from random import Random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests import builders
from tests.builders import Shelf, judge_of, pool_of, reply_to, truly
from zelo_ray.files.tables import table_of
from zelo_ray.fitting.bradley_terry import Fit
from zelo_ray.protocols import advance, zelo, zelo_graded
from zelo_ray.providers import Settings, build_panel, load_provider
from zelo_ray.reasons import UnscoredReason
from zelo_ray.records import Document, Failure, Grade, Pool, Score, Vote

options_of = partial(builders.options_of, protocol="zelo+graded")

PANEL = (judge_of("openai:one"), judge_of("anthropic:two"), judge_of("gemini:three"))


def drive(pool, panel=PANEL, say=truly, **fields):
    return builders.play(zelo_graded, options_of(**fields), pool, panel, say)


def graded_in(asked):
    return [(r.documents[0].id, r.judge.name) for r in asked[1]]


# Who grades what


def test_the_first_round_is_the_one_of_battles_alone():
    pool = pool_of(range(6))
    battles = advance(zelo.rounds(pool, PANEL, options_of()), Shelf()).missing
    _, asked = drive(pool)
    assert [r.key for r in asked[0]] == [r.key for r in battles]
    assert len(asked) == zelo_graded.PROTOCOL.max_rounds == 2


def test_what_is_graded_is_spread_over_the_ranks_from_the_first_to_the_last():
    _, asked = drive(pool_of(range(9)), grades=5)
    assert [doc_id for doc_id, _ in graded_in(asked)] == ["d8", "d6", "d4", "d2", "d0"]
    _, asked = drive(pool_of(range(9)), grades=1)
    assert [doc_id for doc_id, _ in graded_in(asked)] == ["d8"]
    _, asked = drive(pool_of(range(3)), grades=5)
    assert [doc_id for doc_id, _ in graded_in(asked)] == ["d2", "d1", "d0"]


@given(st.integers(0, 200), st.integers(1, 50))
def test_the_spread_is_even_and_repeats_no_document(documents, grades):
    places = zelo_graded._spread(documents, grades)
    assert len(places) == min(documents, grades)
    gaps = [after - before for before, after in pairwise(places)]
    assert all(gap > 0 for gap in gaps)
    assert max(gaps, default=1) - min(gaps, default=1) <= 1
    if len(places) > 1:
        assert (places[0], places[-1]) == (0, documents - 1)


def test_judges_take_turns_from_a_start_of_chance():
    starts = Counter()
    for number in range(60):
        _, asked = drive(pool_of(range(6), f"q{number}"), grades=5)
        judges = [judge for _, judge in graded_in(asked)]
        names = [judge.name for judge in PANEL]
        start = names.index(judges[0])
        assert judges == [names[(start + i) % 3] for i in range(5)]
        starts[start] += 1
    assert min(starts.values()) > 8


def test_a_pool_whose_battles_come_to_nothing_is_not_graded():
    step, asked = drive(pool_of(range(4)), say=lambda request: ("", "refused"))
    assert len(asked) == 1
    assert step.judgments == ()


def test_documents_of_equal_scores_are_no_repeats_of_one():
    def shift(*doc_ids):
        grades = [Grade("q0", doc_id, "a", 3, (), (), "", doc_id) for doc_id in doc_ids]
        learned = zelo_graded.learn(tables_of(scores, [*grades, *others]), options_of())
        return zelo_graded._shifts([grades], [Fit(scores)], learned)[0]

    scores = tuple(Score("q0", f"d{d}", 0.0, 1.0, 4, d) for d in range(4))
    others = [Grade("q1", f"d{d}", "a", d % 4, (), (), "", str(d)) for d in range(4)]
    one, four = shift("d0"), shift("d0", "d1", "d2", "d3")
    assert four[0] > one[0] + 0.1
    assert four[1] < one[1]


def tables_of(scores, grades):
    moved = [replace(score, query_id="q1", score=score.rank / 2) for score in scores]
    return {"scores": table_of([*scores, *moved], Score), "grades": table_of(grades, Grade)}


def test_grades_that_cannot_be_fitted_leave_the_battles_alone(monkeypatch):
    def fail(*args, **fields):
        raise ArithmeticError("it did not converge")

    monkeypatch.setattr(zelo_graded.calibration, "learn", fail)
    scores = tuple(Score("q0", f"d{d}", float(d), 1.0, 4, d) for d in range(4))
    grades = [Grade("q0", "d0", "a", 3, (), (), "", "")]
    learned = zelo_graded.learn(tables_of(scores, grades), options_of())
    assert learned.notes == ("no absolute scores: it did not converge",)
    shift, error = zelo_graded._shifts([grades], [Fit(scores)], learned)[0]
    assert math.isnan(shift)
    assert math.isnan(error)


def test_who_did_not_vote_has_no_turn_and_a_pool_without_scores_no_grades():
    def say(request):
        lame = request.judge.provider == "gemini" and len(request.documents) == 2
        return ("", "refused") if lame else truly(request)

    _, asked = drive(pool_of(range(6)), say=say)
    judges = Counter(judge for _, judge in graded_in(asked))
    assert sorted(judges.values()) == [2, 3]
    assert PANEL[2].name not in judges
    _, asked = drive(pool_of(range(6)), say=say, min_coverage=0.9)
    assert len(asked) == 1


def test_votes_and_grades_and_failures_come_out():
    def say(request):
        spoilt = len(request.documents) == 1 and "worth=3" in request.user
        return "no grade" if spoilt else truly(request)

    step, _ = drive(pool_of(range(4)), say=say)
    assert Counter(map(type, step.judgments)) == {Vote: 18, Grade: 3}
    (failure,) = step.failures
    assert (type(failure), failure.doc_ids, failure.status) == (Failure, ("d3",), "invalid")
    for name, record in zelo_graded.PROTOCOL.tables.items():
        assert name in ("votes", "grades")
        assert any(isinstance(one, record) for one in step.judgments)


def test_a_second_round_that_is_there_already_is_not_asked_again():
    pool, options = pool_of(range(5)), options_of()
    rounds = zelo_graded.rounds(pool, PANEL, options)
    replies = [reply_to(r.key, truly(r)) for r in next(rounds)]
    second = rounds.send(replies)
    with pytest.raises(StopIteration) as ended:
        rounds.send([reply_to(r.key, truly(r)) for r in second])
    step, _ = drive(pool)
    assert tuple(ended.value.value) == step.judgments


# One scale


def learn(judgments, options):
    scores = [score for fit in zelo_graded.fit(judgments, options) for score in fit.scores]
    grades = [one for pool in judgments for one in pool if isinstance(one, Grade)]
    tables = {
        "grades": table_of(grades, Grade),
        "scores": table_of(scores, zelo_graded.PROTOCOL.score.record),
    }
    return zelo_graded.learn(tables, options)


def test_scores_are_those_of_the_battles_and_absolute_ones_are_moved_by_query():
    options = options_of()
    poor = [pool_of([i / 9 for i in range(6)], f"poor{q}") for q in range(15)]
    rich = [pool_of([2 + i / 9 for i in range(6)], f"rich{q}") for q in range(15)]
    judgments = [drive(pool)[0].judgments for pool in (*poor, *rich)]
    battles = zelo.fit([[v for v in j if isinstance(v, Vote)] for j in judgments], options)
    before = zelo_graded.fit(judgments, options)
    learned = learn(judgments, options)
    after = zelo_graded.fit(judgments, options, learned)
    shifts = []
    for battle, early, late in zip(battles, before, after, strict=True):
        for plain, unmoved, moved in zip(battle.scores, early.scores, late.scores, strict=True):
            for name in ("query_id", "doc_id", "score", "std_error", "comparisons", "rank"):
                assert getattr(plain, name) == getattr(unmoved, name) == getattr(moved, name)
            assert math.isnan(unmoved.absolute_score)
            assert moved.absolute_error > moved.std_error
        moves = [score.absolute_score - score.score for score in late.scores]
        assert moves == pytest.approx([moves[0]] * 6)
        shifts.append(moves[0])
    assert max(shifts[:15]) < min(shifts[15:])
    assert [rater.judge for rater in learned.raters] == sorted(judge.name for judge in PANEL)
    assert learned.shares == ()


def test_a_fit_is_the_same_alone_and_among_others():
    options = options_of(cycles=2)
    pools = [pool_of([q % 4 + i / 9 for i in range(6)], f"q{q}") for q in range(20)]
    judgments = [drive(pool, cycles=2)[0].judgments for pool in pools]
    learned = learn(judgments, options)
    together = zelo_graded.fit(judgments, options, learned)
    assert [zelo_graded.fit([j], options, learned)[0] for j in judgments] == together


def test_a_query_without_grades_has_no_absolute_scores():
    options = options_of(cycles=2)
    pools = [pool_of([q % 4 + i / 9 for i in range(6)], f"q{q}") for q in range(20)]
    judgments = [list(drive(pool, cycles=2)[0].judgments) for pool in pools]
    judgments[3] = [one for one in judgments[3] if isinstance(one, Vote)]
    judgments[4] = [one for one in judgments[4] if isinstance(one, Grade)]
    learned = learn(judgments, options)
    fits = zelo_graded.fit(judgments, options, learned)
    assert all(math.isnan(score.absolute_score) for score in fits[3].scores)
    assert all(math.isnan(score.absolute_error) for score in fits[3].scores)
    assert (fits[4].scores, fits[4].reason.code) == ((), UnscoredReason.NO_VOTES)
    assert all(math.isfinite(score.absolute_score) for score in fits[5].scores)
    alone = zelo_graded.fit([judgments[3]], options, learned)
    assert math.isnan(alone[0].scores[0].absolute_score)
    assert zelo_graded.fit([], options, learned) == []


def test_nothing_is_learned_from_no_grades():
    options = options_of()
    votes = [v for v in drive(pool_of(range(4)))[0].judgments if isinstance(v, Vote)]
    learned = learn([votes], options)
    assert (learned.model, learned.raters) == (None, ())
    (fit,) = zelo_graded.fit([votes], options, learned)
    assert math.isnan(fit.scores[0].absolute_score)


def shifted(queries, documents):
    """Pools as rating studies draw them, each moved as a whole by N(0, .8): worth in logits."""
    rng = Random(1)
    kinds = ((-1.5, 0.45), (0, 0.5), (1.5, 0.5), (2.8, 0.4))
    for q in range(queries):
        shift = rng.gauss(0, 0.8)
        drawn = rng.choices(kinds, (0.72, 0.16, 0.09, 0.03), k=documents)
        worths = [shift + rng.gauss(*kind) for kind in drawn]
        yield Pool(
            f"q{q}",
            f"question {q}?",
            tuple(
                Document(f"d{i}", f"text {i} of {q}", {"worth": w}) for i, w in enumerate(worths)
            ),
        )


def test_five_grades_a_query_put_shifted_queries_on_one_scale():
    """Votes by simulated judges, grades with an error of .8 and three severities, 120 queries."""
    names = ("simulated:a", "simulated:b", "simulated:c")
    panel = build_panel(names, {name: {"truth": "worth", "shared_noise": 0.7} for name in names})
    harsh = dict(zip(names, (-0.4, 0.0, 0.4), strict=True))
    provider = load_provider("simulated").connect(Settings())

    def say(request):
        if len(request.documents) == 2:
            return asyncio.run(provider.send(request)).text
        (document,) = request.documents
        error = Random(request.key).gauss(0, 0.8) - harsh[request.judge.name]
        seen = document.metadata["worth"] + error
        grade = sum(seen > cut for cut in (-0.75, 0.75, 2.15))
        said = {"facets_covered": [], "facets_missing": [], "rationale": "", "grade": grade}
        return json.dumps(said)

    options, pools = options_of(cycles=2), list(shifted(120, 16))
    judgments = [drive(pool, panel, say, cycles=2)[0].judgments for pool in pools]
    learned = learn(judgments, options)
    rows = [
        (score.score, score.absolute_score, score.absolute_error, document.metadata["worth"])
        for pool, fit in zip(pools, zelo_graded.fit(judgments, options, learned), strict=True)
        for score in fit.scores
        for document in pool.documents
        if document.id == score.doc_id
    ]
    score, absolute, error, worth = np.array(rows).T
    plain, moved = (np.corrcoef(each, worth)[0, 1] for each in (score, absolute))
    assert plain < 0.72
    assert moved > plain + 0.08
    off = (absolute - absolute.mean()) - (worth - worth.mean())
    assert (np.abs(off) < 1.96 * error).mean() > 0.93
    severity = [rater.severity for rater in learned.raters]
    assert severity[0] < severity[2]
