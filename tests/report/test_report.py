"""One page that opens from a file: complete, closed, and deaf to what its data say."""

import base64
import gzip
from html.parser import HTMLParser

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.helpers.builders import graded_pools, interrupted, pool_of, results_of, write_run
from zelo_ray.cli import main
from zelo_ray.commands.report import write_report
from zelo_ray.errors import InputError, NotFoundError
from zelo_ray.files.judgments import read_qrels
from zelo_ray.files.run_record import record_start
from zelo_ray.files.tables import table_of
from zelo_ray.records import Document, Pool, Vote
from zelo_ray.report.results import Table

EVIL = (
    '<script>window.pwned=1</script><img src=//evil.test/x onerror=window.pwned=1>&amp;"'
    'onmouseover="window.pwned=1" \' ]]> <!-- {{ 7*7 }} %{x} <b>bold</b>'
    '<a href="javascript:window.pwned=1">link</a>'
)


class Page(HTMLParser):
    """A page by its sections: their text, tables, charts, and what the queries have packed."""

    def __init__(self, text):
        super().__init__()
        self.tags, self.attributes, self.scripts = [], [], []
        self.sections, self.tables = {}, {}
        self.unpacked = []
        self._section, self._kind, self._cell = "", "", False
        self.sections[""] = []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag, attrs):
        told = dict(attrs)
        self.tags.append(tag)
        self.attributes += attrs
        if tag == "section":
            self._section = told["id"]
            self.sections[self._section] = []
        if tag == "script":
            self._kind = told.get("type", "ours")
        if tag == "table":
            self.tables.setdefault(self._section, []).append([])
        if tag == "tr":
            self.tables[self._section][-1].append([])
        if tag in ("td", "th"):
            self._cell = True
            self.tables[self._section][-1][-1].append("")

    def handle_endtag(self, tag):
        if tag == "script":
            self._kind = ""
        if tag in ("td", "th"):
            self._cell = False

    def handle_data(self, data):
        if self._kind == "text/plain":
            held = gzip.decompress(base64.b64decode(data)).decode()
            self.unpacked.append(held)
        elif self._kind:
            self.scripts.append(data)
        else:
            self.sections[self._section].append(data)
            if self._cell:
                self.tables[self._section][-1][-1][-1] += data

    def words(self, section=None):
        chosen = self.sections if section is None else [section]
        return " ".join(" ".join("".join(self.sections[name]) for name in chosen).split())

    def table(self, section, place=0):
        return self.tables[section][place]


def page_of(out):
    return Page((out / "report.html").read_text(encoding="utf-8"))


def report(out, pools, **say):
    summary = results_of(out, pools, **say)
    write_run(out, summary, EVIL)
    write_report(str(out))
    return page_of(out)


def evil_pool():
    documents = (
        Document(f"{EVIL}1", f"{EVIL} [[worth=0]]"),
        Document("d2", "harmless [[worth=1]]"),
        Document("d3", "harmless too [[worth=2]]"),
    )
    return Pool(f"{EVIL}q", f"{EVIL}?", documents)


def votes_of(*votes):
    """A table of votes, each (query, a, b, judge, preference, swapped)."""
    table = table_of([Vote(*vote, "because", "key") for vote in votes], Vote)
    return table.select(["query_id", "doc_id_a", "doc_id_b", "judge", "preference", "swapped"])


def test_whatever_comes_from_data_is_shown_and_not_run(tmp_path):
    def say(request):
        return "refused" if request.documents[0].id == "d3" else None

    page = report(tmp_path, [evil_pool(), Pool(f"{EVIL}2", EVIL, ())], say=say)
    assert len(page.scripts) == 1
    for part in (page, *map(Page, page.unpacked)):
        assert not {"img", "iframe", "object", "link"} & set(part.tags)
        assert not [name for name, _ in part.attributes if name.startswith("on")]
    text = page.words()
    for shown in (f"{EVIL}?", f"{EVIL}q", f"openai:{EVIL}", f"{EVIL}2"):
        assert shown in text
    assert f"{EVIL} [[worth=0]]" in Page(page.unpacked[0]).words()
    first = (tmp_path / "report.html").read_bytes()
    write_report(str(tmp_path))
    assert (tmp_path / "report.html").read_bytes() == first, "it is the same each time"


def test_the_page_needs_no_network(tmp_path):
    named = ("src", "href", "srcset", "action")
    attributes = report(tmp_path, [evil_pool()]).attributes
    assert all(value.startswith("#") for name, value in attributes if name in named)
    style = (tmp_path / "report.html").read_text(encoding="utf-8")
    style = style.partition("<style>")[2].partition("</style>")[0]
    assert not [word for word in ("url(", "@import") if word in style]
    [policy] = [value for _, value in attributes if value and "default-src" in value]
    assert policy.startswith("default-src 'none'; script-src 'sha256-")
    assert "unsafe-eval" not in policy


def test_tables_come_in_chunks_that_divide_no_query(tmp_path, monkeypatch):
    monkeypatch.setattr("zelo_ray.report.results._ROWS", 4)
    ids = [f"q{i}" for i, size in enumerate((3, 6, 1, 4, 2)) for _ in range(size)]
    table = pa.table({"query_id": ids, "n": range(len(ids))})
    pq.write_table(table, tmp_path / "numbers.parquet", row_group_size=5)
    chunks = list(Table(str(tmp_path / "numbers.parquet")).parts(["n", "query_id"]))
    assert pa.concat_tables(chunks)["n"].to_pylist() == list(range(len(ids)))
    seen = [set(chunk["query_id"].to_pylist()) for chunk in chunks]
    assert len(seen) > 2
    assert sum(map(len, seen)) == 5


# Runs that are not finished


def test_a_run_that_is_not_there_or_not_finished_has_no_report(tmp_path):
    with pytest.raises(NotFoundError, match="no run"):
        write_report(str(tmp_path))
    for kind in ("annotate", "compare"):
        (tmp_path / kind).mkdir()
        place = str(tmp_path / kind)
        record_start(place, "run.json", {"kind": kind, "options": {}})
        with pytest.raises(NotFoundError, match="is not finished"):
            write_report(place)


def test_nothing_is_measured_by_what_is_not_finished(tmp_path, capsys):
    out = interrupted(tmp_path, graded_pools(4), 20)
    results_of(out, [pool_of()])  # of an earlier run
    qrels = tmp_path / "qrels.txt"
    qrels.write_text("q1 0 d1 1\n")
    for place in (out, out / "scores.parquet"):
        assert main(["agree", str(place), "--human", str(qrels)]) == 1
        assert f"{out} is not finished" in capsys.readouterr().err
        with pytest.raises(InputError, match="is not finished"):  # as bakeoff --truth does
            read_qrels(str(place))
