"""The page of ``agree``: who is close to people, who to whom, and how each judge errs."""

import json

import numpy as np
import pyarrow.parquet as pq
import pytest
from sklearn.metrics import confusion_matrix

from tests.test_report import page_of
from zelo_ray import cli
from zelo_ray.commands.agree.report import AGREE_REPORT
from zelo_ray.commands.report import write_report

QUERIES, DOCUMENTS = 8, 10
RUNS = ("first", "second", "third")


def write_qrels(path, grades):
    lines = [f"q{i // DOCUMENTS} 0 d{i} {grade}\n" for i, grade in enumerate(grades)]
    path.write_text("".join(lines))
    return path


def agree(folder, *words, judges=(("good", 0.2), ("fair", 0.5), ("poor", 0.9)), human=True):
    """Let ``agree`` measure judges that err on so many documents; return what they graded."""
    rng = np.random.default_rng(4)
    truth = rng.integers(0, 4, QUERIES * DOCUMENTS)
    grades = {"human": truth}
    (folder / "judges").mkdir(parents=True)
    for name, noise in judges:
        grades[name] = np.where(
            rng.random(len(truth)) < noise, rng.integers(0, 4, len(truth)), truth
        )
        write_qrels(folder / "judges" / f"{name}.txt", grades[name])
    people = ["--human", write_qrels(folder / "people.qrels", truth)] if human else []
    given = [folder / "judges", *people, *words, "--resamples", 100, "--out", folder / "out"]
    assert cli.main(["agree", *map(str, given)]) == 0
    return grades


def write_runs(folder):
    """Runs that order documents by their number, and ever more of them at random."""
    rng = np.random.default_rng(1)
    paths = []
    for place, name in enumerate(RUNS):
        lines = [
            f"q{i // DOCUMENTS} Q0 d{i} 1 {(i % DOCUMENTS) + place * 5 * rng.random():.4f} {name}\n"
            for i in range(QUERIES * DOCUMENTS)
        ]
        paths.append(folder / f"{name}.run")
        paths[-1].write_text("".join(lines))
    return paths


def test_the_answer_comes_first(tmp_path):
    agree(tmp_path)
    page = page_of(tmp_path / "out")
    rows = pq.read_table(tmp_path / "out/agreement.parquet").to_pylist()
    [best] = [
        row
        for row in rows
        if {row["rater_a"], row["rater_b"]} == {"human", "good"}
        and (row["scale"], row["coefficient"]) == ("0-3", "kappa-quadratic")
    ]
    name, value = AGREE_REPORT.read(str(tmp_path / "out")).tiles[0]
    assert name == "kappa-quadratic of good"
    assert (value.value, value.low, value.high) == tuple(best[n] for n in ("value", "low", "high"))
    assert "Closest to people is good; farthest is poor" in page.words()
    assert list(page.sections)[1:] == [
        *("people", "panel", "between", "confusion", "consensus", "grading"),
    ]


def test_judges_stand_by_each_coefficient_and_scale(tmp_path):
    agree(tmp_path)
    page = page_of(tmp_path / "out")
    figures = {tuple(names): figure for names, figure in page.chart("people", 0)}
    rows = pq.read_table(tmp_path / "out/agreement.parquet").to_pylist()
    of_two = {(r["coefficient"], r["scale"]) for r in rows if r["rater_a"] == "human"}
    assert set(figures) == of_two
    assert next(iter(figures)) == ("kappa-quadratic", "0-3")
    for (coefficient, scale), figure in figures.items():
        values = {
            r["rater_b"]: r["value"]
            for r in rows
            if (r["rater_a"], r["coefficient"], r["scale"]) == ("human", coefficient, scale)
        }
        names = figure["layout"]["yaxis"]["ticktext"]
        assert names == sorted(values, key=lambda name: -values[name])
        assert np.allclose(figure["data"][0]["x"], [values[name] for name in names])
    names, figure = page.chart("between", 0)[0]
    assert names == ["kappa-quadratic", "0-3"]
    z = np.array(figure["data"][0]["z"], dtype=float)
    assert np.allclose(z, z.T, equal_nan=True)
    assert np.isnan(np.diag(z)).all()
    assert figure["layout"]["yaxis"]["ticktext"] == ["human", "good", "fair", "poor"]
    assert [scale for scale, _ in page.chart("panel", 0)] == ["0-3", ">=1", ">=2", ">=3"]


