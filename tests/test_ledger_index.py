"""The index beside a ledger: it says what the segments say, or nothing, whatever became of it."""

import os
import random
import shutil
import time

import fsspec
import pytest

from tests.builders import reply_to
from zelo_ray.engine import ledger as ledgers
from zelo_ray.engine.ledger import (
    Ledger,
    index_upkeep,
    ledger_index,
    read_rows,
    sum_paid,
    sum_spent,
    table,
    table_file,
    update_index,
    writing,
)
from zelo_ray.engine.ledger.segments import reply_to_line
from zelo_ray.errors import LedgerError

JUDGES = ("openai:one", "anthropic:two", "gemini:drei é")
STATUSES = ("ok", "ok", "ok", "failed", "invalid", "refused", "truncated")


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
            output_tokens=rng.randrange(300),
            dollars=rng.choice([None, 0.1, 0.3, 1e-9, 12345.678]),
            received_at=f"2026-11-01T00:00:00.{number:06}+00:00",
        )
        for number, _ in enumerate(range(count))
    ]


def fill(out, replies, run_id="run", at_once=9):
    ledger = Ledger(str(out), run_id)
    for at in range(0, len(replies), at_once):
        ledger.append(replies[at : at + at_once])
    ledger.close()


@pytest.fixture
def small(monkeypatch):
    """Everything that is done by the million is done by the dozen."""
    monkeypatch.setattr(index_upkeep, "_LEAST_BYTES", 1)
    monkeypatch.setattr(index_upkeep, "_SMALL", 20)
    monkeypatch.setattr(ledger_index, "_TABLE_BYTES", 10_000)
    monkeypatch.setattr(writing, "_LOCAL_BYTES", 3000)
    monkeypatch.setattr(writing, "_OBJECT_BYTES", 3000)
    monkeypatch.setattr(table, "_CHUNK_ROWS", 16)


@pytest.fixture(params=["local", "memory"])
def out(request, tmp_path, monkeypatch):
    """An output directory, and an output URL."""
    monkeypatch.setattr(table_file.tempfile, "gettempdir", lambda: str(tmp_path))
    return str(tmp_path / "out") if request.param == "local" else f"memory://{tmp_path.name}"


VIEWS = {
    "all": {},
    "a run's": {"run_id": "run2"},
    "retried": {"retry": ("failed", "invalid")},
    "a run's, retried": {"run_id": "run1", "retry": ("failed", "refused")},
    "raised": {"limits": {JUDGES[0]: 150, JUDGES[2]: 10**6}},
    "of a judge": {"judges": [JUDGES[2]]},
    "of two": {"judges": JUDGES[:2], "retry": ("truncated",), "limits": {JUDGES[0]: 150}},
}


def standing(replies, run_id="", retry=(), limits=None, judges=None):
    """By key the reply that counts, as the documentation has it."""
    found = {}
    for reply in sorted(replies, key=lambda reply: reply.received_at):
        cut = reply.limit or reply.output_tokens
        if reply.status == "truncated" and cut < (limits or {}).get(reply.judge, 0):
            continue
        if not reply.final or (reply.status in retry and reply.run_id != run_id):
            continue
        if judges is not None and reply.judge not in judges:
            continue
        if reply.key not in found or found[reply.key].status != "ok":
            found[reply.key] = reply
    return found


def opened(out, run_id="", **view):
    """A ledger that is only looked at, also by a run that might write."""
    ledger = Ledger(out, **view)
    ledger._run_id = run_id
    of = {"limited": bool(ledger._limits), "judges": ledger._judges, "run_id": ""}
    ledger._known = ledger_index.LedgerIndex(ledger._fs, ledger._folder, ledger._counts, **of)
    ledger._index = ledger._known.index
    ledger.refresh()
    return ledger


