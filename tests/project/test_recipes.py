"""``docs/recipes.md``: each block runs on the sample, and writes what its tool documents."""

import json
import re
import shutil
import sys
from pathlib import Path
from types import SimpleNamespace

import pandas as pd
import pytest
from sklearn.datasets import load_svmlight_file

from tests.files.reading import labels, read_judgments, read_pools
from tests.helpers.crash import ROOT
from tests.helpers.labelling import sample_at
from zelo_ray import cli

PAGE = (ROOT / "docs" / "recipes.md").read_text()
HEADS = re.split(r"^#+ (.+)$", PAGE, flags=re.M)
BLOCKS = {
    title: re.findall(r"```python\n(.*?)```", text, re.S)
    for title, text in zip(HEADS[1::2], HEADS[2::2], strict=True)
}
FIRST = "Recipes for other tools"


@pytest.fixture(autouse=True)
def place(tmp_path, monkeypatch):
    """The sample's folder, as the page has it."""
    monkeypatch.chdir(tmp_path)
    shutil.copytree(ROOT / "data", tmp_path / "data")
    return tmp_path


def run(title, **names):
    """Run the blocks of a recipe after the first block of the page; return what it defines."""
    for code in [*BLOCKS[FIRST], *BLOCKS[title]]:
        exec(compile(code, title, "exec"), names)
    return names


def test_every_recipe_has_a_test():
    tested = re.findall(r"run\(\s*\"([^\"]+)\"", Path(__file__).read_text())
    assert {title for title, blocks in BLOCKS.items() if blocks} - {FIRST} == {*tested}


def test_opensearch(place):
    """As in its documentation: docs.opensearch.org, "Importing judgments"."""
    run("OpenSearch's Search Relevance Workbench")
    body = json.loads((place / "judgments.json").read_text())
    assert body["type"] == "IMPORT_JUDGMENT"
    first = body["judgmentRatings"][0]
    assert ({*first}, {*first["ratings"][0]}) == ({"query", "ratings"}, {"docId", "rating"})
    assert all(float(rating["rating"]) >= 0 for rating in first["ratings"])


def test_rank_eval(place):
    """As in its documentation: ``_index``, ``_id`` and a whole ``rating``; metric ``dcg``."""
    queries = run("`_rank_eval` of Elasticsearch and OpenSearch")["queries"]
    body = json.loads((place / "rank-eval.json").read_text())
    assert body["metric"] == {"dcg": {"k": 10, "normalize": True}}
    assert {request["id"] for request in body["requests"]} == {*queries}
    rating = body["requests"][0]["ratings"][0]
    assert ({*rating}, type(rating["rating"])) == ({"_index", "_id", "rating"}, int)


def test_quepid(place):
    grades = run("Quepid")["grades"]
    ratings = pd.read_csv("ratings.csv")
    assert ([*ratings], len(ratings)) == (["query", "docid", "rating"], len(grades))


def test_letor_is_read_by_sklearn(place):
    grades = run("LETOR: features for learning to rank")["grades"]
    features, labels, qid = load_svmlight_file("train.letor", query_id=True)
    assert labels.tolist() == grades.sort_values("query_id", kind="stable")["grade"].tolist()
    assert features.nnz > 0
    assert len({*qid.tolist()}) == grades["query_id"].nunique()


def test_rows_of_mteb_are_read_back(place):
    run("MTEB")
    rows = [json.loads(line) for line in (place / "rows.jsonl").read_text().splitlines()]
    assert all({*row} == {"query", "positive", "negative"} for row in rows)
    assert len(read_pools("rows.jsonl")) == len(rows) > 5


def test_hard_negatives(place):
    words = "train data/qrels.txt --pools data/sample --form triplets --out triplets"
    assert cli.main(["convert", *words.split()]) == 0
    hard = run("Hard negatives")["hard"]
    assert 0 < len(hard) == len((place / "hard.jsonl").read_text().splitlines())
    assert (hard["rank_negative"] < hard["rank_positive"]).all()
    assert (hard["margin"] > 0).all()


