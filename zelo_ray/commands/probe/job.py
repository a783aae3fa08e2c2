"""Draw and change documents, have them judged as `annotate` does, and measure what moved."""

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from importlib.metadata import version
from tempfile import TemporaryDirectory

from pydantic import ValidationError

from zelo_ray.command_options import ProbeOptions
from zelo_ray.commands.annotate.run import judge_pools
from zelo_ray.commands.probe.measured import (
    JudgedGrades,
    JudgedVotes,
    ProbeShift,
    ShiftedJudgment,
    have_enough_queries,
    measure_shifts,
    queries_needed,
    read_judgments,
)
from zelo_ray.commands.probe.sample import ProbeSample, draw_sample
from zelo_ray.engine.job import Timer, Watch, claim_output, with_absolute_places
from zelo_ray.engine.ledger import salt_of
from zelo_ray.engine.preflight import files_to_judge
from zelo_ray.engine.replacement import refuse_other_options
from zelo_ray.engine.write_results import Summary
from zelo_ray.errors import InputError, OptionError
from zelo_ray.evaluation.probes import PROBES, ProbeKind, load_probe
from zelo_ray.files.inputs import resolve_inputs
from zelo_ray.files.run_record import PROBE, record_start
from zelo_ray.files.storage import find_shards, write_json
from zelo_ray.files.tables import table_of, write_tables
from zelo_ray.files.wording import counted
from zelo_ray.options import AnnotateOptions
from zelo_ray.plugins import loaded_packages
from zelo_ray.protocols import load_protocol
from zelo_ray.providers import panel_of
from zelo_ray.providers.pricing import table_version
from zelo_ray.reasons import describe_disabled
from zelo_ray.records import RECORDING, Judge, first_error
from zelo_ray.reports.progress.recorder import fresh_display

KIND = "probe"
TOP = {"graded": 3.0, "zelo": 1.0}
"""The highest judgment of a document, by protocol."""
_OWN = {
    *("blocks", "dry_run", "inputs", "ledger", "out", "protocol"),
    *("corpus", "queries", "columns", "document_limit"),
}
"""Options that are not passed on: the pools that are judged are made by them."""
_BATTLES = {"cycles": 1, "repeats": 2}
"""Options of zelo: a pool is one pair, which is shown in both orders."""


@dataclass(frozen=True, slots=True)
class ProbeOutcome:
    """Shifts of judges, the judgments that show them, and notes on what is missing."""

    shifts: Sequence[ProbeShift]
    judgments: Sequence[ShiftedJudgment]
    notes: Sequence[str]
    complete: bool


def choose_probes(options: ProbeOptions) -> tuple[list[ProbeKind], list[str]]:
    """Return the probes to make, and notes on those that cannot be made.

    Raises:
        OptionError: a probe that was named is unknown, or cannot be made.
    """
    kinds, notes = list[ProbeKind](), list[str]()
    for name in dict.fromkeys(options.probes or PROBES):
        kind = load_probe(name)
        if kind.change or options.protocol == "zelo":
            kinds.append(kind)
            continue
        why = "grades are of one document alone; it takes --protocol zelo"
        if options.probes:
            raise OptionError(f"--probes {name}: {why}")
        notes.append(f"{name} was not probed: {why}")
    return kinds, notes


def panel_to_probe(options: ProbeOptions, *, keys: bool = True) -> tuple[Judge, ...]:
    """Return the judges; ``keys`` is whether those of their providers have to be there.

    Raises:
        PanelError: there is no such judge.
        OptionError: a judge only replays what was recorded, and of copies nothing was.
    """
    panel = panel_of(options, os.environ, keys=keys)
    if name := next((judge.name for judge in panel if RECORDING in judge.options), ""):
        raise OptionError(
            f"{name} replays recorded answers, and to what a probe asks none were recorded: name "
            "other --judges"
        )
    return panel


def make_plan(options: ProbeOptions, pools: str) -> AnnotateOptions:
    """Return the options of the run that judges the pools.

    Raises:
        OptionError: options conflict.
    """
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


