"""The report in a real browser: it draws, opens at a click, asks no network, and runs no data."""

import json

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.browser import DRAWN, deaf, fits, shows
from tests.builders import results_of, write_run
from tests.hills import write_contests, write_verdicts
from tests.test_bakeoff_report import write_bakeoff
from tests.test_report import EVIL, evil_pool
from tests.test_report_agreement import agree, write_runs
from tests.test_report_graded import write_both, write_graded
from tests.test_report_relabelling import compare_labels
from zelo_ray.commands.report import write_report
from zelo_ray.records import Document, Pool

pytestmark = pytest.mark.nightly


def evil_reasoning(out):
    """The votes of a run, with a reasoning that wants to be run."""
    votes = pq.read_table(out / "votes.parquet")
    place = votes.schema.get_field_index("reasoning")
    said = pa.array([f"{EVIL} says {i}" for i in range(votes.num_rows)])
    pq.write_table(votes.set_column(place, "reasoning", said), out / "votes.parquet")


def test_a_query_opens_at_a_click_and_runs_nothing(browser, tmp_path):
    documents = [Document(f"{EVIL}{i}", f"{EVIL} text {i} [[worth={i}]]") for i in range(6)]
    pools = [evil_pool(), Pool(f"{EVIL}six", f"{EVIL} six?", tuple(documents))]
    write_run(tmp_path, results_of(tmp_path, pools), EVIL)
    evil_reasoning(tmp_path)
    write_report(str(tmp_path))
    page = tmp_path / "report.html"

    async def visit(tab):
        await tab.open(page)
        await tab.until(DRAWN.format("figure.chart .plot"))
        assert await tab.run("document.querySelectorAll('#q1 table, #q1 .plot').length") == 0
        await tab.run("document.querySelector('#q1 summary').click()")
        await tab.until("document.querySelector('#q1 .pair')")
        await tab.run("document.querySelector('#q1 .pair').scrollIntoView()")
        await tab.until(DRAWN.format("#q1 .plot"))
        await tab.until("document.querySelectorAll('#q1 .cells').length == 2")
        assert await tab.run("document.querySelectorAll('#q1 .scatter .point').length") > 6
        rows = await tab.run(shows("#q1 table > tbody > tr > td:first-child"))
        assert rows == "1 2 3 4 5 6"
        assert f"{EVIL} text 5" in await tab.run(shows("#q1 tr:first-child .words"))
        assert "<script>window.pwned=1<" in await tab.run(shows("#uncertain a"))
        await tab.run("document.querySelector('#q1 button').click()")
        told = await tab.run(shows("#q1 .comparisons"))
        assert f"against {EVIL}0" in told
        assert "openai:one" in told
        assert f"{EVIL} says" in await tab.run(shows("#q1 .comparisons blockquote"))
        # A name that looks like markup is a tick and a hover's text as it is, cut where it is long.
        assert "<script>…" in await tab.run(shows("#q1 .xtick text"))
        await deaf(tab, page)
        await fits(tab)
        await tab.run("document.querySelector('#q1 button').click()")
        assert await tab.run("document.querySelectorAll('#q1 .comparisons').length") == 0

    browser.visit(visit)


def test_queries_can_be_filtered_and_followed_to(browser, tmp_path):
    pools = [Pool(f"id{i}", f"about {'cats' if i % 2 else 'dogs'}", ()) for i in range(8)]
    good = tuple(Document(f"d{i}", f"[[worth={i}]]") for i in range(3))
    pools.append(Pool("last", "about birds", good))
    write_run(tmp_path, results_of(tmp_path, pools))
    write_report(str(tmp_path))

    async def visit(tab):
        await tab.open(tmp_path / "report.html")
        seen = (
            "[...document.querySelectorAll('.queries > details')]"
            ".filter((query) => query.checkVisibility()).map((query) => query.id).join()"
        )
        search = (
            "{ const box = document.querySelector('input'); box.value = 'DOGS';"
            "box.dispatchEvent(new Event('input')) }"
        )
        await tab.run(search)
        assert await tab.run(seen) == "q0,q2,q4,q6"
        await tab.run("document.querySelector('#uncertain a').click()")
        await tab.until("document.querySelector('#q8').open && document.querySelector('#q8 table')")
        assert await tab.run(seen) == "q0,q2,q4,q6,q8"

    browser.visit(visit)


def test_the_page_of_a_bakeoff_draws_and_runs_nothing(browser, tmp_path):
    arms, values = write_bakeoff(tmp_path, say=EVIL, queries=20)
    write_report(str(tmp_path))
    page = tmp_path / "report.html"

    async def visit(tab):
        await tab.open(page, height=9000)
        await tab.until(DRAWN.format(".plot"))
        text = await tab.run(shows("#leaderboard .ytick"))
        assert text.count("<script>window.pw…") == len(arms)
        assert "nDCG@10" in await tab.run(shows("#leaderboard .xtitle"))
        choose = (
            "{ const s = document.querySelector('#leaderboard select'); s.value = 'AP';"
            "s.dispatchEvent(new Event('change')) }"
        )
        await tab.run(choose)
        await tab.until(f"({shows('#leaderboard .xtitle')}) === 'AP'")
        better = int((values[0] > values[1]).sum())
        assert f" is better on {better}, " in await tab.run(shows(".duel .count"))
        assert "<b>bold</b>" in await tab.run(shows(".contrasts"))
        await deaf(tab, page)
        await fits(tab)

    browser.visit(visit)


