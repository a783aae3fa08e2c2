"""Candidates, halves, the choice and its one test, and what is worth reading."""

import hashlib
import json
import random
from dataclasses import astuple
from pathlib import Path

import numpy as np
import pytest
import yaml
from statsmodels.stats.power import NormalIndPower

from tests.builders import Shelf, sealed, write_lines
from zelo_ray.commands import load as load_command
from zelo_ray.commands.compare_protocols.labelled_items import LabelledItems
from zelo_ray.commands.compare_protocols.people import Item, People
from zelo_ray.commands.tune import misjudged
from zelo_ray.commands.tune.candidates import (
    AS_IT_IS,
    Candidate,
    make_candidates,
    plan_candidate,
    refuse_strangers,
)
from zelo_ray.commands.tune.choice import choose, count_needed, credit_pairs, measure_gain
from zelo_ray.commands.tune.halves import FIRST, SECOND, half_of, split_items
from zelo_ray.commands.tune.job import announce
from zelo_ray.commands.tune.outcome import chosen_options
from zelo_ray.commands.tune.runs import CandidateRuns
from zelo_ray.errors import InputError, OptionError, PanelError
from zelo_ray.evaluation.coefficients import COEFFICIENTS, RatingMatrix
from zelo_ray.evaluation.votes import A_BETTER, B_BETTER, TIE, WITH_TIES, compare_raters
from zelo_ray.files.tables import table_of, write_tables
from zelo_ray.protocols import advance, load_protocol
from zelo_ray.providers import build_panel
from zelo_ray.records import Document, Pool, Vote
from zelo_ray.reports.progress.events import SilentWatch

JUDGE, OTHER = "simulated:judge", "simulated:other"
A, B = A_BETTER, B_BETTER


def tune(**fields):
    given = {"inputs": ["in.jsonl"], "out": "out", "human": "h.jsonl", "judges": [JUDGE], **fields}
    return load_command("tune", given)


def planned(options):
    """The candidates of some options, and the plan of each."""
    candidates, _ = make_candidates(options)
    return candidates, [plan_candidate(options, each, ("p",), "o") for each in candidates]


def items_of(queries, pairs):
    return [Item(f"q{q:02}", f"a{n}", f"b{n}", A) for q in range(queries) for n in range(pairs)]


def gain_of(items, new, as_it_is, *, tested=True, measure="concordance"):
    words = {"new": new, AS_IT_IS: as_it_is}
    how = {"measure": measure, "tested": tested}
    return measure_gain(items, words, "new", AS_IT_IS, SECOND, **how)


# The choice


def test_a_tie_counts_half_or_nothing():
    items = [Item("q", "a", "b", word) for word in (A, A, A, TIE, A)]
    verdicts = [A, TIE, B, A, -1]
    for measure, expected in (
        ("concordance", [1, 0.5, 0, 0.5, np.nan]),
        ("agreement", [1, 0, 0, 0, np.nan]),
    ):
        np.testing.assert_array_equal(credit_pairs(items, verdicts, measure), expected)


def test_the_first_of_equals_is_chosen_and_none_that_judged_little():
    items, half, few = items_of(1, 10), [A] * 5 + [B] * 5, [A] * 8 + [-1] * 2
    for as_it_is, other, better in (
        (half, half, False),
        (half, few, False),
        (half, [*few[:8], A, -1], True),
        ([*few[:6], B, -1, -1, -1], few, True),  # the other judged even less
    ):
        assert choose(items, {AS_IT_IS: as_it_is, "x": other}) == ("x" if better else AS_IT_IS)


def test_guesses_in_place_of_ties_win_by_agreement_alone():
    verdicts = {AS_IT_IS: [A, A, TIE, TIE] * 4, "guesses": [A, A, A, B] * 4}
    assert choose(items_of(4, 4), verdicts) == AS_IT_IS
    assert choose(items_of(4, 4), verdicts, "agreement") == "guesses"


def test_a_gain_by_hand():
    """On each of six queries one more pair of two is right: p is 2 of 64 signs."""
    items, right, half = items_of(6, 2), [A] * 12, [A, B] * 6
    gain = gain_of(items, right, half)
    assert (gain.value, gain.as_it_is, gain.difference) == (1.0, 0.5, 0.5)
    assert (gain.low, gain.high, gain.p) == (0.5, 0.5, 2 / 64)
    assert (gain.items, gain.queries, gain.better, gain.worse) == (12, 6, 6, 0)
    turned, untested = gain_of(items, half, right), gain_of(items, right, half, tested=False)
    found = [(each.is_better, each.is_worse) for each in (gain, turned, untested)]
    assert found == [(True, False), (False, True), (False, False)]
    # What one did not judge counts for neither.
    part = gain_of(items, [A, -1] * 6, [B, A] * 6)
    assert (part.items, part.value, part.as_it_is) == (6, 1.0, 0.0)
    nothing = gain_of(items, [-1] * 12, [A] * 12)
    assert (nothing.items, nothing.is_better) == (0, False)


