"""A measure of the user's own: no other file of the package knows it."""

from pathlib import Path

import pytest

from tests.builders import rows_of
from zelo_ray import measure
from zelo_ray.cli import main
from zelo_ray.errors import OptionError
from zelo_ray.evaluation.measures import parse_measure

FILE = f"{Path(__file__).parent / 'own' / 'first.py'}:MEASURE"
QRELS = {"q1": {"d1": 3, "d2": 0, "d3": 1}, "q2": {"d1": 0, "d2": 1}}
RUN = {"q1": {"d1": 0.9, "d2": 0.8, "d3": 0.1}, "q2": {"d1": 0.9, "d2": 0.8}}


@pytest.mark.parametrize("own", ["tests.own.first:MEASURE", FILE], ids=["module", "file"])
def test_it_is_measured_by_its_name_beside_the_others(own):
    found = measure(RUN, QRELS, [f"{own}@1", f"{own}(least=2)@2", "nDCG@10"])
    rows = found.to_pandas().set_index("query_id")
    assert list(rows.columns) == [f"{own}@1", f"{own}(least=2)@2", "nDCG@10"]
    assert rows[f"{own}@1"].to_dict() == {"q1": 1.0, "q2": 0.0}
    assert rows[f"{own}(least=2)@2"].to_dict() == {"q1": 1.0, "q2": 0.0}


def test_it_is_checked_as_the_others_are():
    own = parse_measure("tests.own.first:MEASURE(least=1)@10")
    assert own == parse_measure(str(own)) == parse_measure("tests.own.first:MEASURE@10")
    assert not own.kind.about_labels


@pytest.mark.parametrize(
    ("written", "says"),
    [
        ("tests.own.first:MEASURE", "needs a cutoff: a whole number from 1"),
        ("tests.own.first:MEASURE(lest=1)@10", "no parameter 'lest'; it has cutoff, least"),
        ("tests.own.first:MEASURE(least=-1)@10", "least is a grade from 0, not -1"),
        ("tests.own.first:MESURE@10", "tests.own.first has no MESURE; it has MEASURE"),
        ("tests.own.first:metrics@10", "must be a MeasureKind, not function"),
        ("tests/own/none.py:MEASURE@10", "cannot be imported: FileNotFoundError"),
        ("nowhere:MEASURE", "cannot be imported: ModuleNotFoundError"),
        ("nDGC@10", "'nDGC' (did you mean 'nDCG'?); there are nDCG"),
        ("tests.own.first:(1)", "is not a measure"),
    ],
)
def test_what_is_no_measure_is_told_in_one_line(written, says):
    with pytest.raises(OptionError) as told:
        parse_measure(written)
    assert says in str(told.value)
    assert "\n" not in str(told.value)


@pytest.mark.parametrize(
    ("body", "says"),
    [
        ("return 1 / 0", r"failed: ZeroDivisionError: division by zero$"),
        ("return 1.0", r"metrics of shape \(\) instead of \(1, 1\)$"),
    ],
)
def test_one_that_fails_is_one_line(body, says, tmp_path):
    file = tmp_path / "mine.py"
    code = "from zelo_ray.evaluation.measures import MeasureKind\n"
    file.write_text(
        f"{code}def metrics(lists, cutoff):\n    {body}\nMINE = MeasureKind(metrics=metrics)\n"
    )
    with pytest.raises(OptionError, match=says):
        measure({"q": {"d": 1.0}}, {"q": {"d": 1}}, f"{file}:MINE")


def test_labels_are_compared_by_it(tmp_path, capsys):
    queries = [f"q{n}" for n in range(5)]
    for name, best in (("old", "d1"), ("new", "d2")):
        rows = [f"{q} 0 {d} {3 * (d == best)}\n" for q in queries for d in ("d1", "d2")]
        (tmp_path / f"{name}.qrels").write_text("".join(rows))
    for name, first in (("one", "d1"), ("two", "d2")):
        ranked = [(q, d, 1 + (d == first)) for q in queries for d in ("d1", "d2")]
        text = "".join(f"{q} Q0 {d} 1 {score} {name}\n" for q, d, score in ranked)
        (tmp_path / f"{name}.run").write_text(text)
    words = [f"{name}={tmp_path}/{name}.qrels" for name in ("old", "new")]
    words += ["--relevant", "old=2", "new=2", "--runs", str(tmp_path / "one.run")]
    own = ("--measure", f"{FILE}@1", "--out", str(tmp_path / "out"))
    assert main(["agree", *words, str(tmp_path / "two.run"), *own]) == 0
    rows = {(row["of"], row["against"]): row for row in rows_of(tmp_path / "out", "figures")}
    found = [[rows[run, side]["value"] for side in ("old", "new")] for run in ("one", "two")]
    assert found == [[1, 0], [0, 1]]
    assert main(["agree", *words, *own[:1], f"{FILE[:-1]}@1"]) == 2
    assert "has no MEASUR; it has MEASURE" in capsys.readouterr().err