def test_grades_open_at_a_click_and_run_nothing(browser, tmp_path):
    write_graded(tmp_path, queries=7, say=EVIL, repeats=2, humans=5)
    write_report(str(tmp_path))
    page = tmp_path / "report.html"

    async def visit(tab):
        await tab.open(page, height=12000)
        await tab.until(DRAWN.format("figure.chart .plot"))
        assert "<script>" in await tab.run(shows("#grades .ytick"))
        assert "<script>" in await tab.run(shows("#ambiguous td"))
        await tab.run("document.querySelector('#q1 summary').click()")
        await tab.until("document.querySelector('#q1 .plot .cells')")
        assert await tab.run("document.querySelectorAll('#q1 .plot').length") == 1
        await tab.run("document.querySelector('#q1 button').click()")
        told = await tab.run(shows("#q1 .comparisons"))
        assert f"covers: {EVIL[:100]}" in told
        assert "; more" in told
        assert f"misses: {EVIL[:100]}" in told
        assert told.count(f"{EVIL}because") == 6
        chips = await tab.run(shows("#q1 .comparisons .grade"))
        assert len(chips.split()) == 6
        assert "±" in await tab.run(shows("#q1 .ranking .n"))
        assert "judges split" in await tab.run(shows("#q1 .ranking .n"))
        await deaf(tab, page)
        await fits(tab)

    browser.visit(visit)


def test_a_document_shows_its_grades_before_its_comparisons(browser, tmp_path):
    write_both(tmp_path, EVIL)
    page = tmp_path / "report.html"

    async def visit(tab):
        await tab.open(page, height=12000)
        await tab.run("document.querySelectorAll('.queries summary').forEach((s) => s.click())")
        await tab.until("document.querySelectorAll('.ranking').length === 2")
        scores = await tab.run(shows("#q0 .ranking .n"))
        assert scores.count("absolute") == 3
        assert "absolute" not in await tab.run(shows("#q1 .ranking .n"))
        await tab.run("document.querySelectorAll('#q0 button').forEach((b) => b.click())")
        assert await tab.run("document.querySelectorAll('#q0 .graded').length") == 2
        assert await tab.run("document.querySelectorAll('#q0 .comparisons details').length") > 0
        await tab.until(DRAWN.format(".plot"))
        await deaf(tab, page)
        await fits(tab)

    browser.visit(visit)


@pytest.mark.parametrize(
    ("write", "words"),
    [(write_contests, "Contest 1 of tournament 2"), (write_verdicts, "For Answer 1: ")],
)
def test_contests_and_debates_open_at_a_click_and_run_nothing(browser, tmp_path, write, words):
    write(tmp_path, say=EVIL)
    page = tmp_path / "report.html"

    async def visit(tab):
        await tab.open(page, height=12000)
        await tab.run("document.querySelector('#q0 summary').click()")
        await tab.until("document.querySelector('#q0 button')")
        await tab.run("document.querySelector('#q0 button').click()")
        told = await tab.run(shows("#q0 .comparisons blockquote"))
        assert words in told
        assert f"{EVIL}because" in told
        await tab.until(DRAWN.format(".plot"))
        await deaf(tab, page)
        await fits(tab)

    browser.visit(visit)


def spoil(out, *columns):
    """Let every text of some columns begin with what wants to be run; "" stays."""
    for path in out.glob("*.parquet"):
        table = pq.read_table(path)
        for place, name in enumerate(table.schema.names):
            if name in columns:
                said = [v and (v if v == "human" else EVIL + v) for v in table[name].to_pylist()]
                table = table.set_column(place, name, pa.array(said, pa.string()))
        pq.write_table(table, path)


def test_the_page_of_measured_judges_draws_and_runs_nothing(browser, tmp_path):
    agree(tmp_path, "--runs", *write_runs(tmp_path))
    out = tmp_path / "out"
    spoil(out, "rater_a", "rater_b", "rater", "judge", "run")
    record = json.loads((out / "agree.json").read_text())
    record["judges"] = [EVIL + judge for judge in record["judges"]]
    record["notes"] = [EVIL]
    (out / "agree.json").write_text(json.dumps(record))
    write_report(str(out))
    page = out / "report.html"

    async def visit(tab):
        await tab.open(page, height=12000)
        await tab.until(DRAWN.format("figure.chart .plot"))
        assert "<script>" in await tab.run(shows("#people .ytick"))
        assert "kappa-quadratic, 0-3" in await tab.run(shows("#people .xtitle"))
        choose = (
            "{ const s = document.querySelectorAll('#people select')[1]; s.value = '>=2';"
            "s.dispatchEvent(new Event('change')) }"
        )
        await tab.run(choose)
        await tab.until(f"({shows('#people .xtitle')}) === 'kappa-quadratic, >=2'")
        spots = await tab.run("document.querySelectorAll('#between .cells').length")
        assert spots == 1
        await deaf(tab, page)
        await fits(tab)

    browser.visit(visit)


def test_the_page_of_compared_labels_draws_and_runs_nothing(browser, tmp_path):
    compare_labels(tmp_path)
    out = tmp_path / "out"
    spoil(out, "run", "run_a", "run_b", "query_id", "doc_id", "text")
    write_report(str(out))
    page = out / "report.html"

    async def visit(tab):
        await tab.open(page, height=12000)
        await tab.until(DRAWN.format("figure.chart .plot"))
        ticks = await tab.run(shows("#leaderboards .ytick, #leaderboards .y2tick"))
        assert ticks.count("<script>") >= 6
        assert "old" in await tab.run(shows("#leaderboards .xtick"))
        await deaf(tab, page)
        await fits(tab)

    browser.visit(visit)
