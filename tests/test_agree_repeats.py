"""``agree`` on votes that repeat, and on those in both orders."""

from itertools import product

import numpy as np
import pyarrow as pa
import pytest

from tests.builders import rows_of, set_in_file, write_lines
from tests.labelling import sample
from zelo_ray.commands.compare_protocols.people import read_people
from zelo_ray.evaluation.agreement.majority_votes import reduce_repeats
from zelo_ray.evaluation.agreement.votes import cross_votes, encode_votes, judge_verdicts
from zelo_ray.formats.judgments.all_judgments import read_all_judgments

A, TIE, B = -1.0, 0.0, 1.0


def vote(query_id, preference, judge, a="x", b="y", **more):
    ids = {"query_id": query_id, "doc_id_a": a, "doc_id_b": b, "judge": judge}
    return {**ids, "preference": preference, **more}


def told(say, folder, people, judges, *options):
    """The figures of agreement with the people by scale: how often the same, of how many."""
    paths = [write_lines(folder / f"{n}.jsonl", r) for n, r in (("p", people), ("j", judges))]
    say(paths[1], "--human", paths[0], "--out", folder / "out", *set_in_file(resamples=0), *options)
    rows = rows_of(folder / "out", "outcomes")
    rows = [row for row in rows if row["coefficient"] == "agreement"]
    return {row["scale"]: (round(row["value"] * row["items"], 6), row["items"]) for row in rows}


PEOPLE = [vote("q", A, "ann"), vote("q", A, "bob"), vote("q", B, "cy"), vote("r", TIE, "ann")]
JUDGE = [vote("q", A, "j"), vote("r", B, "j")]


@pytest.mark.parametrize(("people", "judge"), [*product((1, 3), (1, 4))])
def test_rows_that_repeat_change_nothing(say, tmp_path, people, judge):
    found = told(say, tmp_path, PEOPLE * people, JUDGE * judge)
    assert found["votes"] == (2, 4)
    assert found["votes decided"] == (2, 3)
    assert found["0-2"] == (1, 2)


def test_one_person_that_repeats_does_not_outvote_two(say, tmp_path):
    people = [*PEOPLE, *[vote("q", B, "cy")] * 5]
    assert told(say, tmp_path, people, JUDGE)["0-2"] == (1, 2)
    path = str(write_lines(tmp_path / "p.jsonl", people))
    assert [each.verdict for each in read_people(path).items("q", "xy")] == [2]


def test_people_without_names_are_several(say, tmp_path):
    nameless = [{k: v for k, v in row.items() if k != "judge"} for row in PEOPLE]
    assert told(say, tmp_path, nameless, JUDGE * 2)["votes"] == (2, 4)
    voices = read_all_judgments(
        [str(tmp_path / "j.jsonl")], human=str(tmp_path / "p.jsonl")
    ).human_votes
    assert voices["rater"].to_pylist() == [*"0123"]


def test_of_several_people_who_grade_the_median_counts(say, tmp_path):
    """As a table with a column person, and as a directory of ``label``."""
    answers = [("ann", "d0", 3.0), ("bob", "d0", 1.0), ("cy", "d0", 1.0), ("bob", "d1", 2.0)]
    place = sample(tmp_path / "labels", [0.9, 0.1], [2.0, 1.0], answers)
    ids = [{"query_id": "q", "doc_id": doc_id} for doc_id in ("d0", "d1")]
    judge = write_lines(tmp_path / "j.jsonl", [ids[0] | {"grade": 1}, ids[1] | {"grade": 2}])
    rows = [f"q,{doc_id},{who},{grade:g}" for who, doc_id, grade in answers]
    table = tmp_path / "people.csv"
    table.write_text("\n".join(["query_id,doc_id,person,grade", *rows]) + "\n")
    for human in (place, table):
        say(judge, "--human", human, "--out", tmp_path / "out", *set_in_file(resamples=0))
        (same,) = [
            row
            for row in rows_of(tmp_path / "out", "agreement")
            if (row["scale"], row["coefficient"]) == ("0-3", "agreement")
        ]
        assert (same["value"], same["items"]) == (1, 2)
    say(
        judge,
        "--human",
        table,
        "--people",
        "ann",
        "--out",
        tmp_path / "out",
        *set_in_file(resamples=0),
    )


