"""The page of ``protocols``: a picture of agreement against cost, and the figures behind it."""

import pytest

from tests.test_report import EVIL, page_of
from tests.test_trials import ITEMS, WORDS, outcome_of
from zelo_ray.commands.compare_protocols.measured import write_outcome
from zelo_ray.commands.compare_protocols.people import Item
from zelo_ray.commands.report import write_report
from zelo_ray.formats.results import write_json


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


@pytest.mark.parametrize("words", [{"one": WORDS["plain"]}, {"none": WORDS["silent"]}])
def test_one_protocol_alone_or_one_without_a_word_has_a_page(tmp_path, words):
    page = page_after(tmp_path, words=words)
    assert "differences" not in page.sections
    assert ("No protocol judged" in page.words()) == ("none" in words)