def tells_the_truth(out, replies):
    """Whatever is asked of a ledger is answered by these replies, to whoever asks."""
    keys = sorted({reply.key for reply in replies} | {key("nobody's"), key("nor this")})
    for name, view in VIEWS.items():
        ledger, wanted = opened(out, **view), standing(replies, **view)
        assert ledger.contains(keys) == [each in wanted for each in keys], name
        assert [ledger.has(each) for each in keys] == ledger.contains(keys), name
        assert len(ledger) == len(wanted), name
        there = sorted(wanted)
        assert ledger.read(there) == [wanted[each] for each in there], name
        assert [ledger.read([each])[0] for each in there[:5]] == [wanted[k] for k in there[:5]]
        for each in keys[:9]:
            mine = each in wanted and wanted[each].run_id == view.get("run_id", "")
            assert ledger.is_own(each) == mine, name
        for each in keys if "judges" not in view else ():
            cuts = [
                reply.limit or reply.output_tokens
                for reply in replies
                if reply.key == each and reply.status == "truncated"
            ]
            assert ledger.cut_at(each) == max(cuts, default=0), name
        with pytest.raises(KeyError):
            ledger.read([*there[:3], key("nobody's")])
    assert sorted(map(repr, read_rows(out))) == sorted(map(repr, replies))
    spent_is_right(out, replies)


def spent_is_right(out, replies):
    seen = []
    assert sum_spent(out, "run1") == sum_spent(out, "run1", seen.append)
    assert sorted(map(repr, seen)) == sorted(map(repr, replies))
    paid = sum_paid(out)
    assert sum(each.rows for each in paid.totals.values()) == len(replies)
    for run_id in (None, "run1", "run2"):
        mine = [reply for reply in replies if run_id in (None, reply.run_id)]
        assert paid.unpriced(run_id) == sum(reply.dollars is None for reply in mine)
        for judges in (None, JUDGES[:2]):
            some = [r.dollars or 0.0 for r in mine if judges is None or r.judge in judges]
            assert paid.dollars(run_id, judges) == ledgers.spending.fsum(some)


def index_of(out):
    fs, folder = ledgers.folder_of(out)
    found = fs.find(f"{folder}/_index") if fs.exists(f"{folder}/_index") else []
    return [f"{fs.unstrip_protocol(name)}" for name in found]


@pytest.fixture
def no_parsing(monkeypatch):
    """A function after whose call no segment is read as a whole."""

    def refuse():
        def read(*_args):
            raise AssertionError("a segment is read again")

        for module in (ledger_index, ledgers.spending, index_upkeep):
            monkeypatch.setattr(module, "lines_of", read)

    return refuse


def test_views_of_one_index_are_what_the_segments_say(out, small, no_parsing, monkeypatch):
    rng = random.Random(1)
    replies = []
    for run_id in ("run1", "run2"):
        more = made_up(rng, 200, run_id)
        fill(out, more, run_id)
        replies += more
    assert len(index_of(out)) >= 2
    tells_the_truth(out, replies)
    update_index(out)
    update_index(out)
    assert 1 <= len(index_of(out)) <= 2
    keys = sorted({reply.key for reply in replies})
    wanted = standing(replies)
    no_parsing()
    ledger = Ledger(out)
    assert ledger.contains(keys) == [each in wanted for each in keys]
    assert sum_paid(out).unpriced() == sum(reply.dollars is None for reply in replies)
    monkeypatch.undo()
    tells_the_truth(out, replies)


def test_a_killed_writer_leaves_no_index_and_the_next_run_makes_it(tmp_path, small, no_parsing):
    replies = made_up(random.Random(2), 100)
    ledger = Ledger(str(tmp_path), "run")
    for reply in replies:
        ledger.append([reply])
    left = index_of(str(tmp_path))
    os.close(ledger._writer._file)  # as a kill would
    tells_the_truth(str(tmp_path), replies)
    assert index_of(str(tmp_path)) == left
    update_index(str(tmp_path))
    no_parsing()
    assert len(Ledger(str(tmp_path))) == len(standing(replies))


