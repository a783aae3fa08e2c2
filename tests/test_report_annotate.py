"""The report of `annotate`: what terminal and page show, from the record and small tables alone."""

import json

import pytest

from tests.builders import pool_of, results_of, write_run
from tests.hills import write_contests, write_verdicts
from tests.test_report_graded import write_graded
from zelo_ray.api.results import render_text
from zelo_ray.commands.annotate.report import ANNOTATE_REPORT
from zelo_ray.reports.terminal import render_lines, render_table


def report_of(out, summary=(), **options):
    """The report, after some of what the record says has been changed."""
    record = json.loads((out / "run.json").read_text())
    record["summary"] |= dict(summary)
    record["options"] |= options
    (out / "run.json").write_text(json.dumps(record))
    return ANNOTATE_REPORT.read(str(out))


def named(report):
    return [section.name for section in report.sections if section]


def text_of_report(report, width):
    return render_text(render_lines(report, width, with_warnings=False), width)


def test_a_tie_is_half_a_pair_won(tmp_path):
    write_verdicts(tmp_path)
    report = report_of(tmp_path, {"sweeps": 3})
    assert [(row[0].text, row[1].value) for row in report.table("winners").rows] == [
        ("b", 0.625),
        ("a", 0.375),
    ]
    assert ("sweeps over the input", "3") in report.tiles


def test_many_names_are_cut_and_none_steers_the_terminal(tmp_path):
    line = [f"m\x1b{place:02}" for place in range(14)]
    told = [(q, "j1", 0, line, "k" * 13) for q in ("q0", "q1")]
    write_contests(tmp_path, told=told, repeats=1)
    assert "… and 4 more rows" in render_table(report_of(tmp_path).table("winners"), 80)
    text = text_of_report(report_of(tmp_path), 80)
    assert r"m\x1b09" in text
    assert r"m\x1b10" not in text


@pytest.mark.parametrize(
    ("options", "unused"),
    [({}, True), ({"pooling": "majority"}, True), ({"human": "labels.txt"}, False),
     ({"pooling": "thurstone"}, False), ({"pooling": "median", "human": "labels.txt"}, True)],
)  # fmt: skip
def test_weights_that_scores_do_not_use_are_called_so(tmp_path, options, unused):
    write_graded(tmp_path, pooling=None)
    report = report_of(tmp_path, **options)
    [weight] = {row[3] for row in report.table("raters").rows if row[0].text == "openai:one"}
    assert weight.value == 0.7
    assert ("do not use it" in report.table("raters").caption) == unused
    assert any("labels.txt" in note for note in report.notes) == ("human" in options)


def test_what_is_missing_is_shown_with_its_reason(tmp_path):
    write_run(tmp_path, results_of(tmp_path, [pool_of()]))
    summary = {
        "pilot_of": 500,
        "ambiguous": 7,
        "ungraded": 1,
        "unscored": {f"q{n}": {"code": "no votes", "message": "it has no votes"} for n in range(9)},
        "reasons": {"x: failed, slow": 2, "x: refused, no": 5},
        "failures": 7,
        "disabled": {"x": {"code": "budget", "message": "the budget is used up"}},
        "dollars": 0.5,
        "dollars_in_all": 2.0,
        "seconds": {"ask": 61.0},
        "notes": ["of the ledger"],
    }
    report = report_of(tmp_path, summary)
    assert named(report) == ["judges", "unscored", "failures"]
    tiles = dict(report.tiles)
    assert (tiles["spent"], tiles["spent in all"]) == ("$0.5000", "$2.00")
    assert (tiles["judged"], tiles["failed requests"]) == ("in 1 min 1 s", "7")
    assert len(report.table("unscored").rows) == 9
    assert [row[0] for row in report.table("failures").rows] == ["5", "2"]
    assert report.section("judges").parts[0].lines == ["Stopped using x (the budget is used up)."]
    assert "pilot" in report.lead[0]
    assert f"convert qrels {tmp_path} --grades --without-ambiguous" in report.lead[1]
    assert report.notes[0] == "of the ledger"
    assert "1 query has no grades" in report.notes[1]


@pytest.mark.parametrize(
    ("write", "tables"), [(write_contests, ["tournaments"]), (write_verdicts, [])]
)
def test_a_run_in_which_everything_failed_says_little(tmp_path, write, tables):
    told = [("q0", "j1", 0, "abc", "")] if write is write_contests else []
    write(tmp_path, told=told)
    assert named(report_of(tmp_path, {"reasons": {}})) == [*tables, "judges"]


def test_what_the_terminal_shows_reads_no_votes_and_no_scores(tmp_path):
    summary = results_of(tmp_path, [pool_of()])
    write_run(tmp_path, summary)
    for name in ("votes.parquet", "scores.parquet", "annotated.jsonl", "failures.parquet"):
        (tmp_path / name).write_bytes(b"")
    report = report_of(tmp_path)
    assert named(report) == ["judges"]
    counts = {row[0].text: row[1] for row in report.table("judges").rows}
    assert [counts[name] for name in sorted(summary.judgments_by_judge)] == ["6", "6"]
