"""``agree`` of two runs of the same judges: which of them changed."""

import json
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest

from tests.helpers.builders import agreement_of
from zelo_ray.commands.agree.changes import PANEL
from zelo_ray.errors import InputError
from zelo_ray.files.tables import table_of
from zelo_ray.records import Grade, Vote

JUDGES = ("anna", "ben", "cleo")
LEVEL, WITH_OTHERS = "level", "agreement with others"


@pytest.fixture(autouse=True)
def _inside(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def grades(name, change=lambda judge, grade, rng: grade, queries=range(30), judges=JUDGES):
    """Write a run's grades of 5 documents a query: what is true, a little noise, and a change."""
    rng, later, rows = np.random.default_rng(0), np.random.default_rng(9), []
    for q, d in np.ndindex(40, 5):
        true = rng.integers(0, 4)
        for judge in judges:
            grade = int(np.clip(true + rng.integers(-1, 2), 0, 3))
            if q in queries:
                given = int(np.clip(change(judge, grade, later), 0, 3))
                rows.append(Grade(f"q{q}", f"d{d}", judge, given, (), (), "", "k"))
    return write(name, "grades", rows, Grade)


def votes(name, judges=JUDGES, **first):
    """Write a run's votes, of which each judge prefers the true one, or what it saw first."""
    rng, rows = np.random.default_rng(0), []
    for q, n in np.ndindex(30, 6):
        for judge in judges:
            swapped = bool(rng.integers(2))
            preference = float(rng.choice([-1.0, -1.0, 1.0]))
            if rng.random() < first.get(judge, 0):
                preference = 1.0 if swapped else -1.0
            rows.append(Vote(f"q{q}", f"a{n}", f"b{n}", judge, preference, swapped, "", "k"))
    return write(name, "votes", rows, Vote)


def write(folder, name, rows, record):
    Path(folder).mkdir(exist_ok=True)
    pq.write_table(table_of(rows, record), f"{folder}/{name}.parquet")
    return folder


def changes_of(results):
    """The figures that were tested, by judge, what changed, and kind of judgments."""
    rows = [row for row in results.figures if row["what"] in (LEVEL, WITH_OTHERS)]
    return {(row["of"], row["what"], row["scale"]): row for row in rows}


def changed(results):
    return {key[:2] for key, row in changes_of(results).items() if row["p"] < 0.05}


def others(results, what):
    return {row["of"]: row["value"] for row in results.figures if row["what"] == what}


def wobble(judge, grade, rng):
    """Noise that every judge has from one time to the other."""
    return grade + rng.choice([-1, 0, 0, 0, 1])


def severe(judge, grade, rng):
    return wobble(judge, grade, rng) - (judge == "ben" and rng.random() < 0.4)


def guesses(judge, grade, rng):
    return rng.integers(0, 4) if judge == "cleo" else grade


# Who changed


def test_what_is_the_same_or_noise_did_not_change():
    old = grades("old")
    same, noisy = agreement_of(old, f"{old}/"), agreement_of(old, grades("new", wobble))
    assert same.complete
    assert {row["value"] for row in changes_of(same).values()} == {0.0}
    assert {*others(same, "share unchanged").values()} == {1.0}
    assert {*others(same, "kappa with itself").values()} == {1.0}
    assert "changes" not in same
    assert same.changed == noisy.changed == []
    assert all(0.4 < share < 1 for share in others(noisy, "share unchanged").values())


def test_the_judge_that_got_severe_is_named():
    results = agreement_of(grades("old"), grades("new", severe))
    assert results.changed == ["ben"]
    ben = changes_of(results)["ben", LEVEL, "grades"]
    assert ben["low"] < ben["value"] < ben["high"] < 0


def test_a_judge_that_guesses_changed_though_its_mean_did_not():
    results = agreement_of(grades("old"), grades("new", guesses))
    assert changed(results) == {("cleo", WITH_OTHERS)}
    assert {row["judge"] for row in results.changes} == {"cleo"}
    sizes = [abs(row["new"] - row["old"]) for row in results.changes]
    assert sizes == sorted(sizes, reverse=True)


def test_votes_show_a_new_love_for_what_is_shown_first():
    """Beside grades that did not change: runs with --calls-per-document have both."""
    old, new = votes("old"), votes("new", anna=0.7)
    alone = changes_of(agreement_of(old, new))
    assert {kind for *_, kind in alone} == {"votes"}
    assert alone["anna", LEVEL, "votes"]["value"] > 0.4
    both = agreement_of(grades("old"), grades("new"))
    assert {key[::2] for key, row in changes_of(both).items() if row["p"] < 0.05} == {
        ("anna", "votes")
    }
    assert {row["judged"] for row in both.changes} == {"votes"}
    assert both.complete


def test_all_tests_of_judges_are_corrected_together():
    """The panel is no test among its judges; and few draws hide no change of many."""
    votes("old")
    votes("new", anna=0.3)
    tests = changes_of(agreement_of(grades("old"), grades("new", wobble)))
    alone = changes_of(agreement_of("old/votes.parquet", "new/votes.parquet"))
    smallest = min(alone, key=lambda key: alone[key]["p"])
    assert len([key for key in tests if key[0] != PANEL]) == 12
    assert len(alone) == 6
    assert tests[smallest]["p"] == pytest.approx(2 * alone[smallest]["p"])
    all_best = grades("best", lambda judge, grade, rng: 3)
    for pair in ((all_best, grades("grades")), ("grades", all_best)):
        assert {(judge, LEVEL) for judge in JUDGES} <= changed(agreement_of(*pair))


# What cannot be compared


def test_another_question_is_noted_and_other_ways_to_ask_are_not():
    places = [grades("old"), grades("new")]
    question = ("anchors", "show_metadata", "document_tokens", "judge_options", "seed")
    for option in (*question, "instructions", "show_query"):
        for name in ("old", "new"):
            options = {"protocol": "graded", option: name, "concurrency": name}
            Path(name, "run.json").write_text(json.dumps({"options": options}))
        results = agreement_of(*places)
        [note] = results.record["notes"]
        assert (option in note, results.complete) == (True, False)
    for name, more in (("old", {}), ("new", {"instructions": None, "show_query": []})):
        options = {"options": {"protocol": "graded", **more}}
        Path(name, "run.json").write_text(json.dumps(options))
    assert agreement_of(*places).record["notes"] == [], (
        "an option that was not known did not change"
    )
    Path("new/run.json").write_text(json.dumps({"finished": False}))
    old, new = places
    for pair in ((old, new), (new, old), (old, f"{new}/grades.parquet")):
        with pytest.raises(InputError, match="not finished"):
            agreement_of(*pair)
