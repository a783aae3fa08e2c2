"""Why a document has its score, in words."""

import math
from dataclasses import replace

import pyarrow.parquet as pq
import pytest

from tests.helpers.builders import explained, pool_of, results_of, write_run
from tests.helpers.hills import write_contests
from zelo_ray.command_options import ExplainOptions
from zelo_ray.commands.explain import run
from zelo_ray.errors import NotFoundError
from zelo_ray.files.run_record import record_start
from zelo_ray.files.tables import table_of
from zelo_ray.records import Score, Vote


def refused(out, query, doc=None):
    with pytest.raises(NotFoundError) as caught:
        explained(out, query, doc)
    assert "\n" not in str(caught.value)
    return str(caught.value)


def test_what_is_not_there_is_refused(tmp_path):
    results_of(tmp_path / "votes", [pool_of(), pool_of(query_id="alone", worths=(0,))])
    write_contests(tmp_path / "contests")
    record_start(str(tmp_path), "run.json", {"kind": "annotate", "options": {}})
    for out, query, doc, says in (
        ("votes", "q7", "d1", "has no query 'q7'"),
        ("votes", "q1", "d9", "has no judged document 'd9'; it has d3, d2, d1, d0"),
        ("votes", "q1", "d", "several begin with 'd'"),
        ("votes", "alone", "d0", "no judgments of a query 'alone'"),
        ("contests", "q0", "d", "has no judged document 'd'; it has c, a, b"),
        ("elsewhere", "q1", "d1", "no such directory"),
        ("", "q1", None, "is not finished"),
    ):
        assert says in refused(tmp_path / out, query, doc)


def test_a_document_without_scores_has_its_failures(tmp_path):
    for name, status, hit in (
        ("some", "failed", lambda ids: ids not in ({"d0", "d1"}, {"d2", "d3"})),
        ("all", "filtered", lambda ids: "d0" in ids),
    ):
        results_of(
            tmp_path / name,
            [pool_of()],
            lambda request, s=status, h=hit: s if h({d.id for d in request.documents}) else None,
        )
    assert "d0: no score" in explained(tmp_path / "some", "q1", "d0")
    assert "filtered (because)" in explained(tmp_path / "all", "q1", "d0")


def test_texts_are_shown_as_judges_saw_them(tmp_path):
    pool = replace(pool_of(), about={"narrative": "Rules for wards.", "note": "not shown"})
    long = replace(pool.documents[0], content="[[worth=0]] " + "a word " * 99 + "and the end")
    told = {"instructions": "A nurse can act on it.", "show_query": ("narrative",)}
    summary = results_of(tmp_path, [replace(pool, documents=(long, *pool.documents[1:]))])
    write_run(tmp_path, summary, document_tokens=50, **told)
    _, query, words, document, *_ = explained(tmp_path, "q1", long.id).split("\n\n")
    assert query.splitlines()[-1] == "narrative: Rules for wards."
    assert words.splitlines()[1:] == ["A nurse can act on it."]
    assert document.startswith(f"Document {long.id}\n[[worth=0]] a word a word")
    assert document.endswith(" […]")


def shown(out, section, doc):
    """The rows of a table of an explanation."""
    results = run(ExplainOptions(run=str(out), query="q1", doc=doc))
    table = results.report.section(section).parts[0]
    return [dict(zip(table.columns, row, strict=True)) for row in table.rows]


def test_the_fit_expects_what_the_two_scores_say(tmp_path):
    results_of(tmp_path, [pool_of(query_id="q1", worths=(0, 1))])
    scores = [Score("q1", d, s, 0.1, 3, r) for d, s, r in (("a", 1.0, 1), ("b", 0.0, 2))]
    votes = [Vote("q1", "a", "b", j, p, False, "", "") for j, p in (("x", -0.2), ("y", 0.0))]
    for name, rows, kind in (("scores", scores, Score), ("votes", votes, Vote)):
        pq.write_table(table_of(rows, kind), tmp_path / f"{name}.parquet")
    [found] = shown(tmp_path, "comparisons", "b")
    assert (found["won"], found["lost"], found["mean"].value) == (0, 1, -0.1)
    assert found["expected"].value == pytest.approx(1 / (1 + math.e))


def test_a_query_is_named_by_its_beginning_or_text(tmp_path):
    texts = {"query-0a1": "How do I reset it?", "b": "It?", "c": "Why is it blue?"}
    results_of(tmp_path, [pool_of(query_id=name, query=text) for name, text in texts.items()])
    for named, found in (
        ("query-0", "query-0a1"),
        ("how do i  RESET it?", "query-0a1"),
        ("is it BLUE", "c"),
        ("IT?", "b"),
    ):
        assert f"\nQuery {found}\n" in explained(tmp_path, named)
    assert "text of several queries: query-0a1, b, c" in refused(tmp_path, "i")
    assert "did you mean 'query-0a1'?" in refused(tmp_path, "qury-0a1")


def test_texts_cannot_steer_a_terminal(tmp_path):
    results_of(tmp_path, [pool_of(query="how\x1b[2J do I\u202e reset it?")])
    text = explained(tmp_path, "q1", "d0")
    assert "Query q1\nhow\\x1b[2J do I\\u202e reset it?" in text
