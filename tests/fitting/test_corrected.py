"""Means set right by people's grades, where it is known how these were drawn."""

import json
import math

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.helpers.builders import write_qrels
from tests.helpers.labelling import sample
from zelo_ray.engine.learning import correct_scores, read_human_grades
from zelo_ray.errors import InputError
from zelo_ray.fitting.corrected import correct_means
from zelo_ray.protocols.graded import GradedOptions

QUERIES, DOCUMENTS = 30, 20


def graded(seed, queries=QUERIES):
    """Queries that are easy or hard, and a panel that is mild or harsh by query."""
    rng = seed if isinstance(seed, np.random.Generator) else np.random.default_rng(seed)
    query = np.repeat(np.arange(queries), DOCUMENTS)
    latent = rng.normal(0, 0.6, queries)[query] + rng.normal(size=len(query))
    error = rng.normal(0.2, 0.5, queries)[query] + rng.normal(0, 0.4, len(query))
    human, panel = (np.digitize(x, [0.2, 0.9, 1.5]) * 1.0 for x in (latent, latent + error))
    return panel, human, query


def only(human, asked):
    return np.where(asked, human, np.nan)


def shares_of(panel, human, query=None, probability=None, frame=None):
    """The corrected means; without queries each document is one."""
    query = np.arange(len(panel)) if query is None else query
    return correct_means(panel, human, query, probability, frame=frame)[0]


@pytest.fixture(scope="module")
def truth():
    return graded(99, 5000)[1].mean()


# What may correct


def test_labels_of_which_nobody_knows_how_they_were_drawn_correct_nothing():
    panel, human, query = graded(1)
    rng = np.random.default_rng(0)
    top = np.argsort(np.argsort(-panel)) < 100
    for asked in (top, rng.random(len(human)) < 0.3, query == query[0] + (panel > 1)):
        means, (note,) = correct_means(panel, only(human, asked), query)
        assert "nothing says with which probabilities" in note
        assert np.isnan([(row.mean, row.low, row.high) for row in means]).all()
        assert means[0].panel == pytest.approx(panel.mean())
        assert means[0].humans == asked.sum()


def test_probabilities_must_show_that_all_documents_could_be_drawn():
    rng = np.random.default_rng(4)
    panel, human, query = graded(rng)
    quarter = np.where(np.arange(len(panel)) % 4 == 0, 0.5, 0.0)
    by_panel = np.where(panel >= 2, 0.3, 0.15)
    most = np.where(np.arange(len(panel)) % 5 > 0, by_panel, 0.0)
    whole = {"frame": len(panel)}
    for chance, more, says in (
        (quarter, {}, "by their probabilities they represent"),
        (most, {"frame": 480}, "only 480 of 600"),
        (most, {}, "do not show that all 600"),
        (by_panel, {}, "do not show that all 600"),
        (by_panel, whole, ""),
        (np.full(len(panel), 0.2), {}, ""),
    ):
        seen = only(human, rng.random(len(human)) < chance)
        means, notes = correct_means(panel, seen, query, chance, **more)
        assert [says in note for note in notes] == [True] * bool(says)
        assert math.isnan(means[0].mean) == bool(says)


# What it comes to


def by_hand(panel, human):
    """Prediction-powered inference, written out."""
    asked = ~np.isnan(human)
    y, f, u = human[asked], panel[asked], panel[~asked]
    n, rest = len(y), len(u)
    trust = np.cov(y, f, ddof=0)[0, 1] / ((1 + n / rest) * np.concatenate([f, u]).var(ddof=1))
    trust = min(max(trust, 0), 1)
    mean = trust * u.mean() + (y - trust * f).mean()
    return mean, np.sqrt(trust**2 * u.var(ddof=1) / rest + (y - trust * f).var(ddof=1) / n)


