"""People's labels: which documents are drawn, what they correct, and what more would bring."""

import csv
import json
import math
from dataclasses import replace
from functools import partial
from itertools import pairwise
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from tests.builders import rows_of
from zelo_ray import bakeoff
from zelo_ray.cli import main
from zelo_ray.commands.bakeoff.labelled import Labelled, _with_way
from zelo_ray.commands.label.candidates import candidates
from zelo_ray.errors import MeasureError
from zelo_ray.evaluation.measures import MEASURES, Truth, evaluate, parse_measure, rank
from zelo_ray.evaluation.people.corrected import FEWEST, by_panel, corrected, foretold, people_alone
from zelo_ray.evaluation.people.design import inclusion, priorities, threshold_of
from zelo_ray.evaluation.people.frame import frame_of, panel_grades, sizes
from zelo_ray.evaluation.people.measures import for_people
from zelo_ray.evaluation.people.outlook import outlook, threshold_for
from zelo_ray.evaluation.people.tested import student
from zelo_ray.formats.labels import PeoplesLabels, read_labels

LINEAR = ("nDCG@5", "nDCG@3", "nDCG(dcg='exp-log2')@5", "P(rel=2)@4", "RBP(rel=1)@5", "Grade@5")


def table(value, columns):
    return pa.table(dict(zip((*("query_id", "doc_id"), value), map(list, columns), strict=True)))


def world(seed=0, queries=12, documents=9, error=0.8, best=(0, 4)):
    """People's grades, a panel's, and two runs, one of them the better one."""
    rng = np.random.default_rng(seed)
    people, panel, runs = {}, [], {"a": [], "b": []}
    for q in range(queries):
        for d in range(documents):
            ids = (f"q{q}", f"d{d}")
            people[ids] = float(rng.integers(*best))
            wrong = round(people[ids] + rng.normal(0, error) + 0.4)
            if d < documents - 1:  # the last one was judged by nobody
                panel.append((*ids, float(min(3, max(0, wrong)))))
            for name, noise in (("a", 0.8), ("b", 2.0)):
                if rng.random() < 0.9:
                    score = round(people[ids] + rng.normal(0, noise), 1)  # ties, too
                    runs[name].append((*ids, score))
    truth = Truth(table("relevance", zip(*panel, strict=True)))
    return people, truth, {n: table("score", zip(*r, strict=True)) for n, r in runs.items()}


def framed(name="nDCG@5", ties="trec", **how):
    people, truth, runs = world(**how)
    rankings = {arm: rank(truth, run, ties=ties) for arm, run in runs.items()}
    frame = frame_of(parse_measure(name), rankings)
    ids = zip((frame.query_ids[q] for q in frame.query), frame.doc_ids, strict=True)
    return frame, np.array([people[pair] for pair in ids]), rankings


@pytest.mark.parametrize("name", LINEAR)
@pytest.mark.parametrize("ties", ["trec", "expected"])
def test_by_the_panel_alone_a_metric_is_what_it_always_was(name, ties):
    frame, _, rankings = framed(name, ties)
    for arm, found in zip(rankings.values(), by_panel(frame), strict=True):
        expected = evaluate([parse_measure(name)], arm)[0]
        np.testing.assert_allclose(found, expected, atol=1e-11)


@pytest.mark.parametrize("name", LINEAR)
def test_with_every_label_it_is_the_people_that_count(name):
    """Whatever the panel says, but for the ideal of nDCG, which is the panel's."""
    frame, said, _ = framed(name)
    gain = frame.linear.gains(said)
    expected = frame.by_query(frame.weight * gain)
    for estimate in (corrected, people_alone):
        np.testing.assert_allclose(estimate(frame, gain, np.ones(len(gain))), expected, atol=1e-12)


def test_a_panel_without_relevant_documents_does_not_make_one_label_worth_all():
    rows = [("q", "d1", 0.0), ("q", "d2", 0.0)]
    truth = Truth(table("relevance", zip(*rows, strict=True)))
    run = table("score", [["q", "q"], ["d1", "d2"], [2.0, 1.0]])
    frame = frame_of(parse_measure("nDCG@10"), {"a": rank(truth, run)})
    assert by_panel(frame).tolist() == [[0.0]]
    assert people_alone(frame, np.array([3.0, 0.0]), np.ones(2)) == pytest.approx(3.0)


