"""Protocols at equal money: what people say, what protocols cost, and what both come to."""

import json

import numpy as np
import pyarrow.parquet as pq
import pytest

from tests.builders import (
    PANEL,
    Shelf,
    missing,
    options_of,
    pool_of,
    reply_to,
    request_of,
    verdict,
)
from zelo_ray import cli
from zelo_ray.command_options import CompareProtocolsOptions
from zelo_ray.commands.compare_protocols import costs
from zelo_ray.commands.compare_protocols.costs import Bill
from zelo_ray.commands.compare_protocols.measured import measure, verdict_on, write_outcome
from zelo_ray.commands.compare_protocols.people import Item, read_people
from zelo_ray.commands.compare_protocols.plans import make_plans, unused_by_all
from zelo_ray.commands.compare_protocols.significance import sort_by_significance
from zelo_ray.engine.ledger import Ledger
from zelo_ray.errors import OptionError
from zelo_ray.evaluation.votes import A_BETTER, A_OR_NOT, B_BETTER, DECIDED, TIE, WITH_TIES
from zelo_ray.protocols import PROTOCOLS, options_with_all_protocols

NAN = float("nan")


def votes(folder, *rows, name="votes.jsonl"):
    keys = ("query_id", "doc_id_a", "doc_id_b", "preference", "judge")
    lines = [json.dumps(dict(zip(keys, row, strict=False))) for row in rows]
    (folder / name).write_text("\n".join(lines) + "\n")
    return str(folder / name)


def items_of(people, query_id, doc_ids="abcd"):
    return [(i.doc_id_a, i.doc_id_b, i.verdict) for i in people.items(query_id, doc_ids)]


# What people say


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
    assert (people.kind, people.judgment_count) == ("votes", 3)
    assert [people.count_judgments("q1", ids) for ids in ("ab", "ac")] == [1, 0]


def test_the_higher_mean_grade_is_better_and_equal_ones_say_nothing(tmp_path):
    (tmp_path / "qrels").write_text("q1 0 a 2\nq1 0 b 0\nq1 0 c 2\nq1 0 gone 3\nq2 0 a 1\n")
    people = read_people(str(tmp_path / "qrels"))
    assert items_of(people, "q1", "cbad") == [("c", "b", A_BETTER), ("b", "a", B_BETTER)]
    assert items_of(people, "q2", "ab") == []
    assert (people.kind, people.judgment_count) == ("grades", 5)
    assert people.count_judgments("q1", "abc") == 3
    rows = [("a", "x", 1), ("a", "y", 2), ("b", "x", 1)]
    lines = [json.dumps({"query_id": "q", "doc_id": d, "judge": j, "grade": g}) for d, j, g in rows]
    (tmp_path / "grades.jsonl").write_text("\n".join(lines))
    people = read_people(str(tmp_path / "grades.jsonl"))
    assert items_of(people, "q", "ba") == [("b", "a", B_BETTER)]


def test_agree_says_the_same_of_one_file(tmp_path):
    """Thirty pairs, of which people vote one both ways round: A is the same for both commands."""
    rng = np.random.default_rng(1)
    said = rng.integers(-1, 2, (2, 30)).tolist()
    pairs = [("a", "b") if turn else ("b", "a") for turn in rng.random(30) < 0.5]
    rows = [[(f"q{i}", *pairs[i], each[i]) for i in range(30)] for each in said]
    query, a, b, word = rows[0][0]
    human = votes(tmp_path, *rows[0], (query, b, a, -word), name="human.jsonl")
    judge, out = votes(tmp_path, *rows[1], name="judge.jsonl"), str(tmp_path / "out")
    assert cli.main(["agree", judge, "--human", human, "--out", out]) == 0
    told = {
        (row["scale"], row["coefficient"]): (row["value"], row["low"], row["high"])
        for row in pq.read_table(f"{out}/outcomes.parquet").to_pylist()
    }
    people, word_of = read_people(human), {row[:3]: row[3] for row in rows[1]}
    items = [item for i in range(30) for item in people.items(f"q{i}", "ab")]
    words = []
    for item in items:
        turned = word_of.get((item.query_id, item.doc_id_b, item.doc_id_a), 0)
        words.append(1 - word_of.get((item.query_id, item.doc_id_a, item.doc_id_b), -turned))
    figures = outcome_of({"judge": words}, items).trials[0].figures
    for name, key in {
        "agreement": (WITH_TIES, "agreement"),
        "alpha": (WITH_TIES, "alpha-nominal"),
        "mcc": (A_OR_NOT, "mcc"),
        "mcc_decided": (DECIDED, "mcc"),
    }.items():
        one = figures[name]
        assert (one.value, one.low, one.high) == pytest.approx(told[key]), name


