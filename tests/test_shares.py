"""Means set right by people's labels: whole queries, labels that were chosen, and chances."""

import json
import math

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from zelo_ray.fitting.calibration.corrected_shares import _variance, estimate_shares
from zelo_ray.fitting.calibration.sampling_check import check_sampling

from tests.builders import write_qrels
from zelo_ray.files.tables import table_of
from zelo_ray.protocols.graded import GradedOptions, learn
from zelo_ray.records import Grade

QUERIES, DOCUMENTS = 30, 20


def graded(rng, queries=QUERIES):
    """Queries that are easy or hard, and a panel that is mild or harsh by query."""
    query = np.repeat(np.arange(queries), DOCUMENTS)
    latent = rng.normal(0, 0.6, queries)[query] + rng.normal(size=len(query))
    error = rng.normal(0.2, 0.5, queries)[query] + rng.normal(0, 0.4, len(query))
    human, panel = (np.digitize(x, [0.2, 0.9, 1.5]) * 1.0 for x in (latent, latent + error))
    return panel, human, query


def only(human, asked):
    return np.where(asked, human, np.nan)


@pytest.fixture(scope="module")
def truth():
    _, human, _ = graded(np.random.default_rng(99), 5000)
    return human.mean()


@pytest.mark.parametrize("design", ["documents", "queries"])
def test_intervals_hold_the_mean_of_queries_such_as_these(design, truth):
    held, naive, trials = 0, 0, 200
    for seed in range(trials):
        rng = np.random.default_rng(seed)
        panel, human, query = graded(rng)
        if design == "documents":
            seen = only(human, rng.permutation(len(human)) < 150)
        else:
            seen = only(human, np.isin(query, rng.permutation(QUERIES)[:8]))
        row, plain = estimate_shares(panel, seen, query=query)[0], estimate_shares(panel, seen)[0]
        held += row.low < truth < row.high
        naive += plain.low < truth < plain.high
        assert row.mean == pytest.approx(plain.mean)
    assert 0.91 < held / trials < 0.99
    assert naive < held


def test_labels_of_few_queries_give_no_interval():
    panel, human, query = graded(np.random.default_rng(0))
    for queries, known in ((1, False), (4, False), (5, True)):
        rows = estimate_shares(panel, only(human, query < queries), query=query)
        assert [math.isfinite(row.low) for row in rows] == [known] * 4
        assert all(math.isfinite(row.mean) for row in rows)


