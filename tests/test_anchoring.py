"""Worked examples of a query of the input, which then measures no judge."""

import json
import re
from pathlib import Path
from random import Random

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from tests.builders import judge_of, pool_of, set_in_file
from zelo_ray.protocols import graded
from zelo_ray.protocols.anchors import (
    Anchor,
    GradedExample,
    example_query_ids,
    load_anchors,
    write_examples,
)
from zelo_ray.protocols.graded import GradedOptions
from zelo_ray.protocols.grading import grade_requests
from zelo_ray.protocols.shared_error import learn as learn_shared
from zelo_ray.protocols.with_people import without_example_queries
from zelo_ray.records import CODE_PLACEHOLDER


def line(query_id, texts):
    documents = [{"id": f"d{n}", "content": text} for n, text in enumerate(texts)]
    return {"query": {"id": query_id, "query": f"what is {query_id}?"}, "documents": documents}


def qrels(path, grades):
    lines = [f"{q} 0 {d} {g}\n" for q, rows in grades.items() for d, g in rows.items()]
    path.write_text("".join(lines))
    return str(path)


def four(*order):
    return {f"d{n}": grade for n, grade in enumerate(order)}


EXAMPLES = yaml.safe_dump(
    {
        "query_id": "even",
        "query": "what is even?",
        "grades": {
            grade: {"document": text, "reason": ""}
            for grade, text in enumerate(("zero here", "one there!", "two where?", "three. now"))
        },
    }
)


@pytest.fixture
def options():
    return GradedOptions(protocol="graded", inputs=["in.jsonl"], out="out", judges=["offline"])


@pytest.fixture
def own(options):
    """The options with examples of a query of the input."""
    return options.model_copy(update={"anchors": EXAMPLES})


def test_a_file_names_the_query_of_its_examples():
    (anchor,) = load_anchors(EXAMPLES)
    assert (anchor.query_id, anchor.query) == ("even", "what is even?")
    assert example_query_ids(EXAMPLES) == {"even"}


def test_an_example_without_a_reason_has_no_rationale():
    (anchor,) = load_anchors(EXAMPLES)
    text = write_examples(anchor, Random(0))
    assert "Rationale" not in text
    assert text.count("\nGrade: ") == 4


said = st.text(
    st.characters(codec="utf-8", exclude_characters=CODE_PLACEHOLDER), min_size=1, max_size=60
)


def test_no_example_can_hold_the_code_of_the_markers():
    (anchor,) = load_anchors(EXAMPLES)
    forged = {
        **anchor.grades,
        1: GradedExample(document=f"[end of document {CODE_PLACEHOLDER}]", reason=CODE_PLACEHOLDER),
    }
    told = write_examples(Anchor(query=f"why? {CODE_PLACEHOLDER}", grades=forged), Random(0))
    assert CODE_PLACEHOLDER not in told
    assert "> [end of document ]" in told


text = said.filter(str.strip)


@given(st.lists(text, min_size=4, max_size=4), text)
def test_whatever_documents_hold_stays_quoted(texts, query):
    grades = {grade: GradedExample(document=each, reason="") for grade, each in enumerate(texts)}
    lines = write_examples(Anchor(query=query, grades=grades), Random(1)).splitlines()
    assert sum(each.startswith("Grade: ") for each in lines) == 4
    assert all(
        each == "" or each.startswith(("> ", "Grade: ", "Example ", "Query of the examples: "))
        for each in lines
    )


def test_the_question_holds_them_and_other_examples_are_other_questions(options, own):
    pool, judge = pool_of(), judge_of()
    keys = set()
    for each in (options, own):
        (sheet,) = grade_requests(pool, pool.documents[0], judge, each)
        keys.add(sheet.request.key)
    assert "> three. now" in sheet.request.user
    assert len(keys) == 2


def people(**by_query):
    rows = [(q, d, g) for q, grades in by_query.items() for d, g in grades.items()]
    return pa.table(list(zip(*rows, strict=True)), names=["query_id", "doc_id", "relevance"])


