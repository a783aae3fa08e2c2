"""One grade a document, two rings, and a closer look at the top."""

import asyncio
import json
from collections import Counter
from dataclasses import replace
from functools import partial
from random import Random

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests import builders
from tests.builders import Shelf, judge_of, pool_of, seen_worth, truly
from zelo_ray.commands import load as load_command
from zelo_ray.errors import OptionError
from zelo_ray.files.tables import table_of
from zelo_ray.fitting import pairs
from zelo_ray.fitting.bradley_terry import Fit
from zelo_ray.protocols import advance, lean, lean_plan, zelo
from zelo_ray.providers import Settings, build_panel, load_provider
from zelo_ray.reasons import Disabled, StopReason
from zelo_ray.records import Failure, Grade, Vote

options_of = partial(builders.options_of, protocol="lean")

PANEL = (judge_of("openai:one"), judge_of("anthropic:two"), judge_of("gemini:three"))
MANY = pool_of([(7 * place) % 25 / 8 for place in range(25)])


def drive(pool, panel=PANEL, say=truly, shelf=None, disabled=None, **fields):
    return builders.play(lean, options_of(**fields), pool, panel, say, shelf, disabled)


def tables_of(steps):
    judgments = [one for step in steps for one in step.judgments]
    return {
        name: table_of([one for one in judgments if isinstance(one, kind)], kind)
        for name, kind in (("votes", Vote), ("grades", Grade))
    }


def learned_from(steps, **fields):
    return lean.learn(tables_of(steps), options_of(**fields))


def scored(steps, **fields):
    judgments = [step.judgments for step in steps]
    return lean.fit(judgments, options_of(**fields), learned_from(steps, **fields))


# What is asked


def test_each_document_is_graded_once_and_meets_as_many_as_two_rings_give():
    _, asked = drive(MANY, audits=0)
    assert len(asked) == 2
    grades = [r for r in asked[0] if len(r.documents) == 1]
    battles = [r for r in asked[0] if len(r.documents) == 2]
    assert {r.documents[0].id for r in grades} == {d.id for d in MANY.documents}
    assert (len(grades), len(battles)) == (25, 50)
    votes = Counter(r.judge.name for r in battles)
    assert max(votes.values()) < 1.6 * min(votes.values())
    assert sum(map(len, asked)) == 4 * 25


def test_its_battles_are_those_of_zelo_so_that_one_ledger_serves_both():
    _, asked = drive(MANY, audits=0)
    options = builders.options_of(cycles=2, votes="one")
    same = advance(zelo.rounds(MANY, PANEL, options), Shelf()).missing
    assert {r.key for r in same} == {r.key for r in asked[0] if len(r.documents) == 2}


def test_an_audit_shows_a_pair_to_all_judges_in_both_orders():
    _, asked = drive(MANY, audits=0.2, rings=2, calls_per_document=20)
    shown = Counter(
        (r.judge.name, *(d.id for d in r.documents)) for r in asked[0] if len(r.documents) == 2
    )
    assert set(shown.values()) == {1}
    met = Counter(frozenset(names[1:]) for names in shown)
    assert set(met.values()) == {1, 6}
    several = [drive(replace(MANY, query_id=f"q{n}"), audits=0.2)[1][0] for n in range(20)]
    calls = np.mean([len(each) for each in several])
    assert calls <= 75 + 25 * pairs._AUDIT_CALLS + 3  # however large the share


@settings(deadline=None, max_examples=20)
@given(st.integers(0, 13), st.integers(1, 3), st.integers(1, 4), st.floats(0, 6))
def test_the_count_is_never_passed_and_the_cap_holds(documents, cycles, judges, more):
    panel = (*PANEL, judge_of("openai:four"))[:judges]
    pool = pool_of([(7 * place) % 13 / 4 for place in range(documents)])
    cap = 1 + cycles + more
    fields = {"rings": cycles, "calls_per_document": cap, "until_loss": 0.0}
    _, asked = drive(pool, panel, **fields)
    found = Counter(request.judge.name for missing in asked for request in missing)
    most = lean.count(pool, panel, options_of(**fields))
    assert all(found[name] <= most[name] for name in most)
    assert found.total() <= cap * documents


