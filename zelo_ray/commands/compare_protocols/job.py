"""Run protocols one after another, as `annotate` does, with one ledger; measure them all."""

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from importlib.metadata import version
from tempfile import TemporaryDirectory

from zelo_ray.command_options import CompareProtocolsOptions
from zelo_ray.commands.annotate.run import judge_pools
from zelo_ray.commands.compare_protocols.costs import (
    Bill,
    bills_by_query,
    bills_of,
    pools_in,
    requests_of,
    spending_of_protocol,
)
from zelo_ray.commands.compare_protocols.labelled_items import (
    LabelledItems,
    collect_items,
    describe_left_out,
    pools_file,
)
from zelo_ray.commands.compare_protocols.measured import measure, read_verdicts, write_outcome
from zelo_ray.commands.compare_protocols.outcome import ProtocolsOutcome
from zelo_ray.commands.compare_protocols.plans import (
    make_plans,
    protocols_to_compare,
    unused_by_all,
)
from zelo_ray.commands.where import on_one_ray
from zelo_ray.engine.batch.parts import Parts
from zelo_ray.engine.exposure import sum_exposure
from zelo_ray.engine.job import Timer, Watch, claim_output, with_absolute_places
from zelo_ray.engine.ledger import Ledger, read_rows, salt_of, sum_paid
from zelo_ray.engine.replacement import refuse_other_options
from zelo_ray.engine.write_results import Summary
from zelo_ray.files.run_record import PROTOCOLS, record_start
from zelo_ray.files.storage import write_json
from zelo_ray.files.wording import counted
from zelo_ray.options import AnnotateOptions
from zelo_ray.plugins import loaded_packages
from zelo_ray.providers import panel_of, refuse_without_probabilities
from zelo_ray.providers.pricing import table_version
from zelo_ray.reasons import describe_disabled
from zelo_ray.records import Judge
from zelo_ray.reports.progress.recorder import fresh_display

_KIND = "protocols"


def measure_protocols(options: CompareProtocolsOptions, watch: Watch) -> ProtocolsOutcome:
    """Run every protocol on what people labelled, and measure them all.

    Args:
        options: of the command.
        watch: gets messages and progress.

    Raises:
        InputError, OptionError, PanelError, OptionError, LockError, LedgerError: before
            anything was asked.
        Stopped: while asking; nothing that was paid for is lost.
    """
    timer = Timer()
    options = with_absolute_places(options)
    panel = panel_of(options, os.environ)
    pools = pools_file(options.out)
    jobs = make_plans(options, (pools,))
    for job in jobs.values():
        refuse_without_probabilities(panel, job)
    with fresh_display(watch), claim_output(options, watch, _KIND):
        salt_of(options.ledger_dir)
        field = collect_items(options, options.out, watch, protocols_to_compare(options))
        for job in jobs.values():
            refuse_other_options(job, panel)
        _announce(options, jobs, field, watch)
        record_start(
            options.out, PROTOCOLS, {"kind": _KIND, "options": options.model_dump(mode="json")}
        )
    timer.lap("read")
    ledger, summaries = Ledger(options.ledger_dir), dict[str, Summary]()
    with on_one_ray(options):
        for name, job in jobs.items():
            with fresh_display(watch):
                watch.say("")
                watch.say(name)
                spent = _spent(job, panel, ledger)
                summaries[name] = judge_pools(job, watch, spent=spent)
            ledger.refresh()
            timer.lap(name)
    with fresh_display(watch), claim_output(options, watch, _KIND):
        outcome = _measure(options, jobs, panel, ledger, field)
        outcome.notes = [*_notes(options, outcome, field, summaries)]
        outcome.complete = not field.rejected and all(s.complete for s in summaries.values())
        write_outcome(options.out, outcome)
        timer.lap("measure")
        _write_record(options, outcome, field, summaries, timer)
    return outcome


@contextmanager
def plan_protocols(
    options: CompareProtocolsOptions, watch: Watch
) -> Iterator[dict[str, AnnotateOptions]]:
    """Yield the options of each protocol's run, with its remaining budget, for an estimate.

    The pools that they name exist until the context ends. Nothing else is written.

    Raises:
        InputError, OptionError, PanelError, OptionError: as `measure_protocols` would.
    """
    panel, ledger = panel_of(options, os.environ, keys=False), Ledger(options.ledger_dir)
    with TemporaryDirectory() as folder:
        pools = pools_file(folder)
        protocols = protocols_to_compare(options)
        collect_items(options, folder, watch, protocols)
        jobs = make_plans(options, (pools,))
        for job in jobs.values():
            refuse_without_probabilities(panel, job)
        yield {
            name: _raise_budget(job, spending_of_protocol(job, panel, ledger, pools_in(pools), ()))
            for name, job in jobs.items()
        }


