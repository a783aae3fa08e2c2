"""One page that opens from a file: complete, closed, and deaf to what its data say."""

import base64
import gzip
import json
import re
from html.parser import HTMLParser

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.builders import (
    graded_pools,
    interrupted,
    pool_of,
    results_of,
    write_run,
)
from zelo_ray.cli import main
from zelo_ray.commands.annotate.report.vote_counts import COLUMNS, count_votes
from zelo_ray.commands.report import write_report
from zelo_ray.errors import InputError, NothingToReport
from zelo_ray.formats.judgments.qrels import read_qrels
from zelo_ray.formats.results import write_json
from zelo_ray.formats.run_record import record_start, unfinished_record
from zelo_ray.formats.tables import table_of
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


@pytest.mark.parametrize("words", [None, f"{EVIL}\nA nurse can act on it."])
def test_what_judges_were_told_and_shown_of_queries_has_a_section(tmp_path, words):
    summary = results_of(tmp_path, [evil_pool()])
    write_run(tmp_path, summary, instructions=words, show_query=["narrative"])
    write_report(str(tmp_path))
    page = page_of(tmp_path)
    assert "With each query they were shown: narrative." in page.words("told")
    if words:
        assert [row[0] for row in page.table("told")[1:]] == words.split("\n")
        assert "These words were in every prompt" in page.words("told")


def test_the_page_shows_the_template_of_the_prompts(tmp_path):
    summary = results_of(tmp_path, [evil_pool()])
    write_run(tmp_path, summary, template=f"{EVIL}\n{{{{query}}}}")
    write_report(str(tmp_path))
    page = page_of(tmp_path)
    assert [row[0] for row in page.table("told")[1:]] == [EVIL, "{{query}}"]
    assert "Prompts were built from this template." in page.words("told")


@pytest.mark.parametrize(
    ("judges", "told"),
    [
        (["offline:bm25", "recorded:a"], "none has read these words; people who"),
        (["offline:bm25", "openai:a"], "Judges but offline:bm25 have read these"),
    ],
)
def test_judges_that_read_no_prompt_are_not_said_to_have_read_instructions(tmp_path, judges, told):
    write_run(tmp_path, results_of(tmp_path, [evil_pool()]), instructions="A nurse can act on it.")
    run = json.loads((tmp_path / "run.json").read_text())
    run["judges"] = dict.fromkeys(judges, run["judges"]["openai:a-model"])
    (tmp_path / "run.json").write_text(json.dumps(run))
    write_report(str(tmp_path))
    assert told in page_of(tmp_path).words("told")


def test_data_in_scripts_can_neither_end_them_nor_be_markup_for_charts():
    text = embed_json({"a": f"</script>{EVIL}", "nan": float("nan")})
    assert "<" not in text
    assert json.loads(text) == {"a": f"</script>{EVIL}", "nan": None}
    assert escape_markup('<a href="x">&lt;') == '&lt;a href="x"&gt;&amp;lt;'


def test_the_page_needs_no_network(tmp_path):
    page = report(tmp_path, [evil_pool()])
    named = ("src", "href", "srcset", "action")
    assert not [
        item for item in page.attributes if item[0] in named and not item[1].startswith("#")
    ]
    raw = (tmp_path / "report.html").read_text(encoding="utf-8")
    style = raw.partition("<style>")[2].partition("</style>")[0]
    assert "url(" not in style
    assert "@import" not in style
    [policy] = [value for _, value in page.attributes if value and "default-src" in value]
    assert policy.startswith("default-src 'none'; script-src 'sha256-")
    assert "unsafe-eval" not in policy


