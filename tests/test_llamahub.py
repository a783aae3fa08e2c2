"""LlamaHub's examples of two answers as pools and votes, by hand and made of MT-Bench's votes."""

import json
from collections import Counter, defaultdict
from pathlib import Path

import pyarrow.compute as pc
import pytest

from tests.builders import agreement_of, parsed
from zelo_ray.commands.compare_protocols.people import read_people
from zelo_ray.commands.convert import convert
from zelo_ray.errors import InputError, OptionError
from zelo_ray.formats import fastchat
from zelo_ray.formats.input import InputOptions, pools_of
from zelo_ray.formats.input.long import ConversionNotes
from zelo_ray.formats.interchange.llamahub import make_example_pools, read_examples
from zelo_ray.formats.judgments.judgments_file import read_judgments
from zelo_ray.formats.pools import LineLimits, read_lines
from zelo_ray.formats.probe import probe


def examples_in(place):
    return read_examples(probe(place))


def example(query, one, other, score, **more):
    """As LlamaIndex's `LabelledPairwiseEvaluatorDataset.save_json` writes it."""
    by = [{"model_name": name, "type": "ai"} for name in (one, other)]
    return {
        "query": query,
        "query_by": {"model_name": "", "type": "human"},
        "contexts": None,
        "answer": f"{query} by {one}",
        "answer_by": by[0],
        "ground_truth_answer": None,
        "ground_truth_answer_by": None,
        "reference_feedback": None,
        "reference_score": score,
        "reference_evaluation_by": {"model_name": "", "type": "human"},
        "second_answer": f"{query} by {other}",
        "second_answer_by": by[1],
        **more,
    }


def write(path, *rows, indent=4):
    path.write_text(json.dumps({"examples": list(rows)}, indent=indent))
    return str(path)


@pytest.fixture
def small(tmp_path):
    """Three queries; the first pair was judged in either order."""
    return write(
        tmp_path / "pairwise_evaluator_dataset.json",
        example("Who?", "gpt-4", "alpaca", 1.0),
        example("Why?", "alpaca", "gpt-4", 0.5),
        example("Who?", "alpaca", "gpt-4", 0.0),
        example("Who?", "llama", "gpt-4", 0.25),
    )


def run(*words):
    return convert(parsed("convert", "llamahub", *words))


def test_a_pair_is_a_pool_and_each_example_a_vote(small):
    filled, labels = make_example_pools(small)
    assert [(pool.query_id, pool.query) for pool in filled.pools] == [
        ("1:gpt-4:alpaca", "Who?"),
        ("2:alpaca:gpt-4", "Why?"),
        ("1:llama:gpt-4", "Who?"),
    ]
    assert [d.content for d in filled.pools[0].documents] == ["Who? by gpt-4", "Who? by alpaca"]
    assert [tuple(row.values()) for row in labels.to_pylist()] == [
        ("1:gpt-4:alpaca", "gpt-4", "alpaca", -1.0, "example 1"),
        ("1:gpt-4:alpaca", "gpt-4", "alpaca", -1.0, "example 3"),
        ("2:alpaca:gpt-4", "alpaca", "gpt-4", 0.0, "example 2"),
        ("1:llama:gpt-4", "llama", "gpt-4", 1.0, "example 4"),
    ]


@pytest.mark.parametrize(
    ("score", "preference"),
    [(0, 1), (0.39, 1), (0.4, 0), (0.5, 0), (0.6, 0), (0.61, -1), (1, -1), (2 / 3, -1)],
)
def test_a_score_near_the_middle_is_a_tie(tmp_path, score, preference):
    (found,) = examples_in(write(tmp_path / "f.json", example("q", "a", "b", score)))
    assert found.preference == preference


@pytest.mark.parametrize("indent", [None, 4])
def test_it_is_known_by_its_examples_wherever_they_stand_first_among_lists(tmp_path, small, indent):
    whole = json.loads(Path(small).read_text())["examples"]
    place = tmp_path / "any.txt"
    for before in ({}, {"summary": 'of "all"', "version": 2, "by": None}):
        place.write_text(json.dumps({**before, "examples": whole}, indent=indent))
        assert probe(str(place)).kind == "llamahub"
        part = read_judgments(str(place), "people")
        assert (part.votes, part.names_judges) == (True, False)
        assert part.place(2) == f"{place}: item 3"
    for other in (
        {"summary": {"examples": 1}},
        {"answer": "examples", "b": 1},
        {"query_id": "q", "examples": 1},
    ):
        place.write_text(json.dumps(other) + "\n")
        assert probe(str(place)).kind != "llamahub"
    assert probe(str(tmp_path)).kind != "llamahub"


NO_EXAMPLES = "holds no examples of two answers"
NO_SCORE = "item 2: the reference_score {} is not a number"
B = {"model_name": "b", "type": "ai"}
WRONG = [
    ('{"examples": [', NO_EXAMPLES),
    ('{"examples": {}}', NO_EXAMPLES),
    ('{"examples": []}', NO_EXAMPLES),
    ('{"examples": [3]}', NO_EXAMPLES),
    ({"second_answer": None}, "item 2: has no second_answer, a text"),
    ({"query": " "}, "item 2: its query is empty"),
    ({"answer_by": None}, "item 2: has no answer_by that names a model"),
    ({"second_answer_by": {"model_name": 3}}, "item 2: has no second_answer_by that names a model"),
    ({"answer_by": B}, "item 2: answer_by and second_answer_by are the same, b"),
    ({"answer": "Hm."}, "item 2: another answer of a than at .*: item 1"),
    ({"reference_score": None}, NO_SCORE.format("None")),
    ({"reference_score": "1.0"}, NO_SCORE.format("'1.0'")),
    ({"reference_score": 7.0}, NO_SCORE.format("7.0") + " from 0"),
    ({"reference_score": True}, NO_SCORE.format("True")),
]


