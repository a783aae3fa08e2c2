"""Coefficients of agreement: against other implementations, and against their definitions."""

import json
from itertools import combinations
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from zelo_ray.evaluation.agreement import (
    count_ratings,
    draw_samples,
    measure_agreement,
    ratings_of,
)
from zelo_ray.evaluation.coefficients import COEFFICIENTS

GOLDEN = json.loads((Path(__file__).parents[1] / "golden/irrcac.json").read_text())


def table_of_matrix(grades, queries=None):
    """[items, raters] with NaN or None, as a table; rater j is ``rj``."""
    rows = [
        (f"q{queries[i] if queries is not None else 0:03}", f"d{i:04}", f"r{j}", int(grade))
        for i, row in enumerate(grades)
        for j, grade in enumerate(row)
        if grade is not None and grade == grade
    ]
    columns = zip(*rows, strict=True) if rows else [[]] * 4
    names = ["query_id", "doc_id", "judge", "grade"]
    return pa.table(
        dict(zip(names, map(list, columns), strict=True)),
        pa.schema([*((name, pa.string()) for name in names[:3]), ("grade", pa.int64())]),
    )


def measured(grades, levels=4, queries=None, thresholds=()):
    ratings = ratings_of(table_of_matrix(grades, queries).sort_by("judge"), levels)
    found = [
        each
        for pair in combinations(ratings.raters, 2)
        for each in measure_agreement(ratings, pair, COEFFICIENTS, thresholds)
    ]
    raters = sorted(ratings.raters)
    if len(raters) > 2:
        found += measure_agreement(ratings, raters, COEFFICIENTS, thresholds, panel="all")
    return {(f.rater_a, f.rater_b, f.scale, f.coefficient): f for f in found}


def of_all(grades, levels=4):
    """The panel's coefficients by name, of two raters those of the pair."""
    raters = ("r0", "r1") if len(grades[0]) == 2 else ("all", "")
    return {
        key[3]: each.estimate.value
        for key, each in measured(grades, levels).items()
        if key[:2] == raters
    }


def random_grades(items, raters, missing, levels=4, seed=0):
    rng = np.random.default_rng([items, raters, levels, seed])
    truth = rng.integers(0, levels, items)
    noise = rng.integers(0, levels, (items, raters))
    grades = np.where(rng.random((items, raters)) < 0.5, truth[:, None], noise).astype(float)
    grades[rng.random(grades.shape) < missing] = np.nan
    return grades


SIZES = [(40, 2, 0.3), (25, 6, 0.6), (9, 2, 0.0), (30, 3, 0.4), (200, 4, 0.3), (60, 5, 0.0)]


@pytest.mark.parametrize(("items", "raters", "missing"), SIZES)
@pytest.mark.parametrize("levels", [2, 4, 5])
def test_alpha_is_that_of_the_krippendorff_package(items, raters, missing, levels):
    import krippendorff

    grades = random_grades(items, raters, missing, levels)
    found = of_all(grades, levels)
    for metric in ("nominal", "ordinal", "interval"):
        expected = krippendorff.alpha(
            reliability_data=grades.T,
            level_of_measurement=metric,
            value_domain=list(range(levels)),
        )
        assert found[f"alpha-{metric}"] == pytest.approx(expected, abs=1e-12)


@pytest.mark.parametrize(("items", "raters", "missing"), SIZES)
def test_coefficients_of_two_are_those_of_scikit_learn_on_what_both_judged(items, raters, missing):
    from sklearn.metrics import cohen_kappa_score, matthews_corrcoef

    grades = random_grades(items, raters, missing)
    found = measured(grades, thresholds=[2])
    for a, b in combinations(range(raters), 2):
        both = ~np.isnan(grades[:, [a, b]]).any(axis=1)
        one, two = grades[both][:, [a, b]].T.astype(int)
        for scale, x, y, labels in (("0-3", one, two, 4), (">=2", one >= 2, two >= 2, 2)):

            def value(name, a=a, b=b, scale=scale, both=both):
                each = (
                    found.get((f"r{a}", f"r{b}", scale, name))
                    or found[f"r{b}", f"r{a}", scale, name]
                )
                assert each.items == both.sum()
                return each.estimate.value

            for name, weights in (("", None), ("-linear", "linear"), ("-quadratic", "quadratic")):
                expected = np.nan
                if len({*x, *y}) > 1:  # else scikit-learn warns
                    expected = cohen_kappa_score(x, y, labels=range(labels), weights=weights)
                assert value(f"kappa{name}") == pytest.approx(expected, abs=1e-12, nan_ok=True)
            varied = len(set(x)) > 1 < len(set(y))  # else scikit-learn has 0
            expected = matthews_corrcoef(x, y) if varied else np.nan
            assert value("mcc") == pytest.approx(expected, abs=1e-12, nan_ok=True)
            assert value("agreement") == pytest.approx((x == y).mean(), abs=1e-12)