def test_scores_of_a_panel_are_chances_on_the_scale_of_grades():
    rows = [("q", "a", -40.0), ("q", "b", 0.0), ("q", "c", 40.0), ("q", "d", 0.5)]
    found = panel_grades(Truth(table("relevance", zip(*rows, strict=True))))
    assert found == pytest.approx([0.0, 1.5, 3.0, 3 / (1 + math.exp(-0.5))])


def test_measures_that_people_can_correct():
    every = ("nDCG@10", "AP", "RR@10", "R@5", "P@5", "Pairs", "Judged@10")
    chosen, left_out = for_people(map(parse_measure, every))
    assert [*map(str, chosen)] == ["nDCG@10", "P@5"]
    assert set(left_out) == {"AP", "RR@10", "R@5", "Pairs"}
    assert [*map(str, for_people([parse_measure("nDCG(dcg='zelo')@20")])[0])] == ["nDCG@20"]
    assert [*map(str, for_people([parse_measure("Tau")])[0])] == ["nDCG@10"]
    with pytest.raises(MeasureError, match=r"AP is not linear.*nDCG, P, RBP, Grade"):
        frame_of(parse_measure("AP"), framed()[2])
    assert {parse_measure(text).name for text in LINEAR} <= set(MEASURES)


# --- the draw


def ids_of(frame):
    return [frame.query_ids[q] for q in frame.query], frame.doc_ids


def test_samples_are_of_just_so_many_and_hold_each_other():
    frame, _, _ = framed(queries=30)
    size = sizes(frame)
    order = priorities(*ids_of(frame), size, 7)
    assert (order > 0).sum() == (size > 0).sum() < len(size)  # what both rank alike is not drawn
    samples = [order > threshold_of(order, n) for n in (1, 10, 50, 80, 10_000)]
    assert [each.sum() for each in samples] == [1, 10, 50, 80, (size > 0).sum()]
    assert all((large | ~small).all() for small, large in pairwise(samples))
    again = priorities(*ids_of(frame), size, 7)
    assert (order == again).all()
    assert (order != priorities(*ids_of(frame), size, 8)).any()


def test_a_document_has_the_same_chance_in_every_frame():
    one = priorities(["q1", "q2"], ["d", "e"], np.ones(2), 0)
    other = priorities(["q2", "q9", "q1"], ["e", "x", "d"], np.ones(3), 0)
    assert one.tolist() == other[[2, 0]].tolist()
    # and ids that run into each other are not taken for one
    assert len(set(priorities(["a:b", "a", "1:a"], ["c", "b:c", ""], np.ones(3), 0))) == 3


def test_weights_over_the_probabilities_give_sums_without_bias():
    rng = np.random.default_rng(1)
    size = rng.exponential(size=60) + 0.05
    value = size * rng.normal(1, 0.5, 60)
    found = []
    for seed in range(4000):
        order = priorities(["q"] * 60, map(str, range(60)), size, seed)
        threshold = threshold_of(order, 15)
        known = order > threshold
        found.append((value[known] / inclusion(size, threshold)[known]).sum())
    error = np.std(found) / math.sqrt(len(found))
    assert abs(np.mean(found) - value.sum()) < 3 * error


def test_more_is_drawn_where_a_label_moves_more_and_nothing_that_counts_is_out_of_reach():
    frame, _, _ = framed(queries=30)
    size, apart = sizes(frame), np.ptp(frame.weight, axis=0)
    assert ((size > 0) == (apart > 0)).all()
    assert size[size > 0].min() >= 0.25 * apart[apart > 0].mean() - 1e-12
    large = apart > np.median(apart)
    assert (size[large] >= apart[large]).all()


def test_an_arm_that_did_not_answer_a_query_decides_nothing_there():
    frame, _, _ = framed()
    answered = frame.answered.copy()
    answered[1, 0] = False
    assert not sizes(replace(frame, answered=answered))[frame.query == 0].any()


# --- the estimate


PPI = json.loads((Path(__file__).parent / "golden" / "ppi_mean.json").read_text())


