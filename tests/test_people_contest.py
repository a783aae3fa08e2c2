"""A contest corrected by people's labels, as a user sees it: terminal, tables, page and gate."""

import csv
import json
import re
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.builders import rows_of, set_in_file
from tests.contests import framed, world
from zelo_ray import bakeoff
from zelo_ray.cli import main
from zelo_ray.commands.bakeoff.people import LabelledFrame, _set_design
from zelo_ray.commands.bakeoff.report import BAKEOFF_REPORT
from zelo_ray.commands.label.candidates import find_candidates
from zelo_ray.commands.label.draw import _hint_if_too_few
from zelo_ray.evaluation.people.corrected import FEWEST
from zelo_ray.evaluation.people.frame import label_sizes
from zelo_ray.evaluation.people.sampling_design import (
    inclusion_probabilities,
    priorities,
    sample_threshold,
)
from zelo_ray.formats.judgments.labels import PeoplesLabels, read_labels
from zelo_ray.reports.warning_codes import WarningCode


@pytest.fixture(scope="module")
def contest(tmp_path_factory):
    """Two run files against a panel's grades, measured; and people's grades of all documents."""
    folder = tmp_path_factory.mktemp("contest")
    people, truth, runs = world(queries=40, documents=12)
    with (folder / "panel.qrels").open("w") as file:
        for q, query_id in enumerate(truth.query_ids):
            for doc_id, grade in truth.labels(q).items():
                file.write(f"{query_id} 0 {doc_id} {grade:g}\n")
    for name, run in runs.items():
        with (folder / f"{name}.run").open("w") as file:
            for row in run.to_pylist():
                file.write(f"{row['query_id']} Q0 {row['doc_id']} 1 {row['score']} {name}\n")
    assert run_it(folder) == 0
    return folder, people


SCALED = "gain@10 on the panel's scale"
EACH = ("nDCG@10", "P(rel=2)@10", "AP", "P(rel=2)@30")


def run_it(folder, *more, runs=("a", "b"), measures=EACH, out="out", truth="panel.qrels"):
    files = [str(folder / f"{name}.run") for name in runs]
    words = ["bakeoff", "--truth", str(folder / truth), "--runs", *files]
    words += ["--measures", *measures, *set_in_file(resamples=500)]
    return main([*words, "--out", str(folder / out), *more])


def people_in(folder):
    """The remarks on people's labels, and the table of corrected differences."""
    remarks, *parts = BAKEOFF_REPORT.read(str(folder)).section("people").parts
    return " ".join(remarks.lines), parts[-1]


def drawn_labels(folder, people, labels, **columns):
    """The file of labels that a draw for the contest gives."""
    found = find_candidates(str(folder / "out"))
    order = priorities(*zip(*found.ids, strict=True), found.size, 1)
    threshold = sample_threshold(order, labels)
    chance = inclusion_probabilities(found.size, threshold)
    ids = found.ids
    rows = [
        {"query_id": q, "doc_id": d, "grade": people[q, d], "probability": p, **columns}
        for (q, d), one, p in zip(ids, order, chance, strict=True)
        if one > threshold
    ]
    return written(folder / f"labels-{labels}.csv", rows)


def pools_of(people, path):
    with path.open("w") as file:
        for query_id in sorted({query_id for query_id, _ in people}):
            documents = [{"id": d, "content": f"{q} {d}"} for q, d in people if q == query_id]
            pool = {"query": {"id": query_id, "query": "?"}, "documents": documents}
            file.write(json.dumps(pool) + "\n")
    return path


def written(path, rows):
    with path.open("w", newline="") as file:
        out = csv.DictWriter(file, rows[0])
        out.writeheader()
        out.writerows(rows)
    return str(path)