def test_grades_of_people_meet_those_of_a_judge(tmp_path):
    grades = agree(tmp_path)
    figures = dict(page_of(tmp_path / "out").chart("confusion", 0))
    assert list(figures) == ["good", "fair", "poor"]
    for name, figure in figures.items():
        table = confusion_matrix(grades["human"], grades[name])
        assert figure["data"][0]["text"] == [[str(n) for n in row] for row in table]
        assert np.allclose(figure["data"][0]["z"], table / table.sum(axis=1, keepdims=True))
        assert figure["layout"]["xaxis"]["title"]["text"] == f"grade of {name}"


def test_without_people_judges_stand_beside_each_other(tmp_path):
    agree(tmp_path, human=False)
    page = page_of(tmp_path / "out")
    assert "people" not in page.sections
    assert "people" not in page.words("")
    names = [name for name, _ in page.chart("confusion", 0)]
    assert sorted(names) == ["fair and good", "fair and poor", "good and poor"]


@pytest.mark.slow
def test_thirty_three_judges_fit_on_a_page(tmp_path):
    agree(tmp_path, judges=[(f"judge-{i:02}", i / 33) for i in range(33)])
    page = page_of(tmp_path / "out")
    assert (tmp_path / "out/report.html").stat().st_size < 8_000_000
    assert len(page.chart("people", 0)[0][1]["data"][0]["x"]) == 33
    shown = page.chart("between", 0)[0][1]
    assert len(shown["data"][0]["z"]) == 34
    assert not shown["layout"]["xaxis"]["showticklabels"]


def test_the_order_of_systems_is_there_where_runs_were_given(tmp_path):
    agree(tmp_path, "--runs", *write_runs(tmp_path))
    page = page_of(tmp_path / "out")
    head, *rows = page.table("systems")
    assert head[:3] == ["labels of", "tau-b", "tau-AP"]
    assert {row[0] for row in rows} == {"good", "fair", "poor", "all judges"}
    boards = dict(page.chart("systems", 1))
    assert set(boards) == {"good", "fair", "poor", "all judges"}
    means = {
        row["run"]: row["mean"]
        for row in pq.read_table(tmp_path / "out/leaderboards.parquet").to_pylist()
        if row["rater"] == "human"
    }
    order = sorted(means, key=lambda run: -means[run])
    left = boards["good"]["layout"]["yaxis"]["ticktext"]
    assert left == [f"{rank} {run}" for rank, run in enumerate(order, 1)]


def test_without_people_orders_are_held_against_those_of_the_other_judges(tmp_path):
    agree(tmp_path, "--runs", *write_runs(tmp_path), human=False)
    page = page_of(tmp_path / "out")
    assert {row[0] for row in page.table("systems")[1:]} == {"good", "fair", "poor"}
    boards = dict(page.chart("systems", 1))
    assert set(boards) == {"good", "fair", "poor"}
    assert boards["good"]["layout"]["xaxis"]["ticktext"] == ["all judges", "good"]


def test_votes_alone_have_a_page_without_coefficients_of_grades(tmp_path):
    votes = [
        {
            "query_id": f"q{i % 6}",
            "doc_id_a": f"d{i}",
            "doc_id_b": f"e{i}",
            "judge": judge,
            "preference": 0.5 if (i + place) % 3 else -0.5,
            "swapped": bool(i % 2),
        }
        for i in range(30)
        for place, judge in enumerate(("one", "two"))
    ]
    (tmp_path / "votes.jsonl").write_text("".join(json.dumps(vote) + "\n" for vote in votes))
    words = ("agree", tmp_path / "votes.jsonl", "--resamples", 100, "--out", tmp_path / "out")
    assert cli.main([*map(str, words)]) == 0
    page = page_of(tmp_path / "out")
    assert list(page.sections)[1:] == ["voting"]
    assert "votes of judges" in page.words()
    figures = {tuple(names): figure for names, figure in page.chart("voting", -1)}
    share = figures["agreement", "with ties"]["data"][0]["z"][0][1]
    same = [(i % 3 > 0) == ((i + 1) % 3 > 0) for i in range(30)]
    assert share == pytest.approx(np.mean(same), abs=1e-4)


def test_the_page_can_be_written_anew(tmp_path):
    agree(tmp_path)
    first = (tmp_path / "out/report.html").read_bytes()
    write_report(str(tmp_path / "out"))
    assert (tmp_path / "out/report.html").read_bytes() == first
