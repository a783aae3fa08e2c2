"""A ledger whose bytes were changed: what is whole is read as it was, the rest is set aside."""

import random
import zlib

import pytest

from tests.helpers.builders import ask, fill, keys, lines_of, pool_of, reply_to
from tests.helpers.builders import line_of as line_of_pool
from zelo_ray.cli import main
from zelo_ray.engine.job import Job
from zelo_ray.engine.ledger import (
    Damaged,
    Ledger,
    read_rows,
    sum_paid,
    writing,
)
from zelo_ray.engine.ledger.segments import reply_to_line
from zelo_ray.engine.sweeps import ResultsBuilder
from zelo_ray.errors import LedgerError


def segments_of(out):
    return sorted((out / "replies").glob("*.jsonl"))


# Whatever happens to bytes


def flip(data, rng):
    at = rng.randrange(len(data))
    return data[:at] + bytes([data[at] ^ 1 << rng.randrange(8)]) + data[at + 1 :]


def change(data, rng):
    at = rng.randrange(len(data))
    return data[:at] + rng.randbytes(rng.randint(1, 4)) + data[at + 4 :]


def cut(data, rng):
    at = rng.randrange(len(data))
    return data[:at] + data[at + rng.randint(1, 200) :]


def insert(data, rng):
    at = rng.randrange(len(data) + 1)
    return data[:at] + rng.choice([b"\n", b"\r", b"{", b"\0", rng.randbytes(40)]) + data[at:]


def lose_a_newline(data, rng):
    at = rng.choice([i for i, byte in enumerate(data[:-1]) if byte == 10])
    return data[:at] + data[at + 1 :]


def swap(data, rng):
    lines = data.splitlines(keepends=True)
    one, other = rng.sample(range(len(lines)), 2)
    lines[one], lines[other] = lines[other], lines[one]
    return b"".join(lines)


def repeat(data, rng):
    lines = data.splitlines(keepends=True)
    lines.insert(rng.randrange(len(lines) + 1), rng.choice(lines))
    return b"".join(lines)


DAMAGES = [flip, flip, change, cut, insert, lose_a_newline, swap, repeat, None]


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """A ledger of several segments; a few requests have more than one reply."""
    out = tmp_path_factory.mktemp("whole")
    rng = random.Random(0)
    every = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(writing, "_LOCAL_BYTES", 4000)
        for run in ("run1", "run2"):
            replies = [
                reply_to(
                    rng.randrange(6) if i < 10 else 100 + len(every) + i,
                    f'{{"text": "{rng.randbytes(rng.randint(0, 40)).hex()} é\n"}}',
                    rng.choice(["ok", "ok", "failed", "invalid"]),
                    received_at=f"2026-11-01T00:00:{rng.randrange(60):02}.{rng.randrange(999):03}+00:00",
                    dollars=rng.choice([None, 0.001, 0.5]),
                    run_id=run,
                )
                for i in range(30)
            ]
            fill(out, *replies, run_id=run)
            every += replies
    return out, every


def standing(replies):
    """The first good reply of each key, else the last one."""
    found = {}
    for reply in sorted(replies, key=lambda reply: reply.received_at):
        if reply.key not in found or found[reply.key].status != "ok":
            found[reply.key] = reply
    return found


@pytest.mark.parametrize("seed", range(30))
def test_whatever_happens_to_its_bytes_a_ledger_tells_the_truth_or_nothing(whole, tmp_path, seed):
    out, every = whole
    rng = random.Random(seed)
    files = {path.name: path.read_bytes() for path in segments_of(out)}
    assert len(files) > 4
    true = {reply_to_line(reply)[:-1]: reply for reply in every}
    assert true.keys() == {line for data in files.values() for line in data.splitlines()}
    for round_ in range(10):
        harm = DAMAGES[(10 * seed + round_) % len(DAMAGES)]
        name = rng.choice(sorted(files))
        broken = (
            files | {name: harm(files[name], rng)}
            if harm
            else {n: d for n, d in files.items() if n != name}
        )
        place = tmp_path / str(round_) / "replies"
        place.mkdir(parents=True)
        for each, data in broken.items():
            (place / each).write_bytes(data)
        lines = [line for data in broken.values() for line in data.split(b"\n")[:-1]]
        left = [line for line in lines if line in true]
        kept = [true[line] for line in dict.fromkeys(left)]
        ledger = Ledger(str(place.parent))
        wanted = standing(kept)
        assert {reply.key for reply in every if ledger.has(reply.key)} == wanted.keys(), harm
        assert ledger.read(list(wanted)) == list(wanted.values()), harm
        assert len(ledger.damaged) == len(lines) - len(left), harm
        for each in ledger.damaged:
            data = broken[each.segment.rpartition("/")[2]]
            assert data[each.byte :].split(b"\n")[0] not in true
            assert each.byte == 0 or data[each.byte - 1 : each.byte] == b"\n"
        read = list(read_rows(str(place.parent)))
        assert len(read) == len(left)
        assert {row.key for row in read} == {reply.key for reply in kept}
        assert sum_paid(str(place.parent)).damaged == ledger.damaged


