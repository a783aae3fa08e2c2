"""What a contest comes to, from runs and a truth, without asking anybody."""

import math
import random
from dataclasses import replace

import pytest

from tests.contests import qrels_of, run_of
from zelo_ray.command_options import BakeoffOptions
from zelo_ray.commands.bakeoff import measure
from zelo_ray.commands.bakeoff.contrasts import build_contrasts, contrasting_queries
from zelo_ray.commands.bakeoff.files import build_record, write_outcome
from zelo_ray.commands.bakeoff.outcome import MeasuredRanker, Unranked
from zelo_ray.commands.bakeoff.report import BAKEOFF_REPORT
from zelo_ray.commands.bakeoff.report.results import BakeoffResults
from zelo_ray.commands.bakeoff.significance import (
    Significance,
    count_tested,
    significance_of,
    swap_rankers,
)
from zelo_ray.commands.bakeoff.slices import DIFFICULTY, RELEVANT
from zelo_ray.commands.bakeoff.thresholds import find_threshold
from zelo_ray.errors import InputError, Stopped
from zelo_ray.evaluation.measures import Truth, parse_measures
from zelo_ray.files.judgments import read_runs
from zelo_ray.files.storage import write_json
from zelo_ray.records import Document, Pool
from zelo_ray.reports.source import Source

QUERIES = [f"q{n}" for n in range(12)]
BROAD = [f"q{n}" for n in range(40)]
GRADES = {"a": 3.0, "b": 2.0, "c": 1.0, "d": 0.0}


def options_of(**fields):
    plain = {"truth": "t", "out": "o", "measures": ("nDCG@10", "R@2")}
    return BakeoffOptions(**plain | fields)


def truth_of(std_error=math.nan, queries=QUERIES, grades=GRADES):
    return Truth(qrels_of(dict.fromkeys(queries, grades), std_error))


def entry_of(name, orders, **fields):
    """An arm from the order of its documents for each query, such as {"q0": "abcd"}."""
    run = {q: {d: -n for n, d in enumerate(order)} for q, order in orders.items()}
    return MeasuredRanker(name, run_of(run), **fields)


def all_like(order):
    return dict.fromkeys(QUERIES, order)


def shuffled(chance):
    """Mostly right."""
    return "".join(sorted("abcd", key=lambda d: -GRADES[d] + chance.gauss(0, 0.8)))


def contest_of(*entries, truth=None, fields=None, **options):
    return measure(truth or truth_of(), list(entries), options_of(**options), fields or {})


def report_of(outcome, out):
    """The report of a bake-off that is written to a folder."""
    write_outcome(str(out), outcome)
    made = {"run_id": "r", "versions": {"zelo-ray": "1"}}
    options = options_of().model_dump(mode="json")
    write_json(str(out), "run.json", {**made, "options": options, **build_record(outcome, [], {})})
    return BAKEOFF_REPORT.read(str(out))


def mean_of(outcome, arm, name="nDCG@10"):
    (found,) = [m.mean for m in outcome.means if (m.run, m.measure) == (arm, name)]
    return found


def test_the_better_arm_wins_and_it_is_sure():
    outcome = contest_of(entry_of("worst", all_like("dcba")), entry_of("best", all_like("abcd")))
    assert outcome.leaderboard == ["best", "worst"]
    assert mean_of(outcome, "best") == 1.0
    (one,) = [c for c in outcome.comparisons if c.measure == "nDCG@10"]
    assert (one.run_a, one.run_b, one.queries) == ("worst", "best", 12)
    assert (one.wins, one.ties, one.losses) == (0, 0, 12)
    assert one.p_better < 0.001
    assert one.p_holm < 0.01
    assert outcome.complete


def test_a_query_that_an_arm_did_not_rank_counts_0_and_is_not_compared():
    some = dict.fromkeys(QUERIES[:9], "abcd")
    lost = [Unranked("some", q, "failed", "it broke", 6) for q in QUERIES[9:]]
    outcome = contest_of(entry_of("some", some, failures=lost), entry_of("all", all_like("abcd")))
    assert mean_of(outcome, "some") == pytest.approx(9 / 12)
    one = outcome.comparisons[0]
    assert (one.queries, one.difference, one.p) == (9, 0.0, 1.0)
    assert not outcome.complete
    told = build_record(outcome, [], {})["summary"]["rankers"][0]
    assert (told["answered"], told["missing"], told["failed"]) == (9, 3, 3)


def test_an_arm_that_never_ran_is_told_of_and_takes_no_part():
    outcome = contest_of(entry_of("ran", all_like("abcd")), entry_of("never", {}))
    assert outcome.ranker_names == ["ran"]
    assert not outcome.comparisons
    assert not outcome.complete
    assert "takes no part" in outcome.rankers[1].note


