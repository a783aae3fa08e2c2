"""A job leaves the same bytes in this process and on Ray, however it got there."""

import json
import sys

import pytest

from tests.helpers import crash
from tests.helpers.builders import set_in_file
from tests.helpers.jobs import annotate, run_job
from zelo_ray.protocols import PROTOCOLS

ON_ONE_RAY = """
import json, sys
from zelo_ray import cli
from zelo_ray.options import AnnotateOptions
from zelo_ray.ray.session import ray_session

with ray_session(AnnotateOptions(inputs=("in",), out=sys.argv[1])):
    for words in json.loads(sys.argv[2]):
        assert cli.main(words) in (0, 3), words
"""
QUICKLY = ("--mode", "batch", *set_in_file(batch_poll=0.5))


def on_one_ray(environ, folder, *jobs):
    """Run commands on one Ray."""
    told = [crash.with_config([str(word) for word in words], environ) for words in jobs]
    program = [sys.executable, "-c", ON_ONE_RAY, str(folder), json.dumps(told)]
    status, printed = crash.completed(program, environ)
    assert status == 0, printed
    assert "Running on Ray: this process is on it already." in printed


def here(environ, *words):
    status, printed = run_job(environ, *words, "--executor", "local")
    assert status in (0, 3), printed


def results(out):
    """Every file but the ledger's, the page, and what tells times and places."""
    files = {path.name: path for path in out.iterdir() if path.is_file()}
    bytes_ = {n: p.read_bytes() for n, p in files.items() if n.endswith((".parquet", ".jsonl"))}
    summary = json.loads(files["run.json"].read_text())["summary"]
    for changing in ("out", "seconds", "times"):
        summary.pop(changing, None)
    return bytes_ | {"summary": summary}


def asking(pools, out, *flags):
    return ("annotate", pools, "--out", out, *flags)


@pytest.mark.ray
def test_online_in_batches_and_after_a_kill_on_ray(tmp_path):
    """Three blocks of pools; several actors; and a run that Ray began and this process ends."""
    pools, small = tmp_path / "pools.jsonl", tmp_path / "small.jsonl"
    crash.write_pools(pools, 70, 4)
    crash.write_pools(small, 8, 6)
    flags = ("--cycles", "1")
    with crash.fakes(tmp_path) as environ:
        here(environ, *asking(pools, tmp_path / "here", *flags))
        here(environ, *asking(pools, tmp_path / "workers", *flags, "--actors", "3"))
        here(environ, *asking(small, tmp_path / "batch", *QUICKLY))
        on_one_ray(
            *(environ, tmp_path / "ray"),
            asking(pools, tmp_path / "actors", *flags, "--actors", "3"),
            asking(small, tmp_path / "ray-batch", *QUICKLY),
        )
        with crash.held(environ, after=100):
            run = crash.annotate(pools, tmp_path / "killed", environ, *flags, "--executor", "ray")
            before = len(crash.answers(tmp_path))
            crash.await_requests(tmp_path, before + 100, run)
            assert run.poll() is None, crash.finish(run)[1]
            crash.kill_tree(run)
        status, printed = annotate(pools, tmp_path / "killed", environ, *flags)
        assert status == 0, printed
    expected = results(tmp_path / "here")
    assert len(expected) >= 6
    for way in ("workers", "actors"):
        assert results(tmp_path / way) == expected, way
    assert results(tmp_path / "batch") == results(tmp_path / "ray-batch")
    assert crash.outputs(tmp_path / "killed") == crash.outputs(tmp_path / "here")


@pytest.mark.ray
@pytest.mark.nightly
def test_each_protocol(tmp_path):
    jobs = dict[str, tuple]()
    for name in PROTOCOLS:
        documents = 2 if name.startswith(("samre", "baseline")) else 6  # a debate is of two
        pools = tmp_path / f"pools-{documents}.jsonl"
        crash.write_pools(pools, 3, documents)
        jobs[name] = (pools, "--protocol", name)
    jobs["calls"] = (tmp_path / "pools-6.jsonl", "--calls-per-document", "4")
    with crash.fakes(tmp_path) as environ:
        on_ray = [
            asking(pools, tmp_path / f"{name}-ray", *flags)
            for name, (pools, *flags) in jobs.items()
        ]
        on_one_ray(environ, tmp_path / "ray", *on_ray)
        for name, (pools, *flags) in jobs.items():
            here(environ, *asking(pools, tmp_path / name, *flags))
    for name in jobs:
        assert results(tmp_path / name) == results(tmp_path / f"{name}-ray"), name