@pytest.mark.parametrize("number", range(len(GOLDEN["cases"])))
def test_all_coefficients_are_those_of_irrcac(number):
    """tests/golden/irrcac.json says how its values were made."""
    case = GOLDEN["cases"][number]
    found = of_all(case["grades"], case["levels"])
    for name, expected in case["values"].items():
        ours = "fleiss" if name == "pi" else name
        assert found[ours] == pytest.approx(expected, abs=1e-9), name
    assert len(case["values"]) == (10 if len(case["grades"][0]) == 2 else 7)


def test_all_of_one_grade_is_undefined_but_for_the_percentage():
    for raters in (2, 3):
        found = of_all([[2] * raters] * 8)
        assert found.pop("agreement") == 1
        assert all(np.isnan(value) for value in found.values()), found


def test_repeats_count_as_their_median_and_a_half_as_the_even_grade():
    rows = [("q", "d", "r", grade) for grade in (3, 0, 2, 1)] + [("q", "e", "r", 3)]
    names = ["query_id", "doc_id", "judge", "grade"]
    columns = [list(column) for column in zip(*rows, strict=True)]
    ratings = ratings_of(pa.table(dict(zip(names, columns, strict=True))), 4)
    assert ratings.grades.tolist() == [[2, 3]]


def test_a_sample_is_what_the_coefficient_is_of_its_queries_repeated():
    """The ordinal distances of a sample are those of its own grades."""
    grades = random_grades(60, 3, 0.3)
    queries = np.arange(60) % 6
    ratings = ratings_of(table_of_matrix(grades, queries).sort_by("judge"), 4)
    panel, pair = count_ratings(ratings, ratings.raters), count_ratings(ratings, ("r0", "r1"))
    for weights in draw_samples(6)[1:4]:
        repeated = np.concatenate(
            [np.repeat(grades[queries == q], int(w), axis=0) for q, w in enumerate(weights)]
        )
        found = measured(repeated)
        for counts, raters, name in (
            (panel, ("all", ""), "alpha-ordinal"),
            (pair, ("r0", "r1"), "kappa"),
        ):
            tables = {k: np.tensordot(weights, table, 1) for k, table in counts.tables.items()}
            value = found[*raters, "0-3", name].estimate.value
            assert COEFFICIENTS[name].compute(tables) == pytest.approx(value, abs=1e-12)


def test_intervals_are_of_queries_and_not_of_items():
    """100 copies of each item are no more evidence, as long as they are in the same query."""
    grades = random_grades(40, 2, 0.0)
    queries = np.arange(40) % 10
    many = np.repeat(grades, 20, axis=0)
    one, same, apart = (
        measured(rows, queries=of)["r0", "r1", "0-3", "kappa"].estimate
        for rows, of in ((grades, queries), (many, np.repeat(queries, 20)), (many, np.arange(800)))
    )
    assert one == pytest.approx(same, abs=1e-9)
    assert apart.high - apart.low < (one.high - one.low) / 2
    assert apart.queries == 800


def test_intervals_hold_the_true_kappa_about_as_often_as_they_say():
    rng = np.random.default_rng(0)
    held = 0
    for _ in range(60):
        # Queries differ: in each, raters copy the truth with a chance of its own.
        copying = np.repeat(rng.beta(4, 4, 30), 10)
        truth = rng.integers(0, 2, 300)
        grades = np.where(
            rng.random((300, 2)) < copying[:, None], truth[:, None], rng.integers(0, 2, (300, 2))
        )
        each = measured(grades, 2, np.repeat(np.arange(30), 10))
        one = each["r0", "r1", "0-1", "kappa"].estimate
        held += one.low <= 0.25 + 1 / 36 <= one.high  # E[p^2] of Beta(4, 4): .5^2 + 1/36
    assert 50 <= held <= 60
