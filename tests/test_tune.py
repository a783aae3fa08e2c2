"""Candidates, halves, the choice and its one test, and what is worth reading."""

import hashlib
import json
import random
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pyarrow as pa
import pytest
from statsmodels.stats.power import NormalIndPower

from tests.builders import Shelf, sealed, write_lines
from zelo_ray.commands.compare_protocols.labelled_items import LabelledItems
from zelo_ray.commands.compare_protocols.people import Item, People
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
from zelo_ray.commands.tune.misjudged import (
    ChangedSide,
    Misjudged,
    changed_sides,
    describe_people,
    find_misjudged,
    read_statements,
)
from zelo_ray.commands.tune.outcome import chosen_options
from zelo_ray.commands.tune.report import TuneResults, describe_outcome
from zelo_ray.commands.tune.runs import CandidateRuns
from zelo_ray.errors import InputError, OptionError, PanelError
from zelo_ray.evaluation.agreement import COEFFICIENTS, RatingMatrix
from zelo_ray.evaluation.agreement.pairs import A_BETTER, B_BETTER, TIE, WITH_TIES, compare_raters
from zelo_ray.formats.results import write_tables
from zelo_ray.formats.tables import table_of
from zelo_ray.protocols import advance, load_annotate, load_protocol, load_tune
from zelo_ray.providers import build_panel
from zelo_ray.records import Document, Pool, Vote
from zelo_ray.reports.progress.events import SilentWatch

CHANCE = {"resamples": 1000, "seed": 0}
JUDGE = "simulated:judge"


def tune(**fields):
    given = {"inputs": ["in.jsonl"], "out": "out", "human": "h.jsonl", "judges": [JUDGE], **fields}
    return load_tune(given)


def items_of(queries, pairs, people=A_BETTER):
    return [
        Item(f"q{q:02}", f"a{n}", f"b{n}", people) for q in range(queries) for n in range(pairs)
    ]


# the choice


def test_a_tie_counts_half_or_nothing():
    items = [Item("q", "a", "b", word) for word in (A_BETTER, A_BETTER, A_BETTER, TIE, A_BETTER)]
    verdicts = [A_BETTER, TIE, B_BETTER, A_BETTER, -1]
    by_half = credit_pairs(items, verdicts).tolist()
    assert by_half[:4] == [1.0, 0.5, 0.0, 0.5]
    assert np.isnan(by_half[4])
    assert credit_pairs(items, verdicts, "agreement").tolist()[:4] == [1.0, 0.0, 0.0, 0.0]


def test_the_first_of_equals_is_chosen_and_none_that_judged_little():
    items = items_of(1, 10)
    half = [A_BETTER] * 5 + [B_BETTER] * 5
    few = [A_BETTER] * 8 + [-1] * 2
    assert choose(items, {AS_IT_IS: half, "same": half}) == AS_IT_IS
    assert choose(items, {AS_IT_IS: half, "few": few}) == AS_IT_IS
    assert choose(items, {AS_IT_IS: half, "nearly all": [*few[:8], A_BETTER, -1]}) == "nearly all"
    assert choose(items, {AS_IT_IS: few[:6] + [B_BETTER] + [-1] * 3, "few": few}) == "few"


def test_guesses_in_place_of_ties_win_by_agreement_alone():
    items = items_of(4, 4)
    ties = [A_BETTER, A_BETTER, TIE, TIE] * 4
    guesses = [A_BETTER, A_BETTER, A_BETTER, B_BETTER] * 4
    verdicts = {AS_IT_IS: ties, "guesses": guesses}
    assert choose(items, verdicts) == AS_IT_IS
    assert choose(items, verdicts, "agreement") == "guesses"


