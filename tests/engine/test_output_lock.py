"""One run at a time on one output: locks that die with their process, or a heartbeat."""

import signal
import subprocess
import sys
import threading
from contextlib import contextmanager

import fsspec
import pytest

from zelo_ray.engine import lock as claim_module
from zelo_ray.engine.lock import RUN_LOCK, claim_folder
from zelo_ray.errors import InputError, LockError
from zelo_ray.files.run_record import find_owner

HOLD = """
import sys
from zelo_ray.engine.lock import claim_folder
with claim_folder({out!r}, print):
    print("held", flush=True)
    sys.stdin.read()
"""
WRITE = """
import sys
from pathlib import Path
from zelo_ray.engine.lock import share_writing
share_writing(Path({out!r}))
print("held", flush=True)
sys.stdin.read()
"""


@contextmanager
def process(code, out):
    """A process that holds something until its standard input ends."""
    command = [sys.executable, "-c", code.format(out=str(out))]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    with subprocess.Popen(command, **pipes) as holder:
        try:
            assert holder.stdout.readline() == "held\n"
            yield holder
        finally:
            holder.kill()


def test_a_second_run_is_refused_with_the_name_of_the_first(tmp_path):
    with process(HOLD, tmp_path) as holder:
        with (
            pytest.raises(LockError, match=f"process {holder.pid} on ") as caught,
            claim_folder(str(tmp_path)),
        ):
            raise AssertionError("two runs at once")
        assert str(tmp_path) in str(caught.value)
        holder.communicate("")
        with claim_folder(str(tmp_path)):
            pass


def test_a_run_that_was_killed_holds_nothing(tmp_path):
    with process(HOLD, tmp_path) as holder:
        holder.send_signal(signal.SIGKILL)
        holder.wait()
        with claim_folder(str(tmp_path), say=pytest.fail):
            pass


def test_a_new_run_waits_for_a_writer_that_a_killed_one_left_behind(tmp_path):
    with process(WRITE, tmp_path) as writer:
        said, claimed = [], threading.Event()

        def say(line):
            said.append(line)
            assert not claimed.is_set()
            writer.communicate("")  # only now the writer ends

        with claim_folder(str(tmp_path), say):
            claimed.set()
            assert writer.returncode == 0
        assert said == [f"{tmp_path}: waiting for the workers of an earlier run to end"]


# In an object store


@pytest.fixture
def quick(monkeypatch):
    """Seconds become fractions of them, in about the same proportions."""
    monkeypatch.setattr(claim_module, "_BEAT_SECONDS", 0.02)
    monkeypatch.setattr(claim_module, "_STALE_SECONDS", 6.0)  # a heart may be late by half of it
    sleep = claim_module.time.sleep
    monkeypatch.setattr(claim_module.time, "sleep", lambda seconds: sleep(seconds / 5))


OTHER = b"x 1 process 1 on a"


def state(out):
    fs, path = fsspec.url_to_fs(f"{out}/{RUN_LOCK}")
    return fs.cat_file(path)


def test_in_a_store_a_run_is_refused_while_the_heart_of_the_first_beats(s3, quick):
    out = f"{s3}/out"
    with claim_folder(out):
        said = []
        with (
            pytest.raises(LockError, match=r"in use by another run .process"),
            claim_folder(out, said.append),
        ):
            raise AssertionError("two runs at once")
        assert "sign of life" in said[0]
    with claim_folder(out, say=pytest.fail):
        pass


def test_in_a_store_a_dead_run_is_succeeded_after_a_look(s3, quick):
    out = f"{s3}/out"
    fs, path = fsspec.url_to_fs(f"{out}/{RUN_LOCK}")
    fs.pipe_file(path, OTHER)
    said = []
    with claim_folder(out, said.append):
        assert not state(out).startswith(b"x ")
        assert "was in use by process 1 on a" in said[0]
    assert not fs.exists(path)


