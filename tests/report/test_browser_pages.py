"""Pages in a real browser: they draw, open at a click, ask no network, and run no data."""

import base64
import json

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.helpers.browser import deaf, fits, shows
from tests.helpers.builders import results_of, write_run
from tests.helpers.hills import write_contests, write_verdicts
from tests.helpers.results import agree, write_both, write_graded, write_runs
from tests.report.test_report import EVIL, evil_pool
from zelo_ray.commands.report import write_report
from zelo_ray.evaluation.consensus import ALL, LEVELS
from zelo_ray.files.judges import HUMAN, OTHERS, PANEL, WITH_HUMAN
from zelo_ray.records import Document, Pool

pytestmark = pytest.mark.nightly


OURS = {HUMAN, OTHERS, PANEL, WITH_HUMAN, ALL, *LEVELS}
"""What is no name of a user's."""


def spoil(out, *columns):
    """Let every text of some columns begin with what wants to be run; "" stays."""
    for path in out.glob("*.parquet"):
        table = pq.read_table(path)
        for place, name in enumerate(table.schema.names):
            if name in columns:
                said = [v and (v if v in OURS else EVIL + v) for v in table[name].to_pylist()]
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


PAGES = {  # who writes it, and what shows names, which are short
    "judges": (write_measured_judges, "#people svg"),
}


@pytest.mark.parametrize("name", PAGES)
def test_a_page_draws_and_runs_nothing(browser, tmp_path, name):
    write, shown = PAGES[name]
    write(tmp_path)
    [page] = tmp_path.rglob("report.html")

    async def visit(tab):
        await tab.open(page, height=12000)
        await tab.until(f"({shows(shown)}).includes('<img x')")
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


def test_a_page_is_printed_with_every_chart(browser, tmp_path):
    write_grades(tmp_path)

    async def visit(tab):
        await tab.open(tmp_path / "report.html", width=390, height=300)
        told = await tab.call("Page.printToPDF", paperWidth=8.27, paperHeight=11.69)
        assert base64.b64decode(told["data"]).startswith(b"%PDF")
        assert await tab.run("document.querySelectorAll('svg.plot').length > 0")
        await tab.call("Emulation.setEmulatedMedia", media="print")
        paper = "getComputedStyle(document.body).backgroundColor"
        assert await tab.run(paper) == "rgb(255, 255, 255)"

    browser.visit(visit)
