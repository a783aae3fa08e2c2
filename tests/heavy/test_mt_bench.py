"""Pools and votes of MT-Bench, of LlamaHub's file and of FastChat's, by hand and as published."""

import json
from collections import Counter, defaultdict

from benchmarks.mt_bench import main, read_fastchat, read_llamahub, read_turns
from tests.helpers.builders import agreement_of
from zelo_ray.files.pools import LineLimits, read_lines


def example(query, one, other, share):
    """A row as LlamaIndex's `LabelledPairwiseEvaluatorDataset.save_json` writes it."""
    return {
        "query": query,
        "answer": f"{query} by {one}",
        "answer_by": {"model_name": one, "type": "ai"},
        "second_answer": f"{query} by {other}",
        "second_answer_by": {"model_name": other, "type": "ai"},
        "reference_score": share,
    }


def write_llamahub(path, examples):
    path.write_text(json.dumps({"examples": examples}))
    return path


def write_rows(path, *rows):
    path.parent.mkdir(exist_ok=True)
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))


def vote(a, b, winner, judge, turn=1):
    ids = {"question_id": 7, "turn": turn, "model_a": a, "model_b": b}
    return {**ids, "winner": winner, "judge": judge}


def test_rows_of_llamahub_are_pools_and_votes_of_agree(tmp_path):
    rows = [example("Who?", "x", "y", 1.0), example("Why?", "y", "x", 0.5)]
    rows += [example("Who?", "y", "x", 0.25)]
    file = write_llamahub(tmp_path / "f.json", rows)
    main(["llamahub", str(file), "--out", str(tmp_path)])
    pools = [line.pool for line in read_lines(str(tmp_path / "pools.jsonl"), LineLimits())]
    assert [pool.query_id for pool in pools] == ["0:x:y", "1:y:x", "2:y:x"]
    assert [document.content for document in pools[0].documents] == ["Who? by x", "Who? by y"]
    votes = tmp_path / "votes.jsonl"
    read = [json.loads(line)["preference"] for line in votes.read_text().splitlines()]
    assert read == [-1, 0, 1]
    assert agreement_of(votes, "--human", votes).report.section("outcomes").parts


def test_the_rows_that_are_drawn_are_those_of_the_post(tmp_path):
    file = write_llamahub(tmp_path / "f.json", [example("?", "x", "y", 1.0)] * 1204)
    main(["llamahub", str(file), "--out", str(tmp_path), "--rows", "300"])
    lines = (tmp_path / "pools.jsonl").read_text().splitlines()
    drawn = [json.loads(line)["query"]["id"].partition(":")[0] for line in lines]
    assert (len({*drawn}), drawn[:5]) == (300, ["76", "158", "717", "602", "247"])


def test_pairs_of_fastchat_stand_as_the_first_vote_has_them(tmp_path):
    write_rows(tmp_path / "question.jsonl", {"question_id": 7, "turns": ["Who?", "And why?"]})
    for model, turns in (("one", ["Me.", "So."]), ("two", ["You.", "Hm."]), ("mute", ["", "?"])):
        answer = {"question_id": 7, "model_id": model, "choices": [{"turns": turns}]}
        write_rows(tmp_path / f"model_answer/{model}.jsonl", answer)
    votes = [vote("two", "one", "model_a", "p"), vote("one", "two", "model_a", "q")]
    votes += [vote("one", "two", "tie", "p", turn=2), vote("one", "mute", "model_a", "p")]
    write_rows(tmp_path / "human.jsonl", *votes)
    first, later = read_fastchat(tmp_path)
    assert (first.pool.query_id, later.pool.query_id) == ("7-1:two:one", "7-2:one:two")
    assert [document.content for document in first.pool.documents] == ["You.", "Me."]
    assert [(row["judge"], row["preference"]) for row in first.votes] == [("p", -1), ("q", 1)]
    assert later.votes[0]["preference"] == 0
    assert later.pool.query.endswith("Turn 1: Who?\n\nTurn 2: And why?")
    assert later.pool.documents[0].content.startswith("[turn 1, user, ")


def test_mt_bench(published, tmp_path):
    """LlamaHub's 1,204 rows: 709 of 0, 433 of 1 and 62 of .5 (Burleigh, 12 January 2025).

    The counts come out where a share is that of votes for the first of both in the first turn, so
    that a tie counts as one for the second.
    """
    folder = published / "mtbench_human"
    turns = read_turns(folder)
    assert Counter(len(pool.documents) for pool in turns) == {6: 159, 5: 1}
    compared = read_fastchat(folder)
    assert len(compared) == 1810  # 1,814 were compared, 4 of them with an empty answer
    assert sum(len(both.votes) for both in compared) == 3346
    winners = defaultdict(list)
    for line in (folder / "human.jsonl").read_text().splitlines():
        row = json.loads(line)
        if row["turn"] == 1:
            winners[row["question_id"], row["model_a"], row["model_b"]].append(row["winner"])
    shares = [
        (key, 1.0 if share > 0.5 else 0.5 if share == 0.5 else 0.0)
        for key, won in winners.items()
        for share in [won.count("model_a") / len(won)]
    ]
    rows = [example(str(number), a, b, share) for (number, a, b), share in shares]
    read = read_llamahub(write_llamahub(tmp_path / "f.json", rows))
    assert Counter(both.votes[0]["preference"] for both in read) == {1: 709, -1: 433, 0: 62}
