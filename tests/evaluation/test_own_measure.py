"""A measure of the user's own: no other file of the package knows it."""

from pathlib import Path

import pytest

from zelo_ray import measure
from zelo_ray.errors import OptionError
from zelo_ray.evaluation.measures import parse_measure

FILE = f"{Path(__file__).parents[1] / 'own' / 'first.py'}:MEASURE"
QRELS = {"q1": {"d1": 3, "d2": 0, "d3": 1}, "q2": {"d1": 0, "d2": 1}}
RUN = {"q1": {"d1": 0.9, "d2": 0.8, "d3": 0.1}, "q2": {"d1": 0.9, "d2": 0.8}}


@pytest.mark.parametrize("own", ["tests.own.first:MEASURE", FILE], ids=["module", "file"])
def test_it_is_measured_by_its_name_beside_the_others(own):
    found = measure(RUN, QRELS, [f"{own}@1", f"{own}(least=2)@2", "nDCG@10"])
    rows = found.to_pandas().set_index("query_id")
    assert list(rows.columns) == [f"{own}@1", f"{own}(least=2)@2", "nDCG@10"]
    assert rows[f"{own}@1"].to_dict() == {"q1": 1.0, "q2": 0.0}
    assert rows[f"{own}(least=2)@2"].to_dict() == {"q1": 1.0, "q2": 0.0}


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