@pytest.mark.parametrize("case", PPI, ids=lambda case: f"{len(case['labelled'])} labels")
def test_the_plain_estimator_is_that_of_ppi_py(case):
    """One document a query, all drawn with one probability, and no map to learn.

    Made by ``ppi_mean_pointestimate(said, panel[labelled], panel, lam=1)`` of ppi_py 0.2.3. It is
    no test dependency, since it installs a package ``tests`` that hides this one.
    """
    panel, queries = case["panel"], len(case["panel"])
    ids = [f"q{q}" for q in range(queries)]
    truth = Truth(table("relevance", [ids, ["d"] * queries, panel]))
    run = table("score", [ids, ["d"] * queries, [1.0] * queries])
    frame = frame_of(parse_measure("Grade@1"), {"a": rank(truth, run)})
    gain = np.full(queries, np.nan)
    gain[case["labelled"]] = case["said"]
    chance = np.full(queries, len(case["labelled"]) / queries)
    found = corrected(frame, gain, chance).mean()
    assert found == pytest.approx(case["mean"], abs=1e-12)


@pytest.mark.parametrize(("labels", "error"), [(20, 0.5), (60, 0.5), (60, 1.5)])
def test_intervals_hold_what_people_would_say(labels, error):
    """Over other queries and draws; nominal .95, of 500: .93 to .97 within two errors."""
    frame, said, _ = framed(queries=60, documents=12, error=error)
    wanted = frame.by_query(frame.weight * said)
    starts = np.searchsorted(frame.query, np.arange(61))
    rng = np.random.default_rng(5)
    rows = []
    for _ in range(500):
        chosen = rng.integers(0, 60, 60)
        at = np.concatenate([np.arange(starts[q], starts[q + 1]) for q in chosen])
        query = np.repeat(np.arange(60), np.diff(starts)[chosen])
        sample = replace(frame, query=query, weight=frame.weight[:, at], panel=frame.panel[at])
        size = sizes(sample)
        order = size / (1 - rng.random(len(size)))
        threshold = threshold_of(order, labels)
        gain = np.where(order > threshold, said[at], np.nan)
        one, other = corrected(sample, gain, inclusion(size, threshold))
        rows.append(one - other)
    low, high, _, _ = student(np.array(rows), 60, 0.95)
    true = (wanted[0] - wanted[1]).mean()
    assert 0.93 <= ((low <= true) & (true <= high)).mean() <= 0.975


def test_labels_of_people_who_like_a_query_better_narrow_the_others_of_it():
    """What the panel cannot know: in half of the queries all documents are one grade better."""
    frame, said, _ = framed(queries=60, documents=12, error=0.3, best=(0, 3))
    said = said + (frame.query % 2)
    size, rng = sizes(frame), np.random.default_rng(2)
    spread = {True: [], False: []}
    for _ in range(60):
        order = size / (1 - rng.random(len(size)))
        threshold = threshold_of(order, 250)
        gain = np.where(order > threshold, said, np.nan)
        for apart, found in spread.items():
            one, other = corrected(frame, gain, inclusion(size, threshold), whole_queries=apart)
            found.append((one - other).mean())
    assert np.std(spread[False]) < 0.9 * np.std(spread[True])


def test_queries_that_people_grade_alike_throughout_leave_nothing_undefined():
    """No scatter within a query: one label of it tells of all others, and of none where alone."""
    frame, _, _ = framed(queries=20, documents=12, error=0.5)
    gain = np.where(np.arange(len(frame.query)) % 3 > 0, 1.0 + frame.query % 2, np.nan)
    gain[frame.query == 4] = np.nan
    gain[np.flatnonzero(frame.query == 4)[0]] = 2.0
    frame = replace(frame, panel=np.ones(len(gain)))
    told = foretold(frame, gain)
    assert np.isfinite(told).all()
    several = frame.query != 4
    assert told[several] == pytest.approx((1.0 + frame.query % 2)[several], abs=0.02)


# --- what more labels would bring


def test_as_many_are_expected_above_the_threshold():
    size = np.append(np.random.default_rng(0).exponential(size=200) ** 2, [0.0, 0.0, 40.0])
    for labels in (1, 2, 50, 199, 200):
        assert inclusion(size, threshold_for(size, labels)).sum() == pytest.approx(labels)
    assert threshold_for(size, 201) == 0.0


