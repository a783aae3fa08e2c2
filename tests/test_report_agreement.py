"""The page of ``agree``: who is close to people, who to whom, and how each judge errs."""

import json

import numpy as np
import pytest

from tests.builders import set_in_file
from tests.test_report import page_of
from zelo_ray import cli
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
    given = [
        folder / "judges",
        *people,
        *words,
        *set_in_file(resamples=100),
        "--out",
        folder / "out",
    ]
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


def test_thirty_three_judges_fit_on_a_page(tmp_path):
    agree(tmp_path, judges=[(f"judge-{i:02}", i / 33) for i in range(33)])
    page = page_of(tmp_path / "out")
    assert (tmp_path / "out/report.html").stat().st_size < 8_000_000
    assert len(page.chart("people", 0)[0][1]["data"][0]["x"]) == 33
    shown = page.chart("between", 0)[0][1]
    assert len(shown["data"][0]["z"]) == 34
    assert not shown["layout"]["xaxis"]["showticklabels"]


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
    words = (
        "agree",
        tmp_path / "votes.jsonl",
        *set_in_file(resamples=100),
        "--out",
        tmp_path / "out",
    )
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
