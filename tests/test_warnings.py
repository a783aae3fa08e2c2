"""Warnings about results: each just above its limit, none just below it; and their order."""

import json
from dataclasses import replace

import pytest

from tests.builders import pool_of
from tests.test_bakeoff_report import write_bakeoff
from tests.test_report import EVIL, evil_pool, report
from tests.test_report_agreement import agree
from tests.test_report_relabelling import compare_labels
from zelo_ray.commands.agree.report.warnings import warn_of_agreement, warn_of_biases
from zelo_ray.commands.annotate.report.asking_warnings import warn_of_asking
from zelo_ray.commands.annotate.report.panel_warnings import JudgingFigures
from zelo_ray.commands.annotate.report.warnings import warn_of_judging
from zelo_ray.commands.bakeoff.report.warnings import RankerFigures, warn_of_rankers
from zelo_ray.commands.compare_labels.report import warn_of_labels
from zelo_ray.commands.compare_protocols.report import warn_of_protocols
from zelo_ray.commands.report import write_report
from zelo_ray.engine.write_results import Summary
from zelo_ray.reasons import Disabled, StopReason, Unscored, UnscoredReason
from zelo_ray.records import Comparison, Document, Pool
from zelo_ray.reports.warning import ResultWarning, rank_warnings, terminal_lines
from zelo_ray.reports.warning_codes import WarningCode as Code

NO_VOTES = Unscored.because(UnscoredReason.NO_VOTES)

THREE = ("a", "b", "c")


def told(warnings):
    return " | ".join(map(str, warnings))


def shows(warnings, wanted):
    """Whether one of the warnings has such a code, or shows such figures; or all of several."""
    parts = wanted if isinstance(wanted, tuple) else (wanted,)
    return any(
        all(
            warning.code is part if isinstance(part, Code) else part in str(warning)
            for part in parts
        )
        for warning in warnings
    )


@pytest.mark.parametrize(
    ("above", "below", "said"),
    [
        ({"failures_by_judge": {"x": {"invalid": 21}}, "answers_by_judge": {"x": 79}},
         {"failures_by_judge": {"x": {"invalid": 5}}, "answers_by_judge": {"x": 95}},
         "21% of x's answers are missing (21 invalid)"),
        ({"unscored": {"q": NO_VOTES}, "queries": 9}, {"queries": 9}, "1 query has no scores"),
        ({"disabled": {"x": Disabled(StopReason.FATAL, "no money")}}, {}, "x stopped (no money)"),
        ({"rejected": 2}, {}, "(first in.jsonl:4"),
    ],
)  # fmt: skip
def test_what_went_missing_is_said_from_its_limit_on(above, below, said):
    first = "in.jsonl:4, no query"
    assert shows(warn_of_asking(Summary("", **above), first_rejected=first), said)
    assert not [*warn_of_asking(Summary("", **below), first_rejected=first)]


@pytest.mark.parametrize(
    ("above", "below", "said"),
    [
        ({"first_wins": {"x": (370, 1000)}}, {"first_wins": {"x": (430, 1000)}},
         (Code.JUDGE_PREFERS_PLACE, "x prefers what comes second", "won .37 [.34, .40]")),
        ({"first_wins": {"x": (48, 60)}}, {"first_wins": {"x": (40, 60)}},
         Code.JUDGE_PREFERS_PLACE),
        ({"pair_agreement": {("x", "y"): (0.38, 0.35, 0.41)}},
         {"pair_agreement": {("x", "y"): (0.43, 0.40, 0.46)}},
         (Code.JUDGES_CONTRADICT, "x contradicts y", ".38 [.35, .41] of pairs")),
        ({"grade_correlations": {("x", "y"): (-0.4, -0.6, -0.2)}},
         {"grade_correlations": {("x", "y"): (-0.3, -0.6, 0.0)}},
         (Code.JUDGES_CONTRADICT, "x contradicts y", "correlate by -.40 [-.60, -.20]")),
        ({"judges": THREE, "mean_agreement": (0.98, 100)},
         {"judges": THREE, "mean_agreement": (0.98, 99)},
         Code.JUDGES_ALIKE),
        ({"judges": THREE, "mean_agreement": (0.97, 500)},
         {"judges": THREE, "mean_agreement": (0.96, 500)}, "(0.97"),
        ({"error": 0.69, "spread": 0.75, "degrees_of_freedom": 290, "prior": 2.5},
         {"error": 0.97, "spread": 1.98, "degrees_of_freedom": 300, "prior": 2.5},
         "0.75 logits, is noise"),
        ({"error": 0.9, "spread": 0.8, "degrees_of_freedom": 900},
         {"error": 0.9, "spread": 0.8, "degrees_of_freedom": 20},
         Code.MOSTLY_NOISE),
        ({"one_answer": {"x": "gave grade 3 to every document"}}, {}, Code.JUDGE_SAYS_ONE_THING),
        ({"judges": ["offline:bm25"]}, {"judges": ["openai:gpt"]}, Code.DEMONSTRATION),
        ({"judges": ["recorded:x"]}, {"judges": ["openai:recorded"]}, Code.DEMONSTRATION),
        ({"judges": ["simulated:x", "openai:y"]}, {"judges": ["openai:y"]},
         Code.DEMONSTRATION),
        ({"judges": ["simulated:x", "offline:y", "offline:z"]}, {"judges": ["openai:y"]},
         (Code.DEMONSTRATION, "Every judge", "2 only match words", "1 draws its answers")),
    ],
)  # fmt: skip
def test_what_judges_are_like_is_said_from_its_limit_on(above, below, said):
    assert shows(warn_of_judging(JudgingFigures(**above)), said)
    assert not [*warn_of_judging(JudgingFigures(**below))]