def test_the_higher_score_is_the_better_document():
    for a, b, said in (
        (1.0, 0.5, A_BETTER),
        (0.5, 1.0, B_BETTER),
        (0.5, 0.5 + 1e-12, TIE),
        (NAN, 1.0, -1),
        (None, 1.0, -1),
    ):
        scores = {("q", "b"): b} | ({} if a is None else {("q", "a"): a})
        assert verdict_on(scores, Item("q", "a", "b", TIE)) == said


# Costs


def reply(key, dollars=0.5, **fields):
    return reply_to(key, judge="openai:one", dollars=dollars, **fields)


def test_every_billed_row_counts_and_the_calls_of_each_run():
    rows = [
        reply(1, run_id="one", attempts=3),
        reply(1, run_id="one", attempts=1, final=False, status="invalid"),
        reply(1, run_id="two", attempts=2),
        reply(2, None, run_id="one"),
        reply(3, run_id="one"),
    ]
    keys = [reply(n).key for n in (1, 2, 4)]
    expected = [Bill(calls=5, dollars=1.5), Bill(calls=1, unpriced=1), Bill()]
    assert costs.bills_of(rows, keys) == dict(zip(keys, expected, strict=True))


def test_a_request_of_two_queries_counts_once():
    """And in full for another protocol."""
    bills = {"x": Bill(1, 1.0), "y": Bill(2, 0.25), "z": Bill(4, 4.0)}
    found = costs.bills_by_query({"q1": ["x", "y"], "q2": ["y", "z"]}, bills)
    assert found == {"q1": Bill(3, 1.25), "q2": Bill(4, 4.0)}
    assert costs.bills_by_query({"q1": ["y"]}, bills) == {"q1": Bill(2, 0.25)}, (
        "and in full elsewhere"
    )


