"""What a report says of runs made by hand is as recorded: names, codes and figures, no sentence.

Where it changes on purpose, ``python -m tests.runs_by_hand`` records it anew.
"""

import json

import pytest

from tests.compare import is_alike
from tests.runs_by_hand import RECORDS, RUNS, report_values


def test_each_run_is_recorded_and_no_other():
    assert {path.stem for path in RECORDS.glob("*.json")} == {*RUNS}


@pytest.mark.parametrize("name", RUNS)
def test_a_report_is_as_it_was_recorded(tmp_path, name):
    then, now = (
        json.loads((RECORDS / f"{name}.json").read_text()),
        report_values(name, tmp_path / name),
    )
    assert now.keys() == then.keys()
    for part, values in now.items():
        assert is_alike(values, then[part]), (part, values)
