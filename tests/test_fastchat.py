"""FastChat's questions, answers and votes as pools, by hand and on MT-Bench itself."""

import json
from collections import Counter

import pytest

from tests.builders import agreement_of, parsed
from zelo_ray.commands.convert import convert
from zelo_ray.errors import InputError, OptionError
from zelo_ray.formats.conversations import join_turns
from zelo_ray.formats.fastchat import make_pair_pools, make_turn_pools
from zelo_ray.formats.pools import LineLimits, read_lines
from zelo_ray.formats.sessions import join_sessions


def write_lines(path, *rows):
    path.parent.mkdir(exist_ok=True)
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return str(path)


def question(number, *turns):
    return {"question_id": number, "category": "any", "turns": list(turns)}


def answer(number, model, *turns):
    return {"question_id": number, "model_id": model, "choices": [{"index": 0, "turns": turns}]}


def vote(number, a, b, winner, judge="p", turn=1):
    ids = {"question_id": number, "model_a": a, "model_b": b}
    return {**ids, "winner": winner, "judge": judge, "turn": turn}


@pytest.fixture
def small(tmp_path):
    """A question of two turns, two models' answers and people's votes."""
    questions = write_lines(tmp_path / "question.jsonl", question(7, "Who?", "And why?"))
    write_lines(tmp_path / "answers/one.jsonl", answer(7, "one", "Me.", "So."))
    write_lines(tmp_path / "answers/two.jsonl", answer(7, "two", "You.", "Hm."))
    votes = write_lines(
        tmp_path / "human.jsonl",
        vote(7, "two", "one", "model_a"),
        vote(7, "one", "two", "model_a", "q"),
        vote(7, "one", "two", "tie", turn=2),
    )
    return questions, [str(tmp_path / "answers")], votes


def run(*words):
    return convert(parsed("convert", "fastchat", *words))


def test_a_later_turn_is_the_whole_conversation(small):
    first, second = make_turn_pools(*small[:2]).pools
    assert (first.query_id, first.query, first.session_id) == ("7-1", "Who?", "")
    assert [(d.id, d.content) for d in first.documents] == [("one", "Me."), ("two", "You.")]
    assert (second.query_id, second.session_id) == ("7-2", "")
    said = [["Me.", "So."], ["You.", "Hm."]]
    asked, (_, other) = join_turns(["Who?", "And why?"], said)
    assert (second.query, second.documents[1].content) == (asked, other)
    assert asked.endswith("Turn 1: Who?\n\nTurn 2: And why?")


def test_a_later_turn_looks_as_in_a_session(small, tmp_path):
    """So that one prompt can say what a conversation looks like."""
    (whole,) = make_turn_pools(*small[:2]).pools[1:]
    turns = [("Who?", "Me.", "You."), ("And why?", "So.", "Hm.")]
    rows = [
        {
            "session_id": "7",
            "query": {"id": str(number), "query": query},
            "documents": [{"id": "one", "content": one}, {"id": "two", "content": two}],
        }
        for number, (query, one, two) in enumerate(turns)
    ]
    joined = join_sessions([write_lines(tmp_path / "in.jsonl", *rows)], str(tmp_path / "out"))
    (line,) = read_lines(joined.path, LineLimits())
    assert (line.pool.query, line.pool.documents) == (whole.query, whole.documents)
    assert whole.documents[0].content.startswith("[turn 1, user, ")


def test_pairs_stand_as_the_first_vote_has_them(small):
    filled, labels = make_pair_pools(*small)
    assert [pool.query_id for pool in filled.pools] == ["7-1:two:one", "7-2:one:two"]
    assert [d.content for d in filled.pools[0].documents] == ["You.", "Me."]
    assert [pool.session_id for pool in filled.pools] == ["", ""]
    assert [tuple(row.values()) for row in labels.to_pylist()] == [
        ("7-1:two:one", "two", "one", -1.0, "p"),
        ("7-1:two:one", "two", "one", 1.0, "q"),
        ("7-2:one:two", "one", "two", 0.0, "p"),
    ]


def test_an_empty_answer_is_left_out_and_noted(small, tmp_path):
    write_lines(tmp_path / "answers/two.jsonl", answer(7, "two", " ", "Hm."))
    filled = make_turn_pools(*small[:2])
    assert [[d.id for d in pool.documents] for pool in filled.pools] == [["one"], ["one", "two"]]
    assert filled.notes == ["left out empty answers: 1 (7-1 two)"]
    filled, labels = make_pair_pools(*small)
    assert [pool.query_id for pool in filled.pools] == ["7-2:one:two"]
    assert len(labels) == 1
    with pytest.raises(InputError, match="only 1 pairs that can be shown were compared"):
        make_pair_pools(*small, number=2)