def test_in_a_store_of_two_that_succeed_at_once_one_stays(s3, quick):
    out = f"{s3}/out"
    fs, path = fsspec.url_to_fs(f"{out}/{RUN_LOCK}")
    fs.pipe_file(path, OTHER)
    ends, over = [], threading.Event()
    both = threading.Barrier(2)

    def run():
        both.wait()
        try:
            with claim_folder(out, lambda _: None):
                ends.append("held")
                over.wait(10)
        except LockError:
            ends.append("refused")
        over.set()

    runs = [threading.Thread(target=run) for _ in range(2)]
    for each in runs:
        each.start()
    for each in runs:
        each.join()
    assert sorted(ends) == ["held", "refused"]


def test_in_a_store_the_heart_beats_on_after_a_hiccup_of_the_store(s3, quick, monkeypatch):
    out = f"{s3}/out"
    fs, _ = fsspec.url_to_fs(out)
    write, failed = fs.pipe_file, threading.Event()

    def fail_once(*_, **__):
        monkeypatch.setattr(fs, "pipe_file", write)
        failed.set()
        raise OSError("the store is away")

    with claim_folder(out):
        monkeypatch.setattr(fs, "pipe_file", fail_once)
        assert failed.wait(5)
        beat, looks = state(out), 0
        while state(out) == beat and looks < 200:
            looks += 1
        assert looks < 200


def test_in_a_store_a_run_that_lost_its_claim_leaves_that_of_the_other(s3, monkeypatch):
    """As after a laptop's sleep that was long enough to be taken for death."""
    monkeypatch.setattr(claim_module, "_BEAT_SECONDS", 60)
    out = f"{s3}/out"
    fs, path = fsspec.url_to_fs(f"{out}/{RUN_LOCK}")
    with claim_folder(out):
        fs.pipe_file(path, OTHER)
    assert fs.cat_file(path) == OTHER


KINDS = ("annotate", "bakeoff", "agree", "compare", "probe", "label")


@pytest.mark.parametrize("owner", KINDS)
def test_a_folder_belongs_to_one_command(tmp_path, owner):
    for name in ("label.json", "answers.jsonl") if owner == "label" else ("run.json",):
        (tmp_path / name).write_text(f'{{"kind": "{owner}"}}')
        assert [kind for kind in KINDS if not find_owner(str(tmp_path), kind)] == [owner]
        for kind in KINDS:
            if kind != owner:
                with pytest.raises(LockError, match="another --out"):
                    claim_folder(str(tmp_path), kind=kind).__enter__()
        assert [path.name for path in tmp_path.iterdir()] == [name]
        (tmp_path / name).unlink()


def test_results_do_not_go_where_the_labels_lie_that_they_are_made_of(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "contest" / "labels").mkdir(parents=True)
    labels = tmp_path / "contest" / "labels.parquet"
    labels.touch()
    for human in (
        labels,
        "contest/labels.parquet",
        "./contest/../contest/labels.parquet",
        "contest",
    ):
        for out in ("contest", "contest/", tmp_path / "contest"):
            assert find_owner(str(out), "bakeoff", [str(human)])
            with pytest.raises(LockError, match="another --out"):
                claim_folder(str(out), kind="bakeoff", human=str(human)).__enter__()
    assert not find_owner("contest", "bakeoff", ["contest/labels"])  # in a folder of their own
    assert not find_owner("contest", "bakeoff", ["contest/labels.csv"])  # no table of ours
    assert not find_owner("results", "bakeoff", [str(labels)])
    (tmp_path / "contest" / "systems.parquet").touch()
    assert find_owner("contest", "agree", ["contest/systems.parquet"])
    assert not find_owner("contest", "agree", ["contest/labels.csv"])


@pytest.mark.parametrize("data", [b"", b"[1]", b"\xff\xfe"], ids=repr)
def test_a_record_that_is_none_is_not_written_over(tmp_path, data):
    (tmp_path / "run.json").write_bytes(data)
    with (
        pytest.raises(InputError, match=r"run\.json: is not (valid JSON|a JSON object)"),
        claim_folder(str(tmp_path)),
    ):
        pass