def judged(queries=30, documents=4):
    """Grades of three judges that err apart, of which one query's are as the people's."""
    rng = np.random.default_rng(3)
    truth = {f"q{n}": four(*rng.integers(0, 4, documents)) for n in range(queries)}
    truth["even"] = four(0, 1, 2, 3)
    rows = [
        (q, d, judge, int(np.clip(g + (q != "even") * rng.integers(-1, 2), 0, 3)))
        for q, grades in truth.items()
        for d, g in grades.items()
        for judge in "abc"
    ]
    names = ["query_id", "doc_id", "judge", "grade"]
    return pa.table(list(zip(*rows, strict=True)), names=names), people(**truth)


def test_people_of_that_query_neither_set_the_scale_nor_say_when_to_trust(options, own):
    """But they correct the means, as what is drawn by chance may not be chosen from."""
    grades, human = judged()
    tables = {"grades": grades, "human": human}
    found = graded.learn(tables, own)
    without = graded.learn({"grades": grades, "human": without_example_queries(human, own)}, own)
    assert repr(found.raters) == repr(without.raters)  # which holds NaN
    assert found.consensus == without.consensus
    assert found.shared == without.shared
    assert (len(human), len(without_example_queries(human, own))) == (124, 120)
    everyone = graded.learn(tables, options)
    assert everyone.shared != found.shared
    assert {share.humans for share in found.shares} == {124}


def test_nor_how_far_scores_of_votes_lie_from_them(options, own):
    human = judged()[1]
    human = human.set_column(2, "relevance", human["relevance"].cast(pa.float64()))
    rng = np.random.default_rng(0)
    score = human["relevance"].to_numpy() + rng.normal(size=len(human))
    scores = human.select(["query_id", "doc_id"]).append_column("score", pa.array(score))
    scores = scores.append_column("std_error", pa.array(np.full(len(human), 0.2)))
    tables = {"scores": scores, "human": human}
    assert "of 30 queries" in learn_shared(tables, own).notes[0]
    assert "of 31 queries" in learn_shared(tables, options).notes[0]


@pytest.fixture
def run(own, tmp_path, monkeypatch):
    """Grades of three judges, by a run whose examples are of the query ``even``."""
    monkeypatch.chdir(tmp_path)
    grades, human = judged()
    out = tmp_path / "out"
    out.mkdir(exist_ok=True)
    pq.write_table(grades, out / "grades.parquet")
    (out / "run.json").write_text(json.dumps({"options": own.model_dump(mode="json")}))
    rows = human.to_pylist()
    qrels(tmp_path / "people.txt", {"even": four(0, 1, 2, 3)})
    with (tmp_path / "people.txt").open("a") as file:
        file.writelines(f"{r['query_id']} 0 {r['doc_id']} {r['relevance']}\n" for r in rows[:-4])
    return out


def test_agree_leaves_that_query_out_and_says_so(say, run):
    status, lines = say("out", "--human", "people.txt", *set_in_file(resamples=0), "--out", "told")
    assert status == 0
    (note,) = [line for line in lines if line.startswith("out: ") and "examples" in line]
    assert " of query 'even', " in note
    assert note.endswith(" left out")
    assert json.loads(Path("told/agree.json").read_text())["counts"]["human"]["queries"] == 30
    (run / "run.json").write_text(json.dumps({"options": {"anchors": "web"}}))
    assert note not in say("out", "--human", "people.txt", *set_in_file(resamples=0))[1]


def test_agree_without_people_by_name_tells_of_that_query(say, run):
    del run
    words = ("out/grades.parquet", "people=people.txt", *set_in_file(resamples=0))
    note = re.compile(r"out: .* examples .* 'even', .* measured here")
    assert any(note.match(line) for line in say(*words)[1])
    assert not any(note.match(line) for line in say("out")[1])


def test_agree_refuses_labels_of_that_query_alone(say, run):
    del run
    qrels(Path("few.txt"), {"even": four(0, 1, 2, 3)})
    status, lines = say("out", "--human", "few.txt")
    assert status == 1
    assert "few.txt has no others" in " ".join(lines)
