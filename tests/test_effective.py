"""How many judges that err apart a panel is worth."""

import numpy as np
import pytest

from tests.test_report import page_of
from tests.test_report_graded import write_graded
from zelo_ray.commands.report import write_report
from zelo_ray.families import families_of
from zelo_ray.fitting.calibration import Ratings
from zelo_ray.fitting.effective_judges import (
    bound_effective_number,
    effective_number,
    effective_number_by_people,
    grade_correlation,
)

GPT, CLAUDE, GEMINI = "openai:gpt-6-luna", "anthropic:claude-haiku-5-5", "gemini:gemini-3.8-flash"


def test_judges_that_err_together_count_as_fewer():
    assert effective_number(np.eye(3)) == 3
    assert effective_number(np.full((3, 3), 1.0)) == 1
    assert effective_number(np.full((2, 2), 0.5) + np.eye(2) / 2) == pytest.approx(4 / 3)
    gpt, claude = frozenset(["gpt"]), frozenset(["claude"])
    alike = np.array([[1, 0.8, 0.5], [0.8, 1, 0.5], [0.5, 0.5, 1]])
    low, high = bound_effective_number(alike, [gpt, gpt, claude])
    assert low == pytest.approx(9 / 6.6)
    assert high == pytest.approx(9 / (3 + 2 * (0.8 - 0.5) / 0.5))
    assert (
        bound_effective_number(alike, [gpt, gpt, frozenset(["x"])])[1]
        < bound_effective_number(alike, [gpt, claude, gpt])[1]
    )
    low, high = bound_effective_number(alike, [gpt] * 3)
    assert (low, np.isnan(high)) == (pytest.approx(9 / 6.6), True)


def test_errors_are_taken_from_what_a_judge_says_of_that_human_grade():
    rng = np.random.default_rng(0)
    documents, human = 4000, rng.integers(0, 2, 4000).astype(float)
    shared, own = rng.normal(size=documents), rng.normal(size=(3, documents))
    said = human + 1 + 0.6 * shared + 0.6 * own  # errors correlate .5
    said[2] += 0.4  # harsh or kind throughout is no error in common
    grade = np.rint(said).clip(0, 3).astype(np.int64).ravel()
    unit, judge = np.tile(np.arange(documents), 3), np.repeat(np.arange(3), documents)
    ratings = Ratings(unit, judge, grade, documents, ("a", "b", "c"))
    found = effective_number_by_people(ratings, human)
    assert found == pytest.approx(9 / 6, abs=0.15)
    some = np.where(np.arange(documents) < 500, human, np.nan)
    assert effective_number_by_people(ratings, some) == pytest.approx(found, abs=0.15)
    assert np.isnan(effective_number_by_people(ratings, np.full(documents, np.nan)))
    confusion = np.zeros((4, 4))
    np.add.at(confusion, (grade[:documents], grade[documents : 2 * documents]), 1)
    wanted = np.corrcoef(grade[:documents], grade[documents : 2 * documents])[0, 1]
    assert grade_correlation(confusion) == pytest.approx(wanted)
    assert np.isnan(grade_correlation(np.diag([5.0, 0, 0, 0])))


@pytest.mark.parametrize(
    ("judges", "told"),
    [
        ((GPT, CLAUDE, GEMINI), "these 3 are worth"),
        ((GPT, "openai:gpt-4o"), "These 2 judges are of one model family"),
        ((GPT,), ""),
    ],
)
def test_the_page_of_grades_says_what_the_panel_is_worth(tmp_path, judges, told):
    write_graded(tmp_path, judges=judges)
    write_report(str(tmp_path))
    page = page_of(tmp_path)
    rows = page.table("judges")
    assert rows[0][-1] == "family"
    family = {row[0]: row[-1] for row in rows}
    assert all(family[name] == min(families_of(name)) for name in judges)
    html = (tmp_path / "report.html").read_text()
    assert told in html
    assert ("are worth" in html or "of one model family" in html) == bool(told)
