"""One page that opens from a file: complete, closed, and deaf to what its data say."""

import base64
import gzip
import json
import re
from html.parser import HTMLParser

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.builders import graded_pools, interrupted, pool_of, results_of, write_run
from zelo_ray.cli import main
from zelo_ray.commands.annotate.report.vote_counts import COLUMNS, count_votes
from zelo_ray.commands.report import write_report
from zelo_ray.errors import InputError, NotFoundError
from zelo_ray.files.judgments import read_qrels
from zelo_ray.files.run_record import record_start, unfinished_record
from zelo_ray.files.storage import write_json
from zelo_ray.files.tables import table_of
from zelo_ray.records import Document, Pool, Vote
from zelo_ray.reports.page import embed_json
from zelo_ray.reports.source import Source, without_credentials
from zelo_ray.reports.wording import escape_markup, format_probability

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
        self.sections, self.charts, self.tables = {}, {}, {}
        self.packed, self.sizes = {}, {}
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
            self._query = (int(told.get("data-query", -1)), told.get("class"))
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
        if self._kind == "application/json":
            self.charts.setdefault(self._section, []).append(json.loads(data))
        elif self._kind == "text/plain":
            self.sizes[self._query] = len(data)
            self.packed[self._query] = json.loads(gzip.decompress(base64.b64decode(data)))
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

    def chart(self, section, place):
        return self.charts[section][place]


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
    return table.select(list(COLUMNS))


def test_whatever_comes_from_data_is_shown_and_not_run(tmp_path):
    def say(request):
        return "refused" if request.documents[0].id == "d3" else None

    page = report(tmp_path, [evil_pool(), Pool(f"{EVIL}2", EVIL, ())], say=say)
    assert not {"img", "iframe", "object", "link"} & set(page.tags)
    assert not [name for name, _ in page.attributes if name.startswith("on")]
    assert len(page.scripts) == 4, "charts, when, take and page"
    text = page.words()
    for shown in (f"{EVIL}?", f"{EVIL}q", f"openai:{EVIL}", f"{EVIL}2"):
        assert shown in text
    assert page.packed[0, "documents"][0][:2] == [f"{EVIL}1", f"{EVIL} [[worth=0]]"]
    first = (tmp_path / "report.html").read_bytes()
    write_report(str(tmp_path))
    assert (tmp_path / "report.html").read_bytes() == first, "it is the same each time"


def test_what_judges_were_told_is_shown(tmp_path):
    words = f"{EVIL}\nA nurse can act on it."
    summary = results_of(tmp_path, [evil_pool()])
    for fields, judges, rows, told in (
        ({"instructions": words}, ["openai:a"], words.split("\n"), "in every prompt"),
        ({"instructions": words}, ["offline:bm25", "recorded:a"], None, "none has read these"),
        ({"instructions": words}, ["offline:bm25", "openai:a"], None, "Judges but offline:bm25"),
        ({"show_query": ["narrative"]}, ["openai:a"], None, "were shown: narrative."),
        ({"template": f"{EVIL}\n{{{{query}}}}"}, ["openai:a"], [EVIL, "{{query}}"], "template"),
    ):
        write_run(tmp_path, summary, **fields)
        run = json.loads((tmp_path / "run.json").read_text())
        run["judges"] = dict.fromkeys(judges, run["judges"]["openai:a-model"])
        (tmp_path / "run.json").write_text(json.dumps(run))
        write_report(str(tmp_path))
        page = page_of(tmp_path)
        assert told in page.words("told")
        assert rows is None or [row[0] for row in page.table("told")[1:]] == rows


def test_data_in_scripts_can_neither_end_them_nor_be_markup_for_charts():
    text = embed_json({"a": f"</script>{EVIL}", "nan": float("nan")})
    assert "<" not in text
    assert json.loads(text) == {"a": f"</script>{EVIL}", "nan": None}
    assert escape_markup('<a href="x">&lt;') == '&lt;a href="x"&gt;&amp;lt;'


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


DETAILS = "zelo_ray.commands.annotate.report.details"


def test_of_many_queries_those_to_look_at_and_some_by_chance_are_listed(tmp_path, monkeypatch):
    for name, value in {"QUERIES": 12, "TELLING": 4, "_RUN": 2}.items():
        monkeypatch.setattr(f"{DETAILS}.{name}", value)
    monkeypatch.setattr("zelo_ray.commands.annotate.report.results.LEAST", 2)
    pools = [pool_of(tuple(range(3 + i % 3)), f"q-{i:03}") for i in range(60)]
    page = report(tmp_path, [*pools, Pool("empty", "no documents", ())])
    *listed, last = re.findall(r"q-\d\d\d|empty", page.words("queries"))
    assert last == "empty", "it has no scores"
    assert 8 <= len(listed) < 12
    assert max(listed) > "q-030", "they are from all over the input"
    for place, name in enumerate(listed):
        documents = page.packed[place, "documents"]
        assert len(documents) == 3 + int(name[2:]) % 3
        assert all(rank for *_, rank, _ in documents)
        votes = pq.read_table(tmp_path / "votes.parquet", filters=[("query_id", "=", name)])
        assert len(page.packed[place, "votes"]["votes"]) == votes.num_rows


