"""``drift``: which judge of a panel moved since it last judged a frozen set."""

import json

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import zelo_ray
from zelo_ray.cli import main
from zelo_ray.commands.drift import PANEL, drift, record_of, tables_of
from zelo_ray.commands.drift.report import DRIFT_REPORT
from zelo_ray.errors import InputError, OptionError
from zelo_ray.formats.tables import schema_of
from zelo_ray.options import DriftOptions
from zelo_ray.records import Grade, Vote
from zelo_ray.reports.source import MemorySource

JUDGES = ("anna", "ben", "cleo")


def grades(path, change=lambda judge, grade, rng: grade, queries=range(30), judges=JUDGES, seed=0):
    """Grades of 5 documents a query: what is true, a little noise, and then the change."""
    rng, later = np.random.default_rng(seed), np.random.default_rng(9)
    rows = []
    for q in range(40):
        for d in range(5):
            true = rng.integers(0, 4)
            for judge in judges:
                grade = int(np.clip(true + rng.integers(-1, 2), 0, 3))
                if q in queries:
                    told = int(np.clip(change(judge, grade, later), 0, 3))
                    rows.append(Grade(f"q{q}", f"d{d}", judge, told, (), (), "", "k"))
    return write(path / "grades.parquet", rows, Grade)


def write(path, rows, record):
    path.parent.mkdir(exist_ok=True)
    columns = {n: [getattr(row, n) for row in rows] for n in schema_of(record).names}
    pq.write_table(pa.table(columns, schema=schema_of(record)), path)
    return str(path.parent)


def found(old, new, **options):
    return drift(DriftOptions(old=old, new=new, resamples=500, **options))


def report_of(drifted):
    record = record_of(drifted, DriftOptions(old="old", new="new"))
    return DRIFT_REPORT.build(MemorySource(tables_of(drifted)), record)


def moves(drifted):
    return {(one.judge, one.what) for one in drifted.moves if one.moved}


def wobble(judge, grade, rng):
    """Noise that every judge has from one time to the other."""
    return grade + rng.choice([-1, 0, 0, 0, 1])


def test_what_is_the_same_did_not_move(tmp_path):
    same = found(grades(tmp_path / "old"), grades(tmp_path / "new"))
    assert not same.moved
    assert same.complete
    assert {(one.same, one.kappa, one.change) for one in same.moves} == {(1.0, 1.0, 0.0)}
    assert same.changes == ()


def test_noise_is_no_drift(tmp_path):
    same = found(grades(tmp_path / "old"), grades(tmp_path / "new", wobble))
    assert not same.moved
    assert all(0.4 < one.same < 1 for one in same.moves if one.judge != PANEL)


def test_the_judge_that_got_severe_is_named(tmp_path):
    def severe(judge, grade, rng):
        return wobble(judge, grade, rng) - (judge == "ben" and rng.random() < 0.4)

    drifted = found(grades(tmp_path / "old"), grades(tmp_path / "new", severe))
    assert ("ben", "level") in moves(drifted)
    assert not any(judge in ("anna", "cleo") for judge, _ in moves(drifted))
    (ben,) = [one for one in drifted.moves if (one.judge, one.what) == ("ben", "level")]
    assert ben.change == pytest.approx(ben.new - ben.old)
    assert ben.low < ben.change < ben.high < 0


def test_a_judge_that_guesses_moved_though_its_mean_did_not(tmp_path):
    def guesses(judge, grade, rng):
        return rng.integers(0, 4) if judge == "cleo" else grade

    drifted = found(grades(tmp_path / "old"), grades(tmp_path / "new", guesses))
    assert moves(drifted) == {("cleo", "with others")}
    assert {one.judge for one in drifted.changes} == {"cleo"}
    sizes = [abs(one.new - one.old) for one in drifted.changes]
    assert sizes == sorted(sizes, reverse=True)


def test_what_only_one_set_has_is_counted(tmp_path):
    old = grades(tmp_path / "old")
    part = found(old, grades(tmp_path / "new", queries=range(25)))
    assert part.notes == ("75 of 450 grades are in OLD alone",)
    assert not part.complete
    with pytest.raises(InputError, match="no judge is in both"):
        found(old, grades(tmp_path / "other", judges=("dora",)))
    with pytest.raises(InputError, match="share too few"):
        found(old, grades(tmp_path / "late", queries=range(26, 40)))


def votes(path, first):
    """Votes on pairs, of which each judge prefers the true one, or what it saw first."""
    rng, rows = np.random.default_rng(0), []
    for q in range(30):
        for n in range(6):
            for judge in JUDGES:
                swapped = bool(rng.integers(2))
                word = float(rng.choice([-1.0, -1.0, 1.0]))
                if rng.random() < first.get(judge, 0):
                    word = 1.0 if swapped else -1.0
                rows.append(Vote(f"q{q}", f"a{n}", f"b{n}", judge, word, swapped, "", "k"))
    return write(path / "votes.parquet", rows, Vote)


