"""Every kind of file is read, or refused, by every command as it was recorded.

All that is read is tried, a third of it where tests that are slow are left out, and each eighth of
what is refused; ``--diff`` tries all. Where that changes on purpose, ``python -m
tests.input_outputs`` records it anew; ``--diff`` shows what would change. Only exit status and
results are held here: messages may change their words.
"""

import zlib

import pytest

from tests import input_outputs

pytestmark = [pytest.mark.ray, pytest.mark.nightly]
RECORD = input_outputs.read_record()


def is_tried(name, third):
    """Whether a cell belongs to the third that is always tried, or to the others."""
    number = zlib.crc32(name.encode())
    read = RECORD[name].status in (0, 3)
    return (number // 8 % 3 == 0) == third and (read or number % 8 == 0)


@pytest.mark.parametrize("third", [True, False])
def test_every_file_is_read_as_it_was(third):
    tried = {name for name in RECORD if is_tried(name, third)}
    now = input_outputs.try_all(only=tried)
    assert now.keys() == tried
    changed = [n for n in sorted(tried) if not input_outputs.has_same_results(RECORD[n], now[n])]
    old, new = ({name: cells[name] for name in changed} for cells in (RECORD, now))
    assert not changed, "\n".join(input_outputs.differences(old, new))
