"""What is shown of runs made by hand is as recorded, as in `tests.test_outputs`.

Where it changes on purpose, ``python -m tests.runs_by_hand`` records it anew.
"""

import pytest

from tests import outputs, runs_by_hand

RECORD = outputs.read_record(runs_by_hand.RECORD)


def test_all_that_is_recorded_is_of_these_runs():
    assert {path.partition("/")[0] for path in RECORD} == {*runs_by_hand.RUNS}


@pytest.mark.parametrize("name", runs_by_hand.RUNS)
def test_a_report_and_explanations_are_as_they_were_recorded(tmp_path, name):
    now = dict(runs_by_hand.read_all(tmp_path / name, name))
    then = {path: text for path, text in RECORD.items() if path.startswith(f"{name}/")}
    assert now.keys() == then.keys()
    for path, text in now.items():
        if outputs.is_shown(path):
            assert not outputs.numbers_in(then[path]) - outputs.numbers_in(text), text
        elif not outputs.is_same(then[path], text):
            assert text.splitlines() == then[path].splitlines()
