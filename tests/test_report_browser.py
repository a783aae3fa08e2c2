"""Pages in a real browser: they draw, open at a click, ask no network, and run no data."""

import base64
import csv
import io
import json

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.browser import DRAWN, deaf, fits, shows
from tests.builders import results_of, write_run
from tests.hills import write_contests, write_verdicts
from tests.results import agree, write_both, write_graded, write_runs
from tests.test_report import EVIL, evil_pool
from zelo_ray.commands.report import write_report
from zelo_ray.records import Document, Pool
from zelo_ray.reports.page import render_page
from zelo_ray.reports.parts import Report, ReportTable, Section, TextCell

pytestmark = pytest.mark.nightly


def spoil(out, *columns):
    """Let every text of some columns begin with what wants to be run; "" stays."""
    for path in out.glob("*.parquet"):
        table = pq.read_table(path)
        for place, name in enumerate(table.schema.names):
            if name in columns:
                said = [v and (v if v == "human" else EVIL + v) for v in table[name].to_pylist()]
                table = table.set_column(place, name, pa.array(said, pa.string()))
        pq.write_table(table, path)
    write_report(str(out))


def write_votes(out):
    documents = [Document(f"{EVIL}{i}", f"{EVIL} text {i} [[worth={i}]]") for i in range(6)]
    pools = [evil_pool(), Pool(f"{EVIL}six", f"{EVIL} six?", tuple(documents))]
    write_run(out, results_of(out, pools), EVIL)
    spoil(out, "reasoning")


def write_measured_judges(out):
    agree(out, "--runs", *write_runs(out))
    record = json.loads((out / "out/run.json").read_text())
    record |= {name: [EVIL + judge for judge in record[name]] for name in ("judges", "panel")}
    record["notes"] = [EVIL]
    (out / "out/run.json").write_text(json.dumps(record))
    spoil(out / "out", "of", "against", "rater_a", "rater_b", "judge", "run", "query_id", "doc_id")


def write_grades(out):
    write_graded(out, queries=7, say=EVIL, repeats=2, humans=5)
    write_report(str(out))


PAGES = {  # who writes it, and what shows data as they are
    "judges": (write_measured_judges, "#people svg"),
}


@pytest.mark.parametrize("name", PAGES)
def test_a_page_draws_and_runs_nothing(browser, tmp_path, name):
    write, shown = PAGES[name]
    write(tmp_path)
    [page] = tmp_path.rglob("report.html")

    async def visit(tab):
        await tab.open(page, height=12000)
        await tab.run("document.querySelectorAll('.queries summary').forEach((s) => s.click())")
        opened = "[...document.querySelectorAll('.queries > details')].every((q) =>"
        await tab.until(f"{opened} q.querySelector('table'))")
        await tab.run("document.querySelectorAll('.ranking button').forEach((b) => b.click())")
        await tab.until(f"({shows(shown)}).includes('<script>')")
        await tab.until(DRAWN.format(".plot"))
        await deaf(tab, page)
        await fits(tab)

    browser.visit(visit)


JUDGED = {
    "votes": write_votes,
    "grades": write_grades,
    "grades and votes": lambda out: write_both(out, EVIL),
    "tournaments": lambda out: write_contests(out, say=EVIL),
    "debates": lambda out: write_verdicts(out, say=EVIL),
}
QUERIES = "[...document.querySelectorAll('#queries > .parts > .whole > .foldings > details')]"


@pytest.mark.parametrize("name", JUDGED)
def test_a_page_of_annotate_draws_and_runs_nothing(browser, tmp_path, name):
    JUDGED[name](tmp_path)

    async def visit(tab):
        await tab.open(tmp_path / "report.html", height=12000)
        await tab.run(f"{QUERIES}.forEach((query) => (query.open = true))")
        await tab.until(f"{QUERIES}.every((query) => query.querySelector('table'))")
        await tab.until(f"({shows('#queries blockquote')}).includes('<script>')")
        await deaf(tab, tmp_path / "report.html")
        await fits(tab)

    browser.visit(visit)


def test_queries_can_be_filtered(browser, tmp_path):
    pools = [Pool(f"id{i}", f"about {'cats' if i % 2 else 'dogs'}", ()) for i in range(8)]
    good = tuple(Document(f"d{i}", f"[[worth={i}]]") for i in range(3))
    write_run(tmp_path, results_of(tmp_path, [*pools, Pool("last", "about birds", good)]))
    write_report(str(tmp_path))
    search = (
        "{ const box = document.querySelector('input'); box.value = 'DOGS';"
        "box.dispatchEvent(new Event('input')) }"
    )

    async def visit(tab):
        await tab.open(tmp_path / "report.html")
        await tab.run(search)
        assert await tab.run(f"{QUERIES}.filter((query) => query.checkVisibility()).length") == 4

    browser.visit(visit)


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


async def taken(tab, selector):
    """What a click on a button saves: its name, and its bytes."""
    await tab.run(f"{{ window.read = null; {KEEP} document.querySelector('{selector}').click() }}")
    await tab.until("window.kept.length")
    await tab.run(BYTES)
    await tab.until("window.read !== null")
    return await tab.run("window.called"), base64.b64decode(await tab.run("window.read"))


def test_a_table_is_taken_whole_and_starts_no_formula(browser, tmp_path):
    rows = [
        [TextCell('=HYPERLINK("x")'), "1,234", "+0.5"],
        [TextCell("a, b\nc"), "\N{MINUS SIGN}2", "-0.10 [-0.20, 0.00]"],
        [TextCell("@it"), "12.5%", "\N{EN DASH}"],
        [TextCell(EVIL), "0", "-1"],
    ]
    table = ReportTable(["what", "n", "d"], rows, numbers={"n", "d"}, open_rows=2)
    path, seen = tmp_path / "page.html", []
    path.write_text(render_page(Report("A page", [], [], [Section("things", "Things", [table])])))

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

    browser.visit(visit)
    (name, data), copied = seen
    assert (name, data[:3]) == ("things.csv", b"\xef\xbb\xbf")
    read = list(csv.reader(io.StringIO(data.decode("utf-8-sig"), newline="")))
    assert read == [
        ["what", "n", "d"],
        ['\'=HYPERLINK("x")', "1234", "0.5"],
        ["a, b c", "-2", "'-0.10 [-0.20, 0.00]"],
        ["'@it", "12.5%", "\N{EN DASH}"],
        [" ".join(EVIL.split()), "0", "-1"],
    ]
    assert [line.split("\t") for line in copied.split("\n")] == read


def test_a_page_is_printed_with_every_chart(browser, tmp_path):
    write_grades(tmp_path)

    async def visit(tab):
        await tab.open(tmp_path / "report.html", width=390, height=300)
        told = await tab.call("Page.printToPDF", paperWidth=8.27, paperHeight=11.69)
        assert base64.b64decode(told["data"]).startswith(b"%PDF")
        assert await tab.run(DRAWN.format(".plot"))
        await tab.call("Emulation.setEmulatedMedia", media="print")
        paper = "getComputedStyle(document.body).backgroundColor"
        assert await tab.run(paper) == "rgb(255, 255, 255)"

    browser.visit(visit)
