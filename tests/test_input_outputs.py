"""Every kind of file is read, or refused, by every command as it was recorded.

All that is read is tried, and each eighth of what is refused; ``--diff`` tries all.
Where that changes on purpose, ``python -m tests.input_outputs`` records it anew; ``--diff`` shows
what would change. Only exit status and results are held here: messages may change their words.
"""

import zlib

import pytest

from tests import input_outputs

pytestmark = [pytest.mark.ray, pytest.mark.timeout(900)]
RECORD = input_outputs.read_record()
TRIED = {
    name
    for name, cell in RECORD.items()
    if cell.status in (0, 3) or zlib.crc32(name.encode()) % 8 == 0
}
FILES = sorted({name.partition(" | ")[0] for name in TRIED})


@pytest.fixture(scope="module")
def now():
    """What comes out of today's code."""
    return input_outputs.try_all(only=TRIED)


def test_the_same_files_are_tried(now):
    assert now.keys() == TRIED


@pytest.mark.parametrize("file", FILES)
def test_a_file_is_read_as_it_was(now, file):
    names = [name for name in TRIED if name.startswith(f"{file} | ") and name in now]
    changed = [n for n in names if not input_outputs.has_same_results(RECORD[n], now[n])]
    old, new = ({name: cells[name] for name in changed} for cells in (RECORD, now))
    assert not changed, "\n".join(input_outputs.differences(old, new))
