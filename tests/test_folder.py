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
from zelo_ray.ray.session import folder_for_ray

HOLD = """
import sys
from zelo_ray.ray.session import folder_for_ray
with folder_for_ray() as folder:
    print(folder, flush=True)
    sys.stdin.read()
"""


@pytest.fixture
def place(tmp_path, monkeypatch):
    """The temporary directory, for this test alone."""
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    return tmp_path


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


def test_what_no_run_holds_or_held_is_left_alone(place):
    (place / "zelo-just-made").mkdir()
    (place / "zelo-file").touch()
    (place / "elsewhere").mkdir()
    (place / "elsewhere/lock").touch()
    (place / "zelo-link").symlink_to(place / "elsewhere")
    with folder_for_ray():
        pass
    assert left_in(place) == ["zelo-file", "zelo-just-made", "zelo-link"]
    assert (place / "elsewhere/lock").exists()


def test_the_folders_of_others_are_left_alone(place):
    if os.geteuid():
        pytest.skip("only root can make a folder another user's")
    theirs = place / "zelo-theirs"
    theirs.mkdir()
    (theirs / "lock").touch()
    os.chown(theirs, 12345, 12345)
    with folder_for_ray():
        pass
    assert left_in(place) == ["zelo-theirs"]


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