@pytest.mark.parametrize(("humans", "quantile"), [(60, 2.0010), (200, 1.9720)])  # Student's
def test_means_and_intervals_by_hand(humans, quantile):
    rng = np.random.default_rng(1)
    human = rng.choice(4, 1000, p=[0.5, 0.2, 0.2, 0.1]).astype(float)
    panel = np.clip(human + rng.choice([-1, 0, 0, 1, 1], 1000), 0, 3)
    human[rng.permutation(1000)[humans:]] = np.nan
    rows = shares_of(panel, human)
    assert [row.measure for row in rows] == ["grade", ">=1", ">=2", ">=3"]
    for grade, row in enumerate(rows):
        said = (panel >= grade) * 1.0 if grade else panel
        true = only(human >= grade, ~np.isnan(human)) if grade else human
        mean, error = by_hand(said, true)
        assert (row.panel, row.documents, row.humans) == (pytest.approx(said.mean()), 1000, humans)
        assert row.mean == pytest.approx(mean)
        assert row.high - row.mean == pytest.approx(quantile * error, rel=1e-4)
        assert row.mean - row.low == pytest.approx(quantile * error, rel=1e-4)


@pytest.mark.parametrize("design", ["documents", "queries", "by what the panel likes"])
def test_intervals_hold_the_mean_of_queries_such_as_these(design, truth):
    held, naive, means, trials = 0, 0, [], 150
    for seed in range(trials):
        rng = np.random.default_rng(seed)
        panel, human, query = graded(rng)
        chance = np.where(panel >= 2, 0.6, 0.15) if "panel" in design else np.full(600, 0.25)
        asked = rng.random(600) < chance
        if design == "queries":
            asked, chance = np.isin(query, rng.permutation(QUERIES)[:8]), None
        seen = only(human, asked)
        row = shares_of(panel, seen, query, chance, frame=None if chance is None else 600)[0]
        plain = shares_of(panel, seen)[0]
        held += row.low < truth < row.high
        naive += plain.low < truth < plain.high
        means.append(row.mean)
    assert 0.9 < held / trials < 0.995
    assert naive < held
    assert np.mean(means) == pytest.approx(truth, abs=0.03)


def test_no_labels_few_labels_and_all_labels():
    panel, human, query = graded(0)
    for row in shares_of(panel, only(human, query < 0), query):
        assert row.mean == row.panel
        assert np.isnan([row.low, row.high]).all()
    for queries in (1, 4, 5):
        rows = shares_of(panel, only(human, query < queries), query)
        assert [math.isfinite(row.low) for row in rows] == [queries == 5] * 4
        assert all(math.isfinite(row.mean) for row in rows)
    whole = shares_of(panel, human, query)
    assert [whole[0].mean, whole[2].mean] == pytest.approx([human.mean(), (human >= 2).mean()])
    assert math.isnan(shares_of(np.array([]), np.array([]))[0].mean)