def test_the_gain_is_the_difference_of_compare_protocols():
    rng = np.random.default_rng(3)
    items = [Item(f"q{n % 12:02}", f"a{n}", f"b{n}", int(rng.integers(3))) for n in range(150)]
    new, as_it_is = (rng.integers(-1, 3, 150).tolist() for _ in range(2))
    gain = gain_of(items, new, as_it_is, tested=False, measure="agreement")
    grades = np.array([[item.verdict for item in items], new, as_it_is], np.int16)
    query = np.array([int(item.query_id[1:]) for item in items])
    ratings = RatingMatrix(("human", "new", AS_IT_IS), grades, query, 3)
    only = {"agreement": COEFFICIENTS["agreement"]}
    rows = compare_raters(ratings, ("new", AS_IT_IS), only)
    [same] = [row for row in rows if row.scale == WITH_TIES]
    ours = (gain.value, gain.as_it_is, gain.difference, gain.low, gain.high)
    theirs = (same.value_a, same.value_b, same.difference, same.low, same.high)
    assert ours == pytest.approx(theirs)
    assert (gain.items, gain.queries) == (same.items, same.queries)


def test_the_queries_needed_by_hand_and_by_statsmodels():
    apart, pairs = np.array([1.0, 0, 1, 0]), np.full(4, 2.0)
    assert count_needed(apart, pairs) == 11  # (2.8016 x .28868 / .25) squared is 10.47
    apart = np.random.default_rng(0).normal(0.1, 1, 40)
    effect = apart.mean() / np.std(apart, ddof=1)
    size = NormalIndPower().solve_power(effect, alpha=0.05, power=0.8, ratio=0)
    assert count_needed(apart, np.ones(40)) == pytest.approx(size, abs=1.01)
    assert count_needed(np.array([1.0, -1.0]), np.ones(2)) == 0
    assert count_needed(np.ones(1), np.ones(1)) == 0


def test_equals_seldom_win_where_they_are_measured_on_other_queries():
    """And often where they are measured on those on which they were chosen."""
    rng, items, wins = np.random.default_rng(5), items_of(30, 8), [0, 0]
    for _ in range(100):
        hard = rng.normal(0.8, 0.8, 60)
        chance = 1 / (1 + np.exp(-(hard + rng.normal(0, 0.4, (6, 60)))))
        right = rng.random((6, 60, 8)) < chance[..., np.newaxis]
        halves = [
            dict(zip((AS_IT_IS, *"abcde"), words.reshape(6, -1).tolist(), strict=True))
            for words in np.split(np.where(right, A, B), 2, axis=1)
        ]
        chosen = choose(items, halves[0])
        for half, verdicts in enumerate(halves):
            wins[half] += gain_of(items, verdicts[chosen], verdicts[AS_IT_IS]).is_better
    assert wins[0] >= 8
    assert wins[1] <= 6


# Halves


def labelled(folder, texts):
    """What people labelled: one pair of each of these queries."""
    documents = [{"id": d, "content": d} for d in "ab"]
    lines = [
        {"query": {"id": f"q{n}", "query": text}, "documents": documents}
        for n, text in enumerate(texts)
    ]
    place = str(write_lines(folder / "pools.jsonl", lines))
    items = [Item(f"q{n}", "a", "b", A) for n in range(len(texts))]
    return LabelledItems(People({}, {}), items, place, len(items), len(items), 0, "")


def test_halves_follow_from_the_texts_of_queries_alone(tmp_path):
    texts = [f"question {n}" for n in range(60)]
    firsts = []
    for order in (texts, random.Random(1).sample(texts, 60)):
        halves = split_items(labelled(tmp_path, order), str(tmp_path))
        firsts.append({order[int(item.query_id[1:])] for item in halves[FIRST].items})
        assert sum(half.queries for half in halves.values()) == 60
        lines = map(json.loads, Path(halves[SECOND].pools).read_text().splitlines())
        assert {line["query"]["query"] for line in lines} == {*texts} - firsts[-1]
    assert firsts[0] == firsts[1] == {text for text in texts if half_of(text) == FIRST}
    assert 15 <= len(firsts[0]) <= 45
    digest = hashlib.sha256(b"how do i reset it").digest()
    assert half_of("how  Do I\nreset it") == (FIRST if digest[0] < 128 else SECOND)