@pytest.mark.parametrize("share", [0.95, 0.05])
def test_a_judge_that_follows_the_order_alone_gives_noise_that_no_repeats_mend(share):
    orders = "Ask each pair in both orders (--repeats 2)"
    [found] = warn_of_judging(
        JudgingFigures(judges=["x"], first_wins={"x": (100 * share, 100)}, order_advice=orders)
    )
    assert found.code is Code.JUDGE_FOLLOWS_ORDER
    assert (found.values["side"], found.values["share"]) == ("AB"[share < 0.5], 0.95)
    assert found.harm >= 80
    assert "repeats" not in found.advice
    [mild] = warn_of_judging(
        JudgingFigures(judges=["x"], first_wins={"x": (94, 100)}, order_advice=orders)
    )
    assert "repeats" in mild.advice


@pytest.mark.parametrize(
    ("apart", "said"),
    [
        (["ac", "bc"], "a and b contradict c: they agree on .30 of pairs"),
        (["ab", "ac"], "b and c contradict a"),
        (["ac", "bd", "ad", "bc"], "a and b contradict c and d"),
    ],
)
def test_sides_that_contradict_are_named_and_neither_is_called_wrong(apart, said):
    spans = {tuple(two): (0.3, 0.2, 0.4) for two in apart}
    spans["a", "e"] = (0.8, 0.7, 0.9)
    [found] = warn_of_judging(JudgingFigures(pair_agreement=spans))
    assert found.text.startswith(said)


def test_a_handful_of_votes_says_nothing_of_the_order():
    assert not [*warn_of_judging(JudgingFigures(first_wins={"x": (29, 29)}))]
    assert [*warn_of_judging(JudgingFigures(first_wins={"x": (30, 30)}))]


def compared(p=0.4, difference=0.02, reach=0.04, queries=50, p_labels=float("nan"), kin=""):
    ends = (difference - reach, difference + reach)
    row = ("a", "b", "nDCG@10", 0.5, 0.5 - difference, difference, *ends, p, p, 0.8)
    return Comparison(*row, p_labels, queries, 20, 10, 20, kin=kin)


@pytest.mark.parametrize(
    ("above", "below", "said"),
    [
        ({"rivals": [compared()]}, {"rivals": [compared(p=0.01)]}, "about 410 queries"),
        ({"rivals": [compared(p=0.01, p_labels=0.7)]}, {"rivals": [compared(p=0.01)]},
         Code.LEAD_UNSURE_BY_LABELS),
        ({"rivals": [compared(p=0.01, kin="gpt")]}, {"rivals": [compared(p=0.01)]},
         Code.LEAD_ONLY_BY_KIN),
        ({"rivals": [compared(queries=2)]}, {"rivals": []}, Code.TOO_FEW_QUERIES),
        ({"missing": {"a": 1}}, {"missing": {"a": 0}}, "a ranked 49 of 50 queries"),
        ({"missing": {"a": 50}}, {"missing": {"a": 0}}, "a ranked none of 50 queries"),
        ({"missing": {"a": 0}, "unjudged": {"a": 190}},
         {"missing": {"a": 0}, "unjudged": {"a": 55}},
         "(share judged: a 0.62)"),
    ],
)  # fmt: skip
def test_what_a_contest_cannot_tell_is_said_from_its_limit_on(above, below, said):
    assert shows(warn_of_rankers(RankerFigures(50, "nDCG@10", **above)), said)
    assert not [*warn_of_rankers(RankerFigures(50, "nDCG@10", **below))]


