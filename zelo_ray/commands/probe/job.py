"""Draw and change documents, have them judged as `annotate` does, and measure what moved."""

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from importlib.metadata import version
from tempfile import TemporaryDirectory

from pydantic import ValidationError

from zelo_ray.commands.annotate.job import judge_pools
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
from zelo_ray.commands.probe.recall import RECALL, Recitations, RepeatedPassage, draw_queries
from zelo_ray.commands.probe.sample import ProbeSample, draw_sample
from zelo_ray.engine.job import Timer, Watch, claim_output, with_absolute_places
from zelo_ray.engine.ledger import salt_of
from zelo_ray.engine.preflight import files_to_judge
from zelo_ray.engine.replacement import refuse_other_options
from zelo_ray.engine.write_results import Summary
from zelo_ray.errors import InputError, OptionError
from zelo_ray.evaluation.probes import PROBES, ProbeKind, load_probe
from zelo_ray.formats.input import resolve_inputs
from zelo_ray.formats.pools import find_shards
from zelo_ray.formats.results import remove_tables, write_json, write_tables
from zelo_ray.formats.run_record import PROBE, record_start
from zelo_ray.formats.tables import table_of
from zelo_ray.formats.wording import counted
from zelo_ray.options import AnnotateOptions, ProbeOptions
from zelo_ray.plugins import loaded_packages
from zelo_ray.protocols import load_protocol
from zelo_ray.protocols.recitation import NAME as RECITATION
from zelo_ray.providers import panel_of
from zelo_ray.providers.pricing import table_version
from zelo_ray.providers.registry import ENCODERS
from zelo_ray.reasons import describe_disabled
from zelo_ray.records import RECORDING, Judge, first_error
from zelo_ray.reports.progress.recorder import fresh_display

KIND = "probe"
TOP = {"graded": 3.0, "zelo": 1.0, RECITATION: 1.0}
"""The highest judgment of a document, by protocol."""
_FOLDERS = {RECITATION: RECALL}
"""Where the judgments are in the results, if not in a folder of the protocol's name."""
_OF_JUDGMENTS = {"instructions", "passages", "show_query", "show_metadata"}
"""Options that are not passed on where nothing is judged, and the query alone is shown."""
_UNREAD = ENCODERS | {"offline"}
"""Providers whose judges cannot write what they remember."""
_OWN = {
    *("blocks", "dry_run", "inputs", "ledger", "out", "protocol"),
    *("corpus", "queries", "columns", "document_limit"),
}
"""Options that are not passed on: the pools that are judged are made by them."""
_BATTLES = {"cycles": 1, "repeats": 2}
"""Options of zelo: a pool is one pair, which is shown in both orders."""


@dataclass(frozen=True, slots=True)
class ProbeOutcome:
    """Shifts of judges, the judgments that show them, and notes on what is missing.

    ``repeated`` is what judges repeated of documents from memory; None if they were not asked.
    """

    shifts: Sequence[ProbeShift]
    judgments: Sequence[ShiftedJudgment]
    repeated: Sequence[RepeatedPassage] | None
    notes: Sequence[str]
    complete: bool


def choose_probes(options: ProbeOptions) -> tuple[list[ProbeKind], list[str]]:
    """Return the probes to make, and notes on those that cannot be made.

    A probe of memory is made where it is named, and by itself.

    Raises:
        OptionError: a probe that was named is unknown, or cannot be made.
    """
    kinds, notes = list[ProbeKind](), list[str]()
    names = dict.fromkeys(options.probes or PROBES)
    for name in names:
        kind = load_probe(name)
        if kind.is_of_memory and not options.probes:
            continue
        why = ""
        if kind.is_of_memory and len(names) > 1:
            why = "it shows no documents, so it takes a run of its own: name it alone"
        elif kind.is_of_memory and options.protocol == "zelo":
            why = "it shows no documents, so it takes no --protocol"
        elif kind.needs_translation and options.translations is None:
            why = "it takes the same documents in another language: --translations FILE"
        elif kind.change is None and not kind.is_of_memory and options.protocol == "graded":
            why = "grades are of one document alone; it takes --protocol zelo"
        if why and options.probes:
            raise OptionError(f"--probes {name}: {why}")
        if why:
            notes.append(f"{name} was not probed: {why}")
        else:
            kinds.append(kind)
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
    unread = (judge.name for judge in panel if judge.provider in _UNREAD)
    if asks_for_memory(options) and (name := next(unread, "")):
        raise OptionError(
            f"--probes {RECALL}: {name} is no language model and writes nothing from memory: name "
            "other --judges"
        )
    return panel


