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
    set_in_file,
    verdict,
)
from zelo_ray import cli
from zelo_ray.commands.compare_protocols.costs import (
    Bill,
    bills_by_query,
    bills_of,
    requests_of,
    spending_of_protocol,
    sum_spending,
)
from zelo_ray.commands.compare_protocols.measured import measure, verdict_on, write_outcome
from zelo_ray.commands.compare_protocols.people import Item, read_people
from zelo_ray.commands.compare_protocols.plans import make_plans, unused_by_all
from zelo_ray.commands.compare_protocols.significance import sort_by_significance
from zelo_ray.engine.ledger import Ledger
from zelo_ray.errors import InputError, OptionError, UnknownProtocol
from zelo_ray.evaluation.agreement.pairs import (
    A_BETTER,
    A_OR_NOT,
    B_BETTER,
    DECIDED,
    TIE,
    WITH_TIES,
)
from zelo_ray.options import CompareProtocolsOptions, load_options
from zelo_ray.protocols import PROTOCOLS, options_with_all_protocols

JUDGE = "openai:one"


def test_help_offers_what_can_be_said(capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "100")
    with pytest.raises(SystemExit):
        cli.main(["compare-protocols", "--help"])
    shown = capsys.readouterr().out
    assert "--pilot" not in shown
    assert "--protocol " not in shown
    assert all(each in shown for each in ("--protocols", "--people", "{query,session}"))


def options(**fields):
    fields = {"inputs": ("in.jsonl",), "out": "out", "human": "h.jsonl", **fields}
    return options_with_all_protocols(CompareProtocolsOptions)(**fields)


def votes(folder, *rows, name="votes.jsonl"):
    keys = ("query_id", "doc_id_a", "doc_id_b", "preference")
    lines = [json.dumps(dict(zip(keys, row, strict=True))) for row in rows]
    (folder / name).write_text("\n".join(lines) + "\n")
    return str(folder / name)


# What people say


def test_what_most_people_say_counts_whichever_way_round_they_say_it(tmp_path):
    people = read_people(
        votes(
            tmp_path,
            ("q1", "a", "b", -1),
            ("q1", "b", "a", 0.5),
            ("q1", "a", "b", 1),
            ("q2", "b", "a", -1),
            ("q2", "a", "b", -1),
            ("q3", "a", "b", 0),
        )
    )
    assert people.kind == "votes"
    assert [*people.items("q1", "abc")] == [Item("q1", "a", "b", A_BETTER)]
    assert [*people.items("q2", "ab")] == [Item("q2", "a", "b", TIE)]
    assert [*people.items("q3", "ab")] == [Item("q3", "a", "b", TIE)]
    assert [*people.items("q3", "ac")] == []
    assert [*people.items("q4", "ab")] == []
    assert (
        people.judgment_count,
        people.count_judgments("q1", "ab"),
        people.count_judgments("q3", "ac"),
    ) == (3, 1, 0)


def test_a_is_what_people_name_first_and_the_first_by_id_if_they_turn_any_pair(tmp_path):
    rows = [("q1", "b", "a", -1), ("q2", "a", "b", 1), ("q1", "b", "a", -1)]
    people = read_people(votes(tmp_path, *rows))
    assert [*people.items("q1", "ab")] == [Item("q1", "b", "a", A_BETTER)]
    assert [*people.items("q2", "ab")] == [Item("q2", "a", "b", B_BETTER)]
    turned = read_people(votes(tmp_path, *rows, ("q2", "b", "a", -1)))
    assert [*turned.items("q1", "ab")] == [Item("q1", "a", "b", B_BETTER)]
    assert [*turned.items("q2", "ab")] == [Item("q2", "a", "b", B_BETTER)]