def contest(*rivals, **more):
    return told(warn_of_rankers(RankerFigures(50, "nDCG@10", rivals, **more)))


def test_the_leader_alone_is_spoken_of_and_the_cheapest_advised_only_where_nothing_is_sure():
    assert "The leader a is not significantly above" in contest(compared(), compared())
    assert "until then take the cheapest" in contest(compared(), compared())
    assert "cheapest" not in contest(compared(), compared(), any_significant=True)
    gated = contest(compared(), compared(), has_gate=True)
    assert "whether one may replace the baseline, the gate says by itself" in gated
    assert "cheapest" not in gated, "a gate may say that another one is better"


def test_more_queries_are_counted_after_the_correction():
    said = contest(compared())
    assert "about 410 queries" in said
    assert "in 80% of bake-offs" in said
    assert "about 880 queries" in contest(compared(), compared=45), "3.26 + 0.84 errors, not 1.96"
    for level, half in ((0.8, 1.2816), (0.99, 2.5758)):
        one = compared()
        reach = (one.high - one.low) / 2 / 1.96 * half
        wide = replace(one, low=one.difference - reach, high=one.difference + reach)
        assert "about 410 queries" in contest(wide, confidence=level)
    near = replace(compared(), p=0.03)
    said = contest(near, compared(), compared=20)
    assert "p = 0.03 before the correction for 20" in said
    assert "name fewer measures or rankers" in said
    assert "about" not in said


def test_unjudged_documents_are_a_share_of_those_that_are_ranked():
    few = {"missing": {"a": 0}, "unjudged": {"a": 50}}
    assert not contest(**few)
    assert "(share judged: a 0.75)" in contest(**few, ranked={"a": 200})


def test_only_what_a_model_answers_is_to_be_asked_again():
    arms = RankerFigures(50, missing={"bm25": 9, "mine": 9}, asked=("bm25",))
    by_arm = {one.text.partition(" ")[0]: one.advice for one in warn_of_rankers(arms)}
    assert by_arm["bm25"].startswith("Run the same command again")
    assert by_arm["mine"].startswith("They are not in its run")


def row(**fields):
    return {"judge": "x", "rater_b": "x", "against": "", "items": 99, **fields}


@pytest.mark.parametrize(
    ("bias", "against", "above", "below", "said"),
    [
        ("first", "", (0.37, 0.34, 0.40), (0.43, 0.40, 0.46), Code.JUDGE_PREFERS_PLACE),
        ("flips", "", (0.4, 0.3, 0.5), (0.4, 0.2, 0.5), Code.FLIPS),
        ("length", "human", (0.3, 0.2, 0.4), (0.3, 0.05, 0.4), Code.LENGTH_BIAS),
    ],
)
def test_biases_are_said_where_the_whole_interval_matters(bias, against, above, below, said):
    rows = [
        [row(bias=bias, against=against, value=value, low=low, high=high)]
        for value, low, high in (above, below)
    ]
    assert shows(warn_of_biases(rows[0], []), said)
    assert not [*warn_of_biases(rows[1], [])]
    assert not [*warn_of_biases([{**rows[0][0], "items": 3}], [])], "too few to say"


def test_a_judge_that_is_no_better_than_chance_is_named_and_so_is_such_a_panel():
    good, poor = (row(value=0.6, low=0.5, high=0.7), row(value=0.1, low=-0.1, high=0.19))
    assert not [*warn_of_agreement([good], "people", "kappa")]
    assert shows(warn_of_agreement([good, poor], "", "k"), Code.NOT_ABOVE_CHANCE)
    assert shows(warn_of_agreement([poor, poor], "people", "k"), Code.NO_JUDGE_ABOVE_CHANCE)
    inverted = row(value=-0.4, low=-0.5, high=-0.3)
    assert shows(warn_of_agreement([good, inverted], "people", "k"), Code.BELOW_CHANCE)
    [two] = warn_of_agreement([good, poor, {**poor, "rater_b": "y"}], "people", "kappa")
    assert two.text.startswith("x, y agree with people no better")


def test_a_judge_on_few_items_is_not_called_useless():
    wide = row(value=0.63, low=0.0, high=1.0, items=10)
    for rows in ([wide], [wide, wide]):
        [found] = warn_of_agreement(rows, "people", "kappa")
        assert found.code is Code.TOO_FEW_ITEMS
        assert found.values["items"] == "10 items"


