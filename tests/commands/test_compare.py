"""Ways of judging compared: what people say, which ways there are, and what comes of them."""

import hashlib
import json
import random
from pathlib import Path

import numpy as np
import pytest
import yaml
from statsmodels.stats.power import NormalIndPower

from tests.helpers.builders import (
    reply_to,
    write_lines,
)
from zelo_ray.commands import load as load_command
from zelo_ray.commands.compare.items import (
    ALL,
    CHOICE,
    TEST,
    Item,
    collect_items,
    half_of,
    pairs_of,
    read_people,
)
from zelo_ray.commands.compare.run import (
    agreement_figures,
    cost_figures,
    cost_queries,
    cost_requests,
    gain_figure,
)
from zelo_ray.commands.compare.ways import make_ways, options_as_yaml, plan_way
from zelo_ray.errors import InputError, OptionError, PanelError
from zelo_ray.evaluation.pairs import choose, count_needed, measure_gain
from zelo_ray.evaluation.votes import A_BETTER, B_BETTER, TIE
from zelo_ray.report.watches import SilentWatch

NAN = float("nan")
JUDGE, OTHER = "simulated:judge", "simulated:other"
A, B = A_BETTER, B_BETTER


# What people say


def votes(folder, *rows, name="votes.jsonl"):
    keys = ("query_id", "doc_id_a", "doc_id_b", "preference", "judge")
    lines = [json.dumps(dict(zip(keys, row, strict=False))) for row in rows]
    (folder / name).write_text("\n".join(lines) + "\n")
    return str(folder / name)


def items_of(people, query_id, doc_ids="abcd"):
    return [(i.doc_id_a, i.doc_id_b, i.verdict) for i in people.items(query_id, doc_ids)]


def test_most_people_decide_whichever_way_round(tmp_path):
    """A is what people name first; the first by id where they turn any pair."""
    rows = [("q1", "b", "a", -1), ("q2", "a", "b", 1), ("q3", "b", "a", 0), ("q1", "b", "a", 0.5),
            ("q1", "b", "a", -1)]  # fmt: skip
    people = read_people(votes(tmp_path, *rows))
    found = [items_of(people, query) for query in ("q1", "q2", "q3", "q4")]
    assert found == [[("b", "a", A_BETTER)], [("a", "b", B_BETTER)], [("b", "a", TIE)], []]
    assert items_of(people, "q1", "ac") == []
    turned = read_people(votes(tmp_path, *rows, ("q2", "b", "a", 1)))
    found = [items_of(turned, query) for query in ("q1", "q2", "q3")]
    assert found == [[("a", "b", B_BETTER)], [("a", "b", TIE)], [("a", "b", TIE)]]


def test_the_higher_mean_grade_is_better_and_equal_ones_say_nothing(tmp_path):
    (tmp_path / "qrels").write_text("q1 0 a 2\nq1 0 b 0\nq1 0 c 2\nq1 0 gone 3\nq2 0 a 1\n")
    people = read_people(str(tmp_path / "qrels"))
    assert items_of(people, "q1", "cbad") == [("c", "b", A_BETTER), ("b", "a", B_BETTER)]
    assert items_of(people, "q2", "ab") == []
    assert people.count("q1", "abc") == 3
    rows = [("a", "x", 1), ("a", "y", 2), ("b", "x", 1)]
    lines = [json.dumps({"query_id": "q", "doc_id": d, "judge": j, "grade": g}) for d, j, g in rows]
    (tmp_path / "grades.jsonl").write_text("\n".join(lines))
    people = read_people(str(tmp_path / "grades.jsonl"))
    assert items_of(people, "q", "ba") == [("b", "a", B_BETTER)]


# Which ways there are


def options_with(**fields):
    given = {"inputs": ["in.jsonl"], "out": "out", "human": "h.jsonl", "judges": [JUDGE], **fields}
    return load_command("compare", given)


def planned(options):
    """The ways of some options, and the plan of each."""
    ways, _ = make_ways(options)
    return ways, [plan_way(options, way, ("p",), "o") for way in ways]


