"""The page of grades: what the panel says, how its judges grade, and where they are split."""

import json
from dataclasses import asdict

import numpy as np
import pyarrow.parquet as pq
import pytest

from tests.builders import pool_of, results_of, write_run
from tests.hills import by_judge
from tests.test_report import page_of, votes_of
from zelo_ray.commands.annotate.report.grade_counts import count_grades
from zelo_ray.commands.annotate.report.vote_counts import count_votes
from zelo_ray.commands.report import write_report
from zelo_ray.engine.tally import Tally
from zelo_ray.engine.write_results import Summary
from zelo_ray.formats.results import write_json
from zelo_ray.formats.tables import table_of
from zelo_ray.records import AbsoluteScore, Failure, Grade, GradedScore, Rater, Share

JUDGES = ("openai:one", "anthropic:two", "gemini:three")
RATERS = (
    Rater("openai:one", 0.8, 0.1, 0.3, 0.05, 0.7, 40),
    Rater("anthropic:two", -0.6, 0.1, 0.7, 0.1, 0.29, 40),
    Rater("gemini:three", 0.1, 0.2, float("inf"), float("nan"), 0.01, 40),
    Rater("human", 0.3, 0.1, 0.4, 0.2, 0.0, 2),
)


def grades_of(queries, documents, judges, repeats, say, seed=0):
    """Random grades, query by query; of the last document of each query they are 0, 3, 0 ..."""
    rng = np.random.default_rng(seed)
    for query in range(queries):
        for document in range(documents):
            for place, judge in enumerate(judges):
                for _ in range(repeats):
                    split = document == documents - 1
                    grade = 3 * (place % 2) if split else int(rng.integers(4))
                    ids = (f"{say}q{query}", f"{say}d{document}", f"{say}{judge}")
                    why = ((f"{say}covered", "more"), (f"{say}missing",), f"{say}because")
                    yield Grade(*ids, grade, *why, "key")