def _spent(options: AnnotateOptions, panel: Sequence[Judge], ledger: Ledger) -> float | None:
    """Return the US dollars that a protocol has spent of its budget; None without a budget."""
    judges = {judge.name for judge in panel}
    parts = (part for part in Parts(options.ledger_dir) if part.is_open and part.judge in judges)
    lying = [(part.dollars, part.keys) for part in parts]
    spent = spending_of_protocol(options, panel, ledger, pools_in(options.inputs[0]), lying)
    return spent if spent is None else spent + sum_exposure(options.ledger_dir, options.out)


def _raise_budget(options: AnnotateOptions, spent: float | None) -> AnnotateOptions:
    """Raise the budget by what other protocols spent, because estimates count the whole ledger."""
    if options.max_usd is None or spent is None:
        return options
    others = sum_paid(options.ledger_dir).dollars() - spent
    return options.model_copy(update={"max_usd": options.max_usd + others})


def _announce(
    options: CompareProtocolsOptions,
    jobs: Mapping[str, AnnotateOptions],
    field: LabelledItems,
    watch: Watch,
) -> None:
    """Say what will be judged, and by which protocols."""
    watch.say(
        f"{len(field.items):,} pairs of documents of {field.queries:,} queries that people "
        f"judged; protocols: {', '.join(jobs)}"
    )
    if flags := [f"--{name.replace('_', '-')}" for name in unused_by_all(options, jobs)]:
        watch.say(f"none of these protocols uses {', '.join(flags)}")


def _measure(
    options: CompareProtocolsOptions,
    jobs: Mapping[str, AnnotateOptions],
    panel: tuple[Judge, ...],
    ledger: Ledger,
    field: LabelledItems,
) -> ProtocolsOutcome:
    requests = {
        name: dict(requests_of(pools_in(field.pools), panel, job, ledger))
        for name, job in jobs.items()
    }
    keys = {key for queries in requests.values() for keys in queries.values() for key in keys}
    every = keys | {row.key for row in read_rows(options.ledger_dir)}
    bills, together, paid = bills_of(read_rows(options.ledger_dir), every), Bill(), Bill()
    for key, bill in bills.items():
        paid.add(bill)
        if key in keys:
            together.add(bill)
    outcome = measure(
        field.items,
        {name: read_verdicts(job.out, field.items) for name, job in jobs.items()},
        {name: bills_by_query(queries, bills) for name, queries in requests.items()},
        together,
    )
    outcome.paid = paid
    return outcome


def _notes(
    options: CompareProtocolsOptions,
    outcome: ProtocolsOutcome,
    field: LabelledItems,
    summaries: Mapping[str, Summary],
) -> Iterator[str]:
    """Yield notes on what is missing and why, and on unequal costs."""
    if options.max_usd is None and len(outcome.trials) > 1:
        yield "without --max-usd costs are not equal: each protocol spent what it needed"
    for trial in outcome.trials:
        summary = summaries[trial.protocol]
        if unjudged := trial.items - trial.judged:
            why = "; ".join(failure_reasons(summary))
            yield f"{trial.protocol} did not judge {unjudged:,} of {trial.items:,} items: {why}"
        elif summary.disabled:
            yield f"{trial.protocol}: {'; '.join(describe_disabled(summary.disabled))}"
    yield from describe_left_out(field, options.human, options.document_limit)


def failure_reasons(summary: Summary) -> Iterator[str]:
    """Yield why judges were disabled, and the most frequent reason of failed requests."""
    yield from describe_disabled(summary.disabled)
    if reasons := summary.reasons:
        commonest = max(reasons, key=lambda reason: reasons[reason])
        yield f"{counted(reasons[commonest], 'time')} {commonest}"
    if reasons or not summary.disabled:
        yield f"see {summary.out}/failures.parquet"


def _write_record(
    options: CompareProtocolsOptions,
    outcome: ProtocolsOutcome,
    field: LabelledItems,
    summaries: Mapping[str, Summary],
    timer: Timer,
) -> None:
    runs = {
        name: {
            "complete": summary.complete,
            "failures": summary.failures,
            "disabled": {name: asdict(why) for name, why in summary.disabled.items()},
            "sweeps": summary.sweeps,
            "dollars": summary.dollars,
        }
        for name, summary in summaries.items()
    }
    names = ("zelo-ray", "ray", "numpy", "scipy", "pyarrow")
    record = {
        "kind": _KIND,
        "finished": True,
        "complete": outcome.complete,
        "options": options.model_dump(mode="json"),
        "versions": {package: version(package) for package in names}
        | {"prices": table_version(options.prices), **loaded_packages()},
        "items": len(field.items),
        "queries": field.queries,
        "people": {
            "kind": field.people.kind,
            "said": field.people.judgment_count,
            "known": field.judgments_in_input,
        },
        "unit": outcome.unit,
        "together": asdict(outcome.together),
        "paid": asdict(outcome.paid),
        "runs": runs,
        "notes": outcome.notes,
        "seconds": timer.laps,
    }
    write_json(options.out, PROTOCOLS, record)
