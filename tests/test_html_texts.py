"""HTML in texts: noticed, and taken out for models and results alike."""

import gzip
import json
import sys
from pathlib import Path

import pytest

import zelo_ray
from tests import crash
from tests.builders import options_of, rows_of
from tests.input_pools import cells, lines, put
from zelo_ray.cli import main
from zelo_ray.engine.ledger import read_rows
from zelo_ray.errors import InputError, OptionError
from zelo_ray.formats.files import read_record
from zelo_ray.formats.input import resolve_inputs
from zelo_ray.formats.input.html import describe_tags, has_tags, strip_pools
from zelo_ray.formats.input.stored_inputs import read_notes

NOTICE = (
    "2 of the first 3 documents hold HTML tags, which models are shown: --strip-html takes them out"
)
ROWS = [
    {"query_id": "q", "query": "<b>tick</b>", "doc_id": "a", "text": "<p>Pull it <i>out</i>.</p>"},
    {"query_id": "q", "query": "<b>tick</b>", "doc_id": "b", "text": "a < b and c > d, AT&amp;T"},
    {"query_id": "q", "query": "<b>tick</b>", "doc_id": "c", "text": "one<br>two"},
]
STRIPPED = ["Pull it out.", "a < b and c > d, AT&T", "one\ntwo"]


def pool(*texts, query="tick", **more):
    documents = [{"id": f"d{n}", "content": text} for n, text in enumerate(texts)]
    return {"query": {"id": "q", "query": query}, "documents": documents, **more}


def stripped(tmp_path, *pools, **shown):
    """The pools that are made of some, and what is said."""
    place = put(tmp_path / "pools.jsonl", lines(pools))
    made, said = strip_pools([place], str(tmp_path / "out"), **shown)
    return [json.loads(line) for line in Path(made).read_text().splitlines()], said


def contents(pools):
    return [document["content"] for pool in pools for document in pool["documents"]]


@pytest.mark.parametrize(
    "text",
    [
        "a < b and c > d",
        "if a<b and c>d",
        "a <b and c> d",
        "List<int>, Map<String, List<T>>",
        "#include <stdio.h>",
        "x <- 5; y -> z; <5 and >3",
        "mail <ann@example.org>",
        "AT&amp;T",
    ],
)
def test_mathematics_and_programs_are_no_tags(tmp_path, text):
    assert not has_tags(text)
    assert describe_tags([put(tmp_path / "p.jsonl", lines([pool(text)]))]) == ""


@pytest.mark.parametrize(
    ("html", "text"),
    [
        ("<p>one</p><p>two</p>", "one\n\ntwo"),
        ("<ul><li>one</li><li>two</li></ul>", "one\ntwo"),
        ("<table><tr><td>a</td><td>b</td></tr><tr><td>c</td></tr></table>", "a b\nc"),
        ("<h1>Head</h1>wrapped\ntext", "Head\n\nwrapped text"),
        ("Title\none <b>bold</b>\ntwo\n\nthree", "Title\none bold\ntwo\n\nthree"),
        ("<p>see</p><pre>if x:\n    y()</pre>", "see\n\nif x:\ny()"),
        ("<p>a < b, if a<b and c>d, List<int></p>", "a < b, if a<b and c>d, List<int>"),
        ("<p>say &lt;p&gt; &amp; &eacute;</p>", "say <p> & é"),
        ('<a\n href="?a=1&b=2" title="x > y">link</a>', "link"),
        ("<p>x</p><my-tag>y</my-tag><o:p></o:p><svg><path d='M1'/></svg>", "x\n\ny"),
        ("<script>if (a<b && c>d) go()</script><style>p{}</style><p>x<!-- <p>y -->", "x"),
        ("<p>an <!-- unclosed comment</p>", "an <!-- unclosed comment"),
        ("<div>" * 400 + "deep" + "</div>" * 400, "deep"),
        ("<!DOCTYPE html><html><head><title>T</title></head><body>x</body></html>", "T\n\nx"),
    ],
)
def test_what_is_read_is_kept(tmp_path, html, text):
    assert has_tags(html)
    assert contents(stripped(tmp_path, pool(html))[0]) == [text]


def test_careless_markup_is_read_in_linear_time(tmp_path):
    bad = ["<!--" * 50_000, "<pre>" * 20_000, '<a "' * 20_000, "<p a<b " * 20_000]
    made, _ = stripped(tmp_path, pool(*(f"{text}<br>end" for text in bad)))
    assert all(text.endswith("end") for text in contents(made))


