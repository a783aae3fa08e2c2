"""How many judges that err apart a panel is worth."""

import numpy as np
import pytest
from zelo_ray.fitting.calibration import Ratings

from zelo_ray.fitting.effective_judges import (
    effective_number,
    effective_number_by_people,
    grade_correlation,
)


def test_judges_that_err_together_count_as_fewer():
    assert effective_number(np.eye(3)) == 3
    assert effective_number(np.full((3, 3), 1.0)) == 1
    assert effective_number(np.full((2, 2), 0.5) + np.eye(2) / 2) == pytest.approx(4 / 3)


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
