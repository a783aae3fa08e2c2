"""``label --run``: documents and pairs of a run, with chances that can be corrected for."""

import json
from collections import Counter
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest

from tests.helpers.labelling import back, sheet
from zelo_ray import cli
from zelo_ray.command_options import LabelOptions
from zelo_ray.commands.label.draw import find_in_run
from zelo_ray.commands.label.run import open_queue
from zelo_ray.files.labels import PersonsAnswer, read_labels, read_sample
from zelo_ray.files.tables import table_of
from zelo_ray.records import GradedScore, Score, Vote

QUERIES, DOCUMENTS = 20, 10
GRADES = {
    (f"q{q}", f"d{d}"): 3 if d == 0 else 1 if d < 3 else 0
    for q in range(QUERIES)
    for d in range(DOCUMENTS)
}


@pytest.fixture(autouse=True)
def place(tmp_path, monkeypatch):
    """A graded run, split over d9, and the votes of two judges on d0 to d4 of six queries.

    They prefer the lower number, and differ over d3 and d4.
    """
    monkeypatch.chdir(tmp_path)
    told = {"options": {"instructions": "what a nurse can use", "show_query": ["why"]}}
    lines = []
    for q in range(QUERIES):
        documents = [{"id": f"d{d}", "content": f"text {d} of {q}"} for d in range(DOCUMENTS)]
        query = {"id": f"q{q}", "query": f"query {q}?", "why": "because"}
        lines.append(json.dumps({"query": query, "documents": documents}) + "\n")
    for run in ("graded", "out"):
        Path(run).mkdir()
        Path(run, "run.json").write_text(json.dumps(told))
        Path(run, "annotated.jsonl").write_text("".join(lines))
    rows = [
        GradedScore(
            *(q, d, float(grade), 0.4 if d == "d9" else 0.1, 3, int(d[1:]) + 1, grade),
            *(float(grade), 2.0 if d == "d9" else 0.0, d == "d9"),
        )
        for (q, d), grade in GRADES.items()
    ]
    pq.write_table(table_of(rows, GradedScore), "graded/scores.parquet")
    scores = [Score(q, d, -float(d[1:]), 0.1, 8, int(d[1:]) + 1) for q, d in GRADES]
    pq.write_table(table_of(scores, Score), "out/scores.parquet")
    votes = []
    for q, (a, b) in ((q, pair) for q in range(6) for pair in np.ndindex(5, 5)):
        for n, name in enumerate(("one", "two") if b < a else ()):
            wins = 1.0 if (a, b, n) != (4, 3, 1) else -1.0
            ids = (f"d{a}", f"d{b}") if n else (f"d{b}", f"d{a}")
            votes.append(Vote(f"q{q}", *ids, name, wins if n else -wins, bool(q % 2), "", "k"))
    pq.write_table(table_of(votes, Vote), "out/votes.parquet")
    return tmp_path


def drawn(out="labels", say=None, **given):
    """Draw from the graded run; with ``say``, Ann answers all of it with what it says of ids."""
    given = {"run": "graded", "labels": 24, "out": out, **given}
    with open_queue(LabelOptions(**given), print) as queue:
        ids = [task.ids for task in queue.tasks]
        if say:
            queue.answers.append(PersonsAnswer("", "ann", each, float(say(each))) for each in ids)
        return ids


def drawn_pairs(out="pairs", **given):
    return drawn(out, **{"run": "out", "pairs": True, "labels": 20, **given})


def test_a_run_is_labelled_without_a_contest(tmp_path, capsys):
    drawn()
    rows = sheet("labels", tmp_path / "sheet.csv", capsys)
    assert all("because" in row["query"] for row in rows)
    for row in rows:
        row["grade"] = 3 if "text 0" in row["document"] else 0
    words = ("--person", "ann", "--json")
    told = json.loads(back("labels", tmp_path / "in.csv", rows, capsys, *words)[1])
    assert told["next_command"] == "zelo-ray agree graded --human labels"
    assert (told["result"]["judged"], told["result"]["drawn_from"]) == (24, 200)
    assert len(read_labels("labels").rows) == 24
    assert (
        json.loads(Path("labels/label.json").read_text())["instructions"] == "what a nurse can use"
    )
    assert len(drawn(run=None, labels=None, more=10)) == 34, "without the run"


