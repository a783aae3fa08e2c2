"""The folder of a private Ray: nobody else's, and gone when its run is, however that ended."""

import os
import signal
import stat
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from tests.crash import ROOT
from zelo_ray.on_ray.folder import folder_for_ray

HOLD = """
import sys
from zelo_ray.on_ray.folder import folder_for_ray
with folder_for_ray() as folder:
    print(folder, flush=True)
    sys.stdin.read()
"""


@pytest.fixture
def place(tmp_path, monkeypatch):
    """The temporary directory, for this test alone."""
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    return tmp_path


def ended():
    """The id of a process that is no more."""
    process = subprocess.Popen(["true"])
    process.wait()
    return process.pid


def of_an_old_version(place, name, *processes):
    """A folder as 0.1.0 left it."""
    folder = place / name
    folder.mkdir(mode=0o777)
    for process in processes:
        logs = folder / f"session_2026-03-01_12-00-00_123456_{process}" / "logs"
        logs.mkdir(parents=True)
        (logs / "raylet.out").write_text("...")
    return folder


def left_in(place):
    return sorted(each.name for each in place.glob("zelo-*"))


def test_nobody_else_may_enter_though_ray_opens_its_own_to_all(place):
    with folder_for_ray() as folder:
        Path(folder).mkdir()
        Path(folder).chmod(0o777)
        (outer,) = place.glob("zelo-*")
        assert Path(folder).is_relative_to(outer)
        assert stat.S_IMODE(outer.stat().st_mode) == 0o700
        session = f"session_2026-03-01_12-00-00_123456_{2**22}"
        beside_tmp = str(Path(folder) / session / "sockets" / "plasma_store")
        assert len(beside_tmp.removeprefix(str(place))) <= 80
    assert left_in(place) == []


def test_what_a_killed_run_left_goes_with_the_next_and_a_live_one_keeps_its_own(place):
    environ = {**os.environ, "TMPDIR": str(place), "PYTHONPATH": str(ROOT)}
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    with subprocess.Popen([sys.executable, "-c", HOLD], env=environ, **pipes) as run:
        held = Path(run.stdout.readline().strip())
        held.mkdir()
        with folder_for_ray() as mine:
            assert held.exists()
        assert not Path(mine).parent.exists()
        run.send_signal(signal.SIGKILL)
        run.wait()
        assert held.exists()
        with folder_for_ray():
            assert len(left_in(place)) == 1
            assert not held.parent.exists()


def test_folders_of_an_old_version_go_when_none_of_their_processes_lives(place):
    of_an_old_version(place, "zelo-dead", ended())
    of_an_old_version(place, "zelo-live", os.getpid())
    of_an_old_version(place, "zelo-both", ended(), os.getpid())
    of_an_old_version(place, "zelo-just-made")
    (place / "zelo-file").touch()
    (place / "zelo-link").symlink_to(of_an_old_version(place, "elsewhere", ended()))
    with folder_for_ray():
        pass
    assert left_in(place) == ["zelo-both", "zelo-file", "zelo-just-made", "zelo-link", "zelo-live"]
    assert (place / "elsewhere").exists()


def test_the_folders_of_others_are_left_alone(place):
    if os.geteuid():
        pytest.skip("only root can make a folder another user's")
    theirs = of_an_old_version(place, "zelo-theirs", ended())
    locked = place / "zelo-locked"
    locked.mkdir()
    (locked / "lock").touch()
    for folder in (theirs, locked):
        os.chown(folder, 12345, 12345)
    with folder_for_ray():
        pass
    assert left_in(place) == ["zelo-locked", "zelo-theirs"]


def test_runs_that_start_at_the_same_moment_do_not_hurt_each_other(place):
    runs, rounds, gone = 4, 60, []
    together = threading.Barrier(runs)

    def run():
        for _ in range(rounds):
            together.wait(60)
            with folder_for_ray() as folder:
                try:
                    Path(folder).mkdir()
                    (Path(folder).parent / "lock").stat()
                except FileNotFoundError:
                    gone.append(folder)

    threads = [threading.Thread(target=run) for _ in range(runs)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    assert gone == []
    assert left_in(place) == []
