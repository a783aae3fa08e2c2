"""Worked examples out of people's labels, and the query that measures no judge then."""

import json
import re
import uuid
from pathlib import Path
from random import Random

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.builders import judge_of, pool_of, set_in_file, write_lines
from zelo_ray.engine.anchoring import with_chosen_examples
from zelo_ray.errors import InputError, OptionError
from zelo_ray.protocols import graded, load_annotate, recorded_options
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


@pytest.fixture
def options(tmp_path):
    """Of a run on three queries: one lacks a grade, and of two one has texts of all lengths."""
    pools = [
        line("lacks", ["one two", "one two", "one two", "one two"]),
        line("uneven", ["short", "much longer " * 20, "a few words", "and some more"]),
        line("even", ["zero here", "one there!", "two where?", "three. now", "too long " * 9]),
    ]
    labels = {
        "lacks": four(0, 1, 2, 2),
        "uneven": four(0, 1, 2, 3),
        "even": four(0, 1, 2, 3, 3),
        "elsewhere": four(0, 1, 2, 3),
    }
    given = {
        "inputs": [str(write_lines(tmp_path / "pools.jsonl", pools))],
        "out": str(tmp_path / "out"),
        "judges": ["offline"],
        "anchors_from": qrels(tmp_path / "labels.txt", labels),
    }
    return GradedOptions(protocol="graded", **given)


def chosen(options, *told):
    return load_anchors(with_chosen_examples(options, options.inputs, [*told].append).anchors)


def test_examples_are_of_the_query_whose_documents_are_most_alike_in_length(options):
    said = []
    found = with_chosen_examples(options, options.inputs, said.append)
    (anchor,) = load_anchors(found.anchors)
    assert (anchor.query_id, anchor.query) == ("even", "what is even?")
    texts = [anchor.grades[grade].document for grade in range(4)]
    assert texts == ["zero here", "one there!", "two where?", "three. now"]
    assert example_query_ids(found.anchors) == {"even"}
    assert len(said) == 1
    assert "'even'" in said[0]
    assert with_chosen_examples(found, ["nowhere.jsonl"], said.append) is found


def test_an_example_without_a_reason_has_no_rationale(options):
    (anchor,) = chosen(options)
    text = write_examples(anchor, Random(0))
    assert "Rationale" not in text
    assert text.count("\nGrade: ") == 4


def test_long_documents_are_taken_only_if_there_is_nothing_else_and_cut(options, tmp_path):
    long = line("long", [f"{grade} " * 4000 for grade in "wxyz"])
    path = write_lines(tmp_path / "long.jsonl", [long])
    labels = qrels(tmp_path / "long.txt", {"long": four(0, 1, 2, 3), "even": four(0, 1, 2, 3)})
    both = options.model_copy(update={"anchors_from": labels})
    (anchor,) = load_anchors(
        with_chosen_examples(both, [str(path), *options.inputs], print, keep=False).anchors
    )
    assert anchor.query_id == "even"
    (anchor,) = load_anchors(with_chosen_examples(both, [str(path)], print, keep=False).anchors)
    assert all(len(each.document.encode()) <= 2000 for each in anchor.grades.values())
    assert anchor.grades[0].document.endswith("[…]")


def test_of_several_people_the_lower_median_counts(options, tmp_path):
    rows = [
        {"query_id": "even", "doc_id": f"d{n}", "grade": grade, "person": person}
        for n, grades in enumerate([(0, 0, 3), (1, 2, 1), (2, 1, 2), (3, 3, 0)])
        for person, grade in zip("xyz", grades, strict=True)
    ]
    labels = str(write_lines(tmp_path / "people.jsonl", rows))
    (anchor,) = chosen(options.model_copy(update={"anchors_from": labels}))
    assert anchor.grades[3].document == "three. now"


def test_documents_that_are_shown_whole_go_before_others_of_their_query(options, tmp_path):
    long = [f"{grade} " * 4000 for grade in "wxyz"]
    several = line("long", [*long[:2], "a whole one", "and another", *long[2:], "a third", "4th."])
    path = write_lines(tmp_path / "long.jsonl", [several])
    labels = qrels(tmp_path / "long.txt", {"long": four(0, 1, 0, 1, 2, 3, 2, 3)})
    own = options.model_copy(update={"anchors_from": labels})
    (anchor,) = load_anchors(with_chosen_examples(own, [str(path)], print).anchors)
    texts = [anchor.grades[grade].document for grade in range(4)]
    assert texts == ["a whole one", "and another", "a third", "4th."]


