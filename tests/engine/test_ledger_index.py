"""The index of a ledger: it says what the segments say, or nothing, whatever became of it."""

import math
import os
import random
import shutil
import sqlite3
import stat
import subprocess
import sys
import threading
import time
import uuid
from pathlib import Path

import pytest
from fsspec.implementations.memory import MemoryFileSystem

from tests.helpers import builders
from tests.helpers.builders import reply_to
from zelo_ray.engine.ledger import (
    Ledger,
    index,
    index_files,
    read_rows,
    sum_paid,
    update_index,
    writing,
)
from zelo_ray.engine.ledger.segments import reply_to_line
from zelo_ray.errors import LedgerError

JUDGES = ("openai:one", "anthropic:two", "gemini:drei é")
STATUSES = ("ok", "ok", "ok", "failed", "invalid", "refused", "truncated")
VIEWS = {
    "all": {},
    "retried": {"retry": ("failed", "invalid")},
    "raised": {"limits": {JUDGES[0]: 150, JUDGES[2]: 10**6}},
    "retried and raised": {"retry": ("truncated",), "limits": {JUDGES[0]: 150}},
}


def key(number):
    return random.Random(number).randbytes(16).hex()


def made_up(rng, count, run_id="run"):
    """Replies to requests of which some are asked more than once."""
    return [
        reply_to(
            key(rng.randrange(count)),
            rng.randbytes(rng.randrange(60)).hex(),
            status := rng.choice(STATUSES),
            judge=rng.choice(JUDGES),
            run_id=run_id,
            final=status != "truncated" or rng.random() < 0.5,
            limit=rng.choice([0, 100, 200]) if status == "truncated" else 0,
            output_tokens=rng.randrange(1, 300),
            dollars=rng.choice([None, 0.1, 0.3, 1e-9, 12345.678]),
            received_at=f"2026-11-01T00:00:00.{number:06}+00:00",
        )
        for number in range(count)
    ]


def fill(out, replies, run_id="run", at_once=9):
    ledger = Ledger(str(out), run_id)
    for at in range(0, len(replies), at_once):
        ledger.append(replies[at : at + at_once])
    ledger.close()


@pytest.fixture
def small(monkeypatch):
    """Everything that is done by the million is done by the dozen."""
    monkeypatch.setattr(index_files, "_LEAST_BYTES", 1)
    monkeypatch.setattr(index, "_ROWS_AT_ONCE", 7)
    monkeypatch.setattr(writing, "_LOCAL_BYTES", 3000)
    monkeypatch.setattr(writing, "_OBJECT_BYTES", 3000)


@pytest.fixture
def node(tmp_path, monkeypatch):
    """The temporary folder of a node."""
    monkeypatch.setattr(index_files.tempfile, "gettempdir", lambda: str(tmp_path / "node"))
    (tmp_path / "node").mkdir()
    return tmp_path / "node"


@pytest.fixture(params=["local", "memory", "local, on Ray"])
def out(request, tmp_path, node, monkeypatch):
    """An output directory, and an output URL."""
    if request.param == "local, on Ray":
        monkeypatch.setenv("RAY_ADDRESS", "a-cluster:6379")
    return f"memory://{uuid.uuid4().hex}" if request.param == "memory" else str(tmp_path / "out")


@pytest.fixture
def no_reading(monkeypatch):
    """A function after whose call no segment is read as a whole."""

    def read(*_args):
        raise AssertionError("a segment is read again")

    return lambda: monkeypatch.setattr(index, "read_segment", read)


def that_count(replies, run_id="", retry=(), limits=None):
    """By key the reply that counts, as the documentation has it."""
    found = {}
    for reply in sorted(replies, key=lambda reply: reply.received_at):
        cut = reply.limit or reply.output_tokens
        if reply.status == "truncated" and cut < (limits or {}).get(reply.judge, 0):
            continue
        if not reply.final or (reply.status in retry and reply.run_id != run_id):
            continue
        if reply.key not in found or found[reply.key].status != "ok":
            found[reply.key] = reply
    return found