def test_labels_correct_a_bakeoff_in_report_and_tables(contest, capsys):
    folder, people = contest
    labels = drawn_labels(folder, people, 80, person="ann")
    assert run_it(folder, "--human", labels) == 0
    shown = capsys.readouterr().out
    assert "1 person labelled 80 documents, drawn at random" in shown
    assert f"people's labels, a leads by {SCALED}. It is above b." in shown
    _, table = people_in(folder / "out")
    [[first, second, significance, difference, more, panel, alone, p_holm]] = table.rows
    assert (first.text, second.text, significance, more) == ("a", "b", "significant", "none")
    assert p_holm.value < 0.05
    assert "Not corrected: AP, Pairs: not linear in the labels." in shown
    assert "P@30: it is unknown which other" in shown
    rows = rows_of(folder / "out", "comparisons")
    by = {(row["measure"], row["estimate"]): row for row in rows}
    assert set(by) == {(m, "panel") for m in EACH} | {
        (SCALED, "graded"),
        (SCALED, "people"),
        (SCALED, "corrected"),
    }
    full = by[SCALED, "corrected"]
    assert full["low"] < full["difference"] < full["high"]
    assert (difference.value, difference.low) == (full["difference"], full["low"])
    assert panel.value == pytest.approx(by["nDCG@10", "panel"]["difference"])
    assert alone.value == by[SCALED, "people"]["difference"]
    alone = by[SCALED, "people"]
    assert full["high"] - full["low"] < alone["high"] - alone["low"]
    told = json.loads((folder / "out" / "run.json").read_text())["summary"]["people"]
    assert told["way"] == "drawn"
    assert told["labels"] == 80
    page = (folder / "out" / "report.html").read_text()
    assert "What people&#39;s labels change" in page
    assert "1 person labelled 80 documents" in page
    means_of = {(r["run"], r["measure"], r["estimate"]) for r in rows_of(folder / "out", "means")}
    assert ("a", SCALED, "corrected") in means_of


def test_a_sample_of_label_corrects_a_contest_and_grows(contest, tmp_path, capsys):
    """As a team uses it: draw, send out a spreadsheet, take it in, correct, draw more."""
    folder, people = contest
    pools = pools_of(people, tmp_path / "pools.jsonl")
    out, sheet = str(tmp_path / "labels"), tmp_path / "open.csv"
    said, widths = [], []
    for words in (["--contest", str(folder / "out"), "--labels", "60"], ["--more", "40"]):
        words += ["--pools", str(pools), "--csv", str(sheet)]
        assert main(["label", "--out", out, *words]) == 0
        with sheet.open(newline="", encoding="utf-8-sig") as file:
            rows = [*csv.DictReader(file)]
        said.append(len(rows))
        for row in rows:
            row["grade"] = f"{people[tuple(row['document'].split())]:g}"
        written(sheet, rows)
        assert main(["label", "--out", out, "--read", str(sheet), "--person", "ann"]) == 0
        assert run_it(folder, "--human", out) == 0
        by = {(r["measure"], r["estimate"]): r for r in rows_of(folder / "out", "comparisons")}
        full = by[SCALED, "corrected"]
        widths.append(full["high"] - full["low"])
    assert said == [60, 40]
    assert widths[1] < widths[0]
    shown = capsys.readouterr().out
    assert "Not corrected: P@30: " in shown
    assert "sample was made larger 1 time" in shown
    assert ("P(rel=2)@10", "corrected") in by


def test_all_labels_give_what_people_say_and_need_no_probability(contest, capsys):
    folder, people = contest
    rows = [{"query_id": q, "doc_id": d, "grade": g} for (q, d), g in people.items()]
    assert run_it(folder, "--human", written(folder / "all.csv", rows)) == 0
    assert "which are all that distinguish the rankers" in capsys.readouterr().out
    by = {(r["measure"], r["estimate"]): r for r in rows_of(folder / "out", "comparisons")}
    one, other = by["P(rel=2)@10", "people"], by["P(rel=2)@10", "corrected"]
    assert one["difference"] == pytest.approx(other["difference"])
    assert one["p"] == other["p"]


def test_whole_queries_are_used_and_said_to_be_drawn(contest, capsys):
    folder, people = contest
    own = {f"q{q}" for q in range(0, 40, 3)}
    rows = [{"query_id": q, "doc_id": d, "grade": g} for (q, d), g in people.items() if q in own]
    assert run_it(folder, "--human", written(folder / "whole.csv", rows)) == 0
    assert "all that distinguish the rankers in 14 queries" in (capsys.readouterr().out)