def test_votes_show_a_new_love_for_what_is_shown_first(tmp_path):
    drifted = found(votes(tmp_path / "old", {}), votes(tmp_path / "new", {"anna": 0.7}))
    assert ("anna", "level") in moves(drifted)
    assert {one.judged for one in drifted.moves} == {"votes"}
    (anna,) = [one for one in drifted.moves if (one.judge, one.what) == ("anna", "level")]
    assert anna.old == pytest.approx(0, abs=0.2)
    assert anna.change > 0.4
    with pytest.raises(InputError, match="one kind"):
        found(votes(tmp_path / "votes", {}), grades(tmp_path / "grades"))


def test_votes_that_changed_are_found_beside_grades_that_did_not(tmp_path):
    """Runs such as those of lean have both."""
    for name, first in (("old", {}), ("new", {"anna": 0.7})):
        grades(tmp_path / name)
        votes(tmp_path / name, first)
    drifted = found(str(tmp_path / "old"), str(tmp_path / "new"))
    assert {(one.judge, one.judged) for one in drifted.moves if one.moved} == {("anna", "votes")}
    assert {one.judged for one in drifted.changes} == {"votes"}
    assert drifted.complete
    assert main(["drift", str(tmp_path / "old"), str(tmp_path / "new")]) == 4
    # all tests are corrected together
    judges = [one for one in drifted.moves if one.judge != PANEL]
    assert min(one.p_holm for one in judges) == pytest.approx(12 * min(one.p for one in judges))


def test_a_kind_of_judgments_that_cannot_be_compared_is_named(tmp_path):
    old, new = grades(tmp_path / "old"), grades(tmp_path / "new")
    votes(tmp_path / "new", {})
    alone = found(old, new)
    assert len(alone.notes) == 1
    assert "votes" in alone.notes[0]
    assert not alone.complete
    votes(tmp_path / "old", {})
    table = pq.read_table(tmp_path / "old" / "votes.parquet")
    others = table.set_column(3, "judge", pa.array(["dora"] * len(table)))
    pq.write_table(others, tmp_path / "old" / "votes.parquet")
    apart = found(old, new)
    assert {one.judged for one in apart.moves} == {"grades"}
    assert not apart.complete


def test_kappa_of_votes_takes_a_tie_for_no_half_of_a_win(tmp_path):
    """A slight win is a win. A quarter is alike, where chance gives 5/16."""
    cells = [(-1, 0), (-0.3, 1), (0, 0), (1, -1)]
    for at, name in enumerate(("old", "new")):
        rows = [
            Vote(f"q{q}", f"a{n}", f"b{n}", "anna", float(-cell[at]), False, "", "k")
            for q in range(8)
            for n, cell in enumerate(cells)
        ]
        write(tmp_path / name / "votes.parquet", rows, Vote)
    drifted = found(str(tmp_path / "old"), str(tmp_path / "new"))
    assert drifted.moves[0].kappa == pytest.approx(1 - 0.75 / (1 - 5 / 16))


@pytest.mark.parametrize("column", ["grade", "judge"])
def test_what_is_no_table_of_judgments_is_refused(tmp_path, column):
    old = grades(tmp_path / "old")
    table = pq.read_table(tmp_path / "old" / "grades.parquet")
    empty = pa.nulls(len(table), table.schema.field(column).type)
    at = table.column_names.index(column)
    (tmp_path / "nulls").mkdir()
    (tmp_path / "bad").mkdir()
    pq.write_table(table.set_column(at, column, empty), tmp_path / "nulls" / "grades.parquet")
    pq.write_table(table.drop_columns(column), tmp_path / "bad" / "grades.parquet")
    with pytest.raises(InputError, match="empty field"):
        found(old, str(tmp_path / "nulls"))
    with pytest.raises(InputError, match=column):
        found(old, str(tmp_path / "bad"))


def severe_all(judge, grade, rng):
    return 0 if judge == "ben" else grade


@pytest.mark.parametrize(("queries", "judges", "needed"), [(7, JUDGES, 8), (5, ("ben",), 6)])
def test_so_few_queries_that_nothing_could_move_are_not_complete(tmp_path, queries, judges, needed):
    old = grades(tmp_path / "old", queries=range(queries), judges=judges)
    new = grades(tmp_path / "new", severe_all, range(queries), judges)
    few = found(old, new)
    assert (few.moved, few.complete, few.needed) == (False, False, needed)
    assert any(f"fewer than {needed}" in note for note in report_of(few).notes)
    more = [
        grades(tmp_path / f"{n}", change, range(12), judges)
        for n, change in enumerate([lambda judge, grade, rng: 3, lambda judge, grade, rng: 0])
    ]
    assert found(*more).moved
    assert found(*more).complete


