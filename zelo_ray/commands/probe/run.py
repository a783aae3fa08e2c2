"""Run `probe`: change documents, have them judged as `annotate` does, and measure what moved."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from tempfile import TemporaryDirectory

from pydantic import ValidationError

from zelo_ray.command_options import ProbeOptions
from zelo_ray.commands.annotate.run import judge_pools
from zelo_ray.commands.dry_run import estimate_jobs
from zelo_ray.commands.probe.changes import PROBES, Sample, draw_sample
from zelo_ray.commands.probe.measure import (
    ShiftedJudgment,
    is_harmful,
    measure_shifts,
    read_judgments,
)
from zelo_ray.commands.probe.report import build_report
from zelo_ray.engine.job import Watch, claim_output, with_absolute_places
from zelo_ray.engine.ledger import salt_of
from zelo_ray.engine.lock import remove_folders_if_refused
from zelo_ray.engine.preflight import files_to_judge
from zelo_ray.engine.replacement import refuse_other_options
from zelo_ray.engine.write_results import Summary
from zelo_ray.errors import InputError, OptionError
from zelo_ray.evaluation.significance import queries_needed
from zelo_ray.files.inputs import resolve_inputs
from zelo_ray.files.run_record import RUN, record_start
from zelo_ray.files.storage import find_shards
from zelo_ray.files.tables import table_of
from zelo_ray.files.wording import counted
from zelo_ray.names import did_you_mean
from zelo_ray.options import AnnotateOptions
from zelo_ray.protocols import load_protocol
from zelo_ray.providers import panel_of
from zelo_ray.providers.pricing import table_version
from zelo_ray.reasons import describe_disabled
from zelo_ray.records import first_error
from zelo_ray.report.command_lines import repeat_with, sibling_path
from zelo_ray.report.figures import figures_table
from zelo_ray.report.results import Results, finish

KIND = "probe"
_OWN = {
    *("blocks", "dry_run", "inputs", "ledger", "out", "protocol"),
    *("corpus", "queries", "columns", "document_limit"),
}
"""Options that are not passed on: the pools that are judged are made by them."""
_BATTLES = {"cycles": 1, "repeats": 2}
"""Options of zelo: a pool is one pair, which is shown in both orders."""
_ONLY_WHAT_IT_SAYS = (
    "Only what a document says about the query counts: not its length, its language or its source, "
    "and not what it says of itself."
)
"""Instructions against what a probe found."""


def run(options: ProbeOptions, watch: Watch) -> Results:
    """Change documents, have them judged, and measure which judges moved."""
    if options.dry_run:
        with _plan_for_estimate(options, watch) as plan:
            return estimate_jobs({"probe": plan}, options)
    as_given, options = options, with_absolute_places(options)
    with remove_folders_if_refused(options.out, options.ledger_dir):
        panel, probes = panel_of(options, os.environ), choose_probes(options)
        with claim_output(options, watch, KIND):
            salt_of(options.ledger_dir)
            sample, notes = _draw(options, probes, options.out, watch)
            plan = make_plan(options, sample.place)
            refuse_other_options(plan, panel)
            started = {"kind": KIND, "options": options.model_dump(mode="json")}
            record_start(options.out, RUN, started)
        summary = judge_pools(plan, watch)
        with claim_output(options, watch, KIND):
            notes += [*sample.notes, *describe_disabled(summary.disabled)]
            results = _finish(options, plan, sample, summary, notes)
    if results.record["failing"] and not as_given.instructions:
        changes = {
            "instructions": _ONLY_WHAT_IT_SAYS,
            "out": sibling_path(as_given.out, "instructed"),
        }
        results.next_command = repeat_with(as_given, **changes)
    return results


def _finish(
    options: ProbeOptions, plan: AnnotateOptions, sample: Sample, summary: Summary, notes: list[str]
) -> Results:
    """Measure judges, and write."""
    names = [judge.name for judge in panel_of(plan, os.environ)]
    judgments, missing = read_judgments(plan.out, plan.protocol, sample.pairs, names)
    if not judgments:
        raise InputError(f"no answer can be used: see {plan.out}/failures.parquet")
    figures = measure_shifts(judgments)
    shifts = [row for row in figures if row.what == "shift"]
    failing = [[row.of, row.against] for row in shifts if is_harmful(row, options.fail_above)]
    notes += [
        f"{judge} did not judge {count:,} of {counted(len(sample.pairs), 'pair')}: see "
        f"{summary.out}/failures.parquet."
        for judge, count in missing.items()
    ]
    needed, fewest = queries_needed(len(shifts)), dict[str, int]()
    for row in shifts:
        fewest[row.against] = min(row.queries, fewest.get(row.against, row.queries))
    few = [f"{count:,} ({probe})" for probe, count in fewest.items() if count < needed]
    if few:
        notes.append(
            f"Too few queries: {', '.join(few)}; the shift of a probe cannot be significant with "
            f"fewer than {needed:,}."
        )
    return finish(
        KIND,
        options,
        {"figures": figures_table(figures), "shifted": table_of(judgments, ShiftedJudgment)},
        build_report,
        complete=not few and summary.complete and not sample.rejected and not missing,
        is_worse=bool(failing),
        prices=table_version(options.prices),
        failing=failing,
        judges=names,
        summary={
            "queries": len({pair.query_id for pair in sample.pairs}),
            "documents": len({(pair.query_id, pair.doc_id) for pair in sample.pairs}),
            "dollars_in_all": summary.dollars_in_all,
            "unpriced": summary.unpriced,
        },
        notes=notes,
    )


@contextmanager
def _plan_for_estimate(options: ProbeOptions, watch: Watch) -> Iterator[AnnotateOptions]:
    """Yield the options of the run that judges the pools; these exist until then."""
    probes = choose_probes(options)
    with TemporaryDirectory() as folder:
        yield make_plan(options, _draw(options, probes, folder, watch)[0].place)


def choose_probes(options: ProbeOptions) -> list[str]:
    """Return the probes to make: those that are named, or all that the protocol can make."""
    for name in options.probes:
        if name not in PROBES:
            names = f"{did_you_mean(name, PROBES)}; there are {', '.join(PROBES)}"
            raise OptionError(f"--probes: no such probe {name!r}{names}")
        if not PROBES[name].change and options.protocol != "zelo":
            why = "grades are of one document alone; it takes --protocol zelo"
            raise OptionError(f"--probes {name}: {why}")
    every = [name for name in PROBES if PROBES[name].change or options.protocol == "zelo"]
    return [*dict.fromkeys(options.probes or every)]


def make_plan(options: ProbeOptions, pools: str) -> AnnotateOptions:
    """Return the options of the run that judges the pools; raise `OptionError` if they conflict."""
    protocol = options.protocol
    kind = load_protocol(protocol).options
    names = options.model_fields_set & kind.model_fields.keys() - _OWN
    values = {
        **{name: getattr(options, name) for name in names},
        **(_BATTLES if protocol == "zelo" else {}),
        "inputs": (pools,),
        "out": f"{options.out.rstrip('/')}/{protocol}",
        "ledger": options.ledger_dir,
        "protocol": protocol,
    }
    try:
        return kind.model_validate(values)
    except ValidationError as error:
        raise OptionError(first_error(error)) from None


def _draw(
    options: ProbeOptions, probes: list[str], folder: str, watch: Watch
) -> tuple[Sample, list[str]]:
    """Read the input, and write the pools to judge to a folder; return also notes on it."""
    options, notes = resolve_inputs(options, folder, watch.say)
    shards = find_shards(options.inputs, options.out)
    shards, _ = files_to_judge(options.model_copy(update={"out": folder}), shards, watch)
    sample = draw_sample(options, probes, shards, folder)
    copies = counted(len(sample.pairs), "changed copy", "changed copies")
    watch.say(f"{copies} of documents: {', '.join(probes)}")
    return sample, notes
