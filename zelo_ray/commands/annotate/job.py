"""Run `annotate`: count the input, ask, fit, write."""

import os
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

import pyarrow as pa

from zelo_ray.commands.annotate.record import add_spending, begin_record, write_run
from zelo_ray.commands.annotate.recorded_replies import (
    WatchWithRecorded,
    count_recorded,
)
from zelo_ray.commands.where import JobSize, executor_of
from zelo_ray.engine.batch import goes_in_batches
from zelo_ray.engine.coordinator import CoordinatedRun
from zelo_ray.engine.count_input import InputCount, count_input
from zelo_ray.engine.job import (
    Job,
    JobLines,
    Timer,
    Watch,
    absolute_place,
    claim_output,
    new_run_id,
    with_absolute_places,
)
from zelo_ray.engine.learning import read_human_grades
from zelo_ray.engine.ledger import salt_of
from zelo_ray.engine.preflight import (
    check_spending,
    files_to_judge,
    refuse_pending_batches,
    refuse_small_cap,
    request_counters,
    warn_of_settings,
)
from zelo_ray.engine.replacement import (
    refuse_fewer_queries,
    refuse_other_options,
    warn_of_other_questions,
)
from zelo_ray.engine.run_fingerprint import RunFingerprint
from zelo_ray.engine.sample_input import pilot_lines
from zelo_ray.engine.sweeps import SweepResult, Sweeps
from zelo_ray.engine.write_results import Summary
from zelo_ray.files.inputs import resolve_inputs
from zelo_ray.files.schema import split_columns
from zelo_ray.files.storage import find_shards
from zelo_ray.files.wording import counted
from zelo_ray.options import AnnotateOptions
from zelo_ray.protocols import load_protocol
from zelo_ray.providers import panel_of
from zelo_ray.records import Judge


def judge_pools(options: AnnotateOptions, watch: Watch, *, spent: float | None = None) -> Summary:
    """Run the whole job.

    Args:
        options: of the job.
        watch: gets messages and progress.
        spent: US dollars of the budget that are spent; None counts the whole ledger.

    Raises:
        InputError, OptionError, PanelError, LockError, LedgerError: before anything was asked.
        Stopped: while asking; nothing that was paid for is lost.
    """
    timer = Timer()
    load_protocol(options.protocol)
    columns = split_columns(options.columns)
    options, input_notes = resolve_inputs(
        options, absolute_place(options.out), watch.say, columns=columns
    )
    options = with_absolute_places(options)
    shards = find_shards(options.inputs, options.out)
    panel = panel_of(options, os.environ, keys=not options.collect)
    human = read_human_grades(options, columns)
    columns.refuse_unused()
    with claim_output(options, watch, "annotate"):
        salt_of(options.ledger_dir)  # fails early if the ledger cannot be used
        refuse_other_options(options, panel)
        for line in warn_of_other_questions(options):
            watch.say(line)
        standing = RunFingerprint(options, panel, shards)
        if summary := standing.read_current_summary():
            timer.lap("look")
            summary.seconds = timer.laps
            judgments = counted(summary.judgments, load_protocol(options.protocol).noun)
            watch.say(
                f"Up to date: {judgments} on "
                f"{counted(summary.queries, 'query', 'queries')}, nothing to do."
            )
            return summary
        shards, set_aside = files_to_judge(options, shards, watch)
        plan = _make_plan(options, panel, shards, watch, spent=spent)
        timer.lap("read")
        job, summary, tallies = _ask(plan, watch, timer, human)
        summary.rejected, summary.disabled = set_aside + plan.census.rejected, dict(job.disabled)
        summary.pilot_of = plan.pilot_of
        summary.notes += [*plan.census.own, *input_notes]
        add_spending(summary, job, tallies)
        summary.seconds = timer.laps
        write_run(job, summary, tallies, standing.to_record(summary))
    return summary


@dataclass(frozen=True, slots=True)
class _Plan:
    """Job with the requests that it plans and the answers that the ledger holds."""

    job: Job
    shards: Sequence[str]
    census: InputCount
    spent: float
    """US dollars of the budget"""
    pilot_of: int
    """the number of all pools, if only some are judged as a pilot; else 0"""


def _make_plan(
    options: AnnotateOptions,
    panel: tuple[Judge, ...],
    shards: Sequence[str],
    watch: Watch,
    *,
    spent: float | None,
) -> _Plan:
    """Count the input, and say what will be asked."""
    keep = options.blocks == "query"  # otherwise invalid lines were reported before
    counts = request_counters(options, panel)
    count = partial(count_input, shards, counts, options.out, keep=keep)
    in_all = census = count(show=options.show_query, metadata=options.show_metadata)
    only = None
    if options.pilot is not None and options.pilot < census.pools:
        only = frozenset(pilot_lines(census.places, options.pilot, options.seed))
        census = count(only=Job(options, panel, "", frozenset(), only).includes)
    refuse_fewer_queries(options, (query_id for _, _, query_id in census.places))
    prefix = "up to " if load_protocol(options.protocol).max_rounds != 1 else ""
    planned = f"{prefix}{counted(sum(census.planned.values()), 'request')}"
    watch.say(
        f"{counted(census.pools, 'query', 'queries')}, "
        f"{counted(census.documents, 'document')}: {planned} to "
        f"{', '.join(judge.name for judge in panel)}"
    )
    for line in (*in_all.reports, *in_all.own):
        watch.say(line)
    if not options.collect:
        refuse_pending_batches(options, panel, watch)
    warn_of_settings(options, panel, watch)
    away = {judge.name for judge in panel if goes_in_batches(judge, options)}
    paid = check_spending(options, {judge.name: judge for judge in panel}, watch, away)
    spent = paid.dollars if spent is None else spent + paid.of_damage
    if not options.collect:
        refuse_small_cap(options.max_usd, spent, [(options, panel)], shards)
    job = Job(options, panel, new_run_id(), frozenset(census.repeated), only)
    return _Plan(job, shards, census, spent, in_all.pools if only else 0)


def _ask(plan: _Plan, watch: Watch, timer: Timer, human: pa.Table | None) -> SweepResult:
    """Ask what is not recorded, fit and write."""
    job, census, options = plan.job, plan.census, plan.job.options
    lines, planned = JobLines(plan.shards, census.held), census.planned
    recorded = count_recorded(job, lines, planned)
    if says := recorded.describe(planned):
        watch.say(says)
        watch = WatchWithRecorded(watch, recorded.by_judge if recorded.is_exact else {})
        watch.show({}, planned)
    timer.lap("look for replies")
    if options.max_usd is not None:
        watch.budget(options.max_usd, plan.spent)
    run = CoordinatedRun(job.run_id, options.max_usd, plan.spent)
    size = JobSize(0 if options.collect else recorded.missing(planned), census.bytes)
    with executor_of(options, run, lines, size, watch) as executor:
        timer.lap("start")
        begin_record(job, census.pools)
        sweeps = Sweeps(job, census, executor=executor, watch=watch, timer=timer, human=human)
        return sweeps.run()