def test_the_error_with_more_labels_is_foretold():
    frame, said, _ = framed(queries=60, documents=12, error=1.0)
    size, rng = sizes(frame), np.random.default_rng(2)

    def drawn(labels):
        order = size / (1 - rng.random(len(size)))
        threshold = threshold_of(order, labels)
        return np.where(order > threshold, said, np.nan), inclusion(size, threshold)

    def difference(gain, chance):
        one, other = corrected(frame, gain, chance)
        return one - other

    aim = math.sqrt(np.mean([difference(*drawn(200)).var(ddof=1) / 60 for _ in range(40)]))
    told, least = [], []
    for _ in range(40):
        gain, chance = drawn(100)
        apart = frame.weight[0] - frame.weight[1]
        rest = apart * (gain - foretold(frame, gain))
        guess = frame.by_query((apart * foretold(frame, gain))[np.newaxis])[0]
        found = outlook(difference(gain, chance), rest, chance, size, told=guess, aim=aim)
        told.append(found.labels if found.labels is not None else np.inf)
        least.append(found.least)
    assert 50 <= np.median(told) <= 200  # in truth 100 more
    everything = difference(said, np.ones(len(said))).std(ddof=1) / math.sqrt(60)
    assert np.median(least) == pytest.approx(everything, rel=0.45)
    assert found.most == (size > 0).sum()


def by_panel_gain(frame):
    return frame.linear.gains(np.nan_to_num(frame.panel))


def test_what_no_label_can_settle_and_what_needs_none():
    values = np.random.default_rng(0).normal(0.1, 1.0, 50)
    rest = np.full(300, np.nan)
    rest[:31] = 0.1
    ones = np.ones(300)
    size = np.where(np.arange(300) == 30, 0.0, 1.0)  # of one that all arms rank alike by now
    some = partial(outlook, values, rest, ones * 0.1, size, told=values)
    assert (some(aim=0.01).labels, some(aim=0.01).never) == (None, True)
    assert some(aim=0.5).labels == 0
    # one way says that labels would do, and the other that they would not
    unsure = outlook(values, rest, ones * 0.1, size, told=values / 100, aim=0.05)
    assert (unsure.labels, unsure.never) == (None, False)


# --- the command


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


def run_it(folder, *more, runs=("a", "b")):
    files = [str(folder / f"{name}.run") for name in runs]
    words = ["bakeoff", "--truth", str(folder / "panel.qrels"), "--runs", *files]
    words += ["--measures", "nDCG@10", "P(rel=2)@10", "AP", "P(rel=2)@30", "--resamples", "500"]
    return main([*words, "--out", str(folder / "out"), *more])


def drawn_labels(folder, people, labels, **columns):
    """The file of labels that a draw for the contest gives."""
    found = candidates(str(folder / "out"))
    order = priorities(found.query_ids, found.doc_ids, found.size, 1)
    threshold = threshold_of(order, labels)
    chance = inclusion(found.size, threshold)
    ids = zip(found.query_ids, found.doc_ids, strict=True)
    rows = [
        {"query_id": q, "doc_id": d, "grade": people[q, d], "probability": p, **columns}
        for (q, d), one, p in zip(ids, order, chance, strict=True)
        if one > threshold
    ]
    return written(folder / f"labels-{labels}.csv", rows)


def written(path, rows):
    with path.open("w", newline="") as file:
        out = csv.DictWriter(file, rows[0])
        out.writeheader()
        out.writerows(rows)
    return str(path)


def test_labels_correct_a_contest_in_terminal_tables_and_page(contest, capsys):
    folder, people = contest
    labels = drawn_labels(folder, people, 80, person="ann")
    assert run_it(folder, "--human", labels) == 0
    shown = capsys.readouterr().out
    assert "1 person labelled 80 documents, drawn by chance" in shown
    assert "corrected by people" in shown
    assert "beats b by +" in shown or "cannot be told apart: +" in shown
    assert "the panel said +" in shown
    assert "Not corrected: AP: it is not linear in the labels." in shown
    assert "P(rel=2)@30: the labels do not tell what else could be drawn." in shown
    rows = rows_of(folder / "out", "comparisons")
    by = {(row["measure"], row["estimate"]): row for row in rows}
    assert set(by) == {(m, "panel") for m in ("nDCG@10", "P(rel=2)@10", "AP", "P(rel=2)@30")} | {
        ("nDCG@10", "people"),
        ("nDCG@10", "corrected"),
    }
    full = by["nDCG@10", "corrected"]
    assert full["low"] < full["difference"] < full["high"]
    alone = by["nDCG@10", "people"]
    assert full["high"] - full["low"] < alone["high"] - alone["low"]
    told = json.loads((folder / "out" / "run.json").read_text())["summary"]["people"]
    assert told["way"] == "drawn"
    assert told["labels"] == 80
    page = (folder / "out" / "report.html").read_text()
    assert "What people&#39;s labels change" in page
    assert "1 person labelled 80 documents" in page
    means_of = {(r["run"], r["measure"], r["estimate"]) for r in rows_of(folder / "out", "means")}
    assert ("a", "nDCG@10", "corrected") in means_of


