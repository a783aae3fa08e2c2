"""What a run that goes on says before it asks anything."""

from collections import Counter

from tests.builders import graded_pools, interrupted, two_speeds
from zelo_ray.commands.annotate import recorded_replies
from zelo_ray.commands.annotate.recorded_replies import (
    RecordedCount,
    WatchWithRecorded,
    count_recorded,
)
from zelo_ray.engine.job import Job, JobLines
from zelo_ray.engine.ledger import read_rows
from zelo_ray.engine.tally import Tally
from zelo_ray.protocols import find_protocol


def job_at(tmp_path, **fields):
    """A job that was interrupted, its input, and what it asks by judge."""
    pools = graded_pools(8)
    out = interrupted(tmp_path, pools, 70, **fields)
    given = (str(tmp_path / "in.jsonl"),)
    options, panel = two_speeds(out, inputs=given, ledger=str(out), **fields)
    planned = Counter()
    for pool in pools:
        planned.update(find_protocol(options.protocol).count(pool, panel, options))
    return Job(options, panel, "again", frozenset()), JobLines(given), planned, out


def test_what_is_known_and_what_is_left_is_counted_request_by_request(tmp_path):
    job, lines, planned, out = job_at(tmp_path)
    there = count_recorded(job, lines, planned)
    held = Counter(row.judge for row in read_rows(str(out)))
    assert there == RecordedCount(dict(held), is_exact=True)
    left = sum(planned.values()) - sum(held.values())
    assert there.describe(planned) == f"{sum(held.values())} answers recorded, {left} missing"


def test_replies_to_other_questions_are_not_known(tmp_path):
    job, lines, planned, _ = job_at(tmp_path)
    options = job.options.model_copy(update={"seed": 99, "instructions": "newer is better"})
    other = Job(options, job.panel, "again", frozenset())
    assert count_recorded(other, lines, planned).describe(planned) == ""


def test_of_a_large_job_the_ledger_is_counted(tmp_path, monkeypatch):
    job, lines, planned, out = job_at(tmp_path)
    monkeypatch.setattr(recorded_replies, "_MOST", 10)
    held = Counter(row.judge for row in read_rows(str(out)))
    there = count_recorded(job, lines, planned)
    assert dict(there.by_judge) == {name: held[name] for name in planned}
    left = sum(planned.values()) - sum(held.values())
    says = f"about {sum(held.values())} answers recorded, about {left} missing"
    assert there.describe(planned) == says
    assert count_recorded(job, lines, dict.fromkeys(planned, 8)).by_judge == dict.fromkeys(
        planned, 8
    )


class Shown:
    """Keeps what a watch was shown."""

    def __init__(self):
        self.say, self.budget, self.last = print, print, {}

    def show(self, tallies, planned):
        self.last = tallies


def test_progress_begins_with_what_is_known_and_never_passes_what_is_planned():
    shown = Shown()
    watch = WatchWithRecorded(shown, {"a": 40})
    watch.show({}, {"a": 100, "b": 100})
    assert shown.last == {"a": Tally(known=40)}
    tally = Tally(known=3, answered=5)
    watch.show({"a": tally, "b": Tally()}, {"a": 100, "b": 100})
    assert shown.last == {"a": Tally(known=40, answered=5), "b": Tally()}
    assert tally.known == 3
    watch.show({"a": Tally(known=40, answered=60)}, {"a": 100})
    assert shown.last["a"].known + shown.last["a"].answered == 100
    watch.show({"a": Tally(known=20, answered=70)}, {"a": 100})
    assert shown.last["a"].known == 30
