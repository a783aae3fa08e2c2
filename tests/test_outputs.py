"""Outputs of every command are as recorded: tables and reports by cell, texts by figure.

Where they change on purpose, ``python -m tests.outputs`` records them anew. A sentence may change
its words; sections, columns, rows, charts and warnings are held in their order, with their names.
What explains a score is text by nature, and is held to the word.
"""

import pytest

from tests import outputs

pytestmark = [pytest.mark.ray, pytest.mark.nightly]
RECORD = outputs.read_record()


@pytest.fixture(scope="module")
def now(tmp_path_factory):
    """The outputs of today's code, by their names."""
    folder = tmp_path_factory.mktemp("outputs")
    outputs.write_outputs(folder)
    return {str(f.relative_to(folder)): f.read_text() for f in folder.rglob("*") if f.is_file()}


def test_the_same_files_are_written(now):
    assert sorted(now) == sorted(RECORD)


@pytest.mark.parametrize("name", [name for name in RECORD if not outputs.is_shown(name)])
def test_a_table_or_a_report_is_as_it_was_recorded(now, name):
    if not outputs.is_same(RECORD[name], now[name]):
        assert now[name].splitlines() == RECORD[name].splitlines()


@pytest.mark.parametrize("name", [name for name in RECORD if outputs.is_shown(name)])
def test_every_figure_that_was_shown_is_shown(now, name):
    assert now[name].partition("\n")[0] == RECORD[name].partition("\n")[0]
    assert not outputs.numbers_in(RECORD[name]) - outputs.numbers_in(now[name]), now[name]