def test_later_rounds_look_at_the_top_and_ask_no_pair_again():
    _, asked = drive(MANY, audits=0, until_loss=0.0)
    worth = {d.id: seen_worth(r)[0] for r in asked[0] if len(r.documents) == 1 for d in r.documents}
    later = asked[1]
    mean = np.mean([worth[d.id] for r in later for d in r.documents])
    assert mean > np.mean(list(worth.values())) + 0.2
    before = {frozenset(d.id for d in r.documents) for r in asked[0]}
    assert not before & {frozenset(d.id for d in r.documents) for r in later}
    each = Counter(d.id for r in later for d in r.documents)
    assert max(each.values()) <= 2 * len(later) // 25 + 2


def test_a_large_pool_has_two_later_rounds_and_they_stop_where_nothing_is_to_be_gained(
    monkeypatch,
):
    large = pool_of([(37 * place) % 60 / 15 for place in range(60)])
    assert len(drive(large, audits=0, until_loss=0.0)[1]) == 2  # the first gained too little
    monkeypatch.setattr(lean_plan, "_LEAST_GAIN", -9.0)
    assert len(drive(large, audits=0, until_loss=0.0)[1]) == 3
    assert len(drive(large, audits=0, later_rounds=1, until_loss=0.0)[1]) == 2
    assert len(drive(large, audits=0, until_loss=1.0)[1]) == 1
    assert len(drive(large, audits=0, later_rounds=0)[1]) == 1


def test_the_same_is_asked_again_and_again_in_whatever_order_all_is_named():
    _, first = drive(MANY)
    turned = replace(MANY, documents=tuple(Random(1).sample(MANY.documents, 25)))
    _, second = drive(turned, PANEL[::-1])
    keys = [[{r.key for r in each} for each in asked] for asked in (first, second)]
    assert keys[0] == keys[1]


def test_a_new_document_costs_its_grade_and_its_battles():
    shelf = Shelf()
    drive(MANY, shelf=shelf, audits=0, later_rounds=0)
    before = len(shelf.replies)
    new = pool_of([*[(7 * place) % 25 / 8 for place in range(25)], 2.2])
    drive(new, shelf=shelf, audits=0, later_rounds=0)
    assert 4 <= len(shelf.replies) - before <= 6


def test_a_cap_that_the_first_round_would_pass_is_refused():
    given = {"inputs": ["in.jsonl"], "out": "out", "protocol": "lean", "rings": 3}
    with pytest.raises(OptionError, match=r"1 grade and 3 rings take 4, not 3\.5"):
        load_command("annotate", {**given, "calls_per_document": 3.5})
    _, asked = drive(MANY, calls_per_document=3, audits=1)
    assert len(asked[0]) == 75  # no calls are left for audits


# Judges that say nothing


def test_a_judge_that_is_missing_leaves_scores_that_can_be_used():
    shelf, disabled = Shelf(), {"anthropic:two": Disabled(StopReason.FATAL, "no key")}

    def say(request):
        return ("", "failed") if request.judge.name == "anthropic:two" else truly(request)

    step, asked = drive(MANY, say=say, shelf=shelf)
    assert {r.judge.name for r in asked[1]} == {"openai:one", "gemini:three"}
    (fit,) = scored([step])
    assert len(fit.scores) >= 23
    away, _ = drive(MANY, shelf=Shelf(), disabled=disabled, audits=0)
    assert any(isinstance(one, Failure) for one in away.failures)
    assert scored([away])[0].scores


def test_where_most_is_missing_no_later_round_is_asked():
    def say(request):
        return ("", "refused") if int(request.key[0], 16) < 12 else truly(request)

    _, asked = drive(MANY, say=say, audits=0)
    assert len(asked) == 1


