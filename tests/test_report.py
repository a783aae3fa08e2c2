"""One page that opens from a file: complete, closed, and deaf to what its data say."""

from html.parser import HTMLParser

import pytest

from tests.builders import results_of, write_run
from zelo_ray.records import Document, Pool
from zelo_ray.report import NothingToReport, write_report

EVIL = '<script>alert("x")</script><img src=//evil.test/x onerror=alert(1)>&amp;" \' ]]> {{ 7*7 }}'


class Page(HTMLParser):
    def __init__(self, text):
        super().__init__()
        self.tags, self.attributes, self.text = [], [], []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        self.attributes += attrs

    def handle_data(self, data):
        self.text.append(data)


def report(out, pools, **say):
    summary = results_of(out, pools, **say)
    write_run(out, summary, EVIL)
    write_report(str(out))
    return Page((out / "report.html").read_text(encoding="utf-8"))


def evil_pool():
    documents = (
        Document(f"{EVIL}1", f"{EVIL} [[worth=0]]"),
        Document("d2", "harmless [[worth=1]]"),
        Document("d3", "harmless too [[worth=2]]"),
    )
    return Pool(f"{EVIL}q", f"{EVIL}?", documents)


def test_whatever_comes_from_data_is_shown_and_not_run(tmp_path):
    def say(request):
        return "refused" if request.documents[0].id == "d3" else None

    page = report(tmp_path, [evil_pool(), Pool(f"{EVIL}2", EVIL, ())], say=say)
    assert not {"script", "img", "iframe", "object", "link"} & set(page.tags)
    assert not [name for name, _ in page.attributes if name.startswith("on")]
    text = "".join(page.text)
    for shown in (f"{EVIL}?", f"{EVIL}1", f"{EVIL}q", f"openai:{EVIL}", f"{EVIL}2"):
        assert shown in text


def test_the_page_needs_no_network(tmp_path):
    page = report(tmp_path, [evil_pool()])
    assert not [item for item in page.attributes if item[0] in ("src", "href", "srcset", "action")]
    raw = (tmp_path / "report.html").read_text(encoding="utf-8")
    style = raw.partition("<style>")[2].partition("</style>")[0]
    assert "url(" not in style
    assert "@import" not in style
    assert "http-equiv" not in raw


def test_queries_failures_and_what_was_not_scored_are_there(tmp_path):
    def say(request):
        return "refused" if request.judge.provider == "openai" else None

    pools = [evil_pool(), Pool("small", "one candidate", (Document("d1", "x"),))]
    text = " ".join("".join(report(tmp_path, pools, say=say).text).split())
    assert "Relevance scores of 2 queries" in text
    assert "3 of 4 documents scored from 3 judgments; 3 requests without one" in text
    assert "Queries without scores" in text
    assert "of the 2 documents that a comparison takes" in text
    assert "Requests without a judgment" in text
    assert "not judged" in text
    assert "small" in text


def test_documents_stand_by_rank_and_those_without_a_score_last(tmp_path):
    documents = tuple(Document(f"d{i}", f"text [[worth={i}]]") for i in range(4))
    page = report(tmp_path, [Pool("q", "query", documents)], document_limit=3)
    text = "".join(page.text)
    places = [text.index(f"\n{rank}{doc}") for rank, doc in ((1, "d2"), (2, "d1"), (3, "d0"))]
    assert places == sorted(places)
    assert text.index("\N{EN DASH}d3") > places[-1]


def test_a_query_whose_scores_are_all_equal_is_drawn(tmp_path):
    documents = (Document("d0", "[[worth=1]]"), Document("d1", "[[worth=1]]"))
    page = report(tmp_path, [Pool("q", "query", documents)])
    assert "+0.00" in "".join(page.text)


def test_a_run_of_nothing_has_a_report(tmp_path):
    text = "".join(report(tmp_path, []).text)
    assert "Relevance scores of 0 queries" in text


def test_only_the_first_queries_are_shown_and_the_page_says_so(tmp_path, monkeypatch):
    monkeypatch.setattr("zelo_ray.report._QUERIES", 2)
    pools = [Pool(f"query-{i}", f"text {i}", ()) for i in range(4)]
    text = "".join(report(tmp_path, pools).text)
    assert "The first 2; all of them are in scores.parquet" in text
    shown = text.partition("The first 2")[2]
    assert "query-1" in shown
    assert "query-2" not in shown


def test_a_directory_without_a_run_is_said_in_one_line(tmp_path):
    with pytest.raises(NothingToReport, match=r"no run\.json: is it the --out"):
        write_report(str(tmp_path))


def test_the_report_can_be_written_anew(tmp_path):
    report(tmp_path, [evil_pool()])
    first = (tmp_path / "report.html").read_bytes()
    write_report(str(tmp_path))
    assert (tmp_path / "report.html").read_bytes() == first