def test_labels_that_are_all_alike_leave_it_open_how_many_are_not():
    """Bounds for 0 of 5 and of 50 as tables of exact binomial intervals have them."""
    panel = np.zeros(100)
    for humans, bound in ((5, 0.5218), (50, 0.0711), (100, 0.0362)):
        human = only(0.0, np.arange(100) < humans)
        for row, top in zip(shares_of(panel, human), (3, 1, 1, 1), strict=True):
            wanted = (0, 0, pytest.approx(top * bound, abs=3e-4))
            assert (row.mean, row.low, row.high) == wanted
        *_, most = shares_of(panel, human + 3)
        assert (most.mean, most.low, most.high) == (1, pytest.approx(1 - bound, abs=1e-4), 1)
    alike = only(np.zeros(400), np.arange(400) < 100)  # of five queries that says little
    few = shares_of(np.zeros(400), alike, np.arange(400) // 20)[1]
    assert few.high == pytest.approx(1 - 0.025 ** (1 / 5), abs=0.06)


# In a run


def in_a_run(panel, human, query, **more):
    """The means of a run's scores, set right by people's grades of some."""
    names = pa.array([f"q{q:02}" for q in query])
    docs = pa.array([f"d{i:04}" for i in range(len(query))])
    scores = pa.table({"query_id": names, "doc_id": docs, "score": panel})
    people = pa.table({"query_id": names, "doc_id": docs, "relevance": human, **more})
    return correct_scores(scores, people.filter(pa.array(np.isfinite(human))))


def test_a_run_says_why_its_means_are_not_set_right():
    panel, human, query = graded(5)
    seen = only(human, np.arange(len(human)) % 20 == 0)
    chance = np.full(len(panel), 0.05)
    for more, says in (
        ({}, "nothing says"),
        ({"probability": chance, "frame": np.full(len(panel), 599)}, "only 599 of 600"),
        ({"probability": chance, "frame": np.full(len(panel), 600)}, ""),
    ):
        shares, notes = in_a_run(panel, seen, query, **more)
        refused = [note for note in notes if "cannot correct" in note]
        assert [says in note for note in refused] == [True] * bool(says)
        assert all(math.isnan(share.mean) == bool(says) for share in shares)
        assert shares[0].humans == 30


def people_in(path):
    options = GradedOptions(inputs=("pools",), out="o", judges=("offline",), human=str(path))
    return read_human_grades(options).sort_by("doc_id").to_pydict()


def test_people_are_one_by_their_median_and_probabilities_are_kept(tmp_path):
    path = tmp_path / "labels.csv"
    lines = ["q,d1,ann,3,.5", "q,d1,bob,1,.5", "q,d2,ann,2,.25", "q,d1,cy,2,.5", "q,d2,bob,1,.25"]
    path.write_text("\n".join(["query_id,doc_id,person,grade,probability", *lines]) + "\n")
    assert people_in(path) == {
        "query_id": ["q", "q"],
        "doc_id": ["d1", "d2"],
        "relevance": [2, 2],  # of 1.5 the even one
        "probability": [0.5, 0.25],
    }
    answers = [("ann", "d0", 3.0), ("ann", "d1", 0.0)]
    drawn = sample(tmp_path, [0.9, 0.1, 0.2, 0.0], [2.0, 1.0, 0.5, 0.0], answers)
    assert people_in(drawn)["frame"] == [3, 3]


def test_people_grade_from_0_to_3(tmp_path):
    path = tmp_path / "some.qrels"
    path.write_text("q 0 d1 -1\nq 0 d2 3\n")
    assert people_in(path)["relevance"] == [0, 3]
    path.write_text("q 0 d1 4\n")
    with pytest.raises(InputError, match="4 is not a grade from 0 to 3"):
        people_in(path)
    table = pa.table({"query_id": ["q"], "doc_id": ["d"], "score": [1.5]})
    pq.write_table(table, tmp_path / "scores.parquet")
    with pytest.raises(InputError, match="not a grade from 0 to 3"):
        people_in(tmp_path / "scores.parquet")


@pytest.mark.parametrize("humans", [5, 60])
def test_intervals_of_a_rare_grade_hold_it(humans):
    held, trials = 0, 200
    for seed in range(trials):
        human = np.random.default_rng(seed).choice(4, 300, p=[0.9, 0.04, 0.04, 0.02]).astype(float)
        *_, row = shares_of(human, only(human, np.arange(300) < humans))
        held += row.low <= 0.02 <= row.high
    assert held / trials > 0.93


def test_agree_says_that_its_labels_have_calibrated_the_run(say, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)  # for lines that are not too long
    human = np.random.default_rng(7).integers(0, 4, 60)
    (tmp_path / "run").mkdir()
    rows = {"query_id": [f"q{i % 6}" for i in range(60)], "doc_id": [f"d{i}" for i in range(60)]}
    grades = pa.table({**rows, "judge": ["a"] * 60, "grade": human[::-1]})
    pq.write_table(grades, tmp_path / "run" / "grades.parquet")
    for name, kept in (("all", range(60)), ("half", range(30)), ("rest", range(30, 60))):
        labels = [grade if i in kept else None for i, grade in enumerate(human)]
        write_qrels(tmp_path / f"{name}.qrels", labels)
    for calibrating, measuring, says in (
        ("half.qrels", "all.qrels", "run: 30 documents of"),
        ("half.qrels", "rest.qrels", ""),
        ("gone/all.qrels", "all.qrels", "not known whether"),
        (None, "all.qrels", ""),
    ):
        record = {"options": {"protocol": "graded", "human": calibrating}, "finished": True}
        (tmp_path / "run" / "run.json").write_text(json.dumps(record))
        _, lines = say("run", "--human", measuring)
        text = " ".join(" ".join(lines).split())
        assert says in text
        assert ("calibrated" in text) == bool(says)