def test_votes_in_both_orders_beside_several_people_are_not_multiplied(say, tmp_path):
    judge = [vote("q", A, "j", swapped=False), vote("q", TIE, "j", swapped=True)]
    # two of three people say A, and half of its votes do
    assert told(say, tmp_path, PEOPLE, judge)["votes"] == (1, 3)


def test_each_vote_of_the_one_with_more_counts_once():
    rng = np.random.default_rng(3)
    rows = [
        vote(f"q{q}", float(rng.integers(-1, 2)), judge, swapped=None)
        for q in range(30)
        for judge, most in (("one", 4), ("other", 3))
        for _ in range(rng.integers(1, most + 1))
    ]
    found = cross_votes(encode_votes(pa.Table.from_pylist(rows)), 0, 1)
    for q, table in enumerate(found):
        keys = [(f"q{q}", "one"), (f"q{q}", "other")]
        own = [
            [int(1 - row["preference"]) for row in rows if (row["query_id"], row["judge"]) == key]
            for key in keys
        ]
        expected = np.zeros((3, 3))
        for i, j in product(*own):
            expected[i, j] += 1 / min(map(len, own))
        assert table == pytest.approx(expected)
        assert table.sum() == pytest.approx(max(map(len, own)))


def judge_bench(label, first, second):
    """JudgeBench's count of two verdicts on a pair, the label being A or B: right, wrong or not."""
    return np.sign(sum((said == label) - (said == -label) for said in (first, second)))


@pytest.mark.parametrize("tells", [True, False])
@pytest.mark.parametrize(("first", "second"), [*product((A, TIE, B), repeat=2)])
def test_lenient_is_judge_benchs_count(tmp_path, say, first, second, tells):
    if tells:
        judge = [vote("q", first, "j", swapped=False), vote("q", second, "j", swapped=True)]
    else:  # the rows name the two the other way round
        judge = [vote("q", first, "j"), vote("q", -second, "j", a="y", b="x")]
    for label in (A, B):
        people = [vote("q", label, "ann")]
        found = told(say, tmp_path, people, judge, "--both-orders", "lenient")
        assert found["0-2"] == found["votes"] == (judge_bench(label, first, second) > 0, 1)
        assert told(say, tmp_path, people, judge)["0-2"] == (first == second == label, 1)


def test_lenient_goes_by_the_word_in_each_order():
    rows = [vote("q", A, "j", swapped=False)] * 2 + [vote("q", B, "j", swapped=False)]
    rows += [vote("q", TIE, "j", swapped=True)] * 3 + [vote("r", TIE, "j", swapped=True)]
    cast = encode_votes(pa.Table.from_pylist(rows))
    assert judge_verdicts(reduce_repeats(cast, lenient=True)).tolist() == [[1, 0]]
    assert judge_verdicts(cast).tolist() == [[0, 0]]
    none = encode_votes(pa.Table.from_pylist(rows).slice(0, 0))
    assert len(reduce_repeats(none).judge) == len(reduce_repeats(none, lenient=True).judge) == 0


def test_lenient_holds_between_judges_too(say, tmp_path):
    rows = [vote(q, A, "one", swapped=False) for q in "abc"]
    rows += [vote(q, TIE, "one", swapped=True) for q in "abc"]
    rows += [vote(q, A, "two", swapped=s) for q in "abc" for s in (False, True)]
    path = write_lines(tmp_path / "votes.jsonl", rows)
    for rule, same in (("tie", 0), ("lenient", 1)):
        say(path, "--out", tmp_path / rule, *set_in_file(resamples=0), "--both-orders", rule)
        pairs = rows_of(tmp_path / rule, "pairs")
        [found] = [r for r in pairs if (r["scale"], r["coefficient"]) == ("0-2", "agreement")]
        assert (found["value"], found["items"]) == (same, 3)
