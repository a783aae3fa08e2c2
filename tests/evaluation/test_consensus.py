"""How often people say what judges say, by how far these agree: by hand and by brute force."""

from itertools import combinations

import numpy as np
import pytest

from tests.helpers.builders import agreement_of, write_qrels
from zelo_ray.evaluation.consensus import LEVELS, grade_consensus, vote_consensus
from zelo_ray.fitting import clusters

NAN = np.nan


def told(rows, about, scale=""):
    return {row.level: row for row in rows if (row.about, row.scale) == (about, scale)}


def level(most, of):
    """As the docs have it."""
    if most == of:
        return "unanimous"
    if 2 * most <= of:
        return "split"
    if most == of - 1:
        return "all but one"
    return "three quarters" if most / of >= 0.75 else "over half"


def test_votes_by_how_far_judges_agree():
    said = np.array([[1, 1, 1, 1, 0, 1], [1, 1, -1, -1, 0, NAN], [1, 1, -1, 0, 1, NAN]])
    people = np.array([1.0, 0, 1, -1, 1, 1])
    found = told(vote_consensus(said, people, np.arange(6)), "votes")
    assert set(found) == {"all", "unanimous", "all but one", "split"}
    both = found["unanimous"]
    assert (both.same, both.items, both.tied, both.share) == (1, 1, 1, pytest.approx(2 / 5))
    assert (found["all but one"].same, found["all but one"].items) == (0, 1)
    # as many for either, and one of three that says anything: half right, and right
    assert (found["split"].same, found["split"].items) == (0.75, 2)
    assert (found["all"].items, found["all"].tied) == (4, 1)  # one judge alone agrees with nobody


@pytest.mark.parametrize("judges", [2, 3])
def test_orders_and_grades_are_those_of_brute_force(judges):
    rng = np.random.default_rng(judges)
    query = rng.integers(0, 4, 60)
    human = rng.integers(-1, 4, 60).astype(np.int16)
    grades = np.clip(human + rng.integers(-1, 2, (judges, 60)), 0, 3).astype(np.int16)
    grades[rng.random(grades.shape) < 0.2] = -1
    rows = grade_consensus(grades, human, query, 4, (2,))
    counts = {name: np.zeros(3) for name in LEVELS}
    for i, j in combinations(range(60), 2):
        both = (grades[:, i] >= 0) & (grades[:, j] >= 0)
        if query[i] != query[j] or min(human[i], human[j]) < 0 or both.sum() < min(2, judges):
            continue
        if min((grades[:, k] >= 0).sum() for k in (i, j)) < min(2, judges):
            continue
        signs = np.sign(grades[:, i] - grades[:, j])[both]
        up, down = (signs > 0).sum(), (signs < 0).sum()
        people = np.sign(human[i] - human[j])
        right = 0.5 if up == down else np.sign(up - down) == people
        counts[level(max(up, down), both.sum())] += [
            right * (people != 0),
            people != 0,
            people == 0,
        ]
    found = told(rows, "orders")
    for name, (right, known, tied) in counts.items():
        if known + tied:
            assert (found[name].items, found[name].tied) == (known, tied)
        if known:
            assert found[name].same == pytest.approx(right / known)
    for scale, cut in (("0-3", None), (">=2", 2)):
        known = (human >= 0) & ((grades >= 0).sum(0) >= min(2, judges))
        right = []
        for k in np.flatnonzero(known):
            own = np.sort(grades[grades[:, k] >= 0, k])
            middle = round((own[(len(own) - 1) // 2] + own[len(own) // 2]) / 2)
            own, true = (middle, human[k]) if cut is None else (middle >= cut, human[k] >= cut)
            right.append(own == true)
        whole = told(rows, "grades", scale)["all"]
        assert (whole.same, whole.items) == (pytest.approx(np.mean(right)), known.sum())


def test_intervals_hold_the_share_where_queries_differ():
    held, trials = 0, 200
    for seed in range(trials):
        rng = np.random.default_rng(seed)
        chance, whole = rng.beta(19, 1, 40), rng.integers(1, 60, 40).astype(float)
        part = rng.binomial(whole.astype(int), chance).astype(float)
        _, low, high = clusters.share_interval(
            part, whole, clusters.intraclass_correlation(part, whole)
        )
        held += low <= 0.95 <= high
    assert 0.92 < held / trials <= 1


def test_agree_tells_it_without_the_people_among_the_judges(tmp_path):
    rng = np.random.default_rng(3)
    human = rng.integers(0, 4, 120)
    for name in ("one", "two"):
        wrong = rng.random(120) < 0.4
        write_qrels(tmp_path / f"{name}.txt", np.where(wrong, 3 - human, human))
    people = write_qrels(tmp_path / "people.qrels", human)
    words = [tmp_path / "one.txt", tmp_path / "two.txt", "--human", people]
    told = []
    for trust in ("0.6", "0.99"):
        results = agreement_of(*words, "--trust", trust)
        told.append([line for line in results.report.lead if f"trusted blindly ({trust})" in line])
    rows = {(r["scale"], r["of"]): r for r in results.rows("figures", what="people agree")}
    assert {scale for scale, _ in rows} >= {"pairs, by grades", "documents 0-3", "documents >=2"}
    both = rows["documents 0-3", "unanimous"]
    assert both["value"] == pytest.approx(0.36 / 0.52, abs=0.12)  # were they three, it'd be less
    assert rows["documents 0-3", "all"]["items"] == 120
    assert [len(lines) for lines in told] == [2, 2], "of pairs, and of documents on all grades"
    verdicts = [{line.partition(": ")[2].partition(" be")[0] for line in lines} for lines in told]
    untold = "it cannot"  # be told yet
    assert verdicts == [{"the panel can", untold}, {"the panel cannot"}]
