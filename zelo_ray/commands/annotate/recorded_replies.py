"""Count the recorded replies of a job before anything is asked."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from zelo_ray.engine.bookkeeping import open_ledger
from zelo_ray.engine.job import Job, JobLines, Watch
from zelo_ray.engine.ledger import Ledger, sum_paid
from zelo_ray.engine.tally import Tally
from zelo_ray.files.wording import counted
from zelo_ray.options import AnnotateOptions
from zelo_ray.protocols import advance, load_protocol
from zelo_ray.records import Judge, Reply

_MOST = 20_000  # planned requests: to look up more takes seconds


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


@dataclass(frozen=True, slots=True)
class RecordedCount:
    """Number of requests of a job whose replies are recorded.

    Attributes:
        by_judge: by name.
        is_exact: whether they were looked up one by one. Otherwise all replies of the ledger are
            counted, which may include those of other questions.
        is_all: whether nothing is missing.
    """

    by_judge: Mapping[str, int]
    is_exact: bool = True
    is_all: bool = False

    def missing(self, planned: Mapping[str, int]) -> int:
        """Return how many requests are not recorded, at most."""
        left = (number - self.by_judge.get(name, 0) for name, number in planned.items())
        return 0 if self.is_all else sum(max(0, number) for number in left)

    def describe(self, planned: Mapping[str, int]) -> str:
        """Say how many are recorded and how many are left; empty if none is recorded."""
        answers = sum(self.by_judge.values())
        if self.is_all:
            return f"All {counted(answers, 'response')} are already in the ledger."
        about = "" if self.is_exact else "about "
        left = self.missing(planned)
        return f"{about}{answers:,} answers recorded, {about}{left:,} missing" if answers else ""


def count_recorded(job: Job, lines: JobLines, planned: Mapping[str, int]) -> RecordedCount:
    """Count the requests whose replies are recorded, before anything is asked.

    Args:
        job: the job.
        lines: of its input.
        planned: requests by judge.
    """
    if sum(planned.values()) > _MOST:
        rows = Counter[str]()
        for (_, name), total in sum_paid(job.options.ledger_dir).totals.items():
            rows[name] += total.rows
        by_judge = {name: min(rows[name], limit) for name, limit in planned.items()}
        return RecordedCount(by_judge, is_exact=False)
    replies, counts = UsableReplies(job.options, job.panel), Counter[str]()
    if not len(replies):
        return RecordedCount({})
    rounds, missing = load_protocol(job.options.protocol).rounds, 0
    for pool in (line.pool for line in lines.chosen(job) if line.pool):
        step = advance(rounds(pool, job.panel, job.options), replies)
        counts.update(step.reply_counts)
        missing += len(step.missing)
    return RecordedCount(dict(counts), is_all=not missing)


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