def tells_the_truth(out, replies):
    """Whatever is asked of a ledger is answered by these replies."""
    out = str(out)
    keys = sorted({reply.key for reply in replies} | {key("nobody's"), key("nor this")})
    for name, view in VIEWS.items():
        ledger, wanted = Ledger(out, **view), that_count(replies, **view)
        assert ledger.contains(keys) == [each in wanted for each in keys], name
        assert ledger.read([*wanted]) == [*wanted.values()], name
        for each in keys[:20]:
            assert ledger.has(each) == (each in wanted), name
            cuts = [
                reply.limit or reply.output_tokens
                for reply in replies
                if reply.key == each and reply.status == "truncated"
            ]
            assert ledger.cut_at(each) == max(cuts, default=0), name
        with pytest.raises(KeyError):
            ledger.read([*wanted, key("nobody's")])
        ledger.close()
    assert sorted(map(repr, read_rows(out))) == sorted(map(repr, replies))
    paid = sum_paid(out)
    assert sum(each.replies for each in paid.totals.values()) == len(replies)
    for run_id in (None, "run1", "run2"):
        mine = [reply for reply in replies if run_id in (None, reply.run_id)]
        assert paid.unpriced(run_id) == sum(reply.dollars is None for reply in mine)
        for judges in (None, JUDGES[:2]):
            some = [r.dollars or 0.0 for r in mine if judges is None or r.judge in judges]
            assert paid.dollars(run_id, judges) == pytest.approx(math.fsum(some), rel=1e-12)
    dearest = max((r.dollars or 0.0 for r in replies), default=0.0)
    assert paid.damage_dollars == pytest.approx(dearest * sum(d.replies for d in paid.damaged))


def test_every_view_is_what_the_segments_say(out, small, no_reading):
    rng, replies = random.Random(1), []
    for run_id in ("run1", "run2"):
        more = made_up(rng, 200, run_id)
        fill(out, more, run_id)
        replies += more
    tells_the_truth(out, replies)
    update_index(out)
    tells_the_truth(out, replies)
    no_reading()
    ledger = Ledger(out)
    wanted = that_count(replies)
    assert ledger.read([*wanted]) == [*wanted.values()]
    assert sum_paid(out).unpriced() == sum(reply.dollars is None for reply in replies)


def test_a_writer_sees_its_own_replies_and_anothers(out, small):
    replies = made_up(random.Random(3), 150)
    mine, other = Ledger(out, "run"), Ledger(out, "run")
    for at in range(0, 150, 10):
        (mine if at % 20 else other).append(replies[at : at + 10])
        if at % 30 == 0:
            mine.refresh()
            other.refresh()
        if at == 70:
            update_index(out)
    mine.refresh()
    wanted = that_count(replies)
    assert mine.read([*wanted]) == [*wanted.values()]
    assert mine.is_own(replies[0].key)
    mine.close()
    other.close()
    tells_the_truth(out, replies)


# Whatever becomes of the file


@pytest.fixture(scope="module")
def indexed(tmp_path_factory):
    """A ledger with an index."""
    out = tmp_path_factory.mktemp("indexed")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(index_files, "_LEAST_BYTES", 1)
        patch.setattr(writing, "_LOCAL_BYTES", 3000)
        replies = made_up(random.Random(5), 90)
        fill(out, replies[:20], "run1")
        fill(out, replies[20:])
        update_index(str(out))
    return out, replies


def copy(indexed, tmp_path):
    shutil.copytree(indexed[0], tmp_path / "out")
    return tmp_path / "out", indexed[1], tmp_path / "out/replies/_index.sqlite"


def flip(path, rng):
    data = bytearray(path.read_bytes())
    data[rng.randrange(len(data))] ^= 1 << rng.randrange(8)
    path.write_bytes(data)


def cut(path, rng):
    os.truncate(path, rng.randrange(path.stat().st_size))


def empty(path, rng):
    os.truncate(path, 0)


def remove(path, rng):
    path.unlink()


def lose_replies(path, rng):
    with sqlite3.connect(path) as database:
        database.execute("delete from reply where length % 3 = 0")
    database.close()


def exchange(path, rng):
    """As if a backup of another ledger's index had been copied over it."""
    other = path.parents[2] / uuid.uuid4().hex
    fill(other, made_up(rng, 30))
    update_index(str(other))
    path.write_bytes((other / "replies/_index.sqlite").read_bytes())


def lock(path, rng):
    database = sqlite3.connect(path, isolation_level=None)
    database.execute("begin exclusive")
    lock.held = database  # for as long as this process lives


HARMS = [flip, flip, flip, cut, empty, remove, lose_replies, exchange, lock]


@pytest.mark.parametrize(("seed", "harm"), [*enumerate(HARMS)])
def test_a_file_that_is_harmed_is_not_believed(indexed, tmp_path, small, harm, seed):
    out, replies, path = copy(indexed, tmp_path)
    harm(path, random.Random(seed))
    tells_the_truth(out, replies)
    update_index(str(out))
    tells_the_truth(out, replies)