def test_few_queries_are_refused_or_noted(tmp_path):
    """Fewer than two, or all in one half; with fewer than ten nothing can be shown."""
    same = [text for text in map(str, range(20)) if half_of(text) == FIRST]
    for texts in (["one"], same):
        with pytest.raises(InputError):
            split_items(labelled(tmp_path, texts), str(tmp_path))
    by_half = {half_of(text): text for text in map(str, range(100, 120))}
    for queries, notes in ((9, 1), (10, 0)):
        texts = [*by_half.values(), *map(str, range(queries - 2))]
        field, watch = labelled(tmp_path, texts), SilentWatch()
        runs = CandidateRuns(tune(), field, split_items(field, str(tmp_path)), watch)
        runs.candidates[AS_IT_IS] = Candidate(AS_IT_IS, "zelo", {})
        assert len(announce(runs, watch)) == notes


# Candidates


def test_each_value_is_a_candidate_that_differs_in_one_thing(tmp_path):
    (tmp_path / "strict.txt").write_text("Be strict with this.\n")
    options = tune(
        protocol="graded",
        try_instructions=[str(tmp_path / "strict.txt"), "Be mild to all of them."],
        try_judges=[JUDGE, OTHER],
        try_protocols=["zelo"],
        candidates={
            "both": {"judges": [JUDGE, OTHER], "pooling": "thurstone"},
            "twin": {"instructions": tmp_path / "strict.txt"},
        },
    )
    candidates, plans = planned(options)
    assert [(each.name, each.differs(options)) for each in candidates] == [
        ("as it is", "nothing"),
        ("instructions strict", "instructions Be strict with this."),
        ("instructions 2", "instructions Be mild to all of them."),
        (f"judge {OTHER}", f"judges {OTHER}"),
        ("protocol zelo", "protocol zelo"),
        ("both", f"judges {JUDGE} {OTHER}; pooling thurstone"),
    ]
    left_out = make_candidates(options)[1]
    assert [note.partition(" is ")[0] for note in left_out] == [f"judge {JUDGE}", "twin"]
    assert [plan.protocol for plan in plans] == ["graded"] * 4 + ["zelo", "graded"]
    told = [plan.instructions for plan in plans[:3]]
    assert told == [None, "Be strict with this.", "Be mild to all of them."]
    assert plans[5].pooling == "thurstone"
    assert {plan.ledger for plan in plans} == {"out"}
    assert len({each.folder for each in candidates}) == 6


@pytest.mark.parametrize(
    ("fields", "named"),
    [
        ({}, "candidate"),
        ({"try_instructions": ["./gone.txt"]}, "gone.txt"),
        ({"protocol": "samre", "try_templates": ["Which?"]}, "template .* samre"),
        ({"candidates": {"as it is": {"cycles": 3}}}, "'as it is'"),
        *(
            ({"candidates": {"x": changes}}, named)
            for changes, named in (
                ({"document_limit": 3}, "document_limit"),
                ({"out": "elsewhere"}, "out"),
                ({"human": "q.txt"}, "human"),
                ({"judges": None}, "x: judges"),
                ({"judges": 3}, "x: judges"),
                ({"cycels": 3}, "cycels .*'cycles'"),
                ({"protocol": "graded", "cycles": 3}, "cycles"),
                ({"cycles": 0}, "x: .*cycles: "),
            )
        ),
    ],
)
def test_what_makes_no_candidate_is_refused(fields, named):
    options = tune(**fields)
    with pytest.raises(OptionError, match=named):
        make_candidates(options)


def test_options_by_judge_go_to_the_candidates_that_have_the_judge():
    prices = {name: {"input": 1, "output": 1} for name in (JUDGE, OTHER)}
    options = tune(try_judges=[OTHER], prices=prices)
    candidates, plans = planned(options)
    assert [[*plan.prices] for plan in plans] == [[JUDGE], [OTHER]]
    refuse_strangers(options, candidates)
    with pytest.raises(PanelError, match=OTHER):
        refuse_strangers(options, candidates[:1])
    own = {JUDGE: {"noise": 0.5}, OTHER: {"noise": 0.25}}
    changed = {"x": {"judge_options": {JUDGE: {"noise": 2.0}}}}
    options = tune(judges=[JUDGE, OTHER], judge_options=own, candidates=changed)
    assert planned(options)[1][1].judge_options == own | {JUDGE: {"noise": 2.0}}


