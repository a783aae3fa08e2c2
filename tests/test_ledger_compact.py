"""Compaction: at every moment of it, each line of a ledger is there, and counts once."""

import math
import random
import shutil
from functools import partial
from pathlib import Path

import fsspec
import orjson
import pytest
from fsspec.implementations.local import LocalFileSystem
from fsspec.implementations.memory import MemoryFileSystem

from tests.builders import fill, reply_to
from zelo_ray.cli import main
from zelo_ray.engine import durable
from zelo_ray.engine.clock import Clock
from zelo_ray.engine.ledger import (
    Ledger,
    compact,
    compaction,
    index_upkeep,
    read_rows,
    sum_paid,
    sum_spent,
    table_file,
    update_index,
    writing,
)
from zelo_ray.engine.lock import claim_folder
from zelo_ray.errors import LedgerError
from zelo_ray.formats.segments import reply_to_line

quietly = partial(compact, say=lambda _: None)


class Kill(BaseException):
    """The process is no more."""


@pytest.fixture(params=["disk", "store"])
def out(request, tmp_path, monkeypatch):
    """A directory, and an object store in memory."""
    monkeypatch.setattr(table_file.tempfile, "gettempdir", lambda: str(tmp_path))
    monkeypatch.setattr(compaction, "_LARGE_BYTES", 4000)
    monkeypatch.setattr(writing, "_LOCAL_BYTES", 700)
    monkeypatch.setattr(writing, "_OBJECT_BYTES", 700)
    yield str(tmp_path / "out") if request.param == "disk" else f"memory://{tmp_path.name}"
    MemoryFileSystem.store.clear()


def replies_of(count, run_id="run"):
    rng = random.Random(run_id)
    return [
        reply_to(
            rng.randbytes(16).hex(),
            f"{run_id} {number}",
            dollars=rng.choice([0.1, 0.7, None]),
            run_id=run_id,
        )
        for number in range(count)
    ]


def harm(out):
    """Damage a line; what it held."""
    fs, root = fsspec.url_to_fs(out)
    path = sorted(fs.glob(f"{root}/replies/*.jsonl"))[1]
    lines = fs.cat_file(path).splitlines(keepends=True)
    text = orjson.loads(lines[0])["text"]
    fs.pipe_file(path, lines[0].replace(b'"ok"', b'"on"') + b"".join(lines[1:]))
    return text


def segments(out):
    fs, root = fsspec.url_to_fs(out)
    return sorted(fs.glob(f"{root}/replies/*.jsonl"))


def holds(out, replies, damaged=1):
    """Whether every reply is there once, and its money."""
    ledger = Ledger(out)
    keys = [reply.key for reply in replies]
    assert ledger.read(keys) == replies
    assert len(ledger) == len(replies)
    assert sorted(reply.text for reply in read_rows(out)) == sorted(r.text for r in replies)
    assert sum_paid(out).dollars() == math.fsum(reply.dollars or 0.0 for reply in replies)
    spent = sum_spent(out, "run")
    assert spent.damaged == ledger.damaged
    assert (len(spent.damaged), spent.of_damage) == (damaged, 0.7 * damaged)
    assert spent.unpriced == sum(reply.dollars is None for reply in replies)


def test_few_segments_hold_what_many_did(out):
    replies = replies_of(30)
    fill(out, *replies)
    text = harm(out)
    left = [reply for reply in replies if reply.text != text]
    before = segments(out)
    ledger = Ledger(out)
    lines = sorted(line for path in before for line in _lines(out, path))
    found = quietly(out)
    assert (found.before, found.after) == (len(before), len(segments(out)))
    assert len(segments(out)) <= len(before) / 3
    assert sorted(line for path in segments(out) for line in _lines(out, path)) == lines
    holds(out, left)
    assert ledger.read([r.key for r in left]) == left  # of one who listed the old ones
    more = replies_of(20, "later")
    fill(out, *more, run_id="later")
    quietly(out)
    holds(out, left + more)
    last = segments(out)
    quietly(out)
    assert segments(out) == last


def _lines(out, path):
    return fsspec.url_to_fs(out)[0].cat_file(path).splitlines(keepends=True)


def operations(monkeypatch):
    """Every operation on files, which are numbered; before or after one the process may end."""
    calls, at = [], {"kill": None, "after": False}

    def watched(name, original, *args, **kwargs):
        calls.append(name)
        dies = len(calls) == at["kill"]
        if dies and not at["after"]:
            raise Kill
        found = original(*args, **kwargs)
        if dies:
            raise Kill
        return found

    def watch(place, name):
        original = getattr(place, name)
        monkeypatch.setattr(place, name, lambda *args, **kw: watched(name, original, *args, **kw))

    for kind in (LocalFileSystem, MemoryFileSystem):
        for name in ("rm_file", "pipe_file", "cat_file"):
            watch(kind, name)
    watch(Path, "replace")
    watch(durable.os, "fsync")
    return calls, at


