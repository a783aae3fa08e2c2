"""Warnings on pages: the figures that runs leave, as warnings read them."""

import json

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.builders import pool_of, results_of, set_in_file, write_run
from tests.test_bakeoff_report import write_bakeoff
from tests.test_report_graded import write_graded
from tests.test_warnings import box
from zelo_ray import cli
from zelo_ray.commands.annotate.report import warnings
from zelo_ray.commands.annotate.report.asking_warnings import warn_of_asking
from zelo_ray.commands.bakeoff.report.results import BakeoffResults
from zelo_ray.commands.bakeoff.report.warnings import rank_bakeoff_warnings
from zelo_ray.commands.compare_protocols.report import rank_warnings_of
from zelo_ray.commands.report import write_report
from zelo_ray.engine.bookkeeping import budget_used_up
from zelo_ray.engine.write_results import Summary
from zelo_ray.formats.tables import table_of
from zelo_ray.reasons import Unscored, UnscoredReason
from zelo_ray.records import Comparison, Grade
from zelo_ray.reports.source import Source
from zelo_ray.reports.warning_codes import WarningCode as Code


def regraded(out, judges, grade_of):
    """A graded run whose judges grade by the place of a document; its box."""
    write_graded(out, queries=20, documents=10, judges=judges)
    rows = [
        Grade(f"q{q}", f"d{d}", judge, grade_of(judge, d), ("x",), (), "why", "key")
        for q in range(20)
        for d in range(10)
        for judge in judges
    ]
    pq.write_table(table_of(rows, Grade), out / "grades.parquet")
    write_report(str(out))
    return box(out)


def test_a_grader_with_one_grade_for_everything_is_named(tmp_path):
    judges = ("openai:one", "anthropic:two")
    shown = regraded(tmp_path, judges, lambda judge, d: 3 if judge == judges[0] else d % 4)
    assert "openai:one gave grade 3 to every document" in shown
    assert "anthropic:two gave" not in shown


def test_judges_that_say_the_same_count_as_one_whatever_their_families(tmp_path):
    judges = ("openai:one", "anthropic:two", "gemini:three")
    shown = regraded(tmp_path, judges, lambda _, d: d % 4)
    assert Code.JUDGES_ALIKE.text.format(judges=3, same=1.0, items=200) in shown
    assert "worth between" not in (tmp_path / "report.html").read_text()


def test_one_good_judge_stands_against_two_that_are_inverted(tmp_path):
    judges = ("openai:one", "anthropic:two", "gemini:three")
    inverted = ("openai:one", "anthropic:two")
    shown = regraded(tmp_path, judges, lambda judge, d: 3 - d % 4 if judge in inverted else d % 4)
    assert "anthropic:two and openai:one contradict gemini:three" in shown


def test_a_judge_that_calls_everything_a_tie_is_named(tmp_path):
    pools = [pool_of((1,) * 6, f"q{i}") for i in range(5)]
    write_run(tmp_path, results_of(tmp_path, pools))
    write_report(str(tmp_path))
    assert "called every comparison a tie" in box(tmp_path)


def test_judges_of_an_earlier_run_count_as_judges(tmp_path):
    pools = [pool_of(range(8), f"q{i}") for i in range(5)]
    write_run(tmp_path, results_of(tmp_path, pools))
    write_report(str(tmp_path))
    assert "The 3 judges say nearly the same" in box(tmp_path), "one is of this run alone"


@pytest.mark.parametrize(
    ("cycles", "documents", "said"),
    [(4, 30, "--cycles 8 asks"), (4, 9, "--repeats 2 and more judges"), (4, 10, "--cycles 8")],
)
def test_more_cycles_are_advised_only_where_pairs_are_left(cycles, documents, said):
    assert warnings._more({"cycles", "repeats"}, {"cycles": cycles}, documents).startswith(said)


def test_a_used_up_budget_has_one_cause_and_one_mend():
    why, none = budget_used_up(1.5), Unscored.because(UnscoredReason.NO_VOTES)
    summary = Summary("", 9, judgments_by_judge={"x": {"votes": 10}})
    summary.failures_by_judge, summary.disabled = {"x": {"failed": 90}}, {"x": why}
    summary.unscored = {f"q{i}": none for i in "ab"}
    unscored, stopped = warn_of_asking(summary)
    assert stopped.code is Code.BUDGET_USED_UP
    assert stopped.text.startswith("The budget of $1.50 is used up before x ")
    assert unscored.advice == stopped.advice
    assert "higher --max-usd" in stopped.advice


