"""``drift``: which judge of a panel moved since it last judged a frozen set."""

import json
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import zelo_ray
from zelo_ray.cli import main
from zelo_ray.command_options import DriftOptions
from zelo_ray.commands.drift import PANEL, drift
from zelo_ray.errors import InputError, OptionError
from zelo_ray.files.tables import table_of
from zelo_ray.records import Grade, Vote

JUDGES = ("anna", "ben", "cleo")


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
                told = int(np.clip(change(judge, grade, later), 0, 3))
                rows.append(Grade(f"q{q}", f"d{d}", judge, told, (), (), "", "k"))
    return write(name, "grades", rows, Grade)


def votes(name, judges=JUDGES, **first):
    """Write a run's votes, of which each judge prefers the true one, or what it saw first."""
    rng, rows = np.random.default_rng(0), []
    for q, n in np.ndindex(30, 6):
        for judge in judges:
            swapped = bool(rng.integers(2))
            word = float(rng.choice([-1.0, -1.0, 1.0]))
            if rng.random() < first.get(judge, 0):
                word = 1.0 if swapped else -1.0
            rows.append(Vote(f"q{q}", f"a{n}", f"b{n}", judge, word, swapped, "", "k"))
    return write(name, "votes", rows, Vote)


def write(folder, name, rows, record):
    Path(folder).mkdir(exist_ok=True)
    pq.write_table(table_of(rows, record), f"{folder}/{name}.parquet")
    return folder


def found(old, new, **options):
    return drift(DriftOptions(old=old, new=new, **options))


def moves(drifted):
    return {(one.judge, one.what) for one in drifted.moves if one.moved}


def wobble(judge, grade, rng):
    """Noise that every judge has from one time to the other."""
    return grade + rng.choice([-1, 0, 0, 0, 1])


def severe(judge, grade, rng):
    return wobble(judge, grade, rng) - (judge == "ben" and rng.random() < 0.4)


def guesses(judge, grade, rng):
    return rng.integers(0, 4) if judge == "cleo" else grade


# Who moved


def test_what_is_the_same_or_noise_did_not_move():
    old = grades("old")
    same, noisy = found(old, old), found(old, grades("new", wobble))
    assert same.complete
    assert {(one.same, one.kappa, one.change) for one in same.moves} == {(1.0, 1.0, 0.0)}
    assert same.changes == ()
    assert (same.moved, noisy.moved) == (False, False)
    assert all(0.4 < one.same < 1 for one in noisy.moves if one.judge != PANEL)


def test_the_judge_that_got_severe_is_named():
    drifted = found(grades("old"), grades("new", severe))
    assert {judge for judge, _ in moves(drifted)} - {PANEL} == {"ben"}
    [ben] = [one for one in drifted.moves if (one.judge, one.what) == ("ben", "level")]
    assert ben.change == pytest.approx(ben.new - ben.old)
    assert ben.low < ben.change < ben.high < 0


def test_a_judge_that_guesses_moved_though_its_mean_did_not():
    drifted = found(grades("old"), grades("new", guesses))
    assert moves(drifted) == {("cleo", "with others")}
    assert {one.judge for one in drifted.changes} == {"cleo"}
    sizes = [abs(one.new - one.old) for one in drifted.changes]
    assert sizes == sorted(sizes, reverse=True)


def test_votes_show_a_new_love_for_what_is_shown_first():
    """Beside grades that did not change: runs such as those of lean have both."""
    old, new = votes("old"), votes("new", anna=0.7)
    alone = found(old, new)
    assert {one.judged for one in alone.moves} == {"votes"}
    [anna] = [one for one in alone.moves if (one.judge, one.what) == ("anna", "level")]
    assert anna.moved
    assert anna.old == pytest.approx(0, abs=0.2)
    assert anna.change > 0.4
    both = found(grades("old"), grades("new"))
    assert {(one.judge, one.judged) for one in both.moves if one.moved} == {("anna", "votes")}
    assert {one.judged for one in both.changes} == {"votes"}
    assert both.complete


def test_kappa_of_votes_takes_a_tie_for_no_half_of_a_win():
    """A slight win is a win. A quarter is alike, where chance gives 5/16."""
    cells = [(-1, 0), (-0.3, 1), (0, 0), (1, -1)]
    places = [
        write(
            name,
            "votes",
            [
                Vote(f"q{q}", f"a{n}", f"b{n}", "anna", float(-cell[at]), False, "", "k")
                for q in range(8)
                for n, cell in enumerate(cells)
            ],
            Vote,
        )
        for at, name in enumerate(("old", "new"))
    ]
    assert found(*places).moves[0].kappa == pytest.approx(1 - 0.75 / (1 - 5 / 16))


