"""Finish a job without Ray, if every reply is recorded; count the recorded ones."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from zelo_ray.engine.batch.parts import Parts
from zelo_ray.engine.bookkeeping import open_ledger
from zelo_ray.engine.build_results import build_results_from_steps
from zelo_ray.engine.job import POOLS_AT_ONCE, Watch
from zelo_ray.engine.ledger import Ledger, sum_paid
from zelo_ray.engine.tally import Tally
from zelo_ray.engine.write_results import Summary, write_results
from zelo_ray.formats.pools import Line, LineLimits, read_lines
from zelo_ray.options import AnnotateOptions
from zelo_ray.protocols import Learned, Step, advance, load_protocol
from zelo_ray.ray.dataset import Job
from zelo_ray.records import Judge, Reply

_MOST = 20_000  # planned requests; reading more takes longer than starting Ray
RecordedSteps = Sequence[tuple[Line, Step]]
"""Each valid line, with the protocol's last step."""


class UsableReplies:
    """The ledger as the clients see it: replies that will be asked for again are missing.

    Replies that are present are read as for building judgments.
    """

    def __init__(self, options: AnnotateOptions, panel: Sequence[Judge]) -> None:
        self._there = open_ledger(options, panel)
        self._all = Ledger(options.ledger_dir)

    def __len__(self) -> int:
        return len(self._there)

    def contains(self, keys: Sequence[str]) -> list[bool]:
        """Return, by key, whether its reply is recorded."""
        return self._there.contains(keys)

    def read(self, keys: Sequence[str]) -> list[Reply]:
        """Read the replies of these keys."""
        return self._all.read(keys)


def is_worth_reading(ledger_dir: str, planned: Mapping[str, int]) -> bool:
    """Return whether reading the ledger is worth it: a small job without open batches."""
    lying = any(part.is_open and part.judge in planned for part in Parts(ledger_dir))
    return sum(planned.values()) <= _MOST and not lying


def read_all_recorded(
    job: Job, shards: Sequence[str], planned: Mapping[str, int]
) -> RecordedSteps | None:
    """Return the results of the whole job; None if a reply is missing.

    Args:
        job: the job.
        shards: the files of the input.
        planned: requests by judge.
    """
    if not is_worth_reading(job.options.ledger_dir, planned):
        return None
    replies = UsableReplies(job.options, job.panel)
    if not len(replies):
        return None
    protocol, steps = load_protocol(job.options.protocol), list[tuple[Line, Step]]()
    for line in (line for shard in shards for line in read_lines(shard, LineLimits())):
        if line.pool and job.includes(line):
            step = advance(protocol.rounds(line.pool, job.panel, job.options), replies)
            if step.missing:
                return None
            steps.append((line, step))
    return steps


@dataclass(frozen=True, slots=True)
class RecordedCount:
    """Number of requests of a job whose replies are recorded.

    Attributes:
        by_judge: by name.
        is_exact: whether they were looked up one by one. Otherwise all replies of the ledger are
            counted, which may include those of other questions.
    """

    by_judge: Mapping[str, int]
    is_exact: bool

    def describe(self, planned: Mapping[str, int]) -> str:
        """Say how many are recorded and how many are left; empty if none is recorded."""
        answers = sum(self.by_judge.values())
        about = "" if self.is_exact else "about "
        requests = max(0, sum(planned.values()) - answers)
        return f"{about}{answers:,} answers recorded, {about}{requests:,} to ask" if answers else ""


def count_recorded(job: Job, shards: Sequence[str], planned: Mapping[str, int]) -> RecordedCount:
    """Count the requests whose replies are recorded, before anything is asked.

    Args:
        job: the job.
        shards: the files of the input.
        planned: requests by judge.
    """
    if sum(planned.values()) > _MOST:
        rows = Counter[str]()
        for (_, name), total in sum_paid(job.options.ledger_dir).totals.items():
            rows[name] += total.rows
        by_judge = {name: min(rows[name], limit) for name, limit in planned.items()}
        return RecordedCount(by_judge, is_exact=False)
    replies, counts = UsableReplies(job.options, job.panel), Counter[str]()
    rounds = load_protocol(job.options.protocol).rounds
    held = shards if len(replies) else ()
    for line in (line for shard in held for line in read_lines(shard, LineLimits())):
        if line.pool and job.includes(line):
            step = advance(rounds(line.pool, job.panel, job.options), replies)
            counts.update(step.reply_counts)
    return RecordedCount(dict(counts), is_exact=True)


class WatchWithRecorded:
    """Shows progress that starts at the recorded replies, which actors only find one by one.

    Args:
        watch: gets messages and progress.
        known: recorded replies, by judge.
    """

    def __init__(self, watch: Watch, known: Mapping[str, int]) -> None:
        self.say, self.budget = watch.say, watch.budget
        self._watch, self._known = watch, known

    def show(self, tallies: Mapping[str, Tally], planned: Mapping[str, int]) -> None:
        """Show progress by judge, counting at least the recorded replies."""
        for name, looked_up in self._known.items():
            tally = tallies.get(name, Tally())
            room = planned.get(name, 0) - tally.answered - tally.spared
            count = max(tally.known, min(looked_up, room))
            tallies = {**tallies, name: replace(tally, known=count)}
        self._watch.show(tallies, planned)


def write_recorded(job: Job, recorded: RecordedSteps, learned: Learned | None = None) -> Summary:
    """Write the results, the same bytes as a run on Ray."""
    only = bool(load_protocol(job.options.protocol).learned_from(job.options)) and learned is None
    parts = (recorded[at : at + POOLS_AT_ONCE] for at in range(0, len(recorded), POOLS_AT_ONCE))
    blocks = (
        build_results_from_steps(
            [line for line, _ in part], [step for _, step in part], job.options, learned
        )
        for part in parts
    )
    return write_results(blocks, job.options, judgments_only=only)


def count_by_judge(job: Job, recorded: RecordedSteps) -> dict[str, Tally]:
    """Count the recorded replies by judge."""
    tallies = {judge.name: Tally() for judge in job.panel}
    count = load_protocol(job.options.protocol).count
    for line, step in recorded:
        planned = count(line.pool, job.panel, job.options) if line.pool else {}
        for name, tally in tallies.items():
            tally.count_skipped(name, planned[name], 0, step)
    return tallies