def test_agree_and_protocols_say_the_same_of_one_file(tmp_path):
    """Thirty pairs, of which people vote one both ways round: A is the same for both commands."""
    rng = np.random.default_rng(1)
    said = rng.integers(-1, 2, (2, 30)).tolist()
    pairs = [("a", "b") if turn else ("b", "a") for turn in rng.random(30) < 0.5]
    rows = [[(f"q{i}", *pairs[i], each[i]) for i in range(30)] for each in said]
    turned = (*(rows[0][0][i] for i in (0, 2, 1)), -rows[0][0][3])
    human = votes(tmp_path, *rows[0], turned, name="human.jsonl")
    judge = votes(tmp_path, *rows[1], name="judge.jsonl")
    out = str(tmp_path / "out")
    assert (
        cli.main(["agree", judge, "--human", human, *set_in_file(resamples=100), "--out", out]) == 0
    )
    told = {
        (row["scale"], row["coefficient"]): (row["value"], row["low"], row["high"])
        for row in pq.read_table(f"{out}/outcomes.parquet").to_pylist()
    }
    people, word_of = read_people(human), {row[:3]: row[3] for row in rows[1]}
    items = [item for i in range(30) for item in people.items(f"q{i}", "ab")]
    words = []
    for item in items:
        named = (item.query_id, item.doc_id_a, item.doc_id_b)
        words.append(
            1 - word_of[named] if named in word_of else 1 + word_of[item.query_id, "b", "a"]
        )
    figures = outcome_of({"judge": words}, items, resamples=100, seed=0).trials[0].figures
    for name, key in (
        ("agreement", (WITH_TIES, "agreement")),
        ("alpha", (WITH_TIES, "alpha-nominal")),
        ("mcc", (A_OR_NOT, "mcc")),
        ("mcc_decided", (DECIDED, "mcc")),
    ):
        one = figures[name]
        assert (one.value, one.low, one.high) == pytest.approx(told[key]), name