def test_tags_are_noticed_in_json_lines_and_in_tables(tmp_path):
    for name, text in (
        ("rows.csv", cells(ROWS)),
        ("pools.jsonl", lines([pool(*(row["text"] for row in ROWS))])),
    ):
        options = options_of(inputs=(put(tmp_path / name, text),), out=str(tmp_path / "out"))
        said = []
        resolve_inputs(options, options.out, said.append)
        assert said[-1] == NOTICE
    said.clear()
    plain = options_of(inputs=(put(tmp_path / "p.jsonl", lines([pool("a < b")])),))
    assert resolve_inputs(plain, str(tmp_path / "out"), said.append) == plain
    assert said == []


def test_all_that_models_are_shown_is_stripped_and_nothing_else(tmp_path):
    given = pool("<p>x</p>", query="<b>tick</b>", extra=12345678901234567890123)
    given["query"] |= {"narrative": ["<p>a</p>", "b"], "raw": "<p>r</p>", "description": "<br>"}
    given["documents"][0]["metadata"] = {"title": "<i>t</i>", "raw": "<p>r</p>", "year": 1999}
    shown = {"show_query": ("narrative", "description"), "show_metadata": ("title", "year")}
    (made,), said = stripped(tmp_path, given, **shown)
    assert made == {
        "query": {
            "id": "q",
            "query": "tick",
            "narrative": ["a", "b"],
            "raw": "<p>r</p>",
            "description": "<br>",
        },
        "documents": [
            {
                "id": "d0",
                "content": "x",
                "metadata": {"title": "t", "raw": "<p>r</p>", "year": 1999},
            }
        ],
        "extra": 12345678901234567890123,
    }
    assert said == ["took HTML out of 1 of 1 document and of 1 query"]


def test_a_document_with_nothing_but_tags_is_left_out_and_named(tmp_path):
    made, said = stripped(tmp_path, pool("<img src=x>", "kept", "<p></p>"))
    assert contents(made) == ["kept"]
    what = "documents with nothing but HTML tags"
    assert said == [
        "took HTML out of 2 of 3 documents",
        f"left out {what}: 2 (document d0 in query q, document d2 in query q)",
    ]
    (place,) = (tmp_path / "out" / "input").glob("pools-*.jsonl")
    assert read_notes([str(place)]) == said


def test_a_query_among_its_candidates_is_still_named(tmp_path):
    given = pool("<b>tick</b>", "other", query="tick")
    given["documents"][0]["id"] = "q"
    made, said = stripped(tmp_path, given)
    assert contents(made) == ["tick", "other"]
    (told,) = said[1:]
    assert told.startswith("the query itself, by id and text, is a candidate of 1 query (q)")


def test_lines_that_are_no_pools_stay_for_the_reader_to_reject(tmp_path):
    bad = ["{", '{"query": 1, "documents": []}', '"<p>"', '{"documents": [{"content": ["<p>"]}]}']
    strange = pool("x")
    strange["documents"][0]["content"] = {"<p>": 1}
    text = "\n".join([*bad, lines([strange]), lines([pool("<p>x</p>")])])
    place, _ = strip_pools([put(tmp_path / "p.jsonl", text)], str(tmp_path / "out"))
    assert Path(place).read_text().splitlines()[:5] == [*bad, lines([strange]).strip()]
    with pytest.raises(InputError, match="the input holds no pool; it is empty"):
        strip_pools([put(tmp_path / "e.jsonl", "\n \n")], str(tmp_path / "out"))


def test_several_shards_packed_or_not_become_one_file_that_is_found_again(tmp_path):
    rows = [pool("<p>x</p>"), pool("<p>y</p>") | {"query": {"id": "r", "query": "r"}}]
    put(tmp_path / "in" / "a.jsonl", "\ufeff" + lines(rows[:1]))
    (tmp_path / "in" / "b.jsonl.gz").write_bytes(gzip.compress(lines(rows[1:]).encode()))
    options = options_of(inputs=(str(tmp_path / "in"),), out=str(tmp_path / "out"), strip_html=True)
    said = []
    made = [resolve_inputs(options, options.out, said.append) for _ in range(2)]
    (place,) = made[0].inputs
    assert made[0] == made[1]
    assert not made[0].strip_html  # which would take out what texts say of tags
    assert said == [f"took HTML out of 2 of 2 documents; pools written to {place}"] * 2
    found = [json.loads(line) for line in Path(place).read_text().splitlines()]
    assert contents(found) == ["x", "y"]