def test_a_contest_of_nobody_is_none():
    why = [Unranked("never", "q0", "failed", "no connection", 6)]
    with pytest.raises(Stopped, match=r"never: failed, no connection"):
        contest_of(entry_of("never", {}, failures=why))


def test_what_is_uncertain_about_labels_makes_a_winner_less_sure():
    close = (entry_of("one", all_like("abcd")), entry_of("other", all_like("abdc")))
    grades = {"a": 2.0, "b": 1.0, "c": 0.3, "d": 0.1}
    plain = {"measures": ("zelo_nDCG@10",)}
    sure = contest_of(*close, truth=truth_of(0.001, grades=grades), **plain)
    unsure = contest_of(*close, truth=truth_of(2.0, grades=grades), **plain)
    assert sure.label_draws == 200
    (one,), (other,) = sure.comparisons, unsure.comparisons
    assert (one.p_labels, significance_of(one)) == (1.0, Significance.ABOVE)
    assert 0.4 < other.p_labels < 0.9
    assert (other.p_holm, other.difference) == (one.p_holm, one.difference)
    assert significance_of(other) is Significance.LABELS_COULD_TURN_IT


def test_no_contest_is_too_large_for_draws_of_labels(monkeypatch):
    """What does not fit into memory at once is drawn one by one, and not left out."""
    import zelo_ray.commands.bakeoff

    close = (entry_of("one", all_like("abcd")), entry_of("other", all_like("abdc")))
    truth = truth_of(2.0, grades={"a": 2.0, "b": 1.0, "c": 0.3, "d": 0.1})
    plain = {"measures": ("zelo_nDCG@10",), "baseline": "other"}
    whole = contest_of(*close, truth=truth, **plain)
    monkeypatch.setattr(zelo_ray.commands.bakeoff, "_CELLS", 1)
    parts = contest_of(*close, truth=truth, **plain)
    assert parts.label_draws == 200
    assert (parts.comparisons, parts.gate) == (whole.comparisons, whole.gate)
    assert significance_of(parts.comparisons[0]) is Significance.LABELS_COULD_TURN_IT
    assert 0 < parts.gate[0].labels < 1


def test_results_by_a_field_and_by_difficulty():
    orders = {q: "abcd" if n % 2 else "dcba" for n, q in enumerate(QUERIES)}
    fields = {q: {"language": "en" if n % 2 else "de"} for n, q in enumerate(QUERIES)}
    outcome = contest_of(entry_of("arm", orders), fields=fields, slices=("language",))
    found = {(s.slice, s.value): s for s in outcome.slices if s.measure == "nDCG@10"}
    assert found["language", "en"].mean == 1.0
    assert found["language", "de"].mean < 0.7
    assert found["language", "de"].queries == 6
    easy, hard = found[DIFFICULTY, "easy"], found[DIFFICULTY, "hard"]
    assert (easy.mean, easy.queries, hard.queries) == (1.0, 4, 4)


def test_results_by_how_many_documents_are_relevant():
    few, many = {"a": 2.0, "b": 0.0}, {f"d{n}": 2.0 for n in range(7)}
    truth = {q: few if n < 8 else many for n, q in enumerate(QUERIES)}
    orders = {q: list(documents) for q, documents in truth.items()}
    outcome = contest_of(
        entry_of("arm", orders),
        truth=Truth(qrels_of(truth)),
        measures=("R(rel=2)@1",),
    )
    rows = [s for s in outcome.slices if s.measure != "Pairs"]
    found = {(s.slice, s.value): (s.mean, s.queries) for s in rows}
    assert found[RELEVANT, "1"] == (1.0, 8)
    assert found[RELEVANT, "6+"] == (pytest.approx(1 / 7), 4)
    scores = contest_of(entry_of("arm", orders), truth=truth_of(grades={"a": 1.5, "b": -0.5}))
    assert RELEVANT not in {s.slice for s in scores.slices}, "scores have no threshold"


def test_the_widest_differences_are_shown_with_their_documents():
    good, bad = all_like("abcd"), all_like("abcd") | {"q7": "dcba"}
    outcome = contest_of(entry_of("good", good), entry_of("bad", bad))
    assert contrasting_queries(outcome) == {"q7"}
    documents = tuple(Document(d, f"text of {d}") for d in "abcd")
    (one,) = build_contrasts(outcome, {"q7": Pool("q7", "why?", documents)})
    assert (one["query"], one["run_a"], one["run_b"]) == ("why?", "good", "bad")
    assert one["value_a"] == 1.0
    first = one["documents"][0]
    assert first == {
        "doc_id": "a", "text": "text of a", "relevance": 3.0, "rank_a": 1, "rank_b": 4
    }  # fmt: skip


