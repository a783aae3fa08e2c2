"""Run any command, and return its result in one form, whatever its own function returns."""

import contextlib
import os
import shlex
import warnings
from collections.abc import Callable, Sequence
from dataclasses import asdict
from functools import partial
from importlib import import_module
from typing import TYPE_CHECKING, Any

from zelo_ray.commands import COMMANDS, import_name
from zelo_ray.errors import ExitStatus, ZeloError, format_error
from zelo_ray.files.wording import without_passwords
from zelo_ray.report import tracking
from zelo_ray.report.results import Results
from zelo_ray.reports import next_step
from zelo_ray.reports.command_lines import command_from_options
from zelo_ray.reports.document import CommandResult
from zelo_ray.reports.parts import Report
from zelo_ray.reports.progress.events import SilentWatch
from zelo_ray.reports.progress.recorder import ProgressRecorder
from zelo_ray.reports.terminal import make_console
from zelo_ray.reports.tracking import check_trackers, track_report

if TYPE_CHECKING:
    from zelo_ray.engine.job import Watch
    from zelo_ray.options import CommandOptions


def run_command(
    name: str, options: "CommandOptions", watch: "Watch", words: Sequence[str] = ()
) -> CommandResult | Results:
    """Run a command by its name; see `run_recorded`."""
    return run_recorded(import_name(f"commands.{COMMANDS[name].run}"), options, watch, words)


def run_recorded(
    run: "Callable[[Any, Watch], Report | CommandResult | Results]",
    options: "CommandOptions",
    watch: "Watch",
    words: Sequence[str] = (),
) -> CommandResult | Results:
    """Run a command, record its progress in its output, and its results at trackers."""
    trackers: Sequence[str] = getattr(options, "track", ())
    check_trackers(trackers)
    recorder = ProgressRecorder(watch)
    try:
        result = run(options, recorder)
    except BaseException as error:
        recorder.fail(error)
        raise
    if isinstance(result, Results):
        line = next_step.next_line(result.next_command) if result.next_command else ""
        recorder.end(result.status, line, is_news=not result.is_current)
        _track(trackers, result, options, watch)
        return result
    if isinstance(result, Report):
        result = with_lines(result)
    if result.report:
        step = None
        if recorder.is_recording:
            with contextlib.suppress(ZeloError, OSError):  # no reason for a run to fail at its end
                words = words or shlex.split(command_from_options(options))[1:]
                step = result.next_step(words)
        line = next_step.next_line(step) if step else ""
        recorder.end(result.status, line, is_news=not result.report.is_up_to_date)
        warn = warnings.warn if type(watch) is SilentWatch else watch.say
        track_report(trackers, result.report, options, watch.say, warn)
    return result


def _track(
    trackers: Sequence[str], results: Results, options: "CommandOptions", watch: "Watch"
) -> None:
    """Log results to trackers; one that fails is a warning."""
    warn = warnings.warn if type(watch) is SilentWatch else watch.say
    for tracker in trackers:
        try:
            watch.say(f"--track {tracker}: logged to {tracking.log_run(tracker, results, options)}")
        except Exception as error:  # noqa: BLE001 - each tracker has its own errors
            why = without_passwords(format_error(error))
            warn(
                f"--track {tracker}: the run could not be logged ({why}); its results are complete "
                "without it, and the same command logs them again"
            )


def with_lines(report: Report, **values: Any) -> CommandResult:
    """Return the result of a command with a report, and what is shown below it."""
    return CommandResult(status=report.status, report=report, next_step=report.next_step, **values)


def compare(options: Any, watch: "Watch") -> Results:
    """Compare ways of judging, or estimate what each would cost."""
    from zelo_ray.commands.compare.run import plan_ways, run

    return _estimate_plans(plan_ways, options, watch) if options.dry_run else run(options, watch)


def _run(name: str, options: Any, watch: "Watch") -> Report:
    report: Report = import_module(f"zelo_ray.commands.{name}.run").run(options, watch)
    return report


def _estimate_plans(plan: Callable[..., Any], options: Any, watch: "Watch") -> Results:
    from zelo_ray.commands.dry_run import estimate_jobs

    with plan(options, watch) as plans:
        return estimate_jobs(plans, options)


def probe(options: Any, watch: "Watch") -> Results:
    """Probe judges, or estimate what it would cost."""
    from zelo_ray.commands.probe.run import plan_probe, run

    if not options.dry_run:
        return run(options, watch)
    from zelo_ray.commands.dry_run import estimate_jobs

    with plan_probe(options, watch) as plan:
        return estimate_jobs({"probe": plan}, options)


