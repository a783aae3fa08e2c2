"""A contest corrected by people's labels: its tables, its record, its gate."""

import json
from functools import partial
from pathlib import Path
from tempfile import mkdtemp

import numpy as np
import pandas as pd
import pytest

from tests.helpers.builders import rows_of
from tests.helpers.contests import framed, world
from zelo_ray import load_run
from zelo_ray.cli import main
from zelo_ray.command_options import LabelOptions
from zelo_ray.commands.label.run import open_queue
from zelo_ray.evaluation.people.corrected import correct_metrics
from zelo_ray.files.labels import PersonsAnswer, read_labels

SCALED = "gain@10 on the panel's scale"
GATE = ("--baseline", "b", "--margin", "0.01")


class Contest:
    """Run files against a panel's grades or scores, and people's grades of all documents."""

    def __init__(self, folder):
        self.folder, self.out = folder, folder / "out"
        self.people, truth, runs = world(queries=40, documents=12)
        panel = [
            (q, d, g) for n, q in enumerate(truth.query_ids) for d, g in truth.labels(n).items()
        ]
        lines = [f"{q} 0 {d} {grade:g}\n" for q, d, grade in panel]
        (folder / "panel.qrels").write_text("".join(lines))
        scores = pd.DataFrame(panel, columns=["query_id", "doc_id", "score"])
        scores.assign(score=scores.score - 1.55).to_parquet(folder / "scores.parquet")
        frames = {name: run.to_pandas() for name, run in runs.items()}
        one, places = frames["a"], np.arange(len(frames["a"]))
        frames["near"] = one.assign(score=one.score.where(one.query_id != "q1", -places))
        frames["c"] = one.assign(score=places * 7919 % 101)
        for name, frame in frames.items():
            table = frame.assign(Q0="Q0", rank=1, tag=name)
            columns = table[["query_id", "Q0", "doc_id", "rank", "score", "tag"]]
            columns.to_csv(folder / f"{name}.run", sep=" ", header=False, index=False)
        pools = {q: [] for q, _ in self.people}
        for q, d in self.people:
            pools[q].append({"id": d, "content": f"{q} {d}"})
        lines = [{"query": {"id": q, "query": "?"}, "documents": each} for q, each in pools.items()]
        (folder / "pools.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))

    def run(self, labels=None, *more, runs="ab", measures=("nDCG@10",), truth="panel.qrels"):
        """Run it; return the exit status, what it records of people, and of the gate."""
        files = [str(self.folder / f"{name}.run") for name in runs]
        words = ["bakeoff", "--truth", str(self.folder / truth), "--runs", *files]
        words += ["--measures", *measures, "--out", str(self.out)]
        human = () if labels is None else ("--human", str(labels))
        status = main([*words, *human, *more])
        people = json.loads((self.out / "run.json").read_text()).get("people")
        gate = rows_of(self.out, "gate") if (self.out / "gate.parquet").exists() else None
        return status, people, gate

    def figures(self, table="comparisons"):
        """The rows of a table by measure, estimate and ranker or rankers."""
        names = ("run",) if table == "means" else ("run_a", "run_b")
        rows = rows_of(self.out, table)
        return {(r["measure"], r["estimate"], *(r[n] for n in names)): r for r in rows}

    def write(self, rows):
        """A file of labels."""
        pd.DataFrame(rows).to_csv(self.folder / "labels.csv", index=False)
        return self.folder / "labels.csv"

    def labels(self, say=lambda grade: grade, only=lambda *_: True):
        """People's grades of the documents that are chosen, without chances."""
        rows = [(q, d, float(say(g))) for (q, d), g in self.people.items() if only(q, d)]
        return self.write(pd.DataFrame(rows, columns=["query_id", "doc_id", "grade"]))

    def drawn(self, labels, **columns):
        """People's grades of the documents that a draw for the contest gives."""
        out = Path(mkdtemp(dir=self.folder))
        rows = read_labels(str(self.sample(out, contest=str(self.out), labels=labels))).rows
        return self.write(rows.to_pandas().assign(**columns))

    def sample(self, out, say=lambda _: None, **options):
        """A sample of `label`, answered; return the directory."""
        pools = (str(self.folder / "pools.jsonl"),)
        with open_queue(LabelOptions(out=str(out), pools=pools, **options), say) as queue:
            ids = [task.ids for task in queue.tasks]
            grades = [PersonsAnswer("", "ann", each, self.people[each]) for each in ids]
            queue.answers.append(iter(grades))
        return out


@pytest.fixture(scope="module")
def contest(tmp_path_factory):
    return Contest(tmp_path_factory.mktemp("contest"))


@pytest.fixture(autouse=True)
def measured(contest):
    assert contest.run()[:2] == (0, None), "nothing of people is left of the test before"


def width(row):
    return row["high"] - row["low"]


def test_drawn_labels_correct_what_is_linear(contest):
    measures = ("nDCG@10", "P(rel=2)@10", "AP", "P(rel=2)@30")
    _, told, _ = contest.run(contest.drawn(80, person="ann"), measures=measures)
    assert (told["design"], told["labels"], told["persons"], told["leader"]) == (
        "drawn",
        80,
        1,
        "a",
    )
    assert {*told["left_out"]} == {"AP", "Pairs", "P(rel=2)@10", "P(rel=2)@30"}
    by = contest.figures()
    names = ("graded", "people", "corrected")
    own = {(SCALED, name, "a", "b") for name in names}
    assert {*by} == own | {(measure, "panel", "a", "b") for measure in measures}
    graded, people, corrected = (by[SCALED, name, "a", "b"] for name in names)
    assert corrected["low"] < corrected["difference"] < corrected["high"]
    assert corrected["p"] < 0.05
    assert width(corrected) < width(people)
    assert graded["difference"] == pytest.approx(by["nDCG@10", "panel", "a", "b"]["difference"])
    *_, means, shown = load_run(contest.out).report.section("people").parts
    figures = (corrected["difference"], graded["difference"], people["difference"])
    assert tuple(shown.rows[0][place].value for place in (3, 5, 6)) == figures
    assert means.rows[0][1] == contest.figures("means")[SCALED, "corrected", "a"]["mean"]


def test_a_sample_corrects_and_grows(contest, tmp_path):
    """It knows what could be drawn, so that it corrects other measures of as many documents."""
    widths, measures = [], ("nDCG@10", "P(rel=2)@10", "P(rel=2)@30")
    for options in ({"contest": str(contest.out), "labels": 60}, {"more": 40}):
        labels = contest.sample(tmp_path / "labels", **options)
        _, told, _ = contest.run(labels, measures=measures)
        assert {*told["left_out"]} == {"P(rel=2)@30", "Pairs"}
        widths.append(width(contest.figures()[SCALED, "corrected", "a", "b"]))
    assert widths[1] < widths[0]
    assert (told["labels"], told["stages"]) == (100, 2)


@pytest.mark.parametrize("truth", ["panel.qrels", "scores.parquet"])
def test_all_labels_give_peoples_own_figures(contest, truth):
    measures, labels = ("nDCG@10", "nDCG@3", "Grade@5", "P(rel=2)@5"), contest.labels()
    tables = {"means": ("mean",), "comparisons": ("mean_a", "mean_b", "difference")}
    contest.run(measures=measures, truth=labels.name)
    own = {name: contest.figures(name) for name in tables}
    _, told, _ = contest.run(labels, measures=measures, truth=truth)
    assert told["design"] == "complete"
    beside_scores = truth == "scores.parquet"
    for table, columns in tables.items():
        found = contest.figures(table)
        rows = {key: row for key, row in found.items() if key[1] == "corrected"}
        assert {key[0] for key in rows} == {*measures[: 3 if beside_scores else 4]}
        for (measure, _, *rankers), row in rows.items():
            values = own[table][measure, "panel", *rankers]
            for column in columns:
                assert row[column] == pytest.approx(values[column], abs=1e-9)
    if beside_scores:
        assert 0 < found["Grade@5", "graded", "a", "b"]["mean_a"] < 3, "the panel's, as grades"
    contest.run(contest.labels(only=lambda _, d: d != "d0"), measures=measures, truth=truth)
    named = {measure for measure, estimate, _ in contest.figures("means") if estimate != "panel"}
    assert not named & {"nDCG@10", "nDCG@3"}, "people's own ideal takes every label"


def test_the_panel_joins_by_the_corrected_measure(contest):
    alone = contest.figures("means")
    status, told, [gate] = contest.run(contest.drawn(80), *GATE, measures=["AP"])
    assert told["on_panel_scale"] == {SCALED: "nDCG@10"}
    assert (status, gate["verdict"]) == (3, "not enough data"), "the gate is by AP"
    means = contest.figures("means")
    for name in "ab":
        of_panel = alone["nDCG@10", "panel", name]["mean"]
        assert means[SCALED, "graded", name]["mean"] == pytest.approx(of_panel)


def test_whole_queries_are_taken_as_drawn(contest):
    own = {f"q{q}" for q in range(0, 40, 3)}
    _, told, _ = contest.run(contest.labels(only=lambda q, _: q in own))
    assert (told["design"], told["queries"]) == ("queries", 14)
    frame, said, _ = framed("nDCG@10", queries=40, documents=12)
    gain = np.where(frame.query % 3 == 0, frame.linear.gains(said), np.nan)
    one, other = correct_metrics(frame, gain, np.full(len(gain), 14 / 40), whole_queries=True)
    found = contest.figures()[SCALED, "corrected", "a", "b"]["difference"]
    assert found == pytest.approx((one - other).mean())


REFUSED = {
    "some of each query": lambda c: c.labels(only=lambda _, d: d < "d4"),
    "too few": lambda c: c.drawn(29),
    "chances that cannot be": lambda c: c.drawn(80, probability=0.9),
    "other documents": lambda c: c.write([{"query_id": "x", "doc_id": "d0", "grade": 1}]),
    "two grades of four": lambda c: c.labels(partial(min, 1)),
    "scores of people": lambda c: c.labels(lambda grade: grade * 3.3),
    "two grades": lambda c: c.labels(lambda grade: grade >= 2),
}


def test_few_deciding_labels_leave_close_rankers_open(contest):
    """A third ranker takes the labels; of two that are close they tell nothing."""
    arms, words = ("a", "near", "b"), ("--baseline", "near", "--margin", "0.05")
    contest.run(runs=arms)
    status, _, gate = contest.run(contest.drawn(80), *words, runs=arms)
    assert (status, *(each["verdict"] for each in gate)) == (4, "not enough data", "worse")
    rows = contest.figures()
    unknown, known = (rows[SCALED, "corrected", "a", other]["p"] for other in ("near", "b"))
    assert np.isnan(unknown)
    assert known < 0.05


def test_documents_without_an_answer_are_missing_by_chance(contest):
    """The others stand for more: else their chances would not fit."""
    rows = pd.read_csv(contest.drawn(160))
    rows.loc[rows.index % 3 > 0, "grade"] = np.nan
    _, told, _ = contest.run(contest.write(rows))
    assert (told["design"], told["labels"], told["cannot_say"]) == ("drawn", 54, 106)


@pytest.mark.parametrize("case", REFUSED)
def test_labels_that_cannot_correct_change_nothing(contest, case):
    truth = "panel.qrels" if len(REFUSED) - [*REFUSED].index(case) > 2 else "scores.parquet"
    status, told, [gate] = contest.run(REFUSED[case](contest), *GATE, truth=truth)
    assert (status, told["design"], bool(told["refused"])) == (3, None, True)
    assert {row["estimate"] for row in rows_of(contest.out, "comparisons")} == {"panel"}
    assert (gate["verdict"], gate["estimate"]) == ("not enough data", "corrected")


def test_people_correct_the_gate(contest):
    status, _, [gate] = contest.run(None, *GATE)
    assert (status, gate["verdict"], gate["estimate"]) == (0, "better", "panel")
    status, _, [gate] = contest.run(contest.labels(lambda grade: 3 - grade), *GATE)
    assert (status, gate["verdict"], gate["estimate"]) == (4, "worse", "corrected")
