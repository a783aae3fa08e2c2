"""``convert train``: what the examples of each form hold, and that libraries load them."""

import json
from math import exp, hypot, isclose
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from tests.helpers.builders import convert, write_lines
from zelo_ray.commands.convert.train import read_battles
from zelo_ray.errors import InputError
from zelo_ray.files.tables import table_of
from zelo_ray.records import Score, Vote

SCORES = {"q1": {"a": (2.0, 0.3), "b": (0.0, 0.4), "c": (-2.0, 2.0)}, "q2": {"a": (1.0, 0.1)}}
VOTES = [  # query, A, B, judge, preference (-1: A is better), whether B was shown first
    ("q1", "a", "b", "one", -1.0, False),
    ("q1", "b", "a", "two", 0.5, True),
    ("q1", "b", "c", "one", 1.0, False),
]


@pytest.fixture(autouse=True)
def place(tmp_path, monkeypatch):
    """Pools with texts, and a run's scores and votes on them, in the working directory."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "out").mkdir()
    write_run(tmp_path, SCORES, {"q1": "abcd", "q2": "a"})
    votes = [Vote(*vote, "", "") for vote in VOTES]
    pq.write_table(table_of(votes, Vote), "out/votes.parquet")
    return tmp_path


def write_run(place, queries, pools=None):
    """Scores and errors by query and document, and pools with their texts."""
    rows = [
        Score(query_id, doc_id, score, error, 3, rank)
        for query_id, documents in queries.items()
        for rank, (doc_id, (score, error)) in enumerate(documents.items(), 1)
    ]
    pq.write_table(table_of(rows, Score), "out/scores.parquet")
    lines = []
    for query_id, doc_ids in (pools or queries).items():
        scores, query = queries[query_id], {"id": query_id, "query": f"what is {query_id}?"}
        documents = [
            {"id": d, "content": f"text {d}", "score": scores.get(d, (None,))[0]} for d in doc_ids
        ]
        lines.append({"query": query, "documents": documents})
    write_lines(place / "out/annotated.jsonl", lines)


def run(words):
    return convert("train", "out", *words.split())


def rows_of(path):
    with Path(path).open() as file:
        return [json.loads(line) for line in file]


def examples(form, more=""):
    run(f"--form {form} {more} --out {form}.jsonl")
    return rows_of(f"{form}.jsonl")


def logistic(x):
    return 1 / (1 + exp(-x))


def test_rows_hold_each_judged_document_with_its_error():
    first, *_, last = examples("rows")
    assert [first[name] for name in ("query_id", "doc_id", "document")] == ["q1", "a", "text a"]
    assert (first["score"], first["std_error"]) == (2.0, 0.3)
    assert isclose(first["target"], logistic(2.0))
    assert (last["query_id"], last["score"]) == ("q2", 1.0)
    a, b, c, _ = (row["weight"] for row in examples("rows"))
    assert 1 > a > b > c > 0, "weights fall with errors"
    variance = sum((x - 0.25) ** 2 for x in (2, 0, -2, 1)) / 4
    assert isclose(b, variance / (variance + 0.4**2))


def test_pairs_are_the_battles_with_the_mean_of_all_votes_in_either_order():
    ab, bc = examples("pairs")
    assert (ab["doc_id_a"], ab["doc_id_b"], ab["votes"]) == ("a", "b", 2)
    assert ab["p"] == (1.0 + 0.75) / 2  # the second vote prefers a by a half, and names b first
    assert (bc["doc_id_a"], bc["p"], bc["votes"]) == ("b", 0.0, 1)
    assert (ab["document_a"], ab["document_b"]) == ("text a", "text b")
    assert ab["margin"] == 2.0
    assert ab["weight"] > bc["weight"], "two votes are surer than one"


def test_pairs_by_scores_are_all_pairs_with_the_chance_by_bradley_and_terry(place):
    (place / "out/votes.parquet").unlink()
    assert read_battles("out") == {}
    pairs = {(r["doc_id_a"], r["doc_id_b"]): r for r in examples("pairs")}
    assert [*pairs] == [("a", "b"), ("a", "c"), ("b", "c")]
    assert isclose(pairs["a", "c"]["p"], logistic(4.0))
    assert pairs["a", "c"]["votes"] == 0


def test_triplets_have_a_gap_that_is_no_noise():
    gaps = {("a", "b"): (2.0, hypot(0.3, 0.4)), ("a", "c"): (4.0, hypot(0.3, 2.0))}
    (only,) = examples("triplets")
    assert (only["doc_id_positive"], only["doc_id_negative"]) == ("a", "b")
    assert isclose(only["gap_in_errors"], 2.0 / gaps["a", "b"][1])
    more = examples("triplets", "--min-gap 1.9")
    assert [(r["doc_id_positive"], r["doc_id_negative"]) for r in more] == [("a", "b"), ("a", "c")]
    with pytest.raises(
        InputError, match=r"no two documents of a query are 9 standard errors apart"
    ):
        run("--form triplets --min-gap 9 --out t.jsonl")


def test_a_folder_is_written_again_and_one_with_other_files_is_left_alone(place):
    queries = {f"q{i}": {"a": (1.0, 0.1), "b": (-1.0, 0.1)} for i in range(40)}
    write_run(place, queries)
    run("--form lists --out data --splits 60 20 20")
    run("--form rows --out data --splits 1 0 0")
    names = sorted(path.name for path in (place / "data").iterdir())
    assert names == ["README.md", "train.jsonl"]
    write_run(
        place, {q: {"a": (1.0, 0.1), "b": (-1.0 if q < "q2" else 0.99, 0.1)} for q in queries}
    )
    run("--form triplets --out gap --splits 50 50 0")
    assert all(len(rows_of(path)) for path in (place / "gap").glob("*.jsonl"))
    (place / "data" / "qrels.txt").write_text("mine")
    with pytest.raises(InputError, match=r"data: holds other files, such as qrels\.txt; name a"):
        run("--form lists --out data")
    assert (place / "data" / "train.jsonl").exists()


def test_judgments_of_other_tools_have_targets_by_their_highest_grade(place):
    (place / "people.qrels").write_text("q1 0 a 3\nq1 0 b 1\nq1 0 c 0\n")

    def train(words):
        words = f"people.qrels --pools out/annotated.jsonl {words}"
        return convert("train", *words.split())

    train("--form lists --out l.jsonl")
    assert rows_of("l.jsonl")[0]["labels"] == pytest.approx([1, 1 / 3, 0])
    train("--form triplets --out t.jsonl")
    assert [(r["margin"], r["gap_in_errors"]) for r in rows_of("t.jsonl")] == [
        (2.0, None),
        (3.0, None),
        (1.0, None),
    ]
