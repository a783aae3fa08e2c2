"""The page of grades: counted by hand, whole and in parts, and what it leaves out."""

import numpy as np
import pyarrow.parquet as pq

from tests.builders import pool_of, results_of, write_run
from tests.results import JUDGES, write_graded
from tests.test_report import page_of, votes_of
from zelo_ray.commands.annotate.report.grade_counts import count_grades
from zelo_ray.commands.annotate.report.vote_counts import count_votes
from zelo_ray.commands.report import write_report
from zelo_ray.files.tables import table_of
from zelo_ray.records import Share


def reported(out, **fields):
    written = write_graded(out, **fields)
    write_report(str(out))
    return page_of(out), *written


def test_raters_have_their_intervals(tmp_path):
    page, _, _ = reported(tmp_path, humans=2)
    rows = {row[0]: row[1:] for row in page.table("raters")[1:]}
    assert rows["openai:one"][0] == "+0.80 [+0.60, +1.00]"
    assert rows["anthropic:two"][:2] == ["-0.60 [-0.80, -0.40]", "0.70 [0.50, 0.90]"]
    assert rows["gemini:three"][1:3] == ["∞", "1.0%"]
    assert rows["the people"][0] == "+0.30 [+0.10, +0.50]"


def test_the_grades_of_each_judge_are_counted(tmp_path):
    page, grades, _ = reported(tmp_path, queries=20)
    names = sorted(JUDGES)
    [[_, bars]] = page.chart("grades", 0)
    assert bars["layout"]["yaxis"]["ticktext"] == ["the panel", *names]
    counts = np.array([trace["customdata"] for trace in bars["data"]])
    of_first = [one.grade for one in grades if one.judge == names[0]]
    assert counts[:, 1].tolist() == np.bincount(of_first, minlength=4).tolist()


def test_sums_over_chunks_are_sums_over_all(tmp_path):
    write_graded(tmp_path, repeats=2)
    table = pq.read_table(tmp_path / "grades.parquet")
    size = 4 * 3 * 2  # of a query
    whole = count_grades([table])
    parts = count_grades([table.slice(0, size), table.slice(size)])
    for name in JUDGES:
        assert (whole.counts[name] == parts.counts[name]).all()
    for pair, counts in whole.confusion.items():
        assert (counts == parts.confusion[pair]).all()


def test_both_orders_make_one_vote():
    rows = [("j1", -0.5, False), ("j1", 0.5, True), ("j2", -0.5, False)]  # j1 says nothing: a tie
    panel = count_votes([votes_of(*(("q", "a", "b", *row) for row in rows))])
    assert panel.agreement("j1", "j2") == (0.5, 1)


def test_labels_not_drawn_by_chance_correct_nothing(tmp_path):
    write_graded(tmp_path, humans=12)
    rows = [Share(m, 0.5, *[float("nan")] * 3, 20, 12) for m in ("grade", ">=1")]
    pq.write_table(table_of(rows, Share), tmp_path / "shares.parquet")
    write_report(str(tmp_path))
    assert page_of(tmp_path).table("shares")[0] == ["measure", "by the panel alone"]


def test_the_grade_of_a_single_judge_has_no_error(tmp_path):
    page, _, _ = reported(tmp_path, std_error=float("nan"))
    assert page.packed[0, "documents"][0][3] is None


def test_files_of_another_protocol_are_not_shown(tmp_path):
    write_graded(tmp_path)
    write_run(tmp_path, results_of(tmp_path, [pool_of()]))
    write_report(str(tmp_path))
    page = page_of(tmp_path)
    assert not {"raters", "shares", "grades", "ambiguous"} & set(page.sections)
    assert {kind for _, kind in page.packed} == {"documents", "votes"}