def probe_judges(options: ProbeOptions, watch: Watch) -> ProbeOutcome:
    """Change documents, have them judged, and measure what moved.

    Args:
        options: of the command.
        watch: gets messages and progress.

    Raises:
        InputError, OptionError, PanelError, LockError, LedgerError: before anything was asked.
        Stopped: while asking; nothing that was paid for is lost.
    """
    timer = Timer()
    options = with_absolute_places(options)
    panel = panel_to_probe(options)
    kinds, notes = choose_probes(options)
    with fresh_display(watch), claim_output(options, watch, KIND):
        salt_of(options.ledger_dir)
        sample, input_notes = _draw(options, kinds, options.out, watch)
        plan = make_plan(options, sample.place)
        refuse_other_options(plan, panel)
        record_start(options.out, PROBE, {"kind": KIND, "options": options.model_dump(mode="json")})
    timer.lap("draw")
    with fresh_display(watch):
        summary = judge_pools(plan, watch)
    timer.lap("judge")
    with fresh_display(watch), claim_output(options, watch, KIND):
        judges = [judge.name for judge in panel]
        said = (JudgedGrades if plan.protocol == "graded" else JudgedVotes)(plan.out)
        judgments, missing = read_judgments(said, sample.pairs, judges)
        if not judgments:
            raise InputError(f"no answer can be used: see {plan.out}/failures.parquet")
        shifts = measure_shifts(
            judgments,
            missing,
            top=TOP[plan.protocol],
        )
        notes += [*input_notes, *sample.notes]
        notes += _describe_gaps(summary, sample, missing)
        enough = have_enough_queries(shifts)
        complete = enough and summary.complete and not sample.rejected and not missing
        outcome = ProbeOutcome(shifts, judgments, notes, complete)
        _write(options, outcome, sample, summary, timer)
    return outcome


@contextmanager
def plan_probe(options: ProbeOptions, watch: Watch) -> Iterator[AnnotateOptions]:
    """Yield the options of the run that judges the pools, for an estimate.

    The pools that they name exist until the context ends. Nothing else is written.

    Raises:
        InputError, OptionError, PanelError: as `probe_judges` would.
    """
    panel_to_probe(options, keys=False)
    kinds, notes = choose_probes(options)
    for note in notes:
        watch.say(f"{note}.")
    with TemporaryDirectory() as folder:
        yield make_plan(options, _draw(options, kinds, folder, watch)[0].place)


def _draw(
    options: ProbeOptions, kinds: Sequence[ProbeKind], folder: str, watch: Watch
) -> tuple[ProbeSample, list[str]]:
    """Read the input, and write the pools to judge to a folder; return also notes on it."""
    options, notes = resolve_inputs(options, folder, watch.say)
    shards = find_shards(options.inputs, options.out)
    shards, _ = files_to_judge(options.model_copy(update={"out": folder}), shards, watch)
    sample = draw_sample(options, kinds, shards, folder)
    copies = counted(len(sample.pairs), "changed copy", "changed copies")
    watch.say(
        f"{counted(sample.documents, 'document')} of {counted(sample.queries, 'query', 'queries')}"
        f" and {copies}: {', '.join(kind.name for kind in kinds)}"
    )
    return sample, notes


def _describe_gaps(
    summary: Summary, sample: ProbeSample, missing: dict[tuple[str, str], int]
) -> Iterator[str]:
    """Yield notes on what was not judged, and on invalid lines of the input."""
    yield from describe_disabled(summary.disabled)
    of = counted(len(sample.pairs), "pair")
    for judge in dict.fromkeys(judge for judge, _ in missing):
        count = sum(number for (name, _), number in missing.items() if name == judge)
        yield (f"{judge} did not judge {count:,} of {of}: see {summary.out}/failures.parquet")
    if sample.rejected:
        yield f"{counted(sample.rejected, 'invalid or repeated input line')} left out"


def _write(
    options: ProbeOptions,
    outcome: ProbeOutcome,
    sample: ProbeSample,
    summary: Summary,
    timer: Timer,
) -> None:
    tables = {
        "probes": table_of(outcome.shifts, ProbeShift),
        "shifted": table_of(outcome.judgments, ShiftedJudgment),
    }
    write_tables(options.out, tables)
    timer.lap("measure")
    packages = ("zelo-ray", "numpy", "scipy", "pyarrow")
    record = {
        "kind": KIND,
        "finished": True,
        "complete": outcome.complete,
        "options": options.model_dump(mode="json"),
        "versions": {name: version(name) for name in packages}
        | {"prices": table_version(options.prices), **loaded_packages()},
        "probes": [asdict(shift) for shift in outcome.shifts],
        "failing": [
            [shift.judge, shift.probe]
            for shift in outcome.shifts
            if shift.fails(options.fail_above)
        ],
        "needed": queries_needed(len(outcome.shifts)),
        "notes": list(outcome.notes),
        "summary": {
            "queries": sample.queries,
            "documents": sample.documents,
            "failures": summary.failures,
            "dollars": summary.dollars,
            "dollars_in_all": summary.dollars_in_all,
            "unpriced": summary.unpriced,
        },
        "seconds": timer.laps,
    }
    write_json(options.out, PROBE, record)