def test_each_value_is_a_way_that_differs_in_one_thing(tmp_path):
    strict = str(tmp_path / "strict.txt")
    Path(strict).write_text("Be strict with this.\n")
    options = options_with(
        protocol="graded",
        try_=[f"instructions={strict}", "instructions=Be mild to all of them.", f"judges={JUDGE}",
              f"judges={OTHER}", "protocol=zelo"],
        candidates={
            "both": {"judges": [JUDGE, OTHER], "pooling": "thurstone"},
            "twin": {"instructions": tmp_path / "strict.txt"},
        },
    )  # fmt: skip
    ways, plans = planned(options)
    assert [(way.name, way.differs(options)) for way in ways] == [
        ("graded", ""),
        ("instructions strict", "instructions Be strict with this."),
        ("instructions 2", "instructions Be mild to all of them."),
        (f"judges {OTHER}", f"judges {OTHER}"),
        ("zelo", "protocol zelo"),
        ("both", f"judges {JUDGE} {OTHER}; pooling thurstone"),
    ]
    assert len(make_ways(options)[1]) == 2, "what is the same judges once"
    assert [plan.protocol for plan in plans] == ["graded"] * 4 + ["zelo", "graded"]
    told = [plan.instructions for plan in plans[:3]]
    assert told == [None, "Be strict with this.", "Be mild to all of them."]
    assert {(plan.ledger, plan.human) for plan in plans} == {("out", None)}
    assert len({way.folder for way in ways}) == 6
    assert load_command("compare", options.model_dump(include={"inputs", "out", "human"}) | {
        "try": ["protocol=graded"]}).try_ == ("protocol=graded",)  # fmt: skip


@pytest.mark.parametrize(
    ("fields", "named"),
    [
        ({}, "no way beside"),
        ({"try_": ["graded"]}, "OPTION=VALUE"),
        ({"try_": ["instructions=./gone.txt"]}, "gone.txt"),
        ({"try_": ["protocol=nonsense"]}, "nonsense"),
        ({"protocol": "samre", "try_": ["template=Which?"]}, "template .* samre"),
        ({"try_": ["protocol=graded"], "order": "random"}, "uses --order"),
        ({"candidates": {"zelo": {"cycles": 3}}}, "'zelo'"),
        ({"candidates": {"human": {"cycles": 3}}}, "'human'"),
        *(
            ({"candidates": {"x": changes}}, named)
            for changes, named in (
                ({"document_limit": 3}, "document_limit"),
                ({"out": "elsewhere"}, "out"),
                ({"human": "q.txt"}, "human"),
                ({"judges": None}, "x: judges"),
                ({"cycels": 3}, "cycels .*'cycles'"),
                ({"protocol": "graded", "cycles": 3}, "cycles"),
                ({"cycles": 0}, "x: .*cycles: "),
            )
        ),
    ],
)
def test_what_is_no_way_is_refused(fields, named):
    with pytest.raises(OptionError, match=named):
        make_ways(options_with(**fields))


def test_options_go_to_the_ways_that_use_them():
    tried = ["protocol=samre", "protocol=best-of"]
    _, plans = planned(options_with(cycles=2, rounds=3, order="random", try_=tried, max_usd=1.5))
    assert [getattr(plan, "rounds", None) for plan in plans] == [None, 3, None]
    assert [getattr(plan, "order", None) for plan in plans] == [None, None, "random"]
    assert {plan.max_usd for plan in plans} == {1.5}
    prices = {name: {"input": 1, "output": 1} for name in (JUDGE, OTHER)}
    _, plans = planned(options_with(try_=[f"judges={OTHER}"], prices=prices))
    assert [[*plan.prices] for plan in plans] == [[JUDGE], [OTHER]]
    with pytest.raises(PanelError, match=OTHER):
        make_ways(options_with(try_=["protocol=graded"], prices=prices))
    own = {JUDGE: {"noise": 0.5}, OTHER: {"noise": 0.25}}
    changed = {"x": {"judge_options": {JUDGE: {"noise": 2.0}}}}
    options = options_with(judges=[JUDGE, OTHER], judge_options=own, candidates=changed)
    assert planned(options)[1][1].judge_options == own | {JUDGE: {"noise": 2.0}}


def test_the_chosen_options_are_a_config_file():
    words = "./looks-like-a-path.txt is what counts here"
    changed = {"x": {"instructions": f"{words}\n"}}
    options = options_with(protocol="graded", max_usd=3, seed=5, candidates=changed)
    text = options_as_yaml(planned(options)[1][1])
    again = {**yaml.safe_load(text), "inputs": ["all.jsonl"], "out": "judged"}
    loaded = load_command("annotate", again)
    assert (loaded.protocol, loaded.seed, loaded.judges) == ("graded", 5, (JUDGE,))
    assert (loaded.instructions, loaded.max_usd, loaded.ledger) == (words, None, None)


# What they judge