def test_a_gain_by_hand():
    """On each of six queries one more pair of two is right: p is 2 of 64 signs."""
    items = items_of(6, 2)
    verdicts = {"new": [A_BETTER] * 12, AS_IT_IS: [A_BETTER, B_BETTER] * 6}
    gain = measure_gain(items, verdicts, "new", AS_IT_IS, SECOND, tested=True, **CHANCE)
    assert (gain.value, gain.as_it_is, gain.difference) == (1.0, 0.5, 0.5)
    assert (gain.low, gain.high) == (0.5, 0.5)
    assert gain.p == 2 / 64
    assert (gain.items, gain.queries, gain.better, gain.worse) == (12, 6, 6, 0)
    assert gain.is_better
    turned = measure_gain(items, verdicts, AS_IT_IS, "new", SECOND, tested=True, **CHANCE)
    assert turned.is_worse
    assert not turned.is_better
    assert not measure_gain(items, verdicts, "new", AS_IT_IS, "", tested=False, **CHANCE).is_better


def test_what_one_did_not_judge_counts_for_neither():
    items = items_of(6, 2)
    verdicts = {"new": [A_BETTER, -1] * 6, AS_IT_IS: [B_BETTER, A_BETTER] * 6}
    gain = measure_gain(items, verdicts, "new", AS_IT_IS, SECOND, tested=True, **CHANCE)
    assert (gain.items, gain.value, gain.as_it_is) == (6, 1.0, 0.0)
    nothing = {"new": [-1] * 12, AS_IT_IS: [A_BETTER] * 12}
    gain = measure_gain(items, nothing, "new", AS_IT_IS, SECOND, tested=True, **CHANCE)
    assert gain.items == 0
    assert not gain.is_better


def test_by_agreement_the_gain_is_the_difference_that_compare_protocols_has():
    rng = np.random.default_rng(3)
    items = [Item(f"q{n % 12:02}", f"a{n}", f"b{n}", int(rng.integers(3))) for n in range(150)]
    verdicts = {name: rng.integers(-1, 3, 150).tolist() for name in ("new", AS_IT_IS)}
    gain = measure_gain(
        items, verdicts, "new", AS_IT_IS, "", measure="agreement", tested=False, **CHANCE
    )
    grades = np.array([[item.verdict for item in items], *verdicts.values()], np.int16)
    query = np.unique([item.query_id for item in items], return_inverse=True)[1]
    ratings = RatingMatrix(("human", *verdicts), grades, query.astype(np.int64), 3)
    only = {"agreement": COEFFICIENTS["agreement"]}
    [same] = [
        row for row in compare_raters(ratings, verdicts, only, **CHANCE) if row.scale == WITH_TIES
    ]
    ours = (gain.value, gain.as_it_is, gain.difference, gain.low, gain.high)
    theirs = (same.value_a, same.value_b, same.difference, same.low, same.high)
    assert ours == pytest.approx(theirs)
    assert (gain.items, gain.queries) == (same.items, same.queries)


def test_the_queries_needed_by_hand_and_by_statsmodels():
    apart, pairs = np.array([1.0, 0, 1, 0]), np.full(4, 2.0)
    assert count_needed(apart, pairs) == 11  # (2.8016 x .28868 / .25) squared is 10.47
    rng = np.random.default_rng(0)
    apart = rng.normal(0.1, 1, 40)
    sd = np.std(apart, ddof=1)
    size = NormalIndPower().solve_power(apart.mean() / sd, alpha=0.05, power=0.8, ratio=0)
    assert count_needed(apart, np.ones(40)) == pytest.approx(size, abs=1.01)
    assert count_needed(np.array([1.0, -1.0]), np.ones(2)) == 0
    assert count_needed(np.ones(1), np.ones(1)) == 0