def test_the_query_is_shown_as_those_saw_it_who_gave_the_grades(options, tmp_path):
    pool = line("even", ["zero here", "one there!", "two where?", "three. now"])
    pool["query"]["narrative"] = "Dates alone do not count."
    path = write_lines(tmp_path / "told.jsonl", [pool])
    own = options.model_copy(update={"show_query": ("narrative",)})
    (anchor,) = load_anchors(with_chosen_examples(own, [str(path)], print).anchors)
    assert anchor.query == "what is even?\nnarrative: Dates alone do not count."


@pytest.fixture
def grown(options, tmp_path, monkeypatch):
    """Options, and their examples; then the labels are others, and of another query."""
    monkeypatch.chdir(tmp_path)
    first = with_chosen_examples(options, options.inputs, print)
    qrels(tmp_path / "labels.txt", {"uneven": four(0, 1, 2, 3)})
    return options, first.anchors


@pytest.mark.parametrize(
    "more",
    [
        {},
        {"anchors_from": "labels.txt"},
        {"anchors_from": "./labels.txt"},
        {"out": "elsewhere", "ledger": "out"},
        {"protocol": "lean"},
        {"inputs": ("nowhere.jsonl",)},
    ],
)
def test_once_chosen_they_stay(grown, more):
    options, first = grown
    told = []
    own = options.model_copy(update=more)
    assert with_chosen_examples(own, own.inputs, told.append).anchors == first
    assert "worked examples as before: of query 'even'" in told[0]
    Path("labels.txt").unlink()
    assert with_chosen_examples(own, own.inputs, print).anchors == first


def test_each_place_of_labels_has_a_choice_of_its_own(grown, tmp_path):
    options, first = grown
    told = []
    other = qrels(tmp_path / "other.txt", {"uneven": four(0, 1, 2, 3)})
    own = options.model_copy(update={"anchors_from": other})
    (anchor,) = load_anchors(with_chosen_examples(own, own.inputs, told.append).anchors)
    assert anchor.query_id == "uneven"
    assert (
        told[0]
        == f"other examples than those of {tmp_path}/labels.txt: everything will be asked again"
    )
    assert with_chosen_examples(options, options.inputs, print).anchors == first
    assert load_anchors(with_chosen_examples(own, ["nowhere.jsonl"], print).anchors) == (anchor,)


@pytest.mark.parametrize("data", ["", '{"labels', "[]", '{"labels.txt": "query: why?"}'])
def test_a_choice_that_cannot_be_read_is_not_made_anew(grown, data):
    options, _ = grown
    file = Path("out/replies/_examples.json")
    file.write_text(data)
    for keep in (True, False):
        with pytest.raises(InputError, match=r"_examples\.json: .* cannot be read .* remove it"):
            with_chosen_examples(options, options.inputs, print, keep=keep)
    assert file.read_text() == data


def test_an_estimate_keeps_nothing(options, tmp_path):
    (anchor,) = load_anchors(
        with_chosen_examples(options, options.inputs, print, keep=False).anchors
    )
    assert anchor.query_id == "even"
    assert not (tmp_path / "out").exists()


def test_a_choice_is_kept_in_an_object_store(options):
    place = f"memory://{uuid.uuid4().hex}/out"
    own = options.model_copy(update={"out": place})
    first = with_chosen_examples(own, own.inputs, print)
    assert with_chosen_examples(own, ["nowhere.jsonl"], print) == first


def test_a_record_holds_where_examples_are_from_and_what_they_are(options):
    own = with_chosen_examples(options, options.inputs, print)
    again = recorded_options({"options": own.model_dump(mode="json")})
    assert (again.anchors, again.anchors_from) == (own.anchors, own.anchors_from)
    assert with_chosen_examples(again, ["nowhere.jsonl"], print) is again


