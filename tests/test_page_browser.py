"""A page in a real browser: drawn before anybody scrolls, printed whole, taken away in parts."""

import base64
import csv
import io

import numpy as np
import pytest

from tests.browser import DRAWN, deaf, shows
from tests.builders import pool_of, results_of, write_run
from tests.test_bakeoff_report import write_bakeoff
from tests.test_report import EVIL
from zelo_ray.commands.report import write_report
from zelo_ray.reports.charts.figures import intervals
from zelo_ray.reports.page import render_page
from zelo_ray.reports.parts import Chart, Queries, Report, ReportTable, Section, TextCell

pytestmark = pytest.mark.nightly

KEEP = """
  window.kept = [];
  URL.createObjectURL = (blob) => { window.kept.push(blob); return "about:blank#kept"; };
  HTMLAnchorElement.prototype.click = function () { window.called = this.download; };
"""
BYTES = """
  { const reader = new FileReader();
    reader.onload = () => (window.read = reader.result.split(",")[1]);
    reader.readAsDataURL(window.kept[0]); }
"""
VISIBLE = "document.querySelector('{}').checkVisibility()"


async def taken(tab, selector):
    """What a click on a button saves: its name, and its bytes."""
    await tab.run(f"{{ window.read = null; {KEEP} document.querySelector('{selector}').click() }}")
    await tab.until("window.kept.length")
    await tab.run(BYTES)
    await tab.until("window.read !== null")
    return await tab.run("window.called"), base64.b64decode(await tab.run("window.read"))


def page_of(folder, *parts, section="things"):
    """A page of one section."""
    page = Report("A page", [], [], [Section(section, "Things", parts)])
    (folder / "page.html").write_text(render_page(page))
    return folder / "page.html"


def rows_of(count):
    return [[TextCell(f"name {i}"), f"{1000 * i:,}"] for i in range(count)]


def test_all_charts_are_drawn_though_nobody_scrolls(browser, tmp_path):
    write_bakeoff(tmp_path, queries=20)
    write_report(str(tmp_path))

    async def visit(tab):
        await tab.open(tmp_path / "report.html", width=390, height=300)
        await tab.until(DRAWN.format(".plot"))
        assert await tab.run("scrollY") == 0

    browser.visit(visit)


def test_a_table_is_taken_whole_and_starts_no_formula(browser, tmp_path):
    rows = [
        [TextCell('=HYPERLINK("x")'), "1,234", "+0.5"],
        [TextCell("a, b\nc"), "\N{MINUS SIGN}2", "-0.10 [-0.20, 0.00]"],
        [TextCell("@it"), "12.5%", "\N{EN DASH}"],
        [TextCell(EVIL), "0", "-1"],
    ]
    path = page_of(tmp_path, ReportTable(["what", "n", "d"], rows, numbers={"n", "d"}, open_rows=2))
    seen = []

    async def visit(tab):
        await tab.open(path)
        seen.append(await taken(tab, '[aria-label^="Save the table"]'))
        await tab.run(
            "{ window.said = null; Object.defineProperty(navigator, 'clipboard',"
            "{ value: { writeText: async (text) => { window.said = text } } });"
            "document.querySelector('[aria-label^=\"Copy\"]').click() }"
        )
        await tab.until("window.said !== null")
        seen.append(await tab.run("window.said"))
        await tab.until("document.querySelector('[role=status]').textContent.endsWith(': done')")

    browser.visit(visit)
    (name, data), copied = seen
    assert (name, data[:3]) == ("things.csv", b"\xef\xbb\xbf")
    read = list(csv.reader(io.StringIO(data.decode("utf-8-sig"), newline="")))
    evil = " ".join(EVIL.split())
    assert read == [
        ["what", "n", "d"],
        ['\'=HYPERLINK("x")', "1234", "0.5"],
        ["a, b c", "-2", "'-0.10 [-0.20, 0.00]"],
        ["'@it", "12.5%", "\N{EN DASH}"],
        [evil, "0", "-1"],
    ]
    assert [line.split("\t") for line in copied.split("\n")] == read


def test_without_a_clipboard_a_table_is_copied_all_the_same(browser, tmp_path):
    path = page_of(tmp_path, ReportTable(["what", "n"], rows_of(3), numbers=frozenset({"n"})))

    async def visit(tab):
        await tab.open(path)
        await tab.run(
            "{ Object.defineProperty(navigator, 'clipboard', { value: undefined });"
            "document.execCommand = () => {"
            "window.said = document.activeElement.value; return true };"
            "document.querySelector('[aria-label^=\"Copy\"]').click() }"
        )
        await tab.until("window.said")
        assert (await tab.run("window.said")).startswith("what\tn\nname 0\t0\nname 1\t1000")
        assert await tab.run("document.querySelectorAll('textarea').length") == 0

    browser.visit(visit)


