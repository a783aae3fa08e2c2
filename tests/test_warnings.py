"""Warnings about results: the code just above each limit, none just below it; and their order."""

import pyarrow.parquet as pq
import pytest

from tests.builders import pool_of, results_of, write_run
from tests.results import write_graded
from tests.test_report import evil_pool, report
from zelo_ray import cli
from zelo_ray.commands import report_of_kind
from zelo_ray.commands.agree.report.warnings import warn_of_agreement, warn_of_biases
from zelo_ray.commands.annotate.report import ANNOTATE_REPORT
from zelo_ray.commands.annotate.report.asking_warnings import warn_of_asking
from zelo_ray.commands.annotate.report.panel_warnings import JudgingFigures
from zelo_ray.commands.annotate.report.warnings import warn_of_judging
from zelo_ray.commands.compare_labels.report import warn_of_labels
from zelo_ray.commands.compare_protocols.report import rank_warnings_of, warn_of_protocols
from zelo_ray.engine.bookkeeping import budget_used_up
from zelo_ray.engine.write_results import Summary
from zelo_ray.files.tables import table_of
from zelo_ray.reasons import Disabled, StopReason, Unscored, UnscoredReason
from zelo_ray.records import Grade
from zelo_ray.reports.warning import ResultWarning, rank_warnings
from zelo_ray.reports.warning_codes import WarningCode as Code

NO_VOTES = {"q": Unscored.because(UnscoredReason.NO_VOTES)}
THREE = ("a", "b", "c")


def codes(warnings):
    return [warning.code for warning in warnings]


ASKED = [  # above the limit, below it
    (Code.ANSWERS_MISSING,
     {"failures_by_judge": {"x": {"invalid": 21}}, "answers_by_judge": {"x": 79}},
     {"failures_by_judge": {"x": {"invalid": 5}}, "answers_by_judge": {"x": 95}}),
    (Code.UNSCORED_QUERIES, {"unscored": NO_VOTES, "queries": 9}, {"queries": 9}),
    (Code.JUDGE_STOPPED, {"disabled": {"x": Disabled(StopReason.FATAL, "no money")}}, {}),
    (Code.BUDGET_USED_UP, {"disabled": {"x": budget_used_up(1.5)}}, {}),
    (Code.LINES_REJECTED, {"rejected": 2}, {}),
]  # fmt: skip
JUDGED = [
    (Code.JUDGE_PREFERS_PLACE, {"first_wins": {"x": (370, 1000)}},
     {"first_wins": {"x": (430, 1000)}}),
    (Code.JUDGE_PREFERS_PLACE, {"first_wins": {"x": (48, 60)}}, {"first_wins": {"x": (40, 60)}}),
    (Code.JUDGE_FOLLOWS_ORDER, {"first_wins": {"x": (30, 30)}}, {"first_wins": {"x": (29, 29)}}),
    (Code.JUDGE_FOLLOWS_ORDER, {"judges": ["x"], "first_wins": {"x": (5, 100)}}, {}),
    (Code.JUDGES_CONTRADICT, {"pair_agreement": {("x", "y"): (0.38, 0.35, 0.41)}},
     {"pair_agreement": {("x", "y"): (0.43, 0.40, 0.46)}}),
    (Code.JUDGES_CONTRADICT, {"grade_correlations": {("x", "y"): (-0.4, -0.6, -0.2)}},
     {"grade_correlations": {("x", "y"): (-0.3, -0.6, 0.0)}}),
    (Code.JUDGES_ALIKE, {"judges": THREE, "mean_agreement": (0.98, 100)},
     {"judges": THREE, "mean_agreement": (0.98, 99)}),
    (Code.JUDGES_ALIKE, {"judges": THREE, "mean_agreement": (0.97, 500)},
     {"judges": THREE, "mean_agreement": (0.96, 500)}),
    (Code.MOSTLY_NOISE, {"error": 0.69, "spread": 0.75, "degrees_of_freedom": 290, "prior": 2.5},
     {"error": 0.97, "spread": 1.98, "degrees_of_freedom": 300, "prior": 2.5}),
    (Code.MOSTLY_NOISE, {"error": 0.9, "spread": 0.8, "degrees_of_freedom": 900},
     {"error": 0.9, "spread": 0.8, "degrees_of_freedom": 20}),
    (Code.JUDGE_SAYS_ONE_THING, {"one_answer": {"x": "gave grade 3 to every document"}}, {}),
    (Code.DEMONSTRATION, {"judges": ["offline:bm25"]}, {"judges": ["openai:gpt"]}),
    (Code.DEMONSTRATION, {"judges": ["recorded:x"]}, {"judges": ["openai:recorded"]}),
    (Code.DEMONSTRATION, {"judges": ["simulated:x", "openai:y"]}, {"judges": ["openai:y"]}),
]  # fmt: skip


