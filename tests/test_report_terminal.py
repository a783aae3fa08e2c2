"""A report on the terminal: what it shows, and what it leaves out where there is no room."""

from math import isnan, nan

import pytest

from zelo_ray.api.results import render_text
from zelo_ray.reports.parts import Chart, Report, ReportTable, Section, Sentences, TextCell
from zelo_ray.reports.terminal import render_lines, render_table
from zelo_ray.reports.warning import ResultWarning, rank_warnings
from zelo_ray.reports.warning_codes import WarningCode
from zelo_ray.reports.wording import (
    format_estimate,
    format_interval,
    format_number,
    format_probability,
)

_COLUMNS = ("ranker", "nDCG@10", "R@10", "queries")


def table_of(rows=3, **more):
    cells = [
        [
            TextCell(f"ranker-{n}"),
            format_estimate(0.5, 0.4, 0.6),
            format_estimate(0.7, 0.6, 0.8),
            f"{n:,}",
        ]
        for n in range(rows)
    ]
    return ReportTable(_COLUMNS, cells, numbers=frozenset(_COLUMNS[1:]), **more)


def text(table, width):
    return render_text(render_table(table, width), width)


def test_a_quantity_is_its_text_and_still_knows_its_numbers():
    figure = format_estimate(0.756, 0.7, 0.812)
    assert (figure, figure.without_interval) == ("0.756 [0.700, 0.812]", "0.756")
    assert (figure.value, figure.low, figure.high) == (0.756, 0.7, 0.812)
    assert format_estimate(0.756, nan, nan) == "0.756"
    assert isnan(format_number(nan).value)
    assert format_number(None) == format_interval(nan, nan) == "\N{EN DASH}"
    assert [format_probability(share) for share in (0, 0.0001, 0.5, 0.9999, 1)] == [
        *("0.0%", "<0.1%", "50.0%"),
        *(">99.9%", "100.0%"),
    ]


def test_intervals_go_before_columns_and_from_the_right():
    wide, narrow, narrowest = (text(table_of(), width) for width in (80, 50, 24))
    assert wide.count("[") == 6
    assert narrow.count("[") == 3
    assert "0.500 [0.400, 0.600]" in narrow
    assert "Not shown" not in narrow
    assert "Not shown" in narrowest
    assert "queries" in narrowest.partition("Not shown")[2]


@pytest.mark.parametrize("width", [24, 40, 80, 120])
def test_no_line_is_wider_than_the_terminal(width):
    table = table_of(caption="Means over queries, with the intervals of all of them. " * 3)
    report = Report("Title", [("queries", "12")], ["A lead. " * 40], [Section("a", "A", [table])])
    assert max(map(len, render_text(render_lines(report, width), width).split("\n"))) <= width


def test_further_rows_are_counted_and_the_file_that_has_them_is_named():
    shown = text(table_of(50, open_rows=10, file="means.parquet"), 100)
    assert "ranker-9" in shown
    assert "ranker-10" not in shown
    assert "… and 40 more rows: see means.parquet" in shown


def test_what_only_a_page_shows_costs_the_terminal_nothing():
    def fail():
        raise AssertionError

    charts = Section("charts", "Charts", [Chart({"": {}}, "a caption")])
    log = Section("gate", "Gate", [Sentences(["GATE pass: " + "a" * 200])])
    report = Report("Title", (), (), [charts, None, log], make_details=fail, find_warnings=fail)
    shown = render_text(render_lines(report, 80, with_warnings=False), 300)
    assert "Charts" not in shown
    assert "GATE pass: " + "a" * 200 in shown


def test_sections_and_tables_are_found_by_name():
    table = table_of()
    warning = ResultWarning(WarningCode.LEADER_CHANGED, {"old": "a", "new": "b"})
    report = Report(
        "Title",
        (),
        (),
        [Section("board", "Board", [Sentences(["a"]), table])],
        make_details=lambda: [Section("more", "More", [])],
        find_warnings=lambda: rank_warnings([warning], "all"),
    )
    assert report.table("board") is table
    assert report.section("more").title == "More"
    assert report.warnings.every == [warning]
    with pytest.raises(KeyError):
        report.table("more")
    with pytest.raises(KeyError):
        report.section("none")
