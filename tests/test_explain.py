"""Why a document has its score, in words."""

import math
import re
from dataclasses import replace

import pyarrow.parquet as pq
import pytest

from tests.builders import pool_of, results_of, write_run
from tests.hills import write_contests, write_verdicts
from zelo_ray import cli
from zelo_ray.commands.explain import explain
from zelo_ray.commands.explain.meetings import find_meetings, format_grades, ranks_not_different
from zelo_ray.commands.explain.paragraphs import ranges
from zelo_ray.errors import NothingToExplain
from zelo_ray.formats.run_record import record_start
from zelo_ray.formats.tables import table_of
from zelo_ray.records import Failure, Grade, Rater, Score, Vote


@pytest.fixture
def out(tmp_path):
    """Four documents, d3 the best; the second judge refuses to compare d0 with d1."""

    def say(request):
        refused = {d.id for d in request.documents} == {"d0", "d1"}
        return "refused" if refused and request.judge.provider == "anthropic" else None

    pools = [pool_of(), pool_of(query_id="alone", worths=(0,))]
    results_of(tmp_path, pools, say)
    return str(tmp_path)


def test_what_judges_were_told_and_shown_of_the_query_stands_above(tmp_path):
    pool = replace(pool_of(), about={"narrative": "Rules for wards.", "note": "not shown"})
    told = {"instructions": "A nurse can act on it.", "show_query": ("narrative",)}
    write_run(tmp_path, results_of(tmp_path, [pool]), **told)
    (query, words, *_) = explain(str(tmp_path), "q1").split("\n\n")
    assert query.splitlines()[-1] == "    narrative: Rules for wards."
    assert words.splitlines()[1:] == ["    A nurse can act on it."]


@pytest.mark.parametrize(
    ("query", "doc", "says"),
    [
        ("q7", "d1", "no judgments of a query 'q7'"),
        ("q7", None, "no judgments of a query 'q7'"),
        ("q1", "d9", "has no judged document 'd9'; it has d3, d2, d1, d0"),
        ("alone", "d0", "no judgments of a query 'alone'"),
    ],
)
def test_what_is_not_there_is_said_in_one_line(out, query, doc, says):
    with pytest.raises(NothingToExplain, match=says):
        explain(out, query, doc)


def test_a_directory_without_results_is_said_in_one_line(tmp_path):
    with pytest.raises(NothingToExplain, match=r"no scores\.parquet: is it the --out"):
        explain(str(tmp_path / "elsewhere"), "q1", "d1")


def test_a_document_that_was_judged_but_not_scored_says_so(tmp_path):
    def say(request):
        apart = {d.id for d in request.documents} in ({"d0", "d1"}, {"d2", "d3"})
        return None if apart else "failed"

    results_of(tmp_path, [pool_of()], say)
    assert "d0: no score" in explain(str(tmp_path), "q1", "d0")


def test_a_document_of_which_nothing_came_back_is_explained_by_its_failures(tmp_path):
    def say(request):
        return "filtered" if "d0" in {d.id for d in request.documents} else None

    results_of(tmp_path, [pool_of()], say)
    assert "filtered (because)" in explain(str(tmp_path), "q1", "d0")


def test_a_failure_in_both_orders_is_one_line(tmp_path):
    failed = [
        Failure("q0", pair, "j1", "refused", "no", attempts=1, key=str(pair))
        for pair in (("a", "b"), ("b", "a"))
    ]
    write_verdicts(tmp_path)
    pq.write_table(table_of(failed, Failure), tmp_path / "failures.parquet")
    for asked in (("q0", "a"), ("q0",)):
        found = explain(str(tmp_path), *asked).split("\n\n")
        assert found[-1].endswith(" j1 on a and b: refused (no), 2 times")
        assert "\n" not in found[-1]
        assert found[-2].startswith(("a against b", "against b"))


def test_a_document_that_no_contest_reached_is_said_to_be_not_judged(tmp_path):
    write_contests(tmp_path)
    with pytest.raises(NothingToExplain, match="has no judged document 'd'; it has c, a, b"):
        explain(str(tmp_path), "q0", "d")


@pytest.mark.parametrize("kind", ["annotate", "bakeoff"])
def test_an_unfinished_run_is_one_line(tmp_path, kind):
    record_start(str(tmp_path), "run.json", {"kind": kind, "options": {}})
    with pytest.raises(NothingToExplain, match=r"is not finished; run the same command again$"):
        explain(str(tmp_path), "q1")


def test_a_document_is_shown_as_far_as_judges_saw_it(tmp_path):
    pool = pool_of()
    long = replace(pool.documents[0], content="[[worth=0]] " + "a word " * 99 + "and the end")
    summary = results_of(tmp_path, [replace(pool, documents=(long, *pool.documents[1:]))])
    write_run(tmp_path, summary, document_tokens=50)
    text = explain(str(tmp_path), "q1", long.id).split("\n\n")[1]
    assert text.startswith(f"document {long.id}\n    [[worth=0]] a word a word")
    assert text.endswith(" […]")
    assert "and the end" not in text