@pytest.mark.parametrize(("other", "message"), WRONG)
def test_what_is_wrong_is_named(tmp_path, other, message):
    path = tmp_path / "f.json"
    if isinstance(other, str):
        path.write_text(other)
    else:
        write(path, example("q", "a", "b", 1.0), example("q", "a", "b", 0.0) | other)
    with pytest.raises(InputError, match=message):
        make_example_pools(str(path))


def test_a_model_may_answer_otherwise_beside_another_model(tmp_path):
    rows = [example("q", "a", "b", 1.0), example("q", "b", "c", 1.0, answer="Hm.")]
    filled, _ = make_example_pools(write(tmp_path / "f.json", *rows))
    assert [pool.documents[0].content for pool in filled.pools] == ["q by a", "Hm."]


def test_an_empty_answer_is_left_out_and_noted(tmp_path):
    rows = [example("q", "a", "b", 1.0, answer=" "), example("q", "b", "c", 1.0)]
    filled, labels = make_example_pools(write(tmp_path / "f.json", *rows))
    assert [pool.query_id for pool in filled.pools] == ["1:b:c"]
    assert len(labels) == 1
    assert filled.notes == ["left out pairs with an empty answer: 1 (1:a:b)"]


def test_several_files_are_refused_whose_queries_are_numbered_alike(tmp_path, small):
    again = tmp_path / "again.json"
    again.write_bytes(Path(small).read_bytes())
    with pytest.raises(InputError, match=r"again.json: one file"):
        [*pools_of([str(small), str(again)], InputOptions(), ConversionNotes())[1]]


def test_convert_writes_pools_that_annotate_reads(tmp_path, small):
    words = ("--labels-out", tmp_path / "labels.jsonl")
    said = run(small, *words, "--out", tmp_path / "p.jsonl")
    assert said.splitlines() == [
        f"3 pools: {tmp_path}/p.jsonl",
        f"4 votes: {tmp_path}/labels.jsonl",
    ]
    read = [line.pool for line in read_lines(str(tmp_path / "p.jsonl"), LineLimits())]
    assert read == make_example_pools(small)[0].pools
    run(small, "--pairs", 2, "--out", tmp_path / "two.jsonl")
    assert len((tmp_path / "two.jsonl").read_text().splitlines()) == 2
    with pytest.raises(InputError, match="only 3 pairs that can be shown"):
        run(small, "--pairs", 4, "--out", tmp_path / "no.jsonl")
    with pytest.raises(OptionError, match="votes"):
        run(small, "--votes", small, "--out", tmp_path / "no.jsonl")
    assert not (tmp_path / "no.jsonl").exists()


def test_people_of_the_file_are_the_human_of_agree_and_of_compared_protocols(tmp_path, small):
    labels = tmp_path / "labels.jsonl"
    run(small, "--labels-out", labels, "--out", tmp_path / "pools.jsonl")
    people = read_people(small)
    assert people.verdicts == read_people(str(labels)).verdicts
    assert (people.kind, people.judgment_count) == ("votes", 3)
    assert people.query_ids == {"1:gpt-4:alpaca", "2:alpaca:gpt-4", "1:llama:gpt-4"}
    with pytest.raises(InputError, match="--turn chooses among FastChat's rows"):
        read_people(small, turn=1)
    votes = [
        {"query_id": "1:gpt-4:alpaca", "doc_id_a": "alpaca", "doc_id_b": "gpt-4", "preference": 1},
        {"query_id": "1:llama:gpt-4", "doc_id_a": "llama", "doc_id_b": "gpt-4", "preference": -1},
    ]
    (tmp_path / "judge.jsonl").write_text("\n".join(map(json.dumps, votes)))
    words = [tmp_path / "judge.jsonl", "--human", small, "--resamples", 0]
    row, *_ = agreement_of(*words).report.table("outcomes").rows
    assert row[2] == "1 of 2"


# As it was made of MT-Bench


def test_made_of_the_votes_of_mt_bench_it_is_the_published_file(published, tmp_path):
    """1,204 rows: 709 of 0, 433 of 1 and 62 of .5 (counted by Burleigh, 12 January 2025).

    The counts come out where a share is that of votes for the first of both in the first turn, so
    that a tie counts as one for the second.
    """
    folder = published / "mtbench_human"
    turns = fastchat.make_turn_pools(f"{folder}/question.jsonl", [f"{folder}/model_answer"]).pools
    queries = {pool.query_id: pool for pool in turns}
    votes = defaultdict(list)
    for line in (folder / "human.jsonl").read_text().splitlines():
        row = json.loads(line)
        if row["turn"] == 1:
            votes[row["question_id"], row["model_a"], row["model_b"]].append(row["winner"])
    rows, ties = [], 0
    for (number, one, other), winners in votes.items():
        query = queries[f"{number}-1"].query
        share = winners.count("model_a") / len(winners)
        score = 0.5 if 0.4 <= share <= 0.6 else float(share > 0.6)
        ties += score == 0 and winners.count("tie") >= winners.count("model_b")
        rows.append(example(query, one, other, score))
    assert Counter(row["reference_score"] for row in rows) == {0.0: 709, 1.0: 433, 0.5: 62}
    assert ties == 297  # of the 709, those where at least as many said tie as said the second
    filled, labels = make_example_pools(write(tmp_path / "mt.json", *rows))
    assert len({pool.query for pool in filled.pools}) == 80
    assert (len(filled.pools), len(labels)) == (910, 1204)
    assert pc.sum(pc.equal(labels["preference"], 0.0)).as_py() == 62