def test_equals_seldom_win_where_they_are_measured_on_other_queries():
    """And often where they are measured on those on which they were chosen."""
    rng = np.random.default_rng(5)
    items = items_of(30, 8)
    wins = {"second": 0, "first": 0}
    for _ in range(100):
        hard = rng.normal(0.8, 0.8, 60)
        chance = 1 / (1 + np.exp(-(hard + rng.normal(0, 0.4, (6, 60)))))
        right = rng.random((6, 60, 8)) < chance[..., np.newaxis]
        names = [AS_IT_IS, *"abcde"]
        halves = {}
        for half, part in (("first", slice(0, 30)), ("second", slice(30, 60))):
            words = np.where(right[:, part], A_BETTER, B_BETTER).reshape(6, -1)
            halves[half] = dict(zip(names, words.tolist(), strict=True))
        chosen = choose(items, halves["first"])
        for half, verdicts in halves.items():
            gain = measure_gain(items, verdicts, chosen, AS_IT_IS, half, tested=True, **CHANCE)
            wins[half] += gain.is_better
    assert wins["second"] <= 6
    assert wins["first"] >= 8


# halves


def labelled(folder, texts):
    lines = [
        {
            "query": {"id": f"q{n}", "query": text},
            "documents": [{"id": d, "content": d} for d in "ab"],
        }
        for n, text in enumerate(texts)
    ]
    place = str(write_lines(folder / "pools.jsonl", lines))
    items = [Item(f"q{n}", "a", "b", A_BETTER) for n in range(len(texts))]
    return LabelledItems(People({}, {}), items, place, len(items), len(items), 0, "")


def test_halves_follow_from_the_texts_of_queries_alone(tmp_path):
    texts = [f"question {n}" for n in range(60)]
    halves = split_items(labelled(tmp_path, texts), str(tmp_path))
    first = {texts[int(item.query_id[1:])] for item in halves[FIRST].items}
    assert sum(half.queries for half in halves.values()) == 60
    assert 15 <= halves[FIRST].queries <= 45
    shuffled = random.Random(1).sample(texts, 60)
    again = split_items(labelled(tmp_path, shuffled), str(tmp_path))
    assert {shuffled[int(item.query_id[1:])] for item in again[FIRST].items} == first
    assert {half_of(text) for text in first} == {FIRST}
    lines = [json.loads(line) for line in Path(again[SECOND].pools).read_text().splitlines()]
    assert {line["query"]["query"] for line in lines} == set(texts) - first


def test_too_few_queries_are_refused(tmp_path):
    with pytest.raises(InputError, match="people labelled 1 query of the input, and it takes two"):
        split_items(labelled(tmp_path, ["one"]), str(tmp_path))
    same = [text for text in map(str, range(20)) if half_of(text) == FIRST]
    with pytest.raises(InputError, match="are in the same half"):
        split_items(labelled(tmp_path, same), str(tmp_path))


@pytest.mark.parametrize(("queries", "warns"), [(9, True), (10, False)])
def test_with_few_queries_it_is_said_that_nothing_can_be_shown(tmp_path, queries, warns):
    by_half = {half_of(text): text for text in map(str, range(100, 120))}
    texts = [*by_half.values(), *map(str, range(queries - 2))]
    field, watch = labelled(tmp_path, texts), SilentWatch()
    runs = CandidateRuns(tune(), field, split_items(field, str(tmp_path)), watch)
    runs.candidates[AS_IT_IS] = Candidate(AS_IT_IS, "zelo", {})
    notes = announce(runs, watch)
    assert [("nothing can be shown" in note) for note in notes] == [True] * warns


# candidates


def test_each_value_is_a_candidate_that_differs_in_one_thing(tmp_path):
    (tmp_path / "strict.txt").write_text("Be strict with this.\n")
    options = tune(
        protocol="graded",
        try_instructions=[str(tmp_path / "strict.txt"), "Be mild to all of them."],
        try_judges=["simulated:other"],
        try_protocols=["zelo"],
        candidates={"both": {"judges": [JUDGE, "simulated:other"], "pooling": "median"}},
    )
    candidates, said = make_candidates(options)
    assert not said
    assert [(each.name, each.differs(options)) for each in candidates] == [
        ("as it is", "nothing"),
        ("instructions strict", "instructions Be strict with this."),
        ("instructions 2", "instructions Be mild to all of them."),
        ("judge simulated:other", "judges simulated:other"),
        ("protocol zelo", "protocol zelo"),
        ("both", "judges simulated:judge simulated:other; pooling median"),
    ]
    plans = [plan_candidate(options, each, ("p",), "o") for each in candidates]
    assert [plan.protocol for plan in plans] == ["graded"] * 4 + ["zelo", "graded"]
    assert plans[1].instructions == "Be strict with this."
    assert plans[0].instructions is None
    assert plans[5].pooling == "median"
    assert {plan.ledger for plan in plans} == {"out"}
    folders = {each.folder for each in candidates}
    assert len(folders) == 6
    assert make_candidates(options)[0][1].folder in folders


