"""The page of ``protocols``: a picture of agreement against cost, and the figures behind it."""

import pyarrow.parquet as pq
import pytest

from tests.test_report import EVIL, page_of
from tests.test_trials import ITEMS, WORDS, outcome_of
from zelo_ray.api.results import render_text
from zelo_ray.commands.compare_protocols.measured import write_outcome
from zelo_ray.commands.compare_protocols.people import Item
from zelo_ray.commands.compare_protocols.report import COMPARE_PROTOCOLS_REPORT
from zelo_ray.commands.report import write_report
from zelo_ray.formats.results import write_json
from zelo_ray.reports.terminal import render_lines


def write_comparison(out, notes=(), **more):
    outcome = outcome_of(**more)
    write_outcome(str(out), outcome)
    record = {
        "options": {"human": f"s3://user:secret@host/{EVIL}", "seed": 0, "resamples": 500}
        | {"max_usd": 1.5},
        "versions": {"zelo-ray": "1"},
        "items": len(ITEMS),
        "queries": 8,
        "people": {"kind": "votes", "said": 8, "known": 8},
        "unit": outcome.unit,
        "together": {"calls": 10, "dollars": 10.0, "unpriced": 0},
        "paid": {"calls": 12, "dollars": 12.0, "unpriced": 0},
        "kind": "protocols",
        "finished": True,
        "notes": list(notes),
    }
    write_json(str(out), "protocols.json", record)


def page_after(out, **more):
    write_comparison(out, **more)
    write_report(str(out))
    return page_of(out)


def report_after(out, **more):
    write_comparison(out, **more)
    return COMPARE_PROTOCOLS_REPORT.read(str(out))


def test_the_picture_shows_what_each_protocol_cost_and_agreed(tmp_path):
    page = page_after(tmp_path)
    [[_, figure]] = page.chart("protocols", 0)
    rows = {row["protocol"]: row for row in pq.read_table(tmp_path / "trials.parquet").to_pylist()}
    points = {trace["name"]: trace for trace in figure["data"]}
    assert [*points] == ["debate", "plain"], "silent agreed with nobody on anything"
    for name, trace in points.items():
        row = rows[name]
        assert (trace["x"], trace["y"]) == ([row["dollars"]], [row["agreement"]])
        assert trace["error_y"]["array"] == [row["agreement_high"] - row["agreement"]]
        assert trace["error_y"]["arrayminus"] == [row["agreement"] - row["agreement_low"]]
        assert trace["error_x"]["array"] == [row["dollars_high"] - row["dollars"]]
    assert figure["layout"]["showlegend"]
    assert figure["layout"]["xaxis"]["title"]["text"] == "dollars in all"


def test_figures_stand_in_a_table_the_closest_to_people_first(tmp_path):
    table = report_after(tmp_path).table("protocols")
    assert [row[0].text for row in table.rows] == ["debate", "plain", "silent"]
    plain = dict(zip(table.columns, table.rows[1], strict=True))
    assert (plain["judged"], plain["right"], plain["calls"]) == ("7 of 8", "5", "8")
    assert plain["agreement"].value == 5 / 7
    assert plain["agreement"].low < 5 / 7 < plain["agreement"].high
    assert plain["dollars"].startswith("$8.00")
    assert plain["$ / right"].value == 8 / 5
    assert plain["$ / right"].startswith("$1.60 [")
    silent = dict(zip(table.columns, table.rows[2], strict=True))
    assert (silent["agreement"], silent["$ / right"]) == ("\N{EN DASH}", "?")


@pytest.mark.parametrize("width", [80, 120])
def test_the_terminal_shows_protocols_their_differences_and_what_was_paid(tmp_path, width):
    lines = render_text(render_lines(report_after(tmp_path), width), width).split("\n")
    assert max(len(line) for line in lines if not line.startswith("results: ")) <= width
    assert [line for line in lines if line.startswith("plain ")]
    shown = " ".join(lines)
    assert "these protocols: 10 calls, $10.00" in shown
    assert "The table counts 38 more" in shown
    assert "The whole ledger: 12 calls, $12.00" in shown
    assert "of the items: debate, plain, silent." in shown


def test_words_say_who_is_closest_and_who_is_cheapest(tmp_path):
    page = page_after(tmp_path, notes=[f"{EVIL} gave no word"])
    words = page.words()
    assert "Closest to people is debate, not" in words
    assert "different from plain: it is right on 6" in words
    assert "$12.00" in words, "all that the ledger holds is what was paid"
    assert "costs least by plain: $1.60" in words
    assert "a budget of $1.5" in words
    assert f"{EVIL} gave no word" in words
    assert "secret" not in words
    assert not {"img", "iframe", "object", "link"} & set(page.tags)


def test_nobody_stands_beside_one_that_is_surely_the_closest(tmp_path):
    items = [Item(f"q{i:02}", "a", "b", 2) for i in range(40)]
    words = {"right": [2] * 40, "wrong": [0] * 30 + [2] * 10}
    assert (
        "Closest to people is right: it is right on"
        in page_after(tmp_path, words=words, items=items).words()
    )


def test_unknown_prices_are_calls_and_question_marks(tmp_path):
    page = page_after(tmp_path, price=0.0, unpriced=1)
    head, *rows = page.table("protocols")
    assert [row[head.index("dollars")] for row in rows] == ["?"] * 3
    assert rows[1][head.index("calls / right")].startswith("1.60 [")
    [[_, figure]] = page.chart("protocols", 0)
    assert figure["layout"]["xaxis"]["title"]["text"] == "calls in all"
    words = page.words()
    assert "A price is unknown" in words
    assert "$0" not in words


def test_a_wide_span_of_costs_has_a_logarithmic_axis(tmp_path):
    words = dict.fromkeys(("a", "b", "c", "d", "e", "f"), WORDS["plain"])
    [[_, figure]] = page_after(tmp_path, words=words).chart("protocols", 0)
    axis = figure["layout"]["xaxis"]
    assert axis["type"] == "log"
    assert axis["tickvals"][0] < 8 < 48 < axis["tickvals"][-1]
    assert axis["ticktext"][:4] == ["1", "2", "5", "10"]
    assert figure["data"][0]["x"] == [8.0]


def test_every_two_protocols_stand_side_by_side(tmp_path):
    page = page_after(tmp_path)
    _, *rows = page.table("differences")
    [first, *others] = [row[:2] + row[3:] for row in rows]
    assert first == ["debate", "plain", "no", "1.000", "0.833", "6"]
    assert [row[2] for row in others] == ["too few queries"] * 2
    charts = dict(page.chart("differences", 0))
    assert next(iter(charts)) == "agreement, with ties"
    figure = charts["agreement, with ties"]
    assert figure["layout"]["yaxis"]["ticktext"] == ["plain against debate"]


@pytest.mark.parametrize("words", [{"one": WORDS["plain"]}, {"none": WORDS["silent"]}])
def test_one_protocol_alone_or_one_without_a_word_has_a_page(tmp_path, words):
    page = page_after(tmp_path, words=words)
    assert "differences" not in page.sections
    assert ("No protocol judged" in page.words()) == ("none" in words)