@pytest.mark.parametrize("harm", [cut, empty, remove, exchange])
def test_a_file_that_is_harmed_at_work_costs_only_time(indexed, tmp_path, small, harm):
    out, replies, path = copy(indexed, tmp_path)
    wanted = that_count(replies)
    ledger = Ledger(str(out), "later")
    for each in (*wanted,)[:10]:
        assert ledger.has(each)
    ledger.append([reply_to(key("new"), run_id="later")])
    harm(path, random.Random(1))
    assert ledger.read([*wanted]) == [*wanted.values()]
    assert ledger.contains([key("new"), key("nobody's")]) == [True, False]
    ledger.append([reply_to(key("newer"), run_id="later")])
    ledger.refresh()
    assert ledger.contains([key("newer"), key("new"), *wanted]) == [True] * (2 + len(wanted))
    ledger.close()


def test_threads_that_meet_a_harmed_file_all_wait_for_the_truth(indexed, tmp_path, small):
    out, replies, path = copy(indexed, tmp_path)
    wanted, found = that_count(replies), []
    ledger = Ledger(str(out))
    empty(path, None)
    asking = [
        threading.Thread(target=lambda: found.append(ledger.contains([*wanted]))) for _ in range(8)
    ]
    for thread in asking:
        thread.start()
    for thread in asking:
        thread.join()
    assert found == [[True] * len(wanted)] * 8


def test_a_segment_that_grew_or_changed_is_read_again(indexed, tmp_path):
    out, replies, _ = copy(indexed, tmp_path)
    segments = sorted((out / "replies").glob("*.jsonl"))
    more = replies[0]._replace(key=key("more"), dollars=1.0)
    with segments[0].open("ab") as file:
        file.write(reply_to_line(more))
    lines = segments[1].read_bytes().splitlines(keepends=True)
    segments[1].write_bytes(b"".join(reversed(lines)))  # of the same size
    os.utime(segments[1], (1, 1))
    os.utime(segments[2], (1, 1))
    tells_the_truth(out, [*replies, more])


def test_damage_that_no_date_tells_is_found_when_it_is_read_and_asked_again(indexed, tmp_path):
    out, replies, _ = copy(indexed, tmp_path)
    wanted = that_count(replies)
    each = next(k for k, r in wanted.items() if r.text)
    line = reply_to_line(wanted[each])
    path = next(p for p in (out / "replies").glob("*.jsonl") if line in p.read_bytes())
    was, data = path.stat(), bytearray(path.read_bytes())
    at = data.index(line)
    data[at + 60] ^= 4
    path.write_bytes(data)
    os.utime(path, ns=(was.st_atime_ns, was.st_mtime_ns))
    again = Ledger(str(out))
    assert again.has(each)
    with pytest.raises(LedgerError, match=r"the reply at byte .* has been damaged"):
        again.read([each])
    last = Ledger(str(out))
    assert [(d.segment, d.byte) for d in last.damaged] == [(str(path), at)]
    left = [reply for reply in replies if reply != wanted[each]]
    assert last.has(each) == (each in that_count(left))
    assert sum_paid(str(out)).damaged == last.damaged


def test_damaged_lines_are_in_the_index(indexed, tmp_path, small, no_reading):
    out, _, _ = copy(indexed, tmp_path)
    segment = max((out / "replies").glob("*.jsonl"))
    segment.write_bytes(segment.read_bytes().replace(b'"ok"', b'"no"').replace(b"\n{", b" {", 1))
    before = Ledger(str(out)).damaged, sum_paid(str(out))
    assert sum(each.replies for each in before[0]) > len(before[0]) > 0
    update_index(str(out))
    no_reading()
    assert (Ledger(str(out)).damaged, sum_paid(str(out))) == before


# Where a file cannot be written


@pytest.mark.parametrize("why", ["a link", "open to all"])
def test_a_temporary_folder_that_is_no_good_is_not_used(tmp_path, node, small, why):
    home = node / f"zelo-index-{os.getuid()}"
    (tmp_path / "elsewhere").mkdir()
    if why == "a link":
        home.symlink_to(tmp_path / "elsewhere")
    else:
        home.mkdir()
        home.chmod(0o777)
    replies, out = made_up(random.Random(8), 60), f"memory://{uuid.uuid4().hex}"
    fill(out, replies)
    tells_the_truth(out, replies)
    assert [*tmp_path.rglob("*.sqlite")] == []


