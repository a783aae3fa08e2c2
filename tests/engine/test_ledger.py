"""The ledger: what was appended is there whatever happens next, and is found again."""

import os

import pyarrow.dataset
import pytest

from tests.helpers import builders
from tests.helpers.builders import fill, judge_of, keys, reply_to, request_of, stored
from zelo_ray.engine.clock import Clock
from zelo_ray.engine.ledger import Ledger, drop_reserves, read_rows, writing
from zelo_ray.errors import LedgerError
from zelo_ray.protocols import zelo


@pytest.fixture(params=["local", "s3"])
def out(request, tmp_path):
    """An output directory, and an output URL."""
    return str(tmp_path) if request.param == "local" else request.getfixturevalue("s3") + "/out"


def test_a_reply_is_there_for_everyone_once_append_returns(out):
    ledger = Ledger(out, "run")
    replies = [reply_to(i, "é\u2028\n" * i, dollars=None, reason="x\r\ny") for i in range(5)]
    ledger.append(replies[:2])
    ledger.append(replies[2:])
    assert Ledger(out).read(keys(4, 0, 3, 1, 2)) == [replies[i] for i in (4, 0, 3, 1, 2)]
    assert ledger.read(keys(2, 2, 0, 2)) == [replies[i] for i in (2, 2, 0, 2)]
    assert ledger.read([]) == []
    ledger.close()


def test_append_syncs_before_it_returns(tmp_path, monkeypatch):
    synced = []
    monkeypatch.setattr(writing, "_sync", lambda handle: synced.append(os.fstat(handle).st_size))
    ledger = Ledger(str(tmp_path), "run")
    ledger.append([reply_to(1, "paid")])
    (segment,) = (tmp_path / "replies").glob("*.jsonl")
    assert synced == [segment.stat().st_size]
    ledger.close()


def test_a_line_that_was_seen_half_is_taken_in_when_it_is_whole(tmp_path):
    fill(str(tmp_path), reply_to(1), reply_to(2, "the second"))
    (segment,) = (tmp_path / "replies").glob("*.jsonl")
    data = segment.read_bytes()
    segment.write_bytes(data[:-5])
    ledger = Ledger(str(tmp_path))
    assert not ledger.has(*keys(2))
    segment.write_bytes(data)
    ledger.refresh()
    assert ledger.read(keys(2, 1)) == [reply_to(2, "the second"), reply_to(1)]


def test_an_upload_that_fails_is_tried_again_and_loses_nothing(s3, monkeypatch):
    ledger = Ledger(f"{s3}/out", "run", clock=Clock(speed=1000.0))
    upload, failures = ledger._fs.pipe_file, [OSError(f"no. {n}") for n in range(7, 0, -1)]

    def flaky(*args, **kwargs):
        if failures:
            raise failures.pop()
        return upload(*args, **kwargs)

    monkeypatch.setattr(ledger._fs, "pipe_file", flaky)
    with pytest.raises(LedgerError, match=r"no\. 6"):
        ledger.append([reply_to(1)])
    ledger.append([reply_to(2)])
    assert sorted(row.key for row in read_rows(f"{s3}/out")) == keys(1, 2)


def test_failures_of_other_runs_are_missing_and_those_of_this_run_are_not(out):
    statuses = ["ok", "failed", "refused", "invalid"]
    fill(out, *(reply_to(i, status=status) for i, status in enumerate(statuses)), run_id="run")
    seen = {
        run_id: [Ledger(out, run_id, ("failed", "invalid")).has(key) for key in keys(0, 1, 2, 3)]
        for run_id in ("run", "another")
    }
    assert seen == {"run": [True] * 4, "another": [True, False, True, False]}
    assert [Ledger(out).has(key) for key in keys(0, 1, 2, 3)] == [True] * 4


def test_segments_are_read_by_pyarrow_alone(tmp_path):
    replies = [reply_to(i, f"text {i}", dollars=i / 7 or None, reason="ü") for i in range(10)]
    fill(str(tmp_path), *replies[:5])
    fill(str(tmp_path), *replies[5:])
    segments = [str(path) for path in sorted((tmp_path / "replies").glob("*.jsonl"))]
    table = pyarrow.dataset.dataset(segments, format="json").to_table().sort_by("key")
    for row, reply in zip(table.to_pylist(), replies, strict=True):
        assert len(row.pop("crc32")) == 8
        assert row == reply._asdict()


