"""`label`: what is drawn for a bake-off, with which chances, and what is refused."""

import csv
import html
import json
import shlex
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest

from tests.helpers.labelling import back, sample_at
from zelo_ray import cli
from zelo_ray.command_options import LabelOptions
from zelo_ray.commands.label import draw
from zelo_ray.commands.label.page import render_page
from zelo_ray.commands.label.run import open_queue
from zelo_ray.engine.lock import claim_folder
from zelo_ray.errors import LockError, OptionError
from zelo_ray.evaluation.people.sampling import inclusion_probabilities, sample_threshold
from zelo_ray.files.labels import PersonsAnswer, read_labels

QUERIES, DOCUMENTS = 6, 10


@pytest.fixture
def contest(tmp_path, monkeypatch):
    """What could be drawn for a bake-off, by place; it may be changed, as by new rankers."""
    pools = tmp_path / "pools.jsonl"
    documents = [{"id": f"d{n}", "content": f"text of d{n}"} for n in range(DOCUMENTS)]
    lines = [
        {"query": {"id": f"q{n}", "query": f"query {n}?"}, "documents": documents}
        for n in range(QUERIES)
    ]
    pools.write_text("".join(json.dumps(line) + "\n" for line in lines))
    pairs = [(f"q{q}", f"d{d}") for q in range(QUERIES) for d in range(DOCUMENTS)]
    sizes = np.random.default_rng(3).uniform(0.05, 1, len(pairs))
    sizes[::7] = 0
    truth = {"place": "truth", "digest": "", "columns": []}
    about = {"contest": "contest", "measure": "nDCG@10", "rankers": ["one", "two"], "truth": truth}
    about |= {"pools": [str(pools)], "instructions": None, "show_query": []}
    found = {"now": draw.Drawable(dict(zip(pairs, sizes.tolist(), strict=True)), about)}
    monkeypatch.setattr(draw, "find_in_contest", lambda *_: found["now"])
    return found


def drawn(out, **given):
    with open_queue(LabelOptions(out=str(out), **given), print) as queue:
        return [task.ids for task in queue.tasks]


def answer(out, ids):
    with open_queue(LabelOptions(out=str(out)), print) as queue:
        queue.answers.append(PersonsAnswer("", "ann", each, 1.0) for each in ids)


def record(out):
    return json.loads((out / "label.json").read_text())


def test_a_sample_is_of_the_first_by_priority_and_grows_without_its_contest(tmp_path, contest):
    out = tmp_path / "labels"
    first = drawn(out, contest="contest", labels=12)
    table = pq.read_table(out / "documents.parquet")
    assert len(table) == np.count_nonzero([*contest["now"].sizes.values()])
    assert np.all(np.diff(table["priority"].to_numpy()) <= 0)
    assert len(first) == 12
    (tmp_path / "pools.jsonl").unlink()
    assert drawn(out) == first
    more = drawn(out, more=17)
    assert (more[:12], len(more)) == (first, 17)
    assert len(drawn(out, labels=30)) == 30
    assert len(drawn(out, labels=3)) == 30  # what was drawn stays
    assert len(drawn(out, more=1000)) == len(table)
    assert [each["labels"] for each in record(out)["stages"]] == [12, 17, 30, len(table)]


def test_more_counts_from_what_is_answered(tmp_path, contest):
    out = tmp_path / "labels"
    answer(out, drawn(out, contest="contest", labels=12)[:4])
    assert len(drawn(out, more=8)) == len(drawn(out, more=3)) == 12
    assert len(record(out)["stages"]) == 1
    assert len(drawn(out, more=10)) == 14


def test_a_new_ranker_keeps_what_was_drawn_and_asks_down_to_the_old_threshold(tmp_path, contest):
    out = tmp_path / "labels"
    first = drawn(out, contest="contest", labels=12)
    before = pq.read_table(out / "documents.parquet")
    threshold = sample_threshold(before["priority"].to_numpy(), 12)
    found = contest["now"]
    sizes = {
        ids: size * (1 / 3 if n % 2 else 1.8) for n, (ids, size) in enumerate(found.sizes.items())
    }
    contest["now"] = replace(found, sizes=sizes, about={**found.about, "rankers": ["one", "three"]})
    now = drawn(out, contest="contest")
    table = pq.read_table(out / "documents.parquet")
    assert {*first} < {*now}
    assert len(now) == np.count_nonzero(table["priority"].to_numpy() > threshold)
    old = {(row["query_id"], row["doc_id"]): row["size"] for row in before.to_pylist()}
    for row in table.to_pylist():
        assert row["size"] >= old.get((row["query_id"], row["doc_id"]), 0)
    assert record(out)["rankers"] == ["one", "two", "three"]
    assert drawn(out, contest="contest") == now  # and again: nothing changes
    assert len(record(out)["stages"]) == 2


def test_chances_of_a_finished_sample_are_those_of_the_design(tmp_path, contest):
    out = tmp_path / "labels"
    answer(out, drawn(out, contest="contest", labels=12))
    table = pq.read_table(out / "documents.parquet")
    threshold = sample_threshold(table["priority"].to_numpy(), 12)
    wanted = inclusion_probabilities(table["size"].to_numpy()[:12], threshold)
    np.testing.assert_allclose(read_labels(str(out)).rows["probability"].to_numpy(), wanted)


