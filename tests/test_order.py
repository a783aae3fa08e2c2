"""Whether the order of the worked examples moves grades: found where it does, and not elsewhere."""

import re

import numpy as np
import pyarrow as pa
import pytest
from zelo_ray.protocols.anchor_order import describe_shift, estimate_shift

from zelo_ray.protocols import graded
from zelo_ray.protocols.anchors import shuffle_grades
from zelo_ray.protocols.graded import GradedOptions
from zelo_ray.protocols.grading import example_order

NUMBER = r"([+-]\d+\.\d+)"
FIGURE = rf"{NUMBER} \[{NUMBER}, {NUMBER}\]"


def options_of(repeats=4, **fields):
    return GradedOptions(
        inputs=["in.jsonl"], out="out", judges=["offline"], repeats=repeats, **fields
    )


def grades_of(options, queries=40, documents=3, first=0.0, last=0.0, noise=0.4, seed=0):
    """Grades of two judges that lean to the example that they saw first or last."""
    rng = np.random.default_rng(seed)
    rows = []
    for query in range(queries):
        for document in range(documents):
            truth = rng.uniform(0.5, 2.5)
            for judge in "ab":
                for repeat in range(options.repeats):
                    ids = (f"q{query}", f"d{document}", judge)
                    shown = shuffle_grades(example_order(ids[0], judge, repeat, options))
                    seen = truth + first * shown[0] + last * shown[-1] + rng.normal(scale=noise)
                    rows.append((*ids, int(np.clip(round(seen), 0, 3))))
    names = ["query_id", "doc_id", "judge", "grade"]
    return pa.table([list(column) for column in zip(*rows, strict=True)], names=names)


def figures(line):
    return [tuple(map(float, each)) for each in re.findall(FIGURE, line)]


def test_a_judge_that_leans_to_an_example_is_found():
    options = options_of()
    (line,) = describe_shift(grades_of(options, last=0.2), options)
    first, last = figures(line)
    assert first[1] < 0 < first[2]
    assert 0.3 < last[1] < last[0] < last[2] < 0.9, "three grades lie between best and worst"
    assert "the order matters: repeats even it out" in line
    (line,) = describe_shift(grades_of(options, first=-0.2), options)
    first, last = figures(line)
    assert first[2] < -0.3
    assert last[1] < 0 < last[2]
    (line,) = describe_shift(grades_of(options, seed=1), options)
    assert line.endswith("both may be 0: no sign that the order matters")


def test_it_is_least_squares_within_a_question():
    """Against dummies of each question, by numpy's own solver."""
    rng = np.random.default_rng(1)
    shown = rng.integers(0, 4, (12, 3, 2)).astype(float)
    grades = rng.integers(0, 4, (12, 3)).astype(float)
    found = estimate_shift(grades, shown, np.arange(12) // 2)
    dummies = np.kron(np.eye(12), np.ones((3, 1)))
    x = np.hstack([shown.reshape(-1, 2), dummies])
    expected = np.linalg.lstsq(x, grades.ravel(), rcond=None)[0][:2]
    assert [each.value for each in found] == pytest.approx(expected)


def test_of_runs_whose_judges_do_not_lean_nineteen_in_twenty_say_so():
    rng, options, held = np.random.default_rng(2), options_of(), 0
    orders = np.array(
        [
            [shuffle_grades(example_order(f"q{q}", "a", r, options)) for r in range(4)]
            for q in range(30)
        ]
    )[:, :, [0, 3]].astype(float)
    for _ in range(400):
        # documents of a query share the noise of a repeat, as those do that are asked side by side
        shared = rng.normal(size=(30, 1, 4)) + rng.normal(size=(30, 3, 4))
        found = estimate_shift(
            shared.reshape(90, 4), np.repeat(orders, 3, axis=0), np.repeat(np.arange(30), 3)
        )
        held += all(each.low < 0 < each.high for each in found)
    assert 0.93 < held / 400 < 0.97


@pytest.mark.parametrize(("repeats", "queries"), [(1, 40), (4, 4)])
def test_nothing_is_said_without_repeats_or_of_few_queries(repeats, queries):
    options = options_of(repeats)
    assert not [*describe_shift(grades_of(options, queries), options)]


def test_nothing_is_said_of_judges_that_always_say_the_same():
    options = options_of()
    assert not [*describe_shift(grades_of(options, noise=0), options)]


def test_questions_with_a_failure_are_left_out_and_a_run_says_it():
    options = options_of()
    grades = grades_of(options, last=0.2)
    (line,) = describe_shift(grades, options)
    assert line in graded.learn({"grades": grades}, options).notes
    others = pa.concat_tables([grades, grades.slice(0, 3).set_column(0, "query_id", [["q99"] * 3])])
    assert [*describe_shift(others, options)] == [line]
    assert not [*describe_shift(grades.filter(np.arange(len(grades)) % 4 > 0), options)]