def test_a_ledger_without_a_run_writes_nothing(tmp_path):
    ledger = Ledger(str(tmp_path))
    with pytest.raises(LedgerError, match="reading only"):
        ledger.append([reply_to(1)])
    assert not ledger.has(*keys(1))
    assert list(read_rows(str(tmp_path))) == []
    assert not ledger.storage_full
    ledger.close()
    assert list(tmp_path.iterdir()) == []


def test_a_reply_with_half_a_character_in_it_is_kept(out):
    """Models break off inside an emoji; what they said is paid for all the same."""
    ledger = Ledger(out, "run")
    ledger.append([reply_to(1, '{"reasoning": "\ud83d', reason="\ude00", dollars=0.25)])
    (kept,) = Ledger(out).read(keys(1))
    assert kept.dollars == 0.25
    assert kept.text.startswith('{"reasoning": "')
    ledger.close()


# Trouble


@pytest.fixture
def small_disk(tmp_path):
    """A file system with room for the reserve and half as much again."""
    with builders.small_disk(tmp_path / "disk", "6m") as disk:
        yield disk


def test_a_full_disk_keeps_what_is_in_flight_and_says_so(small_disk):
    ledger = Ledger(str(small_disk), "run")
    in_flight = [reply_to(i, "x" * 100_000) for i in range(20)]
    kept = []
    while not ledger.storage_full:
        reply = reply_to(1000 + len(kept), "x" * 50_000)
        ledger.append([reply])
        kept.append(reply)
    for reply in in_flight:  # two megabytes, where there was no room for 50 kB
        ledger.append([reply])
    kept += in_flight
    too_much = [reply_to(10**6, "y" * 100_000)] * 60
    with pytest.raises(LedgerError, match="replies: the disk is full; make room"):
        ledger.append(too_much)
    ledger.close()
    again = Ledger(str(small_disk))
    assert again.read([reply.key for reply in kept]) == kept
    assert all(len(row["text"]) >= 50_000 for row in stored(small_disk))


def test_a_file_in_the_way_is_one_line(tmp_path):
    (tmp_path / "replies").touch()
    with pytest.raises(LedgerError, match="replies: "):
        Ledger(str(tmp_path), "run")


def test_the_reserve_of_a_killed_writer_is_dropped_and_its_replies_are_not(tmp_path):
    ledger = Ledger(str(tmp_path), "run")
    ledger.append([reply_to(1)])
    assert len(list((tmp_path / "replies").glob("*.reserve"))) == 1
    drop_reserves(str(tmp_path))
    left = (path for path in (tmp_path / "replies").iterdir() if path.name != "_prompts.json")
    assert [path.suffix for path in left] == [".jsonl"]
    assert Ledger(str(tmp_path)).has(*keys(1))
    ledger.close()


# Keys


class Certain(zelo.Preference):
    certainty: float


OTHERS = {
    "system prompt": {"system": "You compare!"},
    "user prompt": {"user": "Which is worse?"},
    "schema": {"response_model": Certain},
    "repeat": {"repeat": 1},
    "provider": {"judge": judge_of("anthropic:a-model", temperature=0.0)},
    "model": {"judge": judge_of("openai:another", temperature=0.0)},
    "base URL": {"judge": judge_of("openai:a-model@http://127.0.0.1/v1", temperature=0.0)},
    "value of an option": {"judge": judge_of(temperature=0.5)},
    "further option": {"judge": judge_of(temperature=0.0, effort="low")},
}


@pytest.mark.parametrize("what", OTHERS)
def test_the_key_changes_with_the(what):
    judge = judge_of(temperature=0.0)
    assert request_of(judge=judge).key != request_of(**{"judge": judge, **OTHERS[what]}).key


def test_the_order_of_options_does_not_change_the_key():
    one, other = judge_of(a=1, b={"c": 2, "d": 3}), judge_of(b={"d": 3, "c": 2}, a=1)
    assert request_of(judge=one).key == request_of(judge=other).key


def test_what_is_never_sent_does_not_change_the_key():
    one, other = request_of(), request_of(query="x", documents=(1, 2))
    assert one.key == other.key
    assert len(bytes.fromhex(one.key)) == 16
