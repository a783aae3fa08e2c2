"""A report on the terminal: what it shows, and what it leaves out where there is no room."""

from math import isnan, nan

from zelo_ray.reports.parts import Chart, Report, ReportTable, Section, TextCell
from zelo_ray.reports.terminal import render_lines, render_table
from zelo_ray.reports.wording import (
    format_estimate,
    format_interval,
    format_number,
    format_probability,
)
from zelo_ray.results import render_text

_COLUMNS = ("ranker", "nDCG@10", "R@10", "queries")


def table_of(rows=3, **more):
    figures = (format_estimate(0.5, 0.4, 0.6), format_estimate(0.7, 0.6, 0.8))
    cells = [[TextCell(f"m\x1b{n}"), *figures, f"{n:,}"] for n in range(rows)]
    return ReportTable(_COLUMNS, cells, numbers=frozenset(_COLUMNS[1:]), **more)


def text(table, width):
    return render_text(render_table(table, width), width)


def test_a_quantity_knows_its_numbers():
    figure = format_estimate(0.756, 0.7, 0.812)
    assert (figure, figure.without_interval) == ("0.756 [0.700, 0.812]", "0.756")
    assert (figure.value, figure.low, figure.high) == (0.756, 0.7, 0.812)
    assert format_estimate(0.756, nan, nan) == "0.756"
    assert isnan(format_number(nan).value)
    assert format_number(None) == format_interval(nan, nan) == "\N{EN DASH}"
    shares = [format_probability(share) for share in (0, 0.0001, 0.5, 0.9999, 1)]
    assert shares == ["0.0%", "<0.1%", "50.0%", ">99.9%", "100.0%"]


def test_intervals_go_before_columns_and_no_line_is_too_wide():
    assert [text(table_of(), width).count("[") for width in (80, 50, 24)] == [6, 3, 0]
    assert "queries" in text(table_of(), 24).partition("Not shown")[2]
    table = table_of(caption="Means over queries, with the intervals of all of them. " * 3)
    report = Report("Title", [("queries", "12")], ["A lead. " * 40], [Section("a", "A", [table])])
    for width in (24, 40, 80, 120):
        shown = render_text(render_lines(report, width), width)
        assert max(map(len, shown.split("\n"))) <= width


def test_further_rows_are_counted_and_names_steer_nothing():
    shown = text(table_of(50, open_rows=10, file="means.parquet"), 100)
    assert r"m\x1b9" in shown
    assert r"m\x1b10" not in shown
    assert "… and 40 more rows: see means.parquet" in shown


def test_what_only_a_page_shows_costs_the_terminal_nothing():
    def fail():
        raise AssertionError

    charts = Section("charts", "Charts", [Chart({"": {}}, "a caption")])
    report = Report("Title", (), (), [charts, None], make_details=fail, find_warnings=fail)
    assert "Charts" not in render_text(render_lines(report, 80, with_warnings=False), 300)