def test_one_writer_sees_anothers_segments_and_its_tables(out, small):
    rng = random.Random(3)
    replies = made_up(rng, 150)
    mine, other = Ledger(out, "run"), Ledger(out, "run")
    for at in range(0, 150, 10):
        (mine if at % 20 else other).append(replies[at : at + 10])
        if at % 30 == 0:
            mine.refresh()
            other.refresh()
    mine.refresh()
    wanted = standing(replies)
    assert mine.read(sorted(wanted)) == [wanted[each] for each in sorted(wanted)]
    assert len(mine) == len(wanted)
    assert index_of(out)
    held = sum(len(seen.table) for seen in mine._index._own) + len(mine._index.draft)
    assert held < 100  # the rest is mapped
    mine.close()
    other.close()
    tells_the_truth(out, replies)


def test_many_replies_do_not_stay_in_the_draft(tmp_path, monkeypatch):
    monkeypatch.setattr(ledgers.ledger_index, "_DRAFT_ROWS", 10)
    replies = made_up(random.Random(4), 205)
    ledger = Ledger(str(tmp_path), "run")
    ledger.append(replies)
    assert len(ledger._index.draft) <= 10
    assert len(ledger._index._own) < 8
    wanted = standing(replies)
    assert ledger.read(sorted(wanted)) == [wanted[each] for each in sorted(wanted)]
    ledger.close()


# Whatever becomes of it


def flip(path, rng):
    data = bytearray(path.read_bytes())
    data[rng.randrange(len(data))] ^= 1 << rng.randrange(8)
    path.write_bytes(data)


def cut(path, rng):
    path.write_bytes(path.read_bytes()[: rng.randrange(path.stat().st_size)])


def grow(path, rng):
    path.write_bytes(path.read_bytes() + rng.randbytes(rng.randint(1, 99)))


def empty(path, rng):
    path.write_bytes(b"")


def remove(path, rng):
    path.unlink()


def of_another_version(path, rng):
    path.write_bytes(path.read_bytes().replace(b"zelo index 1", b"zelo index 2", 1))


def a_folder(path, rng):
    path.unlink()
    path.mkdir()


@pytest.fixture(scope="module")
def indexed(tmp_path_factory):
    """A ledger with an index of several tables."""
    out = tmp_path_factory.mktemp("indexed")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(index_upkeep, "_LEAST_BYTES", 1)
        patch.setattr(index_upkeep, "_SMALL", 1)
        patch.setattr(ledger_index, "_TABLE_BYTES", 5000)
        patch.setattr(writing, "_LOCAL_BYTES", 3000)
        replies = made_up(random.Random(5), 90)
        fill(out, replies[:20], "run1")
        fill(out, replies[20:])
    return out, replies


def copied(indexed, tmp_path):
    shutil.copytree(indexed[0], tmp_path / "out")
    tables = sorted((tmp_path / "out/replies/_index").iterdir())
    assert len(tables) > 1
    return tmp_path / "out", indexed[1], tables


HARMS = [*[flip] * 6, cut, cut, grow, empty, remove, of_another_version, a_folder]


@pytest.mark.parametrize(("seed", "harm"), [*enumerate(HARMS)])
def test_an_index_that_is_harmed_is_not_believed(indexed, tmp_path, small, harm, seed):
    out, replies, tables = copied(indexed, tmp_path)
    rng = random.Random(seed)
    harm(rng.choice(tables), rng)
    wanted = standing(replies)
    for _ in range(2):
        ledger = Ledger(str(out))
        assert ledger.read(sorted(wanted)) == [wanted[each] for each in sorted(wanted)]
        assert len(ledger) == len(wanted)
        spent_is_right(str(out), replies)
        update_index(str(out))
    tables = list((out / "replies/_index").glob("*.index"))
    assert tables or harm is a_folder


def test_an_index_of_other_segments_is_not_believed(indexed, tmp_path, small):
    out, _, _ = copied(indexed, tmp_path)
    for segment in (out / "replies").glob("*.jsonl"):
        segment.unlink()
    assert len(Ledger(str(out))) == 0
    assert sum_spent(str(out)).dollars == 0
    update_index(str(out))
    assert list((out / "replies/_index").iterdir()) == []