def test_all_tests_of_judges_are_corrected_together():
    """The panel is no test among its judges; and few draws hide no movement of many."""
    votes("old")
    votes("new", anna=0.3)
    drifted = found(grades("old"), grades("new", wobble))
    panel = [one for one in drifted.moves if one.judge == PANEL]
    assert [one.p_holm == one.p for one in panel] == [True]
    judges = [one for one in drifted.moves if one.judge != PANEL]
    smallest = min(one.p for one in judges)
    assert len(judges) == 12
    assert min(one.p_holm for one in judges) == pytest.approx(min(1, 12 * smallest))
    all_best = grades("best", lambda judge, grade, rng: 3)
    assert {(judge, "level") for judge in JUDGES} <= moves(found(all_best, grades("old")))
    drifted = found(grades("old"), all_best)
    assert {(judge, "level") for judge in JUDGES} <= moves(drifted)


@pytest.mark.parametrize(("queries", "judges", "needed"), [(7, JUDGES, 8), (5, ("ben",), 6)])
def test_so_few_queries_that_nothing_could_move_are_not_complete(queries, judges, needed):
    def none(judge, grade, rng):
        return 0

    few = found(*(grades(n, c, range(queries), judges) for n, c in (("old", guesses), ("0", none))))
    assert (few.moved, few.complete, few.needed) == (False, False, needed)
    more = [grades(f"{n}", lambda *_, n=n: n, range(12), judges) for n in (3, 0)]
    assert (found(*more).moved, found(*more).complete) == (True, True)


def test_a_constant_judge_has_no_kappa():
    drifted = found(*[grades("same", lambda *_: 2, judges=("ben",))] * 2)
    assert np.isnan(drifted.moves[0].kappa)


# What cannot be compared


def test_what_only_one_set_has_is_counted():
    old = grades("old")
    part = found(old, grades("new", queries=range(25)))
    assert (part.notes, part.complete) == (("75 of 450 grades are in OLD alone",), False)
    for other in (
        grades("other", judges=("dora",)),
        grades("late", queries=range(26, 40)),
        votes("votes"),
    ):
        with pytest.raises(InputError):
            found(old, other)
    votes("new")
    for judges in ((), ("dora",)):
        if judges:
            votes("old", judges)
        alone = found(old, grades("new"))
        assert ({one.judged for one in alone.moves}, alone.complete) == ({"grades"}, False)
        assert alone.notes


@pytest.mark.parametrize("column", ["grade", "judge"])
def test_what_is_no_table_of_judgments_is_refused(column):
    old = grades("old")
    table = pq.read_table(f"{old}/grades.parquet")
    empty = pa.nulls(len(table), table.schema.field(column).type)
    at = table.column_names.index(column)
    for name, changed in (
        ("nulls", table.set_column(at, column, empty)),
        ("lacks", table.drop_columns(column)),
    ):
        Path(name).mkdir()
        pq.write_table(changed, f"{name}/grades.parquet")
        with pytest.raises(InputError):
            found(old, name)


def test_another_question_is_noted_and_other_ways_to_ask_are_not():
    places = [grades("old"), grades("new")]
    question = ("anchors", "show_metadata", "document_tokens", "judge_options", "seed")
    for option in (*question, "instructions", "show_query"):
        for name in ("old", "new"):
            told = {"protocol": "graded", option: name, "concurrency": name}
            Path(name, "run.json").write_text(json.dumps({"options": told}))
        noted = f"the option {option} was 'old' in OLD and is 'new' in NEW"
        assert (found(*places).notes, found(*places).complete) == ((noted,), False)
    for name, more in (("old", {}), ("new", {"instructions": None, "show_query": []})):
        told = {"options": {"protocol": "graded", **more}}
        Path(name, "run.json").write_text(json.dumps(told))
    assert found(*places).notes == (), "an option that was not known is none that changed"
    Path("new/run.json").write_text(json.dumps({"finished": False}))
    old, new = places
    for pair in ((old, new), (new, old), (old, f"{new}/grades.parquet")):
        with pytest.raises(InputError, match="not finished"):
            found(*pair)


def test_from_python_and_the_command_line():
    old, new = grades("old"), grades("new", lambda judge, grade, rng: grade - (judge == "ben"))
    judged, out = zelo_ray.drift(old, new), Path("out")
    assert (judged.moved, judged.complete) == (True, True)
    assert judged.drift.to_pandas().judge.unique().tolist() == [*JUDGES, PANEL]
    assert main(["drift", old, old]) == 0
    assert main(["drift", old, new, "--out", str(out)]) == 4
    assert zelo_ray.load_run(out).report.tiles[0] == ("judges that changed", "1 of 3")
    assert json.loads((out / "drift.json").read_text())["moved"]
    assert {row["judge"] for row in pq.read_table(out / "changes.parquet").to_pylist()} == {"ben"}
    assert main(["drift", old, grades("part", queries=range(25))]) == 3
    assert main(["drift", old, "."]) == 1
    (out / "run.json").write_text("{}")
    with pytest.raises(OptionError, match="another --out"):
        found(old, new, out=str(out))