def test_queries_without_scores_are_told_by_the_kind_of_their_reason():
    low = UnscoredReason.LOW_COVERAGE
    few = {f"q{i}": Unscored.because(low, judged=i, asked=12) for i in "123"}
    [found] = warn_of_asking(Summary("", 9, unscored=few))
    assert found.text == "3 queries have no scores"
    assert found.consequence.startswith("fewer than half of their requests")
    assert found.consequence.endswith("(min_coverage)")
    none = Unscored.because(UnscoredReason.NO_DOCUMENTS)
    [found] = warn_of_asking(Summary("", unscored={**few, "z": none}), 0.8)
    assert found.consequence.startswith("less than 80% of their requests")
    assert found.consequence.endswith("(3); they hold no documents (1)")


def test_new_labels_in_logits_contradict_nothing_until_they_are_cut(tmp_path):
    (tmp_path / "old.qrels").write_text("".join(f"q{i} 0 d 2\nq{i} 0 e 0\n" for i in range(9)))
    (tmp_path / "new.qrels").write_text(
        "".join(f"q{i} 0 d 0.{i}1\nq{i} 0 e -1.5\n" for i in range(9))
    )
    (tmp_path / "a.run").write_text("".join(f"q{i} Q0 d 1 1 a\n" for i in range(9)))
    words = [f"--{name}={tmp_path}/{name}.qrels" for name in ("old", "new")]
    words += ["--runs", f"{tmp_path}/a.run", *set_in_file(resamples=100)]
    for name, more in (("plain", []), ("cut", ["--relevant=2"])):
        assert cli.main(["compare-labels", *words, *more, f"--out={tmp_path}/{name}"]) == 0
    assert "contradict the old ones" not in box(tmp_path / "plain")
    assert "contradict the old ones in 9 of 9" in box(tmp_path / "cut")


def test_a_comparison_of_protocols_on_demonstration_judges_says_so():
    record = {"options": {"judges": ["offline:bm25", "offline:chargram"]}}
    [found] = rank_warnings_of(record, [{"protocol": "zelo", "judged": 9, "items": 10}]).every
    assert found.code is Code.DEMONSTRATION
    assert found.text == "Every judge asked only matches words"


def test_a_contest_counts_what_arms_rank(tmp_path):
    arms, _ = write_bakeoff(tmp_path, queries=60)
    ranked = [{"run": arms[0], "query_id": f"q{i}", "doc_id": f"d{d}", "score": -float(d)}
              for i in range(60) for d in range(4)]  # fmt: skip
    unjudged = [{"run": arms[0], "query_id": f"q{i}", "doc_id": "d3", "rank": 4} for i in range(60)]
    for name, rows in (("runs", ranked), ("unjudged", unjudged)):
        pq.write_table(pa.Table.from_pylist(rows), tmp_path / f"{name}.parquet")
    write_report(str(tmp_path))
    assert f"(share judged: {arms[0]} 0.75)" in box(tmp_path)


def test_labels_of_people_decide_where_they_correct_the_panel(tmp_path):
    arms, _ = write_bakeoff(tmp_path)
    rows = pq.read_table(tmp_path / "comparisons.parquet").to_pylist()
    sure = [{**row, "estimate": "corrected", "p_holm": 0.001} for row in rows]
    doubtful = [{**row, "p_holm": 0.001, "p_labels": 0.6} for row in rows]
    table = table_of([Comparison(**row) for row in doubtful + sure], Comparison)
    pq.write_table(table, tmp_path / "comparisons.parquet")
    run = json.loads((tmp_path / "run.json").read_text())
    results = BakeoffResults(Source(str(tmp_path)), run)
    assert "let people label them" in " ".join(
        one.advice for one in rank_bakeoff_warnings(results).every
    )
    run["summary"]["people"] = {"way": "queries", "measures": ["nDCG@10"], "leader": arms[0]}
    told = [
        one.text for one in rank_bakeoff_warnings(BakeoffResults(Source(str(tmp_path)), run)).every
    ]
    assert not [what for what in told if "not s" in what]