def test_the_top_of_each_query_corrects_nothing(contest, capsys):
    folder, people = contest
    top = {}
    for row in rows_of(folder / "out", "runs"):
        if row["run"] == "a":
            top.setdefault(row["query_id"], []).append((-row["score"], row["doc_id"]))
    rows = [
        {"query_id": q, "doc_id": d, "grade": people[q, d]}
        for q, documents in top.items()
        for _, d in sorted(documents)[:4]
    ]
    assert run_it(folder, "--human", written(folder / "top.csv", rows)) == 0
    shown = capsys.readouterr().out
    assert "People's labels correct nothing: " in shown
    assert "without known inclusion probabilities" in shown
    assert {row["estimate"] for row in rows_of(folder / "out", "comparisons")} == {"panel"}


def test_a_few_labels_do_not_show_how_often_the_panel_is_wrong(contest, capsys):
    folder, people = contest
    assert run_it(folder, "--human", drawn_labels(folder, people, 29)) == 0
    shown = capsys.readouterr().out
    assert "correct nothing: 29 documents are labelled in" in shown


def test_probabilities_that_cannot_be_are_noticed(contest, capsys):
    folder, people = contest
    labels = drawn_labels(folder, people, 80, probability=0.9)
    assert run_it(folder, "--human", labels) == 0
    assert "inclusion probabilities do not fit" in capsys.readouterr().out


def test_labels_of_other_documents_and_a_contest_of_one_arm(contest, tmp_path, capsys):
    folder, people = contest
    (tmp_path / "labels.csv").write_text("query_id,doc_id,grade\nother,d0,1\n")
    assert run_it(folder, "--human", str(tmp_path / "labels.csv")) == 0
    assert "is among the first of any ranker." in capsys.readouterr().out
    rows = [{"query_id": q, "doc_id": d, "grade": g} for (q, d), g in people.items()]
    assert run_it(folder, "--human", written(folder / "all.csv", rows), runs="a") == 0
    assert "corrected by people" in capsys.readouterr().out
    assert run_it(folder) == 0


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "labels.csv"),
        ("query_id,doc_id,grade\n", "holds no label"),
        ("query_id,doc_id,grade,probability\nq0,d0,many,0.5\n", "many"),
        ("query_id,doc_id,grade,probability\nq0,d0,1,1.5\n", "probability 1.5"),
    ],
)
def test_labels_that_make_no_sense_are_told_in_one_line(contest, tmp_path, capsys, text, said):
    folder, _ = contest
    (tmp_path / "labels.csv").write_text(text)
    assert run_it(folder, "--human", str(tmp_path / "labels.csv")) in (1, 2)
    shown = capsys.readouterr().err
    assert said in shown
    assert len(shown.strip().split("\n")) == 1


def test_an_arm_that_the_labels_were_not_drawn_for_is_named(contest):
    """A directory of labels knows what could be drawn; a new arm brings other documents."""
    folder, people = contest
    found = find_candidates(str(folder / "out"))
    rows = read_labels(drawn_labels(folder, people, 60)).rows
    frame, said, rankings = framed("nDCG@10", queries=40, documents=12)
    known = np.where(frame.query < 6, said, np.nan)
    some = LabelledFrame(frame, label_sizes(frame), known, np.ones(len(said)))
    assert (~np.isnan(known)).sum() >= FEWEST
    columns = [*map(list, zip(*found.ids, strict=True)), found.size]
    could = pa.table(columns, names=["query_id", "doc_id", "size"])
    could = could.filter(pa.array(found.size > 0))
    for left, way in ((0, "drawn"), (9, None)):
        labels = PeoplesLabels(
            rows, is_random_sample=True, highest_grade=3, frame=could.slice(left)
        )
        got = _set_design(some, labels, [*rankings])
        assert got.way == way
    assert got.refused.startswith("9 documents among the first of ")
    assert "sample was drawn for other rankers" in got.refused


