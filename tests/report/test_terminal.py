"""A report on the terminal: what it shows, and what it leaves out where there is no room."""

from math import nan

from zelo_ray.report.model import Cell, Report, Section, Warn, table, write_number
from zelo_ray.report.results import render_text
from zelo_ray.report.terminal import render_report, render_table

COLUMNS = {
    "ranker": "name",
    "nDCG@10": lambda row: Cell(0.5, ".3f", 0.4, 0.6),
    "R@10": lambda row: Cell(0.7, ".3f", 0.6, 0.8),
    "queries": "n",
}


def table_of(rows=3, **more):
    return table([{"name": f"m\x1b{n}", "n": n} for n in range(rows)], COLUMNS, **more)


def text(shown, width):
    return render_text(render_table(shown, width), width)


def test_a_cell_is_written_with_its_interval():
    cell = Cell(0.756, ".3f", 0.7, 0.812)
    assert (cell.text(), cell.text(ends=False)) == ("0.756 [0.700, 0.812]", "0.756")
    assert Cell(0.756).text() == "0.756"
    assert Cell(None).text() == Cell(nan).text() == "\N{EN DASH}"
    shares = [write_number(share, "p") for share in (0, 0.0001, 0.5, 0.9999, 1)]
    assert shares == ["0.0%", "<0.1%", "50.0%", ">99.9%", "100.0%"]


def test_intervals_go_before_columns_and_no_line_is_too_wide():
    assert [text(table_of(), width).count("[") for width in (80, 50, 24)] == [6, 3, 0]
    assert "queries" in text(table_of(), 24).partition("Not shown")[2]
    shown = table_of(caption="Means over queries, with the intervals of all of them. " * 3)
    warn = Warn("x", "doubtful", "Something is not as it looks, " * 9, "Look again")
    report = Report(
        "Title",
        {"queries": 12},
        ["A lead. " * 40],
        [Section("a", "A", [shown])],
        find_warnings=lambda: [warn],
    )
    for width in (24, 40, 80, 120):
        lines = render_text(render_report(report, width, "out/a.parquet"), width).split("\n")
        assert max(map(len, lines)) <= width


def test_further_rows_are_counted_and_names_steer_nothing():
    shown = text(table_of(50, open_rows=10, file="means.parquet"), 100)
    assert r"m\x1b9" in shown
    assert r"m\x1b10" not in shown
    assert "… and 40 more rows: see means.parquet" in shown
