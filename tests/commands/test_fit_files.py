"""Forms of files with comparisons, what is wrong with them, and what a person sees."""

import re
from pathlib import Path

import pandas as pd
import pytest

from tests.helpers.games import citations, run, scores_of, write
from zelo_ray import cli, fit
from zelo_ray.errors import InputError, OptionError

CASES = Path(__file__).parents[1] / "golden" / "cases"


@pytest.mark.parametrize(
    "rows",
    [
        [{"winner": "007", "loser": "y"}, {"winner": "y", "loser": "007"}] * 2
        + [{"winner": "007", "loser": "y"}],
        [{"winner": "007", "loser": "y", "count": 2}, {"winner": "y", "loser": "007", "count": 2},
         {"winner": "007", "loser": "y", "count": 1}],
        [{"winner": "007", "loser": "y", "tie": tie, "weight": w}
         for tie, w in (("true", 4), ("false", 1))],
        [{"a": "007", "b": "y", "preference": p} for p in (-1, -0.1, 0.3, -1, 1)],
        [{"a": "007", "b": "y", "win": p} for p in (1, 1, 0.5, 0.5, 0)],
        [{"left": "007", "right": "y", "winner": w}
         for w in ("left", "tie", "left", "Right", "tie")],
        [{"model_a": "007", "model_b": "y", "winner": w}
         for w in ("model_a", "tie (bothbad)", "model_a", "model_b", "tie")],
        [{"item": "007", "other": "y", "best": w} for w in ("007", "y", "007", "y", "007")],
        [{"Home Team": "007", "away.team": "y", "home-wins": 2, "away_wins": 1, "draws": 2}],
    ],
)  # fmt: skip
def test_every_form_says_the_same(tmp_path, rows):
    """In each, one won three of five games, a tie being half a win."""
    named = {"a": "item", "b": "other", "winner": "best"} if "item" in rows[0] else None
    for held in (rows, write(tmp_path / "a.csv", rows)):
        frame = scores_of(held, columns=named).to_pandas()
        assert frame.doc_id.tolist() == ["007", "y"]
        assert frame.wins.tolist() == [3, 2]
        assert frame.comparisons.tolist() == [5, 5]


def test_queries_are_fitted_each_by_itself_and_what_has_no_scores_is_named(tmp_path, capsys):
    rows = [row | {"query_id": "b"} for row in citations()]
    rows += [{"winner": "x", "loser": "y", "Freq": 1, "query_id": "a"}]
    found = fit(rows, mle=True, progress=None)
    assert list(found.record["unscored"]) == ["a"]
    frame = found.scores.to_pandas()
    assert frame.query_id.unique().tolist() == ["b"]
    alone = scores_of(citations(), mle=True).to_pandas()
    pd.testing.assert_frame_equal(frame.drop(columns="query_id"), alone)
    status, out, _ = run(capsys, write(tmp_path / "a.csv", rows), "--mle")
    assert status == 3
    assert re.search(r"^a +no finite maximum likelihood", out, re.M)
    assert re.search(r"JRSS-B +1\.0589 +0\.0530", out)


@pytest.mark.parametrize("kind", ["csv", "tsv", "json", "jsonl", "parquet", "csv.gz"])
def test_scores_are_written_as_the_name_says(tmp_path, capsys, kind):
    path, out = write(tmp_path / "a.csv", citations()), tmp_path / f"scores.{kind}"
    status, told, _ = run(capsys, path, "--mle", "--out", out)
    assert status == 0
    assert str(out) in told
    read = {
        "csv": pd.read_csv, "tsv": lambda file: pd.read_csv(file, sep="\t"),
        "json": pd.read_json, "jsonl": lambda file: pd.read_json(file, lines=True),
        "parquet": pd.read_parquet,
    }[kind.removesuffix(".gz")]  # fmt: skip
    wanted = scores_of(citations(), mle=True, out=tmp_path / f"same.{kind}").to_pandas()
    pd.testing.assert_frame_equal(read(out), wanted, check_dtype=False)
    pd.testing.assert_frame_equal(read(tmp_path / f"same.{kind}"), wanted, check_dtype=False)


PQ, AB = {"winner": "p", "loser": "q"}, {"a": "p", "b": "q"}