def test_people_correct_the_gate(contest, capsys):
    folder, people = contest
    rows = [{"query_id": q, "doc_id": d, "grade": 3.0 - g} for (q, d), g in people.items()]
    words = ("--baseline", "b", "--margin", "0.01")
    assert run_it(folder, *words) == 0
    assert "GATE pass: a is better than b (nDCG@10 +" in capsys.readouterr().out
    # people who say the contrary of all that the panel says
    assert run_it(folder, *words, "--human", written(folder / "contrary.csv", rows)) == 4
    shown = capsys.readouterr().out
    assert "GATE fail: a is worse than b (nDCG@10 -" in shown
    assert ", corrected, one-sided" in shown


def test_a_gate_does_not_open_where_people_say_nothing(contest, tmp_path, capsys):
    folder, people = contest
    words = ("--baseline", "b", "--human", drawn_labels(folder, people, 20))
    assert run_it(folder, *words) == 3
    assert "GATE open: not enough data" in (shown := capsys.readouterr().out)
    assert "people's labels correct nothing: 20 doc" in shown
    assert run_it(folder, "--baseline", "b") == 0
    assert "corrected by people" not in (folder / "out" / "report.html").read_text()


@pytest.mark.parametrize(
    ("grade", "said"),
    [
        (lambda grade: min(1, grade), "the truth's grades go up to 3, and people's to 1"),
        (lambda grade: grade, ""),
    ],
)
def test_grades_of_another_scale_correct_nothing(contest, tmp_path, capsys, grade, said):
    folder, people = contest
    rows = [{"query_id": q, "doc_id": d, "grade": grade(g)} for (q, d), g in people.items()]
    assert run_it(folder, "--human", written(tmp_path / "labels.csv", rows)) == 0
    shown = capsys.readouterr().out
    assert said in shown
    assert ("correct nothing" in shown) == bool(said)


def test_a_measure_that_people_cannot_correct_is_joined_by_one_of_the_panel_too(contest, capsys):
    """Panel and corrected figures are by the same measure, whatever orders the leaderboard."""
    folder, people = contest
    labels = drawn_labels(folder, people, 80)
    assert run_it(folder, "--human", labels, measures=["AP"], out="ap") == 0
    by_people, by_panel = BAKEOFF_REPORT.read(str(folder / "ap")).lead
    assert by_people.startswith(
        f"Corrected by people's labels, a leads by {SCALED}. It is above b."
    )
    assert by_people.endswith(
        "The leaderboard is by AP, which people's labels do not correct: not linear in the labels."
    )
    assert by_panel == f"By the panel alone, a has the highest {SCALED}. It is above b."
    means = BAKEOFF_REPORT.read(str(folder / "ap")).table("people")
    assert means.columns[1:] == [f"{SCALED}, corrected by people", "panel alone"]
    assert run_it(folder) == 0
    rows = rows_of(folder / "out", "means")
    alone = {row["run"]: row["mean"] for row in rows if row["measure"] == "nDCG@10"}
    assert {row[0].text: row[2].value for row in means.rows} == pytest.approx(alone)
    assert "Next step: zelo-ray label --contest" in capsys.readouterr().out


@pytest.mark.parametrize("kind", ["grades", "scores"])
def test_labels_of_all_documents_give_peoples_own_figures(contest, kind):
    """As of the same labels as truth; of all but a few it is named otherwise."""
    folder, people = contest
    rows = [{"query_id": q, "doc_id": d, "grade": g} for (q, d), g in people.items()]
    labels, measures = written(folder / "all.csv", rows), ["nDCG@10", "nDCG@3", "P(rel=2)@5"]
    if kind == "scores":
        assert scored(folder, measures, labels) == 0
    else:
        assert run_it(folder, "--human", labels, measures=measures, out="scored") == 0
    assert run_it(folder, measures=measures, out="by-people", truth="all.csv") == 0
    shown = {"nDCG@10", "nDCG@3"} | ({"P(rel=2)@5"} if kind == "grades" else set())
    for table, columns in (("means", ("mean",)), ("comparisons", ("mean_a", "mean_b"))):
        own = {figure_key(row): row for row in rows_of(folder / "by-people", table)}
        of = [r for r in rows_of(folder / "scored", table) if r["estimate"] == "corrected"]
        assert {row["measure"] for row in of} == shown
        for row in of:
            for column in columns:
                assert row[column] == pytest.approx(own[figure_key(row)][column], abs=1e-9)
    part = written(folder / "part.csv", [row for row in rows if row["doc_id"] != "d0"])
    whole = run_it(folder, "--human", part, measures=measures, out="part")
    assert whole == 0
    named = {
        r["measure"] for r in rows_of(folder / "part", "means") if r["estimate"] == "corrected"
    }
    assert not named & {"nDCG@10", "nDCG@3"}