@pytest.mark.parametrize("documents", [0, 1, 2, 3])
def test_the_smallest_pools(documents):
    step, asked = drive(pool_of(range(documents)))
    assert len(asked) == (1 if documents else 0)
    if documents:
        (fit,) = scored([step])
        assert [score.doc_id for score in fit.scores] == [f"d{i}" for i in range(documents)][::-1]


# Scores


def test_nothing_is_scored_before_judges_are_known():
    step, _ = drive(MANY)
    assert lean.fit([step.judgments], options_of()) == [Fit()]


def test_scores_follow_the_worth_and_tell_what_they_rest_on():
    pools = [replace(MANY, query_id=f"q{n}") for n in range(3)]
    steps = [drive(pool)[0] for pool in pools]
    for pool, step, fit in zip(pools, steps, scored(steps), strict=True):
        worth = {d.id: w for d, w in zip(pool.documents, worths(pool), strict=True)}
        found = [worth[score.doc_id] for score in fit.scores]
        assert np.corrcoef(found, [score.score for score in fit.scores])[0, 1] > 0.85
        votes = sum(isinstance(one, Vote) for one in step.judgments)
        assert sum(score.comparisons for score in fit.scores) == 2 * votes
        assert all(0 < score.std_error < 3 for score in fit.scores)
        assert all(score.absolute_error >= score.std_error for score in fit.scores)


def worths(pool):
    return [float(d.content.partition("worth=")[2].partition("]")[0]) for d in pool.documents]


def test_a_fit_is_the_same_alone_and_among_others():
    pools = [replace(MANY, query_id=f"q{n}") for n in range(3)]
    steps = [drive(pool)[0] for pool in pools]
    known, options = learned_from(steps), options_of()
    together = lean.fit([step.judgments for step in steps], options, known)
    assert together == [lean.fit([s.judgments], options, known)[0] for s in steps]
    shuffled = tuple(Random(0).sample(steps[1].judgments, len(steps[1].judgments)))
    assert lean.fit([shuffled], options, known)[0] == together[1]


def test_human_grades_tell_how_far_scores_lie_from_people(tmp_path):
    pools = [replace(MANY, query_id=f"q{n}") for n in range(8)]
    steps = [drive(pool)[0] for pool in pools]
    usual = scored(steps)
    people, against = ({"human": str(tmp_path / name)} for name in ("people", "against"))
    errors = {}
    for sign, fields in ((1, people), (-1, against)):
        human = [
            {"query_id": pool.query_id, "doc_id": d.id, "relevance": sign * worth}
            for pool in pools
            for d, worth in zip(pool.documents, worths(pool), strict=True)
        ]
        tables = tables_of(steps) | {"human": pa.Table.from_pylist(human)}
        known = lean.learn(tables, options_of(**fields))
        assert "human grades of 8 queries" in known.notes[-1]
        (fit, *_) = lean.fit([step.judgments for step in steps], options_of(**fields), known)
        assert [s.std_error for s in fit.scores] == [s.std_error for s in usual[0].scores]
        errors[sign] = fit.scores[0].truth_error
    assert usual[0].scores[0].std_error < usual[0].scores[0].truth_error
    assert errors[1] < usual[0].scores[0].truth_error < errors[-1]


def test_grades_of_queries_that_were_not_judged_do_not_crowd_out_those_that_were():
    pools = [replace(MANY, query_id=f"q{n}") for n in range(3)]
    steps = [drive(pool)[0] for pool in pools]
    human = [
        {"query_id": pool.query_id, "doc_id": d.id, "relevance": worth}
        for pool in pools
        for d, worth in zip(pool.documents, worths(pool), strict=True)
    ]
    others = [{"query_id": f"x{n}", "doc_id": "d", "relevance": 1.0} for n in range(5000)]
    tables = tables_of(steps) | {"human": pa.Table.from_pylist(others + human)}
    known = lean.learn(tables, options_of(human="people"))
    assert "human grades of 3 queries" in known.notes[-1]


