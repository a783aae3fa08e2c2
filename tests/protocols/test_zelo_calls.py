"""zelo with so many calls a document: judges grade first, and battles take the rest."""

import math
from collections import Counter
from functools import partial

import pytest

from tests.helpers import builders
from tests.helpers.builders import (
    explained,
    judge_of,
    play,
    pool_of,
    rows_of,
    truly,
    write_as_run,
)
from zelo_ray.commands import load as load_command
from zelo_ray.errors import OptionError
from zelo_ray.protocols import Evidence, zelo

FIVE = tuple(judge_of(f"openai:{name}") for name in ("one", "two", "three", "four", "five"))
PANEL = FIVE[:3]
WORTHS = [(7 * place) % 25 / 8 for place in range(25)]
POOL = pool_of(WORTHS)
CASES = [(calls, judges) for calls in range(2, 9) for judges in range(1, 6)]

options_of = partial(builders.options_of, calls_per_document=4)


def asked(pool=POOL, panel=PANEL, say=truly, shelf=None, **fields):
    """How it ends, and all that was asked."""
    step, rounds = play(zelo, options_of(**fields), pool, panel, say, shelf)
    return step, [request for each in rounds for request in each]


def scored(steps, panel=PANEL, human=None, **fields):
    options, pools = options_of(**fields), [step.judgments for step in steps]
    evidence = Evidence([judge.name for judge in panel], human)
    learned = zelo.learn(pools, evidence, options)
    return zelo.fit(pools, options, learned), learned


def silent(*names):
    """A judge that tells the truth, but for those that refuse."""
    return lambda request: ("", "refused") if request.judge.model in names else truly(request)


# What is asked


@pytest.mark.parametrize(("calls", "judges"), CASES)
def test_each_document_is_graded_by_different_judges_and_battles_take_the_rest(calls, judges):
    _, requests = asked(panel=FIVE[:judges], calls_per_document=calls)
    grades = Counter((r.documents[0].id, r.judge.name) for r in requests if len(r.documents) == 1)
    battles = [frozenset(d.id for d in r.documents) for r in requests if len(r.documents) == 2]
    each = min(judges, calls - 1)
    assert set(grades.values()) == {1}
    assert Counter(doc_id for doc_id, _ in grades) == dict.fromkeys(
        (d.id for d in POOL.documents), each
    )
    assert len(battles) == len({*battles}) == (calls - each) * 25
    by_judge = Counter(request.judge.name for request in requests)
    assert max(by_judge.values()) < 1.6 * min(by_judge.values())


@pytest.mark.parametrize(("calls", "judges"), CASES)
def test_no_more_is_asked_than_counted_and_than_the_calls_whoever_answers(calls, judges):
    for documents in (0, 1, 2, 3, 13):
        pool, panel = pool_of([1] * documents), FIVE[:judges]
        most = zelo.count(pool, panel, options_of(calls_per_document=calls))
        for name in (None, *(judge.model for judge in panel)):
            _, requests = asked(pool, panel, silent(name), calls_per_document=calls)
            assert Counter(request.judge.name for request in requests) <= Counter(most)
        assert sum(most.values()) <= calls * documents


def test_what_goes_together():
    given = {"inputs": ["in.jsonl"], "out": "out", "judges": ["offline"]}
    assert load_command("annotate", {**given, "calls_per_document": 4}).protocol == "zelo"
    for more in ({"cycles": 3}, {"repeats": 2}, {"votes": "one"}):
        with pytest.raises(OptionError, match=f"either {next(iter(more))} or calls_per_document"):
            load_command("annotate", {**given, "calls_per_document": 4, **more})
    with pytest.raises(OptionError, match="calls"):
        load_command("annotate", {**given, "calls_per_document": 1})
    with pytest.raises(OptionError, match="give calls_per_document"):
        load_command("annotate", {**given, "anchors": "law"})


# As files


def run(out, pools, say=truly, **fields):
    """Both passes, as a job makes them."""
    return write_as_run(pools, PANEL, options_of(out=str(out), **fields), say)


def test_a_run_has_votes_grades_and_absolute_scores(tmp_path):
    summary = run(tmp_path, [pool_of(WORTHS, f"q{number}") for number in range(3)])
    assert (summary.scored, summary.ungraded, summary.failures) == (75, 0, 0)
    assert [len(rows_of(tmp_path, name)) for name in ("votes", "grades")] == [75, 225]
    assert {"absolute_score", "absolute_error"} <= {*rows_of(tmp_path, "scores")[0]}
    told = explained(tmp_path, "q1", "d1")
    assert "; absolute score 0." in " ".join(told.split())
    assert all(f"by {judge.name}" in told for judge in PANEL)


def ungraded(request):
    return ("", "refused") if len(request.documents) == 1 else truly(request)


def test_a_run_whose_grades_all_fail_is_scored_by_battles(tmp_path):
    (tmp_path / "calls").mkdir()
    summary = run(tmp_path / "calls", [POOL], ungraded, calls_per_document=2)
    assert (summary.scored, summary.ungraded) == (25, 1)
    scores = rows_of(tmp_path / "calls", "scores")
    assert all(math.isnan(row["absolute_score"]) for row in scores)
    told = explained(tmp_path / "calls", "q1", "d0")
    assert "absolute score unknown" in " ".join(told.split())


def test_human_grades_tell_how_far_scores_lie_from_people(tmp_path):
    pools = [pool_of(WORTHS, f"q{number}") for number in range(3)]
    human = tmp_path / "human.txt"
    rows = [(p.query_id, d.id, place % 4) for p in pools for place, d in enumerate(p.documents)]
    human.write_text("".join(f"{query} 0 {doc} {grade}\n" for query, doc, grade in rows))
    for name in ("plain", "taught"):
        (tmp_path / name).mkdir()
    plain = run(tmp_path / "plain", pools)
    taught = run(tmp_path / "taught", pools, human=str(human))
    assert taught.is_truth_error_learned
    assert taught.truth_error != plain.truth_error
    scores = [rows_of(tmp_path / name, "scores") for name in ("plain", "taught")]
    assert [row["score"] for row in scores[0]] == [row["score"] for row in scores[1]]