def test_a_sample_of_label_corrects_a_contest_and_grows(contest, tmp_path, capsys):
    """As a team uses it: draw, send out a spreadsheet, take it in, correct, draw more."""
    folder, people = contest
    pools = tmp_path / "pools.jsonl"
    with pools.open("w") as file:
        for query_id in sorted({query_id for query_id, _ in people}):
            documents = [{"id": d, "content": f"{q} {d}"} for q, d in people if q == query_id]
            pool = {"query": {"id": query_id, "query": "?"}, "documents": documents}
            file.write(json.dumps(pool) + "\n")
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
        full = by["nDCG@10", "corrected"]
        widths.append(full["high"] - full["low"])
    assert said == [60, 40]
    assert widths[1] < widths[0]
    shown = capsys.readouterr().out
    assert "Not corrected: P(rel=2)@30: " in shown
    assert "The sample was made larger 1 time: an interval holds" in shown
    assert ("P(rel=2)@10", "corrected") in by


def test_all_labels_give_what_people_say_and_need_no_probability(contest, capsys):
    folder, people = contest
    rows = [{"query_id": q, "doc_id": d, "grade": g} for (q, d), g in people.items()]
    assert run_it(folder, "--human", written(folder / "all.csv", rows)) == 0
    assert "which are all that tell the arms apart" in capsys.readouterr().out
    by = {(r["measure"], r["estimate"]): r for r in rows_of(folder / "out", "comparisons")}
    one, other = by["P(rel=2)@10", "people"], by["P(rel=2)@10", "corrected"]
    assert one["difference"] == pytest.approx(other["difference"])
    assert one["p"] == other["p"]


def test_whole_queries_are_used_and_said_to_be_drawn(contest, capsys):
    folder, people = contest
    own = {f"q{q}" for q in range(0, 40, 3)}
    rows = [{"query_id": q, "doc_id": d, "grade": g} for (q, d), g in people.items() if q in own]
    assert run_it(folder, "--human", written(folder / "whole.csv", rows)) == 0
    assert "all that tell the arms apart in 14 queries, which are taken as drawn" in (
        capsys.readouterr().out
    )


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
    assert "without the probabilities with which they were drawn" in shown
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
    assert "the probabilities do not fit these arms" in capsys.readouterr().out


def test_labels_of_other_documents_and_a_contest_of_one_arm(contest, tmp_path, capsys):
    folder, people = contest
    (tmp_path / "labels.csv").write_text("query_id,doc_id,grade\nother,d0,1\n")
    assert run_it(folder, "--human", str(tmp_path / "labels.csv")) == 0
    assert "is among the first of any arm." in capsys.readouterr().out
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
    found = candidates(str(folder / "out"))
    rows = read_labels(drawn_labels(folder, people, 60)).rows
    frame, said, rankings = framed("nDCG@10", queries=40, documents=12)
    known = np.where(frame.query < 6, said, np.nan)
    some = Labelled(frame, sizes(frame), known, np.ones(len(said)))
    assert (~np.isnan(known)).sum() >= FEWEST
    columns = [found.query_ids, found.doc_ids, found.size]
    could = pa.table(columns, names=["query_id", "doc_id", "size"])
    could = could.filter(pa.array(found.size > 0))
    for left, way in ((0, "drawn"), (9, None)):
        labels = PeoplesLabels(rows, drawn=True, top=3, frame=could.slice(left))
        got = _with_way(some, labels, [*rankings])
        assert got.way == way
    assert got.refused.startswith("9 documents among the first of ")
    assert "could not be drawn: the labels were drawn for other arms" in got.refused


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
    assert "people's labels say nothing: 20 documents are labelled" in shown
    assert run_it(folder, "--baseline", "b") == 0
    page = (folder / "out" / "report.html").read_text()
    assert "corrected by people" not in page
    assert run_it(folder, *words[:2], "--human", drawn_labels(folder, people, 150)) in (0, 3)
    assert ", corrected by people, with a margin" in (folder / "out" / "report.html").read_text()


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
    assert "Of 32 documents people could not say" in shown
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
    assert len([*found.standings]) == 2
