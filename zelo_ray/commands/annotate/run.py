"""Run `annotate`: count the input, ask, fit, write."""

import os
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from functools import partial
from importlib.metadata import version
from typing import Any

from zelo_ray.commands.annotate.report import build_report
from zelo_ray.commands.where import JobSize, executor_of
from zelo_ray.engine.batch import goes_in_batches
from zelo_ray.engine.batch.parts import sum_possibly_billed
from zelo_ray.engine.coordinator import CoordinatedRun
from zelo_ray.engine.count_input import InputCount, count_input
from zelo_ray.engine.estimate import pilot_lines
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
from zelo_ray.engine.ledger import Paid, describe_damage, salt_of, sum_paid
from zelo_ray.engine.lock import remove_folders_if_refused
from zelo_ray.engine.preflight import (
    check_spending,
    files_to_judge,
    refuse_pending_batches,
    warn_of_settings,
)
from zelo_ray.engine.replacement import (
    refuse_fewer_queries,
    refuse_other_options,
    warn_of_other_questions,
)
from zelo_ray.engine.replies import describe_possibly_billed, describe_uncounted
from zelo_ray.engine.run_fingerprint import KEY as FINGERPRINT
from zelo_ray.engine.run_fingerprint import RunFingerprint
from zelo_ray.engine.sweeps import Sweeps
from zelo_ray.engine.tally import Tally
from zelo_ray.engine.write_results import LINES, Summary
from zelo_ray.errors import ExitStatus, ZeloError
from zelo_ray.files.inputs import resolve_inputs
from zelo_ray.files.run_record import RUN, read_record, record_start
from zelo_ray.files.schema import split_columns
from zelo_ray.files.storage import find_shards, list_directory, write_json
from zelo_ray.files.wording import counted
from zelo_ray.options import AnnotateOptions
from zelo_ray.plugins import absolute_plugin_name, loaded_packages
from zelo_ray.protocols import load_protocol
from zelo_ray.providers import panel_of
from zelo_ray.providers.pricing import table_version
from zelo_ray.records import CrownedScore, Judge, Pool
from zelo_ray.report.command_lines import command_of, repeat_with, sibling_path
from zelo_ray.report.model import Report
from zelo_ray.report.results import Results

_PACKAGES = ("zelo-ray", "ray", "pydantic", "openai", "anthropic", "google-genai", "numpy")


def run(options: AnnotateOptions, watch: Watch) -> Results:
    """Judge pools and write scores, or estimate what that takes; after a pilot, both."""
    if options.dry_run:
        from zelo_ray.commands.dry_run import estimate_jobs  # noqa: PLC0415 - a run needs none

        return estimate_jobs({"annotate": options}, options)
    with remove_folders_if_refused(options.out, options.ledger_dir):
        summary = judge_pools(options, watch)
    build, lines = build_report, list[str]()
    if summary.pilot_of:
        from zelo_ray.commands.dry_run import estimate_jobs  # noqa: PLC0415 - as above

        lines = ["The same command without --pilot continues; nothing is paid for twice."]
        try:
            rest = estimate_jobs({"annotate": options.model_copy(update={"pilot": None})}, options)
            build = partial(_with_estimate, rest=rest.report)
        except ZeloError as error:  # what was judged is shown all the same
            lines.append(f"The rest cannot be estimated: {error}")
    return Results(
        read_record(f"{options.out}/{RUN}"),
        None,
        options.out,
        build=build,
        status=ExitStatus.COMPLETE if summary.complete else ExitStatus.INCOMPLETE,
        lines=lines,
        next_command=next_command(summary, options),
        is_current=summary.up_to_date,
    )


def _with_estimate(results: Results, rest: Report | None) -> Report:
    """Return the report of a pilot, with the estimate of the rest."""
    pilot = build_report(results)
    if rest is None:
        return pilot
    sections, notes = (*pilot.sections, *rest.sections), (*pilot.notes, *rest.notes)
    return replace(pilot, sections=sections, notes=notes)


def next_command(summary: Summary, options: AnnotateOptions) -> str:
    """Return how to get what is missing; else a bake-off, or a look at tournaments."""
    reasons, changes = [*summary.disabled.values()], dict[str, Any]()
    if summary.pilot_of:
        changes["pilot"] = None
    elif reasons and options.collect:
        changes["collect"] = False
    elif reasons and options.max_usd and all(reason.is_over_budget for reason in reasons):
        changes["max_usd"] = 2 * options.max_usd
    elif summary.failures and not reasons and not options.retry_failures:
        changes["retry_failures"] = True
    if changes:
        return repeat_with(options, **changes)
    if reasons or not summary.scored:
        judges = ["--judges", *([*summary.disabled] or options.judges)]
        return command_of("doctor", *(judges if judges[1:] else []))
    if issubclass(load_protocol(options.protocol).score.record, CrownedScore):
        return command_of("explain", options.out)
    rankers = ("--rerankers", "original", "bm25")
    out = sibling_path(options.out, "bakeoff")
    return command_of("bakeoff", "--truth", options.out, *rankers, "--out", out)