def test_labels_that_turn_an_order_are_said():
    counts = {"queries": 100, "queries_contradicted": 10, "turned": 0}
    record = {"counts": counts, "uncut": [], "missing": {}}
    assert not [*warn_of_labels(record, ("a", "a"))]
    turned = {**counts, "turned": 1, "queries_contradicted": 11}
    warnings = [*warn_of_labels({**record, "counts": turned}, ("a", "b"))]
    for said in ("1 pair of runs is", Code.LEADER_CHANGED, "in 11 of 100 queries"):
        assert shows(warnings, said)
    many = {**counts, "queries_contradicted": 99}
    assert not [*warn_of_labels({**record, "counts": many, "uncut": ["new"]}, None)]


def test_protocols_that_judged_little_are_said():
    rows = [{"protocol": name, "judged": 9, "items": 10} for name in "ab"]
    assert not [*warn_of_protocols(rows)]
    assert "b judged 8 of 10" in told(warn_of_protocols([rows[0], {**rows[1], "judged": 8}]))


def test_the_worst_comes_first_and_only_five_stand_open():
    codes = [Code.QUERY_IN_ITS_POOL, Code.COLLECTION_IS_PUBLIC, Code.FLIPS, Code.LENGTH_BIAS]
    codes += [Code.TRUTH_CHANGED, Code.JUDGES_ALIKE, Code.REVERSED_RANKS]
    ranked = rank_warnings([ResultWarning(code) for code in codes], "")
    assert [one.harm for one in ranked.first] == [94, 52, 50, 50, 48]
    assert [one.code for one in ranked.rest] == [Code.COLLECTION_IS_PUBLIC, Code.QUERY_IN_ITS_POOL]


def test_no_two_codes_are_one():
    assert len(Code) == len(Code.__members__), "equal sentences would make one of two codes"


def box(out):
    html = (out / "report.html").read_text()
    return html[html.index('<div class="warnings') : html.index('<div class="lead">')]


def test_a_page_shows_its_findings_with_the_section_and_escapes_them(tmp_path):
    def say(request):
        return "refused" if request.judge.provider == "openai" else None

    report(tmp_path, [evil_pool(), Pool("small", EVIL, (Document("d1", "x"),))], say=say)
    shown = box(tmp_path)
    assert "100% of openai:one&#39;s answers" in shown
    assert "(3 refused)" in shown
    assert '<a href="#failures">' in shown
    assert "1 query has no scores" in shown
    assert "<script" not in shown


def test_a_page_where_nothing_stands_out_is_calm(tmp_path):
    report(tmp_path, [pool_of((0, 1, 5, 9), f"q{i}") for i in range(3)])
    assert "No warnings: answers that are missing" in box(tmp_path)


def test_the_terminal_says_the_worst_three_that_its_lines_do_not():
    runs = [ResultWarning(Code.RUN_LACKS_QUERIES, {"run": "a", "queries": "1 query"})]
    alike = {"judges": 3, "same": 0.98, "items": 100}
    runs += [ResultWarning(Code.JUDGES_ALIKE, alike, share) for share in (0.1, 0.2, 0.3)]
    runs += [ResultWarning(Code.TRUTH_CHANGED)]
    lines = [*terminal_lines(rank_warnings(runs, ""))]
    assert lines[0].startswith("Warning: The truth has changed")
    assert len([line for line in lines if line.startswith("Warning: ")]) == 3
    assert lines[-1] == "… and 1 more: see report.html"
    assert not [*terminal_lines(None)]


def test_more_than_five_are_folded_away(tmp_path):
    write_bakeoff(tmp_path)
    run = json.loads((tmp_path / "run.json").read_text())
    for arm in run["summary"]["rankers"]:
        arm["missing"] = 3
    run["summary"]["rankers"] += [{**run["summary"]["rankers"][0], "name": "sixth"}]
    (tmp_path / "run.json").write_text(json.dumps(run))
    write_report(str(tmp_path))
    assert "<summary>and 1 more</summary>" in box(tmp_path)
    assert box(tmp_path).count("<li>") == 6


def test_pages_of_other_commands_have_a_box(tmp_path):
    agree(tmp_path / "a", judges=(("good", 0.1), ("noise", 1.0)))
    assert "noise agrees with people no better than chance" in box(tmp_path / "a/out")
    compare_labels(tmp_path / "b")
    assert "leads by the old labels" in box(tmp_path / "b/out")