@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
def test_a_kill_at_any_operation_loses_and_doubles_nothing(out, monkeypatch, after):
    replies = replies_of(14)
    fill(out, *replies[:7])
    fill(out, *replies[7:], run_id="other")
    text = harm(out)
    left = [reply for reply in replies if reply.text != text]
    files = _copy(out)
    with monkeypatch.context() as patch:
        calls, _ = operations(patch)
        quietly(out)
    count = len(calls)
    assert {"rm_file", "cat_file"} < {*calls}
    kinds = set()
    for number in range(1, count + 1):
        _restore(out, files)
        with monkeypatch.context() as patch:
            calls, at = operations(patch)
            at.update(kill=number, after=after)
            with pytest.raises(Kill):
                quietly(out)
            kinds.add(calls[-1])
        holds(out, left)
        if number % 3 == 0:  # and again while it takes up what it left
            with monkeypatch.context() as patch:
                calls, at = operations(patch)
                at.update(kill=2 + number % 5, after=after)
                with pytest.raises(Kill):
                    quietly(out)
            holds(out, left)
        quietly(out)
        holds(out, left)
        assert len(segments(out)) <= 3
        fs, root = fsspec.url_to_fs(out)
        assert not [path for path in fs.find(f"{root}/replies") if path.endswith(".new")]
    assert {"rm_file", "cat_file"} < kinds


def _copy(out):
    fs, root = fsspec.url_to_fs(out)
    return {path: fs.cat_file(path) for path in fs.find(root)}


def _restore(out, files):
    fs, root = fsspec.url_to_fs(out)
    for path in fs.find(root):
        fs.rm_file(path)
    for path, data in files.items():
        fs.pipe_file(path, data)


def test_a_segment_that_ends_in_the_middle_of_a_line_is_left_alone(tmp_path, monkeypatch):
    replies = replies_of(4)
    fill(str(tmp_path), *replies[:2])
    fill(str(tmp_path), *replies[2:], run_id="torn")
    (torn,) = (tmp_path / "replies").glob("torn*.jsonl")
    torn.write_bytes(torn.read_bytes() + b'{"key":"')
    before = segments(str(tmp_path))
    quietly(str(tmp_path))
    assert segments(str(tmp_path)) == before
    assert len(Ledger(str(tmp_path))) == 4


def test_a_segment_that_is_not_what_was_written_is_taken_back(out, monkeypatch):
    replies = replies_of(10)
    fill(out, *replies)
    before = segments(out)
    keep = compaction._keep_segment
    monkeypatch.setattr(
        compaction, "_keep_segment", lambda fs, path, data: keep(fs, path, data[:-9] + b"x" * 9)
    )
    with pytest.raises(LedgerError, match="is not what was written"):
        quietly(out)
    assert segments(out) == before
    holds(out, replies, damaged=0)


def test_what_is_added_to_a_segment_that_was_replaced_counts(out):
    """By a run that had lost its claim, and did not know."""
    replies = replies_of(8)
    fill(out, *replies)
    fs, _ = fsspec.url_to_fs(out)
    was = {path: fs.cat_file(path) for path in segments(out)}
    quietly(out)
    late = replies[0]._replace(key="cd" * 16, text="late")
    path, data = min(was.items())
    fs.pipe_file(path, data + reply_to_line(late))
    holds(out, [*replies, late], damaged=0)
    quietly(out)
    holds(out, [*replies, late], damaged=0)


def test_without_the_record_of_what_it_replaces_nothing_is_lost(out):
    replies = replies_of(8)
    fill(out, *replies)
    quietly(out)
    fs, root = fsspec.url_to_fs(out)
    (record,) = fs.find(f"{root}/replies/_replaced")
    for data in (b"", b"[]", b'{"size":"x"}', b'{"old":{"a":null},"size":1,"at":0,"crc32":1}'):
        fs.pipe_file(record, data)
        holds(out, replies, damaged=0)
        quietly(out)
        holds(out, replies, damaged=0)
        if not fs.exists(record):
            break


def test_records_are_removed_when_nobody_can_need_them(out):
    class Tomorrow(Clock):
        def date(self):
            return super().date() + 2 * 86_400

    fill(out, *replies_of(8))
    quietly(out)
    fs, root = fsspec.url_to_fs(out)
    quietly(out)
    assert len(fs.find(f"{root}/replies/_replaced")) == 1
    quietly(out, clock=Tomorrow())
    assert fs.find(f"{root}/replies/_replaced") == []
    holds(out, replies_of(8), damaged=0)


def test_the_index_goes_with_it(out, monkeypatch):
    monkeypatch.setattr(index_upkeep, "_LEAST_BYTES", 1)
    replies = replies_of(20)
    fill(out, *replies)
    update_index(out)
    quietly(out)
    holds(out, replies, damaged=0)
    update_index(out)
    holds(out, replies, damaged=0)
    fs, root = fsspec.url_to_fs(out)
    assert len(fs.find(f"{root}/replies/_index")) == 1


def test_the_command(tmp_path, capsys, monkeypatch):
    out = str(tmp_path / "out")
    assert main(["compact", out]) == 1
    assert "no ledger" in capsys.readouterr().err
    assert not Path(out).exists()
    replies = replies_of(6)
    for number, reply in enumerate(replies):
        fill(out, reply, run_id=f"run{number}")
    shutil.copytree(out, tmp_path / "other")
    assert main(["compact", out]) == 0
    printed = capsys.readouterr().out
    assert "6 segments in one" in printed
    assert "1 segment (0.0 MB) instead of 6" in printed
    holds(out, replies, damaged=0)
    with claim_folder(str(tmp_path / "other")):
        assert main(["compact", str(tmp_path / "other")]) == 1
    assert "in use by another run" in capsys.readouterr().err
    assert len(segments(str(tmp_path / "other"))) == 6