def test_some_people_are_read_as_by_agree(tmp_path):
    ids = {"question_id": 1, "model_a": "x", "model_b": "y"}
    said = [("model_a", "expert_1", 1), ("model_b", "author_1", 1), ("model_b", "expert_1", 2)]
    lines = [{**ids, "winner": winner, "judge": name, "turn": turn} for winner, name, turn in said]
    (tmp_path / "h.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    path = str(tmp_path / "h.jsonl")
    assert [*read_people(path, "expert*").items("1-1", "xy")] == [Item("1-1", "x", "y", A_BETTER)]
    assert [*read_people(path).items("1-1", "xy")] == [Item("1-1", "x", "y", TIE)]
    with pytest.raises(InputError, match=r"no row is of a judge like nobody"):
        read_people(path, "nobody")


def test_grades_say_which_of_two_documents_is_better_and_equal_ones_nothing(tmp_path):
    (tmp_path / "qrels").write_text("q1 0 a 2\nq1 0 b 0\nq1 0 c 2\nq1 0 gone 3\nq2 0 a 1\n")
    people = read_people(str(tmp_path / "qrels"))
    assert people.kind == "grades"
    found = [*people.items("q1", ["c", "b", "a", "d"])]
    assert found == [Item("q1", "c", "b", A_BETTER), Item("q1", "b", "a", B_BETTER)]
    assert [*people.items("q2", ["a", "b"])] == []
    assert (people.judgment_count, people.count_judgments("q1", ["a", "b", "c"])) == (5, 3)


def test_several_peoples_grades_of_a_document_are_one(tmp_path):
    rows = [("a", "x", 1), ("a", "y", 2), ("b", "x", 1)]
    lines = [json.dumps({"query_id": "q", "doc_id": d, "judge": j, "grade": g}) for d, j, g in rows]
    (tmp_path / "grades.jsonl").write_text("\n".join(lines))
    people = read_people(str(tmp_path / "grades.jsonl"))
    assert [*people.items("q", "ba")] == [Item("q", "b", "a", B_BETTER)]


@pytest.mark.parametrize(
    ("row", "says"),
    [(("q", "a", "b", 2), "the preference 2 is not"), (("q", "a", "a", 1), "with itself")],
)
def test_bad_words_of_people_are_told_with_their_line(tmp_path, row, says):
    with pytest.raises(InputError, match=rf"votes.jsonl:2: .*{says}"):
        read_people(votes(tmp_path, ("q", "a", "b", 1), row))


# Words of protocols


@pytest.mark.parametrize(
    ("a", "b", "said"),
    [
        (1.0, 0.5, A_BETTER),
        (0.5, 1.0, B_BETTER),
        (0.5, 0.5 + 1e-12, TIE),
        (float("nan"), 1.0, -1),
        (None, 1.0, -1),
    ],
)
def test_the_higher_score_is_the_better_document(a, b, said):
    scores = {("q", "a"): a, ("q", "b"): b}
    scores = {key: value for key, value in scores.items() if value is not None}
    assert verdict_on(scores, Item("q", "a", "b", TIE)) == said


# Costs


def reply(key, **fields):
    return reply_to(key, **{"judge": JUDGE, "dollars": 0.5, **fields})


def test_every_billed_row_of_a_request_counts_and_calls_are_those_of_each_run():
    rows = [
        reply(1, run_id="one", attempts=1, final=False, status="invalid"),
        reply(1, run_id="one", attempts=3),
        reply(1, run_id="two", attempts=2),
        reply(2, run_id="one", attempts=1, dollars=None),
        reply(3, run_id="one"),
    ]
    keys = [reply(n).key for n in (1, 2, 4)]
    found = bills_of(rows, keys)
    assert found == {
        keys[0]: Bill(calls=5, dollars=1.5),
        keys[1]: Bill(calls=1, dollars=0.0, unpriced=1),
        keys[2]: Bill(),
    }


def test_a_request_of_two_queries_counts_once_and_one_of_two_protocols_for_both():
    bills = {"x": Bill(1, 1.0), "y": Bill(2, 0.25), "z": Bill(4, 4.0)}
    one = bills_by_query({"q1": ["x", "y"], "q2": ["y", "z"]}, bills)
    assert one == {"q1": Bill(3, 1.25), "q2": Bill(4, 4.0)}
    other = bills_by_query({"q1": ["y"]}, bills)
    assert other == {"q1": Bill(2, 0.25)}


def test_requests_are_found_also_of_rounds_that_are_half_answered():
    """A round counts from its first paid reply on: what was cut off was paid for all the same."""
    pool, own = pool_of(), options_of()
    keys = [request.key for request in missing(pool, PANEL, own)]
    half = Shelf(*(reply_to(key, verdict(0.5)) for key in keys[: len(keys) // 2]))
    for shelf in (Shelf(), half):
        [(query_id, found)] = requests_of([pool], PANEL, own, shelf)
        assert query_id == pool.query_id
        assert sorted(found) == sorted(keys)


class Chained:
    """A protocol of two rounds, whose second follows from what the first was answered."""

    def rounds(self, pool, panel, options):
        del options
        first = [request_of(f"first {pool.query_id}", judge) for judge in panel]
        said = yield first
        second = [
            request_of(f"second {pool.query_id} {reply.status}", judge)
            for judge, reply in zip(panel, said, strict=True)
        ]
        yield second
        return []


def test_requests_of_later_rounds_are_found_where_a_judge_was_left_out(monkeypatch):
    monkeypatch.setattr(
        "zelo_ray.commands.compare_protocols.costs.load_protocol", lambda _: Chained()
    )
    pool, own = pool_of(), options_of()
    first = [request_of(f"first {pool.query_id}", judge).key for judge in PANEL]
    later = request_of(f"second {pool.query_id} ok", PANEL[0]).key
    shelf = Shelf(reply_to(first[0], "well"), reply_to(later, "well"))
    [(_, found)] = requests_of([pool], PANEL, own, shelf)
    assert {*first, later} <= {*found}


def test_each_protocol_has_its_own_budget_over_all_runs_and_one_that_is_resumed_no_fresh_one():
    mine, other, both = (reply(n).key for n in (1, 2, 3))
    rows = [reply(2, dollars=10.0)]

    def own():
        return sum_spending(rows, {mine, both})

    assert own() == 0.0  # what another one spent is not its own
    rows.append(reply(1, dollars=0.75, final=False, status="invalid"))
    assert own() == 0.75
    rows.append(reply(1, dollars=0.75))
    assert own() == 1.5
    rows.append(reply(3, dollars=0.5, run_id="of another protocol"))
    assert own() == 2.0
    assert sum_spending(rows, {other}) == 10.0


def test_what_batches_hold_for_other_protocols_is_no_protocols_own():
    """A run holds all open batches against its budget: the share of others is given back first."""
    rows, lying = [reply(1, dollars=0.5)], [(2.0, ["mine", "x", "y", "z"]), (1.0, ["x"])]
    assert sum_spending(rows, {reply(1).key, "mine"}, lying) == 0.5 - 1.5 - 1.0
    assert sum_spending(rows, {"x", "y", "z", "mine"}, lying) == 0.0
    assert sum_spending(rows, {reply(1).key}, [(1.0, [])]) == 0.5


def test_a_run_that_was_cut_off_finds_what_it_paid_in_the_ledger(tmp_path):
    """Half of a round is paid for: of the budget there is left what that did not take."""
    pool, own = pool_of(), options_of(out=str(tmp_path), max_usd=1.0)
    keys = [request.key for request in missing(pool, PANEL, own)]
    ledger = Ledger(str(tmp_path), "run")
    ledger.append([reply_to(key, verdict(0.5), dollars=0.125) for key in keys[:3]])
    ledger.append([reply_to(7, "of another protocol", dollars=4.0)])
    ledger.close()
    assert spending_of_protocol(own, PANEL, ledger, [pool], []) == 0.375
    assert (
        spending_of_protocol(own, PANEL, ledger, [pool], [(8.0, [*keys[3:4], "x"])]) == 0.375 - 4.0
    )
    assert spending_of_protocol(options_of(out=str(tmp_path)), PANEL, ledger, [pool], []) is None


# CompareProtocolsOptions


def test_each_protocol_runs_with_the_options_that_it_uses():
    given = options(
        cycles=2,
        rounds=3,
        order="random",
        judges=("openai:one",),
        max_usd=1.5,
        protocols=("zelo", "samre", "best-of"),
        out="out/",
    )
    each = make_plans(given, ("out/pools.jsonl",))
    assert [*each] == ["zelo", "samre", "best-of"]
    assert all(own.ledger_dir == "out/" and own.max_usd == 1.5 for own in each.values())
    assert [own.out for own in each.values()] == ["out/zelo", "out/samre", "out/best-of"]
    assert [getattr(own, "rounds", None) for own in each.values()] == [None, 3, None]
    assert [getattr(own, "order", None) for own in each.values()] == [None, None, "random"]
    assert not any(own.human for own in each.values())  # people are the truth here
    assert {own.inputs for own in each.values()} == {("out/pools.jsonl",)}
    assert unused_by_all(given, each) == []
    assert unused_by_all(given, {"zelo": each["zelo"]}) == ["order", "rounds"]


def test_without_names_all_protocols_but_the_mixed_ones_are_compared():
    assert {*make_plans(options(), ("p",))} == {*PROTOCOLS} - {"zelo+graded", "auto", "criteria"}


@pytest.mark.parametrize("names", [("zelo", "graded", "zelo"), ("nonsense",)])
def test_protocols_are_named_once_and_exist(names):
    with pytest.raises((OptionError, UnknownProtocol), match=r"zelo is named twice|unknown"):
        make_plans(options(protocols=names), ("p",))


@pytest.mark.parametrize(
    ("fields", "says"),
    [
        ({"protocol": "zelo"}, "did you mean 'protocols'"),
        ({"pilot": 3}, "pilot: no such option"),
        ({"human": None}, "human"),
        ({"max_usd": 0}, "max_usd"),
    ],
)
def test_options_that_make_no_sense_are_refused(fields, says):
    given = {"inputs": ["in.jsonl"], "out": "out", "human": "h.jsonl", **fields}
    with pytest.raises(OptionError, match=says):
        load_options(
            CompareProtocolsOptions,
            {name: one for name, one in given.items() if one is not None},
        )


# What comes of it


ITEMS = [Item(f"q{i}", "a", "b", said) for i, said in enumerate([2, 2, 2, 0, 0, 1, 2, 0])]
WORDS = {
    "plain": [2, 2, 0, 0, 0, 1, 1, -1],
    "debate": [2, 2, 2, 0, 0, 1, -1, -1],
    "silent": [-1] * 8,
}


def outcome_of(words=WORDS, items=ITEMS, price=1.0, unpriced=0, resamples=500, seed=3):
    bills = {
        name: {f"q{i}": Bill(n, n * price, unpriced) for i in range(len(items))}
        for n, name in enumerate(words, start=1)
    }
    together = Bill(10, 10 * price, unpriced)
    outcome = measure(items, words, bills, together, resamples=resamples, seed=seed)
    outcome.paid = Bill(12, 12 * price, unpriced)
    return outcome


def test_a_small_case_by_hand():
    plain, debate, silent = outcome_of().trials
    assert (plain.items, plain.judged, plain.correct, plain.queries) == (8, 7, 5, 7)
    assert plain.figures["agreement"].value == 5 / 7
    # both decided: items 0 to 4; one of them is wrong
    assert (plain.decided, plain.decided_correct) == (5, 4)
    assert plain.figures["agreement_decided"].value == 4 / 5
    # A better or not: people 1110001, it 1100000
    assert plain.figures["mcc"].value == pytest.approx((2 * 3 - 0 * 2) / np.sqrt(2 * 4 * 3 * 5))
    assert (plain.bill, plain.figures["dollars"].value) == (Bill(8, 8.0), 8.0)
    assert plain.figures["dollars_per_correct"].value == 8 / 5
    assert plain.figures["calls_per_correct"].value == 8 / 5
    assert (debate.judged, debate.correct) == (6, 6)
    assert debate.figures["agreement"].value == 1
    assert debate.figures["dollars_per_correct"].value == 16 / 6
    assert (silent.judged, silent.correct, silent.queries) == (0, 0, 0)
    assert np.isnan(silent.figures["agreement"].value)
    assert np.isnan(silent.figures["dollars_per_correct"].value)
    assert silent.figures["dollars"].value == 24


def test_protocols_differ_on_what_both_judged():
    found = {(d.rater_a, d.rater_b, d.scale, d.coefficient): d for d in outcome_of().differences}
    apart = found["plain", "debate", WITH_TIES, "agreement"]
    assert (apart.items, apart.value_a, apart.value_b) == (6, 5 / 6, 1.0)
    decided = found["plain", "debate", DECIDED, "agreement"]
    assert (decided.items, decided.value_a, decided.value_b) == (5, 4 / 5, 1.0)
    assert found["plain", "silent", WITH_TIES, "agreement"].items == 0


def test_a_correct_verdicts_cost_has_an_interval_over_queries():
    """Dollars and correct verdicts are drawn together: where a dear query is right it shows."""
    rng = np.random.default_rng(0)
    right = rng.random(400) < 0.7
    dollars = rng.gamma(2.0, 1.0, 400) * np.where(right, 1.0, 3.0)
    items = [Item(f"q{i:03}", "a", "b", 2) for i in range(400)]
    words = {"p": np.where(right, 2, 0).tolist()}
    bills = {"p": {item.query_id: Bill(1, d) for item, d in zip(items, dollars, strict=True)}}
    outcome = measure(items, words, bills, Bill(), resamples=2000, seed=1)
    found = outcome.trials[0].figures["dollars_per_correct"]
    assert found.value == pytest.approx(dollars.sum() / right.sum())
    each = dollars - found.value * right  # Cochran 1977, eq. 6.13
    error = np.sqrt(400) * each.std(ddof=1) / right.sum()
    assert found.low == pytest.approx(found.value - 1.97 * error, abs=0.25 * error)
    assert found.high == pytest.approx(found.value + 1.97 * error, abs=0.25 * error)


def test_of_few_queries_there_is_no_interval():
    words = {"p": [2, 2]}
    found = outcome_of(words, ITEMS[:2]).trials[0].figures
    assert found["agreement"].value == 1
    assert np.isnan(found["agreement"].low)
    assert found["dollars_per_correct"].value == 1
    assert np.isnan(found["dollars_per_correct"].high)


def test_what_is_not_known_is_never_nothing():
    outcome = outcome_of(price=0.0, unpriced=1)
    assert outcome.unit == "calls"
    assert all(np.isnan(trial.figures["dollars"].value) for trial in outcome.trials)
    assert all(np.isnan(cost.dollars) for cost in outcome.costs)
    assert outcome.trials[0].figures["calls_per_correct"].value == 8 / 5


def test_where_nothing_was_compared_nobody_is_best():
    assert outcome_of({"silent": [-1] * 8}).best == ""
    assert outcome_of({}).best == ""
    assert outcome_of().best == "debate"


def test_one_that_judged_a_few_items_stands_below_the_others():
    """Right on all of four items is no better than right on 5 of 8: they may be the easy ones."""
    words = {"whole": [2, 2, 0, 0, 0, 1, 1, 2], "few": [2, 2, 2, 0, -1, -1, -1, -1]}
    outcome = outcome_of(words)
    assert [trial.protocol for trial in outcome.ranked] == ["whole", "few"]


def many_apart(wrong, several):
    """Some protocols, of which the first is right on all of 40 items, and the others on fewer."""
    items = [Item(f"q{i:02}", "a", "b", 2) for i in range(40)]
    words = {"right": [2] * 40}
    words |= {f"p{n}": [0] * wrong + [2] * (40 - wrong) for n in range(several)}
    return outcome_of(words, items)


def test_what_is_significant_of_one_pair_is_not_of_many():
    """An interval of 95% from just above 0, alone and among 15 pairs."""
    for several, significant in ((1, 1), (5, 0)):
        pairs = sort_by_significance(many_apart(5, several).differences)
        first = [row for row in [*pairs.significant, *pairs.others] if row.rater_a == "right"]
        assert all(row.low > 0 for row in first)
        assert len(pairs.significant) == significant
    pairs = sort_by_significance(many_apart(20, 5).differences)
    assert {row.rater_a for row in pairs.significant} == {"right"}
    assert (len(pairs.significant), len(pairs.others)) == (5, 10)


def test_pairs_of_too_few_queries_are_unknown():
    few = outcome_of({"one": [2, 2], "two": [0, 0]}, ITEMS[:2]).differences
    assert len(sort_by_significance(few).unknown) == 1
    pairs = sort_by_significance(outcome_of().differences)
    assert (len(pairs.unknown), len(pairs.others)) == (2, 1), "two are with one without a word"


def test_equal_input_gives_equal_files(tmp_path):
    for name in ("one", "two"):
        write_outcome(str(tmp_path / name), outcome_of())
    for name in ("trials", "costs", "differences"):
        one, two = ((tmp_path / run / f"{name}.parquet").read_bytes() for run in ("one", "two"))
        assert one == two
