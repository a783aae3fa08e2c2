"""A job of which every reply is there: it is settled here and now, and Ray does not start."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from zelo_ray.engine.batch.parts import Parts
from zelo_ray.engine.bookkeeping import Tally, ledger_of
from zelo_ray.engine.job import POOLS_AT_ONCE, Watch
from zelo_ray.engine.ledger import Ledger, paid_in
from zelo_ray.engine.settle import settled
from zelo_ray.engine.write_results import Summary, write_results
from zelo_ray.formats.pools import Line, LineLimits, read_lines
from zelo_ray.options import AnnotateOptions
from zelo_ray.protocols import Learned, Step, advance, load
from zelo_ray.ray.dataset import Job
from zelo_ray.records import Judge, Reply

_MOST = 20_000  # planned requests: to go over more takes this one process longer than Ray to start
Known = Sequence[tuple[Line, Step]]
"""Each good line, with what the protocol came to."""


class Answered:
    """The ledger as those see it who ask: what is to be asked again is missing.

    What is there is read as it is settled.
    """

    def __init__(self, options: AnnotateOptions, panel: Sequence[Judge]) -> None:
        self._there = ledger_of(options, panel)
        self._all = Ledger(options.books)

    def __len__(self) -> int:
        return len(self._there)

    def there(self, keys: Sequence[str]) -> list[bool]:
        """Return for which of these keys there is a reply already."""
        return self._there.there(keys)

    def read(self, keys: Sequence[str]) -> list[Reply]:
        """Read the replies of these keys."""
        return self._all.read(keys)


def may_be_known(ledger_dir: str, planned: Mapping[str, int]) -> bool:
    """Return whether it is worth a look: the job is small, and no judge has open batches."""
    lying = any(part.is_open and part.judge in planned for part in Parts(ledger_dir))
    return sum(planned.values()) <= _MOST and not lying


def all_known(job: Job, shards: Sequence[str], planned: Mapping[str, int]) -> Known | None:
    """Return the whole job's results if all replies are known; None at the first missing one.

    Args:
        job: the job.
        shards: the files of the input.
        planned: requests by judge.
    """
    if not may_be_known(job.options.books, planned):
        return None
    replies = Answered(job.options, job.panel)
    if not len(replies):
        return None
    protocol, steps = load(job.options.protocol), list[tuple[Line, Step]]()
    for line in (line for shard in shards for line in read_lines(shard, LineLimits())):
        if line.pool and job.takes(line):
            step = advance(protocol.rounds(line.pool, job.panel, job.options), replies)
            if step.missing:
                return None
            steps.append((line, step))
    return steps


@dataclass(frozen=True, slots=True)
class KnownReplies:
    """Number of requests of a job that need not be asked again.

    Attributes:
        by_judge: by name.
        is_exact: whether they were looked up one by one; else replies in the ledger are counted,
            which may hold some of other questions.
    """

    by_judge: Mapping[str, int]
    is_exact: bool

    def describe(self, planned: Mapping[str, int]) -> str:
        """Say what is known and what is left; empty where nothing is known."""
        answers = sum(self.by_judge.values())
        about = "" if self.is_exact else "about "
        requests = max(0, sum(planned.values()) - answers)
        return f"{about}{answers:,} answers known, {about}{requests:,} to ask" if answers else ""


def count_known(job: Job, shards: Sequence[str], planned: Mapping[str, int]) -> KnownReplies:
    """Count the requests whose replies are there, before anything is asked.

    Args:
        job: the job.
        shards: the files of the input.
        planned: requests by judge.
    """
    if sum(planned.values()) > _MOST:
        rows = Counter[str]()
        for (_, name), total in paid_in(job.options.books).totals.items():
            rows[name] += total.rows
        by_judge = {name: min(rows[name], limit) for name, limit in planned.items()}
        return KnownReplies(by_judge, is_exact=False)
    replies, counts = Answered(job.options, job.panel), Counter[str]()
    rounds = load(job.options.protocol).rounds
    held = shards if len(replies) else ()
    for line in (line for shard in held for line in read_lines(shard, LineLimits())):
        if line.pool and job.takes(line):
            step = advance(rounds(line.pool, job.panel, job.options), replies)
            counts.update(step.heard)
    return KnownReplies(dict(counts), is_exact=True)


class WatchFrom:
    """Shows how a run goes on from what is known, of which its actors learn one by one.

    Args:
        watch: who is told.
        known: requests that need not be asked, by judge.
    """

    def __init__(self, watch: Watch, known: Mapping[str, int]) -> None:
        self.say, self.budget = watch.say, watch.budget
        self._watch, self._known = watch, known

    def show(self, tallies: Mapping[str, Tally], planned: Mapping[str, int]) -> None:
        """Show figures by judge, which hold no less than what was known."""
        for name, looked_up in self._known.items():
            tally = tallies.get(name, Tally())
            room = planned.get(name, 0) - tally.answered - tally.spared
            count = max(tally.known, min(looked_up, room))
            tallies = {**tallies, name: replace(tally, known=count)}
        self._watch.show(tallies, planned)


def settle_known(job: Job, recorded: Known, learned: Learned | None = None) -> Summary:
    """Write the results, byte by byte as a run on Ray does."""
    only = bool(load(job.options.protocol).learned_from(job.options)) and learned is None
    parts = (recorded[at : at + POOLS_AT_ONCE] for at in range(0, len(recorded), POOLS_AT_ONCE))
    blocks = (
        settled([line for line, _ in part], [step for _, step in part], job.options, learned)
        for part in parts
    )
    return write_results(blocks, job.options, judgments_only=only)


def tallies_of(job: Job, recorded: Known) -> dict[str, Tally]:
    """Return figures by judge."""
    tallies = {judge.name: Tally() for judge in job.panel}
    count = load(job.options.protocol).count
    for line, step in recorded:
        planned = count(line.pool, job.panel, job.options) if line.pool else {}
        for name, tally in tallies.items():
            tally.pass_over(name, planned[name], 0, step)
    return tallies