def test_requests_of_half_answered_rounds_are_found(monkeypatch):
    """A round counts from its first paid reply on; a judge that was left out ends none."""
    pool, own = pool_of(), options_of()
    keys = [request.key for request in missing(pool, PANEL, own)]
    half = Shelf(*(reply_to(key, verdict(0.5)) for key in keys[: len(keys) // 2]))
    for shelf in (Shelf(), half):
        [(query_id, found)] = costs.requests_of([pool], PANEL, own, shelf)
        assert (query_id, sorted(found)) == (pool.query_id, sorted(keys))

    class Chained:
        def rounds(self, pool, panel, options):
            said = yield [request_of("first", judge) for judge in panel]
            yield [request_of(f"second {r.status}", j) for j, r in zip(panel, said, strict=True)]
            return []

    monkeypatch.setattr(costs, "load_protocol", lambda _: Chained())
    keys = [request_of("first", PANEL[0]).key, request_of("second ok", PANEL[0]).key]
    shelf = Shelf(*(reply_to(key, "well") for key in keys))
    [(_, found)] = costs.requests_of([pool], PANEL, own, shelf)
    assert {*keys, request_of("first", PANEL[1]).key} <= {*found}


def test_a_protocol_spends_what_its_requests_cost_in_any_run():
    """What batches hold for others is given back: a run holds them all against its budget."""
    mine, other, both = (reply(n).key for n in (1, 2, 3))
    rows = [reply(2, 10.0), reply(1, 0.75, final=False, status="invalid"), reply(1, 0.75)]
    rows.append(reply(3, 0.5, run_id="of another protocol"))
    assert costs.sum_spending(rows, {mine, both}) == 2.0
    assert costs.sum_spending(rows, {other}) == 10.0
    assert costs.sum_spending([], {mine}) == 0.0
    lying = [(2.0, ["mine", "x", "y", "z"]), (1.0, ["x"])]
    assert costs.sum_spending(rows[2:3], {mine, "mine"}, lying) == 0.75 - 1.5 - 1.0
    assert costs.sum_spending(rows[2:3], {*"xyz", "mine"}, lying) == 0.0
    assert costs.sum_spending(rows[2:3], {mine}, [(1.0, [])]) == 0.75


def test_a_run_that_was_cut_off_finds_what_it_paid_in_the_ledger(tmp_path):
    """Half of a round is paid for: of the budget there is left what that did not take."""
    pool, own = pool_of(), options_of(out=str(tmp_path), max_usd=1.0)
    keys = [request.key for request in missing(pool, PANEL, own)]
    ledger = Ledger(str(tmp_path), "run")
    ledger.append([reply_to(key, verdict(0.5), dollars=0.125) for key in keys[:3]])
    ledger.append([reply_to(7, "of another protocol", dollars=4.0)])
    ledger.close()
    lying = [(8.0, [keys[3], "x"])]
    assert costs.spending_of_protocol(own, PANEL, ledger, [pool], []) == 0.375
    assert costs.spending_of_protocol(own, PANEL, ledger, [pool], lying) == 0.375 - 4.0
    free = options_of(out=str(tmp_path))
    assert costs.spending_of_protocol(free, PANEL, ledger, [pool], []) is None


# Options


GIVEN = {"inputs": ["in.jsonl"], "out": "out/", "human": "h.jsonl"}


def plans(**fields):
    options = options_with_all_protocols(CompareProtocolsOptions)(**GIVEN, **fields)
    return options, make_plans(options, ("out/pools.jsonl",))


def test_each_protocol_runs_with_the_options_that_it_uses():
    own = {"cycles": 2, "rounds": 3, "order": "random", "max_usd": 1.5, "judges": ["openai:one"]}
    names = ("zelo", "samre", "best-of")
    given, each = plans(**own, protocols=names)
    assert [(name, plan.out) for name, plan in each.items()] == [(n, f"out/{n}") for n in names]
    assert {(p.ledger_dir, p.max_usd, *p.inputs, p.human) for p in each.values()} == {
        ("out/", 1.5, "out/pools.jsonl", None)  # people are the truth here
    }
    assert [getattr(plan, "rounds", None) for plan in each.values()] == [None, 3, None]
    assert [getattr(plan, "order", None) for plan in each.values()] == [None, None, "random"]
    assert unused_by_all(given, each) == []
    assert unused_by_all(given, ["zelo"]) == ["order", "rounds"]
    assert {*plans()[1]} == {*PROTOCOLS}
    for wrong in (("zelo", "graded", "zelo"), ("nonsense",)):
        with pytest.raises(OptionError):
            plans(protocols=wrong)


# What comes of it


ITEMS = [Item(f"q{i}", "a", "b", said) for i, said in enumerate([2, 2, 2, 0, 0, 1, 2, 0])]
WORDS = {
    "plain": [2, 2, 0, 0, 0, 1, 1, -1],
    "debate": [2, 2, 2, 0, 0, 1, -1, -1],
    "silent": [-1] * 8,
}


def outcome_of(words=WORDS, items=ITEMS, price=1.0, unpriced=0):
    bills = {
        name: {f"q{i}": Bill(n, n * price, unpriced) for i in range(len(items))}
        for n, name in enumerate(words, start=1)
    }
    together = Bill(10, 10 * price, unpriced)
    outcome = measure(items, words, bills, together)
    outcome.paid = Bill(12, 12 * price, unpriced)
    return outcome


def test_a_small_case_by_hand():
    assert outcome_of().unit == "dollars"
    plain, debate, silent = outcome_of().trials
    assert (plain.items, plain.judged, plain.correct, plain.queries) == (8, 7, 5, 7)
    assert (plain.decided, plain.decided_correct, plain.bill) == (5, 4, Bill(8, 8.0))
    expected = {
        "agreement": 5 / 7,
        "agreement_decided": 4 / 5,
        # A better or not: people 1110001, it 1100000
        "mcc": (2 * 3 - 0 * 2) / np.sqrt(2 * 4 * 3 * 5),
        "dollars": 8.0,
        "dollars_per_correct": 8 / 5,
        "calls_per_correct": 8 / 5,
    }
    assert {name: plain.figures[name].value for name in expected} == pytest.approx(expected)
    assert (debate.judged, debate.correct, debate.figures["agreement"].value) == (6, 6, 1)
    assert debate.figures["dollars_per_correct"].value == 16 / 6
    assert (silent.judged, silent.correct, silent.queries) == (0, 0, 0)
    figures = [silent.figures[n].value for n in ("agreement", "dollars_per_correct", "dollars")]
    assert figures == pytest.approx([NAN, NAN, 24], nan_ok=True)


def test_protocols_differ_on_what_both_judged():
    rows = {(d.rater_a, d.rater_b, d.scale, d.coefficient): d for d in outcome_of().differences}
    both = rows["plain", "debate", WITH_TIES, "agreement"]
    assert (both.items, both.value_a, both.value_b) == (6, 5 / 6, 1.0)
    decided = rows["plain", "debate", DECIDED, "agreement"]
    assert (decided.items, decided.value_a, decided.value_b) == (5, 4 / 5, 1.0)
    assert rows["plain", "silent", WITH_TIES, "agreement"].items == 0


def test_a_correct_verdicts_cost_has_an_interval_over_queries():
    """Dollars and correct verdicts are drawn together: where a dear query is right it shows."""
    rng = np.random.default_rng(0)
    right = rng.random(400) < 0.7
    dollars = rng.gamma(2.0, 1.0, 400) * np.where(right, 1.0, 3.0)
    items = [Item(f"q{i:03}", "a", "b", 2) for i in range(400)]
    words = {"p": np.where(right, 2, 0).tolist()}
    bills = {"p": {item.query_id: Bill(1, d) for item, d in zip(items, dollars, strict=True)}}
    outcome = measure(items, words, bills, Bill())
    found = outcome.trials[0].figures["dollars_per_correct"]
    assert found.value == pytest.approx(dollars.sum() / right.sum())
    each = dollars - found.value * right  # Cochran 1977, eq. 6.13
    error = np.sqrt(400) * each.std(ddof=1) / right.sum()
    assert found.low == pytest.approx(found.value - 1.97 * error, abs=0.4 * error)
    assert found.high == pytest.approx(found.value + 1.97 * error, abs=0.4 * error)


def test_what_is_not_known_is_never_a_figure():
    few = outcome_of({"p": [2, 2]}, ITEMS[:2]).trials[0].figures
    assert (few["agreement"].value, few["dollars_per_correct"].value) == (1, 1)
    assert np.isnan([few["agreement"].low, few["dollars_per_correct"].high]).all()
    outcome = outcome_of(price=0.0, unpriced=1)
    assert outcome.unit == "calls"
    assert all(np.isnan(trial.figures["dollars"].value) for trial in outcome.trials)
    assert all(np.isnan(cost.dollars) for cost in outcome.costs)
    assert outcome.trials[0].figures["calls_per_correct"].value == 8 / 5


def test_who_judged_few_items_stands_below_the_others():
    """Right on all of four items is no better than right on 5 of 8: they may be the easy ones."""
    words = {"few": [2, 2, 2, 0, -1, -1, -1, -1], "whole": [2, 2, 0, 0, 0, 1, 1, 2]}
    assert [trial.protocol for trial in outcome_of(words).ranked] == ["whole", "few"]
    best = [outcome_of(words).best for words in (WORDS, {"silent": [-1] * 8}, {})]
    assert best == ["debate", "", ""]


def test_a_difference_of_one_pair_may_be_chance_among_many():
    """An interval of 95% from just above 0, alone and among 15 pairs; and one far above."""
    items = [Item(f"q{i:02}", "a", "b", 2) for i in range(40)]
    for wrong, several, significant in ((5, 1, 1), (5, 5, 0), (20, 5, 5)):
        words = {f"p{n}": [0] * wrong + [2] * (40 - wrong) for n in range(several)}
        pairs = sort_by_significance(outcome_of({"right": [2] * 40} | words, items).differences)
        rows = [*pairs.significant, *pairs.others]
        assert len(rows) == (several + 1) * several / 2
        assert all(row.low > 0 for row in rows if row.rater_a == "right")
        assert [row.rater_a for row in pairs.significant] == ["right"] * significant
    few = outcome_of({"one": [2, 2], "two": [0, 0]}, ITEMS[:2]).differences
    assert len(sort_by_significance(few).unknown) == 1
    assert len(sort_by_significance(outcome_of().differences).unknown) == 2, "with one silent"


def test_equal_input_gives_equal_files(tmp_path):
    for name in ("one", "two"):
        write_outcome(str(tmp_path / name), outcome_of())
    for name in ("trials", "costs", "differences"):
        one, two = ((tmp_path / run / f"{name}.parquet").read_bytes() for run in ("one", "two"))
        assert one == two
