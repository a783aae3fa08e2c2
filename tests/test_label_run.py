"""``label --run``: documents of a run drawn for people, with chances that can be corrected for."""

import csv
import json
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest

from tests.builders import parsed
from zelo_ray.command_options import LabelOptions
from zelo_ray.commands.label.candidates import SIZES, find_run_candidates
from zelo_ray.commands.label.run import label, open_work
from zelo_ray.errors import InputError, OptionError
from zelo_ray.files.labels import read_labels
from zelo_ray.files.tables import table_of
from zelo_ray.records import GradedScore, Score

QUERIES, DOCUMENTS = 20, 10
GRADES = {
    (f"q{q}", f"d{d}"): 3 if d == 0 else 1 if d < 3 else 0
    for q in range(QUERIES)
    for d in range(DOCUMENTS)
}


@pytest.fixture(autouse=True)
def place(tmp_path, monkeypatch):
    """A graded run whose panel found few documents relevant, and is split over one a query."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "out").mkdir()
    rows = [
        GradedScore(
            *(q, d, float(grade), 0.4 if d == "d9" else 0.1, 3, int(d[1:]) + 1, grade),
            *(float(grade), grade, 2.0 if d == "d9" else 0.0, d == "d9"),
        )
        for (q, d), grade in GRADES.items()
    ]
    pq.write_table(table_of(rows, GradedScore), "out/scores.parquet")
    told = {"options": {"instructions": "what a nurse can use", "show_query": ["why"]}}
    Path("out/run.json").write_text(json.dumps(told))
    lines = []
    for q in range(QUERIES):
        documents = [{"id": f"d{d}", "content": f"text {d}"} for d in range(DOCUMENTS)]
        query = {"id": f"q{q}", "query": f"query {q}?", "why": "because"}
        lines.append(json.dumps({"query": query, "documents": documents}) + "\n")
    Path("out/annotated.jsonl").write_text("".join(lines))
    return tmp_path


def drawn(out="labels", **given):
    given = {"run": "out", "labels": 24, "out": out, **given}
    with open_work(LabelOptions(**given), print) as work:
        return [shown.ids for shown in work.desk.items]


def fill(sheet, grade):
    """Answer all documents of a sheet; ``grade`` says what a document is worth, by its text."""
    with Path(sheet).open(newline="", encoding="utf-8-sig") as file:
        rows = [*csv.DictReader(file)]
    for row in rows:
        row["grade"] = grade(row)
    with Path(sheet).open("w", newline="") as file:
        writer = csv.DictWriter(file, rows[0].keys())
        writer.writeheader()
        writer.writerows(rows)


def run(words):
    said = []
    done = label(parsed("label", *words.split()), said.append, lambda work: None)
    return "\n".join([*said, *done.lines, f"Next step: {done.next_command}"])


def test_a_run_is_labelled_without_a_contest():
    said = run("--run out --labels 24 --out labels --csv sheet.csv")
    assert "Judged 0 of 24 documents in the sample, drawn from 200 of out." in said
    fill("sheet.csv", lambda row: 3 if "text 0" in row["document"] else 0)
    said = run("--out labels --read sheet.csv --person ann")
    assert "Next step: zelo-ray agree out --human labels" in said
    with open_work(LabelOptions(out="labels"), print) as work:
        assert work.about["instructions"] == "what a nurse can use"
        assert all("because" in shown.query for shown in work.desk.items)
    labels = read_labels("labels")
    assert len(labels.rows) == 24
    assert labels.is_random_sample
    assert "To draw more documents" in said
    assert "Judged 24 of 34" in run("--out labels --more 10 --csv sheet.csv"), "without the run"


def test_disagreement_is_drawn_first_and_the_others_can_be():
    split = [pair for pair in drawn(draw="disagreement") if pair[1] == "d9"]
    assert len(split) > 12, "20 of 200 documents, of 24 that are drawn"
    for draw in SIZES:
        assert (find_run_candidates("out", draw).size > 0).all()
    rows = [Score(q, d, -float(d[1:]), 0.5, 3, int(d[1:]) + 1) for q, d in GRADES]  # of battles
    pq.write_table(table_of(rows, Score), "out/scores.parquet")
    for draw in SIZES:
        assert len(drawn(f"labels-{draw}", draw=draw)) == 24


@pytest.mark.parametrize("draw", [*SIZES])
def test_the_chances_correct_for_how_documents_were_drawn(draw):
    """The mean of grades over chances is that of all documents, however they were drawn."""
    estimates = []
    for seed in range(40):
        out = f"labels{seed}"
        pairs = drawn(out, draw=draw, seed=seed)
        sheet = f"sheet{seed}.csv"
        run(f"--out {out} --csv {sheet}")
        by_text = {
            (f"{q.replace('q', 'query ')}?", f"text {d[1:]}"): g for (q, d), g in GRADES.items()
        }
        fill(sheet, lambda row, by=by_text: by[row["query"].splitlines()[0], row["document"]])
        run(f"--out {out} --read {sheet} --person ann")
        rows = read_labels(out).rows
        assert len(rows) == len(pairs)
        chances, grades = rows["probability"].to_numpy(), rows["grade"].to_numpy()
        estimates.append((grades / chances).sum() / len(GRADES))
    true = np.mean([*GRADES.values()])
    error = np.std(estimates) / len(estimates) ** 0.5
    assert abs(np.mean(estimates) - true) < 4 * error


def test_what_is_drawn_one_way_is_not_gone_on_with_another():
    drawn(draw="disagreement")
    assert len(drawn(labels=30)) == 30
    with pytest.raises(
        OptionError, match="draw: labels was drawn with disagreement; name another --out"
    ):
        drawn(draw="random")
    with pytest.raises(OptionError, match="draw: needs run"):
        parsed("label", *["--contest", "c", "--draw", "random", "--labels", "3", "--out", "l"])
    with pytest.raises(OptionError, match="use either contest or run"):
        parsed("label", *["--contest", "c", "--run", "out", "--labels", "3", "--out", "l"])
    with pytest.raises(InputError, match=r"nowhere.*scores\.parquet"):
        drawn("other", run="nowhere")
