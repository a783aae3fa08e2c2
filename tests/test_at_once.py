"""Ray that starts while the input is read: whatever goes wrong meanwhile, it ends, and one is told.

Ray itself does not start here; what stands for it notes when it began and ended.
"""

import contextlib
import time

import pytest

from tests.builders import line_of, options_of, pool_of
from zelo_ray.commands.annotate import job
from zelo_ray.engine.count_input import count_input
from zelo_ray.engine.job import Timer
from zelo_ray.engine.preflight import will_need_ray
from zelo_ray.errors import InputError, RayUnavailable, Stopped


class Ray:
    """What stands for Ray."""

    def __init__(self, trouble=None):
        self.trouble, self.log = trouble, []

    @contextlib.contextmanager
    def on_ray(self, options, timer):
        if self.trouble:
            raise self.trouble
        self.log.append("began")
        try:
            yield
        finally:
            self.log.append("ended")


class Heard:
    """Notes what is said."""

    def __init__(self, log):
        self.say, self.budget, self.show = log.append, None, None


@pytest.fixture
def start(monkeypatch, tmp_path):
    """Begin at once, on a Ray, with a look at the input."""

    def begin(ray, look):
        monkeypatch.setattr(job, "_on_ray", ray.on_ray)
        monkeypatch.setattr(job, "_ask", lambda plan, *_: ray.log.append(f"asked {plan}"))
        return job._plan_while_ray_starts(
            look, options_of(out=str(tmp_path)), Heard(ray.log), Timer(), None
        )

    return begin


def slow(watch, stopped):
    watch.say("29 queries")
    time.sleep(0.1)
    return "plan"


def fails(watch, stopped):
    raise InputError("the input holds no pool")


def test_what_is_to_be_done_is_found_out_while_ray_starts(start):
    ray = Ray()
    assert start(ray, slow) == ("plan", None)
    assert ray.log == ["began", "29 queries", "asked plan", "ended"]


def test_what_the_input_lacks_is_told_and_ray_ends(start):
    ray = Ray()
    with pytest.raises(InputError, match="no pool"):
        start(ray, fails)
    assert ray.log == ["began", "ended"]


def test_a_ray_that_does_not_start_is_told_of_when_the_input_was_read(start):
    looked = []
    with pytest.raises(RayUnavailable, match="full"):
        start(
            Ray(RayUnavailable("full")), lambda *given, **more: looked.append(slow(*given, **more))
        )
    assert looked == ["plan"]


def test_where_both_go_wrong_the_input_is_told(start):
    with pytest.raises(InputError, match="no pool"):
        start(Ray(RayUnavailable("full")), fails)


def test_an_interrupt_ends_the_census(start, tmp_path):
    ended = []

    def look(watch, stopped):
        while not stopped():
            time.sleep(0.01)
        ended.append(True)

    with pytest.raises(KeyboardInterrupt):
        start(Ray(KeyboardInterrupt()), look)
    assert ended
    (tmp_path / "in.jsonl").write_bytes(line_of(pool_of()))
    with pytest.raises(Stopped):
        count_input([str(tmp_path / "in.jsonl")], {}, str(tmp_path), stopped=lambda: True)


@pytest.mark.parametrize(
    ("line", "left", "plain"),
    [
        (line_of(pool_of()), "", True),
        (b"{", "", False),
        (line_of(pool_of()), "replies/a.jsonl", False),
        (line_of(pool_of()), "batches/a.json", False),
    ],
)
def test_ray_starts_at_once_only_where_it_is_plain_that_it_is_needed(tmp_path, line, left, plain):
    (tmp_path / "in.jsonl").write_bytes(line)
    if left:
        (tmp_path / left).parent.mkdir()
        (tmp_path / left).touch()
    options = options_of(out=str(tmp_path))
    assert will_need_ray(options, [str(tmp_path / "in.jsonl")]) is plain


def test_a_cluster_is_joined_when_the_input_was_read(tmp_path, monkeypatch):
    monkeypatch.setenv("RAY_ADDRESS", "127.0.0.1:1")
    (tmp_path / "in.jsonl").write_bytes(line_of(pool_of()))
    assert not will_need_ray(options_of(out=str(tmp_path)), [str(tmp_path / "in.jsonl")])


def test_what_was_said_is_not_said_again_when_ray_dies_later(tmp_path, monkeypatch):
    def dies(plan, *_):
        raise RayUnavailable("an actor died")

    ray = Ray()
    monkeypatch.setattr(job, "_on_ray", ray.on_ray)
    monkeypatch.setattr(job, "_ask", dies)
    with pytest.raises(RayUnavailable, match="died"):
        job._plan_while_ray_starts(
            slow, options_of(out=str(tmp_path)), Heard(ray.log), Timer(), None
        )
    assert ray.log == ["began", "29 queries", "ended"]