def test_what_was_damaged_is_kept_when_it_is_asked_again(tmp_path):
    fill(tmp_path, reply_to(1), reply_to(2))
    (segment,) = segments_of(tmp_path)
    segment.write_bytes(b"x" + segment.read_bytes())
    ledger = Ledger(str(tmp_path), "next")
    assert not ledger.has(*keys(1))
    ledger.append([reply_to(1, "again")])
    assert ledger.read(keys(1, 2)) == [reply_to(1, "again"), reply_to(2)]
    ledger.refresh()
    assert Ledger(str(tmp_path)).damaged == ledger.damaged == [Damaged(str(segment), 0)]
    ledger.close()


@pytest.mark.parametrize("harm", ["flip", "cut", "remove", "exchange"])
def test_bytes_that_change_after_they_were_seen_are_one_line_with_their_place(tmp_path, harm):
    fill(tmp_path, reply_to(1, "one"), reply_to(2, "two"))
    (segment,) = segments_of(tmp_path)
    data = segment.read_bytes()
    first, second = data.splitlines(keepends=True)
    changed = {
        "flip": first + second.replace(b"two", b"owt"),
        "cut": data[:-20],
        "exchange": second + first,  # both are whole, and neither where it was
    }
    ledger = Ledger(str(tmp_path))
    if harm == "remove":
        segment.unlink()
    else:
        segment.write_bytes(changed[harm])
    place = "" if harm == "remove" else f".* at byte {len(first)} "
    with pytest.raises(LedgerError, match=f"{segment.name}.*{place}") as raised:
        ledger.read(keys(2))
    assert "\n" not in str(raised.value)


# Formats


def summed(told):
    """A line with a true checksum; ``told`` is what it holds before it."""
    return told + b',"crc32":"%08x"}\n' % zlib.crc32(told)


@pytest.mark.parametrize("told", [b"[1", b'{"key"', b'{"key":"00"', b"no reply"])
def test_a_line_whose_checksum_is_true_and_that_is_no_reply_is_set_aside(tmp_path, told):
    fill(tmp_path, reply_to(1))
    (segment,) = segments_of(tmp_path)
    whole = segment.read_bytes()
    segment.write_bytes(whole + summed(told))
    ledger = Ledger(str(tmp_path))
    assert ledger.damaged == [Damaged(str(segment), len(whole))]
    assert list(read_rows(str(tmp_path))) == ledger.read(keys(1)) == [reply_to(1)]


@pytest.mark.parametrize("name", ["run-0123abcd-0000.v3.jsonl", "run-0123abcd-0000.jsonl"])
def test_a_segment_of_another_format_is_left_alone_and_named(tmp_path, name):
    segment = tmp_path / "replies" / name
    segment.parent.mkdir()
    segment.write_bytes(b"\x93NEW")
    for use in (Ledger, sum_paid, lambda out: list(read_rows(out))):
        with pytest.raises(LedgerError, match=f"{name}: another version .* name another --out"):
            use(str(tmp_path))
    assert segment.read_bytes() == b"\x93NEW"


# What is said of it, and counted


def test_what_a_damaged_line_cost_counts_as_the_dearest_row(tmp_path):
    fill(tmp_path, *(reply_to(i, dollars=cost) for i, cost in enumerate([0.25, 1.0, None, 0.5])))
    paid = sum_paid(str(tmp_path))
    assert (paid.all_dollars, paid.damage_dollars, paid.unpriced()) == (1.75, 0.0, 1)
    (segment,) = segments_of(tmp_path)
    fill(tmp_path, reply_to(9, dollars=0.125, run_id="mine"))
    lines = segment.read_bytes().splitlines(keepends=True)
    segment.write_bytes(lines[0][1:] + b"".join(lines[1:]))
    paid = sum_paid(str(tmp_path))
    assert (paid.all_dollars, paid.unpriced(), paid.dollars("mine")) == (2.625, 1, 0.125)
    segment.write_bytes(b"".join(lines).replace(b"\n", b" ", 1))  # of two replies is known no more
    assert sum_paid(str(tmp_path)).all_dollars == 0.125 + 0.5 + 2 * 0.5


def test_a_dry_run_tells_damage_and_counts_its_price(tmp_path, capsys):
    (tmp_path / "in.jsonl").write_bytes(line_of_pool(pool_of(range(4))) + b"\n")
    out = tmp_path / "out"
    fill(out, reply_to(1, dollars=2.0), reply_to(2, dollars=0.5))
    (segment,) = segments_of(out)
    segment.write_bytes(segment.read_bytes()[:-2] + b"!\n")
    command = ["annotate", str(tmp_path / "in.jsonl"), "--out", str(out), "--judges", "openai"]
    assert main([*command, "--dry-run", "--max-usd", "4.000001"]) == 0
    printed = " ".join(capsys.readouterr().out.split())
    assert "spent so far $4.00" in printed
    assert "1 damaged line, " in printed
    assert f" asked again: replies/{segment.name} at" in printed
    assert "will exhaust the budget of $4 (--max-usd)" in printed


def test_a_reply_that_is_damaged_while_it_is_settled_is_missing_and_not_fatal(tmp_path):
    pool = pool_of(range(4))
    panel, options = ask([pool], tmp_path, {}, judges=("offline:bm25",)).job
    builder = ResultsBuilder(Job(options, panel, "run", frozenset()), None)
    lines = lines_of([pool])
    assert builder.build(lines)["missing"].to_pylist() == [0]
    (segment,) = segments_of(tmp_path)
    segment.write_bytes(segment.read_bytes().replace(b'"ok"', b'"no"', 1))
    assert builder.build(lines)["missing"].to_pylist() == [1]
