"""The gate: which candidates may replace a baseline, what it says of them, and its level."""

import math
from pathlib import Path

import numpy as np
import pytest

from tests.commands.test_bakeoff import QUERIES, results_of
from zelo_ray.evaluation.gate import decide_gate, limits, queries_needed

OPTIONS = {"measure": "m", "confidence": 0.95}


def one(difference, margin=0.01, answered=None, **options):
    """The word on a candidate that lies so far above the baseline for each query."""
    base = np.linspace(0.3, 0.6, len(difference))
    values = np.stack([base, base + np.asarray(difference)])
    answered = np.ones(values.shape, dtype=bool) if answered is None else answered
    (found,) = decide_gate(
        values, answered, ["old", "new"], "old", margin=margin, **OPTIONS | options
    )
    return found


def spread(mean, width, queries=40):
    """Differences with this mean that lie evenly around it."""
    return mean + width * np.linspace(-1, 1, queries)


@pytest.mark.parametrize(
    ("differences", "margin", "verdict"),
    [
        (spread(0.03, 0.05), 0.01, "better"),
        (spread(0.0, 0.02), 0.01, "not worse"),
        (spread(-0.005, 0.005), 0.01, "not worse"),  # surely below, but not by the margin
        (spread(-0.03, 0.05), 0.01, "worse"),
        (spread(-0.03, 0.05), 0.1, "not worse"),
        (spread(0.0, 0.3), 0.01, "not enough data"),
        (spread(0.0, 0.0), 0.0, "not worse"),  # the same run
        ([0.2] * 4, 0.01, "not enough data"),
    ],
)
def test_verdicts(differences, margin, verdict):
    assert one(differences, margin).verdict == verdict


def test_limits_are_one_sided():
    found, wider = (one(spread(0.0, 0.3), confidence=c) for c in (0.95, 0.975))
    error = spread(0, 0.3).std(ddof=1) / math.sqrt(40)
    assert found.high == pytest.approx(1.685 * error, rel=0.001)  # Student's t with 39
    assert wider.high == pytest.approx(2.023 * error, rel=0.001)


def test_limits_stand_further_out_where_differences_lean():
    leaning = np.array([0.5] + [0.0] * 24)
    low, high = limits(leaning, 0.95)
    assert (low, high) == pytest.approx((0.02 - 0.03422, 0.02 + 0.03422 + 0.02018), rel=0.001)
    assert limits(-leaning, 0.95) == pytest.approx((-high, -low))
    assert limits(np.zeros(5), 0.95) == (0, 0)


def test_what_other_labels_would_turn_is_open():
    drawn = np.zeros((20, 2, 40))
    drawn[:, 1] = 0.03
    assert one(spread(0.03, 0.05), drawn=drawn).verdict == "better"
    drawn[:3, 1] = 0.0
    assert one(spread(0.03, 0.05), drawn=drawn).verdict == "not worse"
    drawn[:3, 1] = -0.02
    found = one(spread(0.03, 0.05), drawn=drawn)
    assert (found.verdict, found.labels) == ("not enough data", 0.85)
    assert "labels" in found.reason


def test_a_candidate_that_lacks_queries_does_not_pass():
    answered = np.ones((2, 40), dtype=bool)
    answered[1, 7] = False
    found = one(spread(0.03, 0.05), answered=answered)
    assert (found.verdict, found.queries) == ("not enough data", 39)
    assert "1 of the baseline's queries" in found.reason
    assert one(spread(-0.03, 0.05), answered=answered).verdict == "worse"
    assert one(spread(0.03, 0.05), answered=answered[::-1]).verdict == "better"


def test_so_many_queries_as_are_told_are_enough():
    rng = np.random.default_rng(0)
    needed = queries_needed(rng.normal(0, 0.1, 5000), 0.02, 0.95)
    assert needed == pytest.approx((1.645 + 0.842) ** 2 * 25, rel=0.05)
    tries = (one(rng.normal(0, 0.1, needed), 0.02) for _ in range(200))
    passed = [found.verdict in ("better", "not worse") for found in tries]
    assert 0.7 < np.mean(passed) < 0.9
    assert queries_needed(np.zeros(9), 0.0, 0.95) == 0


def test_the_level_at_the_margin():
    rng = np.random.default_rng(1)
    found = [one(rng.normal(-0.02, 0.1, 40), 0.02).verdict for _ in range(2000)]
    assert np.mean([verdict in ("better", "not worse") for verdict in found]) < 0.07


@pytest.mark.parametrize(
    ("arm", "queries", "status", "word"),
    [
        ("abcd", QUERIES, 0, "pass: it is better than old"),
        ("dcba", QUERIES, 4, "fail: it is worse than old"),
        ("abcd", QUERIES[:4], 3, "open: "),
    ],
)
def test_exit_status_line_and_page(tmp_path, arm, queries, status, word):
    arms = {"it": dict.fromkeys(queries, arm), "old": dict.fromkeys(QUERIES, "bacd")}
    results = results_of(tmp_path, arms, baseline="old", measures=["nDCG@10"])
    assert results.status == status
    assert f"GATE {word}" in results.to_text()
    assert f"GATE {word}" in Path(results.write_report()).read_text()
    [row] = results.gate
    assert (row["run"], row["baseline"]) == ("it", "old")