def fit(options: Any, _watch: "Watch") -> CommandResult:
    """Fit ratings to comparisons."""
    from zelo_ray.commands.fit import fit
    from zelo_ray.commands.fit.report import build_report

    fitted = fit(options)
    return CommandResult(
        status=ExitStatus.INCOMPLETE if fitted.unscored else ExitStatus.COMPLETE,
        report=build_report(fitted, options),
        figures={
            "comparisons": fitted.rows,
            "scores": fitted.scores.to_pylist(),
            "unscored": fitted.unscored,
        },
        tables={"scores": fitted.scores},
        next_step=partial(next_step.after_fit, options),
        files=[options.out] if options.out else [],
    )


def label(options: Any, watch: "Watch") -> CommandResult:
    """Draw documents or pairs for people, and collect their answers."""
    from zelo_ray.commands.label import label
    from zelo_ray.commands.label.page import labelling_page

    done = label(options, watch.say, lambda work: partial(labelling_page, work))
    return _of_lines(
        done.lines, done.next_command, figures=done.figures, out=options.out, files=done.files
    )


def _of_lines(lines: Any, step: str | None, **values: Any) -> CommandResult:
    """Return a result whose lines are also for programs, and the command that follows."""
    return CommandResult(lines=lines, lead=lines, next_step=lambda _words: step, **values)


def convert(options: Any, _watch: "Watch") -> CommandResult:
    """Convert files."""
    from zelo_ray.commands.convert import convert

    summary, out = convert(options), options.out
    step = next_step.after_convert(options)
    figures = {"counts": summary.counts}
    return _of_lines(summary.split("\n"), step, figures=figures, out=out, files=[out])


def prompt(options: Any, _watch: "Watch") -> CommandResult:
    """Find the requests that judges would get."""
    from zelo_ray.commands.prompt import find_requests, requests_of_run
    from zelo_ray.commands.prompt.screen import bodies_of, describe_requests

    if options.inputs:
        requests = find_requests(options, os.environ)
    else:
        requests = requests_of_run(options.out, os.environ, options.query, options.doc)
    shown = bodies_of(requests) if options.body else describe_requests(requests)
    return CommandResult(
        lines=[*shown],
        notes=requests.notes,
        figures={
            "query_id": requests.query_id,
            "query": requests.query,
            "requests": requests.requests,
            "known_requests": requests.known_count,
            "has_later_rounds": requests.has_later_rounds,
        },
    )


def doctor(options: Any, watch: "Watch") -> CommandResult:
    """Check this machine, its keys and judges."""
    import pyarrow as pa

    from zelo_ray.commands.doctor.finding import Finding
    from zelo_ray.commands.doctor.run import has_no_judge, is_wrong, run
    from zelo_ray.commands.doctor.screen import describe_findings

    findings = run(options, watch.say)
    lines = [*describe_findings(findings, min(120, make_console().width))]
    wrong, rows = is_wrong(findings), [asdict(finding) for finding in findings]
    step = next_step.after_doctor(options, wrong=wrong, no_judge=has_no_judge(findings))
    schema = pa.schema([(name, pa.string()) for name in Finding.__slots__])
    return CommandResult(
        status=ExitStatus.FAILED if wrong else ExitStatus.COMPLETE,
        lines=lines,
        lead=lines[-1:],
        figures={"findings": rows},
        tables={"findings": pa.Table.from_pylist(rows, schema)},
        next_step=lambda _words: step,
    )


def batches(options: Any, _watch: "Watch") -> CommandResult:
    """List batches, or cancel them."""
    from zelo_ray.commands.batches import batches_table, list_batches

    found = list_batches(options.run, os.environ, cancel=options.cancel)
    return CommandResult(lines=[batches_table(found)], figures={"batches": found})


def sample(options: Any, _watch: "Watch") -> CommandResult:
    """Write the sample data."""
    from zelo_ray.commands.sample import write_sample

    out, names = options.out, write_sample(options.out)
    lines = [f"{out} holds the sample: {', '.join(names)}"]
    figures = {"counts": {"files": len(names)}}
    files = [f"{out}/{name}" for name in names]
    return _of_lines(lines, next_step.after_sample(out), figures=figures, out=out, files=files)


def report(options: Any, _watch: "Watch") -> CommandResult:
    """Write the page of a run, or an index over several."""
    from zelo_ray.commands.report.run import run

    lines, page = run(options)
    return _of_lines(lines, None, figures={"page": page}, out=page, files=[page])


def watch(options: Any, _watch: "Watch") -> CommandResult:
    """Show a run until it ends, or once."""
    from zelo_ray.commands.watch.run import watch_run

    with contextlib.suppress(KeyboardInterrupt):  # by which an onlooker leaves
        lines, figures = watch_run(options, make_console())
        return CommandResult(lines=lines, figures=figures, out=options.run)
    return CommandResult(out=options.run)
