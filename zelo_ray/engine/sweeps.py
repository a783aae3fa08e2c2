"""Run `annotate` where an executor is: ask every judge, build results, until nothing is missing."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import groupby
from operator import attrgetter

import pyarrow as pa

from zelo_ray.engine.batch import goes_in_batches
from zelo_ray.engine.build_results import build_results
from zelo_ray.engine.count_input import InputCount
from zelo_ray.engine.executor import AskedJudges, Executor
from zelo_ray.engine.job import Job, Timer, Watch
from zelo_ray.engine.learning import choose_sample, learn, write_learned
from zelo_ray.engine.ledger import Ledger, update_index
from zelo_ray.engine.request_plans import RequestPlans
from zelo_ray.engine.tally import Tally
from zelo_ray.engine.write_results import Summary, write_results
from zelo_ray.errors import LedgerError, Stopped
from zelo_ray.files.pools import Line
from zelo_ray.protocols import Learned, load_protocol
from zelo_ray.reasons import Disabled, StopReason, describe_disabled
from zelo_ray.records import Judge

SweepResult = tuple[Job, Summary, Mapping[str, Tally]]
"""The job with the judges that are disabled, what it came to, and figures by judge."""


@dataclass(frozen=True, slots=True)
class Sweeps:
    """Job on its executor: sweeps over all pools until nothing is missing."""

    job: Job
    count: InputCount
    executor: Executor
    watch: Watch
    timer: Timer
    human: pa.Table | None
    """human grades, if there are any"""

    def run(self) -> SweepResult:
        """Ask and build results by turns until no question waits for the answer to another."""
        job, before = self.job, (-1, 0)
        if job.options.collect:
            return self._collect()
        while True:
            tallies, disabled = self._ask(job)
            update_index(job.options.ledger_dir)  # so that replies are not read once more
            self.timer.lap("ask")
            job = replace(job, disabled=disabled, sweep=job.sweep + 1)
            summary = self._build_results(job)
            if summary.queries != self.count.pools:
                raise Stopped(
                    f"the input changed during the run: expected {self.count.pools:,} pools, found "
                    f"{summary.queries:,}"
                )
            if not summary.missing:
                return job, summary, tallies
            progress = sum(tally.answered for tally in tallies.values()), len(disabled)
            if progress == before:
                raise Stopped(f"{summary.missing:,} replies could not be obtained from any judge")
            before = progress

    def _collect(self) -> SweepResult:
        """Build results from what is recorded; requests without an answer are listed as failed."""
        job, summary = self.job, self._build_results(self.job)
        if summary.missing:
            nobody = Disabled(StopReason.MISSING, "collect asks nobody")
            job = replace(job, disabled={judge.name: nobody for judge in job.panel})
            summary = self._build_results(job)
        return job, summary, {}

    def _ask(self, job: Job) -> tuple[dict[str, Tally], dict[str, Disabled]]:
        """Ask every judge that is not disabled what the ledger does not hold.

        Returns:
            Figures by judge, and the judges that are asked nothing more, with the reason.
        """
        groups = [*_groups(job)]
        tallies, reason, disabled = self.executor.ask(groups, self.count.planned, self.watch)
        over = any(entry.is_over_budget for entry in disabled.values())
        if reason or (len(disabled) == len(job.panel) and not over):
            replies = sum(tally.answered for tally in tallies.values())
            why = reason or "; ".join(describe_disabled(disabled))
            raise Stopped(f"{why} ({replies:,} replies of this run are kept)")
        return tallies, disabled

    def _build_results(self, job: Job) -> Summary:
        """Turn replies into results; what scores need is learned from some queries first."""
        options, learned = job.options, None
        if load_protocol(options.protocol).learns(options):
            some = replace(job, only=choose_sample(self.count.places, self.human))
            sample = self.executor.build(some, partial(ResultsBuilder, some, None))
            learned = learn(sample, options, job.panel, self.human)
        blocks = self.executor.build(job, partial(ResultsBuilder, job, learned))
        summary = write_results(blocks, options)
        if learned:
            summary.notes = write_learned(options, learned, self.human)
            summary.is_truth_error_learned = learned.shared is not None
        self.timer.lap("fit and write")
        return summary


def _groups(job: Job) -> Iterator[AskedJudges]:
    """Yield who is asked together: in batches each judge alone, as its full queue may last."""
    by_provider = attrgetter("provider")
    panel = [judge for judge in job.panel if judge.name not in job.disabled]
    for _, group in groupby(sorted(panel, key=by_provider), by_provider):
        online = list[Judge]()
        for judge in group:
            if goes_in_batches(judge, job.options):
                yield AskedJudges(job, (judge,), in_batches=True)
            else:
                online.append(judge)
        if online:
            yield AskedJudges(job, tuple(online))


class ResultsBuilder:
    """Builder of the results of whole pools: judgments, failures and scores."""

    def __init__(self, job: Job, learned: Learned | None) -> None:
        self._job, self._learned = job, learned
        self._ledger, self._plans = Ledger(job.options.ledger_dir), RequestPlans(job.options)

    def build(self, lines: Sequence[Line]) -> pa.Table:
        """Build the results of good lines."""
        pools = iter(self._plans.find([line.pool for line in lines if line.pool], self._job.panel))
        lines = [replace(line, pool=next(pools)) if line.pool else line for line in lines]
        try:
            return self._build(lines)
        except LedgerError:  # what was damaged since then counts as missing
            self._ledger.close()
            self._ledger = Ledger(self._job.options.ledger_dir)
            return self._build(lines)

    def _build(self, lines: Sequence[Line]) -> pa.Table:
        job = self._job
        return build_results(
            *(lines, job.panel, job.options, self._ledger),
            disabled=job.disabled,
            learned=self._learned,
        )

    def close(self) -> None:
        """Close the ledger and the plans."""
        self._ledger.close()
        self._plans.close()