def test_a_segment_that_grew_or_changed_is_read_again(indexed, tmp_path):
    out, replies, _ = copied(indexed, tmp_path)
    segments = sorted((out / "replies").glob("*.jsonl"))
    more = replies[0]._replace(key=key("more"), dollars=1.0)
    with segments[0].open("ab") as file:
        file.write(reply_to_line(more))
    lines = segments[1].read_bytes().splitlines(keepends=True)
    segments[1].write_bytes(b"".join(reversed(lines)))  # of the same size
    os.utime(segments[1], (1, 1))
    os.utime(segments[2], (1, 1))
    tells_the_truth(str(out), [*replies, more])


def test_a_copy_whose_files_have_other_times_is_read_again(indexed, tmp_path, small, no_parsing):
    out, replies, _ = copied(indexed, tmp_path)
    for segment in (out / "replies").glob("*.jsonl"):
        os.utime(segment, (7, 7))
    wanted = standing(replies)
    assert Ledger(str(out)).contains(sorted(wanted)) == [True] * len(wanted)
    update_index(str(out))
    no_parsing()
    assert Ledger(str(out)).contains(sorted(wanted)) == [True] * len(wanted)


def test_damage_that_no_date_tells_is_found_when_it_is_read_and_asked_again(
    indexed, tmp_path, monkeypatch
):
    out, replies, _ = copied(indexed, tmp_path)
    wanted = standing(replies)
    ledger = Ledger(str(out))
    place = ledger._current_place(each := next(k for k, r in wanted.items() if r.text))
    path = out / "replies" / place.segment
    was = path.stat()
    data = bytearray(path.read_bytes())
    data[place.offset + 60] ^= 4
    path.write_bytes(data)
    os.utime(path, ns=(was.st_atime_ns, was.st_mtime_ns))
    again = Ledger(str(out))
    assert again.has(each)
    with pytest.raises(LedgerError, match=r"the reply at byte .* has been damaged"):
        again.read([each])
    for forget in (False, True):  # in this process, and in another
        if forget:
            monkeypatch.setattr(index_upkeep, "_DOUBTED", set())
        last = Ledger(str(out))
        assert [(d.segment, d.byte) for d in last.damaged] == [(str(path), place.offset)]
        left = [reply for reply in replies if reply_to_line(reply) in {*_lines(out)}]
        assert len(left) == len(replies) - 1
        assert last.has(each) == (each in standing(left))
        assert sum_spent(str(out)).damaged == last.damaged


def _lines(out):
    for path in (out / "replies").glob("*.jsonl"):
        yield from path.read_bytes().splitlines(keepends=True)


def test_damaged_lines_are_in_the_index(indexed, tmp_path, small, no_parsing):
    out, _, _ = copied(indexed, tmp_path)
    segment = max((out / "replies").glob("*.jsonl"))
    segment.write_bytes(segment.read_bytes().replace(b'"ok"', b'"no"').replace(b"\n{", b" {", 1))
    before = Ledger(str(out)).damaged, sum_spent(str(out), "run1")
    assert sum(each.replies for each in before[0]) > len(before[0]) > 0
    update_index(str(out))
    no_parsing()
    assert (Ledger(str(out)).damaged, sum_spent(str(out), "run1")) == before


@pytest.mark.parametrize("why", ["full", "read-only", "killed"])
def test_an_index_that_cannot_be_written_harms_nothing(tmp_path, small, monkeypatch, why):
    replies = made_up(random.Random(6), 60)
    error = {"full": OSError(28, "full"), "read-only": PermissionError(13, "no")}.get(why)

    def fail(*_args):
        raise error or KeyboardInterrupt

    monkeypatch.setattr(table_file.os, "pwrite", fail)
    if why == "killed":
        monkeypatch.setattr(table_file.Path, "unlink", lambda *_, **__: None)
        with pytest.raises(KeyboardInterrupt):
            fill(tmp_path, replies)
    else:
        fill(tmp_path, replies)
        update_index(str(tmp_path))
    monkeypatch.undo()
    left = [path.suffix for path in (tmp_path / "replies/_index").iterdir()]
    assert left == ([".new"] if why == "killed" else [])
    there = list(read_rows(str(tmp_path)))
    tells_the_truth(str(tmp_path), there)
    update_index(str(tmp_path))
    monkeypatch.setattr(index_upkeep, "_LEAST_BYTES", 1)
    update_index(str(tmp_path))
    assert [path.suffix for path in (tmp_path / "replies/_index").iterdir()] == [".index"]