def test_documents_of_one_query_that_are_alike_are_no_evidence():
    """None of 100 labels is relevant: of 100 queries that says much, of five little."""
    panel, human = np.zeros(400), np.zeros(400)
    asked = np.arange(400) < 100
    many = estimate_shares(panel, only(human, asked), query=np.arange(400))[1]
    few = estimate_shares(panel, only(human, asked), query=np.arange(400) // 20)[1]
    assert many.high == pytest.approx(1 - 0.025 ** (1 / 100), abs=1e-4)
    assert few.high == pytest.approx(1 - 0.025 ** (1 / 5), abs=0.06)


def test_the_variance_of_a_mean_of_queries_is_the_textbooks():
    """And of two means whose parts go against each other in every query it is none below 0."""
    values = np.random.default_rng(0).normal(size=12)
    one = values, np.ones(12), np.arange(12)
    assert _variance(one) == pytest.approx(values.var(ddof=1) / 12)
    assert _variance(one, (1 - values, *one[1:])) == pytest.approx(0)
    assert _variance(one, one) == pytest.approx(4 * values.var(ddof=1) / 12)


def test_labels_and_the_rest_of_a_query_that_go_against_each_other_give_an_interval():
    rng = np.random.default_rng(1)
    held = 0
    for _ in range(200):
        first = rng.random(20) < 0.5
        true = np.stack([first, np.where(rng.random(20) < 0.9, ~first, first)], axis=1) * 1.0
        panel = np.where(rng.random((20, 2)) < 0.95, true, 1 - true)
        human = np.full((20, 2), np.nan)
        asked = np.arange(20), rng.integers(0, 2, 20)
        human[asked] = true[asked]
        query = np.repeat(np.arange(20), 2)
        row = estimate_shares(panel.ravel(), human.ravel(), levels=2, query=query)[1]
        assert row.high > row.low
        held += row.low <= 0.5 <= row.high
    assert held >= 0.9 * 200


def test_the_top_of_the_panels_own_order_is_seen():
    panel, human, query = graded(np.random.default_rng(1))
    place = np.arange(len(panel)) - np.searchsorted(query, query)
    order = np.lexsort((-panel, query))
    best = np.empty(len(panel), bool)
    best[order] = place < 4
    found = check_sampling(panel, only(human, best), query)
    assert not found.sound
    assert "grades more than the others" in found.note
    assert "draw documents at random" in found.note
    worst = check_sampling(-panel, only(human, best), query)
    assert "grades less than the others" in worst.note


def test_random_documents_are_seldom_refused():
    refused = 0
    for seed in range(300):
        rng = np.random.default_rng(seed)
        panel, human, query = graded(rng, 10)
        refused += not check_sampling(panel, only(human, rng.random(len(human)) < 0.3), query).sound
    assert refused <= 3


def test_whole_queries_are_told_and_few_of_them():
    panel, human, query = graded(np.random.default_rng(2))
    few = check_sampling(panel, only(human, query < 6), query)
    assert few.sound
    assert "all documents of 6 of 30 queries (few" in few.note
    assert "few" not in check_sampling(panel, only(human, query < 12), query).note
    assert not check_sampling(panel, human, query).note
    assert not check_sampling(panel, only(human, query < 0), query).note


def test_known_chances_set_the_mean_right_where_labels_were_chosen(truth):
    """Twice as many labels of what the panel likes: without chances off, with them not."""
    means, plain, held, trials = [], [], 0, 150
    for seed in range(trials):
        rng = np.random.default_rng(seed)
        panel, human, query = graded(rng)
        chance = np.where(panel >= 2, 0.6, 0.15)
        seen = only(human, rng.random(len(human)) < chance)
        assert check_sampling(panel, seen, query, chance, frame=len(panel)).sound
        assert "not show" in check_sampling(panel, seen, query, chance).note
        row = estimate_shares(panel, seen, query=query, probability=chance)[0]
        means.append(row.mean)
        held += row.low < truth < row.high
        plain.append(estimate_shares(panel, seen, query=query)[0].mean)
    assert np.mean(means) == pytest.approx(truth, abs=0.03)
    assert abs(np.mean(plain) - truth) > 2 * abs(np.mean(means) - truth)
    assert 0.9 < held / trials <= 1


def test_labels_that_were_drawn_for_a_contest_are_of_a_part():
    rng = np.random.default_rng(4)
    panel, human, query = graded(rng)
    chance = np.where(np.arange(len(panel)) % 4 == 0, 0.5, 0.0)
    found = check_sampling(panel, only(human, rng.random(len(human)) < chance), query, chance)
    assert not found.sound
    assert "for a bake-off" in found.note


def test_chances_alone_must_show_that_labels_are_of_all():
    """Of four fifths of the documents, they stand for so many, give or take more."""
    rng = np.random.default_rng(4)
    panel, human, query = graded(rng)
    of = np.where(panel >= 2, 0.3, 0.15)
    chance = np.where(np.arange(len(panel)) % 5 > 0, of, 0.0)
    seen = only(human, rng.random(len(human)) < chance)
    assert "only 480 of 600" in check_sampling(panel, seen, query, chance, frame=480).note
    assert "do not show" in check_sampling(panel, seen, query, chance).note
    many = np.tile(panel, 40), np.tile(human, 40), np.arange(40 * len(panel)) // DOCUMENTS
    of = np.where(many[0] >= 2, 0.3, 0.15)
    assert check_sampling(many[0], only(many[1], rng.random(len(of)) < of), many[2], of).sound


def test_chances_that_are_all_alike_or_one_tell_no_more_than_none():
    panel, human, query = graded(np.random.default_rng(5))
    whole = only(human, query < 12)
    sure = np.ones(len(panel))
    assert check_sampling(panel, whole, query, sure) == check_sampling(panel, whole, query)
    told = learned(panel, whole, query, probability=sure).shares
    assert told == learned(panel, whole, query).shares
    assert check_sampling(panel, only(human, np.arange(600) % 5 == 0), query, sure / 5).sound
    top = only(human, panel >= 2)
    alike = sure * np.isfinite(top).mean()  # by which they stand for all
    assert "not drawn at random" in check_sampling(panel, top, query, alike).note


def test_labels_of_a_known_part_are_of_no_whole_however_few():
    panel, human, query = graded(np.random.default_rng(5))
    seen = only(human, np.arange(len(human)) % 20 == 0)
    chance, frame = np.full(len(panel), 0.05), np.full(len(panel), 599)
    found = learned(panel, seen, query, probability=chance, frame=frame)
    assert [note for note in found.notes if "only 599 of 600 documents could be drawn" in note]
    assert all(math.isnan(share.mean) for share in found.shares)
    fine = learned(panel, seen, query, probability=chance, frame=frame + 1)
    assert all(math.isfinite(share.mean) for share in fine.shares)


def learned(panel, human, query, **more):
    names = [f"q{q:02}" for q in query]
    docs = [f"d{i:04}" for i in range(len(query))]
    rows = [
        Grade(q, d, judge, int(grade), (), (), "", "")
        for judge in ("a", "b", "c")
        for q, d, grade in zip(names, docs, panel, strict=True)
    ]
    asked = np.isfinite(human)
    people = {
        "query_id": pa.array(names).filter(pa.array(asked)),
        "doc_id": pa.array(docs).filter(pa.array(asked)),
        "relevance": human[asked],
        **{name: column[asked] for name, column in more.items()},
    }
    options = GradedOptions(inputs=("pools",), out="out", judges=("offline",), pooling="median")
    return learn({"grades": table_of(rows, Grade), "human": pa.table(people)}, options)


def test_a_run_says_why_its_means_are_not_set_right():
    panel, human, query = graded(np.random.default_rng(5))
    top = only(human, panel == 3)
    found = learned(panel, top, query)
    assert [note for note in found.notes if "not drawn at random" in note]
    assert all(math.isnan(share.mean) and share.panel >= 0 for share in found.shares)
    assert found.shares[0].humans == np.isfinite(top).sum()
    fine = learned(panel, only(human, np.arange(len(human)) % 3 == 0), query)
    assert not [note for note in fine.notes if "random" in note]
    assert all(math.isfinite(share.low) for share in fine.shares)
    by_chance = learned(panel, top, query, probability=np.full(len(panel), 0.001))
    assert [note for note in by_chance.notes if "for a bake-off" in note]


def test_a_run_keeps_how_often_people_say_what_its_judges_say():
    panel, human, query = graded(np.random.default_rng(6))
    rows = {(r.about, r.scale, r.level): r for r in learned(panel, human, query).consensus}
    whole = rows["grades", "0-3", "unanimous"]  # three copies always agree
    assert (whole.share, whole.items) == (1, len(panel))
    assert whole.same == pytest.approx((panel == human).mean())
    assert ("orders", "", "unanimous") in rows


@pytest.mark.parametrize("source", ["run", "panel=run/scores.parquet"])
def test_agree_says_that_its_labels_have_calibrated_the_run(say, tmp_path, source, monkeypatch):
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(7)
    human = rng.integers(0, 4, 60)
    run = tmp_path / "run"
    run.mkdir()
    rows = {"query_id": [f"q{i % 6}" for i in range(60)], "doc_id": [f"d{i}" for i in range(60)]}
    grades = pa.table({**rows, "judge": ["a"] * 60, "grade": rng.integers(0, 4, 60)})
    scores = pa.table({**rows, "score": human.astype(float), "grade": human})
    for name, table in (("grades", grades), ("scores", scores)):
        pq.write_table(table, run / f"{name}.parquet")
    write_qrels(tmp_path / "all.qrels", human)
    write_qrels(tmp_path / "half.qrels", [g if i < 30 else None for i, g in enumerate(human)])
    write_qrels(tmp_path / "rest.qrels", [g if i >= 30 else None for i, g in enumerate(human)])
    said = "query_id,doc_id,person,grade\nq0,d0,ann,1\nq0,d0,bob,2\nq1,d1,ann,1\n"
    (tmp_path / "people.csv").write_text(said)
    for calibrating, measuring, seen in (
        ("half.qrels", "all.qrels", 30),
        ("half.qrels", "rest.qrels", 0),
        ("people.csv", "all.qrels", 2),
        ("gone/all.qrels", "all.qrels", 60),
        (None, "all.qrels", 0),
    ):
        options = {"protocol": "graded", "human": calibrating}
        (run / "run.json").write_text(json.dumps({"options": options, "finished": True}))
        _, lines = say(source, "--human", measuring)
        told = [line for line in lines if "calibrated that run" in line]
        assert len(told) == (seen > 0)
        says = "unknown whether" if seen == 60 else f"run: {seen} documents of {measuring}"
        assert not seen or says in told[0]