def collected(folder, texts, shown=frozenset(), **fields):
    """What is collected of one pair for each query of these texts."""
    documents = [{"id": d, "content": d} for d in "ab"]
    lines = [
        {"query": {"id": f"q{n}", "query": text}, "documents": documents}
        for n, text in enumerate(texts)
    ]
    pools = str(write_lines(folder / "pools.jsonl", lines))
    human = votes(folder, *((f"q{n}", "a", "b", -1) for n in range(len(texts))))
    options = options_with(inputs=[pools], human=human, try_=["protocol=graded"], **fields)
    return collect_items(options, str(folder), SilentWatch(), shown)


def test_halves_follow_from_the_texts_of_queries_alone(tmp_path):
    texts = [f"question {n}" for n in range(60)]
    for order in (texts, random.Random(1).sample(texts, 60)):
        parts = collected(tmp_path, order, halves=True).parts
        first = {order[int(item.query_id[1:])] for item in parts[CHOICE].items}
        assert first == {text for text in texts if half_of(text) == CHOICE}
        lines = map(json.loads, Path(parts[TEST].pools).read_text().splitlines())
        assert {line["query"]["query"] for line in lines} == {*texts} - first
        assert sum(part.queries for part in parts.values()) == 60
    digest = hashlib.sha256(b"how do i reset it").digest()
    assert half_of("how  Do I\nreset it") == (CHOICE if digest[0] < 128 else TEST)


def test_what_cannot_be_compared_on_is_refused_or_left_out(tmp_path):
    same = [text for text in map(str, range(20)) if half_of(text) == CHOICE]
    for texts in (["one"], same):
        with pytest.raises(InputError, match="--halves"):
            collected(tmp_path, texts, halves=True)
    assert collected(tmp_path, ["one"]).parts[ALL].queries == 1
    labelled = collected(tmp_path, ["one", "two"], frozenset({"q0"}))
    assert [item.query_id for item in labelled.parts[ALL].items] == ["q1"]
    with pytest.raises(InputError, match="worked examples"):
        collected(tmp_path, ["one"], frozenset({"q0"}))


# Verdicts and the choice


def made_items(queries, pairs):
    return [Item(f"q{q:02}", f"a{n}", f"b{n}", A) for q in range(queries) for n in range(pairs)]


def gain_of(items, new, old, *, tested=True, measure="concordance"):
    how = {"measure": measure, "tested": tested}
    return measure_gain(pairs_of(items), {"new": new, "old": old}, "new", "old", **how)


def test_the_first_of_equals_is_chosen_and_none_that_judged_little():
    items, half, few = made_items(1, 10), [A] * 5 + [B] * 5, [A] * 8 + [-1] * 2
    for old, other, better in (
        (half, half, False),
        (half, few, False),
        (half, [*few[:8], A, -1], True),
        ([*few[:6], B, -1, -1, -1], few, True),  # the other judged even less
    ):
        assert choose(pairs_of(items), {"old": old, "x": other}) == ("x" if better else "old")


def test_a_gain_by_hand():
    """On each of six queries one more pair of two is right: p is 2 of 64 signs."""
    items, right, half = made_items(6, 2), [A] * 12, [A, B] * 6
    gain = gain_of(items, right, half)
    assert (gain.value, gain.other_value, gain.difference) == (1.0, 0.5, 0.5)
    assert (gain.low, gain.high, gain.p) == (0.5, 0.5, 2 / 64)
    assert (gain.items, gain.queries) == (12, 6)
    turned, untested = gain_of(items, half, right), gain_of(items, right, half, tested=False)
    assert [each.is_better for each in (gain, turned, untested)] == [True, False, False]
    assert np.isnan(untested.p)
    # What one did not judge counts for neither.
    part = gain_of(items, [A, -1] * 6, [B, A] * 6)
    assert (part.items, part.value, part.other_value) == (6, 1.0, 0.0)
    nothing = gain_of(items, [-1] * 12, [A] * 12)
    assert (nothing.items, nothing.is_better) == (0, False)


def test_a_difference_of_one_pair_may_be_chance_among_many():
    """An interval of 95% from just above 0, alone and among 15 pairs; and one far above."""
    items = [Item(f"q{i:02}", "a", "b", A) for i in range(40)]
    for wrong, pairs, significant in ((5, 1, True), (5, 15, False), (20, 15, True)):
        gain = gain_of(items, [A] * 40, [B] * wrong + [A] * (40 - wrong), tested=False)
        assert gain.low > 0
        assert (gain_figure(gain, "", pairs).p <= 0.05) == significant
    few = gain_of(items[:2], [A, A], [B, B], tested=False)
    assert np.isnan(gain_figure(few, "", 1).p)