def test_each_is_said_from_its_limit_on():
    for table, found in (
        (ASKED, lambda fields: warn_of_asking(Summary("", **fields))),
        (JUDGED, lambda fields: warn_of_judging(JudgingFigures(**fields))),
    ):
        for code, above, below in table:
            assert code in codes(found(above)), (code, above)
            assert codes(found(below)) == [], (code, below)


def test_a_judge_that_follows_the_order_is_measured():
    for share in (0.95, 0.05):
        figures = JudgingFigures(judges=["x"], first_wins={"x": (100 * share, 100)})
        [found] = warn_of_judging(figures)
        assert (found.values["side"], found.values["share"]) == ("AB"[share < 0.5], 0.95)
        assert found.harm >= 80


def test_sides_that_contradict_are_named():
    for apart, said in (
        (("ac", "bc"), "a and b contradict c:"),
        (("ab", "ac"), "b and c contradict a"),
        (("ac", "bd", "ad", "bc"), "a and b contradict c and d"),
    ):
        spans = {tuple(two): (0.3, 0.2, 0.4) for two in apart} | {("a", "e"): (0.8, 0.7, 0.9)}
        [found] = warn_of_judging(JudgingFigures(pair_agreement=spans))
        assert found.text.startswith(said)


def row(**fields):
    return {"judge": "x", "rater_b": "x", "against": "", "items": 99, **fields}


def test_biases_are_said_where_the_whole_interval_matters():
    for code, bias, against, above, below in (
        (Code.JUDGE_PREFERS_PLACE, "first", "", (0.37, 0.34, 0.40), (0.43, 0.40, 0.46)),
        (Code.FLIPS, "flips", "", (0.4, 0.3, 0.5), (0.4, 0.2, 0.5)),
    ):
        rows = [
            row(bias=bias, against=against, value=value, low=low, high=high)
            for value, low, high in (above, below)
        ]
        assert codes(warn_of_biases(rows[:1])) == [code]
        assert codes(warn_of_biases(rows[1:])) == []
        assert codes(warn_of_biases([rows[0] | {"items": 3}])) == []


def test_judges_at_chance():
    good, poor = row(value=0.6, low=0.5, high=0.7), row(value=0.1, low=-0.1, high=0.19)
    inverted = row(value=-0.4, low=-0.5, high=-0.3)
    wide = row(value=0.63, low=0.0, high=1.0, items=10)
    for rows, found in (
        ([good], []),
        ([good, poor], [Code.NOT_ABOVE_CHANCE]),
        ([poor, poor], [Code.NO_JUDGE_ABOVE_CHANCE]),
        ([good, inverted], [Code.BELOW_CHANCE]),
        ([wide], [Code.TOO_FEW_ITEMS]),
        ([wide, wide], [Code.TOO_FEW_ITEMS]),
    ):
        assert codes(warn_of_agreement(rows, "people", "kappa")) == found


def test_labels_that_turn_an_order():
    counts = {"queries": 100, "queries_contradicted": 10, "turned": 0}
    record = {"counts": counts, "uncut": [], "missing": {}}
    assert codes(warn_of_labels(record, ("a", "a"))) == []
    turned = {**counts, "turned": 1, "queries_contradicted": 11}
    found = codes(warn_of_labels({**record, "counts": turned}, ("a", "b")))
    assert found == [Code.PAIRS_TURNED, Code.LEADER_CHANGED, Code.LABELS_CONTRADICT]
    many = {**counts, "queries_contradicted": 99}
    assert codes(warn_of_labels({**record, "counts": many, "uncut": ["new"]}, None)) == []


