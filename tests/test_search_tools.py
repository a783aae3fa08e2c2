"""``convert`` for the tools that search teams use, and the rules that make whole grades."""

import csv
import json
import math
import random
from pathlib import Path

import lightgbm
import numpy as np
import pyarrow.parquet as pq
import pytest
from sklearn.datasets import load_svmlight_file

from tests.builders import parsed
from zelo_ray.commands.convert import convert
from zelo_ray.errors import InputError, OptionError
from zelo_ray.formats.judgments.qrels import read_qrels
from zelo_ray.formats.tables import table_of
from zelo_ray.records import AbsoluteScore, GradedScore, Score

GRADES = {("q1", "a"): 3, ("q1", "b"): 0, ("q2", "a"): 1}
TEXTS = {"q1": 'how, "exactly"?', "q2": "été\tà Paris"}


@pytest.fixture(autouse=True)
def place(tmp_path, monkeypatch):
    """A graded run of two queries, whose texts have quotes, a comma and a tab."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "out").mkdir()
    rows = [
        GradedScore(q, d, grade + 0.25, 0.2, 3, 1, grade, float(grade), grade, 0.0, False)
        for (q, d), grade in GRADES.items()
    ]
    pq.write_table(table_of(rows, GradedScore), "out/scores.parquet")
    write_pools(tmp_path / "out/annotated.jsonl", GRADES)
    return tmp_path


def write_pools(path, pairs):
    lines = []
    for query_id, text in TEXTS.items():
        documents = [{"id": d, "content": f"text {d}"} for q, d in pairs if q == query_id]
        lines.append(json.dumps({"query": {"id": query_id, "query": text}, "documents": documents}))
    path.write_text("\n".join(lines) + "\n")


def write_absolute(scores):
    rows = [AbsoluteScore("q1", f"d{i}", s, 0.1, 4, 1, s, 0.2) for i, s in enumerate(scores)]
    pq.write_table(table_of(rows, AbsoluteScore), "out/scores.parquet")
    write_pools(Path("out/annotated.jsonl"), [("q1", f"d{i}") for i in range(len(scores))])


def run(*words):
    return convert(parsed("convert", *(part for word in words for part in word.split())))


def test_a_judgment_list_of_opensearch_is_read_back_as_the_same_grades():
    said = run("opensearch out --index docs --out j.json")
    assert said == "3 judgments of 2 queries: j.json\ngrades: the panel's whole grades"
    body = json.loads(Path("j.json").read_text())
    assert (body["name"], body["type"]) == ("docs", "IMPORT_JUDGMENT")
    assert body["judgmentRatings"][0] == {
        "query": TEXTS["q1"],
        "ratings": [{"docId": "a", "rating": "3.000"}, {"docId": "b", "rating": "0.000"}],
    }
    Path("ratings.json").write_text(json.dumps(body["judgmentRatings"]))
    table = read_qrels("ratings.json")
    assert sorted(table["relevance"].to_pylist()) == sorted(GRADES.values())


def test_a_rank_eval_body_has_a_request_for_each_query():
    run("rank-eval out --index docs --field content --out r.json")
    body = json.loads(Path("r.json").read_text())
    assert body["metric"] == {"dcg": {"k": 10, "normalize": True}}
    first, second = body["requests"]
    assert first["request"] == {"query": {"match": {"content": TEXTS["q1"]}}}
    assert first["ratings"][0] == {"_index": "docs", "_id": "a", "rating": 3}
    assert second["id"] == "q2"
    with pytest.raises(OptionError, match="index: is required by convert rank-eval"):
        run("rank-eval out --out r.json")


def test_ratings_of_quepid_are_a_csv_that_keeps_every_text():
    run("quepid out --out q.csv")
    with Path("q.csv").open(newline="") as file:
        rows = [*csv.reader(file)]
    assert rows[0] == ["query", "docid", "rating"]
    found = {(query, doc_id): int(rating) for query, doc_id, rating in rows[1:]}
    assert found == {(TEXTS[q], d): grade for (q, d), grade in GRADES.items()}


def test_rows_for_learning_to_rank_are_read_by_sklearn_and_learned_from_by_lightgbm(place):
    rng, pools, qrels, runs = random.Random(2), [], [], {"bm25": [], "noise": []}
    for q in range(60):
        documents = []
        for d in range(10):
            grade, pair = rng.randint(0, 3), f"q{q} Q0 d{d} 1"
            qrels.append(f"q{q} 0 d{d} {grade}\n")
            runs["bm25"].append(f"{pair} {grade + rng.gauss(0, 0.5):.4f} bm25\n")
            runs["noise"].append(f"{pair} {rng.gauss(0, 1):.4f} noise\n")
            documents.append({"id": f"d{d}", "content": "text"})
        pools.append(
            json.dumps({"query": {"id": f"q{q}", "query": f"{q}?"}, "documents": documents})
        )
    Path("pools.jsonl").write_text("\n".join(pools) + "\n")
    Path("people.qrels").write_text("".join(qrels))
    runs["noise"] = runs["noise"][1:]  # which lacks one document
    for name, lines in runs.items():
        Path(f"{name}.run").write_text("".join(lines))
    said = run("letor people.qrels --pools pools.jsonl --runs bm25.run noise.run --out l.txt")
    assert said == "600 rows of 60 queries: l.txt\nfeatures: 1 bm25, 2 noise"
    assert Path("l.txt").read_text().splitlines()[0].endswith("# q0 d0")
    features, grades, groups = load_svmlight_file("l.txt", query_id=True)
    assert features.shape == (600, 2)
    assert features[0, 1] == 0
    assert (np.diff(groups) >= 0).all()
    ranker = lightgbm.LGBMRanker(n_estimators=20, min_child_samples=5, verbose=-1)
    ranker.fit(features, grades, group=np.unique(groups, return_counts=True)[1])
    assert ranker.feature_importances_[0] > ranker.feature_importances_[1]


def test_scores_that_are_no_grades_need_a_rule():
    write_absolute([-4.3, -1.0, 0.5, 5.1])
    with pytest.raises(InputError, match="not whole grades from 0 on; --levels 4"):
        run("quepid out --out q.csv")
    said = run("quepid out --levels 4 --out q.csv")
    assert "grades: quantiles of all scores: cut at -1.82, -0.25, 1.65" in said
    with Path("q.csv").open(newline="") as file:
        assert [row[2] for row in csv.reader(file)] == ["rating", "0", "1", "2", "3"]
    said = run("quepid out --cut 0 5 --out q.csv")
    assert "grades: cut at 0, 5" in said


@pytest.mark.parametrize("what", ["qrels", "beir", "mteb"])
def test_tools_of_whole_grades_are_warned_of_others_and_get_them_by_a_rule(what):
    write_absolute([-4.3, -1.0, 0.5, 5.1])
    warning = "where trec_eval, BEIR and MTEB hold whole grades from 0; --levels 4 makes"
    assert warning in run(f"{what} out --out plain")
    said = run(f"{what} out --levels 4 --out whole")
    assert warning not in said
    assert "grades: quantiles of all scores" in said
    if what != "mteb":
        assert read_qrels("whole")["relevance"].to_pylist() == [0, 1, 2, 3]
    with pytest.raises(OptionError, match="use one of levels, cut and human"):
        run(f"{what} out --levels 4 --cut 1 --out whole")


def test_scores_whose_zero_is_each_query_s_own_are_not_cut(place):
    pq.write_table(table_of([Score("q1", "a", 1.5, 0.2, 3, 1)], Score), "out/scores.parquet")
    for rule in ("--levels 3", "--cut 0"):
        with pytest.raises(InputError, match="share no zero from query to query"):
            run(f"opensearch out {rule} --out j.json")


def test_grades_by_people_s_scale_are_as_frequent_as_people_s(place):
    rng = random.Random(5)
    scores = [rng.gauss(0, 2) for _ in range(400)]
    write_absolute(scores)
    people = [min(3, max(0, math.floor(s + 1.5))) for s in scores[:200]]
    lines = ["query_id,doc_id,grade", *(f"q1,d{i},{g}" for i, g in enumerate(people))]
    Path("people.csv").write_text("\n".join(lines) + "\n")
    said = run("opensearch out --human people.csv --out j.json")
    assert "where shares of grades are those of people.csv" in said
    ratings = json.loads(Path("j.json").read_text())["judgmentRatings"][0]["ratings"]
    made = {rating["docId"]: int(float(rating["rating"])) for rating in ratings}
    agreed = sum(made[f"d{i}"] == grade for i, grade in enumerate(people))
    assert agreed >= 196, "but for the documents at the cuts"
    Path("few.csv").write_text("\n".join(lines[:11]) + "\n")
    with pytest.raises(InputError, match="labels 10 of the documents of out; a scale takes 20"):
        run("opensearch out --human few.csv --out j.json")