@pytest.mark.parametrize(
    ("row", "options", "says"),
    [
        (
            {"x": 1},
            {},
            "holds no comparisons that say who won; .* the columns x; .* winner and loser",
        ),
        (
            {"a": "p", "winner": "p"},
            {},
            "holds no comparisons that say who won; .* the columns a, winner",
        ),
        (AB | {"winner": "p", "preference": 1}, {}, "both say who won"),
        (PQ, {"columns": {"a": "z"}}, "no file has a column 'z'"),
        (PQ, {"columns": {"z": "loser"}}, "'z=loser' is not ROLE=NAME"),
        (PQ, {"columns": ["loser"]}, "is not ROLE=NAME"),
        (PQ | {"loser": "p"}, {}, ":1: 'p' is compared with itself"),
        (PQ | {"loser": ""}, {}, ":1: has no loser"),
        (PQ | {"loser": 1.5}, {}, ":1: loser cannot be 1.5"),
        (PQ | {"count": -1}, {}, "below 0"),
        (PQ | {"count": "many"}, {}, "count cannot be 'many'"),
        (AB | {"winner": "r"}, {}, "'r' is neither a nor b"),
        ({"a": "b", "b": "a", "winner": "a"}, {}, "may be a column or what one names"),
        (AB | {"win": 2}, {}, "without b_wins it is 1, 0, or 0.5"),
        (AB | {"preference": -2}, {}, "-2 is not in -1 to 1"),
        (PQ, {"mle": True, "prior_sd": 1.0}, "use either mle or prior_sd"),
        (PQ, {"out": "a.txt"}, "must end in .csv"),
        (PQ, {"scales": "elo"}, "did you mean 'scale'"),
    ],
)
def test_what_makes_no_sense_is_told(row, options, says):
    with pytest.raises((InputError, OptionError), match=says):
        scores_of([row], **options)


@pytest.mark.parametrize(
    ("case", "line"),
    [("winners-ambiguous", 3), ("winners-numbers-one-odd", 12), ("winners-one-odd-row", 12)],
)
def test_one_odd_winner_is_named_and_turns_no_other_row(capsys, case, line):
    """All rows but the last name an item; read by columns, half of them would turn round."""
    path = CASES / f"{case}.csv"
    status, out, err = run(capsys, path)
    assert (status, out) == (1, "")
    assert f"{path.name}:{line}:" in err


def test_a_row_that_reads_in_two_ways_is_refused_where_columns_are_named():
    rows = [{"a": f"{n}", "b": f"{n + 1}", "winner": "1"} for n in range(5, 9)]
    assert scores_of(rows).to_pandas().doc_id.tolist() == ["5", "6", "7", "8", "9"]
    with pytest.raises(InputError, match=r":5: .* may be a column"):
        scores_of([*rows, {"a": "2", "b": "1", "winner": "1"}])


PLAIN = ("-1.5", "+3", "-.5e-3", "'x", "a=b", "x")


FORMULAS = ('=HYPERLINK("http://127.0.0.1","x")', "+x", "-x", "@x", "\uff1dx", "=x", "'=x", "''=x")


@pytest.mark.parametrize("kind", ["csv", "tsv"])
def test_no_name_in_a_table_for_people_is_taken_for_a_formula_and_all_come_back(tmp_path, kind):
    names = [*FORMULAS, *PLAIN]
    rows = [{"query_id": "=q", "winner": a, "loser": b} for a in names for b in names if a is not b]
    out, qrels = tmp_path / f"ratings.{kind}", tmp_path / "qrels.txt"
    assert cli.main(["fit", str(write(tmp_path / "games.csv", rows)), "--out", str(out)]) == 0
    told = pd.read_csv(out, sep="\t" if kind == "tsv" else ",", dtype=str)
    assert set(told.query_id) == {"'=q"}
    assert set(told.doc_id) == {*(f"'{name}" for name in FORMULAS), *PLAIN}
    assert cli.main(["convert", "qrels", str(out), "--out", str(qrels)]) == 0
    back = [line.split() for line in qrels.read_text().splitlines()]
    assert {doc_id for _, _, doc_id, _ in back} == {*names}
    assert {query_id for query_id, *_ in back} == {"=q"}