@pytest.mark.parametrize(("scheme", "paper"), [("light", "255, 255, 255"), ("dark", "22, 25, 28")])
def test_a_chart_is_taken_as_a_picture_that_needs_no_page(browser, tmp_path, scheme, paper):
    write_bakeoff(tmp_path, queries=20, say=EVIL)
    write_report(str(tmp_path))
    path, seen = tmp_path / "report.html", []

    async def visit(tab):
        await tab.open(path, scheme=scheme)
        await tab.until(DRAWN.format(".plot"))
        seen.append(await taken(tab, '#slices [aria-label^="Save the chart as SVG"]'))
        seen.append(await tab.run(shows("#slices .legend button:first-child")))
        seen.append(await taken(tab, '#slices [aria-label^="Save the chart as PNG"]'))
        seen.append(await tab.run("document.querySelector('#slices .plot').clientWidth"))
        await tab.until("document.querySelector('[role=status]').textContent.endsWith(': done')")
        await deaf(tab, path)

    browser.visit(visit)
    (svg_name, svg), legend, (png_name, png), width = seen
    text = svg.decode()
    assert (svg_name, png_name) == ("slices.svg", "slices.png")
    assert f'fill="rgb({paper})"' in text
    assert not any(word in text for word in ("var(", "light-dark(", "color(srgb", "class=", "href"))
    assert "on parts of the queries" in text
    assert legend.strip().replace("<", "&lt;").replace(">", "&gt;") in text
    assert png[:8] == b"\x89PNG\r\n\x1a\n"
    assert int.from_bytes(png[16:20], "big") == 2 * (width + 32)


def test_a_query_offers_its_table_and_charts_once_it_is_open(browser, tmp_path):
    write_run(tmp_path, results_of(tmp_path, [pool_of()]))
    write_report(str(tmp_path))

    async def visit(tab):
        await tab.open(tmp_path / "report.html")
        await tab.run("document.querySelector('#q0 summary').click()")
        await tab.until("document.querySelectorAll('#q0 .take').length === 4")
        await tab.until(DRAWN.format("#q0 .plot"))
        name, data = await taken(tab, '#q0 [aria-label^="Save the table"]')
        assert name == "q0.csv"
        assert data.decode("utf-8-sig").splitlines()[0] == "rank,document,score,text"
        name, _ = await taken(tab, '#q0 [aria-label^="Save the chart as SVG"]')
        assert name == "q0-2.svg"

    browser.visit(visit)


def test_buttons_are_reached_by_keyboard(browser, tmp_path):
    path = page_of(tmp_path, ReportTable(["what", "n"], rows_of(3)))

    async def visit(tab):
        await tab.open(path)
        labels = []
        for _ in range(4):
            for kind in ("rawKeyDown", "keyUp"):
                await tab.call(
                    "Input.dispatchKeyEvent", type=kind, key="Tab", windowsVirtualKeyCode=9
                )
            labels.append(await tab.run("document.activeElement.ariaLabel"))
        assert {"Copy the table: Things", "Save the table as CSV: Things"} <= set(labels)

    browser.visit(visit)


def test_on_paper_a_page_is_white_and_whole(browser, tmp_path):
    series = {"a": tuple(np.array(each) for each in ([0.1, 0.5], [0.0, 0.4], [0.2, 0.6]))}
    chart = Chart({"x": intervals(["one", "two"], series, "nDCG")}, "How good they are.")
    few = ReportTable(["what", "n"], rows_of(30), open_rows=5)
    many = ReportTable(["what", "n"], rows_of(300), open_rows=5)
    wide = ReportTable([f"column {i}" for i in range(40)], [[f"{i}.0000" for i in range(40)]])
    queries = [{"query": f"query {i}", "notes": [], "packed": {}} for i in range(50)]
    path = page_of(tmp_path, chart, few, many, wide, Queries(queries, "All.", "elsewhere"))

    async def visit(tab):
        await tab.open(path, scheme="dark", height=200)
        await tab.call("Emulation.setEmulatedMedia", media="print")
        await tab.until(DRAWN.format(".plot"))
        paper = "getComputedStyle(document.body).backgroundColor"
        assert await tab.run(paper) == "rgb(255, 255, 255)"
        folded = "[...document.querySelectorAll('.table > details')].map((each) => each.open)"
        await tab.until(f"({folded}).join() === 'true,false'")
        assert "5 of 300 rows are printed" in await tab.run(shows(".printed"))
        assert not await tab.run(VISIBLE.format(".take"))
        shown = (
            "[...document.querySelectorAll('.queries > details')].map((q) => q.checkVisibility())"
        )
        assert (await tab.run(shown)).count(True) == 40
        widest = (
            "Math.max(...[...document.querySelectorAll('table')]"
            ".map((each) => each.getBoundingClientRect().width))"
        )
        assert await tab.run(widest) <= 1280
        assert await tab.run("document.querySelector('svg.drawn').clientWidth") <= 680
        await tab.call("Emulation.setEmulatedMedia", media="screen")
        await tab.until(f"({folded}).join() === 'false,false'")
        await tab.until("document.querySelector('svg.drawn').clientWidth > 680")
        assert await tab.run(VISIBLE.format(".take"))

    browser.visit(visit)


@pytest.mark.parametrize(("width", "height"), [(8.27, 11.69), (8.5, 11)])
def test_a_page_is_printed_with_every_chart(browser, tmp_path, width, height):
    write_bakeoff(tmp_path, queries=20)
    write_report(str(tmp_path))

    async def visit(tab):
        await tab.open(tmp_path / "report.html", width=390, height=300)
        told = await tab.call(
            "Page.printToPDF", paperWidth=width, paperHeight=height, preferCSSPageSize=True
        )
        assert base64.b64decode(told["data"]).startswith(b"%PDF")
        assert await tab.run(DRAWN.format(".plot"))
        await tab.until("document.documentElement.scrollWidth <= innerWidth")

    browser.visit(visit)