def figure_key(row):
    return tuple(row[name] for name in ("run", "run_a", "run_b", "measure") if name in row)


def scored(folder, measure, labels, *more):
    """The contest by zELO scores instead of grades; what is said of it, and its rows."""
    with (folder / "panel.qrels").open() as file:
        rows = [line.split() for line in file]
    columns = [[row[0] for row in rows], [row[2] for row in rows]]
    scores = [float(row[3]) - 1.55 for row in rows]
    truth = pa.table([*columns, scores], names=["query_id", "doc_id", "score"])
    pq.write_table(truth, folder / "scores.parquet")
    words = ["bakeoff", "--truth", folder / "scores.parquet", "--runs", folder / "a.run"]
    words += [
        folder / "b.run",
        "--measures",
        *measure,
        *set_in_file(resamples=500),
        "--human",
        labels,
    ]
    return main([*map(str, [*words, "--out", folder / "scored", *more])])


def test_beside_scores_the_panels_figures_are_those_of_grades(contest, capsys):
    folder, people = contest
    labels = written(
        folder / "all.csv",
        [{"query_id": q, "doc_id": d, "grade": g} for (q, d), g in people.items()],
    )
    assert scored(folder, ["Grade@10", "P(rel=0)@5"], labels) == 0
    shown = capsys.readouterr().out
    assert "Not corrected: P@5: its rel is" in shown
    _, table = people_in(folder / "scored")
    assert table.columns[5:7] == ["panel's scores as grades", "people alone"]
    rows = rows_of(folder / "scored", "comparisons")
    by = {row["estimate"]: row for row in rows if row["measure"] == "Grade@10"}
    assert 0 < by["graded"]["mean_a"] < 3
    assert table.rows[0][5].value == by["graded"]["difference"]
    means = BAKEOFF_REPORT.read(str(folder / "scored")).table("people")
    assert means.rows[0][2].value == by["graded"]["mean_a"]


@pytest.mark.parametrize("change", [lambda grade: grade * 3.3, lambda grade: grade >= 2])
def test_beside_scores_people_grade_from_0_to_3(contest, capsys, change):
    folder, people = contest
    rows = [{"query_id": q, "doc_id": d, "grade": float(change(g))} for (q, d), g in people.items()]
    assert scored(folder, ["nDCG@10"], written(folder / "other.csv", rows)) == 0
    assert "zELO scores, which grades from 0 to 3 correct" in capsys.readouterr().out


def test_arms_of_which_few_labels_tell_say_so(contest, capsys):
    """A third arm takes the labels; two that are close are not sure by the few that are left."""
    folder, people = contest
    with (folder / "a.run").open() as file:
        lines = [line.split() for line in file]
    for number, line in enumerate(lines):  # as a, but for one query
        line[4:] = str(-number) if line[0] == "q1" else line[4], "near"
    (folder / "near.run").write_text("".join(" ".join(line) + "\n" for line in lines))
    arms = ("a", "near", "b")
    assert run_it(folder, runs=arms) == 0
    labels = drawn_labels(folder, people, 80)
    capsys.readouterr()
    words = ("--baseline", "near", "--margin", "0.05")
    assert run_it(folder, "--human", labels, *words, runs=arms) == 4
    shown = capsys.readouterr().out
    assert "too few labels" in [row[2] for row in people_in(folder / "out")[1].rows]
    assert "GATE open: not enough data" in shown
    assert "a is not worse than near" in shown
    assert "too few of people's labels" in shown
    assert "What people&#39;s labels change" in (folder / "out" / "report.html").read_text()