def test_the_queries_needed_by_hand_and_by_statsmodels():
    apart, pairs = np.array([1.0, 0, 1, 0]), np.full(4, 2.0)
    assert count_needed(apart, pairs) == 11  # (2.8016 x .28868 / .25) squared is 10.47
    apart = np.random.default_rng(0).normal(0.1, 1, 40)
    effect = apart.mean() / np.std(apart, ddof=1)
    size = NormalIndPower().solve_power(effect, alpha=0.05, power=0.8, ratio=0)
    assert count_needed(apart, np.ones(40)) == pytest.approx(size, abs=1.01)
    assert count_needed(np.array([1.0, -1.0]), np.ones(2)) == 0
    assert count_needed(np.ones(1), np.ones(1)) == 0


# Figures and costs


def reply(key, dollars=0.5, **fields):
    return reply_to(key, judge="openai:one", dollars=dollars, **fields)


def cost(calls, dollars, tokens=0, unpriced=0):
    return np.array([calls, tokens, dollars, unpriced], float)


def test_every_billed_row_counts_and_the_calls_of_each_run():
    rows = [
        reply(1, run_id="one", attempts=3),
        reply(1, run_id="one", attempts=1, final=False, status="invalid"),
        reply(1, run_id="two", attempts=2),
        reply(2, None, run_id="one"),
    ]
    tokens = [row.input_tokens + row.output_tokens for row in rows]
    found = cost_requests(rows)
    assert found[reply(1).key].tolist() == [5, sum(tokens[:3]), 1.5, 0]
    assert found[reply(2).key].tolist() == [1, tokens[3], 0, 1]


def test_a_request_of_two_queries_counts_once():
    """And in full for another way."""
    costs = {"x": cost(1, 1.0), "y": cost(2, 0.25), "z": cost(4, 4.0)}
    found = cost_queries({"q1": ["x", "y"], "q2": ["y", "z"]}, costs)
    assert {query: row.tolist() for query, row in found.items()} == {
        "q1": cost(3, 1.25).tolist(),
        "q2": cost(4, 4.0).tolist(),
    }
    assert cost_queries({"q1": ["y"]}, costs)["q1"].tolist() == cost(2, 0.25).tolist()


ITEMS = [Item(f"q{i}", "a", "b", said) for i, said in enumerate([2, 2, 2, 0, 0, 1, 2, 0])]


def figures_of(verdicts, items=ITEMS, price=1.0, unpriced=0):
    verdicts = np.array(verdicts)
    costs = {item.query_id: cost(1, price, 7, unpriced) for item in items}
    rows = [
        *agreement_figures("way", ALL, pairs_of(items), verdicts),
        *cost_figures("way", ALL, pairs_of(items), verdicts, costs),
    ]
    return {row.what: row for row in rows}


def test_a_small_case_by_hand():
    plain = figures_of([2, 2, 0, 0, 0, 1, 1, -1])
    expected = {
        "concordance": 5.5 / 7,
        "agreement": 5 / 7,
        "agreement, decided": 4 / 5,
        # A better or not: people 1110001, it 1100000
        "MCC": (2 * 3 - 0 * 2) / np.sqrt(2 * 4 * 3 * 5),
        "dollars": 8.0,
        "tokens": 56.0,
        "dollars per correct pair": 8 / 5,
        "calls per correct pair": 8 / 5,
    }
    assert {what: plain[what].value for what in expected} == pytest.approx(expected)
    assert {plain[what].items for what in ("concordance", "agreement", "dollars")} == {7}
    silent = figures_of([-1] * 8)
    found = [silent[n].value for n in ("agreement", "dollars per correct pair", "dollars")]
    assert found == pytest.approx([NAN, NAN, 8], nan_ok=True)


def test_what_is_not_known_is_never_a_figure():
    few = figures_of([2, 2], ITEMS[:2])
    assert few["agreement"].value == 1
    assert np.isnan([few["agreement"].low, few["dollars per correct pair"].high]).all()
    unpriced = figures_of([2, 2, 0, 0, 0, 1, 1, -1], unpriced=1)
    assert np.isnan(unpriced["dollars"].value)
    assert unpriced["calls per correct pair"].value == 8 / 5


def test_guesses_in_place_of_ties_win_by_agreement_alone():
    fours = pairs_of(made_items(4, 4))
    verdicts = {"old": [A, A, TIE, TIE] * 4, "guesses": [A, A, A, B] * 4}
    assert choose(fours, verdicts) == "old"
    assert choose(fours, verdicts, "agreement") == "guesses"