def test_the_fit_expects_what_the_two_scores_say():
    scores = {d: Score("q", d, s, 0.1, 3, 1) for d, s in (("a", 1.0), ("b", 0.0))}
    votes = [Vote("q", "a", "b", j, p, False, "", "") for j, p in (("x", -0.2), ("y", 0.0))]
    (found,) = find_meetings("b", votes, scores)
    assert (found.share_won, found.mean) == (0.25, -0.1)
    assert found.expected == pytest.approx(1 / (1 + math.e))


def test_neighbours_are_alike_where_their_errors_cover_the_difference():
    told = [(3.0, 0.1), (1.0, 0.5), (0.5, 0.5), (0.0, 0.5)]
    scores = [Score("q", str(n), s, e, 3, n) for n, (s, e) in enumerate(told, 1)]
    assert [*ranges(ranks_not_different(scores))] == ["2 to 4"]
    assert [*ranges([1, 3, 4])] == ["1 to 2", "3 to 5"]


def test_an_id_may_be_cut_short_and_a_slip_is_told(tmp_path):
    results_of(tmp_path, [pool_of(query_id="reset-1"), pool_of(query_id="other")])
    assert explain(str(tmp_path), "res", "d0") == explain(str(tmp_path), "reset-1", "d0")
    with pytest.raises(NothingToExplain, match=r"did you mean 'reset-1'\?"):
        explain(str(tmp_path), "rest-1")
    with pytest.raises(NothingToExplain, match="several begin with 'd': d3, d2, d1, d0"):
        explain(str(tmp_path), "other", "d")


def test_texts_cannot_steer_a_terminal(tmp_path):
    pool = pool_of(query="how\x1b[2J do I\u202e reset it?")
    results_of(tmp_path, [pool])
    text = explain(str(tmp_path), "q1", "d0")
    assert text.startswith("query q1\n    how\\x1b[2J do I\\u202e reset it?")


def test_grades_tell_what_they_count_for(tmp_path):
    raters = [Rater(name, 0.5, 0.1, 1.0, 0.1, 0.25, 9) for name in ("openai:one", "gemini:x")]
    grades = [Grade("q", "d", name, 2, (), (), "", "") for name in ("openai:one", "other")]
    head, _, one, other, _ = format_grades(grades, raters, plain=False)
    assert head == "How the grades become the score:"
    assert one.split() == ["openai:one", "2", "+0.50", "25%"]
    assert other.split() == ["other", "2", "unknown"]
    assert next(format_grades(grades, raters, plain=True)) == "The score weighs all judges equally:"


def test_a_query_is_named_by_its_text(tmp_path):
    pools = [
        pool_of(query_id="query-0a1", query="How do I reset it?"),
        pool_of(query_id="b", query="It?"),
    ]
    pools.append(pool_of(query_id="c", query="Why is it blue?"))
    results_of(tmp_path, pools)
    whole = explain(str(tmp_path), "query-0a1")
    assert explain(str(tmp_path), "how do i  RESET it?") == whole
    assert explain(str(tmp_path), "is it BLUE").startswith("query c\n")
    with pytest.raises(NothingToExplain, match="text of several queries: query-0a1, b, c"):
        explain(str(tmp_path), "i")
    assert explain(str(tmp_path), "IT?").startswith("query b\n")


def test_without_a_query_the_first_are_listed(tmp_path, capsys):
    results_of(tmp_path, [pool_of(query_id=f"q{n}") for n in range(12)])
    assert cli.main(["explain", str(tmp_path)]) == 0
    head, first, *_, more, then = capsys.readouterr().out.splitlines()
    assert "has 12 queries" in head
    assert re.fullmatch(r"  q\d+ +how do I reset it\?", first)
    assert more == "  … 2 more"
    assert then == f"Next step: zelo-ray explain {tmp_path} --query {first.split()[0]}"
    assert cli.main(["explain", str(tmp_path / "no")]) == 1
    assert cli.main(["explain", str(tmp_path), "--doc", "d1"]) == 2
    assert "doc: needs query" in capsys.readouterr().err


def test_the_short_form_leaves_out_what_judges_wrote(out, capsys):
    words = ["explain", out, "--query", "q1", "--doc", "d3"]
    assert cli.main(words) == 0
    full = capsys.readouterr().out
    assert cli.main([*words, "--short"]) == 0
    short_form = capsys.readouterr().out
    assert "d3: score" in short_form
    assert "against d" in full
    assert "against d" not in short_form
    assert set(short_form.splitlines()) < set(full.splitlines())