def test_of_many_queries_those_to_look_at_and_some_by_chance_are_listed(tmp_path, monkeypatch):
    monkeypatch.setattr("zelo_ray.commands.annotate.report.details.QUERIES", 12)
    monkeypatch.setattr("zelo_ray.commands.annotate.report.details.TELLING", 4)
    monkeypatch.setattr("zelo_ray.commands.annotate.report.details._RUN", 2)
    monkeypatch.setattr("zelo_ray.commands.annotate.report.results.LEAST", 2)
    pools = [pool_of(tuple(range(3 + i % 3)), f"q-{i:03}") for i in range(60)]
    pools += [Pool("empty", "no documents", ())]
    page = report(tmp_path, pools)
    listed = re.findall(r"q-\d\d\d|empty", page.words("queries"))
    assert "empty" in listed, "it has no scores"
    assert 9 <= len(listed) <= 12
    assert max(listed[:-1]) > "q-030", "they are from all over the input"
    assert f"{len(listed)} of 61 queries: " in page.words("queries")
    for place, name in enumerate(listed[:-1]):
        documents = page.packed[place, "documents"]
        assert len(documents) == 3 + int(name[2:]) % 3
        assert all(rank for *_, rank, _ in documents)
        votes = pq.read_table(tmp_path / "votes.parquet", filters=[("query_id", "=", name)])
        assert len(page.packed[place, "votes"]["votes"]) == votes.num_rows
    write_report(str(tmp_path))
    assert page_of(tmp_path).words() == page.words(), "the same ones each time"


@pytest.mark.parametrize(("documents", "votes"), [(4, 4), (4, 1), (4, 0), (1, 0)])
def test_comparisons_are_carried_in_order_as_far_as_there_is_room(
    tmp_path, monkeypatch, documents, votes
):
    pools = [pool_of((0, 1, 2), f"q{i}") for i in range(4)]
    sizes = report(tmp_path, pools).sizes
    room = [sizes[q, "documents"] for q in range(documents)]
    room += [sizes[q, "votes"] for q in range(votes)]
    monkeypatch.setattr("zelo_ray.commands.annotate.report.details.BYTES", sum(room))
    write_report(str(tmp_path))
    page = page_of(tmp_path)
    assert list(page.packed) == [
        (q, kind)
        for q in range(documents)
        for kind in (("documents", "votes") if q < votes else ("documents",))
    ]
    text = page.words("queries")
    assert (f"has the comparisons of {votes} of them" in text) == (0 < votes < 4)
    assert (f"The first {documents} of 4 queries" in text) == (documents < 4)


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


def test_a_directory_without_a_run_is_said_in_one_line(tmp_path):
    with pytest.raises(NothingToReport, match=r"no run\.json: is it the --out"):
        write_report(str(tmp_path))


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("/data/a@b?.txt", "/data/a@b?.txt"),
        ("s3://bucket/a@b/c", "s3://bucket/a@b/c"),
        ("sftp://me:pass@host:22/path", "sftp://host:22/path"),
        ("https://host/run?token=secret", "https://host/run"),
    ],
)
def test_a_url_is_shown_without_what_is_secret_in_it(url, shown):
    assert without_credentials(url) == shown


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        *((0.0, "0.0%"), (0.0004, "<0.1%"), (0.5, "50.0%"), (0.9996, ">99.9%"), (1.0, "100.0%")),
        (float("nan"), "\N{EN DASH}"),
    ],
)
def test_a_chance_is_not_rounded_to_certainty(value, shown):
    assert format_probability(value) == shown


def test_the_report_can_be_written_anew(tmp_path):
    report(tmp_path, [evil_pool()])
    first = (tmp_path / "report.html").read_bytes()
    write_report(str(tmp_path))
    assert (tmp_path / "report.html").read_bytes() == first


# Runs that are not finished


@pytest.mark.parametrize(("name", "kind"), [("run.json", "annotate"), ("protocols.json", "trials")])
def test_an_unfinished_run_is_one_line(tmp_path, name, kind):
    record_start(str(tmp_path), name, {"kind": kind, "options": {}})
    with pytest.raises(NothingToReport, match=r"is not finished; run the same command again$"):
        write_report(str(tmp_path))


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
    says = f"zelo-ray: {out} is not finished; run the same command again\n"
    for place in (out, out / "scores.parquet"):
        assert main(["agree", str(place), "--human", str(qrels)]) == 1
        assert capsys.readouterr().err == says
        assert main(["compare-labels", "--old", str(qrels), "--new", str(place)]) == 1
        assert capsys.readouterr().err == says
        with pytest.raises(InputError, match="is not finished"):  # as bakeoff --truth does
            read_qrels(str(place))
