"""Run `tune`: judge the halves with every candidate over one ledger, choose, test and write."""

from collections.abc import Sequence

from zelo_ray.command_options import TuneOptions
from zelo_ray.commands.compare_protocols.labelled_items import LabelledItems, collect_items
from zelo_ray.commands.compare_protocols.plans import unused_by_all
from zelo_ray.commands.tune.candidates import (
    AS_IT_IS,
    Candidate,
    make_candidates,
    plan_candidate,
    refuse_strangers,
)
from zelo_ray.commands.tune.choice import choose
from zelo_ray.commands.tune.halves import FEW, FIRST, SECOND, split_items
from zelo_ray.commands.tune.measured import measure_outcome
from zelo_ray.commands.tune.outcome import TuneOutcome, write_outcome
from zelo_ray.commands.tune.record import KIND, describe_gaps, write_record
from zelo_ray.commands.tune.runs import CandidateRuns
from zelo_ray.commands.where import on_one_ray
from zelo_ray.engine.job import Timer, Watch, claim_output, with_absolute_places
from zelo_ray.engine.ledger import salt_of
from zelo_ray.files.run_record import TUNE, record_start
from zelo_ray.files.wording import counted
from zelo_ray.options import AnnotateOptions
from zelo_ray.reports.progress.recorder import fresh_display


def tune_judging(options: TuneOptions, watch: Watch) -> tuple[TuneOutcome, AnnotateOptions]:
    """Let candidates judge what people labelled, choose one, and test it on other queries.

    Args:
        options: of the command.
        watch: gets messages and progress.

    Returns:
        The outcome, and the options of the chosen candidate.

    Raises:
        InputError, OptionError, PanelError, OptionError, LockError, LedgerError: before
            anything was asked.
        Stopped: while asking; nothing that was paid for is lost.
    """
    timer = Timer()
    options = with_absolute_places(options)
    candidates, notes = make_candidates(options)
    refuse_strangers(options, candidates)
    with fresh_display(watch), claim_output(options, watch, KIND):
        salt_of(options.ledger_dir)
        field = collect_labelled(options, options.out, watch, candidates)
        runs = CandidateRuns(options, field, split_items(field, options.out), watch)
        for candidate in candidates:
            runs.add(candidate)
        notes += announce(runs, watch)
        started = {"kind": KIND, "options": options.model_dump(mode="json")}
        record_start(options.out, TUNE, started)
    timer.lap("read")
    with on_one_ray(options):
        for name in list(runs.candidates):
            runs.judge(name, FIRST)
        timer.lap("first half")
        chosen = choose(runs.halves[FIRST].items, runs.verdicts(FIRST), options.measure)
        every = options.second_half == "all"
        for name in runs.candidates if every else dict.fromkeys((AS_IT_IS, chosen)):
            runs.judge(name, SECOND)
        timer.lap("second half")
    with fresh_display(watch), claim_output(options, watch, KIND):
        outcome = measure_outcome(runs, chosen)
        outcome.notes = [*notes, *describe_gaps(runs)]
        outcome.complete = not field.rejected and all(
            summary.complete for summary in runs.summaries.values()
        )
        chosen_plan = plan_candidate(options, runs.candidates[chosen], options.inputs, options.out)
        write_outcome(options.out, outcome, chosen_plan)
        timer.lap("measure")
        write_record(runs, outcome, timer)
    return outcome, chosen_plan


def collect_labelled(
    options: TuneOptions,
    folder: str,
    watch: Watch,
    candidates: Sequence[Candidate],
) -> LabelledItems:
    """Write the pools that people labelled to a folder; leave out queries of worked examples.

    Args:
        options: of the command.
        folder: the directory or URL.
        watch: gets messages.
        candidates: all of them.
    """
    examples = [text for candidate in candidates if (text := candidate.changes.get("anchors"))]
    protocols = dict.fromkeys(candidate.protocol for candidate in candidates)
    return collect_items(options, folder, watch, protocols, examples)


def announce(runs: CandidateRuns, watch: Watch) -> list[str]:
    """Say what will be judged, by which candidates; return what the report repeats of it."""
    options, field, notes = runs.options, runs.field, list[str]()
    halves = " and ".join(f"{half.queries:,}" for half in runs.halves.values())
    watch.say(
        f"{counted(field.queries, 'labelled query', 'labelled queries')}, {halves} in the first "
        f"and second half, with {len(field.items):,} pairs of documents; candidates: "
        f"{', '.join(runs.candidates)}"
    )
    protocols = [candidate.protocol for candidate in runs.candidates.values()]
    if flags := unused_by_all(options, protocols, TuneOptions):
        flag_names = ", ".join(f"--{name.replace('_', '-')}" for name in flags)
        notes.append(f"none of these candidates uses {flag_names}")
    if field.queries < FEW:
        notes.append(
            f"people labelled {counted(field.queries, 'query', 'queries')}: with fewer than {FEW} "
            "nothing can be shown, whatever the candidates do"
        )
    for line in notes:
        watch.say(line)
    return notes