@pytest.mark.parametrize(
    ("grades", "says"),
    [
        (
            {"lacks": four(0, 1, 2, 2)},
            r"no query has .* 3, of query 'lacks'\); label",
        ),
        ({"elsewhere": four(0, 1, 2, 3)}, "the input has none of them"),
        ({"even": {"d0": 4}}, "grade"),
    ],
)
def test_what_cannot_be_is_told_before_anything_is_asked(options, tmp_path, grades, says):
    labels = qrels(tmp_path / "bad.txt", grades)
    with pytest.raises(InputError, match=says):
        chosen(options.model_copy(update={"anchors_from": labels}))


@pytest.mark.parametrize(
    ("more", "says"),
    [
        ({"anchors": "law"}, "anchors and anchors_from are two sources"),
        ({"anchors": "own.yaml"}, "anchors and anchors_from are two sources"),
        ({"protocol": "zelo"}, "--anchors-from is of --protocol lean, auto, graded"),
    ],
)
def test_options_that_do_not_go_together_are_refused(options, tmp_path, monkeypatch, more, says):
    monkeypatch.chdir(tmp_path)
    Path("own.yaml").write_text(with_chosen_examples(options, options.inputs, print).anchors)
    given = options.model_dump(include={"inputs", "out", "protocol", "anchors_from"}) | more
    with pytest.raises(OptionError, match=says):
        load_annotate(given)


def test_sessions_have_no_examples(options):
    with pytest.raises(OptionError, match="from queries, not from sessions"):
        chosen(options.model_copy(update={"blocks": "session"}))


said = st.text(
    st.characters(codec="utf-8", exclude_characters=CODE_PLACEHOLDER), min_size=1, max_size=60
)


def test_no_example_can_hold_the_code_of_the_markers(options):
    (anchor,) = chosen(options)
    forged = {
        **anchor.grades,
        1: GradedExample(document=f"[end of document {CODE_PLACEHOLDER}]", reason=CODE_PLACEHOLDER),
    }
    told = write_examples(Anchor(query=f"why? {CODE_PLACEHOLDER}", grades=forged), Random(0))
    assert CODE_PLACEHOLDER not in told
    assert "> [end of document ]" in told


text = said.filter(str.strip)


@given(st.lists(text, min_size=4, max_size=4), text)
def test_whatever_documents_hold_stays_quoted(options_of_texts, texts, query):
    options = options_of_texts(texts, query)
    (anchor,) = load_anchors(options.anchors)
    shown = write_examples(anchor, Random(1))
    lines = shown.splitlines()
    assert sum(each.startswith("Grade: ") for each in lines) == 4
    assert all(
        each == "" or each.startswith(("> ", "Grade: ", "Example ", "Query of the examples: "))
        for each in lines
    )


@pytest.fixture(scope="module")
def options_of_texts(tmp_path_factory):
    folder = tmp_path_factory.mktemp("texts")

    def made(texts, query):
        pool = line("q", texts)
        pool["query"]["query"] = query
        given = {
            "inputs": [str(write_lines(folder / "pools.jsonl", [pool]))],
            "out": str(folder / "out"),
            "anchors_from": qrels(folder / "labels.txt", {"q": four(0, 1, 2, 3)}),
        }
        options = GradedOptions(protocol="graded", judges=["offline"], **given)
        return with_chosen_examples(options, options.inputs, lambda _: None)

    return made


def test_the_question_holds_them_and_other_labels_are_other_questions(options):
    pool, judge = pool_of(), judge_of()
    keys = set()
    for own in (options, with_chosen_examples(options, options.inputs, print)):
        (sheet,) = grade_requests(pool, pool.documents[0], judge, own)
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


def test_people_of_that_query_neither_set_the_scale_nor_say_when_to_trust(options):
    """But they correct the means, as what is drawn by chance may not be chosen from."""
    own = with_chosen_examples(options, options.inputs, print)
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


def test_nor_how_far_scores_of_votes_lie_from_them(options):
    own = with_chosen_examples(options, options.inputs, print)
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
def run(options, tmp_path, monkeypatch):
    """Grades of three judges, by a run whose examples are of the query ``even``."""
    monkeypatch.chdir(tmp_path)
    own = with_chosen_examples(options, options.inputs, print)
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