TWO = question(7, "a", "b")
WRONG = [
    ("question:1", [{"question_id": 7}], "has no turns"),
    ("question:1", [question(7, "Who?", "")], "a turn of question 7 is empty"),
    ("question:1", [{"turns": ["Who?"]}], "has no question_id"),
    ("question:2", [TWO, TWO], "question 7 is there twice"),
    ("question", [], "has no question"),
    ("question:2", [TWO, question(8, "?")], r".*8 has no answer .*answers/one.jsonl\)"),
    ("answers/one:1", [answer(7, "one", "Me.")], ".* 1 turn of question 7, .* 2$"),
    ("answers/one:1", [{"question_id": 7, "model_id": "one"}], "has no choices"),
    ("answers/one:1", [answer(7, "", "a", "b")], "has no model_id"),
    ("answers/one:1", [answer(7, "one", "a", 3)], "has no turns"),
    ("answers/one:2", [answer(7, "one", "a", "b")] * 2, "a second answer of one to question 7"),
    ("human:1", [vote(7, "one", "nobody", "tie")], "there are no answers of nobody"),
    ("human:1", [vote(7, "one", "two", "tie", turn=3)], "no question has the turn 7-3"),
    ("human:1", [vote(7, "one", "two", "both")], "the winner 'both' is neither"),
]


@pytest.mark.parametrize(("place", "rows", "message"), WRONG)
def test_what_is_wrong_is_named(small, tmp_path, place, rows, message):
    name, mark, number = place.partition(":")
    write_lines(tmp_path / f"{name}.jsonl", *rows)
    with pytest.raises(InputError, match=rf"{name}.jsonl{mark}{number}: {message}"):
        make_pair_pools(*small)


def test_votes_are_no_grades_and_a_folder_has_answers(small, tmp_path):
    (tmp_path / "qrels.txt").write_text("7-1 0 one 1\n")
    with pytest.raises(InputError, match=r"qrels.txt: holds no votes on pairs"):
        make_pair_pools(*small[:2], str(tmp_path / "qrels.txt"))
    (tmp_path / "empty").mkdir()
    with pytest.raises(InputError, match=r"empty: holds no .jsonl file"):
        make_turn_pools(small[0], [str(tmp_path / "empty")])


def test_convert_writes_pools_that_annotate_reads(small, tmp_path):
    questions, answers, votes = small
    assert run(questions, *answers, "--out", tmp_path / "p.jsonl") == f"2 pools: {tmp_path}/p.jsonl"
    read = [line.pool for line in read_lines(str(tmp_path / "p.jsonl"), LineLimits())]
    assert read == make_turn_pools(questions, answers).pools
    words = ("--votes", votes, "--labels-out", tmp_path / "labels.jsonl")
    said = run(questions, *answers, *words, "--out", tmp_path / "pairs.jsonl")
    assert said.splitlines() == [
        f"2 pools: {tmp_path}/pairs.jsonl",
        f"3 votes: {tmp_path}/labels.jsonl",
    ]
    read = [line.pool for line in read_lines(str(tmp_path / "pairs.jsonl"), LineLimits())]
    assert read == make_pair_pools(questions, answers, votes)[0].pools
    for words in (["--pairs", 3], ["--labels-out", "x"], ["--votes", votes, "--pairs", -1]):
        with pytest.raises(OptionError, match="pairs"):
            run(questions, *answers, *words, "--out", tmp_path / "no.jsonl")
    assert not (tmp_path / "no.jsonl").exists()


@pytest.fixture(scope="module")
def mt_bench(published):
    """Its questions, its answers, and the people's votes."""
    folder = published / "mtbench_human"
    return f"{folder}/question.jsonl", [f"{folder}/model_answer"], f"{folder}/human.jsonl"


def test_mt_bench(tmp_path, mt_bench):
    filled = make_turn_pools(*mt_bench[:2])
    assert len(filled.pools) == 160
    assert Counter(len(pool.documents) for pool in filled.pools) == {6: 159, 5: 1}
    assert filled.notes == ["left out empty answers: 1 (127-1 llama-13b)"]
    whole, labels = make_pair_pools(*mt_bench)
    assert len(whole.pools) == 1810  # 1,814 were compared, 4 of them with the empty answer
    assert len(labels) == 3346
    drawn, own = make_pair_pools(*mt_bench, number=300)
    assert drawn == make_pair_pools(*mt_bench, number=300)[0]
    assert len({pool.query_id for pool in drawn.pools}) == 300
    assert set(own["query_id"].to_pylist()) == {pool.query_id for pool in drawn.pools}
    assert all(pool in whole.pools for pool in drawn.pools)
    other, _ = make_pair_pools(*mt_bench, number=300, seed=1)
    assert 0 < len({p.query_id for p in other.pools} - {p.query_id for p in drawn.pools}) < 300
    words = [*mt_bench[1], "--votes", mt_bench[2], "--pairs", 300]
    run(mt_bench[0], *words, "--labels-out", tmp_path / "l", "--out", tmp_path / "p")
    assert sum(not line.reason for line in read_lines(str(tmp_path / "p"), LineLimits())) == 300


def test_labels_are_what_agree_takes_for_the_people(tmp_path, mt_bench):
    words = [*mt_bench[1], "--votes", mt_bench[2], "--pairs", 100]
    labels = tmp_path / "labels.jsonl"
    run(mt_bench[0], *words, "--labels-out", labels, "--out", tmp_path / "pairs.jsonl")
    given = [str(labels), "--human", str(labels), "--people", "expert_1*", "--resamples", "0"]
    assert agreement_of(*given).report.table("outcomes").rows