def test_a_measure_by_which_all_are_equal_is_no_comparison(tmp_path):
    """R@4 of four documents is 1 whatever the order, and P@4 a half."""
    arms = [entry_of(order, all_like(order)) for order in ("abcd", "dcba", "badc")]
    outcome = contest_of(*arms, measures=("nDCG@10", "R@4", "P(rel=2)@4", "R@2"))
    report = report_of(outcome, tmp_path)
    results = BakeoffResults(Source(str(tmp_path)), report.record)
    assert results.equal_measures == ["R@4", "P(rel=2)@4"]
    rows = [row for rows in results.comparisons.values() for row in rows]
    # R@2 has one of two equal pairs: {a, b} are the first two of both
    assert (len(rows), count_tested(rows)) == (12, 5)
    alone = contest_of(*arms, measures=("nDCG@10", "R@2"))
    of = {(row.run_a, row.run_b, row.measure): row.p_holm for row in outcome.comparisons}
    for row in alone.comparisons:
        assert of[row.run_a, row.run_b, row.measure] == row.p_holm
    assert "R@4 and P(rel=2)@4" in report.table("differences").caption


@pytest.mark.parametrize(
    ("measures", "relevant_from"),
    [((), 2.0), (("nDCG@10", "R@10"), 1.0), (("nDCG@10",), 2.0), (("P(rel=3)@5",), 3.0)],
)
def test_a_contrast_marks_what_the_other_figures_count_as_relevant(measures, relevant_from):
    arms = (entry_of("good", all_like("abcd")), entry_of("bad", all_like("dcba")))
    outcome = contest_of(*arms, measures=measures)
    record = build_record(outcome, build_contrasts(outcome, {}), {})
    assert record["summary"]["truth"]["relevant_from"] == relevant_from


@pytest.mark.parametrize(
    ("measures", "grades", "threshold"),
    [
        (["nDCG@10", "AP(rel=2)", "RR"], GRADES, 2.0),
        (["nDCG@10", "RR"], GRADES, 1.0),
        (["R(k_gt=5)@10"], GRADES, 2.0),
        (["nDCG@10"], {"a": 1.0, "b": 0.0}, 1.0),
        (["nDCG@10", "AP"], {"a": 1.5, "b": -0.5}, None),
        (["AP(rel=0.5)"], {"a": 1.5, "b": -0.5}, 0.5),
    ],
)
def test_relevant_is_what_the_measures_take_for_it(measures, grades, threshold):
    assert find_threshold(parse_measures(measures), truth_of(grades=grades)) == threshold


def test_every_leaderboard_has_the_share_of_pairs_in_order_and_says_it(tmp_path):
    arms = (entry_of("good", all_like("abdc")), entry_of("bad", all_like("dcba")))
    outcome = contest_of(*arms, measures=("RR",))
    assert [str(measure) for measure in outcome.measures] == ["RR", "Pairs"]
    assert mean_of(outcome, "good", "Pairs") == pytest.approx(5 / 6)
    assert {row.measure for row in outcome.comparisons} == {"RR"}
    named = contest_of(*arms, measures=("RR", "Pairs"))
    assert {row.measure for row in named.comparisons} == {"RR", "Pairs"}
    report = report_of(outcome, tmp_path)
    [said] = report.section("leaderboard").parts[1].lines
    assert said == "good orders 83% [83%, 83%] of the pairs of documents as the truth does."
    assert "Pairs" in report.table("leaderboard").columns


def test_documents_that_nobody_judged_are_holes():
    outcome = contest_of(entry_of("arm", {"q3": "xaby"}), entry_of("other", all_like("abcd")))
    assert [(h.run, h.query_id, h.doc_id, h.rank) for h in outcome.unjudged] == [
        ("arm", "q3", "x", 1),
        ("arm", "q3", "y", 4),
    ]


def test_the_better_mean_may_belong_to_the_ranker_that_loses_where_both_ranked(tmp_path):
    """A mean counts 0 for what was not ranked; the verdict is about what both did."""
    half = dict.fromkeys(QUERIES[:8], "abcd")
    outcome = contest_of(entry_of("all", all_like("badc")), entry_of("half", half))
    assert outcome.leaderboard == ["all", "half"]
    one = outcome.comparisons[0]
    assert (one.run_a, one.queries, significance_of(one), significance_of(swap_rankers(one))) == (
        "all",
        8,
        Significance.BELOW,
        Significance.ABOVE,
    )
    report = report_of(outcome, tmp_path)
    assert report.lead[0].endswith("is below half (on 8 common queries).")
    row = report.table("differences").rows[0]
    assert ([cell.text for cell in row[:2]], row[2]) == (["half", "all"], "significant")
    [[ranker, queries, why]] = report.table("failures").rows
    assert (ranker.text, queries) == ("half", "4")
    assert why.text.startswith("missing: ")