def test_a_candidate_that_judges_as_another_is_left_out():
    options = tune(instructions="Be strict with this.", try_judges=[JUDGE, "simulated:b"])
    options = options.model_copy(
        update={"candidates": {"twin": {"instructions": "Be strict with this."}}}
    )
    candidates, said = make_candidates(options)
    assert [each.name for each in candidates] == [AS_IT_IS, "judge simulated:b"]
    assert said == [
        f"judge {JUDGE} is the same as as it is, and left out",
        "twin is the same as as it is, and left out",
    ]


@pytest.mark.parametrize(
    ("fields", "says"),
    [
        ({}, "there is no candidate beside what is as it is"),
        ({"candidates": {"x": {"document_limit": 3}}}, "document_limit is the same for all"),
        ({"candidates": {"x": {"out": "elsewhere"}}}, "out is the same for all"),
        ({"candidates": {"x": {"human": "q.txt"}}}, "human is the same .* by labels knows answers"),
        ({"candidates": {"x": {"judges": None}}}, "candidates.x: judges: "),
        ({"candidates": {"x": {"judges": 3}}}, "candidates.x: judges: "),
        ({"candidates": {"x": {"cycels": 3}}}, r"cycels is not an option .*did you mean 'cycles'"),
        ({"candidates": {"x": {"protocol": "graded", "cycles": 3}}}, "not an option of protocol"),
        ({"candidates": {"x": {"cycles": 0}}}, "x: .*cycles: "),
        ({"candidates": {"as it is": {"cycles": 3}}}, "two candidates are called 'as it is'"),
        ({"try_instructions": ["./gone.txt"]}, "no such file"),
    ],
)
def test_what_makes_no_candidate_is_refused(fields, says):
    options = tune(**fields)
    with pytest.raises(OptionError, match=says):
        make_candidates(options)


def test_options_by_judge_go_to_the_candidates_that_have_the_judge():
    prices = {JUDGE: {"input": 1, "output": 1}, "simulated:b": {"input": 2, "output": 2}}
    options = tune(try_judges=["simulated:b"], prices=prices)
    candidates, _ = make_candidates(options)
    refuse_strangers(options, candidates)
    plans = [plan_candidate(options, each, ("p",), "o") for each in candidates]
    assert [[*plan.prices] for plan in plans] == [[JUDGE], ["simulated:b"]]
    with pytest.raises(PanelError, match="no judge 'simulated:b' on the panel"):
        refuse_strangers(options, candidates[:1])


def test_options_by_judge_of_a_candidate_leave_those_of_other_judges():
    own = {JUDGE: {"noise": 0.5}, "simulated:b": {"noise": 0.25}}
    options = tune(
        judges=[JUDGE, "simulated:b"],
        judge_options=own,
        candidates={"x": {"judge_options": {JUDGE: {"noise": 2.0}}}},
    )
    [_, candidate], _ = make_candidates(options)
    plan = plan_candidate(options, candidate, ("p",), "o")
    assert plan.judge_options == {JUDGE: {"noise": 2.0}, "simulated:b": {"noise": 0.25}}


@pytest.mark.parametrize("is_list", [False, True])
def test_criteria_of_a_candidate_are_read_from_their_file(tmp_path, is_list):
    place = tmp_path / "criteria.txt"
    place.write_text("relevance=2: it answers\nclarity: it is clear\n")
    fields = {"protocol": "criteria", "criteria": [str(place)] if is_list else str(place)}
    options = tune(protocol="graded", candidates={"x": fields})
    [_, candidate], _ = make_candidates(options)
    plan = plan_candidate(options, candidate, ("p",), "o")
    assert plan.criteria == ("relevance=2: it answers", "clarity: it is clear")