def test_notes_on_what_a_table_lacked_are_kept(tmp_path):
    rows = [*ROWS, {"query_id": "q", "query": "<b>tick</b>", "doc_id": "e", "text": ""}]
    place = put(tmp_path / "rows.csv", cells(rows))
    options = options_of(inputs=(place,), out=str(tmp_path / "out"), strip_html=True)
    said = []
    made = resolve_inputs(options, options.out, said.append)
    told = "took HTML out of 3 of 3 documents and of 1 query"
    assert said[-1] == f"{told}; pools written to {made.inputs[0]}"
    assert sum("pools written to" in line for line in said) == 1
    notes = read_notes(made.inputs)
    assert notes[-1] == told
    assert any(line.startswith("left out documents without a text: 1") for line in notes)


def test_the_command_strips_a_table_and_asks_nothing_twice(tmp_path):
    put(tmp_path / "rows.csv", cells(ROWS))
    words = ["annotate", str(tmp_path / "rows.csv"), "--judges", "offline"]
    out = tmp_path / "out"
    command = [*crash.COMMAND, *words, "--out", str(out)]
    status, said = crash.completed([*command, "--strip-html"], crash.bare_environment())
    assert status == 0, said
    assert "took HTML out of 3 of 3 documents and of 1 query; pools written to" in said
    assert "hold HTML tags" not in said
    (line,) = (out / "annotated.jsonl").read_text().splitlines()
    assert sorted(contents([json.loads(line)])) == sorted(STRIPPED)
    assert any("took HTML" in note for note in read_record(f"{out}/run.json")["summary"]["notes"])
    status, said = crash.completed([*command, "--strip-html"], crash.bare_environment())
    assert status == 0, said
    assert "Up to date" in said


def test_a_dry_run_names_no_file_that_it_does_not_keep(tmp_path, capsys):
    place = put(tmp_path / "rows.csv", cells(ROWS))
    words = ["annotate", place, "--judges", "offline", "--out", str(tmp_path / "out"), "--dry-run"]
    assert main([*words, "--strip-html"]) == 0
    said = capsys.readouterr().out
    assert "took HTML out of 3 of 3 documents" in said
    assert "pools written" not in said
    assert not (tmp_path / "out").exists()


STRIP = """
import zelo_ray
zelo_ray.annotate({plain!r}, out="{folder}/out", judges="offline")
places = {{"out": "{folder}/other", "ledger": "{folder}/out"}}
zelo_ray.annotate({rows!r}, judges="offline", strip_html=True, **places)
"""


@pytest.mark.ray
def test_python_strips_rows_too_and_the_ledger_knows_them_by_their_texts(tmp_path, one_ray):
    plain = [
        row | {"query": "tick", "text": text} for row, text in zip(ROWS, STRIPPED, strict=True)
    ]
    program = STRIP.format(plain=plain, rows=ROWS, folder=tmp_path)
    status, said = one_ray.run(crash.bare_environment(), "-c", program)
    assert status is None, said
    assert len(list(read_rows(str(tmp_path / "out")))) == 9, "each was asked once"
    scores, again = (rows_of(tmp_path / name, "scores") for name in ("out", "other"))
    assert scores == again


def test_a_contest_strips_its_pools_and_refuses_to_strip_none(tmp_path, capsys):
    truth = put(tmp_path / "people.qrels", "q 0 a 1\nq 0 b 0\nq 0 c 2\n")
    run = put(tmp_path / "mine.run", "q Q0 a 1 2 mine\nq Q0 b 2 1 mine\n")
    words = ["bakeoff", "--truth", truth, "--runs", run, "--resamples", "100", "--strip-html"]
    assert main([*words, "--out", str(tmp_path / "none")]) == 2
    assert "--strip-html needs --pools; name some, or leave it out" in capsys.readouterr().err
    pools = ["--pools", put(tmp_path / "rows.csv", cells(ROWS))]
    assert main([*words, *pools, "--out", str(tmp_path / "out")]) == 0
    told = "took HTML out of 3 of 3 documents and of 1 query; pools written to"
    assert told in "".join(capsys.readouterr())


def test_without_the_library_the_extra_is_told_in_a_line(tmp_path, monkeypatch, capsys):
    monkeypatch.setitem(sys.modules, "html_text", None)
    place = put(tmp_path / "rows.csv", cells(ROWS))
    with pytest.raises(OptionError, match=r"^--strip-html needs the extra html"):
        zelo_ray.annotate(place, out=tmp_path / "out", judges="offline", strip_html=True)
    words = ["annotate", place, "--judges", "offline", "--out", str(tmp_path / "out")]
    assert main([*words, "--strip-html"]) == 2
    told = "zelo-ray: --strip-html needs the extra html: pip install 'zelo-ray[html]'"
    assert capsys.readouterr().err.strip().splitlines()[-1] == told
