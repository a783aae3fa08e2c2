"""Run `annotate` on Ray: ask every judge and build results, until nothing is missing.

Few pools take a short way: see `zelo_ray.ray.few`. No byte of the results depends on the way.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import groupby
from typing import Any

import pyarrow as pa

from zelo_ray.engine.batch import in_batches
from zelo_ray.engine.bookkeeping import Tally
from zelo_ray.engine.count_input import InputCount
from zelo_ray.engine.job import Timer, Watch
from zelo_ray.engine.learning import with_scores
from zelo_ray.engine.write_parts import in_parts
from zelo_ray.engine.write_results import Summary, write_results
from zelo_ray.errors import Stopped
from zelo_ray.protocols import Learned
from zelo_ray.ray.actors import Send
from zelo_ray.ray.branches import ask_all, asking
from zelo_ray.ray.coordinator import open_coordinator
from zelo_ray.ray.dataset import Job
from zelo_ray.ray.few import ask_few, blocks_of, few
from zelo_ray.ray.limits_actor import limits_for
from zelo_ray.ray.placement import engines, nodes_by_turns, of_asking, shared_by
from zelo_ray.ray.settling import Settle, learns_first, settle_in_parts, settled_on_ray
from zelo_ray.reasons import Disabled, describe_disabled

Came = tuple[Job, Summary, Mapping[str, Tally]]
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
        self._few = None if in_parts(census.pools) else few(census.held, census.planned)

    def run(self, human: pa.Table | None, spent: float) -> Came:
        """Ask all judges, build results, learn the judges' errors, and score.

        Args:
            human: human grades, if there are any.
            spent: dollars of the budget.
        """
        with limits_for(self._job.run_id):
            job, summary, tallies = self._sweep(spent)
            summary = with_scores(summary, job.options, human, partial(self._settle, job))
            self._timer.lap("learn and score")
        return job, summary, tallies

    def _sweep(self, spent: float) -> Came:
        """Ask and build results by turns until no question waits for the answer to another."""
        job, census, timer = self._job, self._census, self._timer
        coordinator, sweeps = open_coordinator(job.options, spent, self._watch.budget), 0
        came = (-1, 0)
        while True:
            tallies, disabled = self._ask(job, coordinator)
            timer.lap("ask")
            job = replace(job, disabled=disabled, sweep=job.sweep + 1)
            summary = self._settle(job)
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

    def _ask(self, job: Job, coordinator: Any) -> tuple[dict[str, Tally], dict[str, Disabled]]:
        """Ask every judge what the ledger does not hold, the providers side by side.

        Those that are disabled already are asked nothing.

        Returns:
            Figures by judge, and the judges that are asked nothing more, with the reason.
        """
        online, sent = list[Any](), list[Any]()
        handed, alive = list[Any](), list[Any]()  # actors live while they are held
        places = nodes_by_turns()
        panel = [judge for judge in job.panel if judge.name not in job.disabled]
        if job.sweep == 1:
            for line in engines(panel, job.options.actors):
                self._watch.say(line)
        for _, group in groupby(sorted(panel, key=shared_by), shared_by):
            judges = list(group)
            away = [judge for judge in judges if in_batches(judge, job.options)]
            for judge in away:  # an actor each: one judge's full queue holds up no other
                actor: Any = Send
                placed = actor.options(**of_asking()).remote(job, [judge], coordinator)
                sent.append(placed.run.remote(self._shards))
            if not (online_judges := [judge for judge in judges if judge not in away]):
                continue
            if self._few is None:
                online.append(asking(job, self._shards, coordinator, online_judges))
            else:
                actors, refs = ask_few(job, self._few, coordinator, online_judges, places)
                alive, handed = [*alive, *actors], [*handed, *refs]
        planned = self._census.planned
        tallies, reason, disabled = ask_all(
            online, sent, coordinator, planned, self._watch, handed=handed
        )
        over = any(entry.is_over_budget for entry in disabled.values())
        nobody = len(disabled) == len(job.panel) and not over
        if reason or nobody:
            replies = sum(tally.answered for tally in tallies.values())
            why = reason or "; ".join(describe_disabled(disabled))
            raise Stopped(f"{why} ({replies:,} replies of this run are kept)")
        return tallies, disabled

    def _settle(self, job: Job, learned: Learned | None = None) -> Summary:
        """Turn replies into results; into judgments only, where scores have to be learned first."""
        if in_parts(self._census.pools):
            return settle_in_parts(job, self._census, learned)
        only = learns_first(job, learned)
        blocks: Iterable[Any]
        if self._few is None:
            blocks = settled_on_ray(job, self._shards, learned)
        else:
            blocks = map(Settle(job, learned), blocks_of(self._few))
        return write_results(blocks, job.options, judgments_only=only)