def test_protocols_that_judged_little():
    rows = [{"protocol": name, "judged": 9, "items": 10} for name in "ab"]
    assert codes(warn_of_protocols(rows)) == []
    assert codes(warn_of_protocols([rows[0], {**rows[1], "judged": 8}])) == [Code.FEW_ITEMS_JUDGED]
    record = {"options": {"judges": ["offline:bm25", "offline:chargram"]}}
    assert codes(rank_warnings_of(record, rows[:1]).every) == [Code.DEMONSTRATION]


# As they are read from results


def found_in(out, read=ANNOTATE_REPORT.read):
    return codes(read(str(out)).warnings.every)


@pytest.mark.parametrize(
    ("code", "grade_of"),
    [
        (Code.JUDGE_SAYS_ONE_THING, lambda place, d: d % 4 if place else 3),
        (Code.JUDGES_ALIKE, lambda _, d: d % 4),
        (Code.JUDGES_CONTRADICT, lambda place, d: d % 4 if place == 2 else 3 - d % 4),
    ],
)
def test_graders_are_compared(tmp_path, code, grade_of):
    judges = ("openai:one", "anthropic:two", "gemini:three")
    write_graded(tmp_path, queries=20, documents=10, judges=judges)
    rows = [
        Grade(f"q{q}", f"d{d}", judge, grade_of(place, d), ("x",), (), "why", "key")
        for q in range(20)
        for d in range(10)
        for place, judge in enumerate(judges)
    ]
    pq.write_table(table_of(rows, Grade), tmp_path / "grades.parquet")
    assert code in found_in(tmp_path)


@pytest.mark.parametrize(
    ("code", "worths"), [(Code.JUDGE_SAYS_ONE_THING, (1,) * 6), (Code.JUDGES_ALIKE, range(8))]
)
def test_voters_are_compared(tmp_path, code, worths):
    write_run(tmp_path, results_of(tmp_path, [pool_of(worths, f"q{i}") for i in range(5)]))
    assert code in found_in(tmp_path)


def test_new_labels_in_logits_contradict_only_where_cut(tmp_path):
    for name, better, worse in (("old", "2", "0"), ("new", "0.{}1", "-1.5")):
        lines = (f"q{i} 0 d {better.format(i)}\nq{i} 0 e {worse}\n" for i in range(9))
        (tmp_path / f"{name}.qrels").write_text("".join(lines))
    (tmp_path / "a.run").write_text("".join(f"q{i} Q0 d 1 1 a\n" for i in range(9)))
    words = [f"--{name}={tmp_path}/{name}.qrels" for name in ("old", "new")]
    words += ["--runs", f"{tmp_path}/a.run"]
    for name, more in (("plain", []), ("cut", ["--relevant=2"])):
        assert cli.main(["compare-labels", *words, *more, f"--out={tmp_path}/{name}"]) == 0
        found = found_in(tmp_path / name, report_of_kind("compare").read)
        assert (Code.LABELS_CONTRADICT in found) == (name == "cut")


# As they are shown


def test_the_worst_comes_first_and_only_five_stand_open():
    found = [Code.QUERY_IN_ITS_POOL, Code.FLIPS, Code.LINES_REJECTED, Code.TRUTH_CHANGED]
    found += [Code.JUDGES_ALIKE, Code.REVERSED_RANKS]
    ranked = rank_warnings([ResultWarning(code) for code in found], "")
    assert [one.harm for one in ranked.first] == [94, 52, 50, 50, 48]
    assert codes(ranked.rest) == [Code.QUERY_IN_ITS_POOL]
    assert len(Code) == len(Code.__members__), "equal sentences would make one of two codes"


def test_a_page_escapes_them(tmp_path):
    report(tmp_path, [evil_pool()], say=lambda _: "refused")
    page = (tmp_path / "report.html").read_text()
    box = page[page.index('<div class="warnings') : page.index('<div class="lead">')]
    assert "100% of openai:one&#39;s answers" in box
    assert "<script" not in box
