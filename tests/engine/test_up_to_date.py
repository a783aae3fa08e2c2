"""Results that stand: a run that was made of the same and finds all it left has nothing to do."""

import json
import os
from dataclasses import asdict, replace

import pytest

from tests.helpers.builders import PANEL, line_of, options_of, pool_of, results_of
from zelo_ray.engine.run_fingerprint import KEY, RunFingerprint
from zelo_ray.files.storage import write_json
from zelo_ray.reasons import Disabled, StopReason
from zelo_ray.records import Judge


@pytest.fixture
def shard(tmp_path):
    path = tmp_path / "in.jsonl"
    path.write_bytes(line_of(pool_of()))
    return path


def standing(tmp_path, panel=PANEL, **fields):
    options = options_of(out=str(tmp_path / "out"), **fields)
    return RunFingerprint(options, panel, [str(tmp_path / "in.jsonl")])


@pytest.fixture
def out(tmp_path, shard):
    """A directory that a run has left behind."""
    begun = standing(tmp_path)
    out = tmp_path / "out"
    summary = replace(results_of(out, [pool_of()]), dollars=1.5, dollars_in_all=1.5)
    for folder in ("replies", "batches"):
        (out / folder).mkdir()
    (out / "replies/a.jsonl").write_bytes(b"")
    write(out, summary, begun.to_record(summary))
    return out


def write(out, summary, told, *, finished=True):
    record = {"finished": finished, "summary": asdict(summary), KEY: told}
    write_json(str(out), "run.json", record)


def test_a_run_finds_what_it_left_and_has_spent_nothing(tmp_path, out):
    (out / "report.html").write_text("which is written after the record")
    (out / "replies" / "a.index").write_text("which may be made at any time")
    found = standing(tmp_path).read_current_summary()
    assert found.up_to_date
    assert (found.queries, found.dollars, found.dollars_in_all) == (1, 0.0, 1.5)
    (found.seconds, found.dollars, found.up_to_date) = ({}, 1.5, False)
    told = json.loads((out / "run.json").read_text())["summary"]
    assert json.loads(json.dumps(asdict(found))) == told


FILES = {
    "a reply was added": "replies/a.jsonl",
    "a batch was heard of": "batches/b.json",
    "a table was written": "scores.parquet",
    "the lines were written": "annotated.jsonl",
    "the input has another byte": "../in.jsonl",
}


@pytest.mark.parametrize("what", FILES)
def test_a_byte_more_is_a_change(tmp_path, out, what):
    with (out / FILES[what]).open("ab") as file:
        file.write(b"\n")
    assert standing(tmp_path).read_current_summary() is None


@pytest.mark.parametrize("name", ["replies/a.jsonl", "scores.parquet", "failures.parquet"])
def test_a_file_that_was_touched_or_is_gone_is_a_change(tmp_path, out, name):
    seen = (out / name).stat()
    os.utime(out / name, ns=(seen.st_atime_ns, seen.st_mtime_ns + 1))
    assert standing(tmp_path).read_current_summary() is None
    os.utime(out / name, ns=(seen.st_atime_ns, seen.st_mtime_ns))
    assert standing(tmp_path).read_current_summary()
    (out / name).unlink()
    assert standing(tmp_path).read_current_summary() is None


@pytest.mark.parametrize(
    "fields",
    [{"seed": 1}, {"cycles": 3}, {"min_coverage": 0.4}, {"retry_failures": True}, {"pilot": 1}],
)
def test_other_options_are_a_change(tmp_path, out, fields):
    assert standing(tmp_path, **fields).read_current_summary() is None


def test_another_panel_is_a_change(tmp_path, out):
    judge = replace(PANEL[0], options={**PANEL[0].options, "temperature": 0.7})
    assert standing(tmp_path, (judge, *PANEL[1:])).read_current_summary() is None
    assert standing(tmp_path, PANEL[:1]).read_current_summary() is None


def test_code_of_the_users_own_is_always_in_doubt(tmp_path, out):
    panel = (Judge("mine.py:PROVIDER", "m"),)
    begun = standing(tmp_path, panel)
    summary = results_of(out, [pool_of()])
    assert begun.to_record(summary) is None
    write(out, summary, begun.to_record(summary))
    assert standing(tmp_path, panel).read_current_summary() is None


def test_a_run_that_did_not_end_does_not_stand(tmp_path, out, shard):
    summary = results_of(out, [pool_of()])
    told = standing(tmp_path).to_record(summary)
    write(out, summary, told, finished=False)
    assert standing(tmp_path).read_current_summary() is None
    write(out, summary, told)
    assert standing(tmp_path).read_current_summary()
    write(out, summary, None)
    assert standing(tmp_path).read_current_summary() is None


@pytest.mark.parametrize(("status", "stands"), [("refused", True), ("failed", False)])
def test_a_failure_that_would_be_asked_again_is_in_doubt(tmp_path, shard, status, stands):
    def say(request):
        return status

    summary = results_of(tmp_path / "out", [pool_of()], say)
    assert summary.failures
    assert bool(standing(tmp_path).to_record(summary)) is stands


@pytest.mark.parametrize(
    "fields",
    [
        {"disabled": {"a": Disabled(StopReason.FATAL, "why")}},
        {"damaged": 1},
        {"maybe_dollars": 0.1},
        {"missing": 1},
    ],
)
def test_what_is_not_whole_is_in_doubt(tmp_path, shard, fields):
    summary = results_of(tmp_path / "out", [pool_of()])
    assert standing(tmp_path).to_record(replace(summary, **fields)) is None