TEMPLATE = (
    "{extra}A curator asks: {{{{query}}}}\n{{{{document}}}}\nSay it so: {{{{answer_format}}}}\n"
)


def test_what_a_template_says_is_what_its_candidate_asks(tmp_path):
    (tmp_path / "curator.txt").write_text(TEMPLATE)
    options = tune(protocol="graded", try_templates=[str(tmp_path / "curator.txt")])
    candidates, _ = make_candidates(options)
    assert [each.name for each in candidates] == [AS_IT_IS, "template curator"]
    pool = Pool("q", "how do I reset it?", (Document("d", "Hold the button.", {}),))
    asked = []
    for candidate in candidates:
        plan = plan_candidate(options, candidate, ("p",), "o")
        protocol, panel = load_protocol(plan.protocol), build_panel(plan.judges, {}, {})
        [request] = sealed(advance(protocol.rounds(pool, panel, plan), Shelf()).missing)
        asked.append(request.user)
    assert "A curator asks: " not in asked[0]
    assert "A curator asks: " in asked[1]
    assert all("Hold the button." in text and "how do I reset it?" in text for text in asked)


def lead_of(chosen, judged):
    """The first words of a report, by how many of 100 pairs each candidate judged."""
    spans = {"concordance": 0.7, "concordance_low": 0.6, "concordance_high": 0.8}
    rows = [
        {"candidate": name, "half": FIRST, "judged": count, "items": 100, **spans}
        for name, count in judged.items()
    ]
    tables = {"candidates": pa.Table.from_pylist(rows), "differences": pa.table({})}
    record = {"chosen": chosen, "options": {"measure": "concordance"}}
    return " ".join(describe_outcome(TuneResults(SimpleNamespace(table=tables.get), record)))


def test_candidates_that_judged_too_little_are_named_and_nothing_is_claimed_of_them():
    assert "there is nothing to change" in lead_of(AS_IT_IS, {AS_IT_IS: 100, "new": 90})
    lead = lead_of(AS_IT_IS, {AS_IT_IS: 100, "new": 100, "cut off": 3})
    assert "no candidate of those that judged enough agrees more" in lead
    assert "nothing to change" not in lead
    assert "Less than 90% of the first half was judged by cut off" in lead
    lead = lead_of("new", {AS_IT_IS: 100, "new": 100, "cut off": 3})
    assert "which of those that judged enough agrees most" in lead
    assert "those that judged enough" not in lead_of("new", {AS_IT_IS: 1, "new": 2})


def test_a_template_is_read_from_its_file_for_a_protocol_that_has_templates(tmp_path):
    (tmp_path / "own.py").write_text(
        "from dataclasses import replace\n"
        "from pydantic import Field\n"
        "from zelo_ray.options import AnnotateOptions, FileText\n"
        "from zelo_ray.protocols.zelo import PROTOCOL as ZELO\n"
        "class Own(AnnotateOptions):\n"
        "    template: FileText = Field('', description='of the prompt')\n"
        "PROTOCOL = replace(ZELO, options=Own)\n"
    )
    (tmp_path / "short.txt").write_text("Which of the two?\nSay it.\n")
    options = tune(
        protocol=f"{tmp_path}/own.py:PROTOCOL", try_templates=[str(tmp_path / "short.txt")]
    )
    [_, candidate], _ = make_candidates(options)
    assert candidate.name == "template short"
    plan = plan_candidate(options, candidate, ("p",), "o")
    assert plan.template == "Which of the two?\nSay it.\n"
    with pytest.raises(OptionError, match="template is not an option of protocol samre"):
        make_candidates(tune(protocol="samre", try_templates=["Which?"]))