def test_comparisons_are_carried_in_order_as_far_as_there_is_room(tmp_path, monkeypatch):
    sizes = report(tmp_path, [pool_of((0, 1, 2), f"q{i}") for i in range(4)]).sizes
    for documents, votes in ((4, 4), (4, 1), (4, 0), (1, 0)):
        held = [(q, "documents") for q in range(documents)] + [(q, "votes") for q in range(votes)]
        monkeypatch.setattr(f"{DETAILS}.BYTES", sum(sizes[each] for each in held))
        write_report(str(tmp_path))
        assert list(page_of(tmp_path).packed) == sorted(held)


def test_judges_agree_by_the_sign_on_pairs_that_both_compared():
    table = votes_of(
        ("q1", "a", "b", "j1", 0.5, False),
        ("q1", "a", "b", "j2", 0.1, True),
        ("q1", "a", "c", "j1", -0.5, False),
        ("q1", "c", "a", "j2", -0.2, False),  # the same pair, named the other way
        ("q1", "b", "c", "j1", 0.0, False),
        ("q1", "b", "c", "j2", -0.2, True),
        ("q2", "a", "b", "j1", 0.4, False),
        ("q2", "x", "y", "j2", -0.4, False),  # only one of them compared it
    )
    panel = count_votes([table.slice(0, 6), table.slice(6)])
    assert panel.agreement("j2", "j1") == (0.5, 3)
    assert panel.by_query == {"q1": 0.5}
    assert panel.agreement("j1", "j3")[1] == 0


def test_the_share_of_the_document_shown_first_minds_what_was_swapped():
    table = votes_of(
        ("q", "a", "b", "j", -0.5, False),  # for a, which was first
        ("q", "a", "c", "j", -0.5, True),  # for a, which was second
        ("q", "b", "c", "j", 0.5, True),  # for c, which was first
        ("q", "b", "d", "j", 0.0, True),
    )
    panel = count_votes([table])
    assert (panel.first["j"], panel.votes["j"]) == (2.5, 4)


def test_tables_come_in_chunks_that_divide_no_query(tmp_path, monkeypatch):
    monkeypatch.setattr("zelo_ray.reports.source._ROWS", 4)
    ids = [f"q{i}" for i, size in enumerate((3, 6, 1, 4, 2)) for _ in range(size)]
    table = pa.table({"query_id": ids, "n": range(len(ids))})
    pq.write_table(table, tmp_path / "numbers.parquet", row_group_size=5)
    chunks = list(Source(str(tmp_path)).chunks("numbers", ["n", "query_id"]))
    assert pa.concat_tables(chunks)["n"].to_pylist() == list(range(len(ids)))
    seen = [set(chunk["query_id"].to_pylist()) for chunk in chunks]
    assert len(seen) > 2
    assert sum(map(len, seen)) == 5


def test_a_section_whose_file_is_absent_is_left_out(tmp_path):
    report(tmp_path, [pool_of()])
    for name in ("votes", "failures"):
        (tmp_path / f"{name}.parquet").unlink()
    write_report(str(tmp_path))
    page = page_of(tmp_path)
    assert set(page.sections) == {"", "scores", "judges", "queries"}
    assert list(page.packed) == [(0, "documents")]


def test_figures_and_addresses_tell_no_more_than_they_may():
    for url, shown in (
        ("/data/a@b?.txt", "/data/a@b?.txt"),
        ("s3://bucket/a@b/c", "s3://bucket/a@b/c"),
        ("sftp://me:pass@host:22/path", "sftp://host:22/path"),
        ("https://host/run?token=secret", "https://host/run"),
    ):
        assert without_credentials(url) == shown
    for value, shown in ((0.0, "0.0%"), (0.0004, "<0.1%"), (0.9996, ">99.9%"), (1.0, "100.0%")):
        assert format_probability(value) == shown
    assert format_probability(float("nan")) == "\N{EN DASH}"


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


def test_what_an_earlier_run_recorded_is_kept_until_the_next_one_ends(tmp_path):
    record = {"run_id": "first", "summary": {}}
    write_json(str(tmp_path), "run.json", record)
    assert unfinished_record(str(tmp_path)) is None
    for run_id in ("second", "third"):
        record_start(str(tmp_path), "run.json", {"run_id": run_id})
        found = unfinished_record(str(tmp_path))
        assert (found["run_id"], found["before"]) == (run_id, record)
    assert [path.name for path in tmp_path.iterdir()] == ["run.json"]


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