def test_what_a_run_file_lacks_is_listed():
    outcome = contest_of(entry_of("half", dict.fromkeys(QUERIES[:11], "abcd")))
    (failure,) = outcome.rankers[0].failures
    assert (failure.query_id, failure.status) == ("q11", "missing")


def test_a_query_that_one_arm_did_not_rank_is_not_hard():
    outcome = contest_of(
        entry_of("all", {q: "abcd" if q == "q0" else "bacd" for q in QUERIES}),
        entry_of("some", dict.fromkeys(QUERIES[1:], "bacd")),
    )
    easy = [s for s in outcome.slices if (s.value, s.run, s.measure) == ("easy", "all", "nDCG@10")]
    assert easy[0].mean > mean_of(outcome, "all")


def test_among_many_arms_a_plain_difference_is_found():
    """Drawn signs have a smallest p, which the correction for hundreds of tests multiplies."""
    orders = {f"arm{n:02}": all_like("abcd") for n in range(30)}
    chance = random.Random(1)
    arms = [entry_of(name, {q: shuffled(chance) for q in BROAD}) for name in orders]
    arms.append(entry_of("reversed", dict.fromkeys(BROAD, "dcba")))
    outcome = contest_of(*arms, truth=truth_of(queries=BROAD), measures=("nDCG@10",))
    against = [c for c in outcome.comparisons if c.run_b == "reversed"]
    assert len(outcome.comparisons) == 31 * 30 / 2
    assert all(significance_of(c) is Significance.ABOVE for c in against)


def test_a_ranker_without_a_mean_comes_last_whatever_its_name(tmp_path):
    alike = truth_of(queries=QUERIES[:1], grades=dict.fromkeys("abcd", 1.0))
    arms = [entry_of(name, {"q0": "abcd"}) for name in "zya"]
    outcome = contest_of(*arms, truth=alike, measures=("Pairs",))
    assert outcome.leaderboard == ["a", "y", "z"]
    rows = report_of(outcome, tmp_path).table("leaderboard").rows
    assert all(math.isnan(row[1].value) for row in rows)


def test_labels_without_errors_are_taken_as_they_are():
    """What is sure is so over the queries alone."""
    close = (entry_of("one", all_like("abcd")), entry_of("other", all_like("abdc")))
    outcome = contest_of(*close, truth=truth_of(math.nan), measures=("nDCG@10",))
    (one,) = outcome.comparisons
    assert outcome.label_draws == 0
    assert math.isnan(one.p_labels)
    assert significance_of(one) is Significance.ABOVE


def test_a_pair_that_differs_is_shown_though_the_leader_is_in_none(tmp_path):
    arms = [entry_of(name, all_like("abcd")) for name in ("lead", "second", "third")]
    outcome = contest_of(*arms)
    _, *others = outcome.leaderboard
    outcome.comparisons = [
        replace(one, difference=-0.1, p_holm=0.01, queries=40, p_labels=math.nan)
        if {one.run_a, one.run_b} == {*others}
        else one
        for one in outcome.comparisons
    ]
    (pair,) = {(c.run_a, c.run_b) for c in outcome.comparisons if {c.run_a, c.run_b} == {*others}}
    rows = report_of(outcome, tmp_path).table("differences").rows
    [(above, below, difference)] = [
        (row[0].text, row[1].text, row[3].value) for row in rows if row[2] == "significant"
    ]
    assert (below, above, difference) == (*pair, pytest.approx(0.1))


def test_two_runs_of_one_tag_get_names(tmp_path):
    for name in ("a", "k1=2"):
        (tmp_path / f"{name}.run").write_text("q Q0 d 1 1.0 same\n")
    one, odd = str(tmp_path / "a.run"), str(tmp_path / "k1=2.run")
    with pytest.raises(InputError, match="--runs NAME=FILE"):
        read_runs([one, odd])
    assert [*read_runs([f"old={one}", odd])] == ["old", "same"]
    (tmp_path / "two.csv").write_text("run,query_id,doc_id,score\nx,q,d,1\ny,q,d,1\n")
    with pytest.raises(InputError, match="holds 2 runs"):
        read_runs([f"old={tmp_path / 'two.csv'}"])