@pytest.fixture
def sheet(place):
    """A sample of three documents, and its sheet."""
    out = sample_at(place / "labels", 3)
    assert cli.main(["label", "--out", str(out), "--csv", "sheet.csv"]) == 0
    return pd.read_csv("sheet.csv")["key"].tolist()


def said(place):
    answers, _ = labels.read_answers(str(place / "labels" / "answers.jsonl"))
    return [(answer.person, answer.value) for answer in answers]


def test_label_studio(place, sheet):
    """JSON-MIN has the fields of a task, its choice by the control's name, and the annotator."""
    tasks = run("Label Studio")["tasks"]
    assert json.loads((place / "tasks.json").read_text()) == tasks
    assert 'name="choice" toName="document"' in (place / "interface.xml").read_text()
    export = [
        {**task["data"], "id": 7 + n, "choice": choice, "annotator": 1, "lead_time": 2.5}
        for n, (task, choice) in enumerate(zip(tasks, "2u0", strict=True))
    ]
    (place / "export.json").write_text(json.dumps(export))
    words = "--read export.json --columns grade=choice judge=annotator"
    assert cli.main(["label", "--out", "labels", *words.split()]) == 0
    assert said(place) == [("1", 2.0), ("1", None), ("1", 0.0)]


def test_argilla(place, sheet, monkeypatch):
    """With a stand-in that keeps records, and gives each a submitted response and a draft."""
    logged = []

    class Records:
        log = staticmethod(logged.extend)

        def __call__(self, *, with_responses):
            for record in logged:
                given = [SimpleNamespace(value="3", user_id=n, status=s) for n, s in STATES]
                yield SimpleNamespace(id=record.id, responses={"grade": given})

    names = ("Argilla", "Settings", "TextField", "LabelQuestion", "Record")
    argilla = SimpleNamespace(**dict.fromkeys(names, SimpleNamespace))
    dataset = SimpleNamespace(records=Records())
    argilla.Dataset = lambda **_: SimpleNamespace(create=lambda: dataset)
    monkeypatch.setitem(sys.modules, "argilla", argilla)
    run("Argilla")
    assert [record.id for record in logged] == sheet
    assert cli.main(["label", "--out", "labels", "--read", "answers.csv"]) == 0
    assert said(place) == [("5", 3.0)] * 3


STATES = [(5, "submitted"), (6, "draft")]


def test_a_column_per_rater(place):
    (place / "raters.csv").write_text("query_id,doc_id,ann,bob\nq,a,2,1\nq,b,0,\n")
    run("A column per rater")
    table = read_judgments("grades.csv", "people").table
    found = zip(*(table[name].to_pylist() for name in ("doc_id", "judge", "grade")), strict=True)
    assert sorted(found) == [("a", "ann", 2), ("a", "bob", 1), ("b", "ann", 0)]


def test_candidates_of_a_live_index(place):
    """Of a client whose answers have the form of ``_search``."""
    hit = {"_index": "docs", "_id": "d1", "_score": 2.5, "_source": {"text": "Use tweezers."}}
    asked = []

    def search(**given):
        asked.append(given)
        return {"took": 1, "hits": {"total": {"value": 1}, "hits": [hit]}}

    run("Candidates of a live index", client=SimpleNamespace(search=search))
    assert asked[0]["body"]["query"] == {"match": {"text": "remove a tick"}}
    pools = read_pools("pools.jsonl")
    assert [(pool.query_id, pool.documents[0].id) for pool in pools] == [("q1", "d1"), ("q2", "d1")]


def test_html_to_text(place):
    page = "<style>p {}</style><p>Pull &amp; clean,<br>if a < b.</p><ul><li>List<int>s</li></ul>"
    pd.DataFrame({"query": ["tick"], "text": [page]}).to_csv("pages.csv", index=False)
    frame = run("HTML to text")["frame"]
    assert frame["text"].tolist() == ["Pull & clean,\nif a < b.\nList<int>s"]
