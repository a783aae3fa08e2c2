"""Run `annotate` on Ray: ask every judge and build results, until nothing is missing.

Small jobs take a shorter way: see `zelo_ray.ray.small_jobs`. The results are the same, byte for
byte.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import groupby
from operator import attrgetter
from typing import Any

import pyarrow as pa

from zelo_ray.engine.batch import goes_in_batches
from zelo_ray.engine.count_input import InputCount
from zelo_ray.engine.job import Timer, Watch
from zelo_ray.engine.learning import learn_and_score
from zelo_ray.engine.tally import Tally
from zelo_ray.engine.write_parts import needs_parts
from zelo_ray.engine.write_results import Summary, write_results
from zelo_ray.errors import Stopped
from zelo_ray.protocols import Learned
from zelo_ray.ray.actors import BatchActor
from zelo_ray.ray.branches import Branches, online_branch, run_branches
from zelo_ray.ray.building_results import (
    ResultsActor,
    build_results_on_ray,
    learns_first,
    write_results_in_parts,
)
from zelo_ray.ray.coordinator import CoordinatorClient, RunCoordinator
from zelo_ray.ray.dataset import Job
from zelo_ray.ray.placement import (
    actor_options_by_node,
    asking_actor_options,
)
from zelo_ray.ray.small_jobs import ask_small_job, blocks_of_lines, lines_if_few
from zelo_ray.reasons import Disabled, describe_disabled
from zelo_ray.records import Judge

SweepResult = tuple[Job, Summary, Mapping[str, Tally]]
"""The job with the judges that are disabled, what it came to, and figures by judge."""


class Sweeps:
    """Job on a Ray that has started: sweeps over all pools until nothing is missing.

    Args:
        job: what is to be judged.
        shards: the files of the input.
        census: what they hold.
        watch: who is told how it goes.
        timer: of the run.
    """

    def __init__(
        self, job: Job, shards: Sequence[str], census: InputCount, watch: Watch, timer: Timer
    ) -> None:
        self._job, self._shards, self._census = job, shards, census
        self._watch, self._timer = watch, timer
        self._small_job_lines = (
            None if needs_parts(census.pools) else lines_if_few(census.held, census.planned)
        )

    def run(self, human: pa.Table | None, spent: float) -> SweepResult:
        """Ask all judges, build results, learn the judges' errors, and score.

        Args:
            human: human grades, if there are any.
            spent: dollars of the budget.
        """
        options, run_id = self._job.options, self._job.run_id
        coordinator = RunCoordinator(options, run_id, spent, self._watch.budget)
        job, summary, tallies = self._sweep(coordinator)
        summary = learn_and_score(summary, job.options, human, partial(self._build_results, job))
        self._timer.lap("learn and score")
        return job, summary, tallies

    def _sweep(self, coordinator: RunCoordinator) -> SweepResult:
        """Ask and build results by turns until no question waits for the answer to another."""
        job, census, timer = self._job, self._census, self._timer
        sweeps, came = 0, (-1, 0)
        while True:
            tallies, disabled = self._ask(job, coordinator)
            timer.lap("ask")
            job = replace(job, disabled=disabled, sweep=job.sweep + 1)
            summary = self._build_results(job)
            timer.lap("fit and write")
            summary.sweeps = sweeps = sweeps + 1
            if summary.queries != census.pools:
                raise Stopped(
                    f"the input changed during the run: expected {census.pools:,} pools, found "
                    f"{summary.queries:,}"
                )
            before, came = came, (sum(tally.answered for tally in tallies.values()), len(disabled))
            if not summary.missing:
                return job, summary, tallies
            if came == before:
                raise Stopped(f"{summary.missing:,} replies could not be obtained from any judge")

    def _ask(
        self, job: Job, coordinator: RunCoordinator
    ) -> tuple[dict[str, Tally], dict[str, Disabled]]:
        """Ask every judge what the ledger does not hold, the providers side by side.

        Those that are disabled already are asked nothing.

        Returns:
            Figures by judge, and the judges that are asked nothing more, with the reason.
        """
        panel = [judge for judge in job.panel if judge.name not in job.disabled]
        tallies, reason, disabled = run_branches(
            partial(self._begin, job, panel, coordinator.client),
            coordinator,
            self._census.planned,
            self._watch,
            batches=any(goes_in_batches(judge, job.options) for judge in panel),
        )
        over = any(entry.is_over_budget for entry in disabled.values())
        nobody = len(disabled) == len(job.panel) and not over
        if reason or nobody:
            replies = sum(tally.answered for tally in tallies.values())
            why = reason or "; ".join(describe_disabled(disabled))
            raise Stopped(f"{why} ({replies:,} replies of this run are kept)")
        return tallies, disabled

    def _begin(self, job: Job, panel: Sequence[Judge], client: CoordinatorClient) -> Branches:
        """Begin to ask these judges."""
        branches, places = Branches(), actor_options_by_node()
        by_provider = attrgetter("provider")  # judges of one share actors
        for _, group in groupby(sorted(panel, key=by_provider), by_provider):
            judges = list(group)
            away = [judge for judge in judges if goes_in_batches(judge, job.options)]
            for judge in away:  # an actor each: one judge's full queue holds up no other
                actor: Any = BatchActor
                placed = actor.options(**asking_actor_options()).remote(job, [judge], client)
                branches.waiting.append(placed.run.remote(self._shards))
            if not (online_judges := [judge for judge in judges if judge not in away]):
                continue
            if self._small_job_lines is None:
                branches.online.append(online_branch(job, self._shards, client, online_judges))
            else:
                actors, refs = ask_small_job(
                    job, self._small_job_lines, client, online_judges, places
                )
                branches.actors.extend(actors)
                branches.waiting.extend(refs)
        return branches

    def _build_results(self, job: Job, learned: Learned | None = None) -> Summary:
        """Turn replies into results; into judgments only, where scores have to be learned first."""
        if needs_parts(self._census.pools):
            return write_results_in_parts(job, self._census, learned)
        only = learns_first(job, learned)
        blocks: Iterable[Any]
        if self._small_job_lines is None:
            blocks = build_results_on_ray(job, self._shards, learned)
        else:
            blocks = map(ResultsActor(job, learned), blocks_of_lines(self._small_job_lines))
        return write_results(blocks, job.options, judgments_only=only)
