"""The index that writers leave of their own segments: whole, or not believed."""

import threading
import uuid

import fsspec
import pytest
from fsspec.implementations.memory import MemoryFileSystem

from tests.builders import reply_to
from zelo_ray.engine.ledger import Ledger, sum_paid, update_index, writing
from zelo_ray.errors import LedgerError


class NoWait:
    """A clock on which nobody waits."""

    def pause(self, seconds):
        pass

    def date(self):
        return 0.0


def dear(numbers):
    """Replies of two kilobytes, a dollar each."""
    return [reply_to(f"{number:032x}", "t" * 2000, dollars=1.0, run_id="run") for number in numbers]


def keys(numbers):
    return [f"{number:032x}" for number in numbers]


@pytest.fixture
def store():
    out = f"memory://{uuid.uuid4().hex}/out"
    yield out
    fsspec.filesystem("memory").rm(out, recursive=True)


def holds(out, count):
    """Whether the next run finds so many replies, and their money, before its claim and after."""
    for _ in range(2):
        assert all(Ledger(out).contains(keys(range(count))))
        assert sum_paid(out).dollars() == count
        update_index(out)


def test_what_an_upload_that_failed_took_along_later_is_found(store, monkeypatch):
    ledger, pipe = Ledger(store, "run", clock=NoWait()), MemoryFileSystem.pipe_file
    ledger.append(dear(range(10)))

    def fails(self, path, value, **more):
        raise OSError("503")

    monkeypatch.setattr(MemoryFileSystem, "pipe_file", fails)
    with pytest.raises(LedgerError):
        ledger.append(dear([10]))
    monkeypatch.setattr(MemoryFileSystem, "pipe_file", pipe)
    ledger.append(dear(range(11, 900)))
    ledger.append(dear(range(900, 910)))
    ledger.close()
    holds(store, 910)


def test_a_writer_that_outlives_its_claim_loses_nothing(store):
    ledger = Ledger(store, "run", clock=NoWait())
    other = Ledger(store, "other", clock=NoWait())
    other.append(dear(range(400)))
    ledger.append(dear(range(400, 800)))
    update_index(store)  # the next run's, while this one still writes
    ledger.refresh()
    for begin in (800, 1100, 1500, 1900):
        ledger.append(dear(range(begin, {800: 1100, 1900: 1910}.get(begin, begin + 400))))
        assert all(ledger.contains(keys(range(400, begin))))
    ledger.close()
    holds(store, 1910)


def test_a_look_between_a_write_and_its_noting_counts_no_money_twice(tmp_path, monkeypatch):
    ledger, sync = Ledger(str(tmp_path), "run"), writing._sync

    def looked_at(file):
        sync(file)
        looking = threading.Thread(target=ledger.refresh)
        looking.start()
        looking.join()

    monkeypatch.setattr(writing, "_sync", looked_at)
    ledger.append(dear(range(700)))
    monkeypatch.setattr(writing, "_sync", sync)
    ledger.append(dear(range(700, 800)))
    ledger.close()
    holds(str(tmp_path), 800)