def test_what_holds_for_the_whole_sample_cannot_change(tmp_path, contest):
    out = tmp_path / "labels"
    drawn(out, contest="contest", labels=3)
    assert len(drawn(out, measure="nDCG@10", seed=0)) == 3
    for name, value in (("seed", 5), ("measure", "P@5"), ("show_query", ("why",))):
        with pytest.raises(OptionError, match=f"{name}: .* was drawn with"):
            drawn(out, **{name: value})


def test_one_process_at_a_time_and_no_results_of_others(tmp_path):
    out = sample_at(tmp_path / "labels", 2)
    with claim_folder(str(out), kind="label"), pytest.raises(LockError, match="in use by another"):
        drawn(out)
    other = tmp_path / "judged"
    other.mkdir()
    (other / "run.json").write_text('{"kind": "bakeoff"}')
    with pytest.raises(LockError, match="results of bakeoff"):
        drawn(other, contest="contest")


# By the command, of a real bake-off


@pytest.fixture
def measured(tmp_path, monkeypatch):
    """A bake-off of two runs in the folder ``here``, which is the working directory."""
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    rng = np.random.default_rng(5)
    ids = [(f"q{q}", f"d{d}") for q in range(8) for d in range(12)]
    documents = [{"id": f"d{d}", "content": f"text {d}"} for d in range(12)]
    query = {"query": "why?", "narrative": "who asks"}
    pools = [{"query": {"id": f"q{n}", **query}, "documents": documents} for n in range(8)]
    Path("pools.jsonl").write_text("".join(json.dumps(pool) + "\n" for pool in pools))
    Path("qrels").write_text("".join(f"{q} 0 {d} {rng.integers(4)}\n" for q, d in ids))
    for name in ("one", "two"):
        lines = [f"{q} Q0 {d} 1 {rng.uniform()} {name}\n" for q, d in ids]
        Path(f"{name}.run").write_text("".join(lines))
    words = "--truth qrels --runs one.run two.run --pools pool*.jsonl --measures P@5 nDCG@5"
    status = cli.main(f"bakeoff {words} --out contest".split())
    assert status in (0, 3, 4)  # what the gate says of noise


@pytest.mark.usefixtures("measured")
def test_a_contest_a_sheet_and_the_contest_again(capsys):
    first = "label --contest contest --labels 35 --out labels --measure nDCG@5 --csv out.csv"
    assert cli.main(first.split()) == 0
    with Path("out.csv").open(encoding="utf-8-sig", newline="") as text:
        rows = [row | {"grade": "2"} for row in csv.DictReader(text)]
    capsys.readouterr()
    status, told = back("labels", Path("in.csv"), rows, capsys, "--person", "ann", "--json")
    told = json.loads(told)
    assert (status, told["result"]["judged"], told["result"]["answers"]) == (0, 35, {"ann": 35})
    assert cli.main(shlex.split(told["next_command"])[1:]) in (0, 3, 4)
    again = json.loads(Path("contest-people/run.json").read_text())
    assert again["measures"] == ["nDCG@5", "Pairs"]
    assert again["people"]["labels"] == 35


@pytest.mark.usefixtures("measured")
def test_a_contest_is_labelled_from_another_folder(tmp_path, monkeypatch):
    here, there = tmp_path / "here", tmp_path / "there"
    there.mkdir()
    monkeypatch.chdir(there)
    Path("qrels").write_text("somebody else's")
    words = ["label", "--contest", str(here / "contest"), "--out", "labels", "--csv", "out.csv"]
    assert cli.main(words) == 0
    about = record(there / "labels")
    assert about["truth"]["place"] == str(here / "qrels")
    assert about["pools"] == [str(here / "pool*.jsonl")]


@pytest.mark.usefixtures("measured")
def test_people_are_told_what_the_judges_were_told(tmp_path):
    """By the contest, or else by the run that made its truth; or what `label` was given."""
    path = tmp_path / "here/contest/run.json"
    run, told = json.loads(path.read_text()), {"instructions": "what a nurse can use <today>"}
    told |= {"show_query": ["narrative"]}

    def page(out, **given):
        with open_queue(LabelOptions(out=out, contest="contest", **given), print) as queue:
            return queue.tasks[0].query, html.unescape(render_page(queue, "", "", "")[0])

    path.write_text(json.dumps(run | {"options": run["options"] | told}))
    query, text = page("one")
    assert "who asks" in query
    assert told["instructions"] in text
    query, text = page("two", instructions="what a cook can use")
    assert "who asks" in query
    assert "cook" in text
    assert "nurse" not in text
    truth = tmp_path / "here/judged"
    truth.mkdir()
    lines = [json.loads(line) for line in Path("pools.jsonl").read_text().splitlines()]
    judged = [
        line | {"documents": [d | {"score": 1.0} for d in line["documents"]]} for line in lines
    ]
    Path("judged/annotated.jsonl").write_text("".join(json.dumps(line) + "\n" for line in judged))
    (truth / "run.json").write_text(json.dumps({"options": told}))
    options = run["options"] | {"truth": "judged/annotated.jsonl"}
    path.write_text(json.dumps(run | {"options": options}))
    assert told["instructions"] in page("three")[1]