def test_a_budget_that_ends_before_the_later_rounds_leaves_scores_however_many_were_to_come():
    shelf, options = Shelf(), options_of(calls_per_document=12, until_loss=0.0)
    for request in advance(lean.rounds(MANY, PANEL, options), shelf).missing:
        shelf.put(request, truly(request))
    over = Disabled(StopReason.BUDGET, "the budget is used up")
    gone = {judge.name: over for judge in PANEL}
    step = advance(lean.rounds(MANY, PANEL, options), shelf, gone)
    assert not step.failures
    assert len(scored([step])[0].scores) == 25


# Judges of an earlier run


def test_judges_are_taken_from_an_earlier_run(tmp_path):
    steps = [drive(replace(MANY, query_id=f"q{n}"))[0] for n in range(3)]
    known = learned_from(steps)
    (tmp_path / "judges.json").write_text(json.dumps(known.kept))
    given = {"inputs": ["in.jsonl"], "out": "out", "protocol": "lean"}
    options = load_command("annotate", {**given, "judges_from": str(tmp_path)})
    again = lean.learn(tables_of(steps[:1]), options)
    assert again.model == known.model
    recorded = type(options).model_validate(options.model_dump(mode="json"))
    assert recorded == options  # in run.json, without the directory
    odd = json.dumps(known.kept | {"own_sd": "much"})
    few = json.dumps(known.kept | {"habits": known.kept["habits"][:1]})
    texts = (("gone", None), ("bad", "{}"), ("worse", "no"), ("list", "[]"), ("odd", odd))
    for name, text in (*texts, ("few", few)):
        (tmp_path / name).mkdir()
        if text is not None:
            (tmp_path / name / "judges.json").write_text(text)
        with pytest.raises(OptionError, match="judges"):
            load_command("annotate", {**given, "judges_from": str(tmp_path / name)})


def test_judges_who_answered_in_another_form_are_refused(tmp_path):
    steps = [drive(replace(MANY, query_id=f"q{n}"))[0] for n in range(3)]
    given = {"inputs": ["in.jsonl"], "out": "out", "protocol": "lean"}
    for form, other in (("reasoned", "token"), ("token", "reasoned")):
        options = load_command("annotate", {**given, "answer": form})
        kept = lean.learn(tables_of(steps), options).kept
        (tmp_path / "judges.json").write_text(json.dumps(kept))
        told = {**given, "judges_from": str(tmp_path)}
        assert load_command("annotate", {**told, "answer": form}).answer == form
        with pytest.raises(OptionError, match=f"measured with --answer {form}.*{other}"):
            load_command("annotate", {**told, "answer": other})


# Against zelo, on judges that err


def simulated(protocol, pools, panel, options):
    provider = load_provider("simulated").connect(Settings())

    async def judged(pool):
        shelf = Shelf()
        while (step := advance(protocol.rounds(pool, panel, options), shelf)).missing:
            for request in step.missing:
                answer = await provider.send(request)
                shelf.put(request, answer.text, answer.status)
        return step

    async def run():
        return [await judged(pool) for pool in pools]

    return asyncio.run(run())


def test_four_calls_a_document_order_nearly_as_well_as_twelve():
    names = [f"simulated:{letter}" for letter in "abc"]
    panel = build_panel(names, {name: {"noise": 0.4} for name in names}, {})
    pools = builders.graded_pools(12, documents=20)
    right = {}
    for protocol, options in ((zelo, builders.options_of()), (lean, options_of())):
        steps = simulated(protocol, pools, panel, options)
        judgments = [step.judgments for step in steps]
        fits = scored(steps) if protocol is lean else zelo.fit(judgments, options)
        right[protocol] = np.mean(list(map(in_order, pools, fits)))
    assert right[zelo] > 0.9
    assert right[lean] > right[zelo] - 0.06


def in_order(pool, fit):
    truth = {d.id: d.metadata["grade"] for d in pool.documents}
    ranks = [truth[score.doc_id] for score in fit.scores]
    ordered = [
        (ranks[i] > ranks[j]) for i in range(20) for j in range(i + 1, 20) if ranks[i] != ranks[j]
    ]
    return np.mean(ordered)