def test_criteria_of_a_candidate_are_read_from_their_file(tmp_path):
    place = tmp_path / "criteria.txt"
    place.write_text("relevance=2: it answers\nclarity: it is clear\n")
    for criteria in (str(place), [str(place)]):
        changed = {"x": {"criteria": criteria}}
        plan = planned(tune(protocol="graded", candidates=changed))[1][1]
        assert plan.criteria == ("relevance=2: it answers", "clarity: it is clear")


def test_what_a_template_says_is_what_its_candidate_asks(tmp_path):
    (tmp_path / "curator.txt").write_text(
        "{extra}A curator asks: {{{{query}}}}\n{{{{document}}}}\nSay it so: {{{{answer_format}}}}\n"
    )
    options = tune(protocol="graded", try_templates=[str(tmp_path / "curator.txt")])
    pool, asked = Pool("q", "how do I?", (Document("d", "Hold the button.", {}),)), []
    candidates, plans = planned(options)
    assert [each.name for each in candidates] == [AS_IT_IS, "template curator"]
    for plan in plans:
        rounds = load_protocol(plan.protocol).rounds(pool, build_panel(plan.judges, {}, {}), plan)
        [request] = sealed(advance(rounds, Shelf()).missing)
        asked.append(request.user)
    assert ["A curator asks: " in text for text in asked] == [False, True]
    assert all("Hold the button." in text and "how do I?" in text for text in asked)


def test_the_chosen_options_are_a_config_file():
    words = "./looks-like-a-path.txt is what counts here"
    changed = {"x": {"instructions": f"{words}\n"}}
    text = chosen_options(
        planned(tune(protocol="graded", max_usd=3, seed=5, candidates=changed))[1][1]
    )
    loaded = load_command(
        "annotate", {**yaml.safe_load(text), "inputs": ["all.jsonl"], "out": "judged"}
    )
    assert (loaded.protocol, loaded.seed, loaded.judges) == ("graded", 5, (JUDGE,))
    assert (loaded.instructions, loaded.max_usd, loaded.ledger) == (words, None, None)


# Errors that are worth reading


def test_what_changed_sides_by_hand():
    items = [Item("q", "a", f"b{n}", A) for n in range(5)]
    found = misjudged.changed_sides(items, [A, B, TIE, A, -1], [B, A, B, A, A])
    assert [astuple(each) for each in found] == [
        ("q", "a", "b0", "A", "A", "B", "as it is"),
        ("q", "a", "b1", "A", "B", "A", "chosen"),
        ("q", "a", "b2", "A", "tie", "B", "neither"),
    ]


def test_documents_of_many_errors_come_first_two_of_a_query():
    items = [Item("q1", "a", other, A) for other in "bcd"] + [Item("q2", "x", "y", B)]
    verdicts = [[B, B, A, A], [TIE, A, -1, B]]
    expected = [("q1", "a", 3, 5), ("q1", "b", 2, 2), ("q2", "x", 1, 2), ("q2", "y", 1, 2)]
    for count, rows in ((20, expected), (1, expected[:1])):
        found = misjudged.find_misjudged(items, verdicts, count)
        assert [astuple(each) for each in found] == rows


def test_what_was_said_of_a_document_has_its_side_and_reason(tmp_path):
    votes = [
        Vote("q", "a", "b", "j", -0.5, False, "A names it.", "k1"),
        Vote("q", "c", "a", "j", -1.0, True, "C has more.", "k2"),
        Vote("q", "a", "d", "j", 0.0, False, "Both do.", "k3"),
        Vote("q", "a", "e", "j", -0.1, False, "A fourth is not shown.", "k4"),
        Vote("other", "a", "b", "j", -0.5, False, "Of another query.", "k5"),
    ]
    write_tables(str(tmp_path), {"votes": table_of(votes, Vote)})
    assert misjudged.read_statements(str(tmp_path), "zelo", {("q", "a"), ("q", "b")}) == {
        ("q", "a"): [
            ("j", "better than b: A names it."),
            ("j", "worse than c: C has more."),
            ("j", "like d: Both do."),
        ],
        ("q", "b"): [("j", "worse than a: A names it.")],
    }
    assert misjudged.read_statements(str(tmp_path / "none"), "zelo", {("q", "a")}) == {}
    items = [Item("q", "a", "b", A), Item("q", "c", "a", A)]
    for people, said in (
        (People({}, {"q": {"a": 2.0}}), "grade 2"),
        (People({"q": {("a", "b"): A}}, {}), "preferred in 1 of 2 pairs"),
    ):
        assert misjudged.describe_people(people, items, ("q", "a")) == said