def judge_pools(options: AnnotateOptions, watch: Watch) -> Summary:
    """Run the whole job: plan, refuse what cannot go well, ask, fit, write."""
    timer, protocol = Timer(), load_protocol(options.protocol)
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
        fingerprint = RunFingerprint(options, panel, shards)
        if last := fingerprint.read_current_summary():
            judgments = counted(last.judgments, protocol.noun)
            queries = counted(last.queries, "query", "queries")
            watch.say(f"Up to date: {judgments} on {queries}, nothing to do.")
            return last
        shards, set_aside = files_to_judge(options, shards, watch)
        job, input_count, in_all = _plan(options, panel, shards, watch)
        timer.lap("read")
        in_batches = {judge.name for judge in panel if goes_in_batches(judge, options)}
        judges = {judge.name: judge for judge in panel}
        spent, paid = check_spending(options, judges, watch, in_batches)
        missing = 0 if options.collect else _count_missing(paid, input_count.planned)
        if options.max_usd is not None:
            watch.budget(options.max_usd, spent)
        run = CoordinatedRun(job.run_id, options.max_usd, spent)
        lines, size = JobLines(shards, input_count.lines), JobSize(missing, input_count.bytes)
        timer.lap("check")
        with executor_of(options, run, lines, size, watch) as executor:
            timer.lap("start")
            begun = {
                "shards": find_shards(options.inputs, options.out),
                "queries": input_count.pools,
            }
            record_start(options.out, RUN, _record(job) | begun)
            sweeps = Sweeps(
                job, input_count, executor=executor, watch=watch, timer=timer, human=human
            )
            job, summary, tallies = sweeps.run()
        summary.rejected, summary.disabled = set_aside + input_count.rejected, dict(job.disabled)
        summary.pilot_of = in_all if job.only else 0
        summary.notes += [*input_count.own, *input_notes]
        _add_spending(summary, job, tallies)
        summary.seconds = timer.laps
        _write_record(job, summary, tallies, fingerprint)
    return summary


def _plan(
    options: AnnotateOptions, panel: tuple[Judge, ...], shards: Sequence[str], watch: Watch
) -> tuple[Job, InputCount, int]:
    """Count the input, and say what will be asked; return the job and how many pools there are."""
    keep = options.blocks == "query"  # otherwise invalid lines were reported before
    protocol = load_protocol(options.protocol)

    def requests(pool: Pool) -> dict[str, int]:
        return protocol.count(pool, panel, options)

    count = partial(count_input, shards, requests, options.out, keep=keep)
    in_all = input_count = count(show=options.show_query, metadata=options.show_metadata)
    only = None
    if options.pilot is not None and options.pilot < input_count.pools:
        only = frozenset(pilot_lines(input_count.places, options.pilot, options.seed))
        input_count = count(only=Job(options, panel, "", frozenset(), only).includes)
    refuse_fewer_queries(options, (query_id for _, _, query_id in input_count.places))
    prefix = "up to " if protocol.max_rounds != 1 else ""
    planned = f"{prefix}{counted(sum(input_count.planned.values()), 'request')}"
    watch.say(
        f"{counted(input_count.pools, 'query', 'queries')}, "
        f"{counted(input_count.documents, 'document')}: {planned} "
        f"to {', '.join(judge.name for judge in panel)}"
    )
    for line in in_all.own:
        watch.say(line)
    if not options.collect:
        refuse_pending_batches(options, panel, watch)
    warn_of_settings(options, panel, watch)
    job = Job(options, panel, new_run_id(), frozenset(input_count.repeated), only)
    return job, input_count, in_all.pools


def _count_missing(paid: Paid, planned: Mapping[str, int]) -> int:
    """Return how many requests are not recorded, if the ledger holds no answers to others."""
    rows = Counter[str]()
    for (_, judge), total in paid.totals.items():
        rows[judge] += total.replies
    return sum(max(0, number - rows[judge]) for judge, number in planned.items())


def _add_spending(summary: Summary, job: Job, tallies: Mapping[str, Tally]) -> None:
    """Add spending by the ledger (actors that died lost theirs), and notes on the run."""
    options = job.options
    caution = load_protocol(options.protocol).caution
    summary.notes += [caution] if caution else []
    paid = sum_paid(options.ledger_dir)
    summary.dollars_in_all, summary.damaged = paid.all_dollars, len(paid.damaged)
    summary.dollars, summary.unpriced = paid.dollars(job.run_id), paid.unpriced(job.run_id)
    summary.maybe_dollars = sum_possibly_billed(options.ledger_dir)
    if summary.maybe_dollars:
        summary.notes.append(describe_possibly_billed(summary.maybe_dollars))
    summary.notes += describe_uncounted(tallies)
    summary.notes += [describe_damage(paid.damaged)] if paid.damaged else []


def _record(job: Job) -> dict[str, Any]:
    options = job.options.model_dump(mode="json")
    return {
        "kind": "annotate",
        "run_id": job.run_id,
        "options": {**options, "protocol": absolute_plugin_name(options["protocol"])},
        "judgments": list(load_protocol(job.options.protocol).tables),
        "panel": [{"judge": judge.name, "options": judge.options} for judge in job.panel],
    }


def _write_record(
    job: Job, summary: Summary, tallies: Mapping[str, Tally], fingerprint: RunFingerprint
) -> None:
    """Write the record of a finished run, after all its other files."""
    versions = {name: version(name) for name in _PACKAGES} | loaded_packages()
    optional = {"failures": summary.failures, "rejected": summary.rejected}
    tables = [
        "scores",
        *load_protocol(job.options.protocol).tables,
        *filter(optional.get, optional),
    ]
    names, files = [LINES, *(f"{name}.parquet" for name in tables)], list_directory(job.options.out)
    record = {
        **_record(job),
        "finished": True,
        "complete": summary.complete,
        "status": int(ExitStatus.COMPLETE if summary.complete else ExitStatus.INCOMPLETE),
        "versions": versions | {"prices": table_version(job.options.prices)},
        "summary": asdict(summary),
        "judges": {name: asdict(tally) for name, tally in tallies.items()},
        "files": [name for name in names if name in (files or ())],
        FINGERPRINT: fingerprint.to_record(summary),
    }
    write_json(job.options.out, RUN, record)