def test_a_path_of_python_is_a_file(tmp_path):
    (tmp_path / "strict.txt").write_text("Be strict with this.")
    options = tune(candidates={"x": {"instructions": tmp_path / "strict.txt"}})
    [_, candidate], _ = make_candidates(options)
    assert candidate.changes == {"instructions": "Be strict with this."}


def test_the_chosen_options_are_a_config_file(tmp_path):
    words = "./looks-like-a-path.txt is what counts here"
    options = tune(
        protocol="graded", max_usd=3, seed=5, candidates={"x": {"instructions": f"{words}\n"}}
    )
    [_, candidate], _ = make_candidates(options)
    text = chosen_options(plan_candidate(options, candidate, ("p",), "o"))
    loaded = load_annotate({"inputs": ["all.jsonl"], "out": "judged"}, text)
    assert (loaded.protocol, loaded.seed, loaded.judges) == ("graded", 5, (JUDGE,))
    assert loaded.instructions == words
    assert (loaded.max_usd, loaded.ledger) == (None, None)


# errors


def test_what_changed_sides_by_hand():
    items = [Item("q", "a", f"b{n}", A_BETTER) for n in range(5)]
    before = [A_BETTER, B_BETTER, TIE, A_BETTER, -1]
    after = [B_BETTER, A_BETTER, B_BETTER, A_BETTER, A_BETTER]
    assert changed_sides(items, before, after) == [
        ChangedSide("q", "a", "b0", "A", "A", "B", "as it is"),
        ChangedSide("q", "a", "b1", "A", "B", "A", "chosen"),
        ChangedSide("q", "a", "b2", "A", "tie", "B", "neither"),
    ]


def test_documents_of_many_errors_come_first_two_of_a_query():
    items = [Item("q1", "a", other, A_BETTER) for other in "bcd"] + [Item("q2", "x", "y", B_BETTER)]
    verdicts = [[B_BETTER, B_BETTER, A_BETTER, A_BETTER], [TIE, A_BETTER, -1, B_BETTER]]
    assert find_misjudged(items, verdicts) == [
        Misjudged("q1", "a", 3, 5),
        Misjudged("q1", "b", 2, 2),
        Misjudged("q2", "x", 1, 2),
        Misjudged("q2", "y", 1, 2),
    ]
    assert find_misjudged(items, verdicts, 1) == [Misjudged("q1", "a", 3, 5)]


def test_what_judges_said_of_a_document_has_its_side_and_its_reason(tmp_path):
    votes = [
        Vote("q", "a", "b", "j", -0.5, False, "A names it.", "k1"),
        Vote("q", "c", "a", "j", -1.0, True, "C has more.", "k2"),
        Vote("q", "a", "d", "j", 0.0, False, "Both do.", "k3"),
        Vote("q", "a", "e", "j", -0.1, False, "A fourth is not shown.", "k4"),
        Vote("other", "a", "b", "j", -0.5, False, "Of another query.", "k5"),
    ]
    write_tables(str(tmp_path), {"votes": table_of(votes, Vote)})
    assert read_statements(str(tmp_path), "zelo", {("q", "a"), ("q", "b")}) == {
        ("q", "a"): [
            ("j", "better than b: A names it."),
            ("j", "worse than c: C has more."),
            ("j", "like d: Both do."),
        ],
        ("q", "b"): [("j", "worse than a: A names it.")],
    }
    assert read_statements(str(tmp_path / "none"), "zelo", {("q", "a")}) == {}


def test_people_are_described_by_grade_or_pairs():
    items = [Item("q", "a", "b", A_BETTER), Item("q", "c", "a", A_BETTER)]
    assert describe_people(People({}, {"q": {"a": 2.0}}), items, ("q", "a")) == "grade 2"
    votes = People({"q": {("a", "b"): A_BETTER}}, {})
    assert describe_people(votes, items, ("q", "a")) == "preferred in 1 of 2 pairs"


def test_the_split_is_that_of_a_hash():
    text = "how  Do I\nreset it"
    digest = hashlib.sha256(b"how do i reset it").digest()
    assert half_of(text) == (FIRST if digest[0] < 128 else SECOND)