def test_one_judge_is_told_of_and_a_constant_one_has_no_kappa(tmp_path):
    same = grades(tmp_path / "same", lambda judge, grade, rng: 2, judges=("ben",))
    drifted = found(same, same)
    report = report_of(drifted)
    assert np.isnan(drifted.moves[0].kappa)
    assert np.isnan(report.table("judges").rows[0][8].value)
    assert any("only its level was tested" in note for note in report.notes)


def test_the_panel_is_no_test_among_its_judges(tmp_path):
    drifted = found(grades(tmp_path / "old"), grades(tmp_path / "new", wobble))
    assert [one.p_holm == one.p for one in drifted.moves if one.judge == PANEL] == [True]
    judges = [one for one in drifted.moves if one.judge != PANEL]
    smallest = min(one.p for one in judges)
    assert min(one.p_holm for one in judges) == pytest.approx(min(1, smallest * len(judges)))


def test_runs_that_asked_otherwise_or_are_not_finished(tmp_path):
    old, new = grades(tmp_path / "old"), grades(tmp_path / "new")
    for name, words in (("old", None), ("new", "be strict")):
        options = {"protocol": "graded", "instructions": words, "concurrency": name}
        (tmp_path / name / "run.json").write_text(json.dumps({"options": options}))
    asked = found(old, new)
    [note] = asked.notes
    assert "option instructions was None in OLD" in note
    assert "is 'be strict' in NEW" in note
    assert not asked.complete
    (tmp_path / "new" / "run.json").write_text(json.dumps({"finished": False}))
    for pair in ((old, new), (new, old), (old, f"{new}/grades.parquet")):
        with pytest.raises(InputError, match="not finished"):
            found(*pair)


@pytest.mark.parametrize(
    "option",
    [
        *("anchors", "show_metadata", "document_tokens", "judge_options", "seed"),
        *("instructions", "show_query"),
    ],
)
def test_every_option_that_changes_the_question_is_noted(tmp_path, option):
    old, new = grades(tmp_path / "old"), grades(tmp_path / "new")
    for name in ("old", "new"):
        told = {"options": {"protocol": "graded", option: name}}
        (tmp_path / name / "run.json").write_text(json.dumps(told))
    assert found(old, new).notes == (f"the option {option} was 'old' in OLD and is 'new' in NEW",)


def test_an_option_that_an_older_version_did_not_have_is_none_that_changed(tmp_path):
    old, new = grades(tmp_path / "old"), grades(tmp_path / "new")
    for name, more in (("old", {}), ("new", {"instructions": None, "show_query": []})):
        told = {"options": {"protocol": "graded", **more}}
        (tmp_path / name / "run.json").write_text(json.dumps(told))
    assert found(old, new).notes == ()


def test_few_resamples_hide_no_movement_of_many_judges(tmp_path):
    """Holm times the smallest p that 100 draws can give is above .05."""
    old = grades(tmp_path / "old")
    new = grades(tmp_path / "new", lambda judge, grade, rng: 3)
    drifted = drift(DriftOptions(old=old, new=new, resamples=100))
    assert {(judge, "level") for judge in JUDGES} <= moves(drifted)


def test_from_python(tmp_path):
    old, new = grades(tmp_path / "old"), grades(tmp_path / "new", lambda judge, grade, rng: 0)
    judged = zelo_ray.drift(old, new, resamples=500)
    assert judged.moved
    assert judged.complete
    assert judged.drift.to_pandas().judge.unique().tolist() == [*JUDGES, PANEL]
    assert judged.report.table("judges").rows[0][1] == "changed"
    assert "changed" in judged.to_text()


def test_status_lines_and_files(tmp_path, capsys):
    def severe(judge, grade, rng):
        return grade - (judge == "ben")

    old, new = grades(tmp_path / "old"), grades(tmp_path / "new", severe)
    out = tmp_path / "out"
    assert main(["drift", old, old]) == 0
    assert main(["drift", old, new, "--out", str(out)]) == 4
    assert "ben changed." in capsys.readouterr().out
    assert (out / "report.html").exists()
    assert zelo_ray.load_run(out).report.tiles[0] == ("judges that changed", "1 of 3")
    assert json.loads((out / "drift.json").read_text())["moved"]
    assert pq.read_table(out / "changes.parquet").num_rows
    assert main(["drift", old, grades(tmp_path / "part", queries=range(25))]) == 3
    assert main(["drift", old, str(tmp_path)]) == 1
    (out / "run.json").write_text("{}")
    with pytest.raises(OptionError, match="another --out"):
        found(old, new, out=str(out))