@pytest.mark.parametrize("error", [OSError(28, "full"), PermissionError(13, "no"), None])
def test_an_index_that_cannot_be_written_harms_nothing(tmp_path, small, monkeypatch, error):
    replies = made_up(random.Random(6), 60)
    fill(tmp_path, replies)
    monkeypatch.setattr(
        index.Path, "replace", lambda *_: (_ for _ in ()).throw(error or SystemExit)
    )
    if error is None:  # as a kill would
        monkeypatch.setattr(index.Path, "unlink", lambda *_, **__: None)
        with pytest.raises(SystemExit):
            update_index(str(tmp_path))
    else:
        update_index(str(tmp_path))
    monkeypatch.undo()
    assert not (tmp_path / "replies/_index.sqlite").exists()
    tells_the_truth(tmp_path, replies)
    assert len([*(tmp_path / "replies").glob("*.new")]) == (error is None)


# One file a node


def test_segments_of_an_object_store_are_read_once_a_node(s3, small, node, no_reading, monkeypatch):
    replies, out = made_up(random.Random(7), 60), f"{s3}/out"
    fill(out, replies, "first")
    tells_the_truth(out, replies)
    (path,) = node.glob("*/*.sqlite")
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
    fill(out, more := made_up(random.Random(8), 60), "second")
    tells_the_truth(out, replies + more)
    no_reading()
    assert all(Ledger(out).contains([*that_count(replies + more)]))
    monkeypatch.undo()
    monkeypatch.setattr(index_files.tempfile, "gettempdir", lambda: str(node))
    path.write_bytes(b"x" + path.read_bytes()[1:])
    tells_the_truth(out, replies + more)
    (stale := path.with_name("another.sqlite")).touch()
    os.utime(stale, (time.time() - 8 * 86_400,) * 2)
    path.unlink()
    monkeypatch.setattr(index_files, "_LEAST_BYTES", 1)
    tells_the_truth(out, replies + more)
    assert not stale.exists()


_OPEN = """
import sys
from zelo_ray.engine.ledger import Ledger, index_files
index_files._LEAST_BYTES = 1
out, *keys = sys.argv[1:]
assert all(Ledger(out).contains(keys))
"""


def test_processes_that_open_it_at_once_on_a_node_all_see_all(tmp_path, small, monkeypatch):
    replies = made_up(random.Random(12), 200)
    fill(tmp_path / "out", replies)
    (tmp_path / "node").mkdir()
    environ = {**os.environ, "TMPDIR": str(tmp_path / "node"), "RAY_ADDRESS": "a-cluster:6379"}
    command = [sys.executable, "-c", _OPEN, str(tmp_path / "out"), *that_count(replies)]
    processes = [subprocess.Popen(command, env=environ) for _ in range(4)]
    assert [process.wait() for process in processes] == [0] * 4
    assert len([*Path(tmp_path / "node").glob("*/*.sqlite")]) == 1
    assert [*Path(tmp_path / "node").glob("*/*.new")] == []


# Writers


class NoWait:
    """A clock on which nobody waits."""

    def pause(self, seconds):
        pass

    def date(self):
        return 0.0


def dear(numbers):
    """Replies of two kilobytes, a dollar each."""
    return [reply_to(number, "t" * 2000, dollars=1.0) for number in numbers]


def holds(out, count):
    """Whether the next run finds so many replies, and their money, before its claim and after."""
    for _ in range(2):
        assert all(Ledger(out).contains(builders.keys(*range(count))))
        assert sum_paid(out).dollars() == count
        update_index(out)


@pytest.fixture
def store(node):
    return f"memory://{uuid.uuid4().hex}/out"


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
    ledger.refresh()
    assert all(ledger.contains(builders.keys(*range(910))))
    ledger.close()
    holds(store, 910)


def test_a_writer_that_outlives_its_claim_loses_nothing(store, small):
    ledger = Ledger(store, "run", clock=NoWait())
    other = Ledger(store, "other", clock=NoWait())
    other.append(dear(range(400)))
    ledger.append(dear(range(400, 800)))
    update_index(store)  # the next run's, while this one still writes
    ledger.refresh()
    for begin in (800, 1100, 1500, 1900):
        ledger.append(dear(range(begin, {800: 1100, 1900: 1910}.get(begin, begin + 400))))
        assert all(ledger.contains(builders.keys(*range(400, begin))))
    ledger.close()
    holds(store, 1910)


def test_a_look_between_a_write_and_its_noting_counts_no_money_twice(tmp_path, monkeypatch, small):
    ledger, sync = Ledger(str(tmp_path), "run"), writing._sync

    def looked_at(file):
        sync(file)
        looking = threading.Thread(target=ledger.refresh)
        looking.start()
        looking.join()

    monkeypatch.setattr(writing, "_sync", looked_at)
    ledger.append(dear(range(70)))
    monkeypatch.setattr(writing, "_sync", sync)
    ledger.append(dear(range(70, 80)))
    ledger.close()
    holds(str(tmp_path), 80)