def write_graded(out, queries=5, documents=4, judges=JUDGES, repeats=1, say="", **more):
    """The files of a graded run; the panel's word is the lower median of all grades.

    Args:
        say: a text that every field of data begins with.
        more: ``pooling``; ``humans``, how many human grades there are; ``std_error``.
    """
    out.mkdir(exist_ok=True)
    grades = list(grades_of(queries, documents, judges, repeats, say))
    by_item = {}
    for one in grades:
        by_item.setdefault((one.query_id, one.doc_id), []).append(one.grade)
    scores = []
    for (query_id, doc_id), given in by_item.items():
        word, rank = sorted(given)[(len(given) - 1) // 2], 1 + len(scores) % documents
        apart = float(np.abs(np.subtract.outer(given, given)).mean())
        head = (query_id, doc_id, word + 0.25, more.get("std_error", 0.5), len(given), rank)
        split = doc_id.endswith(f"d{documents - 1}")
        scores.append(GradedScore(*head, word, float(np.median(given)), word, apart, split))
    humans = more.get("humans", 0)
    ends = (0.35, 0.62) if humans else (float("nan"),) * 2
    shares = [Share(m, 0.5, 0.48, *ends, len(scores), humans) for m in ("grade", ">=1", ">=2")]
    raters = [
        Rater(**asdict(rater) | {"judge": f"{say}{rater.judge}"})
        for rater in RATERS
        if humans or rater.judge != "human"
    ]
    failures = [Failure(f"{say}q0", (f"{say}d1",), f"{say}{JUDGES[0]}", "refused", say, 2, "key")]
    for name, rows, record in (
        ("grades", grades, Grade),
        ("scores", scores, GradedScore),
        ("raters", raters, Rater),
        ("shares", shares, Share),
        ("failures", failures, Failure),
    ):
        pq.write_table(table_of(rows, record), out / f"{name}.parquet")
    lines = [
        {
            "query": {"id": f"{say}q{query}", "query": f"{say}question {query}?"},
            "documents": [
                {"id": f"{say}d{place}", "content": f"{say}text {place}"}
                for place in range(documents)
            ],
        }
        for query in range(queries)
    ]
    (out / "annotated.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    count = queries * documents
    tallies = by_judge({"grades": grades, "failures": failures})
    summary = Summary(str(out), queries, count, count, len(grades), 1, **tallies)
    options = {"protocol": "graded", "pooling": more.get("pooling", "thurstone"), "seed": 0}
    value = {
        "kind": "annotate",
        "run_id": "20261101T000000Z-abc",
        "options": {**options, "repeats": repeats, "ambiguous": 1.5},
        "summary": asdict(summary),
        "judges": {f"{say}{judge}": asdict(Tally(answered=9, dollars=1.0)) for judge in judges},
    }
    write_json(str(out), "run.json", value)
    return grades, scores


def reported(out, **fields):
    written = write_graded(out, **fields)
    write_report(str(out))
    return page_of(out), *written


def test_a_page_of_grades_speaks_of_grades_and_says_how_they_were_pooled(tmp_path):
    text = reported(tmp_path)[0].words()
    assert [word for word in ("logit", "battle", "vote", "cycle") if word in text] == []
    assert "pooling thurstone" in text


def test_judges_are_told_in_plain_words(tmp_path):
    page, _, _ = reported(tmp_path)
    rows = {row[0]: row[1:] for row in page.table("raters")[1:]}
    assert rows["openai:one"][0] == "+0.80 [+0.60, +1.00]"
    assert rows["openai:one"][-1] == "stricter than the panel, precise"
    assert rows["anthropic:two"][:2] == ["-0.60 [-0.80, -0.40]", "0.70 [0.50, 0.90]"]
    assert rows["anthropic:two"][-1] == "more lenient than the panel"
    assert rows["gemini:three"][1:3] == ["∞", "1.0%"]
    assert rows["gemini:three"][-1] == "nearly random, with hardly any weight"
    [[_, spread]] = page.chart("raters", 1)
    assert spread["data"][0]["x"] == [0.3, 0.7, None]
    assert "people" not in page.words("raters")
    assert "The panel's grades are corrected for it." in page.words("raters")
    assert "alike" not in page.words("raters")
    page, _, _ = reported(tmp_path / "anchored", humans=2)
    assert page.table("raters")[-1][:2] == ["the people", "+0.30 [+0.10, +0.50]"]


def test_the_grades_of_each_judge_are_counted(tmp_path):
    page, grades, _ = reported(tmp_path, queries=20)
    names = sorted(JUDGES)
    [[_, bars]] = page.chart("grades", 0)
    assert bars["layout"]["yaxis"]["ticktext"] == ["the panel", *names]
    counts = np.array([trace["customdata"] for trace in bars["data"]])
    of_first = [one.grade for one in grades if one.judge == names[0]]
    assert counts[:, 1].tolist() == np.bincount(of_first, minlength=4).tolist()


def test_sums_over_chunks_are_sums_over_all(tmp_path):
    write_graded(tmp_path, repeats=2)
    table = pq.read_table(tmp_path / "grades.parquet")
    size = 4 * 3 * 2  # of a query
    whole = count_grades([table])
    parts = count_grades([table.slice(0, size), table.slice(size)])
    for name in JUDGES:
        assert (whole.counts[name] == parts.counts[name]).all()
    for pair, counts in whole.confusion.items():
        assert (counts == parts.confusion[pair]).all()


def test_a_judge_asked_in_both_orders_says_what_most_of_its_votes_say():
    panel = count_votes(
        [
            votes_of(
                ("q", "a", "b", "j1", -0.5, False),
                ("q", "a", "b", "j1", 0.5, True),  # no word of its own: a tie
                ("q", "a", "b", "j2", -0.5, False),
            )
        ]
    )
    assert panel.agreement("j1", "j2") == (0.5, 1)


def test_labels_that_were_not_drawn_at_random_set_nothing_right(tmp_path):
    write_graded(tmp_path, humans=12)
    rows = [Share(m, 0.5, *[float("nan")] * 3, 20, 12) for m in ("grade", ">=1")]
    pq.write_table(table_of(rows, Share), tmp_path / "shares.parquet")
    write_report(str(tmp_path))
    page = page_of(tmp_path)
    assert page.table("shares")[0] == ["measure", "by the panel alone"]
    assert "were not drawn at random, and correct nothing" in page.words("shares")


def test_grades_are_carried_as_far_as_there_is_room(tmp_path, monkeypatch):
    sizes = reported(tmp_path)[0].sizes
    room = sum(size for (_, kind), size in sizes.items() if kind == "documents")
    room += sizes[0, "grades"] + sizes[1, "grades"]
    monkeypatch.setattr("zelo_ray.commands.annotate.report.details.BYTES", room)
    write_report(str(tmp_path))
    page = page_of(tmp_path)
    assert [query for query, kind in page.packed if kind == "grades"] == [0, 1]
    assert "has the grades of 2 of them" in page.words("queries")


@pytest.mark.parametrize("pooling", ["median", None])
def test_a_median_has_no_error_and_the_page_says_what_it_is(tmp_path, pooling):
    page, _, _ = reported(tmp_path, pooling=pooling, std_error=float("nan"))
    assert "the median of the judges' grades" in page.words("queries"), "the foot of the page"
    assert "the median of the judges' grades" in page.words("scores")
    assert "calibrated" not in page.words()
    assert "weigh all judges equally" in page.words("raters")
    assert "The scores do not use it." in page.words("raters")
    assert "±" not in page.words("queries")
    assert len(page.charts["scores"]) == 3
    assert page.packed[0, "documents"][0][3] is None


def write_both(out, say=""):
    """Battles put on one scale by a grade of each of two documents of a query."""
    results = results_of(out, [pool_of((3, 1, 1), f"{say}q{i}") for i in range(2)])
    write_run(out, results, protocol="zelo+graded")
    scores = pq.read_table(out / "scores.parquet").to_pylist()
    shifts = [(1.0, 0.4), (float("nan"),) * 2]
    rows = [
        AbsoluteScore(**row, absolute_score=row["score"] + shift, absolute_error=error)
        for row in scores
        for shift, error in [shifts[int(row["query_id"][-1])]]
    ]
    pq.write_table(table_of(rows, AbsoluteScore), out / "scores.parquet")
    why = (("covered",), (), f"{say}because", "key")
    grades = [Grade(f"{say}q0", f"d{i}", JUDGES[i], 3 - i, *why) for i in range(2)]
    pq.write_table(table_of(grades, Grade), out / "grades.parquet")
    pq.write_table(table_of(list(RATERS), Rater), out / "raters.parquet")
    write_report(str(out))
    return page_of(out)


def test_files_of_an_earlier_way_of_judging_are_not_shown(tmp_path):
    write_graded(tmp_path)
    write_run(tmp_path, results_of(tmp_path, [pool_of()]))
    write_report(str(tmp_path))
    page = page_of(tmp_path)
    assert not {"raters", "shares", "grades", "ambiguous"} & set(page.sections)
    assert page.table("judges")[0][:2] == ["judge", "votes"]
    assert {kind for _, kind in page.packed} == {"documents", "votes"}