def test_what_judges_disagree_on_is_drawn_first_and_the_others_can_be():
    split = [pair for pair in drawn(draw="disagreement") if pair[1] == "d9"]
    assert len(split) > 12, "20 of 200 documents, of 24 that are drawn"
    for run, pairs in (("graded", False), ("out", False), ("out", True)):
        assert {*find_in_run(run, "random", pairs=pairs).sizes.values()} == {1.0}
        sizes = find_in_run(run, "disagreement", pairs=pairs).sizes
        assert min(sizes.values()) > 0
    assert sizes["q0", "d3", "d4"] > 9 * sizes["q0", "d0", "d1"]


@pytest.mark.parametrize("draw", ["random", "disagreement"])
def test_the_chances_correct_for_how_documents_were_drawn(draw):
    """The mean of grades over chances is that of all documents, however they were drawn."""
    estimates = []
    for seed in range(40):
        drawn(f"labels{seed}", GRADES.__getitem__, draw=draw, seed=seed)
        rows = read_labels(f"labels{seed}").rows
        chances, grades = rows["probability"].to_numpy(), rows["grade"].to_numpy()
        estimates.append((grades / chances).sum() / len(GRADES))
    error = np.std(estimates) / len(estimates) ** 0.5
    assert abs(np.mean(estimates) - np.mean([*GRADES.values()])) < 4 * error


def test_pairs_are_those_that_judges_compared_whichever_way_round_they_did():
    pairs = drawn_pairs(labels=200)
    assert len({*pairs}) == len(pairs) == 60
    assert all(a < b for _, a, b in pairs)
    assert drawn_pairs("again", labels=7) == pairs[:7]  # any number of them is a sample


def test_no_results_are_written_over_a_sample():
    """Nor over its chances to be drawn, in `pairs.parquet`, by a table of that name."""

    def files():
        return {path.name: path.read_bytes() for path in Path("pairs").iterdir() if path.is_file()}

    for out in ("pairs", "elsewhere"):
        drawn_pairs(out)
    before = files()
    assert {"label.json", "pairs.parquet"} < before.keys()
    for words in (("--human", "pairs"), ("--human", "elsewhere"), ()):
        assert cli.main(["agree", "out/votes.parquet", *words, "--out", "pairs"]) == 2
        assert files() == before


def better(row):
    """Which text of a row has the lower number."""
    numbers = [int(row[name].split()[1]) for name in ("document_a", "document_b")]
    return "A" if numbers[0] < numbers[1] else " b "


def test_a_sheet_of_pairs_comes_back_in_the_order_that_it_showed(tmp_path, capsys):
    drawn_pairs()
    rows = sheet("pairs", tmp_path / "out.csv", capsys)
    assert {row["key"].endswith("-ba") for row in rows} == {True, False}
    for row in rows:
        row["better"] = better(row)
    rows[3] |= {"better": "tie", "note": "word for word"}
    rows[5]["better"] = "?"
    file, words = tmp_path / "in.csv", ("--person", "bob")
    status, told = back("pairs", file, rows, capsys, *words)
    assert (status, "20 of them new" in told) == (0, True)
    sample = read_sample("pairs")
    assert Counter(answer.value for answer, _ in sample.answers) == {-1.0: 18, 0.0: 1}
    assert (sample.cannot_say, sample.out_of_turn) == (1, 0)
    assert all(0 < chance < 1 for _, chance in sample.answers)
    assert "0 of them new" in back("pairs", file, rows, capsys, *words)[1]
    rows[0]["better"] = "C"
    status, told = back("pairs", file, rows, capsys, *words)
    assert (status, "'C' is neither A, B, tie nor u (cannot say)" in told) == (1, True)


def test_agree_compares_judges_with_what_people_said_of_pairs():
    drawn_pairs(labels=60, say=lambda ids: -1)
    assert cli.main(["agree", "out", "--human", "pairs", "--out", "agreement"]) == 0
    rows = pq.read_table("agreement/figures.parquet").to_pylist()
    shares = {row["of"]: row["value"] for row in rows if row["what"] == "agreement"}
    assert shares["one"] == 1.0, rows
    assert shares["two"] == pytest.approx(54 / 60)  # but for d3 and d4 of six queries