def test_two_who_make_the_index_at_once_harm_nothing(indexed, tmp_path, small, monkeypatch):
    """The second finds tables gone that it has listed, at each place where it looks."""
    out, replies, tables = copied(indexed, tmp_path)
    for each in tables:
        look = index_upkeep.list_folder

        def gone(fs, folder, each=each, look=look):
            found = look(fs, folder)
            each.unlink(missing_ok=True)
            return found

        monkeypatch.setattr(index_upkeep, "list_folder", gone)
        monkeypatch.setattr(ledger_index, "list_folder", gone)
        ledger = Ledger(str(out))
        assert len(ledger) == len(standing(replies))
        update_index(str(out))
        monkeypatch.setattr(index_upkeep, "list_folder", look)
        monkeypatch.setattr(ledger_index, "list_folder", look)
    update_index(str(out))
    tells_the_truth(str(out), replies)


def test_two_keys_that_end_alike_are_two(tmp_path, small):
    """In their last 64 bits; the next 16 tell them apart."""
    one, two = "00" * 6 + "0001" + "ab" * 8, "00" * 6 + "0002" + "ab" * 8
    fill(tmp_path, [reply_to(one, "one"), reply_to(two, "two")])
    for _ in range(2):
        ledger = Ledger(str(tmp_path))
        assert [r.text for r in ledger.read([two, one, one])] == ["two", "one", "one"]
        assert ledger.contains([one, "00" * 6 + "0003" + "ab" * 8, two]) == [True, False, True]
        update_index(str(tmp_path))


def test_two_keys_that_are_taken_for_one_are_an_error_and_no_wrong_answer(tmp_path):
    one, two = "00" * 16, "01" + "00" * 15
    fill(tmp_path, [reply_to(one, "one")])
    with pytest.raises(LedgerError, match="damaged"):
        Ledger(str(tmp_path)).read([two])


def test_tables_of_an_object_store_are_fetched_once_to_a_node(
    s3, small, tmp_path, monkeypatch, no_parsing
):
    monkeypatch.setattr(table_file.tempfile, "gettempdir", lambda: str(tmp_path))
    replies = made_up(random.Random(7), 60)
    fill(f"{s3}/out", replies)
    shutil.rmtree(*tmp_path.glob("zelo-index-*"))
    fs, _ = fsspec.url_to_fs(s3)
    fetched, fetch = [], fs.get_file
    no_parsing()
    monkeypatch.setattr(fs, "get_file", lambda *args: fetched.append(args) or fetch(*args))
    for _ in range(3):
        assert len(Ledger(f"{s3}/out")) == len(standing(replies))
    assert len(fetched) == len(index_of(f"{s3}/out"))
    (shelf,) = tmp_path.glob("zelo-index-*")
    assert shelf.stat().st_mode & 0o77 == 0
    for path in shelf.glob("*/*"):
        path.write_bytes(b"x" + path.read_bytes()[1:])  # damaged here: it is fetched again
    assert len(Ledger(f"{s3}/out")) == len(Ledger(f"{s3}/out")) == len(standing(replies))
    for path in shelf.glob("*/*"):
        os.utime(path, (time.time() - 8 * 86_400,) * 2)
    table_file.drop_stale()
    assert list(shelf.glob("*/*")) == []


def test_a_shelf_of_somebody_else_is_not_used(s3, small, tmp_path, monkeypatch):
    monkeypatch.setattr(table_file.tempfile, "gettempdir", lambda: str(tmp_path))
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / f"zelo-index-{os.getuid()}").symlink_to(tmp_path / "elsewhere")
    replies = made_up(random.Random(8), 20)
    fill(f"{s3}/out", replies)
    assert len(Ledger(f"{s3}/out")) == len(standing(replies))
    assert list((tmp_path / "elsewhere").iterdir()) == []