def test_too_few_labels_are_said_before_and_after_and_are_no_verdict(contest, tmp_path, capsys):
    """30 labels of three rankers tell of no two: neither that more queries nor what would help."""
    folder, people = contest
    runs = ("a", "b", "c")
    with (folder / "a.run").open() as file:
        lines = [line.split() for line in file]
    for number, line in enumerate(lines):  # another order
        line[4:] = str(number * 7919 % 101), "c"
    (folder / "c.run").write_text("".join(" ".join(line) + "\n" for line in lines))
    assert run_it(folder, runs=runs, measures=["P@1"], out="few") == 0
    sheet, out = str(tmp_path / "open.csv"), str(tmp_path / "labels")
    pools = pools_of(people, tmp_path / "pools.jsonl")
    words = ["label", "--contest", str(folder / "few"), "--pools", str(pools), "--csv", sheet]
    capsys.readouterr()
    assert main([*words, "--labels", "30", "--out", out]) == 0
    said = "".join(capsys.readouterr())
    enough = int(re.search(r"--labels (\d+)", said)[1])
    assert enough > 30
    for labels, told in ((30, False), (enough - 1, False), (enough, True)):
        where = f"{out}-{labels}"
        assert main([*words, "--labels", str(labels), "--out", where]) == 0
        assert ("too few" not in "".join(capsys.readouterr())) == told
        with Path(sheet).open(newline="", encoding="utf-8-sig") as file:
            rows = [*csv.DictReader(file)]
        for row in rows:
            row["grade"] = f"{people[tuple(row['document'].split())]:g}"
        written(Path(sheet), rows)
        assert main(["label", "--out", where, "--read", sheet, "--person", "ann"]) == 0
        human = ("--human", where)
        assert run_it(folder, *human, runs=runs, measures=["P@1"], out="few") == 0
        report = BAKEOFF_REPORT.read(str(folder / "few"))
        codes = {warning.code for warning in report.warnings.every}
        by = [r for r in rows_of(folder / "few", "comparisons") if r["estimate"] == "corrected"]
        assert any(not np.isnan(row["p"]) for row in by) == told
        assert WarningCode.TOO_FEW_LABELS in codes or told
        capsys.readouterr()


@pytest.mark.parametrize(("queries", "said"), [(4, "4 queries"), (5, "Only all"), (40, "--labels")])
def test_what_more_labels_cannot_help_is_not_promised(queries, said):
    frame, _, _ = framed("P@1", queries=queries)
    ids = [(frame.query_ids[q], d) for q, d in zip(frame.query, frame.doc_ids, strict=True)]
    table = pa.table([*map(list, zip(*ids, strict=True))], ["query_id", "doc_id"])
    assert said in _hint_if_too_few(frame, table, 1)
    assert bool(_hint_if_too_few(frame, table, len(table))) is (queries < 5)


def test_people_who_cannot_say_are_missing_by_chance(contest, capsys):
    """A row without a grade makes the others stand for more."""
    folder, people = contest
    every = drawn_labels(folder, people, 160)
    with Path(every).open(newline="") as file:
        rows = [*csv.DictReader(file)]
    for row in rows[::5]:
        row["grade"] = ""
    assert run_it(folder, "--human", written(folder / "blank.csv", rows)) == 0
    shown = capsys.readouterr().out
    assert "People could not say of 32 documents" in shown
    assert "do not fit" not in shown


def test_a_frame_of_labels_from_python(contest, tmp_path):
    folder, people = contest
    rows = [{"query_id": q, "doc_id": d, "grade": g} for (q, d), g in people.items()]
    found = bakeoff(
        truth=str(folder / "panel.qrels"),
        runs=[str(folder / f"{name}.run") for name in "ab"],
        human=pd.DataFrame(rows),
        measures=["nDCG@5"],
        out=str(tmp_path / "out"),
        progress=None,
    )
    estimates = [row["estimate"] for row in found.comparisons]
    assert estimates == ["panel", "people", "corrected"]
    assert len([*found.leaderboard]) == 2