def asks_for_memory(options: ProbeOptions) -> bool:
    """Return whether judges are asked what they remember, and judge nothing."""
    return any(load_probe(name).is_of_memory for name in options.probes)


def make_plan(options: ProbeOptions, pools: str) -> AnnotateOptions:
    """Return the options of the run that judges the pools.

    Raises:
        OptionError: options conflict.
    """
    protocol = RECITATION if asks_for_memory(options) else options.protocol
    kind = load_protocol(protocol).options
    names = options.model_fields_set & kind.model_fields.keys() - _OWN
    if protocol == RECITATION:
        names -= _OF_JUDGMENTS
    values = {
        **{name: getattr(options, name) for name in names},
        **(_BATTLES if protocol == "zelo" else {}),
        "inputs": (pools,),
        "out": f"{options.out.rstrip('/')}/{_FOLDERS.get(protocol, protocol)}",
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
        sample = _draw(options, kinds, options.out, watch)
        plan = make_plan(options, sample.place)
        refuse_other_options(plan, panel)
        record_start(options.out, PROBE, {"kind": KIND, "options": options.model_dump(mode="json")})
    timer.lap("draw")
    with fresh_display(watch):
        summary = judge_pools(plan, watch)
    timer.lap("judge")
    with fresh_display(watch), claim_output(options, watch, KIND):
        judges = [judge.name for judge in panel]
        said = _read_answers(plan, sample)
        judgments, missing = read_judgments(said, sample.pairs, judges)
        if not judgments:
            raise InputError(f"no answer can be used: see {plan.out}/failures.parquet")
        shifts = measure_shifts(
            judgments,
            missing,
            top=TOP[plan.protocol],
            resamples=options.resamples,
            seed=options.seed,
        )
        notes += [*sample.notes, *_describe_gaps(summary, sample, missing)]
        enough = have_enough_queries(shifts)
        complete = enough and summary.complete and not sample.rejected and not missing
        repeated = said.repeated if isinstance(said, Recitations) else None
        outcome = ProbeOutcome(shifts, judgments, repeated, notes, complete)
        _write(options, outcome, sample, summary, timer)
    return outcome


def _read_answers(
    plan: AnnotateOptions, sample: ProbeSample
) -> JudgedGrades | JudgedVotes | Recitations:
    """Read what judges said, of whichever kind it is."""
    if plan.protocol == RECITATION:
        return Recitations(plan.out, sample.place)
    return (JudgedGrades if plan.protocol == "graded" else JudgedVotes)(plan.out)


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
        yield make_plan(options, _draw(options, kinds, folder, watch).place)


def _draw(
    options: ProbeOptions, kinds: Sequence[ProbeKind], folder: str, watch: Watch
) -> ProbeSample:
    """Read the input, and write the pools to judge to a folder."""
    options = resolve_inputs(options, folder, watch.say)
    shards = find_shards(options.inputs, options.out)
    shards, _ = files_to_judge(options.model_copy(update={"out": folder}), shards, watch)
    memory = asks_for_memory(options)
    sample = (
        draw_queries(options, shards, folder)
        if memory
        else draw_sample(options, kinds, shards, folder)
    )
    copies = counted(len(sample.pairs), "changed copy", "changed copies")
    watch.say(
        f"{counted(sample.documents, 'document')} of {counted(sample.queries, 'query', 'queries')}"
        f"{', which are not shown' if memory else f' and {copies}'}: "
        f"{', '.join(kind.name for kind in kinds)}"
    )
    return sample


def _describe_gaps(
    summary: Summary, sample: ProbeSample, missing: dict[tuple[str, str], int]
) -> Iterator[str]:
    """Yield notes on what was not judged, and on invalid lines of the input."""
    yield from describe_disabled(summary.disabled)
    memory = any(load_probe(name).is_of_memory for _, name in missing)
    of = counted(len(sample.pairs), *(("query", "queries") if memory else ("pair",)))
    for judge in dict.fromkeys(judge for judge, _ in missing):
        count = sum(number for (name, _), number in missing.items() if name == judge)
        yield (
            f"{judge} did not {'answer' if memory else 'judge'} {count:,} of {of}: see "
            f"{summary.out}/failures.parquet"
        )
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
    if outcome.repeated is None:
        remove_tables(options.out, ["repeated"])  # of an earlier run
    else:
        tables["repeated"] = table_of(outcome.repeated, RepeatedPassage)
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
